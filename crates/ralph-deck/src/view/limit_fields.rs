//! The limits of a run, and how much of each is used, as fields of JSON objects.
//!
//! Every object begins with the limits that its first version had, set or not, so that their names and order never
//! change. Limits added to ralph later follow, if they are set.

use crate::wording::micro_usd_as_usd;
use ralph_core::limits::{
    LimitDefinition, LimitKind, LimitOverrides, LimitUnit, LimitUsage, RUN_LIMITS, RunLimits,
};
use serde::{Serialize, Serializer};

/// Fields that are flattened into an object.
#[derive(Debug, Default)]
pub struct LimitFields(Vec<(&'static str, Option<LimitNumber>)>);

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum LimitNumber {
    Whole(u64),
    Fraction(f64),
}

impl LimitFields {
    /// The limits in `first`, then all others that are set.
    pub fn of_limits(limits: &RunLimits, first: &[LimitKind]) -> Self {
        let named = first.iter().map(|kind| kind.row());
        let others = RUN_LIMITS.iter().filter(|limit| {
            !first.contains(&limit.kind) && (limit.get)(limits).is_some_and(|value| value > 0)
        });
        Self(named.chain(others).map(|limit| limit_field(limit, limits)).collect())
    }

    /// The limits in `first`, given or not, then all others that are given.
    pub fn of_overrides(given: &LimitOverrides, first: &[LimitKind]) -> Self {
        let field = |limit: &LimitDefinition| {
            let value = given.get(limit.kind).map(|value| limit_number(limit.unit, value));
            (limit.json_name, value)
        };
        let named = first.iter().map(|kind| field(kind.row()));
        let others = given.given().filter(|(limit, _)| !first.contains(&limit.kind));
        Self(named.chain(others.map(|(limit, _)| field(limit))).collect())
    }

    /// For each of these limits, the amount used and the limit itself.
    pub fn of_usage(limits: &RunLimits, usage: &LimitUsage, kinds: &[LimitKind]) -> Self {
        Self::of_rows(limits, usage, kinds.iter().map(|kind| kind.row()))
    }

    /// Adds the same for every limit that is set, can be used up and is not in `shown`.
    #[must_use]
    pub fn and_other_usage(
        mut self,
        limits: &RunLimits,
        usage: &LimitUsage,
        shown: &[LimitKind],
    ) -> Self {
        let others = RUN_LIMITS
            .iter()
            .filter(|limit| !shown.contains(&limit.kind) && (limit.get)(limits).is_some());
        self.0.extend(Self::of_rows(limits, usage, others).0);
        self
    }

    fn of_rows(
        limits: &RunLimits,
        usage: &LimitUsage,
        rows: impl Iterator<Item = &'static LimitDefinition>,
    ) -> Self {
        let fields = rows.filter_map(|limit| {
            let usage_field = limit.usage.as_ref()?;
            let used = (usage_field.used)(usage).map(|used| limit_number(limit.unit, used));
            Some([(usage_field.json_name, used), limit_field(limit, limits)])
        });
        Self(fields.flatten().collect())
    }
}

fn limit_field(limit: &LimitDefinition, limits: &RunLimits) -> (&'static str, Option<LimitNumber>) {
    (limit.json_name, (limit.get)(limits).map(|value| limit_number(limit.unit, value)))
}

fn limit_number(unit: LimitUnit, value: u64) -> LimitNumber {
    match unit {
        LimitUnit::Count(_) | LimitUnit::Milliseconds | LimitUnit::Tokens => {
            LimitNumber::Whole(value)
        }
        LimitUnit::MicroUsd => LimitNumber::Fraction(micro_usd_as_usd(value)),
        #[expect(clippy::cast_precision_loss, reason = "a share is at most 1000 thousandths")]
        LimitUnit::Permille => LimitNumber::Fraction(value as f64 / 1000.0),
    }
}

impl Serialize for LimitFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, number)| (name, number)))
    }
}
