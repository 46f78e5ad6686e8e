//! Counts tests from the summary lines of common test runners. A runner that finds no tests often exits with 0, so
//! messages such as "no tests" are recognised too.

use super::failed_subtests::FailedSubtests;
use super::test_names::nextest_names;
use super::unfinished_tests::UnfinishedTests;
use super::{
    NO_SUMMARY_AT_END, NO_TESTS_FOUND, OutputExtent, UNFINISHED_TESTS, clean_lines,
    doubt_about_tests,
};
use ralph_core::gate::TestCounts;

#[derive(Debug, Default)]
pub(super) struct TestCounter {
    summaries: SummaryTotals,
    /// The summaries since nextest started, until its own summary. It prints the output of failed tests, which contains
    /// a summary of each. They count if nextest's summary does not account for their failures: then another runner
    /// printed them.
    inside_nextest: Option<SummaryTotals>,
    unfinished: UnfinishedTests,
    subtests: FailedSubtests,
}

#[derive(Clone, Copy, Debug, Default)]
struct SummaryTotals {
    tests: TestCounts,
    has_counts: bool,
    /// A runner reported that there was nothing to run.
    found_no_tests: bool,
    /// A runner reported that something ran, without a number.
    ran_uncounted: bool,
    /// uvu: `Total:     6`. The next line has the number that passed.
    uvu_total: Option<u32>,
}

