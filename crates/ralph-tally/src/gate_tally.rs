//! What the gates of a run cost and how they came out.

use crate::flaky_results::{FlakyResults, KeyedResult};
use crate::journal_line::GateLine;
use serde::{Deserialize, Serialize};

/// A run has tens of gates. The results of further ones are not counted.
const MAX_GATES: usize = 400;
const MAX_NAME_BYTES: usize = 200;

/// The results of one gate at one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTally {
    pub name: String,
    pub site: String,
    pub results: u32,
    pub executed: u32,
    pub cached: u32,
    pub passed: u32,
    pub failed: u32,
    pub no_result: u32,
    pub flaky: u32,
    pub took_ms: u64,
    pub saved_ms: u64,
    pub longest_ms: u64,
    /// The tests of the last result that counted any.
    pub tests: Option<u32>,
}

/// All gates of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTallies {
    pub gates: Vec<GateTally>,
    measured: FlakyResults,
}

impl GateTallies {
    pub(crate) fn add(&mut self, line: &GateLine<'_>) {
        let Some(gate) = self.gate_index(line.name.as_str(), line.site.as_str()) else { return };
        let is_flaky = self.measured.add(&KeyedResult {
            key: line.key.as_str(),
            site: line.site.as_str(),
            outcome: line.outcome.as_str(),
            cached: line.cached,
            passed_on_rerun: line.steadiness.as_ref().is_some_and(|one| one.as_str() == "flaky"),
        });
        let Some(gate) = self.gates.get_mut(gate) else { return };
        add_one(&mut gate.results);
        gate.flaky = gate.flaky.saturating_add(u32::from(is_flaky));
        match line.outcome.as_str() {
            "passed" => add_one(&mut gate.passed),
            "failed" => add_one(&mut gate.failed),
            _ => add_one(&mut gate.no_result),
        }
        if line.cached {
            add_one(&mut gate.cached);
            gate.saved_ms = gate.saved_ms.saturating_add(line.took_ms);
        } else {
            add_one(&mut gate.executed);
            gate.took_ms = gate.took_ms.saturating_add(line.took_ms);
            gate.longest_ms = gate.longest_ms.max(line.took_ms);
        }
        if let Some(tests) = &line.tests {
            gate.tests = Some(tests.run);
        }
    }

    fn gate_index(&mut self, name: &str, site: &str) -> Option<usize> {
        let is_it = |gate: &GateTally| gate.name == name && gate.site == site;
        if let Some(at) = self.gates.iter().position(is_it) {
            return Some(at);
        }
        if self.gates.len() >= MAX_GATES || name.len() > MAX_NAME_BYTES {
            return None;
        }
        let (name, site) = (name.to_string(), site.to_string());
        self.gates.push(GateTally { name, site, ..GateTally::default() });
        Some(self.gates.len() - 1)
    }
}

fn add_one(count: &mut u32) {
    *count = count.saturating_add(1);
}
