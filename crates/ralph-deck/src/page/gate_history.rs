//! The gates of a run over its stops.

use crate::json_units;
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::record::{JournalEntry, MeasuredSite, RunChange};
use ralph_core::text;
use serde::Serialize;
use std::collections::HashMap;

const LONGEST_NAME: usize = 200;
/// How many of the latest results of a gate are listed.
const MAX_MEASUREMENTS: usize = 200;

/// One gate of a run, in one kind of tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateHistoryRow {
    pub name: String,
    pub site: MeasuredSite,
    /// The latest outcome: `passed`, `failed`, or why there is no result.
    pub outcome: String,
    pub tests: Option<TestCounts>,
    pub findings: u32,
    /// How often it ran, without cached results.
    pub executed: u32,
    pub cached: u32,
    pub failed: u32,
    pub took_ms: u64,
    /// What cached results did not cost again.
    pub saved_ms: u64,
    pub longest_ms: u64,
    /// How often it gave different results on the same content.
    pub flaky: u32,
    pub log: Option<String>,
    /// The latest results, oldest first.
    pub measurements: Vec<GateMeasurement>,
}

/// A result of a gate at a stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateMeasurement {
    pub seq: u64,
    #[serde(rename = "at", serialize_with = "json_units::time")]
    pub at_ms: u64,
    pub outcome: String,
    pub took_ms: u64,
    pub cached: bool,
}

/// The gates of a journal, in the order of their first result.
pub fn gate_history(entries: &[JournalEntry]) -> Vec<GateHistoryRow> {
    let mut rows: Vec<GateHistoryRow> = Vec::new();
    let mut outcomes: HashMap<(usize, &str), &str> = HashMap::new();
    for entry in entries {
        let RunChange::Decided(decided) = &entry.change else { continue };
        for gate in &decided.gates {
            let name = text::clean_line(&gate.name, LONGEST_NAME);
            let known = rows.iter().position(|row| row.name == name && row.site == gate.site);
            let position = known.unwrap_or(rows.len());
            if known.is_none() {
                rows.push(new_row(name, gate.site));
            }
            let Some(row) = rows.get_mut(position) else { continue };
            let outcome = text::clean_line(&gate.outcome, LONGEST_NAME);
            let contradicts = outcomes
                .insert((position, &gate.key), &gate.outcome)
                .is_some_and(|before| before != gate.outcome);
            let is_flaky =
                contradicts || (gate.steadiness == ResultStability::Flaky && !gate.cached);
            row.flaky = row.flaky.saturating_add(u32::from(is_flaky));
            let has_failed = gate.outcome == "failed" && !gate.cached;
            row.failed = row.failed.saturating_add(u32::from(has_failed));
            if gate.cached {
                row.cached = row.cached.saturating_add(1);
                row.saved_ms = row.saved_ms.saturating_add(gate.took_ms);
            } else {
                row.executed = row.executed.saturating_add(1);
                row.took_ms = row.took_ms.saturating_add(gate.took_ms);
                row.longest_ms = row.longest_ms.max(gate.took_ms);
            }
            row.tests = gate.tests;
            row.findings = gate.findings;
            row.log = gate.log.as_ref().map(|log| text::clean_line(log, 1_000));
            row.measurements.push(GateMeasurement {
                seq: entry.seq,
                at_ms: entry.at_ms,
                outcome: outcome.clone(),
                took_ms: gate.took_ms,
                cached: gate.cached,
            });
            row.outcome = outcome;
        }
    }
    for row in &mut rows {
        let older = row.measurements.len().saturating_sub(MAX_MEASUREMENTS);
        row.measurements.drain(..older);
    }
    rows
}

fn new_row(name: String, site: MeasuredSite) -> GateHistoryRow {
    GateHistoryRow {
        name,
        site,
        outcome: String::new(),
        tests: None,
        findings: 0,
        executed: 0,
        cached: 0,
        failed: 0,
        took_ms: 0,
        saved_ms: 0,
        longest_ms: 0,
        flaky: 0,
        log: None,
        measurements: Vec::new(),
    }
}
