//! The checks of a run's lists before any work on its goal.

use crate::wording::{FactMark, MarkedText, safe_line};
use ralph_hook::contract::BaseChecks;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct BaseChecksView<'a> {
    pub measured: u32,
    pub passing: &'a [String],
    pub unrunnable: &'a [String],
}

pub(super) fn base_checks_view(checks: &BaseChecks) -> BaseChecksView<'_> {
    BaseChecksView {
        measured: checks.measured,
        passing: &checks.passing,
        unrunnable: &checks.unrunnable,
    }
}

/// The checks that measure nothing, as a line of `ralph status`.
pub(super) fn base_checks_line(checks: &BaseChecks) -> Option<Vec<MarkedText>> {
    let note = checks.describe()?;
    Some(vec![MarkedText::new(FactMark::Unclear, safe_line(&note))])
}
