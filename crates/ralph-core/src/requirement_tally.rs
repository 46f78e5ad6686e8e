//! Counts requirements by state, for every text that names a number of them.

use crate::record::StopReport;
use crate::requirement::Requirement;
use alloc::format;
use alloc::string::String;

/// How many required requirements are in which state. Every text that counts them uses these numbers, so that the
/// reason, `ralph verify`, `ralph why` and the report of a run agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequirementTally {
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub total: u32,
}

impl RequirementTally {
    /// Counts the required ones.
    pub fn count(requirements: &[Requirement]) -> Self {
        let count = |wanted: fn(&Requirement) -> bool| {
            let found = requirements.iter().filter(|one| one.is_required() && wanted(one)).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        Self {
            unmet: count(Requirement::is_unmet),
            unknown: count(Requirement::is_unknown),
            pending: count(Requirement::is_pending),
            total: count(|_| true),
        }
    }

    /// `2 of 8 not met`, `all 8 met`. What has no result counts only if nothing is known to be unmet, and what is
    /// pending only if nothing else is open.
    pub fn describe(&self) -> String {
        let total = self.total;
        match (self.unmet, self.unknown, self.pending) {
            (0, 0, 0) => format!("all {total} met"),
            (0, 0, pending) => format!("{pending} of {total} pending"),
            (0, unknown, _) => format!("{unknown} of {total} without a result"),
            (unmet, ..) => format!("{unmet} of {total} not met"),
        }
    }
}

impl StopReport {
    pub fn tally(&self) -> RequirementTally {
        let Self { unmet, unknown, pending, total, .. } = *self;
        RequirementTally { unmet, unknown, pending, total }
    }
}

/// Whether the agent can only wait: gates or judges are running, and what else is open comes after others.
pub(crate) fn awaits_results_only(requirements: &[Requirement]) -> bool {
    let open = || requirements.iter().filter(|one| one.is_open());
    open().any(Requirement::is_running) && open().all(|one| one.is_running() || one.comes_later())
}