/// How runners report that they found no tests, at the start of a line. Compared without case.
const NO_TESTS_PHRASES: [&str; 12] = [
    "no tests ran",
    "no test files found",
    "no tests found",
    "no tests to run",
    "no test suites found",
    "no test suites",
    "no tests were found",
    "no tests were executed",
    "no tests executed",
    "no tests matched",
    "no test is available",
    "no test modules found",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum TestCountKind {
    Passed,
    Failed,
    Skipped,
    /// Anything else: warnings, reruns, assertions.
    Other,
}

impl TestCounter {
    pub(super) fn read_line(&mut self, line: &str) {
        self.unfinished.read_line(line);
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if nextest_names::is_start(line) {
            self.inside_nextest.get_or_insert_default();
        } else if nextest_names::is_end(line)
            && let Some(inside) = self.inside_nextest.take()
            && inside.tests.failed > 0
            && parse_summary(line).is_none_or(|tests| tests.failed == 0)
        {
            self.summaries.merge(inside);
        }
        self.subtests.read_line(line);
        if self.subtests.has_any()
            && let Some(tests) = parse_pytest(line)
        {
            self.summaries.add_counts(self.subtests.without_subtests(tests));
            return;
        }
        self.inside_nextest.as_mut().unwrap_or(&mut self.summaries).read_line(line);
        if line.starts_with("FAILED (") {
            let repeats = std::mem::take(&mut self.subtests).unittest_repeats();
            self.summaries.tests.failed = self.summaries.tests.failed.saturating_sub(repeats);
        }
    }

    pub(super) fn add_counts(&mut self, tests: TestCounts) {
        self.summaries.add_counts(tests);
    }

    pub(super) fn counts(&self) -> Option<TestCounts> {
        let totals = self.totals();
        totals.has_counts.then_some(totals.tests)
    }

    pub(super) fn doubt(&self, extent: OutputExtent<'_>) -> Option<&'static str> {
        let totals = self.totals();
        match extent {
            OutputExtent::Truncated { end } => {
                if (self.unfinished.is_unfinished() || totals.is_about_tests())
                    && !Self::of_text(end).is_finished()
                {
                    return Some(NO_SUMMARY_AT_END);
                }
            }
            OutputExtent::Complete => {
                if self.unfinished.is_unfinished() {
                    return Some(UNFINISHED_TESTS);
                }
            }
        }
        if totals.has_counts {
            doubt_about_tests(totals.tests).filter(|_| !totals.ran_uncounted)
        } else {
            (totals.found_no_tests && !totals.ran_uncounted).then_some(NO_TESTS_FOUND)
        }
    }

    fn of_text(text: &str) -> Self {
        let mut counter = Self::default();
        clean_lines(text).for_each(|line| counter.read_line(&line));
        counter
    }

    /// Whether a runner reported its results, and none is missing.
    fn is_finished(&self) -> bool {
        let totals = self.totals();
        (totals.has_counts || totals.ran_uncounted) && !self.unfinished.is_unfinished()
    }

    fn totals(&self) -> SummaryTotals {
        let mut totals = self.summaries;
        if let Some(inside) = self.inside_nextest {
            totals.merge(inside);
        }
        totals
    }
}

impl SummaryTotals {
    fn read_line(&mut self, line: &str) {
        if let Some(tests) = parse_summary(line) {
            self.add_counts(tests);
        } else if let Some(rest) = line.strip_prefix("Ran ") {
            self.read_unittest_total(rest);
        } else if let Some(rest) =
            line.strip_prefix("FAILED (").or_else(|| line.strip_prefix("OK ("))
        {
            self.read_unittest_results(rest);
        } else if is_no_tests_message(line) {
            self.found_no_tests = true;
        } else if !self.read_uvu_line(line) {
            self.read_go_line(line);
        }
    }

    fn add_counts(&mut self, tests: TestCounts) {
        self.has_counts = true;
        self.tests.run = self.tests.run.saturating_add(tests.run);
        self.tests.failed = self.tests.failed.saturating_add(tests.failed);
        self.tests.skipped = self.tests.skipped.saturating_add(tests.skipped);
    }

    fn merge(&mut self, other: Self) {
        let has_counts = self.has_counts || other.has_counts;
        self.add_counts(other.tests);
        self.has_counts = has_counts;
        self.found_no_tests |= other.found_no_tests;
        self.ran_uncounted |= other.ran_uncounted;
    }

    fn is_about_tests(&self) -> bool {
        self.has_counts || self.found_no_tests || self.ran_uncounted
    }

    /// unittest: `Ran 3 tests in 0.001s`. The next line has the results.
    fn read_unittest_total(&mut self, rest: &str) {
        let mut words = rest.split_whitespace();
        let number = words.next().and_then(|number| number.parse().ok());
        let is_unittest =
            matches!(words.next(), Some("test" | "tests")) && words.next() == Some("in");
        if let (Some(run), true) = (number, is_unittest) {
            self.add_counts(TestCounts { run, ..TestCounts::default() });
        }
    }

    /// unittest: `FAILED (failures=1, errors=1, skipped=1)` after `Ran 3 tests`.
    fn read_unittest_results(&mut self, rest: &str) {
        for part in rest.trim_end_matches(')').split(',') {
            let Some((key, number)) = part.trim().split_once('=') else {
                continue;
            };
            let number: u32 = number.parse().unwrap_or_default();
            match count_kind(key) {
                TestCountKind::Failed => {
                    self.has_counts |= number > 0;
                    self.tests.failed = self.tests.failed.saturating_add(number);
                }
                TestCountKind::Skipped => {
                    self.tests.run = self.tests.run.saturating_sub(number);
                    self.tests.skipped = self.tests.skipped.saturating_add(number);
                }
                TestCountKind::Passed | TestCountKind::Other => {}
            }
        }
    }

    /// uvu: `Total:     6`, `Passed:    3`, `Skipped:   1`, each on a line of its own. Skipped tests are not in the total.
    fn read_uvu_line(&mut self, line: &str) -> bool {
        let Some((key, number)) = line.split_once(": ") else { return false };
        let number = number.trim_start().parse::<u32>().ok();
        match (key, number, self.uvu_total) {
            ("Total", Some(total), _) => self.uvu_total = Some(total),
            ("Passed", Some(passed), Some(run)) => {
                let failed = run.saturating_sub(passed);
                self.add_counts(TestCounts { run, failed, skipped: 0 });
            }
            ("Skipped", Some(skipped), Some(_)) => {
                self.uvu_total = None;
                self.add_counts(TestCounts { skipped, ..TestCounts::default() });
            }
            _ => return false,
        }
        true
    }

    /// go without `-json` prints packages, not numbers.
    fn read_go_line(&mut self, line: &str) {
        if line.ends_with("[no test files]") || line.ends_with("[no tests to run]") {
            self.found_no_tests = true;
        } else if line.strip_prefix("ok").is_some_and(|rest| rest.starts_with([' ', '\t']))
            && line.ends_with('s')
        {
            let mut words = line.split_whitespace().skip(1);
            let is_package = words.next().is_some_and(|word| word.contains('/'));
            let took = words.next().is_some_and(|word| {
                word.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok())
            });
            self.ran_uncounted |= is_package && took;
        }
    }
}

fn is_no_tests_message(line: &str) -> bool {
    let begins = |line: &str, phrase: &str| {
        line.get(..phrase.len()).is_some_and(|head| head.eq_ignore_ascii_case(phrase))
    };
    let mut line = line.trim_start_matches(['=', ' ', '❯']);
    for label in ["error: ", "warning: ", "[info] ", "[warn] ", "[error] "] {
        if begins(line, label) {
            line = line.get(label.len()..).unwrap_or_default();
        }
    }
    NO_TESTS_PHRASES.iter().any(|phrase| begins(line, phrase))
        || line.strip_prefix("collected 0 items").is_some_and(|rest| !rest.contains("error"))
}

pub(super) fn parse_summary(line: &str) -> Option<TestCounts> {
    if let Some(rest) = line.strip_prefix("test result: ") {
        return Some(sum_counts(number_word_pairs(rest)));
    }
    if let Some(rest) = line.strip_prefix("Tests:") {
        return if rest.trim_end().ends_with("total") {
            Some(sum_counts(number_word_pairs(rest)))
        } else {
            counts_by_total(key_number_pairs(line), "tests")
        };
    }
    if let Some(tests) = line.strip_prefix("Tests ").and_then(parse_vitest) {
        return Some(tests);
    }
    if let Some((head, rest)) = line.split_once("run:")
        && head.starts_with("Summary [")
    {
        return Some(sum_counts(number_word_pairs(rest)));
    }
    let unlabelled = ["[INFO] ", "[ERROR] ", "[WARNING] ", "[WARN] "]
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix))
        .unwrap_or(line);
    if unlabelled.starts_with("Tests run:") {
        // The line of a single class is included in the total at the end.
        return if unlabelled.contains("Time elapsed") {
            None
        } else {
            counts_by_total(key_number_pairs(unlabelled), "tests run")
        };
    }
    if let Some((_, rest)) = line.split_once("!  - ") {
        return counts_by_total(key_number_pairs(rest), "total");
    }
    if let Some(rest) = line.strip_prefix("OK (") {
        return counts_by_total(number_word_pairs(rest), "tests")
            .or_else(|| counts_by_total(number_word_pairs(rest), "test"));
    }
    if let Some(rest) = line.strip_prefix("ok | ").or_else(|| line.strip_prefix("FAILED | ")) {
        return Some(sum_counts(number_word_pairs(rest)));
    }
    if let Some((_, total)) = line.split_once("tests failed out of ") {
        let failed = number_word_pairs(line)
            .find(|(_, word)| *word == "tests")
            .map_or(0, |(number, _)| number);
        return total.trim().parse().ok().map(|run| TestCounts { run, failed, skipped: 0 });
    }
    parse_node(line)
        .or_else(|| parse_pytest(line))
        .or_else(|| parse_single_count(line))
        .or_else(|| parse_count_list(line))
}

