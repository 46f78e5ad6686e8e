//! Commands that a person gives to runs: start, pause, resume, cancel. Each one succeeds completely or returns an
//! error.

mod start;

use crate::adopt;
use crate::contract::SealError;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Invalid;
use ralph_core::record::Change;
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_home::run_process;
use ralph_home::session_pointer::{self, Ended, HolderError, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError, Transaction};
use ralph_lists::lists::ListError;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::owner;
use std::path::{Path, PathBuf};

pub use start::{Approved, Order, check, new_id, start, title};

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("run `{0}` already exists")]
    Taken(RunId),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    SessionOwner(#[from] HolderError),
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
    #[error("the minimum of {least} iterations exceeds the maximum of {most}")]
    MorePasses { least: u32, most: u32 },
    #[error("there is nothing to hold the agent to")]
    NothingToHold,
    #[error(transparent)]
    List(#[from] ListError),
    #[error("the commands in `{list}` are not approved, so nothing was started")]
    Unapproved {
        list: String,
        /// The command that shows and approves it.
        trust: String,
    },
    #[error("run `{run}` has ended: {status}", status = status.name())]
    HasEnded { run: RunId, status: Status },
    #[error("run `{run}` is {phase}; there is nothing to {action}")]
    NothingToDo { run: RunId, phase: &'static str, action: &'static str },
    #[error("run `{run}` has no phases")]
    WithoutPhases { run: RunId },
    #[error("`{0}` is neither a run nor a session that ralph knows")]
    Unknown(String),
    #[error("`{name}` is ambiguous: it could be `{first}` or `{second}`")]
    Ambiguous { name: String, first: SessionId, second: SessionId },
    #[error("`{name}` is not waived in run `{run}`")]
    NotWaived { run: RunId, name: String },
    #[error("the agent may not {action} the run that holds it")]
    FromTheAgent { action: &'static str },
    #[error("run `{run}` belongs to session `{session}`, which is open in another process")]
    Elsewhere { run: RunId, session: SessionId },
    #[error("no run of this project is paused or orphaned")]
    NoneWaits,
    #[error("several runs of this project are paused or orphaned: {}", names.join(", "))]
    ManyWait { names: Vec<String> },
    #[error(
        "run `{run}` is cancelled and its session is free, but its journal could not be written"
    )]
    HalfCancelled { run: RunId, source: StoreError },
    #[error("run `{run}` was cancelled, but `{}` does not reflect it", path.display())]
    NotCancelled { run: String, path: PathBuf },
}

impl From<Invalid> for ControlError {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::NothingEndsIt => Self::Endless,
            Invalid::StuckTooSoon(times) => Self::StuckTooSoon(times),
            Invalid::MorePasses { least, most } => Self::MorePasses { least, most },
        }
    }
}

/// The origin of a command. Only a person may loosen a run; the agent's own shell is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Person,
    /// A person, through a prompt in the session, which arrives as an event of the host.
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
            phase: "already paused",
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

/// The phase now. A run whose owner, or runner, is gone counts as orphaned even if no stop has recorded that yet.
pub fn phase(home: &Home, opened: &Opened) -> Phase {
    let gone = if opened.run.drive.is_some() {
        run_process::runner(home, &opened.run.id).is_none()
    } else {
        let owner = run_process::owner_of(opened, clock::now_ms(), None);
        owner == ralph_core::facts::Owner::Gone
    };
    match opened.state.phase {
        ended @ Phase::Ended(_) => ended,
        _ if fs::exists(&home.tombstone(opened.run.id.as_str())) => Phase::Ended(Status::Cancelled),
        Phase::Active if gone || opened.state.owner(&opened.run).is_none() => Phase::Orphaned,
        phase @ (Phase::Active | Phase::Paused { .. } | Phase::Orphaned) => phase,
    }
}

/// A name on the command line, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Run(RunId),
    /// A session that only adopted files hold.
    Session(SessionId),
}

