//! Starts a run. Everything is read, approved and sealed first; the pointer that holds the session is written last.

use super::ControlError;
use crate::contract::{self, Sealing};
use ralph_core::drive;
use ralph_core::gate::Gate;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Limits;
use ralph_core::policy::OnTampering;
use ralph_core::record::{Asked, ListKind, ListSeal, Origin, Process, Run, VERSION};
use ralph_core::redact::Redactor;
use ralph_core::run::Phase;
use ralph_core::source::list;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, Papers, StoreError};
use ralph_lists::lists::{self, Named, Sealed};
use ralph_lists::loop_directory;
use ralph_policy::config::{self, Config};
use ralph_policy::trust::{self, Subject};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Leaves out letters and digits that people confuse when they read an id aloud.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// The first checkpoint of a large tree takes a while.
const SEALING: Duration = Duration::from_mins(5);

/// The arguments of `ralph start`, or of another command that starts a run.
#[derive(Clone, Debug)]
pub struct Order {
    pub session: SessionId,
    pub project: PathBuf,
    pub goal: Vec<u8>,
    pub limits: Limits,
    /// Directories with `feature_list.json`.
    pub features: Vec<PathBuf>,
    /// Markdown files whose items must be completed.
    pub plans: Vec<PathBuf>,
    /// Whether the client's own task list must be completed.
    pub tasks: Asked,
    pub promise: Option<String>,
    pub checklist: Asked,
    /// Values that must not show up in a title.
    pub secrets: Vec<String>,
    /// The policy to seal into the run, if any.
    pub policy: Option<Approved>,
    /// The stated complexity of the work, from 0 to 10.
    pub complexity: Option<u8>,
    /// The host's id of the prompt that started the run, if a prompt did.
    pub prompt: Option<String>,
    /// The host process that started the run, if known.
    pub process: Option<Process>,
    /// Whether the agent must report phases.
    pub phases: Asked,
    /// The length of the transcript at the start; 0 if there is none.
    pub transcript_length: u64,
    /// The runner's settings; `None` if a person starts the agent.
    pub drive: Option<Box<drive::Settings>>,
    /// The id, if it was chosen earlier because a branch or directory is named after it.
    pub id: Option<RunId>,
}

/// A policy that a person approved.
#[derive(Clone, Debug)]
pub struct Approved {
    pub config: Config,
    pub subject: Subject,
}

/// Validates a request without starting the run.
pub fn check(home: &Home, order: &Order) -> Result<(), ControlError> {
    examined(home, order).map(drop)
}

fn examined(home: &Home, order: &Order) -> Result<(Vec<Sealed>, Option<Approved>), ControlError> {
    order.limits.check()?;
    if order.is_empty() {
        return Err(ControlError::NothingToHold);
    }
    let lists = lists(order)?;
    let policy = policy(home, order, &lists)?;
    Ok((lists, policy))
}

