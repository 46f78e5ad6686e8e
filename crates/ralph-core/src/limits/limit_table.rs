//! The table of run limits. Commands, slash commands, queue files and views iterate over it, so a new limit needs only
//! a field of [`RunLimits`] and a row here.

use super::{LimitUsage, RunLimits};
use crate::cost_reading::CostBasis;
use crate::text;
use crate::units::{self, format_duration, format_tokens, format_usd};
use alloc::format;
use alloc::string::{String, ToString};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    MaxIterations,
    MinIterations,
    MaxDuration,
    MaxCost,
    MaxTokens,
    StuckAfter,
    HandoverAt,
}

/// How one limit is named, parsed, stored and shown. Its value is a number in its unit; 0 means no limit where that is
/// possible.
#[derive(Debug)]
pub struct LimitDefinition {
    pub kind: LimitKind,
    /// The key in policies and queue files.
    pub key: &'static str,
    /// The key in JSON output.
    pub json_name: &'static str,
    /// The option on the command line and in slash commands.
    pub option: &'static str,
    pub option_alias: Option<&'static str>,
    pub unit: LimitUnit,
    /// Whether only `ralph run` enforces it: hooks see neither tokens nor how full the context is.
    pub needs_runner: bool,
    /// Help for commands that start a run.
    pub start_help: &'static str,
    /// Help for commands that change an existing run, where limits count from its start.
    pub total_help: &'static str,
    pub get: fn(&RunLimits) -> Option<u64>,
    pub set: fn(&mut RunLimits, u64),
    /// The limit in words; `None` if it is not worth mentioning.
    pub describe: fn(&RunLimits) -> Option<String>,
    /// How much of it a run has used; `None` if a run does not use it up.
    pub usage: Option<UsageField>,
}

/// How the usage of a limit is read and shown.
#[derive(Debug)]
pub struct UsageField {
    /// The key in JSON output.
    pub json_name: &'static str,
    /// Whether it is shown even without a limit.
    pub is_always_shown: bool,
    /// `None` if the usage is unknown.
    pub used: fn(&LimitUsage) -> Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// A number of things; the noun is in the singular.
    Count(&'static str),
    Milliseconds,
    MicroUsd,
    Tokens,
    Permille,
}

/// In the order in which they are shown.
pub static RUN_LIMITS: [LimitDefinition; 7] = [
    LimitDefinition {
        kind: LimitKind::MaxIterations,
        key: "max_iterations",
        json_name: "max_iterations",
        option: "--max-iterations",
        option_alias: None,
        unit: LimitUnit::Count("iteration"),
        needs_runner: false,
        start_help: "Hold the agent at most N times; 0: no limit [default: policy, or 25]",
        total_help: "Hold the agent at most N times in total; 0: no limit",
        get: |limits| limits.max_iterations.map(u64::from),
        set: |limits, most| limits.max_iterations = unless_zero(most).map(to_count),
        describe: |limits| match (limits.min_iterations, limits.max_iterations) {
            (0, most) => most.map(|most| text::count_noun(most, "iteration")),
            (least, Some(most)) => Some(format!("{least} to {most} iterations")),
            (least, None) => Some(format!("at least {}", text::count_noun(least, "iteration"))),
        },
        usage: Some(UsageField {
            json_name: "iteration",
            is_always_shown: true,
            used: |usage| Some(usage.iterations.into()),
        }),
    },
    LimitDefinition {
        kind: LimitKind::MinIterations,
        key: "min_iterations",
        json_name: "min_iterations",
        option: "--min-iterations",
        option_alias: None,
        unit: LimitUnit::Count("iteration"),
        needs_runner: false,
        start_help: "Hold the agent at least N times, even when everything is met",
        total_help: "Hold the agent at least N times, even when everything is met",
        get: |limits| Some(limits.min_iterations.into()),
        set: |limits, least| limits.min_iterations = to_count(least),
        // Described together with `max_iterations`.
        describe: |_| None,
        usage: None,
    },
    LimitDefinition {
        kind: LimitKind::MaxDuration,
        key: "max_duration",
        json_name: "max_duration_ms",
        option: "--max-duration",
        option_alias: None,
        unit: LimitUnit::Milliseconds,
        needs_runner: false,
        start_help: "End after a time such as `90m`; 0: no limit [default: policy, or 8h]",
        total_help: "End after this total time, such as `90m`; 0: no limit",
        get: |limits| limits.max_duration_ms,
        set: |limits, most| limits.max_duration_ms = unless_zero(most),
        describe: |limits| limits.max_duration_ms.map(format_duration),
        usage: Some(UsageField {
            json_name: "elapsed_ms",
            is_always_shown: true,
            used: |usage| Some(usage.elapsed_ms),
        }),
    },
    LimitDefinition {
        kind: LimitKind::MaxCost,
        key: "max_cost_usd",
        json_name: "max_cost_usd",
        option: "--max-cost-usd",
        option_alias: Some("--max-cost"),
        unit: LimitUnit::MicroUsd,
        needs_runner: false,
        start_help: "Spend at most this from now on; 0: no limit [default: policy, or 20]",
        total_help: "Spend at most this in total; 0: no limit",
        get: |limits| limits.max_cost_micro_usd,
        set: |limits, most| limits.max_cost_micro_usd = unless_zero(most),
        describe: |limits| limits.max_cost_micro_usd.map(format_usd),
        usage: Some(UsageField {
            json_name: "spent_usd",
            is_always_shown: true,
            used: |usage| usage.micro_usd,
        }),
    },
    LimitDefinition {
        kind: LimitKind::MaxTokens,
        key: "max_tokens",
        json_name: "max_tokens",
        option: "--max-tokens",
        option_alias: None,
        unit: LimitUnit::Tokens,
        needs_runner: true,
        start_help: "Use at most N tokens, such as `2M` (driven runs); 0: no limit",
        total_help: "Use at most N tokens in total, such as `2M` (driven runs); 0: no limit",
        get: |limits| limits.max_tokens,
        set: |limits, most| limits.max_tokens = unless_zero(most),
        describe: |limits| limits.max_tokens.map(format_tokens),
        usage: Some(UsageField {
            json_name: "tokens",
            is_always_shown: false,
            used: |usage| usage.tokens,
        }),
    },
    LimitDefinition {
        kind: LimitKind::StuckAfter,
        key: "stuck_after",
        json_name: "stuck_after",
        option: "--stuck-after",
        option_alias: None,
        unit: LimitUnit::Count("stop"),
        needs_runner: false,
        start_help: "End at the Nth stop in a row without progress [default: policy, or 3]",
        total_help: "End at the Nth stop in a row without progress",
        get: |limits| Some(limits.stuck_after.into()),
        set: |limits, most| limits.stuck_after = to_count(most),
        describe: |limits| {
            (limits.stuck_after != u32::MAX).then(|| {
                let nth = text::ordinal(limits.stuck_after);
                format!("stuck at the {nth} stop without progress")
            })
        },
        usage: None,
    },
    LimitDefinition {
        kind: LimitKind::HandoverAt,
        key: "handover_at",
        json_name: "handover_at",
        option: "--handover-at",
        option_alias: None,
        unit: LimitUnit::Permille,
        needs_runner: true,
        start_help: "Hand over when the context is this full [default: policy, or 0.8]",
        total_help: "Hand over when the context is this full (driven runs)",
        get: |limits| Some(limits.handover_at_permille.into()),
        set: |limits, share| {
            limits.handover_at_permille = u16::try_from(share).unwrap_or(u16::MAX);
        },
        describe: |_| None,
        usage: None,
    },
];

fn unless_zero(most: u64) -> Option<u64> {
    (most > 0).then_some(most)
}

/// Parsed counts fit into 32 bits, so no value is lost.
fn to_count(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The options of all limits, aliases included.
pub fn limit_options() -> impl Iterator<Item = &'static str> + Clone {
    RUN_LIMITS.iter().flat_map(|limit| core::iter::once(limit.option).chain(limit.option_alias))
}

impl LimitKind {
    pub fn row(self) -> &'static LimitDefinition {
        // The rows are in the order of the kinds, which a test checks.
        &RUN_LIMITS[self as usize]
    }
}

