//! The gates of a run over its stops.

use crate::json_units;
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::record::{GateRecord, JournalEntry, MeasuredSite, RunChange};
use ralph_core::text;
use ralph_tally::{FlakyResults, KeyedResult};
use serde::Serialize;

const LONGEST_NAME: usize = 200;
const LONGEST_PATH: usize = 1_000;
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
    let mut gates: Vec<RecordedGate<'_>> = Vec::new();
    let mut measured = FlakyResults::default();
    for entry in entries {
        let RunChange::Decided(decided) = &entry.change else { continue };
        for result in &decided.gates {
            let is_flaky = measured.add(&KeyedResult {
                key: &result.key,
                site: site_name(result.site),
                outcome: &result.outcome,
                cached: result.cached,
                passed_on_rerun: result.steadiness == ResultStability::Flaky,
            });
            let is_known =
                |gate: &&mut RecordedGate<'_>| gate.name == result.name && gate.site == result.site;
            if let Some(gate) = gates.iter_mut().find(is_known) {
                gate.add(entry, result, is_flaky);
            } else {
                let results = vec![(entry, result)];
                let (name, site) = (&result.name, result.site);
                gates.push(RecordedGate { name, site, results, flaky: u32::from(is_flaky) });
            }
        }
    }
    gates.iter().filter_map(RecordedGate::row).collect()
}

/// All results of a gate in one kind of tree.
struct RecordedGate<'a> {
    name: &'a str,
    site: MeasuredSite,
    results: Vec<(&'a JournalEntry, &'a GateRecord)>,
    flaky: u32,
}

impl<'a> RecordedGate<'a> {
    fn add(&mut self, entry: &'a JournalEntry, result: &'a GateRecord, is_flaky: bool) {
        self.results.push((entry, result));
        self.flaky = self.flaky.saturating_add(u32::from(is_flaky));
    }

    fn row(&self) -> Option<GateHistoryRow> {
        let (_, last) = self.results.last()?;
        let (cached, executed): (Vec<_>, Vec<_>) =
            self.results.iter().map(|(_, result)| *result).partition(|result| result.cached);
        let failed = executed.iter().filter(|result| result.outcome == "failed").count();
        let latest = self.results.len().saturating_sub(MAX_MEASUREMENTS);
        Some(GateHistoryRow {
            name: text::clean_line(self.name, LONGEST_NAME),
            site: self.site,
            outcome: text::clean_line(&last.outcome, LONGEST_NAME),
            tests: last.tests,
            findings: last.findings,
            executed: count(executed.len()),
            cached: count(cached.len()),
            failed: count(failed),
            took_ms: total_ms(&executed),
            saved_ms: total_ms(&cached),
            longest_ms: executed.iter().map(|result| result.took_ms).max().unwrap_or(0),
            flaky: self.flaky,
            log: last.log.as_ref().map(|log| text::clean_line(log, LONGEST_PATH)),
            measurements: self.results.iter().skip(latest).map(measurement).collect(),
        })
    }
}

fn measurement((entry, result): &(&JournalEntry, &GateRecord)) -> GateMeasurement {
    GateMeasurement {
        seq: entry.seq,
        at_ms: entry.at_ms,
        outcome: text::clean_line(&result.outcome, LONGEST_NAME),
        took_ms: result.took_ms,
        cached: result.cached,
    }
}

fn count(results: usize) -> u32 {
    u32::try_from(results).unwrap_or(u32::MAX)
}

fn total_ms(results: &[&GateRecord]) -> u64 {
    results.iter().map(|result| result.took_ms).fold(0, u64::saturating_add)
}

/// As the journal has it.
fn site_name(site: MeasuredSite) -> &'static str {
    match site {
        MeasuredSite::Tree => "tree",
        MeasuredSite::Clean => "clean",
        MeasuredSite::Base => "base",
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
