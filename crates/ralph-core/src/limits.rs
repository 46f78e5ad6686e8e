//! The limits that make a run finite.

mod limit_overrides;
mod limit_table;

use crate::cost_reading::{CostBasis, CostReading};
use crate::run::RunState;
use crate::serde_skip::is_zero;
use crate::units::{estimate_usd, format_usd};
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

pub use limit_overrides::LimitOverrides;
pub use limit_table::{
    LimitDefinition, LimitKind, LimitUnit, RUN_LIMITS, UsageField, limit_options,
};

/// The limits of a run. Field names and order are part of the format on disk. [`RUN_LIMITS`] has a row for each field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// `None` is unlimited, which requires a time limit.
    pub max_iterations: Option<u32>,
    pub max_duration_ms: Option<u64>,
    pub max_cost_micro_usd: Option<u64>,
    /// The run is `stuck` at this many stops in a row with the same tree and the same failures, the first included. It
    /// therefore holds the agent once less often.
    pub stuck_after: u32,
    /// Context use, in thousandths, at which a runner starts a fresh session.
    pub handover_at_permille: u16,
    /// How often the agent is held at least, even if everything is met, to polish its work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_iterations: u32,
    /// For all sessions of a driven run together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// How much of each limit is used. `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitUsage {
    pub iterations: u32,
    pub elapsed_ms: u64,
    pub micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    pub tokens: Option<u64>,
    /// The expected cost of the next turn; 0 if it cannot be estimated.
    pub next_micro_usd: u64,
}

impl LimitUsage {
    /// The usage recorded in the run's state, without the expected cost of the next turn.
    pub fn recorded(state: &RunState, now_ms: u64) -> Self {
        let judges = state.judges.spent;
        let spent = (state.driving.count > 0).then(|| state.total_spent());
        let cost = state.cost.as_ref().filter(|_| spent.is_none());
        Self {
            iterations: state.iteration,
            elapsed_ms: state.elapsed_ms(now_ms),
            micro_usd: match spent {
                Some(spent) => Some(spent.micro_usd),
                None => judges.added_to(cost.and_then(CostReading::spent_micro_usd)),
            },
            cost_basis: if let Some(spent) = spent {
                CostBasis::of_metered(spent.micro_usd, state.driving.assumed_micro_usd())
            } else {
                let agent = cost.map_or(CostBasis::Reported, CostReading::basis);
                agent.with_judges(cost.and_then(CostReading::spent_micro_usd), judges.micro_usd)
            },
            tokens: spent.map(|spent| spent.tokens),
            next_micro_usd: 0,
        }
    }

    /// The cost with its basis, as [`CostBasis::describe_cost`] has it. `None` if it is unknown.
    pub fn cost_text(&self) -> Option<String> {
        self.cost_basis.describe_cost(self.micro_usd?)
    }
}