impl LimitDefinition {
    pub fn by_option(option: &str) -> Option<&'static Self> {
        RUN_LIMITS.iter().find(|limit| limit.option == option || limit.option_alias == Some(option))
    }

    pub fn by_key(key: &str) -> Option<&'static Self> {
        RUN_LIMITS.iter().find(|limit| limit.key == key)
    }

    /// The limit, if it is set and used up.
    pub(super) fn reached_by(&self, limits: &RunLimits, usage: &LimitUsage) -> Option<u64> {
        let used = (self.usage.as_ref()?.used)(usage)?;
        (self.get)(limits).filter(|most| used >= *most)
    }

    /// The usage as text, such as `$3 of $20`; `None` if it is unknown or not shown.
    pub fn progress(&self, limits: &RunLimits, usage: &LimitUsage) -> Option<String> {
        let usage_field = self.usage.as_ref()?;
        let most = (self.get)(limits);
        if self.unit == LimitUnit::MicroUsd && usage.cost_basis == CostBasis::Unknown {
            return most.map(|most| format!("cost unknown, limit of {} off", format_usd(most)));
        }
        let used =
            (usage_field.used)(usage).filter(|_| most.is_some() || usage_field.is_always_shown)?;
        let shown = if self.unit == LimitUnit::MicroUsd {
            usage.cost_text()?
        } else {
            self.unit.format(used)
        };
        Some(match (self.unit, most) {
            (LimitUnit::Count(noun), Some(most)) => format!("{noun} {used} of {most}"),
            (LimitUnit::Count(noun), None) => format!("{noun} {used}"),
            (unit, Some(most)) => format!("{shown} of {}", unit.format(most)),
            (_, None) => shown,
        })
    }
}

