//! Who holds a session: a run of ours, a loop directory nobody had claimed, files of other tools, or nobody.

use crate::adopt::{self, Binding};
use crate::clock::Deadline;
use crate::faults::{self, Fault, Kind, describe};
use crate::fs::{self, Durability, FileError, Lock, LockError};
use crate::paths::Home;
use crate::world::World;
use ralph_core::event::Stop;
use ralph_core::id::{RunId, SessionId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const LARGEST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Nobody,
    Run(RunId),
    Files,
    /// The file that would say could not be read, and was put aside.
    Lost(String),
}

#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` could not be read and was kept as `{}`", path.display(), kept.display())]
    Garbled { path: PathBuf, kept: PathBuf },
}

/// `sessions/<session>`: the one small file that every stop looks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    pub v: u8,
    pub run: RunId,
    /// An ended run holds nobody; saying so here spares every later stop the look at it.
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Yes,
    No,
}

pub fn find(world: &World, stop: &Stop, session: &SessionId) -> Holder {
    match pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => return Holder::Run(run),
        // What a person ended stays ended: only they arm this session again.
        Ok(Some(Pointer { ended: Ended::Yes, .. })) => {}
        Ok(None) => {
            if let Some(run) = unclaimed(world, stop, session) {
                return Holder::Run(run);
            }
        }
        Err(error) => {
            let what = describe(&error);
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_session(session));
            return match error {
                HolderError::Garbled { .. } => Holder::Lost(what),
                HolderError::File(_) | HolderError::Lock(_) => Holder::Nobody,
            };
        }
    }
    if fs::exists(&world.home.state(session)) { Holder::Files } else { Holder::Nobody }
}

fn unclaimed(world: &World, stop: &Stop, session: &SessionId) -> Option<RunId> {
    let binding = match world.env.loop_dir() {
        Some(named) => Binding::Named(project(world, stop)?.join(named)),
        None => Binding::Found(project(world, stop)?.join(adopt::DEFAULT_DIRECTORY)),
    };
    let list = binding.directory().join(adopt::FEATURES);
    if !fs::exists(&list) {
        if let Binding::Named(_) = binding {
            let what = format!(
                "`RALPH_LOOP_DIR` leads to `{}`, which is not there; nobody is held",
                list.display()
            );
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_session(session));
        }
        return None;
    }
    if fs::exists(&world.home.tombstone(session.as_str())) || fs::exists(&world.home.kill_switch())
    {
        return None;
    }
    match adopt::take(world, &binding, session, &project(world, stop)?) {
        Ok(run) => run,
        Err(error) => {
            let what = describe(&error);
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_session(session));
            None
        }
    }
}

/// The project, not the directory that the agent happens to stand in.
pub fn project(world: &World, stop: &Stop) -> Option<PathBuf> {
    let directory = world.env.project_dir().or_else(|| stop.cwd.as_deref().map(PathBuf::from))?;
    directory.is_absolute().then_some(directory)
}

pub fn pointer(home: &Home, session: &SessionId) -> Result<Option<Pointer>, HolderError> {
    let path = home.session(session);
    let Some(bytes) = fs::read_opt(&path, LARGEST)? else { return Ok(None) };
    if let Ok(pointer) = serde_json::from_slice(&bytes) {
        return Ok(Some(pointer));
    }
    let kept = fs::quarantine(&path, crate::clock::now_ms())?;
    Err(HolderError::Garbled { path, kept })
}

/// Whoever changes which run a session points to holds this, so that nobody undoes what another just did.
pub fn lock(home: &Home, session: &SessionId, deadline: &Deadline) -> Result<Lock, LockError> {
    let path = home.session_lock(session);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent).map_err(LockError::File)?;
    }
    fs::lock(&path, deadline)
}

/// Says that the run has ended, unless the session points to another by now.
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
