//! The processes behind a run: the host that owns its session, and the runner that drives it.

use crate::paths::RalphHome;
use crate::store::LoadedRun;
use ralph_core::facts::OwnerPresence;
use ralph_core::id::RunId;
use ralph_core::record::ProcessIdentity;
use ralph_sys::fs::{self, FileError};
use ralph_sys::process_identity::{self, Liveness};

const MAX_RUNNER_BYTES: usize = 256;
/// A run without a known process counts as orphaned after this much silence.
const OWNER_SILENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether the process that owns the run still exists.
pub fn owner_status(
    opened: &LoadedRun,
    now_ms: u64,
    caller: Option<ProcessIdentity>,
) -> OwnerPresence {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => OwnerPresence::Present,
        (Some(known), _) => match process_identity::check_liveness(&known) {
            Liveness::Alive | Liveness::Unknown => OwnerPresence::Present,
            Liveness::Dead => OwnerPresence::Gone,
        },
        (None, None) if now_ms.saturating_sub(opened.state.last_seen_ms) > OWNER_SILENCE_MS => {
            OwnerPresence::Gone
        }
        (None, None | Some(_)) => OwnerPresence::Present,
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
