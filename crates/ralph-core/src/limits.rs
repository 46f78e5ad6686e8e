//! The limits that make a run finite.

use crate::serde_skip::is_zero;
use crate::units::{format_duration, format_tokens, format_usd, parse_duration, parse_micro_usd};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// `None` is unlimited, which requires a time limit.
    pub max_iterations: Option<u32>,
    pub max_duration_ms: Option<u64>,
    pub max_cost_micro_usd: Option<u64>,
    /// How many stops may show the same tree with the same failures before the run is `stuck`.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUsage {
    pub iterations: u32,
    pub elapsed_ms: u64,
    pub micro_usd: Option<u64>,
    pub tokens: Option<u64>,
    /// The expected cost of the next turn; 0 if it cannot be estimated.
    pub next_micro_usd: u64,
}

/// Limits that a person sets explicitly. 0 means unlimited; `None` keeps the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    pub max_iterations: Option<u32>,
    pub min_iterations: Option<u32>,
    pub max_duration_ms: Option<u64>,
    pub max_cost_micro_usd: Option<u64>,
    pub stuck_after: Option<u32>,
    pub max_tokens: Option<u64>,
    pub handover_at_permille: Option<u16>,
}

/// The limits that slash commands accept as options.
pub const LIMIT_OPTIONS: [&str; 6] = [
    "--max-iterations",
    "--min-iterations",
    "--max-duration",
    "--max-cost-usd",
    "--max-cost",
    "--stuck-after",
];

/// The value that one of the [`LIMIT_OPTIONS`] needs.
pub fn expected_limit_value(option: &str) -> &'static str {
    match option {
        "--max-duration" => "a duration such as `90m`",
        "--max-cost-usd" | "--max-cost" => "an amount such as `20` or `1.50`",
        _ => "a whole number",
    }
}

impl LimitOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets one of the [`LIMIT_OPTIONS`]; `None` if the value is invalid.
    pub fn set_option(&mut self, option: &str, value: &str) -> Option<()> {
        let count = |value: &str| value.parse::<u32>().ok();
        match option {
            "--max-iterations" => self.max_iterations = Some(count(value)?),
            "--min-iterations" => self.min_iterations = Some(count(value)?),
            "--stuck-after" => self.stuck_after = Some(count(value)?),
            "--max-duration" => {
                self.max_duration_ms = Some(if value == "0" { 0 } else { parse_duration(value)? });
            }
            "--max-cost-usd" | "--max-cost" => {
                self.max_cost_micro_usd = Some(parse_micro_usd(value)?);
            }
            _ => return None,
        }
        Some(())
    }

    /// The limits as options of `ralph run` with their values, which parse to exactly these limits.
    pub fn to_options(&self) -> Vec<(&'static str, String)> {
        let usd = |micro| format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
        let share = |permille| format!("{}.{:03}", permille / 1000, permille % 1000);
        [
            ("--max-iterations", self.max_iterations.map(|most| most.to_string())),
            ("--max-duration", self.max_duration_ms.map(|ms| format!("{ms}ms"))),
            ("--max-cost-usd", self.max_cost_micro_usd.map(usd)),
            ("--min-iterations", self.min_iterations.map(|least| least.to_string())),
            ("--stuck-after", self.stuck_after.map(|times| times.to_string())),
            ("--max-tokens", self.max_tokens.map(|most| most.to_string())),
            ("--handover-at", self.handover_at_permille.map(share)),
        ]
        .into_iter()
        .filter_map(|(option, value)| Some((option, value?)))
        .collect()
    }

    /// These limits, and those of `others` where none is set here.
    pub fn or(self, others: Self) -> Self {
        Self {
            max_iterations: self.max_iterations.or(others.max_iterations),
            min_iterations: self.min_iterations.or(others.min_iterations),
            max_duration_ms: self.max_duration_ms.or(others.max_duration_ms),
            max_cost_micro_usd: self.max_cost_micro_usd.or(others.max_cost_micro_usd),
            stuck_after: self.stuck_after.or(others.stuck_after),
            max_tokens: self.max_tokens.or(others.max_tokens),
            handover_at_permille: self.handover_at_permille.or(others.handover_at_permille),
        }
    }

    /// Overrides that lead to exactly `limits`, whatever they are applied to.
    pub fn from_limits(limits: &RunLimits) -> Self {
        Self {
            max_iterations: Some(limits.max_iterations.unwrap_or(0)),
            min_iterations: Some(limits.min_iterations),
            max_duration_ms: Some(limits.max_duration_ms.unwrap_or(0)),
            max_cost_micro_usd: Some(limits.max_cost_micro_usd.unwrap_or(0)),
            stuck_after: Some(limits.stuck_after),
            max_tokens: Some(limits.max_tokens.unwrap_or(0)),
            handover_at_permille: Some(limits.handover_at_permille),
        }
    }

    pub fn apply_to(&self, limits: &RunLimits) -> RunLimits {
        let finite = |given: Option<u64>, else_: Option<u64>| {
            given.map_or(else_, |most| (most > 0).then_some(most))
        };
        RunLimits {
            max_iterations: self
                .max_iterations
                .map_or(limits.max_iterations, |most| (most > 0).then_some(most)),
            max_duration_ms: finite(self.max_duration_ms, limits.max_duration_ms),
            max_cost_micro_usd: finite(self.max_cost_micro_usd, limits.max_cost_micro_usd),
            stuck_after: self.stuck_after.unwrap_or(limits.stuck_after),
            min_iterations: self.min_iterations.unwrap_or(limits.min_iterations),
            handover_at_permille: self.handover_at_permille.unwrap_or(limits.handover_at_permille),
            max_tokens: finite(self.max_tokens, limits.max_tokens),
        }
    }
}

