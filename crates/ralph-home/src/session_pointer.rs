//! The file `sessions/<session>`, which names the run that owns a session. Every stop looks for it first.

use crate::faults::{self, Fault, Kind};
use crate::paths::Home;
use crate::world::World;
use ralph_core::id::{RunId, SessionId};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, Lock, LockError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const LARGEST: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` could not be parsed and was moved to `{}`", path.display(), kept.display())]
    Garbled { path: PathBuf, kept: PathBuf },
}

/// Content of `sessions/<session>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    pub v: u8,
    pub run: RunId,
    /// Recorded here as well, so that later stops of the session need not load a run that has ended.
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Yes,
    No,
}

/// Returns `None` if no run owns the session. Moves a file that does not parse to quarantine.
pub fn pointer(home: &Home, session: &SessionId) -> Result<Option<Pointer>, HolderError> {
    let path = home.session(session);
    let Some(bytes) = fs::read_opt(&path, LARGEST)? else { return Ok(None) };
    if let Ok(pointer) = serde_json::from_slice(&bytes) {
        return Ok(Some(pointer));
    }
    let kept = fs::quarantine(&path, ralph_sys::clock::now_ms())?;
    Err(HolderError::Garbled { path, kept })
}

/// Must be held while changing which run a session points to, so that concurrent changes do not undo each other.
pub fn lock(home: &Home, session: &SessionId, deadline: &Deadline) -> Result<Lock, LockError> {
    let path = home.session_lock(session);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent).map_err(LockError::File)?;
    }
    fs::lock(&path, deadline)
}

/// Records that the run has ended, unless the session points to another run by now.
pub fn end(
    home: &Home,
    session: &SessionId,
    run: &RunId,
    deadline: &Deadline,
) -> Result<(), HolderError> {
    let _lock = lock(home, session, deadline)?;
    match pointer(home, session)? {
        Some(pointer) if pointer.run == *run => {
            Ok(point(home, session, &Pointer { ended: Ended::Yes, ..pointer })?)
        }
        Some(_) | None => Ok(()),
    }
}

pub fn point(home: &Home, session: &SessionId, pointer: &Pointer) -> Result<(), FileError> {
    let path = home.session(session);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent)?;
    }
    let bytes = serde_json::to_vec(pointer).unwrap_or_default();
    fs::replace(&path, &bytes, Durability::Synced)
}

/// Marks the session's run as ended. A failure is recorded as a fault, since the run itself has ended either way.
pub fn end_session(world: &World, session: &SessionId, run: &RunId) {
    if let Err(error) = end(&world.home, session, run, &world.deadline()) {
        let fault = Fault::new(Kind::File, &faults::describe(&error)).of_session(session);
        faults::record(&world.home, &fault);
    }
}
