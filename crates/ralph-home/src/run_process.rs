//! The processes behind a run: the host that owns its session, and the runner that drives it.

use crate::paths::RalphHome;
use crate::store::LoadedRun;
use ralph_core::id::RunId;
use ralph_core::record::ProcessIdentity;
use ralph_sys::fs::{self, FileError};
use ralph_sys::process_identity::{self, Liveness};

const MAX_RUNNER_BYTES: usize = 256;
/// A run without a known process counts as orphaned after this much silence.
const OWNER_SILENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether the process that owned the run has exited, or has shown no sign of life for too long.
pub fn is_owner_gone(opened: &LoadedRun, now_ms: u64, caller: Option<ProcessIdentity>) -> bool {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => false,
        (Some(known), _) => process_identity::check_liveness(&known) == Liveness::Dead,
        (None, None) => now_ms.saturating_sub(opened.state.last_seen_ms) > OWNER_SILENCE_MS,
        (None, Some(_)) => false,
    }
}

/// The runner process of the run, if one is alive.
pub fn live_runner(home: &RalphHome, run: &RunId) -> Result<Option<ProcessIdentity>, FileError> {
    let path = home.run(run).runner();
    let process: Option<Option<ProcessIdentity>> = fs::read_json(&path, MAX_RUNNER_BYTES)?;
    let is_alive = |it: &ProcessIdentity| process_identity::check_liveness(it) == Liveness::Alive;
    Ok(process.flatten().filter(is_alive))
}

/// Whether a runner may be driving the run: only a file that says otherwise proves that none does.
pub fn may_be_driven(home: &RalphHome, run: &RunId) -> bool {
    !matches!(live_runner(home, run), Ok(None))
}
