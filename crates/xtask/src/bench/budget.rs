//! The performance budgets of the hook benchmark.

use super::hook_racers::{
    ARMED, FIRST_READ, GATED, GATED_GIT, GIT, IDLE, LARGE, NEXT_READ, SMALL, TRUE,
};
use super::race::{self, BenchRacer};

/// A measured number and its limit.
pub(crate) struct BudgetResult {
    pub(crate) what: String,
    pub(crate) found: f64,
    pub(crate) limit: f64,
    pub(crate) outcome: BudgetOutcome,
}

pub(crate) enum BudgetOutcome {
    Kept,
    Missed,
    NotMeasured,
}

impl BudgetResult {
    pub(crate) fn new(what: &str, found: f64, limit: f64) -> Self {
        let outcome = if found.is_nan() {
            BudgetOutcome::NotMeasured
        } else if found <= limit {
            BudgetOutcome::Kept
        } else {
            BudgetOutcome::Missed
        };
        Self { what: what.to_owned(), found, limit, outcome }
    }

    /// The better of two measurements of the same thing: one that keeps the budget wins.
    pub(crate) fn better(self, other: Self) -> Self {
        if self.is_missed() && !other.is_missed() { other } else { self }
    }

    pub(crate) fn is_missed(&self) -> bool {
        matches!(self.outcome, BudgetOutcome::Missed)
    }
}

pub(crate) fn judge_hook(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let median = |name: &str| race::median_time(racers, name);
    let mut judged = Vec::new();
    // Only on Linux is the binary linked statically; a dynamic one cannot keep this budget.
    if cfg!(target_os = "linux") {
        judged.push(BudgetResult::new("idle Stop ÷ true", median(IDLE) / median(TRUE), 1.0));
    }
    let own = (median(ARMED) - median(GIT)) / median(TRUE);
    judged.push(BudgetResult::new("(armed Stop − git status) ÷ true", own, 3.0));
    let own = (median(GATED) - median(GATED_GIT)) / median(TRUE);
    judged.push(BudgetResult::new(
        "(Stop with gates of the session − git status) ÷ true",
        own,
        3.0,
    ));
    for look in [FIRST_READ, NEXT_READ] {
        let [small, large] = [SMALL, LARGE].map(|size| median(&size.name(look)));
        let what = format!("{look}, {} ÷ {}", LARGE.label, SMALL.label);
        judged.push(BudgetResult::new(&what, large / small, 1.5));
    }
    judged
}
