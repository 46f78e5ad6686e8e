//! Detects test runs that started and never reported a result. A test that exits its whole process with code 0 prevents
//! the results of all other tests, although the exit code indicates success.

use super::test_names::nextest_names;

/// Per runner, the number of announced test runs minus the number of summaries. A positive number at the end means that
/// a run was interrupted.
#[derive(Debug, Default)]
pub(super) struct UnfinishedTests {
    libtest: u32,
    nextest: u32,
    pytest: u32,
    unittest: u32,
    jest: u32,
    vitest: u32,
    /// TAP: the tests of all plans, and the test points found.
    planned: u32,
    points: u32,
}

impl UnfinishedTests {
    /// Takes a line as printed, because only unindented TAP counts.
    pub(super) fn read_line(&mut self, line: &str) {
        self.read_tap_line(line);
        let line = line.trim();
        if is_libtest_start(line) {
            increment(&mut self.libtest);
        } else if line.starts_with("test result: ") {
            decrement(&mut self.libtest);
        } else if nextest_names::is_start(line) {
            increment(&mut self.nextest);
        } else if nextest_names::is_end(line) {
            decrement(&mut self.nextest);
        } else if line.starts_with('=') && line.trim_matches(['=', ' ']) == "test session starts" {
            increment(&mut self.pytest);
        } else if is_pytest_collection(line) {
            self.pytest = self.pytest.max(1);
        } else if is_pytest_end(line) {
            decrement(&mut self.pytest);
        } else if is_unittest_start(line) {
            self.unittest = 1;
        } else if is_unittest_end(line) {
            self.unittest = 0;
        } else if is_jest_start(line) {
            self.jest = 1;
        } else if is_jest_end(line) {
            self.jest = 0;
        } else if is_vitest_start(line) {
            increment(&mut self.vitest);
        } else if is_vitest_end(line) {
            decrement(&mut self.vitest);
        }
    }

    pub(super) fn is_unfinished(&self) -> bool {
        let announced =
            [self.libtest, self.nextest, self.pytest, self.unittest, self.jest, self.vitest];
        announced.iter().any(|count| *count > 0) || self.points < self.planned
    }

    fn read_tap_line(&mut self, line: &str) {
        if let Some(plan) = line.strip_prefix("1..") {
            let (number, rest) = plan.split_once([' ', '#']).unwrap_or((plan, ""));
            if let (Ok(number), "" | "#") = (number.parse::<u32>(), rest.get(..1).unwrap_or("")) {
                self.planned = self.planned.saturating_add(number);
            }
        } else if line.starts_with("ok ") || line.starts_with("not ok ") {
            increment(&mut self.points);
        }
    }
}

fn increment(count: &mut u32) {
    *count = count.saturating_add(1);
}

fn decrement(count: &mut u32) {
    *count = count.saturating_sub(1);
}

fn is_number(word: &str) -> bool {
    word.parse::<u32>().is_ok()
}

/// `running 2 tests`
fn is_libtest_start(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(|rest| rest.split_once(' '))
        .is_some_and(|(number, noun)| is_number(number) && matches!(noun, "test" | "tests"))
}

/// `collecting ... collected 5 items / 1 deselected / 4 selected`. For no items, pytest prints a summary of its own.
fn is_pytest_collection(line: &str) -> bool {
    let line = line.strip_prefix("collecting ... ").unwrap_or(line);
    let Some((number, rest)) =
        line.strip_prefix("collected ").and_then(|rest| rest.split_once(' '))
    else {
        return false;
    };
    let noun = rest.split_once(" / ").map_or(rest, |(noun, _)| noun);
    number != "0" && is_number(number) && matches!(noun, "item" | "items")
}

/// `=== 2 failed, 3 whatever in 0.05s (0:00:01) ===`: plugins add words of their own.
fn is_pytest_end(line: &str) -> bool {
    let line = line.trim_matches(['=', ' ']);
    let Some((counts, took)) = line.rsplit_once(" in ") else {
        return false;
    };
    let took = took.split('s').next().unwrap_or_default();
    let counts_tests = counts.starts_with(|char: char| char.is_ascii_digit());
    took.parse::<f64>().is_ok() && (counts_tests || counts == "no tests ran")
}

/// `test_first (tests.test_cart.CartCase.test_first) ... ok`
fn is_unittest_start(line: &str) -> bool {
    let Some((test, rest)) = line.split_once(" (") else {
        return false;
    };
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    test.starts_with("test")
        && test.chars().all(is_name)
        && rest.split_once(')').is_some_and(|(case, rest)| {
            case.chars().all(|char| is_name(char) || char == '.') && rest.starts_with(" ...")
        })
}

/// `Ran 3 tests in 0.1s`, or `Ran 3 tests with 0 failures` from other runners of unittest tests.
fn is_unittest_end(line: &str) -> bool {
    line.strip_prefix("Ran ")
        .and_then(|rest| rest.split_once(" test"))
        .is_some_and(|(number, _)| is_number(number))
}

/// `PASS src/cart.test.ts (1.2 s)`, or jest's message when a test exits the process.
fn is_jest_start(line: &str) -> bool {
    if line.starts_with("●  process.exit called with ") {
        return true;
    }
    let file = line
        .strip_prefix("PASS ")
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_default();
    let is_script = ["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"]
        .iter()
        .any(|end| file.rsplit_once('.').is_some_and(|(_, own)| own == *end));
    is_script && [".test.", ".spec.", "__tests__/"].iter().any(|part| file.contains(part))
}

/// jest's `Tests:  5 passed, 5 total`, or the end of tap, which starts lines with `PASS` as well.
fn is_jest_end(line: &str) -> bool {
    ["Tests:", "Asserts:", "# { total:"].iter().any(|start| line.starts_with(start))
}

/// `RUN  v3.2.4 /project`
fn is_vitest_start(line: &str) -> bool {
    line.strip_prefix("RUN ")
        .and_then(|rest| rest.trim_start().strip_prefix('v'))
        .is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
}

/// `Tests  5 passed (5)`, or the message that there are none.
fn is_vitest_end(line: &str) -> bool {
    ["Tests ", "BENCH ", "No test files found", "No test suite found"]
        .iter()
        .any(|start| line.starts_with(start))
}
