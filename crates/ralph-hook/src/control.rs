//! Commands that a person gives to runs: start, pause, resume, cancel. Each one succeeds completely or returns an
//! error.

mod run_request;
mod start;
mod start_notes;

use crate::adjustments::RunAdjustment;
use crate::adopt;
use crate::cleaning_worker;
use crate::contract::SealError;
use crate::run_retrospective;
use crate::session_note;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::{InvalidLimits, LimitOverrides};
use ralph_core::record::RunChange;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::session_pointer::{self, SessionPointer, SessionPointerError};
use ralph_home::store::{self, LoadedRun, RunTransaction, StoreError, TransactionStep};
use ralph_lists::run_lists::ListError;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::process_identity;
use std::path::{Path, PathBuf};

pub use run_request::{
    ApprovedPolicy, CheckedRequest, GateSelection, RunRequest, StartError, StartPrompt,
    approved_policy, check_request, list_directory, plan_file, resolve_directory,
};
pub use start::{StartedRun, new_run_id, start_run};
pub use start_notes::{StartNote, UnprovedReason, list_note, sealed_goal_notes};

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("run `{0}` already exists")]
    RunExists(RunId),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    SessionOwner(#[from] SessionPointerError),
    #[error(transparent)]
    Features(#[from] adopt::AdoptError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("session `{session}` is already held by run `{run}`")]
    AlreadyHeld { session: SessionId, run: RunId },
    #[error("a run needs a limit on iterations or on time")]
    NoLimit,
    #[error("only `ralph run` can enforce `{option}`")]
    LimitNeedsRunner { option: &'static str },
    #[error("`--stuck-after {0}` would end the run at its first stop")]
    StuckTooSoon(u32),
    #[error("the minimum of {least} iterations exceeds the maximum of {most}")]
    MinimumAboveMaximum { least: u32, most: u32 },
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
    HasEnded { run: RunId, status: RunStatus },
    #[error("run `{run}` ended {status}, which cannot be accepted", status = status.name())]
    NotAcceptable { run: RunId, status: RunStatus },
    #[error("run `{run}` has not ended, so there is nothing to accept yet")]
    NotEnded { run: RunId },
    #[error("run `{run}` is {phase}; there is nothing to {action}")]
    NothingToDo { run: RunId, phase: &'static str, action: &'static str },
    #[error("run `{run}` has no phases")]
    WithoutPhases { run: RunId },
    #[error("`{0}` is neither a run nor a session that ralph knows")]
    UnknownName(String),
    #[error("`{name}` is ambiguous: it could be `{first}` or `{second}`")]
    Ambiguous { name: String, first: SessionId, second: SessionId },
    #[error("`{name}` is not waived in run `{run}`")]
    NotWaived { run: RunId, name: String },
    #[error("the agent may not {action} the run that holds it")]
    CallerIsAgent { action: &'static str },
    #[error(
        "cannot see every process above this command, so an agent may have started it; nothing was changed"
    )]
    CallerHidden,
    #[error("run `{run}` belongs to session `{session}`, which is open in another process")]
    OwnedElsewhere { run: RunId, session: SessionId },
    #[error("no run of this project is paused or orphaned")]
    NoResumableRun,
    #[error("several runs of this project are paused or orphaned: {}", names.join(", "))]
    SeveralResumableRuns { names: Vec<String> },
    #[error(
        "run `{run}` is cancelled and its session is free, but its journal could not be written"
    )]
    HalfCancelled { run: RunId, source: StoreError },
    #[error("run `{run}` was cancelled, but `{}` does not reflect it", path.display())]
    NotCancelled { run: String, path: PathBuf },
}

impl From<InvalidLimits> for ControlError {
    fn from(invalid: InvalidLimits) -> Self {
        match invalid {
            InvalidLimits::Unbounded => Self::NoLimit,
            InvalidLimits::StuckTooSoon(times) => Self::StuckTooSoon(times),
            InvalidLimits::MinExceedsMax { least, most } => {
                Self::MinimumAboveMaximum { least, most }
            }
        }
    }
}

/// Rejects limits that nothing would enforce in a run without a runner.
pub(crate) fn reject_runner_limits(given: &LimitOverrides) -> Result<(), ControlError> {
    match given.first_for_runner() {
        Some(limit) => Err(ControlError::LimitNeedsRunner { option: limit.option }),
        None => Ok(()),
    }
}

