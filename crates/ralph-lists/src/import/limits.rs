//! The limits of another tool's loop that ralph has too.

use ralph_core::{text, units};

use super::data_tree::{DataNode, UnreadFields};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedLimits {
    pub iterations: Option<u32>,
    pub duration_ms: Option<u64>,
    pub micro_usd: Option<u64>,
    pub stuck_after: Option<u32>,
    pub promise: Option<String>,
}

const MAX_PROMISE_CHARS: usize = 200;

/// A phrase that `--completion-promise` takes.
pub(super) fn parse_promise(text: &str) -> Option<String> {
    let text = text.trim();
    let is_one = !text.is_empty()
        && text != "null"
        && text.chars().count() <= MAX_PROMISE_CHARS
        // It becomes part of a command that a person copies into a shell.
        && text.chars().all(|char| char.is_alphanumeric() || " _-.,:/".contains(char))
        && text::clean(text) == text;
    is_one.then(|| text.to_string())
}

pub(super) fn parse_money(text: &str) -> Option<u64> {
    units::parse_micro_usd(text.trim()).filter(|amount| *amount > 0)
}

impl ImportedLimits {
    /// Takes limits out of a map of settings. Values that ralph does not support stay in the map.
    pub(super) fn take_from(&mut self, fields: &mut UnreadFields<'_>) {
        self.iterations = fields.take_number(&["maxIterations", "maxLoops"]).or(self.iterations);
        let seconds = fields.take_number(&["maxRuntimeSeconds", "maxRuntime"]);
        self.duration_ms = seconds.map(|seconds| u64::from(seconds) * 1000).or(self.duration_ms);
        if let Some(promise) = fields.take_parsed(&["completionPromise"], parse_promise) {
            self.promise = Some(promise);
        }
        if let Some(amount) = fields.take_parsed(&["maxCostUsd", "maxCost"], parse_money) {
            self.micro_usd = Some(amount);
        }
    }

    /// Fills missing limits from `other`.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            iterations: self.iterations.or(other.iterations),
            duration_ms: self.duration_ms.or(other.duration_ms),
            micro_usd: self.micro_usd.or(other.micro_usd),
            stuck_after: self.stuck_after.or(other.stuck_after),
            promise: self.promise.or_else(|| other.promise.clone()),
        }
    }

    /// The limits as options of `ralph start` and `/ralph:goal`.
    pub fn to_options(&self) -> Vec<String> {
        let mut out = Vec::new();
        out.extend(self.iterations.map(|count| format!("--max-iterations {count}")));
        out.extend(self.duration_ms.map(|ms| format!("--max-duration {}s", ms / 1000)));
        out.extend(self.micro_usd.map(|amount| {
            let cents = amount.div_ceil(10_000);
            format!("--max-cost-usd {}.{:02}", cents / 100, cents % 100)
        }));
        out.extend(self.stuck_after.map(|count| format!("--stuck-after {count}")));
        out.extend(self.promise.as_ref().map(|promise| {
            let is_word = promise.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let quote = if is_word { "" } else { "\"" };
            format!("--completion-promise {quote}{promise}{quote}")
        }));
        out
    }
}

impl UnreadFields<'_> {
    /// Takes the entry with one of these names if `read` can parse its text; any other stays.
    fn take_parsed<T>(&mut self, names: &[&str], read: fn(&str) -> Option<T>) -> Option<T> {
        let value = self.peek(names).and_then(DataNode::text).and_then(read)?;
        self.take(names);
        Some(value)
    }
}
