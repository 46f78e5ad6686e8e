//! The file `sessions/<session>`, which names the run that owns a session. Every stop looks for it first.

use crate::faults::{self, Fault, FaultKind};
use crate::paths::RalphHome;
use crate::world::World;
use ralph_core::id::{RunId, SessionId};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, FileLock, LockError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const MAX_POINTER_BYTES: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum SessionPointerError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` could not be parsed and was moved to `{}`", path.display(), kept.display())]
    Quarantined { path: PathBuf, kept: PathBuf },
    #[error("`{}` was written by a newer ralph (format {version})", path.display())]
    Newer { path: PathBuf, version: u64 },
}

/// The version of the format that this ralph writes.
pub const POINTER_VERSION: u8 = 1;

/// Content of `sessions/<session>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPointer {
    pub v: u8,
    pub run: RunId,
    /// Recorded here as well, so that later stops of the session need not load a run that has ended.
    #[serde(with = "yes_or_no")]
    pub ended: bool,
}

/// The part of the file that every version has.
#[derive(Deserialize)]
struct PointerHeader {
    v: u64,
}

impl SessionPointer {
    /// Points to a run that has not ended.
    pub fn to_run(run: &RunId) -> Self {
        Self { v: POINTER_VERSION, run: run.clone(), ended: false }
    }
}

/// Stores a `bool` as `"yes"` or `"no"`.
mod yes_or_no {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(value: &bool, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(if *value { "yes" } else { "no" })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        match &*Cow::<str>::deserialize(from)? {
            "yes" => Ok(true),
            "no" => Ok(false),
            other => Err(D::Error::invalid_value(Unexpected::Str(other), &"`yes` or `no`")),
        }
    }
}

/// Returns `None` if no run owns the session. Moves a file that does not parse to quarantine, but leaves one of a newer
/// version where it is.
pub fn read_pointer(
    home: &RalphHome,
    session: &SessionId,
) -> Result<Option<SessionPointer>, SessionPointerError> {
    let path = home.session_pointer(session);
    let Some(bytes) = fs::read_if_exists(&path, MAX_POINTER_BYTES)? else { return Ok(None) };
    match serde_json::from_slice::<SessionPointer>(&bytes) {
        Ok(pointer) if pointer.v == POINTER_VERSION => return Ok(Some(pointer)),
        Ok(_) | Err(_) => {}
    }
    if let Ok(PointerHeader { v: version }) = serde_json::from_slice(&bytes)
        && version > POINTER_VERSION.into()
    {
        return Err(SessionPointerError::Newer { path, version });
    }
    let kept = fs::quarantine(&path, ralph_sys::clock::now_ms())?;
    Err(SessionPointerError::Quarantined { path, kept })
}

/// Must be held while changing which run a session points to, so that concurrent changes do not undo each other.
pub fn lock_session(
    home: &RalphHome,
    session: &SessionId,
    deadline: &Deadline,
) -> Result<FileLock, LockError> {
    let path = home.session_lock(session);
    if let Some(parent) = path.parent() {
        fs::create_private_dir(parent).map_err(LockError::File)?;
    }
    fs::acquire_lock(&path, deadline)
}

/// Records that the run has ended, unless the session points to another run by now.
pub fn mark_run_ended(
    home: &RalphHome,
    session: &SessionId,
    run: &RunId,
    deadline: &Deadline,
) -> Result<(), SessionPointerError> {
    let _lock = lock_session(home, session, deadline)?;
    match read_pointer(home, session)? {
        Some(pointer) if pointer.run == *run => {
            Ok(write_pointer(home, session, &SessionPointer { ended: true, ..pointer })?)
        }
        Some(_) | None => Ok(()),
    }
}

/// Removes the pointer of a session to a run that is gone, unless the session points to another run by now.
pub fn remove_pointer(
    home: &RalphHome,
    session: &SessionId,
    run: &RunId,
    deadline: &Deadline,
) -> Result<(), SessionPointerError> {
    let _lock = lock_session(home, session, deadline)?;
    match read_pointer(home, session)? {
        Some(pointer) if pointer.run == *run => {
            Ok(fs::remove_file(&home.session_pointer(session))?)
        }
        Some(_) | None => Ok(()),
    }
}

pub fn write_pointer(
    home: &RalphHome,
    session: &SessionId,
    pointer: &SessionPointer,
) -> Result<(), FileError> {
    let path = home.session_pointer(session);
    if let Some(parent) = path.parent() {
        fs::create_private_dir(parent)?;
    }
    fs::replace(&path, &fs::encode_json(&path, pointer)?, Durability::Synced)
}

/// Marks the session's run as ended. A failure is recorded as a fault, since the run itself has ended either way.
pub fn end_session(world: &World, session: &SessionId, run: &RunId) {
    if let Err(error) = mark_run_ended(&world.home, session, run, &world.step_deadline()) {
        let fault =
            Fault::new(FaultKind::File, &faults::describe_error(&error)).with_session(session);
        faults::record_fault(&world.home, &fault);
    }
}
