//! How long a run has run.

use super::{Phase, State};
use crate::drive::Drove;
use crate::record::Change;

/// What an entry is to the clock of a driven run, which stands still while nobody drives it.
pub(super) enum Clock {
    /// Whoever drove it was gone until now.
    StartsAgain,
    /// A person said something, whether or not somebody drives it.
    AsItIs,
}

impl Clock {
    /// `None` for what happens while somebody drives it.
    pub(super) fn of(change: &Change) -> Option<Self> {
        let is_granted = |drove: &Drove| matches!(drove, Drove::Granted { .. });
        match change {
            Change::Resumed => Some(Self::StartsAgain),
            Change::Told { .. }
            | Change::Waived(_)
            | Change::Insisted { .. }
            | Change::Limited(_) => Some(Self::AsItIs),
            Change::Drove(drove) => is_granted(drove).then_some(Self::AsItIs),
            Change::Started(_)
            | Change::Restored(_)
            | Change::Decided(_)
            | Change::Trouble { .. }
            | Change::Paused
            | Change::Interrupted { .. }
            | Change::Cancelled
            | Change::Asked { .. }
            | Change::Waits { .. }
            | Change::Moved { .. }
            | Change::Compacted
            | Change::Anchored
            | Change::Denied { .. }
            | Change::Overridden { .. }
            | Change::Part(_)
            | Change::Disputed(_)
            | Change::Stepped(_)
            | Change::Recalled { .. }
            | Change::Learned { .. } => None,
        }
    }
}

impl State {
    /// What the time is to a run: for one that nobody drives it stands still, whether or not that is on record.
    pub fn time_ms(&self, phase: Phase, now_ms: u64) -> u64 {
        let is_left = self.driving.count > 0 && phase == Phase::Orphaned;
        if is_left { self.clock_ms } else { now_ms }
    }

    pub fn elapsed_ms(&self, now_ms: u64) -> u64 {
        match self.phase {
            Phase::Active | Phase::Orphaned => {
                self.ran_ms.saturating_add(now_ms.saturating_sub(self.clock_ms))
            }
            Phase::Paused { .. } | Phase::Ended(_) => self.ran_ms,
        }
    }
}
