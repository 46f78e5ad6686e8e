//! R-K1c: the spending of a run by what caused it.

use crate::wording::micro_usd_as_usd;
use ralph_core::limits::LimitUsage;
use ralph_core::run::{RunState, Spending};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct SpendingBySourceView {
    /// The agent, its subagents and gates that call a model; `None` if unknown.
    pub agent_usd: Option<f64>,
    pub judges_usd: f64,
    pub judges_tokens: u64,
}

/// `None` until a judge has cost something.
pub(super) fn spending_by_source(
    state: &RunState,
    usage: &LimitUsage,
) -> Option<SpendingBySourceView> {
    let judges = state.judges.spent;
    let without_judges = |total: u64| micro_usd_as_usd(total.saturating_sub(judges.micro_usd));
    let is_agent_known = state.driving.count > 0 || state.cost.is_some();
    (judges != Spending::default()).then(|| SpendingBySourceView {
        agent_usd: usage.micro_usd.filter(|_| is_agent_known).map(without_judges),
        judges_usd: micro_usd_as_usd(judges.micro_usd),
        judges_tokens: judges.tokens,
    })
}
