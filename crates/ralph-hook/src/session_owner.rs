//! Finds what owns a session: one of ralph's runs, a loop directory that no session has claimed yet, files of other
//! tools, or nothing.

use crate::adopt::{self, LoopAdoption, LoopBinding};
use ralph_core::event::StopEvent;
use ralph_core::id::{RunId, SessionId};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::session_pointer::{self, SessionPointer, SessionPointerError};
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
    /// Nothing, but a person is to see this notice about a loop that they have not approved.
    UnapprovedLoop(String),
    /// The session's pointer could not be read and was quarantined.
    Unreadable(String),
}

/// Finds the owner, and adopts an unclaimed loop directory of the project on the way.
pub fn find_owner(world: &World, stop: &StopEvent, session: &SessionId) -> SessionOwner {
    let mut notice = None;
    match session_pointer::read_pointer(&world.home, session) {
        Ok(Some(SessionPointer { run, ended: false, .. })) => {
            return SessionOwner::Run(run);
        }
        // An ended run stays ended: only a person starts another in this session.
        Ok(Some(SessionPointer { ended: true, .. })) => {}
        Ok(None) => match adopt_loop_directory(world, stop, session) {
            LoopAdoption::Adopted(run) => return SessionOwner::Run(run),
            LoopAdoption::Unapproved(new) => notice = Some(new),
            LoopAdoption::NotAvailable => {}
        },
        Err(error) => {
            let what = describe_error(&error);
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_session(session),
            );
            return match error {
                SessionPointerError::Quarantined { .. } => SessionOwner::Unreadable(what),
                SessionPointerError::File(_)
                | SessionPointerError::Lock(_)
                | SessionPointerError::Newer { .. } => SessionOwner::Nothing,
            };
        }
    }
    if fs::exists(&world.home.session_state(session)) {
        return SessionOwner::Files;
    }
    match notice.and_then(|notice| notice.show_once()) {
        Some(notice) => SessionOwner::UnapprovedLoop(notice),
        None => SessionOwner::Nothing,
    }
}

fn adopt_loop_directory(world: &World, stop: &StopEvent, session: &SessionId) -> LoopAdoption {
    let Some(project) = project_directory(world, stop.cwd.as_deref()) else {
        return LoopAdoption::NotAvailable;
    };
    let binding = match world.env.loop_dir() {
        Some(named) => LoopBinding::Named(project.join(named)),
        None => LoopBinding::Found(project.join(loop_directory::DEFAULT_DIRECTORY)),
    };
    let list = binding.directory().join(loop_directory::FEATURES_FILE);
    if !fs::exists(&list) {
        if let LoopBinding::Named(_) = binding {
            let what = format!(
                "`RALPH_LOOP_DIR` points to `{}`, which does not exist; no session is held",
                list.display()
            );
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_session(session),
            );
        }
        return LoopAdoption::NotAvailable;
    }
    if fs::exists(&world.home.tombstone(session.as_str())) || fs::exists(&world.home.kill_switch())
    {
        return LoopAdoption::NotAvailable;
    }
    match adopt::adopt_loop(world, &binding, session, &project) {
        Ok(adoption) => adoption,
        Err(error) => {
            let what = describe_error(&error);
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_session(session),
            );
            LoopAdoption::NotAvailable
        }
    }
}

/// The project directory, which is not necessarily the agent's current directory.
pub fn project_directory(world: &World, cwd: Option<&str>) -> Option<PathBuf> {
    let directory = host_env::host_project_dir(&world.env).or_else(|| cwd.map(PathBuf::from))?;
    directory.is_absolute().then_some(directory)
}