/// `Tests  2 failed | 1 passed | 1 skipped | 1 todo (5)`
fn parse_vitest(rest: &str) -> Option<TestCounts> {
    let rest = rest.trim();
    if rest == "no tests" {
        return Some(TestCounts::default());
    }
    let (counts, total) = rest.rsplit_once(" (")?;
    let total = total.strip_suffix(')')?;
    total.parse::<u32>().ok()?;
    Some(sum_counts(number_word_pairs(counts)))
}

/// `ℹ pass 1`, `# fail 2`
fn parse_node(line: &str) -> Option<TestCounts> {
    let rest = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# "))?;
    let (key, number) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    match key {
        "pass" => Some(TestCounts { run: number, ..TestCounts::default() }),
        "fail" | "cancelled" => Some(TestCounts { run: number, failed: number, skipped: 0 }),
        "skipped" | "todo" => Some(TestCounts { skipped: number, ..TestCounts::default() }),
        _ => None,
    }
}

/// `===== 2 failed, 2 passed, 1 skipped in 0.05s =====`, with or without the frame.
fn parse_pytest(line: &str) -> Option<TestCounts> {
    let line = line.trim_matches(['=', ' ']);
    let (counts, took) = line.rsplit_once(" in ")?;
    let seconds = took.split('s').next()?;
    seconds.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(TestCounts::default());
    }
    let mut tests = TestCounts::default();
    for part in counts.split(", ") {
        let (number, word) = part.split_once(' ')?;
        let number: u32 = number.parse().ok()?;
        match word {
            "passed" | "xpassed" => tests.run = tests.run.saturating_add(number),
            "failed" | "error" | "errors" => {
                tests.run = tests.run.saturating_add(number);
                tests.failed = tests.failed.saturating_add(number);
            }
            "skipped" | "xfailed" => tests.skipped = tests.skipped.saturating_add(number),
            "deselected" | "warning" | "warnings" | "rerun" | "subtests passed" => {}
            _ => return None,
        }
    }
    Some(tests)
}

