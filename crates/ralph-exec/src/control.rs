//! What a person does to runs: start, pause, resume, cancel. Each says what it changed, or changes nothing.

use crate::clock::{self, Deadline};
use crate::config::Config;
use crate::contract::{self, SealError, Sealing};
use crate::env::Env;
use crate::fs::{self, Durability, FileError};
use crate::holder::{self, Ended, HolderError, Pointer};
use crate::paths::Home;
use crate::sources;
use crate::store::{self, Opened, Step, StoreError, Transaction};
use crate::trust::Subject;
use crate::{adopt, owner};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::{Invalid, Limits};
use ralph_core::record::{Asked, Change, OnTampering, Origin, Process, Run, VERSION};
use ralph_core::redact::Redactor;
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_core::text;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Without letters and digits that people confuse when they read an id out.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// Keeping a large tree takes a while, once.
const SEALING: Duration = Duration::from_mins(5);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Holder(#[from] HolderError),
    #[error(transparent)]
    Features(#[from] adopt::AdoptError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("session `{session}` is already held by run `{run}`")]
    AlreadyHeld { session: SessionId, run: RunId },
    #[error("a run needs a limit on iterations or on time")]
    Endless,
    #[error("`--stuck-after {0}` would end the run at its first stop")]
    StuckTooSoon(u32),
    #[error("there is nothing to hold the agent to")]
    NothingToHold,
    #[error("`{}` lists no features", path.display())]
    NoFeatures { path: PathBuf },
    #[error("run `{run}` has ended: {status}", status = status.name())]
    HasEnded { run: RunId, status: Status },
    #[error("run `{run}` is {phase}, there is nothing to {action}")]
    NothingToDo { run: RunId, phase: &'static str, action: &'static str },
    #[error("`{0}` is neither a run nor a session that ralph knows")]
    Unknown(String),
    #[error("`{name}` could be `{first}` or `{second}`")]
    Ambiguous { name: String, first: SessionId, second: SessionId },
    #[error("the agent may not {action} the run that holds it")]
    FromTheAgent { action: &'static str },
    #[error("run `{run}` belongs to session `{session}`, which is open in another process")]
    Elsewhere { run: RunId, session: SessionId },
    #[error("no run of this project waits to be taken up")]
    NoneWaits,
    #[error("more than one run of this project waits: {}", names.join(", "))]
    ManyWait { names: Vec<String> },
    #[error("run `{run}` is cancelled and its session is free, but its files do not say so yet")]
    HalfCancelled { run: RunId, source: StoreError },
    #[error("run `{run}` was cancelled, but `{}` still says otherwise", path.display())]
    NotCancelled { run: String, path: PathBuf },
}

/// What `ralph start` was asked for.
#[derive(Clone, Debug)]
pub struct Order {
    pub session: SessionId,
    pub project: PathBuf,
    pub goal: Vec<u8>,
    pub limits: Limits,
    pub features: Vec<PathBuf>,
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
}

/// A policy that a person approved.
#[derive(Clone, Debug)]
pub struct Approved {
    pub config: Config,
    pub subject: Subject,
}

pub fn start(
    home: &Home,
    env: &Env,
    order: &Order,
    deadline: &Deadline,
) -> Result<Run, ControlError> {
    order.limits.check().map_err(|invalid| match invalid {
        Invalid::NothingEndsIt => ControlError::Endless,
        Invalid::StuckTooSoon(times) => ControlError::StuckTooSoon(times),
    })?;
    if order.goal.is_empty()
        && order.features.is_empty()
        && order.promise.is_none()
        && order.checklist == Asked::No
        && order.policy.is_none()
    {
        return Err(ControlError::NothingToHold);
    }
    let mut listed = Vec::new();
    for directory in &order.features {
        let features = sources::readable(directory)?.features;
        if features.is_empty() {
            return Err(ControlError::NoFeatures { path: directory.join(adopt::FEATURES) });
        }
        listed.push(u32::try_from(features.len()).unwrap_or(u32::MAX));
    }
    let _lock = holder::lock(home, &order.session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = holder::pointer(home, &order.session)?
        && pointer.ended == Ended::No
        && let Ok(opened) = store::load(home, &pointer.run)
        && !matches!(opened.state.phase, Phase::Ended(_))
        && !fs::exists(&home.tombstone(pointer.run.as_str()))
    {
        return Err(ControlError::AlreadyHeld { session: order.session.clone(), run: pointer.run });
    }
    let run = loop {
        let mut run = sealed(new_id(home), order, &listed);
        if let Some(Approved { config, subject }) = &order.policy {
            let own = home.root().to_path_buf();
            let exclude: Vec<PathBuf> = order.features.iter().cloned().chain([own]).collect();
            let sealing = Sealing {
                home,
                env,
                run: &run.id,
                exclude: &exclude,
                complexity: order.complexity,
                deadline: Deadline::after(SEALING),
            };
            run.on_tampering = config.policy.on_tampering;
            run.seal = Some(Box::new(contract::seal(&sealing, config, subject)?));
        }
        if store::create(home, &run, &order.goal, deadline)? {
            break run;
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

fn sealed(id: RunId, order: &Order, listed: &[u32]) -> Run {
    let names: Vec<_> = order
        .features
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    let first = String::from_utf8_lossy(&order.goal);
    let first = first.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let title = match (first, names.is_empty()) {
        ("", false) => format!("the features of {}", names.join(", ")),
        ("", true) => match (&order.promise, order.checklist) {
            (Some(promise), _) => format!("promise \"{promise}\""),
            (None, Asked::Yes) => "the conversation's task list".to_string(),
            (None, Asked::No) => "the gates of the project".to_string(),
        },
        (first, _) => first.to_string(),
    };
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
        title: text::line(&Redactor::new(order.secrets.clone()).redact(&title), 80),
        on_tampering: OnTampering::Block,
        prompt: order.prompt.clone(),
        listed: listed.to_vec(),
        phases: order.phases,
        transcript_length: order.transcript_length,
        process: order.process,
        seal: None,
    }
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

/// Everything that loosens a run needs the person: an agent's own shell is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Person,
    /// A person, in the session itself: what they type there reaches us as an event of the host.
    Session,
    Agent,
}

pub fn pause(
    home: &Home,
    run: &RunId,
    caller: Caller,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    by_person(home, run, caller, "pause")?;
    change(home, run, deadline, |phase| match phase {
        Phase::Active | Phase::Orphaned => Ok(Change::Paused),
        Phase::Paused { .. } => Err(ControlError::NothingToDo {
            run: run.clone(),
            phase: "paused already",
            action: "pause",
        }),
        Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
    })
}

pub fn resume(
    home: &Home,
    run: &RunId,
    caller: Caller,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    by_person(home, run, caller, "resume")?;
    change(home, run, deadline, |phase| match phase {
        Phase::Paused { .. } | Phase::Orphaned => Ok(Change::Resumed),
        Phase::Active => {
            Err(ControlError::NothingToDo { run: run.clone(), phase: "active", action: "resume" })
        }
        Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
    })
}

pub(crate) fn change(
    home: &Home,
    run: &RunId,
    deadline: &Deadline,
    change: impl FnOnce(Phase) -> Result<Change, ControlError>,
) -> Result<(), ControlError> {
    store::load(home, run)?;
    store::transact(&Transaction { home, run, deadline: *deadline, seen: None }, |opened| {
        match change(phase(home, opened)) {
            Ok(change) => Step::Write { change, durability: Durability::Synced, answer: Ok(()) },
            Err(error) => Step::Leave(Err(error)),
        }
    })?
}

/// A run whose owner is gone is orphaned, whether or not a stop has noticed yet.
pub fn phase(home: &Home, opened: &Opened) -> Phase {
    let gone = crate::surroundings::owner_of(opened, clock::now_ms(), None)
        == ralph_core::facts::Owner::Gone;
    match opened.state.phase {
        ended @ Phase::Ended(_) => ended,
        _ if fs::exists(&home.tombstone(opened.run.id.as_str())) => Phase::Ended(Status::Cancelled),
        Phase::Active if gone || opened.state.owner(&opened.run).is_none() => Phase::Orphaned,
        phase @ (Phase::Active | Phase::Paused { .. } | Phase::Orphaned) => phase,
    }
}

/// What a person names on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Run(RunId),
    /// A session that only adopted files hold.
    Session(SessionId),
}

/// A run's id, or a session's: then the run that owns it. The beginning of a session's id is enough when no other
/// begins so.
pub fn named(home: &Home, name: &str) -> Result<Named, ControlError> {
    let unknown = || ControlError::Unknown(text::line(name, 130));
    let lower = name.to_ascii_lowercase();
    for run in [name, &lower].into_iter().filter_map(RunId::parse) {
        if fs::exists(home.run(&run).directory()) {
            return Ok(Named::Run(run));
        }
    }
    let session = SessionId::parse(name).ok_or_else(unknown)?;
    if let Some(named) = of_session(home, &session)? {
        return Ok(named);
    }
    match beginning(home, name).as_slice() {
        [] => Err(unknown()),
        [one] => of_session(home, one)?.ok_or_else(unknown),
        [first, second, ..] => Err(ControlError::Ambiguous {
            name: name.to_string(),
            first: first.clone(),
            second: second.clone(),
        }),
    }
}

fn of_session(home: &Home, session: &SessionId) -> Result<Option<Named>, ControlError> {
    Ok(match holder::pointer(home, session)? {
        Some(pointer) => Some(Named::Run(pointer.run)),
        None if fs::exists(&home.state(session)) || fs::exists(&home.held_journal(session)) => {
            Some(Named::Session(session.clone()))
        }
        None => None,
    })
}

fn beginning(home: &Home, name: &str) -> Vec<SessionId> {
    const LEAST: usize = 4;
    const MOST: usize = 100_000;
    if name.len() < LEAST {
        return Vec::new();
    }
    let mut found: Vec<_> = [home.sessions(), home.held()]
        .into_iter()
        .flat_map(|directory| fs::list(&directory, MOST).unwrap_or_default())
        .filter_map(|known| SessionId::parse(known.to_str()?))
        .filter(|known| known.as_str().starts_with(name))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A tombstone first: from that moment on the session is free, whatever happens to the rest.
pub fn cancel(
    home: &Home,
    name: &Named,
    caller: Caller,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    match name {
        Named::Session(session) => {
            if caller == Caller::Agent {
                return Err(ControlError::FromTheAgent { action: "cancel" });
            }
            bury(home, session.as_str())
        }
        Named::Run(run) => {
            by_person(home, run, caller, "cancel")?;
            let opened = store::load(home, run)?;
            match opened.state.phase {
                // A hook that is registered twice asks twice.
                Phase::Ended(Status::Cancelled) if caller == Caller::Session => return Ok(()),
                Phase::Ended(status) => {
                    return Err(ControlError::HasEnded { run: run.clone(), status });
                }
                Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {}
            }
            bury(home, run.as_str())?;
            let transaction = Transaction { home, run, deadline: *deadline, seen: None };
            let told = store::transact(&transaction, |now| match now.state.phase {
                Phase::Ended(status) => Step::Leave(Some(status)),
                Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {
                    let (change, durability) = (Change::Cancelled, Durability::Synced);
                    Step::Write { change, durability, answer: None }
                }
            });
            match told {
                // The second: somebody else cancelled it at the same time.
                Ok(None | Some(Status::Cancelled)) => {}
                // It came to an end of its own a moment earlier, and that end stands.
                Ok(Some(status)) => {
                    fs::remove_file(&home.tombstone(run.as_str()))?;
                    return Err(ControlError::HasEnded { run: run.clone(), status });
                }
                Err(source) => {
                    return Err(ControlError::HalfCancelled { run: run.clone(), source });
                }
            }
            if let Some(session) = opened.state.owner(&opened.run) {
                let _lock = holder::lock(home, session, deadline).map_err(StoreError::from)?;
                if let Some(pointer) = holder::pointer(home, session)?
                    && pointer.run == *run
                {
                    bury(home, session.as_str())?;
                    holder::point(home, session, &Pointer { ended: Ended::Yes, ..pointer })?;
                }
            }
            is_cancelled(home, run)
        }
    }
}

fn bury(home: &Home, id: &str) -> Result<(), ControlError> {
    let path = home.tombstone(id);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent)?;
    }
    fs::replace(
        &path,
        format!("{}\n", clock::rfc3339(clock::now_ms())).as_bytes(),
        Durability::Synced,
    )?;
    Ok(())
}

/// Success is what a second look shows, not what the writes returned.
fn is_cancelled(home: &Home, run: &RunId) -> Result<(), ControlError> {
    let paths = home.run(run);
    let remains = |path: PathBuf| Err(ControlError::NotCancelled { run: run.to_string(), path });
    if !fs::exists(&home.tombstone(run.as_str())) {
        return remains(home.tombstone(run.as_str()));
    }
    let opened = store::load(home, run)?;
    match opened.state.phase {
        Phase::Ended(Status::Cancelled) => {}
        // It came to an end of its own a moment earlier.
        Phase::Ended(status) => return Err(ControlError::HasEnded { run: run.clone(), status }),
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => return remains(paths.state()),
    }
    match opened.state.owner(&opened.run) {
        Some(session) => match holder::pointer(home, session)? {
            Some(pointer) if pointer.run == *run && pointer.ended == Ended::No => {
                remains(home.session(session))
            }
            Some(_) | None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Whether nothing has come of the run yet: no stop, no word of its agent.
pub fn is_untouched(home: &Home, run: &RunId) -> Result<bool, ControlError> {
    let opened = store::load(home, run)?;
    Ok(opened.state.seq <= 1 && opened.state.phase == Phase::Active)
}

/// Refuses what only a person may do to a run, when an agent asks.
pub fn by_person(
    home: &Home,
    run: &RunId,
    caller: Caller,
    action: &'static str,
) -> Result<(), ControlError> {
    let opened = store::load(home, run)?;
    let below = || opened.state.process.is_some_and(|process| owner::is_ancestor(process.pid));
    match caller {
        Caller::Session => Ok(()),
        Caller::Person if !below() => Ok(()),
        Caller::Person | Caller::Agent => Err(ControlError::FromTheAgent { action }),
    }
}

/// Absolute, so that it means the same from wherever a later command is called.
pub fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    fs::resolve(&cwd.join(path)).unwrap_or_else(|| cwd.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// R-L4d: every store is read again, and the one that still says otherwise is named.
    #[test]
    fn a_cancel_is_believed_only_when_every_store_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let deadline = Deadline::after(Duration::from_mins(1));
        let order = Order {
            session: SessionId::parse("s1").unwrap(),
            project: directory.path().to_path_buf(),
            goal: b"goal".to_vec(),
            limits: Limits::DEFAULT,
            features: Vec::new(),
            promise: None,
            checklist: Asked::No,
            secrets: Vec::new(),
            policy: None,
            complexity: None,
            prompt: None,
            process: None,
            phases: Asked::No,
            transcript_length: 0,
        };
        let run = start(&home, &Env::from_process(), &order, &deadline).unwrap().id;
        let remains = || match is_cancelled(&home, &run) {
            Err(ControlError::NotCancelled { path, .. }) => Some(path),
            other => {
                other.unwrap();
                None
            }
        };
        assert_eq!(remains(), Some(home.tombstone(run.as_str())));
        bury(&home, run.as_str()).unwrap();
        assert_eq!(remains(), Some(home.run(&run).state()));
        let transaction = Transaction { home: &home, run: &run, deadline, seen: None };
        let (change, durability) = (Change::Cancelled, Durability::Synced);
        store::transact(&transaction, |_| Step::Write { change, durability, answer: () }).unwrap();
        assert_eq!(remains(), Some(home.session(&order.session)));
        holder::end(&home, &order.session, &run, &deadline).unwrap();
        assert_eq!(remains(), None);
    }
}
