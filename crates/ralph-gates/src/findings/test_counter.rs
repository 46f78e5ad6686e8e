//! Counts tests from the summary lines of common test runners. A runner that finds no tests often exits with 0, so
//! messages such as "no tests" are recognised too.

use super::test_names::nextest_names;
use super::unfinished_tests::UnfinishedTests;
use super::{OutputExtent, UNFINISHED_TESTS, doubt_about_tests};
use ralph_core::gate::TestCounts;

#[derive(Debug, Default)]
pub(super) struct TestCounter {
    tests: TestCounts,
    has_counts: bool,
    /// A runner reported that there was nothing to run.
    found_no_tests: bool,
    /// A runner reported that something ran, without a number.
    ran_uncounted: bool,
    unfinished: UnfinishedTests,
    context: SummaryContext,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SummaryContext {
    #[default]
    AnyRunner,
    /// nextest is running. It prints the output of failed tests, which contains a summary of each.
    Nextest,
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
        match self.context {
            SummaryContext::AnyRunner if nextest_names::is_start(line) => {
                self.context = SummaryContext::Nextest;
            }
            SummaryContext::Nextest if line.starts_with("Summary [") => {
                self.context = SummaryContext::AnyRunner;
            }
            SummaryContext::AnyRunner | SummaryContext::Nextest => {}
        }
        if line.is_empty() || self.context == SummaryContext::Nextest {
            return;
        }
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
        } else {
            self.read_go_line(line);
        }
    }

    pub(super) fn add_counts(&mut self, tests: TestCounts) {
        self.has_counts = true;
        self.tests.run = self.tests.run.saturating_add(tests.run);
        self.tests.failed = self.tests.failed.saturating_add(tests.failed);
        self.tests.skipped = self.tests.skipped.saturating_add(tests.skipped);
    }

    pub(super) fn counts(&self) -> Option<TestCounts> {
        self.has_counts.then_some(self.tests)
    }

    pub(super) fn doubt(&self, extent: OutputExtent) -> Option<&'static str> {
        // In a truncated output, one summary is enough: others may be in the part that was left out.
        let may_be_left_out = extent == OutputExtent::Truncated && self.has_counts;
        if self.unfinished.is_unfinished() && !may_be_left_out {
            Some(UNFINISHED_TESTS)
        } else if self.has_counts {
            doubt_about_tests(self.tests).filter(|_| !self.ran_uncounted)
        } else {
            (self.found_no_tests && !self.ran_uncounted).then_some("no tests were found")
        }
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
        let mut tally = TestCounter::default();
        output.lines().for_each(|line| tally.read_line(line));
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

    /// A summary is not doubted because of others that may be in the truncated part of the output.
    #[test]
    fn a_truncated_output_needs_only_one_summary() {
        for (output, expected) in [
            ("running 1 test\nrunning 1 test\ntest result: ok. 1 passed; 0 failed", None),
            ("running 1 test\n", Some(UNFINISHED_TESTS)),
        ] {
            let mut tally = TestCounter::default();
            output.lines().for_each(|line| tally.read_line(line));
            assert_eq!(tally.doubt(OutputExtent::Truncated), expected, "{output}");
        }
    }
}