/// A limit that forbids the next iteration. Displayed as text for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    UsedUp {
        unit: LimitUnit,
        most: u64,
    },
    /// The budget is spent, by an estimate.
    EstimatedCost {
        most: u64,
        spent: u64,
    },
    /// The remaining budget is less than the expected cost of a turn.
    NextTurn {
        most: u64,
        next: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidLimits {
    /// Neither iterations nor time is limited. A cost limit is not enough, because the cost may be unknown.
    Unbounded,
    /// Below 2, the first stop would already count as a repetition.
    StuckTooSoon(u32),
    /// `min_iterations` is greater than `max_iterations`.
    MinExceedsMax { least: u32, most: u32 },
}

impl RunLimits {
    pub const DEFAULT: Self = Self {
        max_iterations: Some(25),
        max_duration_ms: Some(8 * 60 * 60 * 1000),
        max_cost_micro_usd: Some(20_000_000),
        stuck_after: 3,
        handover_at_permille: 800,
        min_iterations: 0,
        max_tokens: None,
    };

    pub fn validate(&self) -> Result<(), InvalidLimits> {
        if self.max_iterations.is_none() && self.max_duration_ms.is_none() {
            return Err(InvalidLimits::Unbounded);
        }
        if self.stuck_after < 2 {
            return Err(InvalidLimits::StuckTooSoon(self.stuck_after));
        }
        if let Some(most) = self.max_iterations.filter(|most| self.min_iterations > *most) {
            return Err(InvalidLimits::MinExceedsMax { least: self.min_iterations, most });
        }
        Ok(())
    }

    /// The first limit that is reached. A limit forbids the *next* iteration; it never fails the one that just ended.
    pub fn reached(&self, usage: &LimitUsage) -> Option<ReachedLimit> {
        // Cost comes last, because the expected cost of the next turn is checked after it.
        let others = RUN_LIMITS.iter().filter(|limit| limit.kind != LimitKind::MaxCost);
        let used_up = |limit: &LimitDefinition| {
            let most = limit.reached_by(self, usage)?;
            match (limit.unit, usage.micro_usd, usage.cost_basis) {
                (
                    LimitUnit::MicroUsd,
                    Some(spent),
                    CostBasis::Estimated | CostBasis::Incomplete,
                ) => Some(ReachedLimit::EstimatedCost { most, spent }),
                (unit, ..) => Some(ReachedLimit::UsedUp { unit, most }),
            }
        };
        let reached = others.chain([LimitKind::MaxCost.row()]).find_map(used_up);
        reached.or_else(|| {
            let (most, spent) = (self.max_cost_micro_usd?, usage.micro_usd?);
            let next = usage.next_micro_usd;
            (spent.saturating_add(next) > most).then_some(ReachedLimit::NextTurn { most, next })
        })
    }
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedUp { unit: LimitUnit::Count(noun), most: 1 } => {
                write!(f, "its 1 {noun} is used up")
            }
            Self::UsedUp { unit: unit @ LimitUnit::Count(_), most } => {
                write!(f, "all {} are used up", unit.format(*most))
            }
            Self::UsedUp { unit: unit @ LimitUnit::Milliseconds, most } => {
                write!(f, "its time limit of {} is reached", unit.format(*most))
            }
            Self::UsedUp { unit: unit @ LimitUnit::MicroUsd, most } => {
                write!(f, "its budget of {} is spent", unit.format(*most))
            }
            Self::UsedUp { unit: unit @ (LimitUnit::Tokens | LimitUnit::Permille), most } => {
                write!(f, "its limit of {} is reached", unit.format(*most))
            }
            Self::EstimatedCost { most, spent } => write!(
                f,
                "its budget of {} is spent ({} by list prices)",
                format_usd(*most),
                estimate_usd(*spent)
            ),
            Self::NextTurn { most, next } => write!(
                f,
                "another turn, which may cost {}, would exceed its budget of {}",
                format_usd(*next),
                format_usd(*most)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// R-L2a: the defaults limit iterations, time and cost, and limits that bound neither iterations nor time are
    /// rejected.
    #[test]
    fn unbounded_limits_are_rejected() {
        assert_eq!(RunLimits::DEFAULT.validate(), Ok(()));
        let RunLimits { max_iterations, max_duration_ms, max_cost_micro_usd, .. } =
            RunLimits::DEFAULT;
        assert!(
            max_iterations.is_some() && max_duration_ms.is_some() && max_cost_micro_usd.is_some()
        );
        for (max_iterations, max_duration_ms, expected) in [
            (None, Some(1), Ok(())),
            (Some(1), None, Ok(())),
            (None, None, Err(InvalidLimits::Unbounded)),
        ] {
            assert_eq!(
                RunLimits { max_iterations, max_duration_ms, ..RunLimits::DEFAULT }.validate(),
                expected
            );
        }
        assert_eq!(
            RunLimits { stuck_after: 1, ..RunLimits::DEFAULT }.validate(),
            Err(InvalidLimits::StuckTooSoon(1))
        );
        for (least, most, expected) in [
            (25, Some(25), Ok(())),
            (26, None, Ok(())),
            (26, Some(25), Err(InvalidLimits::MinExceedsMax { least: 26, most: 25 })),
        ] {
            let limits =
                RunLimits { min_iterations: least, max_iterations: most, ..RunLimits::DEFAULT };
            assert_eq!(limits.validate(), expected);
        }
    }

    /// R-K1a: each limit alone forbids the next iteration, and the cost limit does so before it is exceeded.
    #[test]
    fn every_limit_can_be_reached() {
        let limits = RunLimits { max_tokens: Some(1_000_000), ..RunLimits::DEFAULT };
        let usage = LimitUsage {
            iterations: 24,
            elapsed_ms: 28_799_999,
            micro_usd: Some(19_000_000),
            cost_basis: CostBasis::Reported,
            tokens: Some(999_999),
            next_micro_usd: 1_000_000,
        };
        let shown = [
            usage,
            LimitUsage { iterations: 25, ..usage },
            LimitUsage { elapsed_ms: 28_800_000, ..usage },
            LimitUsage { tokens: Some(1_000_000), ..usage },
            LimitUsage { tokens: None, ..usage },
            LimitUsage { next_micro_usd: 1_000_001, ..usage },
            LimitUsage { micro_usd: Some(20_000_000), ..usage },
            LimitUsage { micro_usd: Some(20_400_000), cost_basis: CostBasis::Estimated, ..usage },
            LimitUsage { micro_usd: Some(u64::MAX), next_micro_usd: u64::MAX, ..usage },
            LimitUsage { micro_usd: None, next_micro_usd: u64::MAX, ..usage },
        ]
        .map(|usage| limits.reached(&usage).map(|used_up| used_up.to_string()));
        assert_eq!(
            shown.each_ref().map(Option::as_deref),
            [
                None,
                Some("all 25 iterations are used up"),
                Some("its time limit of 8 h is reached"),
                Some("its limit of 1 M tokens is reached"),
                None,
                Some("another turn, which may cost $1, would exceed its budget of $20"),
                Some("its budget of $20 is spent"),
                Some("its budget of $20 is spent (≈ $20.40 by list prices)"),
                Some("its budget of $20 is spent"),
                None,
            ]
        );
    }

    /// An estimate is shown as one, and a limit that does not work as off.
    #[test]
    fn a_cost_is_shown_with_its_basis() {
        let shown = [
            (Some(1_820_000), CostBasis::Reported),
            (Some(1_820_000), CostBasis::Estimated),
            (Some(1_820_000), CostBasis::Incomplete),
            (Some(4_000_000), CostBasis::Assumed),
            (Some(5_000_000), CostBasis::PartlyAssumed),
            (None, CostBasis::Unknown),
            (None, CostBasis::Reported),
        ]
        .map(|(micro_usd, cost_basis)| {
            let usage = LimitUsage { micro_usd, cost_basis, ..LimitUsage::default() };
            [RunLimits::DEFAULT, RunLimits { max_cost_micro_usd: None, ..RunLimits::DEFAULT }]
                .map(|limits| LimitKind::MaxCost.row().progress(&limits, &usage))
                .map(Option::unwrap_or_default)
        });
        assert_eq!(
            shown,
            [
                ["$1.82 of $20", "$1.82"],
                ["≈ $1.82 of $20", "≈ $1.82"],
                ["more than ≈ $1.82 of $20", "more than ≈ $1.82"],
                ["~$4 assumed of $20", "~$4 assumed"],
                ["~$5 partly assumed of $20", "~$5 partly assumed"],
                ["cost unknown, limit of $20 off", ""],
                ["", ""],
            ]
        );
    }
}