/// Resolves the id of a run, or of a session to the run that owns it. An unambiguous prefix of a session id is enough.
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
    Ok(match session_pointer::pointer(home, session)? {
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

/// Cancels a run or releases a session. The tombstone is written first: from then on the session is free, even if a
/// later step fails.
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
                // The second call of a hook registered twice.
                Phase::Ended(Status::Cancelled) if caller == Caller::Session => return Ok(()),
                Phase::Ended(status) => {
                    return Err(ControlError::HasEnded { run: run.clone(), status });
                }
                Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {}
            }
            bury(home, run.as_str())?;
            let transaction = Transaction { home, run, deadline: *deadline, seen: None };
            let ended = store::transact(&transaction, |now| match now.state.phase {
                Phase::Ended(status) => Step::Leave(Some(status)),
                Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {
                    let (change, durability) = (Change::Cancelled, Durability::Synced);
                    Step::Write { change, durability, answer: None }
                }
            });
            match ended {
                // `Cancelled`: another process cancelled it at the same time.
                Ok(None | Some(Status::Cancelled)) => {}
                // The run ended by itself a moment earlier, and that end stands.
                Ok(Some(status)) => {
                    fs::remove_file(&home.tombstone(run.as_str()))?;
                    return Err(ControlError::HasEnded { run: run.clone(), status });
                }
                Err(source) => {
                    return Err(ControlError::HalfCancelled { run: run.clone(), source });
                }
            }
            if let Some(session) = opened.state.owner(&opened.run) {
                let _lock =
                    session_pointer::lock(home, session, deadline).map_err(StoreError::from)?;
                if let Some(pointer) = session_pointer::pointer(home, session)?
                    && pointer.run == *run
                {
                    bury(home, session.as_str())?;
                    session_pointer::point(
                        home,
                        session,
                        &Pointer { ended: Ended::Yes, ..pointer },
                    )?;
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

/// Reads everything back: a cancellation counts only once every file shows it, not because the writes succeeded.
fn is_cancelled(home: &Home, run: &RunId) -> Result<(), ControlError> {
    let paths = home.run(run);
    let remains = |path: PathBuf| Err(ControlError::NotCancelled { run: run.to_string(), path });
    if !fs::exists(&home.tombstone(run.as_str())) {
        return remains(home.tombstone(run.as_str()));
    }
    let opened = store::load(home, run)?;
    match opened.state.phase {
        Phase::Ended(Status::Cancelled) => {}
        // The run ended by itself a moment earlier.
        Phase::Ended(status) => return Err(ControlError::HasEnded { run: run.clone(), status }),
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => return remains(paths.state()),
    }
    match opened.state.owner(&opened.run) {
        Some(session) => match session_pointer::pointer(home, session)? {
            Some(pointer) if pointer.run == *run && pointer.ended == Ended::No => {
                remains(home.session(session))
            }
            Some(_) | None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Whether the run has no stop and no declaration yet.
pub fn is_untouched(home: &Home, run: &RunId) -> Result<bool, ControlError> {
    let opened = store::load(home, run)?;
    Ok(opened.state.seq <= 1 && opened.state.phase == Phase::Active)
}

/// Refuses an action that only a person may take, if the caller is an agent or runs below the run's own client.
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

/// Makes a path absolute, so that it stays valid for commands run from other directories.
pub fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    fs::resolve(&cwd.join(path)).unwrap_or_else(|| cwd.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::env::Env;
    use std::time::Duration;

    /// R-L4d: every file is read back, and the error names the first one that does not show the cancellation.
    #[test]
    fn a_cancel_succeeds_only_when_every_file_shows_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        let deadline = Deadline::after(Duration::from_mins(1));
        let session = SessionId::parse("s1").unwrap();
        let order = Order::of_goal(&session, directory.path(), b"goal");
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
        session_pointer::end(&home, &order.session, &run, &deadline).unwrap();
        assert_eq!(remains(), None);
    }
}
