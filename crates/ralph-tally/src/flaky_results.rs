//! Which results of gates contradict another one on the same content.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// How many measured contents are remembered.
const MAX_KEYS: usize = 20_000;

/// The parts of a gate result that decide whether it is flaky.
#[derive(Clone, Copy, Debug)]
pub struct KeyedResult<'a> {
    /// Identifies gate and content.
    pub key: &'a str,
    /// `tree`, `clean` or `base`
    pub site: &'a str,
    /// `passed`, `failed`, or why there is no result.
    pub outcome: &'a str,
    pub cached: bool,
    /// Whether the gate passed only when it ran again.
    pub passed_on_rerun: bool,
}

/// Whether each measured content passed or failed when it was last measured, by a hash of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlakyResults(HashMap<u64, bool, BuildHasherDefault<PassthroughHasher>>);

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

impl FlakyResults {
    /// Adds the next result, and returns whether it is flaky. A cached result is no measurement of its own, and a gate
    /// without a result contradicts nothing.
    pub fn add(&mut self, result: &KeyedResult<'_>) -> bool {
        let contradicts = self.has_changed(result);
        (contradicts || result.passed_on_rerun) && !result.cached
    }

    fn has_changed(&mut self, result: &KeyedResult<'_>) -> bool {
        let has_passed = match result.outcome {
            "passed" => true,
            "failed" => false,
            _ => return false,
        };
        let mut hasher = DefaultHasher::new();
        (result.key, result.site).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(before) = self.0.get_mut(&key) {
            return std::mem::replace(before, has_passed) != has_passed;
        }
        if self.0.len() < MAX_KEYS {
            self.0.insert(key, has_passed);
        }
        false
    }
}
