//! How long a run has been active.

use super::{Phase, State};
use crate::drive::Drove;
use crate::record::Change;

/// The effect of an entry on the clock of a driven run, which stands still while no runner is active.
pub(super) enum Clock {
    /// The runner was gone until now, so the clock restarts here.
    StartsAgain,
    /// Input from a person, with or without a runner: the clock does not change.
    AsItIs,
}

impl Clock {
    /// `None` for entries that are written while a runner is active: the clock advances.
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
    /// The current time on the run's clock. It stands still for an orphaned driven run, even before that is recorded.
    pub fn time_ms(&self, phase: Phase, now_ms: u64) -> u64 {
        let is_left = self.driving.count > 0 && phase == Phase::Orphaned;
        if is_left { self.clock_ms } else { now_ms }
    }

    /// The active time of the run, without pauses.
    pub fn elapsed_ms(&self, now_ms: u64) -> u64 {
        match self.phase {
            Phase::Active | Phase::Orphaned => {
                self.ran_ms.saturating_add(now_ms.saturating_sub(self.clock_ms))
            }
            Phase::Paused { .. } | Phase::Ended(_) => self.ran_ms,
        }
    }
}
