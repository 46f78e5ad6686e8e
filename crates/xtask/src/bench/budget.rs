//! The performance budgets of the hook benchmark.

use super::course::{ARMED, FIRST_LOOK, GIT, IDLE, LARGE, NEXT_LOOK, SMALL, TRUE};
use super::race::{self, Racer};

/// A measured number and its limit.
pub(crate) struct Judged {
    pub(crate) what: String,
    pub(crate) found: f64,
    pub(crate) limit: f64,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Kept,
    Missed,
    NotMeasured,
}

impl Judged {
    pub(crate) fn new(what: &str, found: f64, limit: f64) -> Self {
        let outcome = if found.is_nan() {
            Outcome::NotMeasured
        } else if found <= limit {
            Outcome::Kept
        } else {
            Outcome::Missed
        };
        Self { what: what.to_owned(), found, limit, outcome }
    }

    /// The better of two measurements of the same thing: one that keeps the budget wins.
    pub(crate) fn better(self, other: Self) -> Self {
        if self.is_missed() && !other.is_missed() { other } else { self }
    }

    pub(crate) fn is_missed(&self) -> bool {
        matches!(self.outcome, Outcome::Missed)
    }
}

pub(crate) fn judge(racers: &[Racer]) -> Vec<Judged> {
    let median = |name: &str| race::median(racers, name);
    let mut judged = Vec::new();
    // Only on Linux is the binary linked statically; a dynamic one cannot keep this budget.
    if cfg!(target_os = "linux") {
        judged.push(Judged::new("idle Stop ÷ true", median(IDLE) / median(TRUE), 1.0));
    }
    let own = (median(ARMED) - median(GIT)) / median(TRUE);
    judged.push(Judged::new("(armed Stop − git status) ÷ true", own, 3.0));
    for look in [FIRST_LOOK, NEXT_LOOK] {
        let [small, large] = [SMALL, LARGE].map(|size| median(&size.name(look)));
        let what = format!("{look}, {} ÷ {}", LARGE.label, SMALL.label);
        judged.push(Judged::new(&what, large / small, 1.5));
    }
    judged
}
