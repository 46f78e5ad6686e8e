//! Starts a run. Everything is read, approved and sealed first; the pointer that holds the session is written last.

use super::ControlError;
use crate::contract::{self, SealRequest};
use ralph_core::drive;
use ralph_core::gate::Gate;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::policy::OnTampering;
use ralph_core::record::{
    FORMAT_VERSION, ListKind, ListSeal, ProcessIdentity, RunOrigin, RunRecord,
};
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_core::source::work_list;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, RunFiles, StoreError};
use ralph_lists::list_approval;
use ralph_lists::loop_directory;
use ralph_lists::run_lists::{self, ListFile, SealedList};
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Leaves out letters and digits that people confuse when they read an id aloud.
const ID_ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// The first checkpoint of a large tree takes a while.
const SEAL_TIMEOUT: Duration = Duration::from_mins(5);

/// The arguments of `ralph start`, or of another command that starts a run.
#[derive(Clone, Debug)]
pub struct RunStartRequest {
    pub session: SessionId,
    pub project: PathBuf,
    pub goal: Vec<u8>,
    pub limits: RunLimits,
    /// Directories with `feature_list.json`.
    pub features: Vec<PathBuf>,
    /// Markdown files whose items must be completed.
    pub plans: Vec<PathBuf>,
    /// Whether the client's own task list must be completed.
    pub tasks: bool,
    pub promise: Option<String>,
    pub checklist: bool,
    /// Values that must not show up in a title.
    pub secrets: Vec<String>,
    /// The policy to seal into the run, if any.
    pub policy: Option<ApprovedPolicy>,
    /// The stated complexity of the work, from 0 to 10.
    pub complexity: Option<u8>,
    /// The host's id of the prompt that started the run, if a prompt did.
    pub prompt: Option<String>,
    /// The host process that started the run, if known.
    pub process: Option<ProcessIdentity>,
    /// Whether the agent must report phases.
    pub phases: bool,
    /// The length of the transcript at the start; 0 if there is none.
    pub transcript_length: u64,
    /// The runner's settings; `None` if a person starts the agent.
    pub drive: Option<Box<drive::DriveSettings>>,
    /// The id, if it was chosen earlier because a branch or directory is named after it.
    pub id: Option<RunId>,
}

/// A policy that a person approved.
#[derive(Clone, Debug)]
pub struct ApprovedPolicy {
    pub config: ProjectConfig,
    pub subject: ApprovalSubject,
}

/// Validates a request without starting the run.
pub fn check_request(home: &RalphHome, order: &RunStartRequest) -> Result<(), ControlError> {
    validate_request(home, order).map(drop)
}

fn validate_request(
    home: &RalphHome,
    order: &RunStartRequest,
) -> Result<(Vec<SealedList>, Option<ApprovedPolicy>), ControlError> {
    order.limits.validate()?;
    if order.is_empty() {
        return Err(ControlError::NothingToHold);
    }
    let lists = seal_lists(order)?;
    let policy = choose_policy(home, order, &lists)?;
    Ok((lists, policy))
}