impl LimitUnit {
    /// Parses a value from the command line; 0 needs no unit.
    pub fn parse(self, text: &str) -> Option<u64> {
        match self {
            Self::Count(_) => text.parse::<u32>().ok().map(u64::from),
            Self::Milliseconds if text == "0" => Some(0),
            Self::Milliseconds => units::parse_duration(text),
            Self::MicroUsd => units::parse_micro_usd(text),
            Self::Tokens => units::parse_tokens(text),
            Self::Permille => units::parse_permille(text).map(u64::from),
        }
    }

    /// Describes the values that [`parse`](Self::parse) accepts, for error messages.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Count(_) => "a whole number",
            Self::Milliseconds => "a duration such as `90m` or `8h`",
            Self::MicroUsd => "an amount such as `20` or `1.50`",
            Self::Tokens => "a number such as `500k` or `2M`",
            Self::Permille => "a share from 0.1 to 0.99, such as `0.8`",
        }
    }

    /// Describes the expected value to a person who gave `text`, which [`parse`](Self::parse) rejects.
    pub fn expected_instead_of(self, text: &str) -> &'static str {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Count(_) if is_number => "a smaller number: 4294967295 or less",
            Self::Tokens if is_number => "a smaller number, such as `2M`",
            Self::MicroUsd if is_number => "a smaller amount: 1000000000 or less",
            Self::Count(_)
            | Self::Milliseconds
            | Self::MicroUsd
            | Self::Tokens
            | Self::Permille => self.expected(),
        }
    }

    /// The placeholder for a value in help texts.
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Count(_) | Self::Tokens => "N",
            Self::Milliseconds => "DURATION",
            Self::MicroUsd => "USD",
            Self::Permille => "SHARE",
        }
    }

    /// Formats a value so that [`parse`](Self::parse) returns exactly this value.
    pub(super) fn to_argument(self, value: u64) -> String {
        match self {
            Self::Count(_) | Self::Tokens => value.to_string(),
            Self::Milliseconds => format!("{value}ms"),
            Self::MicroUsd => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
            Self::Permille => format!("{}.{:03}", value / 1000, value % 1000),
        }
    }

    /// Formats a value for display: `25 iterations`, `8 h`, `$20`, `2 M tokens`, `80 %`.
    pub fn format(self, value: u64) -> String {
        match self {
            Self::Count(noun) => text::count_noun(value, noun),
            Self::Milliseconds => format_duration(value),
            Self::MicroUsd => format_usd(value),
            Self::Tokens => format_tokens(value),
            Self::Permille => format!("{} %", value / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`LimitKind::row`] relies on this.
    #[test]
    fn every_kind_finds_its_row() {
        for (at, limit) in RUN_LIMITS.iter().enumerate() {
            assert_eq!(limit.kind as usize, at, "{}", limit.key);
            assert_eq!(limit.kind.row().key, limit.key);
        }
    }

    /// A limit without a row would be unknown to commands, files and views.
    #[test]
    fn every_field_has_a_row() {
        let mut limits = RunLimits::DEFAULT;
        for limit in &RUN_LIMITS {
            (limit.set)(&mut limits, 2);
        }
        let fields = serde_json::to_value(&limits).unwrap();
        let fields = fields.as_object().unwrap();
        assert_eq!(fields.len(), RUN_LIMITS.len(), "{fields:?}");
        assert!(fields.values().all(|value| *value == 2), "{fields:?}");
    }

    /// A row reads and writes the same field, and 0 is "no limit" or the number 0.
    #[test]
    fn rows_get_what_they_set() {
        for limit in &RUN_LIMITS {
            for value in [0, 2, 500] {
                let mut limits = RunLimits::DEFAULT;
                (limit.set)(&mut limits, value);
                let found = (limit.get)(&limits);
                assert!(found == Some(value) || value == 0 && found.is_none(), "{}", limit.key);
                let mut back = limits.clone();
                (limit.set)(&mut back, (limit.get)(&RunLimits::DEFAULT).unwrap_or(0));
                assert_eq!(back, RunLimits::DEFAULT, "{}", limit.key);
            }
        }
    }

    /// A number that is only too large is not reported as something else than a number.
    #[test]
    fn too_large_numbers_are_named_as_such() {
        let shown = RUN_LIMITS.each_ref().map(|limit| {
            ["99999999999999999999", "many"].map(|text| {
                assert_eq!(limit.unit.parse(text), None);
                limit.unit.expected_instead_of(text)
            })
        });
        let count = ["a smaller number: 4294967295 or less", "a whole number"];
        let share = "a share from 0.1 to 0.99, such as `0.8`";
        assert_eq!(
            shown,
            [
                count,
                count,
                ["a duration such as `90m` or `8h`"; 2],
                ["a smaller amount: 1000000000 or less", "an amount such as `20` or `1.50`"],
                ["a smaller number, such as `2M`", "a number such as `500k` or `2M`"],
                count,
                [share; 2],
            ]
        );
    }

    #[test]
    fn arguments_are_read_as_the_same_value() {
        for limit in &RUN_LIMITS {
            for value in [100, 123, 987] {
                let argument = limit.unit.to_argument(value);
                assert_eq!(limit.unit.parse(&argument), Some(value), "{} {argument}", limit.key);
            }
        }
    }
}
