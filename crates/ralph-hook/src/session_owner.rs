//! Finds what owns a session: one of ralph's runs, a loop directory that no session has claimed yet, files of other
//! tools, or nothing.

use crate::adopt::{self, Binding};
use ralph_core::event::Stop;
use ralph_core::id::{RunId, SessionId};
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::session_pointer::{self, Ended, HolderError, Pointer};
use ralph_home::world::World;
use ralph_lists::loop_directory;
use ralph_sys::fs;
use std::path::PathBuf;

/// The owner of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    Nothing,
    Run(RunId),
    /// Files that other tools wrote about the session.
    Files,
    /// The session's pointer could not be read and was quarantined.
    Unreadable(String),
}

/// Finds the owner, and adopts an unclaimed loop directory of the project on the way.
pub fn find_owner(world: &World, stop: &Stop, session: &SessionId) -> SessionOwner {
    match session_pointer::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => return SessionOwner::Run(run),
        // An ended run stays ended: only a person starts another in this session.
        Ok(Some(Pointer { ended: Ended::Yes, .. })) => {}
        Ok(None) => {
            if let Some(run) = adopt_loop_directory(world, stop, session) {
                return SessionOwner::Run(run);
            }
        }
        Err(error) => {
            let what = describe(&error);
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_session(session));
            return match error {
                HolderError::Garbled { .. } => SessionOwner::Unreadable(what),
                HolderError::File(_) | HolderError::Lock(_) => SessionOwner::Nothing,
            };
        }
    }
    if fs::exists(&world.home.state(session)) { SessionOwner::Files } else { SessionOwner::Nothing }
}

fn adopt_loop_directory(world: &World, stop: &Stop, session: &SessionId) -> Option<RunId> {
    let project = project_directory(world, stop)?;
    let binding = match world.env.loop_dir() {
        Some(named) => Binding::Named(project.join(named)),
        None => Binding::Found(project.join(loop_directory::DEFAULT_DIRECTORY)),
    };
    let list = binding.directory().join(loop_directory::FEATURES);
    if !fs::exists(&list) {
        if let Binding::Named(_) = binding {
            let what = format!(
                "`RALPH_LOOP_DIR` points to `{}`, which does not exist; no session is held",
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
    match adopt::take(world, &binding, session, &project) {
        Ok(run) => run,
        Err(error) => {
            let what = describe(&error);
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_session(session));
            None
        }
    }
}

/// The project directory, which is not necessarily the agent's current directory.
pub fn project_directory(world: &World, stop: &Stop) -> Option<PathBuf> {
    let directory = world.env.project_dir().or_else(|| stop.cwd.as_deref().map(PathBuf::from))?;
    directory.is_absolute().then_some(directory)
}
