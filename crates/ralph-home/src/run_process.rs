//! The processes behind a run: the host that owns its session, and the runner that drives it.

use crate::paths::Home;
use crate::store::Opened;
use ralph_core::facts::Owner;
use ralph_core::id::RunId;
use ralph_core::record::Process;
use ralph_sys::fs;
use ralph_sys::owner::{self, Alive};

const LARGEST: usize = 256;
/// A run without a known process counts as orphaned after this much silence.
const SILENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether the process that owns the run still exists.
pub fn owner_of(opened: &Opened, now_ms: u64, caller: Option<Process>) -> Owner {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => Owner::Present,
        (Some(known), _) => match owner::is_alive(&known) {
            Alive::Yes | Alive::Unknown => Owner::Present,
            Alive::No => Owner::Gone,
        },
        (None, None) if now_ms.saturating_sub(opened.state.last_seen_ms) > SILENCE_MS => {
            Owner::Gone
        }
        (None, None | Some(_)) => Owner::Present,
    }
}

/// The runner process of the run, if one is alive.
pub fn runner(home: &Home, run: &RunId) -> Option<Process> {
    let bytes = fs::read_opt(&home.run(run).runner(), LARGEST).ok().flatten()?;
    let process: Process = serde_json::from_slice::<Option<Process>>(&bytes).ok().flatten()?;
    (owner::is_alive(&process) == Alive::Yes).then_some(process)
}