/// mocha, bun and playwright put each number on a line of its own: `2 passing (3ms)`.
fn parse_single_count(line: &str) -> Option<TestCounts> {
    let (number, rest) = line.split_once(' ')?;
    let number: u32 = number.parse().ok()?;
    let word = match rest.split_once(" (") {
        Some((word, took)) => {
            took.strip_suffix(')')?;
            word
        }
        None => rest,
    };
    match word {
        "passing" | "passed" | "pass" => Some(TestCounts { run: number, ..TestCounts::default() }),
        "failing" | "failed" | "fail" => {
            Some(TestCounts { run: number, failed: number, skipped: 0 })
        }
        "pending" | "skipped" | "skip" => {
            Some(TestCounts { skipped: number, ..TestCounts::default() })
        }
        _ => None,
    }
}

/// rspec, minitest, exunit, gradle: `3 examples, 1 failure, 1 pending`.
fn parse_count_list(line: &str) -> Option<TestCounts> {
    const TOTALS: [&str; 7] =
        ["examples", "example", "runs", "run", "tests", "test", "tests completed"];
    let line = line.trim_end_matches('.');
    let parts = || line.split(", ").filter_map(|part| part.split_once(' '));
    if line.split(", ").count() < 2 || parts().any(|(number, _)| number.parse::<u32>().is_err()) {
        return None;
    }
    let total = TOTALS.iter().find(|total| parts().any(|(_, word)| word == **total))?;
    let has_failures = parts().any(|(_, word)| count_kind(word) == TestCountKind::Failed);
    let counts = parts().filter_map(|(number, word)| Some((number.parse().ok()?, word)));
    has_failures.then(|| counts_by_total(counts, total)).flatten()
}

fn count_kind(word: &str) -> TestCountKind {
    match word.to_ascii_lowercase().as_str() {
        "passed" | "pass" | "passing" | "succeeded" | "ok" => TestCountKind::Passed,
        "failed"
        | "failure"
        | "failures"
        | "fail"
        | "failing"
        | "error"
        | "errors"
        | "unexpected successes" => TestCountKind::Failed,
        "skipped" | "skip" | "skips" | "ignored" | "pending" | "todo" | "incomplete" => {
            TestCountKind::Skipped
        }
        _ => TestCountKind::Other,
    }
}

pub(super) fn sum_counts<'a>(counts: impl Iterator<Item = (u32, &'a str)>) -> TestCounts {
    let mut tests = TestCounts::default();
    for (number, word) in counts {
        match count_kind(word) {
            TestCountKind::Passed => tests.run = tests.run.saturating_add(number),
            TestCountKind::Failed => {
                tests.run = tests.run.saturating_add(number);
                tests.failed = tests.failed.saturating_add(number);
            }
            TestCountKind::Skipped => tests.skipped = tests.skipped.saturating_add(number),
            TestCountKind::Other => {}
        }
    }
    tests
}

