//! Gates that give different results on the same content, and gates that take long.

use super::StatsScope;
use super::stats_rows::{StatsGate, StatsProject, StatsRows, permille};
use crate::json_units;
use ralph_core::gate::shell_quote;
use serde::Serialize;
use std::collections::BTreeMap;

/// A gate is slow if it takes this much time in total, so that there is something to gain.
const SLOW_TOTAL_MS: u64 = 1_000;

/// A gate of a project over all runs and sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GateStatistics {
    pub gate: String,
    pub project: StatsProject,
    pub runs: u64,
    pub executed: u64,
    pub cached: u64,
    /// The share of results that were known already, in thousandths.
    #[serde(rename = "cached_share", serialize_with = "json_units::share")]
    pub cached_permille: u32,
    pub passed: u64,
    pub failed: u64,
    pub no_result: u64,
    /// Results that differ from another one on the same content.
    pub flaky: u64,
    /// Their share of the executed ones, in thousandths.
    #[serde(rename = "flaky_share", serialize_with = "json_units::share")]
    pub flaky_permille: u32,
    pub took_ms: u64,
    pub saved_ms: u64,
    pub mean_ms: u64,
    pub longest_ms: u64,
}

/// Gates that gave different results on the same content, the least steady first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlakyTable {
    pub rows: Vec<GateStatistics>,
    pub next: Option<String>,
}

/// Gates by the time that they took, and what the cache saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlowTable {
    pub took_ms: u64,
    pub saved_ms: u64,
    pub rows: Vec<GateStatistics>,
    pub left_out: usize,
    pub next: Option<String>,
}

/// Every gate, by project and name.
pub(super) fn gate_statistics(rows: &StatsRows) -> Vec<GateStatistics> {
    let runs = rows.by_id();
    let mut groups: BTreeMap<(&str, &str), Vec<&StatsGate>> = BTreeMap::new();
    for gate in &rows.gates {
        if let Some(run) = runs.get(gate.run.as_str()) {
            groups.entry((&run.project, &gate.name)).or_default().push(gate);
        }
    }
    groups.into_iter().map(|((project, _), gates)| summarize(project, &gates)).collect()
}

fn summarize(project: &str, gates: &[&StatsGate]) -> GateStatistics {
    let sum = |field: fn(&StatsGate) -> u64| {
        gates.iter().map(|gate| field(gate)).fold(0, u64::saturating_add)
    };
    let runs: std::collections::BTreeSet<_> = gates.iter().map(|gate| &gate.run).collect();
    let (executed, cached) = (sum(|gate| gate.executed.into()), sum(|gate| gate.cached.into()));
    let (flaky, took_ms) = (sum(|gate| gate.flaky.into()), sum(|gate| gate.took_ms));
    GateStatistics {
        gate: gates.first().map(|gate| gate.name.clone()).unwrap_or_default(),
        project: StatsProject::of(project),
        runs: u64::try_from(runs.len()).unwrap_or(u64::MAX),
        executed,
        cached,
        cached_permille: permille(cached, executed.saturating_add(cached)),
        passed: sum(|gate| gate.passed.into()),
        failed: sum(|gate| gate.failed.into()),
        no_result: sum(|gate| gate.no_result.into()),
        flaky,
        flaky_permille: permille(flaky, executed).min(1000),
        took_ms,
        saved_ms: sum(|gate| gate.saved_ms),
        mean_ms: took_ms.checked_div(executed).unwrap_or(0),
        longest_ms: gates.iter().map(|gate| gate.longest_ms).max().unwrap_or(0),
    }
}

/// The command about a gate. In a list of all projects, its project may be another than the one of the terminal.
fn explain_command(gate: &GateStatistics, scope: &StatsScope) -> String {
    let mut command = format!("ralph gate explain {}", gate.gate);
    if scope.project.is_none() {
        command.push_str(&format!(" --project {}", shell_quote(&gate.project.path)));
    }
    command
}

pub(super) fn flaky_table(gates: &[GateStatistics], most: usize, scope: &StatsScope) -> FlakyTable {
    let mut rows: Vec<_> = gates.iter().filter(|gate| gate.flaky > 0).cloned().collect();
    rows.sort_by_key(|gate| std::cmp::Reverse((gate.flaky_permille, gate.flaky)));
    rows.truncate(most);
    let next = rows.first().map(|gate| {
        let command = explain_command(gate, scope);
        format!("`{command}` shows when a failure has to occur twice")
    });
    FlakyTable { rows, next }
}

pub(super) fn slow_table(gates: &[GateStatistics], most: usize, scope: &StatsScope) -> SlowTable {
    let worth =
        |gate: &&GateStatistics| gate.took_ms.saturating_add(gate.saved_ms) >= SLOW_TOTAL_MS;
    let mut rows: Vec<_> = gates.iter().filter(worth).cloned().collect();
    rows.sort_by_key(|gate| std::cmp::Reverse(gate.took_ms));
    let left_out = rows.len().saturating_sub(most);
    rows.truncate(most);
    let next = rows.first().map(|gate| {
        let command = explain_command(gate, scope);
        format!("`{command}` shows which files make it run again")
    });
    SlowTable {
        took_ms: gates.iter().map(|gate| gate.took_ms).fold(0, u64::saturating_add),
        saved_ms: gates.iter().map(|gate| gate.saved_ms).fold(0, u64::saturating_add),
        rows,
        left_out,
        next,
    }
}
