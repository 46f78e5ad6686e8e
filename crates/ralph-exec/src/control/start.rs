//! Starting a run: everything is read, approved and sealed first; the pointer that holds the session comes last.

use super::ControlError;
use crate::adopt;
use crate::clock::{self, Deadline};
use crate::config::{self, Config};
use crate::contract::{self, Sealing};
use crate::env::Env;
use crate::fs;
use crate::holder::{self, Ended, Pointer};
use crate::lists::{self, Named, Sealed};
use crate::paths::Home;
use crate::store::{self, Papers, StoreError};
use crate::trust::{self, Subject};
use ralph_core::drive;
use ralph_core::gate::Gate;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Limits;
use ralph_core::record::{Asked, ListKind, ListSeal, OnTampering, Origin, Process, Run, VERSION};
use ralph_core::redact::Redactor;
use ralph_core::run::Phase;
use ralph_core::source::list;
use ralph_core::text;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Without letters and digits that people confuse when they read an id out.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// Keeping a large tree takes a while, once.
const SEALING: Duration = Duration::from_mins(5);

/// What `ralph start` was asked for.
#[derive(Clone, Debug)]
pub struct Order {
    pub session: SessionId,
    pub project: PathBuf,
    pub goal: Vec<u8>,
    pub limits: Limits,
    /// Directories with `feature_list.json`.
    pub features: Vec<PathBuf>,
    /// Markdown files whose items are to be done.
    pub plans: Vec<PathBuf>,
    /// Whether the client's own task list has to be done.
    pub tasks: Asked,
    pub promise: Option<String>,
    pub checklist: Asked,
    /// Values that must not show up in a title.
    pub secrets: Vec<String>,
    /// The policy to seal into the run, if one is to judge it.
    pub policy: Option<Approved>,
    /// How complex the work is said to be, from 0 to 10.
    pub complexity: Option<u8>,
    /// The host's id of the prompt that asked for it, if one did.
    pub prompt: Option<String>,
    /// The host process that it is asked for in, if one is known.
    pub process: Option<Process>,
    /// Whether the agent is to report phases.
    pub phases: Asked,
    /// How long the transcript is, where there is one.
    pub transcript_length: u64,
    /// How a runner is to drive it; `None` when a person starts the agent.
    pub drive: Option<Box<drive::Settings>>,
    /// Its id, where something was named after it already.
    pub id: Option<RunId>,
}

/// A policy that a person approved.
#[derive(Clone, Debug)]
pub struct Approved {
    pub config: Config,
    pub subject: Subject,
}

/// Whether all of it could be started, as far as that can be told without starting it.
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

pub fn start(
    home: &Home,
    env: &Env,
    order: &Order,
    deadline: &Deadline,
) -> Result<Run, ControlError> {
    let (lists, policy) = examined(home, order)?;
    let _lock = holder::lock(home, &order.session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = holder::pointer(home, &order.session)?
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
    // A person arms the session anew: what was buried with it may rise.
    fs::remove_file(&home.tombstone(order.session.as_str()))?;
    holder::point(
        home,
        &order.session,
        &Pointer { v: VERSION, run: run.id.clone(), ended: Ended::No },
    )?;
    Ok(run)
}

/// What feature lists and plans say now, and whether a person approved what they would run.
fn lists(order: &Order) -> Result<Vec<Sealed>, ControlError> {
    let features = order
        .features
        .iter()
        .map(|directory| Named { path: directory.join(adopt::FEATURES), kind: ListKind::Features });
    let plans = order.plans.iter().map(|path| Named { path: path.clone(), kind: ListKind::Plan });
    let project = order.policy_project();
    let mut sealed = Vec::new();
    for named in features.chain(plans) {
        sealed.push(lists::seal(&project, &named)?);
    }
    Ok(sealed)
}

/// Checks of lists need a judge, also where nobody wrote a policy.
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
    // What a runner starts is kept from the beginning, whether or not anything measures it.
    if order.policy.is_some() || !(has_checks || order.drive.is_some()) {
        return Ok(order.policy.clone());
    }
    let (mut config, subject) = contract::bare(home, &order.project)?;
    // A person left the policy out of this run.
    config.policy.gates.clear();
    Ok(Some(Approved { config, subject: Subject { called: Vec::new(), ..subject } }))
}

fn programs(lists: &[Sealed]) -> Vec<Gate> {
    let checks = |(number, list): (usize, &Sealed)| list::checks(number, &list.items);
    lists::programs(&lists.iter().enumerate().flat_map(checks).collect::<Vec<_>>())
}

impl Order {
    /// A goal and the usual limits, and nothing else.
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

    /// Where the policy is, or would be: checks run there.
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

/// One line of what is to be done, without secrets.
pub fn title(order: &Order) -> String {
    let names: Vec<_> = order
        .features
        .iter()
        .chain(&order.plans)
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    let first = String::from_utf8_lossy(&order.goal);
    // A heading is a title without its mark.
    let first = first.lines().map(|line| line.trim_start_matches('#').trim());
    let first = first.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    let title = match (first, names.is_empty()) {
        ("", false) if order.plans.is_empty() => format!("the features of {}", names.join(", ")),
        ("", false) => format!("what {} says", names.join(" and ")),
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

/// Four characters that are not in use.
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
