//! A run whose agent a runner starts: who drives it, in which session it goes on, and what the runner puts on record.

use crate::clock::Deadline;
use crate::fs::{self, Durability, FileError, Lock, LockError};
use crate::held::{self, Scene};
use crate::holder::{self, Ended, HolderError, Pointer};
use crate::owner::{self, Alive};
use crate::paths::Home;
use crate::store::{self, Opened, Step, StoreError};
use crate::surroundings;
use crate::world::World;
use ralph_core::decide::Decision;
use ralph_core::drive::{Drove, Session};
use ralph_core::event::Stop;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Change, Move, Process, VERSION};
use ralph_core::run::Phase;
use ralph_core::verdict::Verdict;
use std::time::Duration;

/// The session's own variable: its command hooks leave its stops to the runner.
pub const VARIABLE: &str = "RALPH_DRIVEN";

const LARGEST: usize = 256;
/// Who has just been killed may still hold it.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum DrivenError {
    #[error("run `{run}` is driven already{}", by.map(|process| format!(", by process {}", process.pid)).unwrap_or_default())]
    Driven { run: RunId, by: Option<Process> },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Holder(#[from] HolderError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the session that stopped is not the one that run `{0}` is in")]
    NotOurs(RunId),
    #[error("session `{session}` belongs to run `{run}`, not to this one")]
    Taken { session: SessionId, run: RunId },
}

/// Held by the one runner of a run, for as long as it drives.
#[derive(Debug)]
pub struct Reins {
    _lock: Lock,
}

/// Takes a run to drive it. A second runner is refused, and a dead one's place is free.
pub fn take(home: &Home, run: &RunId) -> Result<Reins, DrivenError> {
    let paths = home.run(run);
    let lock = match fs::lock(&paths.runner_lock(), &Deadline::after(PATIENCE)) {
        Ok(lock) => lock,
        Err(LockError::Busy { .. }) => {
            return Err(DrivenError::Driven { run: run.clone(), by: runner(home, run) });
        }
        Err(LockError::File(error)) => return Err(error.into()),
    };
    let process = owner::mark(std::process::id());
    let bytes = serde_json::to_vec(&process).unwrap_or_default();
    fs::replace(&paths.runner(), &bytes, Durability::Cached)?;
    Ok(Reins { _lock: lock })
}

/// The process that drives the run, if one does.
pub fn runner(home: &Home, run: &RunId) -> Option<Process> {
    let bytes = fs::read_opt(&home.run(run).runner(), LARGEST).ok().flatten()?;
    let process: Process = serde_json::from_slice::<Option<Process>>(&bytes).ok().flatten()?;
    (owner::is_alive(&process) == Alive::Yes).then_some(process)
}

/// Whether a runner answers for the session, so that its command hooks need not.
pub fn is_answered(world: &World, session: Option<&SessionId>) -> bool {
    let Some(named) = world.env.driven().and_then(|run| RunId::parse(&run)) else { return false };
    let Some(session) = session else { return false };
    match holder::pointer(&world.home, session) {
        Ok(Some(Pointer { run, .. })) => run == named && runner(&world.home, &run).is_some(),
        Ok(None) | Err(_) => false,
    }
}

/// Puts what the runner did on record, where it survives the machine: a journal that lost its last line looks like one
/// that somebody changed.
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

/// A person goes on with a run that was parked or paused, or whose runner is gone.
pub fn goes_on(world: &World, run: &RunId) -> Result<Opened, StoreError> {
    write(world, run, Change::Resumed, Durability::Synced)?;
    store::load(&world.home, run)
}

/// The run goes on in this session, which is fresh, or was its own before.
pub fn enter(world: &World, run: &RunId, session: &Session) -> Result<(), DrivenError> {
    let (home, deadline) = (&world.home, &world.deadline());
    let opened = store::load(home, run)?;
    let before = opened.state.owner(&opened.run).cloned();
    if before.as_ref() != Some(&session.id) {
        let _lock = holder::lock(home, &session.id, deadline).map_err(StoreError::from)?;
        if let Some(pointer) = holder::pointer(home, &session.id)?
            && pointer.ended == Ended::No
            && pointer.run != *run
        {
            return Err(DrivenError::Taken { session: session.id.clone(), run: pointer.run });
        }
        let to = session.id.clone();
        let change = Change::Moved { to, how: Move::HandedOver, process: None, seen: 0 };
        write(world, run, change, Durability::Synced)?;
        let pointer = Pointer { v: VERSION, run: run.clone(), ended: Ended::No };
        holder::point(home, &session.id, &pointer)?;
    } else if matches!(opened.state.phase, Phase::Paused { .. } | Phase::Orphaned) {
        let to = session.id.clone();
        let change = Change::Moved { to, how: Move::Resumed, process: None, seen: 0 };
        write(world, run, change, Durability::Synced)?;
    }
    record(world, run, Drove::Session(session.clone()))?;
    if let Some(before) = before.filter(|before| *before != session.id) {
        holder::end(home, &before, run, deadline)?;
    }
    Ok(())
}

/// What is decided about a stop of the run's session: one that the host asked about, or the runner itself.
pub fn decide(world: &World, run: &RunId, stop: &Stop) -> Result<Decision, DrivenError> {
    let not_ours = || DrivenError::NotOurs(run.clone());
    let session = stop.session.as_ref().ok_or_else(not_ours)?;
    world.in_hand.get_or_init(|| run.clone());
    crate::heard::note(&world.home, run);
    held::decided(&Scene { world, stop, session, run })?.map_err(|_| not_ours())
}

/// Whatever broke, the agent may stop, and the run is not called verified.
pub fn let_go(world: &World, run: &RunId, error: &DrivenError) -> Verdict {
    if let DrivenError::Store(error) = error {
        surroundings::trouble(world, run, error);
    }
    Verdict::Allow
}