/// Starts a run and points the session at it. Fails if another active run holds the session.
pub fn start(
    home: &Home,
    env: &Env,
    order: &Order,
    deadline: &Deadline,
) -> Result<Run, ControlError> {
    let (lists, policy) = examined(home, order)?;
    let _lock = session_pointer::lock(home, &order.session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = session_pointer::pointer(home, &order.session)?
        && pointer.ended == Ended::No
        && let Ok(opened) = store::load(home, &pointer.run)
        && !matches!(opened.state.phase, Phase::Ended(_))
        && !fs::exists(&home.tombstone(pointer.run.as_str()))
    {
        return Err(ControlError::AlreadyHeld { session: order.session.clone(), run: pointer.run });
    }
    let seals: Vec<ListSeal> = lists.iter().map(|list| list.seal.clone()).collect();
    let copies: Vec<Vec<u8>> = lists.iter().map(|list| lists::copy(&list.items)).collect();
    let papers = Papers { goal: &order.goal, lists: &copies };
    let run = loop {
        let id = order.id.clone().unwrap_or_else(|| new_id(home));
        let mut run = sealed(id, order, &seals);
        if let Some(Approved { config, subject }) = &policy {
            let sealing = Sealing {
                home,
                env,
                run: &run.id,
                exclude: &lists::excluded(home, &run),
                complexity: order.complexity,
                programs: &programs(&lists),
                deadline: Deadline::after(SEALING),
            };
            run.on_tampering = config.policy.on_tampering;
            run.seal = Some(Box::new(contract::seal(&sealing, config, subject)?));
        }
        if store::create(home, &run, &papers, deadline)? {
            break run;
        }
        if order.id.is_some() {
            return Err(ControlError::Taken(run.id));
        }
    };
    // A person starts a new run here, so an earlier cancellation of the session no longer applies.
    fs::remove_file(&home.tombstone(order.session.as_str()))?;
    session_pointer::point(
        home,
        &order.session,
        &Pointer { v: VERSION, run: run.id.clone(), ended: Ended::No },
    )?;
    Ok(run)
}

/// Reads and seals the feature lists and plans as they are now.
fn lists(order: &Order) -> Result<Vec<Sealed>, ControlError> {
    let features = order.features.iter().map(|directory| Named {
        path: directory.join(loop_directory::FEATURES),
        kind: ListKind::Features,
    });
    let plans = order.plans.iter().map(|path| Named { path: path.clone(), kind: ListKind::Plan });
    let project = order.policy_project();
    let mut sealed = Vec::new();
    for named in features.chain(plans) {
        sealed.push(lists::seal(&project, &named)?);
    }
    Ok(sealed)
}

/// The policy for the run. Without a policy file, an empty one is used if lists have checks or a runner drives the run.
/// Fails if a person has not approved the checks of a list.
fn policy(home: &Home, order: &Order, lists: &[Sealed]) -> Result<Option<Approved>, ControlError> {
    let project = order.policy_project();
    let mut has_checks = false;
    for list in lists.iter().filter(|list| !list.seal.approval.is_empty()) {
        has_checks = true;
        if !trust::is_hash_approved(home, &project.to_string_lossy(), &list.seal.approval) {
            let path = Path::new(&list.seal.path);
            let path = path.strip_prefix(&order.project).unwrap_or(path);
            let trust = lists::trust_command(list.seal.kind, path);
            let list = text::line(&path.to_string_lossy(), 200);
            return Err(ControlError::Unapproved { list, trust });
        }
    }
    // A driven run needs a policy even without gates, because only a sealed policy checkpoints the start.
    if order.policy.is_some() || !(has_checks || order.drive.is_some()) {
        return Ok(order.policy.clone());
    }
    let (mut config, subject) = contract::bare(home, &order.project)?;
    // The request names no policy, so its gates do not apply.
    config.policy.gates.clear();
    Ok(Some(Approved { config, subject: Subject { called: Vec::new(), ..subject } }))
}

fn programs(lists: &[Sealed]) -> Vec<Gate> {
    let checks = |(number, list): (usize, &Sealed)| list::checks(number, &list.items);
    lists::programs(&lists.iter().enumerate().flat_map(checks).collect::<Vec<_>>())
}

impl Order {
    /// A request with a goal and the default limits.
    pub fn of_goal(session: &SessionId, project: &Path, goal: &[u8]) -> Self {
        Self {
            session: session.clone(),
            project: project.to_path_buf(),
            goal: goal.to_vec(),
            limits: Limits::DEFAULT,
            features: Vec::new(),
            plans: Vec::new(),
            tasks: Asked::No,
            promise: None,
            checklist: Asked::No,
            secrets: Vec::new(),
            policy: None,
            complexity: None,
            prompt: None,
            process: None,
            phases: Asked::No,
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
            && self.checklist == Asked::No
            && self.tasks == Asked::No
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

fn sealed(id: RunId, order: &Order, lists: &[ListSeal]) -> Run {
    Run {
        v: VERSION,
        id,
        owner: Some(order.session.clone()),
        started_ms: clock::now_ms(),
        project: order.project.to_string_lossy().into_owned(),
        origin: Origin::Started,
        first_iteration: 0,
        limits: order.limits.clone(),
        features: order.features.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        promise: order.promise.clone(),
        checklist: order.checklist,
        goal_bytes: order.goal.len() as u64,
        title: title(order),
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
pub fn title(order: &Order) -> String {
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
            (None, Asked::Yes) => "the conversation's task list".to_string(),
            (None, Asked::No) if order.tasks == Asked::Yes => "the client's task list".to_string(),
            (None, Asked::No) => "the gates of the project".to_string(),
        },
        (first, _) => first.to_string(),
    };
    text::line(&Redactor::new(order.secrets.clone()).redact(&title), 80)
}

/// A random unused id of four characters.
pub fn new_id(home: &Home) -> RunId {
    loop {
        let mut random = clock::nonce();
        let mut id = String::new();
        for _ in 0..4 {
            id.push(char::from(ALPHABET[usize::try_from(random % 32).unwrap_or_default()]));
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
