//! Proposals that a person applied, and what changed since.

use super::gate_tables::{GateStatistics, gate_statistics};
use super::hold_table::hold_table;
use super::proposal_rules::{PolicyProposal, ProposalKind};
use super::stats_rows::{StatsProject, StatsRows, StatsRun, percent, permille};
use super::week_table::verified_cost;
use crate::json_units;
use ralph_core::text;
use ralph_core::units::{format_duration, format_usd};
use serde::{Deserialize, Serialize};

/// Runs that ended longer before the change than this are not compared.
const BEFORE_MS: u64 = 28 * 24 * 60 * 60 * 1000;
/// Fewer runs on one side say nothing.
const LEAST_RUNS: u64 = 5;
const LONGEST_TEXT: usize = 300;

/// One line of `deck/applied.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedProposal {
    pub v: u8,
    pub at_ms: u64,
    pub project: String,
    pub kind: ProposalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    pub title: String,
    pub file: String,
    pub key: String,
    pub value: String,
}

/// What changed since a proposal was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppliedComparison {
    pub title: String,
    pub project: StatsProject,
    #[serde(rename = "at", serialize_with = "json_units::time")]
    pub at_ms: u64,
    /// Runs of the 28 days before, and since then.
    pub runs_before: u64,
    pub runs_after: u64,
    /// Empty until there are enough runs on both sides.
    pub figures: Vec<ComparedFigure>,
}

/// A figure before and after, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedFigure {
    pub name: String,
    pub before: String,
    pub after: String,
}

impl AppliedProposal {
    pub fn new(proposal: &PolicyProposal, at_ms: u64) -> Self {
        let PolicyProposal { kind, project, title, edit, .. } = proposal;
        Self {
            v: 1,
            at_ms,
            project: project.path.clone(),
            kind: *kind,
            gate: edit.gate.clone(),
            title: title.clone(),
            file: edit.file.clone(),
            key: edit.key.clone(),
            value: edit.value.clone(),
        }
    }
}

/// Compares the runs before and after each change. `rows` are all runs, whatever the page shows.
pub(super) fn compare_applied(
    rows: &StatsRows,
    applied: &[AppliedProposal],
) -> Vec<AppliedComparison> {
    applied.iter().map(|one| compare(rows, one)).collect()
}

fn compare(rows: &StatsRows, applied: &AppliedProposal) -> AppliedComparison {
    let from_ms = applied.at_ms.saturating_sub(BEFORE_MS);
    let is_own = |run: &StatsRun| run.project == applied.project && run.has_ended();
    let before =
        rows.filtered(|run| is_own(run) && (from_ms..applied.at_ms).contains(&run.end_ms()));
    let after = rows.filtered(|run| is_own(run) && run.end_ms() >= applied.at_ms);
    let count = |rows: &StatsRows| u64::try_from(rows.runs.len()).unwrap_or(u64::MAX);
    let (runs_before, runs_after) = (count(&before), count(&after));
    let is_enough = runs_before.min(runs_after) >= LEAST_RUNS;
    AppliedComparison {
        title: text::clean_line(&applied.title, LONGEST_TEXT),
        project: StatsProject::of(&text::clean_line(&applied.project, LONGEST_TEXT)),
        at_ms: applied.at_ms,
        runs_before,
        runs_after,
        figures: if is_enough { figures(applied, &before, &after) } else { Vec::new() },
    }
}

fn figures(
    applied: &AppliedProposal,
    before: &StatsRows,
    after: &StatsRows,
) -> Vec<ComparedFigure> {
    let gate = applied.gate.as_deref().unwrap_or_default();
    let of_gate = |rows: &StatsRows, read: fn(&GateStatistics) -> String| {
        let gates = gate_statistics(rows);
        gates.iter().find(|one| one.gate == gate).map(read)
    };
    let mut figures = Vec::new();
    let mut add = |name: &str, before: Option<String>, after: Option<String>| {
        if let Some((before, after)) = before.zip(after) {
            figures.push(ComparedFigure { name: name.to_string(), before, after });
        }
    };
    match applied.kind {
        ProposalKind::Earlier | ProposalKind::Recurring => {
            let held = |rows: &StatsRows| Some(held_share(rows, gate));
            add("Share of held stops", held(before), held(after));
        }
        ProposalKind::Repeat => {
            let rate = |gate: &GateStatistics| percent(gate.flaky_permille);
            add("Different results", of_gate(before, rate), of_gate(after, rate));
        }
        ProposalKind::Narrow | ProposalKind::Later => {
            let time = |gate: &GateStatistics| {
                format_duration(gate.took_ms.checked_div(gate.runs).unwrap_or(0))
            };
            add("Time of the gate per run", of_gate(before, time), of_gate(after, time));
        }
        // Held stops per run say whether it helped.
        ProposalKind::Forbid => {}
        ProposalKind::Raise | ProposalKind::Wait => {
            let share = |rows: &StatsRows| Some(limit_share(rows));
            add("Runs that hit a limit", share(before), share(after));
        }
    }
    let held = |rows: &StatsRows| Some(held_per_run(rows));
    add("Held stops per run", held(before), held(after));
    let cost =
        |rows: &StatsRows| verified_cost(rows.runs.iter()).map(|cost| format_usd(cost.median));
    add("Cost of a verified run", cost(before), cost(after));
    figures
}

fn held_share(rows: &StatsRows, gate: &str) -> String {
    let table = hold_table(rows, |_| true, usize::MAX);
    let row = table.rows.iter().find(|row| row.requirement == gate);
    percent(row.map_or(0, |row| row.held_permille))
}

fn limit_share(rows: &StatsRows) -> String {
    let hit = rows.runs.iter().filter(|run| run.limit_hit().is_some()).count();
    let counts = [hit, rows.runs.len()].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    percent(permille(counts[0], counts[1]))
}

/// `1.4`
fn held_per_run(rows: &StatsRows) -> String {
    let held: u64 = rows.runs.iter().map(|run| u64::from(run.held)).fold(0, u64::saturating_add);
    let runs = u64::try_from(rows.runs.len()).unwrap_or(u64::MAX).max(1);
    let tenths = (held * 10 + runs / 2) / runs;
    format!("{}.{}", tenths / 10, tenths % 10)
}