/// For runners that print the total instead of the passed tests. Returns `None` without a total.
fn counts_by_total<'a>(
    counts: impl Iterator<Item = (u32, &'a str)>,
    total: &str,
) -> Option<TestCounts> {
    let mut all = None;
    let mut tests = TestCounts::default();
    for (number, word) in counts {
        match count_kind(word) {
            TestCountKind::Failed => tests.failed = tests.failed.saturating_add(number),
            TestCountKind::Skipped => tests.skipped = tests.skipped.saturating_add(number),
            TestCountKind::Passed => {}
            TestCountKind::Other => {
                if word.eq_ignore_ascii_case(total) {
                    all = Some(number);
                }
            }
        }
    }
    tests.run = all?.saturating_sub(tests.skipped);
    Some(tests)
}

/// The pairs in `2 failed, 1 passed`, with any separators.
pub(super) fn number_word_pairs(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let words = || text.split([' ', ',', ';', '|', '(', ')']).filter(|word| !word.is_empty());
    words().zip(words().skip(1)).filter_map(|(number, word)| Some((number.parse().ok()?, word)))
}

/// The pairs in `Failed:     1, Passed:     2`.
fn key_number_pairs(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.trim_end_matches('.').split(',').filter_map(|part| {
        let (key, number) = part.split_once(':')?;
        Some((number.trim().parse().ok()?, key.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNER_OUTPUTS: &[(&str, &str)] = &[
        (
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out\n\
                 test result: FAILED. 1 passed; 2 failed; 0 ignored",
            "6 run, 2 failed, 1 skipped; no doubt",
        ),
        (
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored",
            "0 run, 0 failed, 0 skipped; no tests ran",
        ),
        (
            "Tests:       2 failed, 1 skipped, 1 passed, 4 total",
            "3 run, 2 failed, 1 skipped; no doubt",
        ),
        ("      Tests  2 failed | 1 passed | 1 todo (4)", "3 run, 2 failed, 1 skipped; no doubt"),
        ("      Tests  no tests", "0 run, 0 failed, 0 skipped; no tests ran"),
        ("Tests are green (5 of 5)", "-; no doubt"),
        ("=== 1 failed, 2 passed, 3 warnings in 0.05s ===", "3 run, 1 failed, 0 skipped; no doubt"),
        ("5 passed in 62.10s (0:01:02)", "5 run, 0 failed, 0 skipped; no doubt"),
        ("==== 3 skipped in 0.01s ====", "0 run, 0 failed, 3 skipped; every test was skipped"),
        ("==== no tests ran in 0.01s ====", "0 run, 0 failed, 0 skipped; no tests ran"),
        ("deployed 5 machines in 3s", "-; no doubt"),
        ("  2 passing (3ms)\n  1 pending\n  1 failing", "3 run, 1 failed, 1 skipped; no doubt"),
        ("  0 passing (1ms)", "0 run, 0 failed, 0 skipped; no tests ran"),
        (
            "ℹ tests 3\nℹ pass 1\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0",
            "2 run, 1 failed, 1 skipped; no doubt",
        ),
        (
            "Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)",
            "2 run, 2 failed, 1 skipped; no doubt",
        ),
        ("Ran 0 tests in 0.000s\n\nOK", "0 run, 0 failed, 0 skipped; no tests ran"),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", "0 run, 0 failed, 0 skipped; no tests ran"),
        (
            "     Summary [   0.2s] 5 tests run: 3 passed (1 slow), 2 failed, 1 skipped",
            "5 run, 2 failed, 1 skipped; no doubt",
        ),
        (
            "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in a.B\n\
                 [ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1",
            "4 run, 2 failed, 1 skipped; no doubt",
        ),
        (
            "Tests run: 0, Failures: 0, Errors: 0, Skipped: 0",
            "0 run, 0 failed, 0 skipped; no tests ran",
        ),
        ("3 examples, 1 failure, 1 pending", "2 run, 1 failed, 1 skipped; no doubt"),
        (
            "5 runs, 9 assertions, 1 failures, 0 errors, 0 skips",
            "5 run, 1 failed, 0 skipped; no doubt",
        ),
        ("1 doctest, 3 tests, 0 failures", "3 run, 0 failed, 0 skipped; no doubt"),
        ("5 tests completed, 1 failed", "5 run, 1 failed, 0 skipped; no doubt"),
        (
            "Failed!  - Failed:     1, Passed:     2, Skipped:     1, Total:     4, Duration: 3 ms",
            "3 run, 1 failed, 1 skipped; no doubt",
        ),
        ("OK (3 tests, 5 assertions)", "3 run, 0 failed, 0 skipped; no doubt"),
        ("Tests: 3, Assertions: 5, Failures: 1.", "3 run, 1 failed, 0 skipped; no doubt"),
        ("ok | 3 passed | 0 failed (5ms)", "3 run, 0 failed, 0 skipped; no doubt"),
        ("80% tests passed, 1 tests failed out of 5", "5 run, 1 failed, 0 skipped; no doubt"),
        // A summary of nextest includes those of its tests, but not those of other runners.
        (
            "Starting 2 tests across 1 binary\n  test result: FAILED. 0 passed; 1 failed\n\
                 Summary [   0.2s] 2 tests run: 1 passed, 1 failed, 0 skipped",
            "2 run, 1 failed, 0 skipped; no doubt",
        ),
        (
            "Starting 3 tests across 1 x\n1 failed, 2 passed in 1s",
            "3 run, 1 failed, 0 skipped; tests started, but no result was reported",
        ),
        (
            "Starting 3 tests across 1 x\n1 failed, 2 passed in 1s\n\
                 Summary [   0.2s] 3 tests run: 3 passed, 0 skipped",
            "6 run, 1 failed, 0 skipped; no doubt",
        ),
        (
            "Ran 2 tests in 0.1s\nStarting 1 test across 1 x\nFAILED (failures=1)\n\
                 Summary [   0.2s] 1 test run: 1 passed, 0 skipped",
            "3 run, 1 failed, 0 skipped; no doubt",
        ),
        (
            "Starting 1 test across 1 x\n1 failing\nStarting 1 test across 1 x\n\
                 Summary [   0.2s] 1 test run: 1 passed, 0 skipped",
            "2 run, 1 failed, 0 skipped; tests started, but no result was reported",
        ),
        ("FAILED (failures=1)", "0 run, 1 failed, 0 skipped; no doubt"),
        ("?   \tacme/shop\t[no test files]", "-; no tests were found"),
        ("?   \tacme/shop\t[no test files]\nok  \tacme/shop/cart\t0.01s", "-; no doubt"),
        ("ok  \tacme/shop\t0.01s [no tests to run]", "-; no tests were found"),
        ("No test files found, exiting with code 0", "-; no tests were found"),
        ("No tests found, exiting with code 1", "-; no tests were found"),
        ("error: no tests to run", "-; no tests were found"),
        ("collected 0 items", "-; no tests were found"),
        ("collected 0 items / 1 error", "-; no doubt"),
        ("collected 3 items", "-; tests started, but no result was reported"),
        ("no test suites found", "-; no tests were found"),
        ("all fine", "-; no doubt"),
    ];

    fn format_counts(output: &str) -> String {
        let tally = TestCounter::of_text(output);
        let tests = tally.counts().map_or("-".into(), |TestCounts { run, failed, skipped }| {
            format!("{run} run, {failed} failed, {skipped} skipped")
        });
        format!("{tests}; {}", tally.doubt(OutputExtent::Complete).unwrap_or("no doubt"))
    }

    /// R-L3f: summaries of runners, and their messages that there was nothing to run.
    #[test]
    fn summaries_of_runners_are_counted() {
        for (output, expected) in RUNNER_OUTPUTS {
            assert_eq!(format_counts(output), *expected, "{output}");
        }
    }

    /// R-L3f: tests that started and did not finish are not a pass, whatever the exit code.
    #[test]
    fn an_interrupted_test_run_is_detected() {
        for (output, is_broken) in [
            ("running 2 tests\n", true),
            ("running 2 tests\ntest a ... ok\n", true),
            ("running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed", false),
            (
                "running 2 tests\n\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed",
                true,
            ),
            ("running 3 tests from ./cart_test.ts", false),
            ("    Starting 3 tests across 2 binaries\n", true),
            ("Starting 1 test across 1 binary\nSummary [   0.2s] 1 test run: 1 passed", false),
            ("Starting 3 servers across 2 regions\n", false),
            ("running 5 migrations", false),
            ("=== test session starts ===\ncollected 5 items\n\ntests/test_a.py ..", true),
            ("=== test session starts ===\ncollecting ... collected 5 items\n", true),
            ("collected 5 items / 2 deselected / 3 selected\n", true),
            ("=== test session starts ===\n4 workers [5 items]\n....", true),
            ("=== test session starts ===\ncollected 5 items\n\n=== 5 passed in 0.05s ===", false),
            (
                "=== test session starts ===\ncollected 5 items\n=== 4 passed, 1 quarantined in 0.05s ===",
                false,
            ),
            (
                "=== test session starts ===\ncollected 5 items\n=== 5 tests collected in 0.05s ===",
                false,
            ),
            ("garbage collected 5 items", false),
            ("1..5\nok 1 - a\nok 2 - b\n", true),
            ("TAP version 14\n1..2\n", true),
            ("1..2\nok 1 - a\nnot ok 2 - b # TODO\n", false),
            ("ok 1 - a\n    1..9\n    ok 1\n1..1\n", false),
            ("1..0 # SKIP nothing here\n", false),
            ("1..5 apples", false),
            (
                "test_a (tests.test_a.Case.test_a) ... ok\ntest_b (tests.test_a.Case.test_b) ...",
                true,
            ),
            (
                "test_a (tests.test_a.Case.test_a) ... ok\n\n-----\nRan 1 test in 0.001s\n\nOK",
                false,
            ),
            (
                "test_a (a.B) ... ok\n  Ran 1 tests with 0 failures, 0 errors in 0.001 seconds.",
                false,
            ),
            ("PASS src/a.test.ts (1.2 s)\n", true),
            ("  ●  process.exit called with \"0\"\n", true),
            ("PASS src/a.test.ts\n\nTests:       1 passed, 1 total", false),
            ("PASS: a.sh\nPASS\nPASS build/a.js", false),
            (" RUN  v3.2.4 /project\n\n ✓ a.test.ts (1 test)\n", true),
            (" RUN  v3.2.4 /project\n\n      Tests  1 passed (1)\n", false),
            (" RUN  v3.2.4 /project\n\nNo test files found, exiting with code 0", false),
        ] {
            let counted = format_counts(output);
            assert_eq!(counted.ends_with(UNFINISHED_TESTS), is_broken, "{output}: {counted}");
        }
    }

    /// The runner's summary is at the end of its output. Those before may be missing in the part that was left out, and
    /// tests may have printed one at the start.
    #[test]
    fn a_truncated_output_needs_a_summary_at_its_end() {
        const PASSED: &str = "test result: ok. 1 passed; 0 failed\n";
        for (start, end, expected) in [
            ("running 1 test\nrunning 1 test\n", PASSED, None),
            ("running 1 test\n", "", Some(NO_SUMMARY_AT_END)),
            ("running 1 test\n", "all fine", Some(NO_SUMMARY_AT_END)),
            (PASSED, "", Some(NO_SUMMARY_AT_END)),
            (PASSED, "test a ... ok\n", Some(NO_SUMMARY_AT_END)),
            (
                PASSED,
                "test result: ok. 1 passed; 0 failed\nrunning 1 test\n",
                Some(NO_SUMMARY_AT_END),
            ),
            ("no tests found\n", "", Some(NO_SUMMARY_AT_END)),
            ("ok  \tacme/shop\t0.01s\n", "", Some(NO_SUMMARY_AT_END)),
            ("ok  \tacme/shop\t0.01s\n", "ok  \tacme/shop/cart\t0.01s\n", None),
            (PASSED, "running 0 tests\ntest result: ok. 0 passed; 0 failed", None),
            ("", "running 0 tests\ntest result: ok. 0 passed; 0 failed", Some("no tests ran")),
            ("src/a.py:1:1: error", "src/b.py:1:1: error", None),
        ] {
            let tally = TestCounter::of_text(&format!("{start}{end}"));
            assert_eq!(tally.doubt(OutputExtent::Truncated { end }), expected, "{start}…{end}");
        }
    }
}
