//! The heartbeat of a run: the time of the last event from its session. A missing heartbeat shows a person that the
//! hooks no longer work.

use ralph_core::id::{RunId, SessionId};
use ralph_home::paths::Home;
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs;

const LARGEST: usize = 64;

/// Finds the run that holds the session and records a heartbeat for it. An unreadable pointer counts as no run here;
/// the next stop reports it.
pub fn run_of(world: &World, session: &SessionId) -> Option<RunId> {
    match session_pointer::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => {
            note(&world.home, &run);
            Some(run)
        }
        Ok(Some(Pointer { ended: Ended::Yes, .. }) | None) | Err(_) => None,
    }
}

/// Records a heartbeat. A failed write is ignored, because the missing heartbeat shows it.
pub fn note(home: &Home, run: &RunId) {
    let path = home.heard(run);
    let now = format!("{:013}\n", clock::now_ms());
    let write = || fs::overwrite(&path, now.as_bytes());
    if write().is_err()
        && let Some(parent) = path.parent()
        && fs::create_dir(parent).is_ok()
    {
        drop(write());
    }
}

/// The time of the last heartbeat, if there was one.
pub fn last_ms(home: &Home, run: &RunId) -> Option<u64> {
    let text = fs::read_opt(&home.heard(run), LARGEST).ok().flatten()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}
