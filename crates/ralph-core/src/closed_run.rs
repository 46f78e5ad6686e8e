//! Runs that ended, waited for a person, and were closed by one.
//!
//! An end is final, so no state contains this. A `cancelled` line after the end records it, which changes no state: every
//! version of ralph reads such a journal.

use crate::record::{JournalEntry, RunChange, StopOutcome};
use crate::run::RunPhase;
use crate::status::RunStatus;

impl RunStatus {
    /// Whether a run that ended like this waits for a person, who judges it, repairs something or continues its work.
    pub fn waits_for_person(self) -> bool {
        match self {
            Self::NeedsHuman | Self::NeedsReview | Self::GateBroken => true,
            Self::Verified
            | Self::Green
            | Self::Claimed
            | Self::Exhausted
            | Self::Stuck
            | Self::RateLimited
            | Self::Cancelled
            | Self::Overridden
            | Self::Crashed => false,
        }
    }
}

/// The line with which a person closed the run after its end.
pub fn closing_entry(entries: &[JournalEntry]) -> Option<&JournalEntry> {
    let end = entries.iter().position(|entry| ends_run(&entry.change))?;
    entries.iter().skip(end + 1).find(|entry| entry.change == RunChange::Cancelled)
}

/// Whether one of the lines ended the run.
pub fn is_ended(entries: &[JournalEntry]) -> bool {
    entries.iter().any(|entry| ends_run(&entry.change))
}

fn ends_run(change: &RunChange) -> bool {
    match change {
        RunChange::Decided(decided) => matches!(decided.outcome, StopOutcome::Ended(_)),
        RunChange::Restored(known) => matches!(known.state.phase, RunPhase::Ended(_)),
        RunChange::Cancelled | RunChange::Overridden { .. } => true,
        RunChange::Started(_)
        | RunChange::Trouble { .. }
        | RunChange::Paused
        | RunChange::Interrupted { .. }
        | RunChange::Resumed
        | RunChange::Asked { .. }
        | RunChange::Waits { .. }
        | RunChange::Moved { .. }
        | RunChange::Compacted
        | RunChange::Anchored
        | RunChange::Denied { .. }
        | RunChange::Part(_)
        | RunChange::HintGiven { .. }
        | RunChange::Waived(_)
        | RunChange::WaiverRevoked { .. }
        | RunChange::Disputed(_)
        | RunChange::Approved(_)
        | RunChange::Limited(_)
        | RunChange::Stepped(_)
        | RunChange::Recalled { .. }
        | RunChange::Learned { .. }
        | RunChange::Accepted(_)
        | RunChange::Drove(_) => false,
    }
}