/// Starts a run and points the session at it. Fails if another active run holds the session.
pub fn start_run(
    home: &RalphHome,
    env: &Env,
    order: &RunStartRequest,
    deadline: &Deadline,
) -> Result<RunRecord, ControlError> {
    let (lists, policy) = validate_request(home, order)?;
    let _lock =
        session_pointer::lock_session(home, &order.session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = session_pointer::read_pointer(home, &order.session)?
        && !pointer.ended
        && let Ok(opened) = store::load_run(home, &pointer.run)
        && !matches!(opened.state.phase, RunPhase::Ended(_))
        && !fs::exists(&home.tombstone(pointer.run.as_str()))
    {
        return Err(ControlError::AlreadyHeld { session: order.session.clone(), run: pointer.run });
    }
    let seals: Vec<ListSeal> = lists.iter().map(|list| list.seal.clone()).collect();
    let copies: Vec<Vec<u8>> = lists.iter().map(|list| list.copy.clone()).collect();
    let papers = RunFiles { goal: &order.goal, lists: &copies };
    let run = loop {
        let id = order.id.clone().unwrap_or_else(|| new_run_id(home));
        let mut run = new_run(id, order, &seals);
        if let Some(ApprovedPolicy { config, subject }) = &policy {
            let sealing = SealRequest {
                home,
                env,
                run: &run.id,
                exclude: &run_lists::excluded_paths(home, &run),
                complexity: order.complexity,
                programs: &list_programs(&lists),
                deadline: Deadline::after(SEAL_TIMEOUT),
            };
            run.on_tampering = config.policy.on_tampering;
            run.seal = Some(Box::new(contract::seal_policy(&sealing, config, subject)?));
        }
        if store::create_run(home, &run, &papers, deadline)? {
            break run;
        }
        if order.id.is_some() {
            return Err(ControlError::RunExists(run.id));
        }
    };
    // A person starts a new run here, so an earlier cancellation of the session no longer applies.
    fs::remove_file(&home.tombstone(order.session.as_str()))?;
    session_pointer::write_pointer(
        home,
        &order.session,
        &SessionPointer { v: FORMAT_VERSION, run: run.id.clone(), ended: false },
    )?;
    Ok(run)
}

/// Reads and seals the feature lists and plans as they are now.
fn seal_lists(order: &RunStartRequest) -> Result<Vec<SealedList>, ControlError> {
    let features = order.features.iter().map(|directory| ListFile {
        path: directory.join(loop_directory::FEATURES_FILE),
        kind: ListKind::Features,
    });
    let plans =
        order.plans.iter().map(|path| ListFile { path: path.clone(), kind: ListKind::Plan });
    let project = order.policy_project();
    let mut sealed = Vec::new();
    for named in features.chain(plans) {
        sealed.push(run_lists::seal_list(&project, &named)?);
    }
    Ok(sealed)
}

/// The policy for the run. Without a policy file, an empty one is used if lists have checks or a runner drives the run.
/// Fails if a person has not approved the checks of a list.
fn choose_policy(
    home: &RalphHome,
    order: &RunStartRequest,
    lists: &[SealedList],
) -> Result<Option<ApprovedPolicy>, ControlError> {
    let project = order.policy_project();
    let mut has_checks = false;
    for list in lists.iter().filter(|list| !list.seal.approval.is_empty()) {
        has_checks = true;
        if !trust::is_hash_approved(home, &project.to_string_lossy(), &list.seal.approval) {
            let path = Path::new(&list.seal.path);
            let path = path.strip_prefix(&order.project).unwrap_or(path);
            let trust = list_approval::trust_command(list.seal.kind, path);
            let list = text::clean_line(&path.to_string_lossy(), 200);
            return Err(ControlError::Unapproved { list, trust });
        }
    }
    // A driven run needs a policy even without gates, because only a sealed policy checkpoints the start.
    if order.policy.is_some() || !(has_checks || order.drive.is_some()) {
        return Ok(order.policy.clone());
    }
    let (mut config, subject) = contract::load_default_policy(home, &order.project)?;
    // The request names no policy, so its gates do not apply.
    config.policy.gates.clear();
    Ok(Some(ApprovedPolicy {
        config,
        subject: ApprovalSubject { references: Vec::new(), ..subject },
    }))
}

fn list_programs(lists: &[SealedList]) -> Vec<Gate> {
    let checks = |(number, list): (usize, &SealedList)| work_list::check_gates(number, &list.items);
    run_lists::one_check_per_program(&lists.iter().enumerate().flat_map(checks).collect::<Vec<_>>())
}

impl RunStartRequest {
    /// A request with a goal and the default limits.
    pub fn from_goal(session: &SessionId, project: &Path, goal: &[u8]) -> Self {
        Self {
            session: session.clone(),
            project: project.to_path_buf(),
            goal: goal.to_vec(),
            limits: RunLimits::DEFAULT,
            features: Vec::new(),
            plans: Vec::new(),
            tasks: false,
            promise: None,
            checklist: false,
            secrets: Vec::new(),
            policy: None,
            complexity: None,
            prompt: None,
            process: None,
            phases: false,
            transcript_length: 0,
            drive: None,
            id: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.goal.is_empty()
            && self.features.is_empty()
            && self.plans.is_empty()
            && self.promise.is_none()
            && !self.checklist
            && !self.tasks
            && self.policy.is_none()
    }

    /// The directory of the policy file, or where it would be. Checks run there.
    fn policy_project(&self) -> PathBuf {
        match &self.policy {
            Some(approved) => approved.config.project.clone(),
            None => config::find_project(&self.project),
        }
    }
}

fn new_run(id: RunId, order: &RunStartRequest, lists: &[ListSeal]) -> RunRecord {
    RunRecord {
        v: FORMAT_VERSION,
        id,
        owner: Some(order.session.clone()),
        started_ms: clock::now_ms(),
        project: order.project.to_string_lossy().into_owned(),
        origin: RunOrigin::Started,
        first_iteration: 0,
        limits: order.limits.clone(),
        features: order.features.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        promise: order.promise.clone(),
        checklist: order.checklist,
        goal_bytes: order.goal.len() as u64,
        title: run_title(order),
        on_tampering: OnTampering::Block,
        prompt: order.prompt.clone(),
        listed: Vec::new(),
        lists: lists.to_vec(),
        tasks: order.tasks,
        phases: order.phases,
        transcript_length: order.transcript_length,
        process: order.process,
        seal: None,
        drive: order.drive.clone(),
    }
}

/// A one-line title of the work, redacted.
pub fn run_title(order: &RunStartRequest) -> String {
    let names: Vec<_> = order
        .features
        .iter()
        .chain(&order.plans)
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    let first = String::from_utf8_lossy(&order.goal);
    // The goal may start with a Markdown heading.
    let first = first.lines().map(|line| line.trim_start_matches('#').trim());
    let first = first.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    let title = match (first, names.is_empty()) {
        ("", false) if order.plans.is_empty() => format!("the features of {}", names.join(", ")),
        ("", false) => format!("everything in {}", names.join(" and ")),
        ("", true) => match (&order.promise, order.checklist) {
            (Some(promise), _) => format!("promise \"{promise}\""),
            (None, true) => "the conversation's task list".to_string(),
            (None, false) if order.tasks => "the client's task list".to_string(),
            (None, false) => "the gates of the project".to_string(),
        },
        (first, _) => first.to_string(),
    };
    text::clean_line(&Redactor::new(order.secrets.clone()).redact(&title), 80)
}

/// A random unused id of four characters.
pub fn new_run_id(home: &RalphHome) -> RunId {
    loop {
        let mut random = clock::nonce();
        let mut id = String::new();
        for _ in 0..4 {
            id.push(char::from(ID_ALPHABET[usize::try_from(random % 32).unwrap_or_default()]));
            random /= 32;
        }
        if let Some(id) = RunId::parse(&id)
            && !fs::exists(home.run(&id).directory())
            && !fs::exists(&home.tombstone(id.as_str()))
        {
            return id;
        }
    }
}
