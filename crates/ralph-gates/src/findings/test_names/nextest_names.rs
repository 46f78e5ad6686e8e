//! Names the tests of cargo-nextest by the binary that they are in: `shop::cart > adds`.

use super::NameCollector;
use ralph_core::test_cases::{MAX_CASES, TestOutcome};
use std::collections::HashMap;

/// Where the status of a test ends, counted in characters: it is right-aligned.
const STATUS_WIDTH: usize = 12;

#[derive(Debug, Default)]
pub(super) struct NextestNames {
    /// Between `Starting …` and `Summary […]`.
    is_running: bool,
    /// The last result of each test: with retries there are several.
    results: HashMap<String, TestOutcome>,
}

impl NextestNames {
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if !self.is_running {
            self.is_running = is_start(line);
            return;
        }
        if is_end(line.trim_start()) {
            self.is_running = false;
            for (name, outcome) in self.results.drain() {
                names.add(outcome, &[&name]);
            }
        } else if let Some((outcome, name)) = parse_result(line)
            && (self.results.len() < MAX_CASES || self.results.contains_key(&name))
        {
            self.results.insert(name, outcome);
        }
    }

    pub(super) fn finish(mut self, names: &mut NameCollector<'_>) {
        if self.is_running {
            names.mark_incomplete();
            for (name, outcome) in self.results.drain() {
                names.add(outcome, &[&name]);
            }
        }
    }
}

/// `    Starting 5 tests across 3 binaries (2 tests skipped)`
pub(in crate::findings) fn is_start(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("Starting")
        && words.next().is_some_and(|number| number.parse::<u32>().is_ok())
        && matches!(words.next(), Some("test" | "tests"))
        && words.next() == Some("across")
}

/// `Summary [   0.059s] 5 tests run: 4 passed, 1 failed, 2 skipped`
pub(in crate::findings) fn is_end(line: &str) -> bool {
    line.starts_with("Summary [")
}

/// `        PASS [   0.010s] (1/5) shop tests::adds`
fn parse_result(line: &str) -> Option<(TestOutcome, String)> {
    let (status, rest) = line.split_once(" [")?;
    if status.chars().count() != STATUS_WIDTH {
        return None;
    }
    let (_, rest) = rest.split_once("] ")?;
    let rest = match rest.strip_prefix('(') {
        Some(numbered) => numbered.split_once(") ")?.1,
        None => rest,
    };
    let (binary, test) = rest.trim_start().split_once(' ')?;
    let status = status.trim();
    let last = status.rsplit(' ').next().unwrap_or_default();
    let outcome = match status.split(' ').next().unwrap_or_default() {
        "PASS" | "LEAK" | "FLAKY" => TestOutcome::Passed,
        "FAIL" | "TIMEOUT" | "ABORT" | "LEAK-FAIL" => TestOutcome::Failed,
        "SKIP" => TestOutcome::Skipped,
        "TRY" if last == "PASS" => TestOutcome::Passed,
        "TRY" if matches!(last, "FAIL" | "TMT" | "ABORT") => TestOutcome::Failed,
        signal if signal.starts_with("SIG") => TestOutcome::Failed,
        _ => return None,
    };
    Some((outcome, format!("{binary} > {}", test.trim())))
}