/// What an agent should do about a command that only a person may give.
pub const ASK_A_PERSON: &str = "ask a person to do this in their own terminal";
/// What a person should do if ralph cannot see the processes above its command.
pub const SHOW_PROCESSES: &str = "use a terminal of your own where `/proc` shows every process: outside sandboxes and \
     containers, and mounted without `hidepid`";

/// The origin of a command. Only a person may loosen a run; the agent's own shell is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandCaller {
    Person,
    /// A person, through a prompt in the session, which arrives as an event of the host.
    Session,
    Agent,
    /// The system does not show every process above the command, so an agent may be one of them.
    Hidden,
}

pub fn pause_run(adjustment: &RunAdjustment<'_>) -> Result<(), ControlError> {
    let RunAdjustment { home, run, caller, by, deadline } = *adjustment;
    require_person_caller(home, run, caller, "pause")?;
    change_phase_by(home, run, by, deadline, |phase| match phase {
        RunPhase::Active | RunPhase::Orphaned => Ok(RunChange::Paused),
        RunPhase::Paused { .. } => Err(ControlError::NothingToDo {
            run: run.clone(),
            phase: "already paused",
            action: "pause",
        }),
        RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
    })
}

pub fn resume_held_run(adjustment: &RunAdjustment<'_>) -> Result<(), ControlError> {
    let RunAdjustment { home, run, caller, by, deadline } = *adjustment;
    require_person_caller(home, run, caller, "resume")?;
    change_phase_by(home, run, by, deadline, |phase| match phase {
        RunPhase::Paused { .. } | RunPhase::Orphaned => Ok(RunChange::Resumed),
        RunPhase::Active => {
            Err(ControlError::NothingToDo { run: run.clone(), phase: "active", action: "resume" })
        }
        RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
    })
}

pub(crate) fn change_phase(
    home: &RalphHome,
    run: &RunId,
    deadline: &Deadline,
    change: impl FnOnce(RunPhase) -> Result<RunChange, ControlError>,
) -> Result<(), ControlError> {
    change_phase_by(home, run, None, deadline, change)
}

/// As [`change_phase`], recorded with the name of the person whose action it is.
pub(crate) fn change_phase_by(
    home: &RalphHome,
    run: &RunId,
    by: Option<&str>,
    deadline: &Deadline,
    change: impl FnOnce(RunPhase) -> Result<RunChange, ControlError>,
) -> Result<(), ControlError> {
    store::load_run(home, run)?;
    let transaction = RunTransaction { home, run, deadline: *deadline, by, loaded: None };
    store::transact(&transaction, |opened| match change(effective_phase(home, opened)) {
        Ok(change) => {
            TransactionStep::Write { change, durability: Durability::Synced, answer: Ok(()) }
        }
        Err(error) => TransactionStep::Leave(Err(error)),
    })?
}

/// The phase now. A run whose owner, or runner, is gone counts as orphaned even if no stop has recorded that yet.
pub fn effective_phase(home: &RalphHome, opened: &LoadedRun) -> RunPhase {
    let gone = if opened.run.drive.is_some() {
        !run_process::may_be_driven(home, &opened.run.id)
    } else {
        run_process::is_owner_gone(opened, clock::now_ms(), None)
    };
    match opened.state.phase {
        ended @ RunPhase::Ended(_) => ended,
        _ if fs::exists(&home.tombstone(opened.run.id.as_str())) => {
            RunPhase::Ended(RunStatus::Cancelled)
        }
        RunPhase::Active if gone || opened.state.owner(&opened.run).is_none() => RunPhase::Orphaned,
        phase @ (RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned) => phase,
    }
}

/// A name on the command line, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOrSession {
    Run(RunId),
    /// A session that only adopted files hold.
    Session(SessionId),
}

/// Resolves the id of a run, or of a session to the run that owns it. An unambiguous prefix of a session id is enough.
pub fn resolve_name(home: &RalphHome, name: &str) -> Result<RunOrSession, ControlError> {
    let unknown = || ControlError::UnknownName(text::clean_line(name, 130));
    let lower = name.to_ascii_lowercase();
    for run in [name, &lower].into_iter().filter_map(RunId::parse) {
        if fs::exists(home.run(&run).directory()) {
            return Ok(RunOrSession::Run(run));
        }
    }
    let session = SessionId::parse(name).ok_or_else(unknown)?;
    if let Some(named) = resolve_session(home, &session)? {
        return Ok(named);
    }
    match sessions_with_prefix(home, name)?.as_slice() {
        [] => Err(unknown()),
        [one] => resolve_session(home, one)?.ok_or_else(unknown),
        [first, second, ..] => Err(ControlError::Ambiguous {
            name: name.to_string(),
            first: first.clone(),
            second: second.clone(),
        }),
    }
}

