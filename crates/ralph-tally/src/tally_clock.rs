//! Which lines of a journal advance the clock of a run.

use crate::journal_line::{LineChange, RunnerLine};

/// The effect of an entry on the clock of a driven run: see `run_clock` of the core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TallyClockEffect {
    Advance,
    Restart,
    Unchanged,
}

pub(crate) fn clock_effect(change: &LineChange<'_>) -> TallyClockEffect {
    match change {
        LineChange::Resumed => TallyClockEffect::Restart,
        LineChange::HintGiven
        | LineChange::Approved
        | LineChange::Waived(_)
        | LineChange::WaiverRevoked(_)
        | LineChange::Limited(_)
        | LineChange::Accepted(_)
        | LineChange::Drove(RunnerLine::Granted) => TallyClockEffect::Unchanged,
        LineChange::Started(_)
        | LineChange::Restored(_)
        | LineChange::Decided(_)
        | LineChange::Paused
        | LineChange::Cancelled
        | LineChange::Asked(_)
        | LineChange::Waits(_)
        | LineChange::Moved(_)
        | LineChange::Denied
        | LineChange::Overridden(_)
        | LineChange::Disputed(_)
        | LineChange::Drove(_)
        | LineChange::Other => TallyClockEffect::Advance,
    }
}
