//! How long a run has been active.

use super::{RunPhase, RunState};
use crate::drive::RunnerEvent;
use crate::record::RunChange;

/// The effect of an entry on the clock of a driven run, which stands still while no runner is active.
pub(super) enum ClockEffect {
    /// The runner was gone until now, so the clock restarts here.
    Restart,
    /// Input from a person, with or without a runner: the clock does not change.
    Unchanged,
}

impl ClockEffect {
    /// `None` for entries that are written while a runner is active: the clock advances.
    pub(super) fn of_change(change: &RunChange) -> Option<Self> {
        let is_granted = |drove: &RunnerEvent| matches!(drove, RunnerEvent::Granted { .. });
        match change {
            RunChange::Resumed => Some(Self::Restart),
            RunChange::HintGiven { .. }
            | RunChange::Waived(_)
            | RunChange::WaiverRevoked { .. }
            | RunChange::Limited(_)
            | RunChange::Approved(_)
            | RunChange::Accepted(_) => Some(Self::Unchanged),
            RunChange::Drove(drove) => is_granted(drove).then_some(Self::Unchanged),
            RunChange::Started(_)
            | RunChange::Restored(_)
            | RunChange::Decided(_)
            | RunChange::Trouble { .. }
            | RunChange::Paused
            | RunChange::Interrupted { .. }
            | RunChange::Cancelled
            | RunChange::Asked { .. }
            | RunChange::Waits { .. }
            | RunChange::Moved { .. }
            | RunChange::Compacted
            | RunChange::Anchored
            | RunChange::Denied { .. }
            | RunChange::Overridden { .. }
            | RunChange::Part(_)
            | RunChange::Disputed(_)
            | RunChange::Stepped(_)
            | RunChange::Recalled { .. }
            | RunChange::Learned { .. } => None,
        }
    }
}

impl RunState {
    /// The current time on the run's clock. It stands still for an orphaned driven run, even before that is recorded.
    pub fn effective_now_ms(&self, phase: RunPhase, now_ms: u64) -> u64 {
        let is_left = self.driving.count > 0 && phase == RunPhase::Orphaned;
        if is_left { self.clock_ms } else { now_ms }
    }

    /// The active time of the run, without pauses.
    pub fn elapsed_ms(&self, now_ms: u64) -> u64 {
        match self.phase {
            RunPhase::Active | RunPhase::Orphaned => {
                self.ran_ms.saturating_add(now_ms.saturating_sub(self.clock_ms))
            }
            RunPhase::Paused { .. } | RunPhase::Ended(_) => self.ran_ms,
        }
    }
}