fn resolve_session(
    home: &RalphHome,
    session: &SessionId,
) -> Result<Option<RunOrSession>, ControlError> {
    Ok(match session_pointer::read_pointer(home, session)? {
        Some(pointer) => Some(RunOrSession::Run(pointer.run)),
        None if fs::exists(&home.session_state(session))
            || fs::exists(&home.held_journal(session)) =>
        {
            Some(RunOrSession::Session(session.clone()))
        }
        None => session_note::find_record(home, session).map(RunOrSession::Run),
    })
}

fn sessions_with_prefix(home: &RalphHome, name: &str) -> Result<Vec<SessionId>, FileError> {
    const LEAST: usize = 4;
    const MOST: usize = 100_000;
    if name.len() < LEAST {
        return Ok(Vec::new());
    }
    let mut names = fs::list_if_exists(&home.sessions(), MOST)?;
    names.extend(fs::list_if_exists(&home.held_sessions(), MOST)?);
    names.extend(fs::list_if_exists(&home.session_notes(), MOST)?);
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|known| SessionId::parse(known.to_str()?))
        .filter(|known| known.as_str().starts_with(name))
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Cancels a run or releases a session. The tombstone is written first: from then on the session is free, even if a
/// later step fails.
pub fn cancel_run_or_session(
    home: &RalphHome,
    name: &RunOrSession,
    caller: CommandCaller,
    by: &str,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    match name {
        RunOrSession::Session(session) => {
            match caller {
                CommandCaller::Agent => {
                    return Err(ControlError::CallerIsAgent { action: "cancel" });
                }
                CommandCaller::Hidden => return Err(ControlError::CallerHidden),
                CommandCaller::Person | CommandCaller::Session => {}
            }
            write_tombstone(home, session.as_str())
        }
        RunOrSession::Run(run) => {
            require_person_caller(home, run, caller, "cancel")?;
            let opened = store::load_run(home, run)?;
            match opened.state.phase {
                // The second call of a hook registered twice.
                RunPhase::Ended(RunStatus::Cancelled) if caller == CommandCaller::Session => {
                    return Ok(());
                }
                RunPhase::Ended(status) => {
                    return Err(ControlError::HasEnded { run: run.clone(), status });
                }
                RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {}
            }
            write_tombstone(home, run.as_str())?;
            let by = Some(by);
            let transaction = RunTransaction { home, run, deadline: *deadline, by, loaded: None };
            let ended = store::transact(&transaction, |now| match now.state.phase {
                RunPhase::Ended(status) => TransactionStep::Leave(Some(status)),
                RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
                    let (change, durability) = (RunChange::Cancelled, Durability::Synced);
                    TransactionStep::Write { change, durability, answer: None }
                }
            });
            match ended {
                // `Cancelled`: another process cancelled it at the same time.
                Ok(None | Some(RunStatus::Cancelled)) => {}
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
                let _lock = session_pointer::lock_session(home, session, deadline)
                    .map_err(StoreError::from)?;
                if let Some(pointer) = session_pointer::read_pointer(home, session)?
                    && pointer.run == *run
                {
                    write_tombstone(home, session.as_str())?;
                    session_pointer::write_pointer(
                        home,
                        session,
                        &SessionPointer { ended: true, ..pointer },
                    )?;
                }
            }
            cleaning_worker::clean_after_end(home, run);
            run_retrospective::learn_after_end(home, &opened.run, &opened.state);
            verify_cancelled(home, run)
        }
    }
}

/// Undoes the release of a session.
pub fn readmit_session(home: &RalphHome, session: &SessionId) -> Result<(), ControlError> {
    Ok(fs::remove_file(&home.tombstone(session.as_str())).map(drop)?)
}

fn write_tombstone(home: &RalphHome, id: &str) -> Result<(), ControlError> {
    let path = home.tombstone(id);
    if let Some(parent) = path.parent() {
        fs::create_private_dir(parent)?;
    }
    fs::replace(
        &path,
        format!("{}\n", clock::format_rfc3339(clock::now_ms())).as_bytes(),
        Durability::Synced,
    )?;
    Ok(())
}