/// A limit that forbids the next iteration. Displayed as text for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    Iterations(u32),
    Duration(u64),
    Cost(u64),
    Tokens(u64),
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
        let LimitUsage { iterations, elapsed_ms, micro_usd, tokens, next_micro_usd: next } = *usage;
        if let Some(most) = self.max_iterations.filter(|most| iterations >= *most) {
            return Some(ReachedLimit::Iterations(most));
        }
        if let Some(most) = self.max_duration_ms.filter(|most| elapsed_ms >= *most) {
            return Some(ReachedLimit::Duration(most));
        }
        if let (Some(most), Some(used)) = (self.max_tokens, tokens)
            && used >= most
        {
            return Some(ReachedLimit::Tokens(most));
        }
        match (self.max_cost_micro_usd, micro_usd) {
            (Some(most), Some(spent)) if spent >= most => Some(ReachedLimit::Cost(most)),
            (Some(most), Some(spent)) if spent.saturating_add(next) > most => {
                Some(ReachedLimit::NextTurn { most, next })
            }
            (Some(_), Some(_)) | (None, _) | (_, None) => None,
        }
    }
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iterations(1) => f.write_str("its 1 iteration is used up"),
            Self::Iterations(most) => write!(f, "all {most} iterations are used up"),
            Self::Duration(most) => {
                write!(f, "its time limit of {} is reached", format_duration(*most))
            }
            Self::Cost(most) => write!(f, "its budget of {} is spent", format_usd(*most)),
            Self::Tokens(most) => write!(f, "its limit of {} is reached", format_tokens(*most)),
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
                Some("its budget of $20 is spent"),
                None,
            ]
        );
    }

    #[test]
    fn overrides_change_only_what_they_set() {
        let bounds = LimitOverrides {
            max_tokens: Some(5),
            handover_at_permille: Some(500),
            max_cost_micro_usd: Some(0),
            ..LimitOverrides::default()
        };
        let expected = RunLimits {
            max_tokens: Some(5),
            handover_at_permille: 500,
            max_cost_micro_usd: None,
            ..RunLimits::DEFAULT
        };
        assert_eq!(bounds.apply_to(&RunLimits::DEFAULT), expected);
        assert!(!bounds.is_empty() && LimitOverrides::default().is_empty());
    }

    #[test]
    fn overrides_are_options_and_fill_each_other() {
        let all = LimitOverrides::from_limits(&RunLimits {
            max_tokens: Some(2_000_000),
            ..RunLimits::DEFAULT
        });
        let options: Vec<_> =
            all.to_options().iter().map(|(name, it)| format!("{name} {it}")).collect();
        assert_eq!(
            options.join(" "),
            "--max-iterations 25 --max-duration 28800000ms --max-cost-usd 20.000000 --min-iterations 0 \
             --stuck-after 3 --max-tokens 2000000 --handover-at 0.800"
        );
        assert_eq!(all.apply_to(&RunLimits::DEFAULT).max_tokens, Some(2_000_000));
        assert_eq!(LimitOverrides::default().to_options(), []);
        let mut typed = LimitOverrides::default();
        for (option, value) in all.to_options() {
            let is_set = typed.set_option(option, &value).is_some();
            assert_eq!(is_set, LIMIT_OPTIONS.contains(&option), "{option}");
        }
        assert_eq!(typed.or(all), all);
        let none = RunLimits { max_cost_micro_usd: None, ..RunLimits::DEFAULT };
        assert_eq!(LimitOverrides::from_limits(&none).apply_to(&RunLimits::DEFAULT), none);
    }
}
