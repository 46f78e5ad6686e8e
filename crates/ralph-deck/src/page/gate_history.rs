//! The gates of a run over its stops.

use crate::json_units;
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::record::{JournalEntry, MeasuredSite, RunChange};
use ralph_core::text;
use ralph_tally::{FlakyResults, KeyedResult};
use serde::Serialize;

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
    let mut measured = FlakyResults::default();
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
            let is_flaky = measured.add(&KeyedResult {
                key: &gate.key,
                site: site_name(gate.site),
                outcome: &gate.outcome,
                cached: gate.cached,
                is_unsteady: gate.steadiness == ResultStability::Flaky,
            });
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

/// As the journal has it.
fn site_name(site: MeasuredSite) -> &'static str {
    match site {
        MeasuredSite::Tree => "tree",
        MeasuredSite::Clean => "clean",
        MeasuredSite::Base => "base",
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_tally::{DayCache, RunTally};
    use serde_json::json;

    /// The results of the gate `tests`, a stop each: `a+` passes on the content `a`, `a-` fails, `a?` has no result. `=`
    /// is a cached result, `~` one that passed when it ran again, and `@` one in a clean checkout.
    fn entries(results: &str) -> Vec<JournalEntry> {
        let entry = |(seq, word): (usize, &str)| {
            let outcome = match word.as_bytes()[1] {
                b'+' => "passed",
                b'-' => "failed",
                _ => "timed out",
            };
            let gate = json!({
                "name": "tests", "site": if word.contains('@') { "clean" } else { "tree" }, "outcome": outcome,
                "took_ms": 5, "cached": word.contains('='), "key": &word[..1],
                "steadiness": if word.contains('~') { "flaky" } else { "once" },
            });
            let change = json!({"decided": {
                "rule": "block", "outcome": "allowed", "because": "", "took_ms": 1, "gates": [gate],
            }});
            let line = json!({"v": 2, "seq": seq, "at_ms": 0, "prev": "", "iteration": 0, "change": change});
            serde_json::from_value(line).unwrap()
        };
        results.split(' ').enumerate().map(entry).collect()
    }

    /// The run page and the index of all runs count the same results as flaky.
    #[test]
    fn a_result_is_flaky_if_a_measurement_of_the_same_content_differs() {
        for (results, flaky) in [
            ("a+ a+", 0),
            ("a- b+", 0),
            ("a+ a-", 1),
            ("a+ a- a+", 2),
            // A gate without a result contradicts no other result.
            ("a- a? a-", 0),
            ("a- a? a+", 1),
            // A cached result is the earlier measurement again.
            ("a+ a+=", 0),
            ("a+= a-", 1),
            ("a- a+=", 0),
            ("a+~ a+=", 1),
            ("a+ a+~=", 0),
            ("a+@ a-", 0),
        ] {
            let entries = entries(results);
            let rows = gate_history(&entries);
            let mut tally = RunTally::default();
            let mut days = DayCache::default();
            for entry in &entries {
                tally.add_line(&serde_json::to_vec(entry).unwrap(), &mut days);
            }
            let on_page: u32 = rows.iter().map(|row| row.flaky).sum();
            let in_index: u32 = tally.gates.gates.iter().map(|gate| gate.flaky).sum();
            assert_eq!((on_page, in_index), (flaky, flaky), "{results}");
        }
    }
}
