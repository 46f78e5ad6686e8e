//! Runs that a runner drives: the runner's lock, the session the run continues in, and the runner's journal records.
//!
//! The runner itself is in `ralph-drive`.

use crate::held::{self, Scene};
use crate::surroundings;
use ralph_core::decide::Decision;
use ralph_core::drive::{Drove, Session};
use ralph_core::event::Stop;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Change, Move, Process, VERSION};
use ralph_core::run::Phase;
use ralph_core::verdict::Verdict;
use ralph_home::paths::Home;
use ralph_home::run_process;
use ralph_home::session_pointer::{self, Ended, HolderError, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::World;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, Lock, LockError};
use ralph_sys::owner;
use std::time::Duration;

/// A runner that was just killed may still hold the lock for a moment.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum DrivenError {
    #[error("run `{run}` already has a runner{}", by.map(|process| format!(" (process {})", process.pid)).unwrap_or_default())]
    Driven { run: RunId, by: Option<Process> },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    SessionOwner(#[from] HolderError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the session that stopped does not own run `{0}`")]
    NotOurs(RunId),
    #[error("session `{session}` belongs to another run, `{run}`")]
    Taken { session: SessionId, run: RunId },
}

/// Lock that the one runner of a run holds while it drives.
#[derive(Debug)]
pub struct Reins {
    _lock: Lock,
}

/// Locks a run for the calling runner. A second runner is refused; a dead runner's lock is free.
pub fn take(home: &Home, run: &RunId) -> Result<Reins, DrivenError> {
    let paths = home.run(run);
    let lock = match fs::lock(&paths.runner_lock(), &Deadline::after(PATIENCE)) {
        Ok(lock) => lock,
        Err(LockError::Busy { .. }) => {
            return Err(DrivenError::Driven {
                run: run.clone(),
                by: run_process::runner(home, run),
            });
        }
        Err(LockError::File(error)) => return Err(error.into()),
    };
    let process = owner::mark(std::process::id());
    let bytes = serde_json::to_vec(&process).unwrap_or_default();
    fs::replace(&paths.runner(), &bytes, Durability::Cached)?;
    Ok(Reins { _lock: lock })
}

/// Whether a runner answers the session's stops itself, so that command hooks do not answer them too.
pub fn is_answered(world: &World, session: Option<&SessionId>) -> bool {
    let Some(named) = world.env.driven().and_then(|run| RunId::parse(&run)) else { return false };
    let Some(session) = session else { return false };
    match session_pointer::pointer(&world.home, session) {
        Ok(Some(Pointer { run, .. })) => {
            run == named && run_process::runner(&world.home, &run).is_some()
        }
        Ok(None) | Err(_) => false,
    }
}

/// Records an action of the runner. The write is synced, because a journal that lost its last line in a power failure
/// looks like one that was edited.
pub fn record(world: &World, run: &RunId, drove: Drove) -> Result<Opened, StoreError> {
    write(world, run, Change::Drove(Box::new(drove)), Durability::Synced)?;
    store::load(&world.home, run)
}

fn write(
    world: &World,
    run: &RunId,
    change: Change,
    durability: Durability,
) -> Result<(), StoreError> {
    store::transact(&world.on(run), |_| Step::Write { change, durability, answer: () })
}

/// Resumes a run that was parked or paused, or whose runner is gone.
pub fn goes_on(world: &World, run: &RunId) -> Result<Opened, StoreError> {
    write(world, run, Change::Resumed, Durability::Synced)?;
    store::load(&world.home, run)
}

/// Continues the run in this session, which is either fresh or already its own.
pub fn enter(world: &World, run: &RunId, session: &Session) -> Result<(), DrivenError> {
    let (home, deadline) = (&world.home, &world.deadline());
    let opened = store::load(home, run)?;
    let before = opened.state.owner(&opened.run).cloned();
    if before.as_ref() != Some(&session.id) {
        let _lock = session_pointer::lock(home, &session.id, deadline).map_err(StoreError::from)?;
        if let Some(pointer) = session_pointer::pointer(home, &session.id)?
            && pointer.ended == Ended::No
            && pointer.run != *run
        {
            return Err(DrivenError::Taken { session: session.id.clone(), run: pointer.run });
        }
        let to = session.id.clone();
        let change = Change::Moved { to, how: Move::HandedOver, process: None, seen: 0 };
        write(world, run, change, Durability::Synced)?;
        let pointer = Pointer { v: VERSION, run: run.clone(), ended: Ended::No };
        session_pointer::point(home, &session.id, &pointer)?;
    } else if matches!(opened.state.phase, Phase::Paused { .. } | Phase::Orphaned) {
        let to = session.id.clone();
        let change = Change::Moved { to, how: Move::Resumed, process: None, seen: 0 };
        write(world, run, change, Durability::Synced)?;
    }
    record(world, run, Drove::Session(session.clone()))?;
    if let Some(before) = before.filter(|before| *before != session.id) {
        session_pointer::end(home, &before, run, deadline)?;
    }
    Ok(())
}

/// Decides a stop of the run's session, whether the host or the runner itself asks.
pub fn decide(world: &World, run: &RunId, stop: &Stop) -> Result<Decision, DrivenError> {
    let not_ours = || DrivenError::NotOurs(run.clone());
    let session = stop.session.as_ref().ok_or_else(not_ours)?;
    world.in_hand.get_or_init(|| run.clone());
    crate::heard::note(&world.home, run);
    held::decided(&Scene { world, stop, session, run })?.map_err(|_| not_ours())
}

/// After an error of ralph's own the agent may stop, and the run is not marked verified.
pub fn let_go(world: &World, run: &RunId, error: &DrivenError) -> Verdict {
    if let DrivenError::Store(error) = error {
        surroundings::trouble(world, run, error);
    }
    Verdict::Allow
}
