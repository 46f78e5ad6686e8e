//! Runs that a runner drives: the runner's lock, the session the run continues in, and the runner's journal records.
//!
//! The runner itself is in `ralph-drive`.

use crate::facts;
use crate::stop::{self, StopContext};
use ralph_core::decide::StopDecision;
use ralph_core::drive::{RunnerEvent, RunnerSession};
use ralph_core::event::StopEvent;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{MoveReason, NOT_PERMITTED, ProcessIdentity, RunChange};
use ralph_core::run::RunPhase;
use ralph_core::verdict::Verdict;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::session_pointer::{self, SessionPointer, SessionPointerError};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, FileLock, LockError};
use ralph_sys::process_identity;
use std::time::Duration;

/// A runner that was just killed may still hold the lock for a moment.
const RUNNER_LOCK_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum RunnerStateError {
    #[error("run `{run}` already has a runner{}", by.map(|process| format!(" (process {})", process.pid)).unwrap_or_default())]
    AlreadyDriven { run: RunId, by: Option<ProcessIdentity> },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    SessionOwner(#[from] SessionPointerError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the session that stopped does not own run `{0}`")]
    NotOwner(RunId),
    #[error("session `{session}` belongs to another run, `{run}`")]
    SessionTaken { session: SessionId, run: RunId },
}

/// Lock that the one runner of a run holds while it drives.
#[derive(Debug)]
pub struct RunnerLock {
    _lock: FileLock,
}

/// Locks a run for the calling runner. A second runner is refused; a dead runner's lock is free.
pub fn lock_run(home: &RalphHome, run: &RunId) -> Result<RunnerLock, RunnerStateError> {
    let paths = home.run(run);
    let lock = match fs::acquire_lock(&paths.runner_lock(), &Deadline::after(RUNNER_LOCK_TIMEOUT)) {
        Ok(lock) => lock,
        Err(LockError::Busy { .. }) => {
            return Err(RunnerStateError::AlreadyDriven {
                run: run.clone(),
                by: run_process::live_runner(home, run)?,
            });
        }
        Err(LockError::File(error)) => return Err(error.into()),
    };
    let process = process_identity::identify_process(std::process::id());
    let bytes = fs::encode_json(&paths.runner(), &process)?;
    fs::replace(&paths.runner(), &bytes, Durability::Cached)?;
    Ok(RunnerLock { _lock: lock })
}

/// Whether a runner answers the session's stops itself, so that command hooks do not answer them too.
pub fn is_runner_session(world: &World, session: Option<&SessionId>) -> bool {
    let Some(named) = world.env.driving_run().and_then(|run| RunId::parse(&run)) else {
        return false;
    };
    let Some(session) = session else { return false };
    match session_pointer::read_pointer(&world.home, session) {
        Ok(Some(SessionPointer { run, .. })) => {
            run == named && run_process::may_be_driven(&world.home, &run)
        }
        Ok(None) | Err(_) => false,
    }
}

/// Records an action of the runner. The write is synced, because a journal that lost its last line in a power failure
/// looks like one that was edited.
pub fn record_drive(
    world: &World,
    run: &RunId,
    drove: RunnerEvent,
) -> Result<LoadedRun, StoreError> {
    write_change(world, run, RunChange::Drove(Box::new(drove)), Durability::Synced)?;
    store::load_run(&world.home, run)
}

/// Records a tool call that the client denied because nothing permits it.
pub fn record_denied_call(
    world: &World,
    run: &RunId,
    tool: String,
    call: String,
) -> Result<(), StoreError> {
    let change = RunChange::Denied { tool, what: NOT_PERMITTED.to_string(), call };
    write_change(world, run, change, Durability::Synced)
}

fn write_change(
    world: &World,
    run: &RunId,
    change: RunChange,
    durability: Durability,
) -> Result<(), StoreError> {
    store::transact(&world.transaction(run), |_| TransactionStep::Write {
        change,
        durability,
        answer: (),
    })
}

/// Records the agent's question again. A pause ends what the agent declared; a runner that continues still has to ask.
pub fn record_question_again(world: &World, run: &RunId, question: &str) -> Result<(), StoreError> {
    let change = RunChange::Asked { question: question.to_string() };
    write_change(world, run, change, Durability::Synced)
}

/// Resumes a run that was parked or paused, or whose runner is gone.
pub fn resume_run(world: &World, run: &RunId) -> Result<LoadedRun, StoreError> {
    write_change(world, run, RunChange::Resumed, Durability::Synced)?;
    store::load_run(&world.home, run)
}

/// Continues the run in this session, which is either fresh or already its own.
pub fn enter_session(
    world: &World,
    run: &RunId,
    session: &RunnerSession,
) -> Result<(), RunnerStateError> {
    let (home, deadline) = (&world.home, &world.step_deadline());
    let opened = store::load_run(home, run)?;
    let before = opened.state.owner(&opened.run).cloned();
    if before.as_ref() != Some(&session.id) {
        let _lock =
            session_pointer::lock_session(home, &session.id, deadline).map_err(StoreError::from)?;
        if let Some(pointer) = session_pointer::read_pointer(home, &session.id)?
            && !pointer.ended
            && pointer.run != *run
        {
            return Err(RunnerStateError::SessionTaken {
                session: session.id.clone(),
                run: pointer.run,
            });
        }
        let to = session.id.clone();
        let change = RunChange::Moved { to, how: MoveReason::HandedOver, process: None, seen: 0 };
        write_change(world, run, change, Durability::Synced)?;
        let pointer = SessionPointer::to_run(run);
        session_pointer::write_pointer(home, &session.id, &pointer)?;
    } else if matches!(opened.state.phase, RunPhase::Paused { .. } | RunPhase::Orphaned) {
        let to = session.id.clone();
        let change = RunChange::Moved { to, how: MoveReason::Resumed, process: None, seen: 0 };
        write_change(world, run, change, Durability::Synced)?;
    }
    record_drive(world, run, RunnerEvent::Session(session.clone()))?;
    if let Some(before) = before.filter(|before| *before != session.id) {
        session_pointer::mark_run_ended(home, &before, run, deadline)?;
    }
    Ok(())
}

/// Decides a stop of the run's session, whether the host or the runner itself asks.
pub fn decide_driven_stop(
    world: &World,
    run: &RunId,
    stop: &StopEvent,
) -> Result<StopDecision, RunnerStateError> {
    let not_ours = || RunnerStateError::NotOwner(run.clone());
    let session = stop.session.as_ref().ok_or_else(not_ours)?;
    world.current_run.get_or_init(|| run.clone());
    crate::heartbeat::record_heartbeat(&world.home, run);
    stop::decide_stop(&StopContext { world, stop, session, run, listing: None })?
        .map_err(|_| not_ours())
}

/// After an error of ralph's own the agent may stop, and the run is not marked verified.
pub fn allow_after_runner_error(world: &World, run: &RunId, error: &RunnerStateError) -> Verdict {
    if let RunnerStateError::Store(error) = error {
        facts::record_run_fault(world, run, error);
    }
    Verdict::Allow
}
