//! Names the tests of Python's unittest: `tests.test_cart.CartCase.test_adds`. With `-v` all of them are listed,
//! without it only failures have names.

use super::NameCollector;
use ralph_core::gate::TestCounts;
use ralph_core::test_cases::TestOutcome;

/// The class of a test that stands for a module that cannot be imported.
const FAILED_IMPORT: &str = "unittest.loader._FailedTest";

#[derive(Debug, Default)]
pub(super) struct UnittestNames {
    current: Option<UnittestCase>,
    /// After the first ruler, where the details of failures follow.
    is_in_details: bool,
    /// The previous line was a ruler of `=`.
    was_ruler: bool,
}

/// A test whose result is not known yet.
#[derive(Debug)]
struct UnittestCase {
    name: String,
    /// The last line that is a result. The test's own output may come before it.
    status: Option<UnittestStatus>,
    /// `setUpClass` and `setUpModule` are not counted as tests.
    is_fixture: bool,
    /// Whether its failure stands for other tests.
    is_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnittestStatus {
    Ok,
    Failed,
    Skipped,
    ExpectedFailure,
}

impl UnittestNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let was_ruler = std::mem::replace(&mut self.was_ruler, is_ruler(line, '='));
        if self.was_ruler || is_ruler(line, '-') {
            self.close_case(names);
            self.is_in_details = true;
            return;
        }
        if self.is_in_details {
            if line.starts_with("Ran ") {
                self.is_in_details = false;
            } else if was_ruler
                && let Some(title) = failure_title(line)
                && let Some((test, _)) = parse_case(title)
            {
                if is_group(title) {
                    names.add_failed_group(&[&test]);
                } else {
                    names.add_name(TestOutcome::Failed, &[&test]);
                }
            }
            return;
        }
        if let Some(subtest) = line.strip_prefix("  ") {
            self.read_subtest(subtest);
        } else if let Some((name, rest)) = parse_case(line)
            && (rest.is_empty() || rest.starts_with("... "))
        {
            self.close_case(names);
            let status = rest.strip_prefix("... ").and_then(parse_status);
            let (is_fixture, is_group) = (is_fixture(line), is_group(line));
            self.current = Some(UnittestCase { name, status, is_fixture, is_group });
        } else if let Some(current) = &mut self.current {
            // A result after the first line of the test's description, or after its output.
            let result = line.rsplit_once(" ... ").map_or(line, |(_, result)| result);
            if let Some(status) = parse_status(result) {
                current.status = Some(status);
            }
        }
    }

    pub(super) fn finish(mut self, names: &mut NameCollector<'_>) {
        self.close_case(names);
    }

    /// `  test_sub (unit.CartCase.test_sub) [odd] (i=1) ... FAIL`: its test has failed, once.
    fn read_subtest(&mut self, line: &str) {
        let Some(current) = &mut self.current else { return };
        let status = line.rsplit_once(" ... ").and_then(|(_, status)| parse_status(status));
        if let (Some((name, _)), Some(UnittestStatus::Failed)) = (parse_case(line), status)
            && name == current.name
        {
            current.status = Some(UnittestStatus::Failed);
        }
    }

    fn close_case(&mut self, names: &mut NameCollector<'_>) {
        let Some(UnittestCase { name, status, is_fixture, is_group }) = self.current.take() else {
            return;
        };
        let outcome = match status {
            Some(UnittestStatus::Ok) => TestOutcome::Passed,
            Some(UnittestStatus::Failed) => TestOutcome::Failed,
            Some(UnittestStatus::Skipped | UnittestStatus::ExpectedFailure) => TestOutcome::Skipped,
            None => {
                names.mark_incomplete();
                return;
            }
        };
        if outcome == TestOutcome::Failed && is_group {
            names.add_failed_group(&[&name]);
        } else {
            names.add_name(outcome, &[&name]);
        }
        let is_run = !is_fixture && status != Some(UnittestStatus::Skipped);
        names.count(TestCounts {
            run: u32::from(is_run),
            failed: u32::from(outcome == TestOutcome::Failed),
            skipped: u32::from(status == Some(UnittestStatus::Skipped)),
        });
    }
}

fn is_fixture(line: &str) -> bool {
    ["setUpClass (", "setUpModule (", "tearDownClass (", "tearDownModule ("]
        .iter()
        .any(|start| line.starts_with(start))
}

/// A fixture of several tests, or a module that cannot be imported.
fn is_group(line: &str) -> bool {
    is_fixture(line) || line.contains(&format!(" ({FAILED_IMPORT}"))
}

fn is_ruler(line: &str, char: char) -> bool {
    line.len() >= 70 && line.chars().all(|each| each == char)
}

fn failure_title(line: &str) -> Option<&str> {
    ["FAIL: ", "ERROR: ", "UNEXPECTED SUCCESS: "].iter().find_map(|kind| line.strip_prefix(kind))
}

/// The full name in `test_adds (tests.test_cart.CartCase.test_adds) ... ok`, and the rest of the line. Before Python
/// 3.11, the name in parentheses is that of the class only.
fn parse_case(line: &str) -> Option<(String, &str)> {
    let (test, rest) = line.split_once(" (")?;
    let (full, rest) = rest.split_once(')')?;
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.'))
    };
    if !is_name(test) || !is_name(full) {
        return None;
    }
    // A module that cannot be imported is reported as a test of this class.
    let full = full
        .strip_prefix(FAILED_IMPORT)
        .and_then(|module| module.strip_prefix('.'))
        .unwrap_or(full);
    let has_test = full == test || full.strip_suffix(test).is_some_and(|head| head.ends_with('.'));
    let name = if full == FAILED_IMPORT {
        test.to_owned()
    } else if has_test {
        full.to_owned()
    } else {
        format!("{full}.{test}")
    };
    Some((name, rest.trim_start()))
}

fn parse_status(word: &str) -> Option<UnittestStatus> {
    Some(match word {
        "ok" => UnittestStatus::Ok,
        "FAIL" | "ERROR" | "unexpected success" => UnittestStatus::Failed,
        "expected failure" => UnittestStatus::ExpectedFailure,
        _ if word.starts_with("skipped ") => UnittestStatus::Skipped,
        _ => return None,
    })
}
