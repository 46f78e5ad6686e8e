//! Runs by ISO week: how many ended, what a verified one cost, and which limits were hit.

use super::stats_rows::{LimitHit, StatsRows, StatsRun, quartile};
use crate::json_units;
use serde::Serialize;
use std::collections::BTreeMap;

/// The quarters of fewer values are hardly more than the values themselves.
const LEAST_FOR_QUARTERS: usize = 5;

/// The cost of verified runs, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CostRange {
    #[serde(rename = "median_usd", serialize_with = "json_units::usd")]
    pub median: u64,
    /// The middle half is between `lower` and `upper`; `None` if there are too few runs for quarters.
    #[serde(rename = "lower_usd", serialize_with = "json_units::optional_usd")]
    pub lower: Option<u64>,
    #[serde(rename = "upper_usd", serialize_with = "json_units::optional_usd")]
    pub upper: Option<u64>,
    /// Verified runs whose cost is known.
    pub runs: u64,
}

impl CostRange {
    /// The middle half; `None` if there are too few runs.
    pub fn middle_half(self) -> Option<(u64, u64)> {
        self.lower.zip(self.upper)
    }
}

/// The runs that ended in an ISO week.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WeekRow {
    /// `2026-W46`
    pub week: String,
    pub ended: u64,
    pub verified: u64,
    /// `None` if no verified run has a known cost.
    pub cost: Option<CostRange>,
    pub stops: u64,
    pub held: u64,
    /// What all runs of the week cost, verified or not.
    #[serde(rename = "spent_usd", serialize_with = "json_units::usd")]
    pub micro_usd: u64,
    pub limits_hit: u64,
}

/// A limit that ended or parked runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitHitRow {
    pub limit: LimitHit,
    pub runs: u64,
    /// The latest of them.
    pub last_run: String,
}

/// Latest first, at most `most`.
pub(super) fn week_rows(rows: &StatsRows, most: usize) -> Vec<WeekRow> {
    let mut weeks: BTreeMap<&str, Vec<&StatsRun>> = BTreeMap::new();
    for run in rows.runs.iter().filter(|run| !run.is_session) {
        weeks.entry(&run.week).or_default().push(run);
    }
    let latest = weeks.into_iter().rev().take(most);
    latest.map(|(week, runs)| week_row(week, &runs)).collect()
}

fn week_row(week: &str, runs: &[&StatsRun]) -> WeekRow {
    let count = |is: fn(&StatsRun) -> bool| {
        u64::try_from(runs.iter().filter(|run| is(run)).count()).unwrap_or(u64::MAX)
    };
    WeekRow {
        week: week.to_string(),
        ended: count(StatsRun::has_ended),
        verified: count(StatsRun::is_verified),
        cost: verified_cost(runs.iter().copied()),
        stops: runs.iter().map(|run| u64::from(run.stops)).fold(0, u64::saturating_add),
        held: runs.iter().map(|run| u64::from(run.held)).fold(0, u64::saturating_add),
        micro_usd: runs.iter().filter_map(|run| run.micro_usd).fold(0, u64::saturating_add),
        limits_hit: count(|run| run.limit_hit().is_some()),
    }
}

/// The cost of the verified runs among these.
pub(super) fn verified_cost<'a>(runs: impl Iterator<Item = &'a StatsRun>) -> Option<CostRange> {
    // What is only a lower bound would make the median too low.
    let known = runs.filter(|run| run.is_verified() && run.is_cost_known());
    let mut costs: Vec<u64> = known.filter_map(|run| run.micro_usd).collect();
    costs.sort_unstable();
    let bound = |quarter| quartile(&costs, quarter).filter(|_| costs.len() >= LEAST_FOR_QUARTERS);
    Some(CostRange {
        median: quartile(&costs, 2)?,
        lower: bound(1),
        upper: bound(3),
        runs: u64::try_from(costs.len()).unwrap_or(u64::MAX),
    })
}

/// Most frequent first.
pub(super) fn limit_rows(rows: &StatsRows) -> Vec<LimitHitRow> {
    let mut hits: BTreeMap<LimitHit, Vec<&StatsRun>> = BTreeMap::new();
    for run in rows.runs.iter().filter(|run| !run.is_session) {
        if let Some(limit) = run.limit_hit() {
            hits.entry(limit).or_default().push(run);
        }
    }
    let row = |(limit, runs): (LimitHit, Vec<&StatsRun>)| LimitHitRow {
        limit,
        runs: u64::try_from(runs.len()).unwrap_or(u64::MAX),
        last_run: runs
            .iter()
            .max_by_key(|run| run.end_ms())
            .map(|run| run.id.clone())
            .unwrap_or_default(),
    };
    let mut limits: Vec<_> = hits.into_iter().map(row).collect();
    limits.sort_by_key(|row| std::cmp::Reverse(row.runs));
    limits
}
