//! Names the tests of `go test` by their package: `example.com/shop/cart > TestTotal/two_items`. Without `-v` there are
//! only the packages and the failed tests.

use super::NameCollector;
use ralph_core::test_cases::{MAX_CASES, TestOutcome};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct GoNames {
    /// The tests since the last package ended, with their results. A test can print lines that look like results, so a
    /// result counts only if the test was started.
    started: BTreeMap<String, Option<TestOutcome>>,
    /// Failures without `-v`, when the start of tests is not printed.
    failed: Vec<String>,
}

impl GoNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if let Some(test) = line.strip_prefix("=== RUN   ") {
            if self.started.len() < MAX_CASES {
                self.started.insert(test.trim_end().to_owned(), None);
            } else {
                names.mark_incomplete();
            }
        } else if let Some((outcome, test)) = parse_result(line) {
            match self.started.get_mut(test) {
                Some(result @ None) => *result = Some(outcome),
                None if outcome == TestOutcome::Failed && self.failed.len() < MAX_CASES => {
                    self.failed.push(test.to_owned());
                }
                Some(Some(_)) | None => {}
            }
        } else if let Some((outcome, package)) = parse_package(line) {
            self.close_package(outcome, package, names);
        }
    }

    pub(super) fn finish(self, names: &mut NameCollector<'_>) {
        if !self.started.is_empty() {
            names.mark_incomplete();
        }
    }

    fn close_package(
        &mut self,
        outcome: TestOutcome,
        package: &str,
        names: &mut NameCollector<'_>,
    ) {
        let started = std::mem::take(&mut self.started);
        let failed = std::mem::take(&mut self.failed);
        let has_failed = started.values().any(|result| *result == Some(TestOutcome::Failed));
        // Without names, or if the package failed by itself, it stands for its tests.
        if outcome == TestOutcome::Failed && !has_failed && failed.is_empty() {
            names.add_failed_group(&[package]);
        } else if started.is_empty() {
            names.add_name(outcome, &[package]);
        }
        if started.is_empty() {
            for test in &failed {
                names.add_name(TestOutcome::Failed, &[package, test]);
            }
        }
        for (test, result) in started {
            match result {
                Some(result) => names.add(result, &[package, &test]),
                None => names.mark_incomplete(),
            }
        }
    }
}

/// `    --- PASS: TestTotal/two_items (0.00s)`, also after output of the test without a line break.
fn parse_result(line: &str) -> Option<(TestOutcome, &str)> {
    let (_, rest) = line.split_once("--- ")?;
    let (status, rest) = rest.split_once(": ")?;
    let outcome = match status {
        "PASS" => TestOutcome::Passed,
        "FAIL" => TestOutcome::Failed,
        "SKIP" => TestOutcome::Skipped,
        _ => return None,
    };
    let (test, took) = rest.trim_end().rsplit_once(" (")?;
    took.ends_with("s)").then_some((outcome, test))
}

/// `ok example.com/shop/cart 0.012s`, `FAIL example.com/shop/store [build failed]`, with tabs that have become spaces.
fn parse_package(line: &str) -> Option<(TestOutcome, &str)> {
    let (outcome, rest) = match line.strip_prefix("ok      ") {
        Some(rest) => (TestOutcome::Passed, rest),
        None => (TestOutcome::Failed, line.strip_prefix("FAIL    ")?),
    };
    let (package, result) = rest.trim_start().split_once(' ')?;
    let result = result.trim();
    let took = result.split(' ').next().and_then(|word| word.strip_suffix('s'));
    let is_result = took.is_some_and(|took| took.parse::<f64>().is_ok())
        || result.starts_with("(cached)")
        || matches!(result, "[build failed]" | "[setup failed]");
    (is_result && !result.ends_with("[no tests to run]")).then_some((outcome, package))
}