/// Reads everything back: a cancellation counts only once every file shows it, not because the writes succeeded.
fn verify_cancelled(home: &RalphHome, run: &RunId) -> Result<(), ControlError> {
    let paths = home.run(run);
    let remains = |path: PathBuf| Err(ControlError::NotCancelled { run: run.to_string(), path });
    if !fs::exists(&home.tombstone(run.as_str())) {
        return remains(home.tombstone(run.as_str()));
    }
    let opened = store::load_run(home, run)?;
    match opened.state.phase {
        RunPhase::Ended(RunStatus::Cancelled) => {}
        // The run ended by itself a moment earlier.
        RunPhase::Ended(status) => return Err(ControlError::HasEnded { run: run.clone(), status }),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            return remains(paths.state());
        }
    }
    match opened.state.owner(&opened.run) {
        Some(session) => match session_pointer::read_pointer(home, session)? {
            Some(pointer) if pointer.run == *run && !pointer.ended => {
                remains(home.session_pointer(session))
            }
            Some(_) | None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Whether the run has no stop and no declaration yet.
pub fn is_untouched(home: &RalphHome, run: &RunId) -> Result<bool, ControlError> {
    let opened = store::load_run(home, run)?;
    Ok(opened.state.seq <= 1 && opened.state.phase == RunPhase::Active)
}

/// Refuses an action that only a person may take, if the caller is an agent or runs below the run's own client, or if
/// that cannot be known.
pub fn require_person_caller(
    home: &RalphHome,
    run: &RunId,
    caller: CommandCaller,
    action: &'static str,
) -> Result<(), ControlError> {
    let opened = store::load_run(home, run)?;
    match caller {
        CommandCaller::Session => Ok(()),
        CommandCaller::Agent => Err(ControlError::CallerIsAgent { action }),
        CommandCaller::Hidden => Err(ControlError::CallerHidden),
        CommandCaller::Person => match is_below_client(&opened) {
            Some(false) => Ok(()),
            Some(true) => Err(ControlError::CallerIsAgent { action }),
            None => Err(ControlError::CallerHidden),
        },
    }
}

/// Whether the run's client is above this process; `None` if that cannot be known. The client of a run that has ended may
/// have been of a container that was started again since, and holds nothing.
pub fn is_below_client(opened: &LoadedRun) -> Option<bool> {
    let Some(client) = opened.state.process else { return Some(false) };
    let has_ended = matches!(opened.state.phase, RunPhase::Ended(_));
    process_identity::is_ancestor(&client).or(has_ended.then_some(false))
}

/// Why ralph is switched off, if it is.
pub fn off_reason(env: &Env, home: &RalphHome) -> Option<&'static str> {
    if env.is_ralph_off() {
        Some("`RALPH_OFF` is set")
    } else if fs::exists(&home.kill_switch()) {
        Some("the file `off` exists in ralph's home")
    } else {
        None
    }
}

/// Makes a path absolute, so that it stays valid for commands run from other directories.
pub fn absolute_path(path: &Path, cwd: &Path) -> PathBuf {
    fs::resolve(&cwd.join(path)).unwrap_or_else(|| cwd.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::run_terms::RunTerms;
    use ralph_home::world::World;
    use std::time::Duration;

    /// R-L4d: every file is read back, and the error names the first one that does not show the cancellation.
    #[test]
    fn a_cancel_succeeds_only_when_every_file_shows_it() {
        let directory = tempfile::tempdir().unwrap();
        let deadline = Deadline::after(Duration::from_mins(1));
        let env =
            Env::from_pairs([("RALPH_HOME", directory.path().join("home"))], None, Vec::new());
        let world = World::new(env, deadline).unwrap();
        let home = world.home.clone();
        let session = SessionId::parse("s1").unwrap();
        let terms = RunTerms { goal: b"goal".to_vec(), ..RunTerms::default() };
        let request = RunRequest::new(session.clone(), directory.path().to_path_buf(), terms);
        let run = start_run(&world, request).unwrap().run.id;
        let remains = || match verify_cancelled(&home, &run) {
            Err(ControlError::NotCancelled { path, .. }) => Some(path),
            other => {
                other.unwrap();
                None
            }
        };
        assert_eq!(remains(), Some(home.tombstone(run.as_str())));
        write_tombstone(&home, run.as_str()).unwrap();
        assert_eq!(remains(), Some(home.run(&run).state()));
        let transaction =
            RunTransaction { home: &home, run: &run, deadline, by: None, loaded: None };
        let (change, durability) = (RunChange::Cancelled, Durability::Synced);
        store::transact(&transaction, |_| TransactionStep::Write {
            change,
            durability,
            answer: (),
        })
        .unwrap();
        assert_eq!(remains(), Some(home.session_pointer(&session)));
        session_pointer::mark_run_ended(&home, &session, &run, &deadline).unwrap();
        assert_eq!(remains(), None);
    }
}
