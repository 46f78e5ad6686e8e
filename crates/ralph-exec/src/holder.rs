//! Who holds a session: a run of ours, a loop directory nobody had claimed, files of other tools, or nobody.

use crate::adopt::{self, Binding};
use crate::faults::{self, Fault, Kind};
use crate::fs::{self, Durability, FileError};
use crate::paths::Home;
use crate::world::World;
use ralph_core::event::Stop;
use ralph_core::id::{RunId, SessionId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const LARGEST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Nobody,
    Run(RunId),
    Files,
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
            faults::record(&world.home, &Fault::new(Kind::File, &describe(&error)));
            return Holder::Nobody;
        }
    }
    if fs::exists(&world.home.state(session)) { Holder::Files } else { Holder::Nobody }
}

fn unclaimed(world: &World, stop: &Stop, session: &SessionId) -> Option<RunId> {
    let binding = match world.env.loop_dir() {
        Some(named) => Binding::Named(project(world, stop)?.join(named)),
        None => Binding::Found(project(world, stop)?.join(adopt::DEFAULT_DIRECTORY)),
    };
    if !fs::exists(&binding.directory().join(adopt::FEATURES))
        || fs::exists(&world.home.tombstone(session.as_str()))
        || fs::exists(&world.home.kill_switch())
    {
        return None;
    }
    match adopt::take(world, &binding, session, &project(world, stop)?) {
        Ok(run) => run,
        Err(error) => {
            faults::record(&world.home, &Fault::new(Kind::File, &describe(&error)));
            None
        }
    }
}

/// The project, not the directory that the agent happens to stand in.
pub fn project(world: &World, stop: &Stop) -> Option<PathBuf> {
    let directory = world.env.project_dir().or_else(|| stop.cwd.as_deref().map(PathBuf::from))?;
    directory.is_absolute().then_some(directory)
}

pub fn pointer(home: &Home, session: &SessionId) -> Result<Option<Pointer>, FileError> {
    let path = home.session(session);
    let Some(bytes) = fs::read_opt(&path, LARGEST)? else {
        return Ok(None);
    };
    if let Ok(pointer) = serde_json::from_slice(&bytes) {
        return Ok(Some(pointer));
    }
    let kept = fs::quarantine(&path, crate::clock::now_ms())?;
    faults::record(
        home,
        &Fault::new(
            Kind::File,
            &format!("`{}` could not be read and was kept as `{}`", path.display(), kept.display()),
        ),
    );
    Ok(None)
}

pub fn point(home: &Home, session: &SessionId, pointer: &Pointer) -> Result<(), FileError> {
    let path = home.session(session);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent)?;
    }
    let bytes = serde_json::to_vec(pointer).unwrap_or_default();
    fs::replace(&path, &bytes, Durability::Synced)
}

/// An error and its causes on one line.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        out.push_str(": ");
        out.push_str(&cause.to_string());
        source = cause.source();
    }
    out
}

/// Shortens a path below the person's home the way people write it.
pub fn tilde(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
