//! The heartbeat of a run: the time of the last event from its session. A missing heartbeat shows a person that the
//! hooks no longer work.

use ralph_core::id::{RunId, SessionId};
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs;

const MAX_HEARTBEAT_BYTES: usize = 64;

/// Finds the run that holds the session and records a heartbeat for it. An unreadable pointer counts as no run here;
/// the next stop reports it.
pub fn find_run_and_beat(world: &World, session: &SessionId) -> Option<RunId> {
    match session_pointer::read_pointer(&world.home, session) {
        Ok(Some(SessionPointer { run, ended: false, .. })) => {
            record_heartbeat(&world.home, &run);
            Some(run)
        }
        Ok(Some(SessionPointer { ended: true, .. }) | None) | Err(_) => None,
    }
}

/// Records a heartbeat. A failed write is ignored, because the missing heartbeat shows it.
pub fn record_heartbeat(home: &RalphHome, run: &RunId) {
    let path = home.heartbeat(run);
    let now = format!("{:013}\n", clock::now_ms());
    let write = || fs::overwrite(&path, now.as_bytes());
    if write().is_err()
        && let Some(parent) = path.parent()
        && fs::create_private_dir(parent).is_ok()
    {
        drop(write());
    }
}

/// The time of the last heartbeat, if there was one.
pub fn last_heartbeat_ms(home: &RalphHome, run: &RunId) -> Option<u64> {
    let text = fs::read_if_exists(&home.heartbeat(run), MAX_HEARTBEAT_BYTES).ok().flatten()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}
