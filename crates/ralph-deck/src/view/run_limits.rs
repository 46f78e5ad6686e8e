//! The limits of a run.

use crate::wording::micro_usd_as_usd;
use ralph_core::id::RunId;
use ralph_core::limits::RunLimits;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct RunLimitsView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub max_iterations: Option<u32>,
    pub min_iterations: u32,
    pub max_duration_ms: Option<u64>,
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<u64>,
    pub stuck_after: u32,
}

pub fn run_limits_view<'a>(run: &'a RunId, limits: &RunLimits) -> RunLimitsView<'a> {
    RunLimitsView {
        v: 1,
        run: run.as_str(),
        max_iterations: limits.max_iterations,
        min_iterations: limits.min_iterations,
        max_duration_ms: limits.max_duration_ms,
        max_cost_usd: limits.max_cost_micro_usd.map(micro_usd_as_usd),
        max_tokens: limits.max_tokens,
        stuck_after: limits.stuck_after,
    }
}
