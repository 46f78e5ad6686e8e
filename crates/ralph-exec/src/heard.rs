//! That something was heard of a session. Silence is what tells a person that the hooks are gone.

use crate::clock;
use crate::fs;
use crate::holder::{self, Ended, Pointer};
use crate::paths::Home;
use crate::world::World;
use ralph_core::id::{RunId, SessionId};

const LARGEST: usize = 64;

/// The run that holds the session, after noting that the session is there. What cannot be read holds nobody here: the
/// next stop tells about it.
pub fn run_of(world: &World, session: &SessionId) -> Option<RunId> {
    match holder::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => {
            note(&world.home, &run);
            Some(run)
        }
        Ok(Some(Pointer { ended: Ended::Yes, .. }) | None) | Err(_) => None,
    }
}

/// A heartbeat that cannot be written is one that is missing, and looks like it.
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

/// When the session was last heard of, if ever.
pub fn last_ms(home: &Home, run: &RunId) -> Option<u64> {
    let text = fs::read_opt(&home.heard(run), LARGEST).ok().flatten()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}
