//! The limits of a run.

use super::limit_fields::LimitFields;
use ralph_core::id::RunId;
use ralph_core::limits::{LimitKind, RunLimits};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct RunLimitsView<'a> {
    pub v: u8,
    pub run: &'a str,
    #[serde(flatten)]
    pub limits: LimitFields,
}

pub fn run_limits_view<'a>(run: &'a RunId, limits: &RunLimits) -> RunLimitsView<'a> {
    let first = [
        LimitKind::MaxIterations,
        LimitKind::MinIterations,
        LimitKind::MaxDuration,
        LimitKind::MaxCost,
        LimitKind::MaxTokens,
        LimitKind::StuckAfter,
        LimitKind::HandoverAt,
    ];
    RunLimitsView { v: 1, run: run.as_str(), limits: LimitFields::of_limits(limits, &first) }
}
