//! Limits that a person sets explicitly, on top of those of the policy or of a run.

use super::RunLimits;
use super::limit_table::{LimitDefinition, LimitKind, RUN_LIMITS};
use alloc::string::String;
use alloc::vec::Vec;

/// Values by limit. 0 means unlimited; a limit without a value here stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    /// In the order of [`RUN_LIMITS`].
    given: [Option<u64>; RUN_LIMITS.len()],
}

impl LimitOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn get(&self, kind: LimitKind) -> Option<u64> {
        self.given[kind as usize]
    }

    pub fn set(&mut self, kind: LimitKind, value: u64) {
        self.given[kind as usize] = Some(value);
    }

    /// `None` removes the override.
    #[must_use]
    pub fn with(mut self, kind: LimitKind, value: impl Into<Option<u64>>) -> Self {
        self.given[kind as usize] = value.into();
        self
    }

    /// The overridden limits and their values.
    pub fn given(&self) -> impl Iterator<Item = (&'static LimitDefinition, u64)> {
        RUN_LIMITS.iter().zip(self.given).filter_map(|(limit, value)| Some((limit, value?)))
    }

    /// The first overridden limit that only `ralph run` enforces.
    pub fn first_for_runner(&self) -> Option<&'static LimitDefinition> {
        self.given().map(|(limit, _)| limit).find(|limit| limit.needs_runner)
    }

    /// The limits as options of `ralph run` with their values, which parse to exactly these limits.
    pub fn to_options(&self) -> Vec<(&'static str, String)> {
        self.given().map(|(limit, value)| (limit.option, limit.unit.to_argument(value))).collect()
    }

    /// These limits, and those of `others` where none is set here.
    pub fn or(self, others: Self) -> Self {
        others
            .given()
            .filter(|(limit, _)| self.get(limit.kind).is_none())
            .fold(self, |limits, (limit, value)| limits.with(limit.kind, value))
    }

    /// Overrides that lead to exactly `limits`, whatever they are applied to.
    pub fn from_limits(limits: &RunLimits) -> Self {
        RUN_LIMITS.iter().fold(Self::default(), |given, limit| {
            given.with(limit.kind, (limit.get)(limits).unwrap_or(0))
        })
    }

    pub fn apply_to(&self, limits: &RunLimits) -> RunLimits {
        let mut limits = limits.clone();
        for (limit, value) in self.given() {
            (limit.set)(&mut limits, value);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn overrides_change_only_what_they_set() {
        let given = LimitOverrides::default()
            .with(LimitKind::MaxTokens, 5)
            .with(LimitKind::HandoverAt, 500)
            .with(LimitKind::MaxCost, 0);
        let expected = RunLimits {
            max_tokens: Some(5),
            handover_at_permille: 500,
            max_cost_micro_usd: None,
            ..RunLimits::DEFAULT
        };
        assert_eq!(given.apply_to(&RunLimits::DEFAULT), expected);
        assert!(!given.is_empty() && LimitOverrides::default().is_empty());
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
            "--max-iterations 25 --min-iterations 0 --max-duration 28800000ms --max-cost-usd 20.000000 \
             --max-tokens 2000000 --stuck-after 3 --handover-at 0.800"
        );
        assert_eq!(LimitOverrides::default().to_options(), []);
        let mut typed = LimitOverrides::default();
        for (option, value) in all.to_options() {
            let limit = LimitDefinition::by_option(option).unwrap();
            typed.set(limit.kind, limit.unit.parse(&value).unwrap());
        }
        assert_eq!(typed, all);
        let one = LimitOverrides::default().with(LimitKind::MaxTokens, 7);
        assert_eq!(one.or(all), all.with(LimitKind::MaxTokens, 7));
        let none = RunLimits { max_cost_micro_usd: None, ..RunLimits::DEFAULT };
        assert_eq!(LimitOverrides::from_limits(&none).apply_to(&RunLimits::DEFAULT), none);
    }
}
