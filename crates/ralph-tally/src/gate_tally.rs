//! What the gates of a run cost and how they came out.

use crate::journal_line::GateLine;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A run has tens of gates. The results of further ones are not counted.
const MAX_GATES: usize = 400;
/// How many measured contents are remembered to find a gate that passes and fails on the same one.
const MAX_KEYS: usize = 20_000;
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
    /// Whether each measured content passed or failed when it was first measured, by a hash of its key.
    outcomes: HashMap<u64, bool, BuildHasherDefault<PassthroughHasher>>,
}

/// The keys are hashes already, so they are used as they are.
#[derive(Debug, Default)]
struct PassthroughHasher(u64);

impl Hasher for PassthroughHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl GateTallies {
    pub(crate) fn add(&mut self, line: &GateLine<'_>) {
        let Some(gate) = self.gate_index(line.name.as_str(), line.site.as_str()) else { return };
        let changed = self.has_changed(line);
        let Some(gate) = self.gates.get_mut(gate) else { return };
        let is_flaky = changed
            || line.steadiness.as_ref().is_some_and(|steadiness| steadiness.as_str() == "flaky");
        add_one(&mut gate.results);
        gate.flaky = gate.flaky.saturating_add(u32::from(is_flaky && !line.cached));
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

    /// Whether the same content came out differently before.
    fn has_changed(&mut self, line: &GateLine<'_>) -> bool {
        let has_passed = match line.outcome.as_str() {
            "passed" => true,
            "failed" => false,
            _ => return false,
        };
        let mut hasher = DefaultHasher::new();
        (line.key.as_str(), line.site.as_str()).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(before) = self.outcomes.get_mut(&key) {
            return std::mem::replace(before, has_passed) != has_passed;
        }
        if self.outcomes.len() < MAX_KEYS {
            self.outcomes.insert(key, has_passed);
        }
        false
    }
}

fn add_one(count: &mut u32) {
    *count = count.saturating_add(1);
}
