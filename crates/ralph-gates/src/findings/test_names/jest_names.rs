//! Names the tests of jest: `test/cart.test.js > cart > adds`. If jest does not list the tests, which it does with
//! `--verbose` or for a single file, the names are those of the files and of the failed tests.

use super::super::source_location;
use super::super::test_counter;
use super::{GroupPath, NameCollector, PART_SEPARATOR, leading_spaces, sum_of, without_duration};
use ralph_core::gate::TestCounts;
use ralph_core::test_cases::TestOutcome;

#[derive(Debug, Default)]
pub(super) struct JestNames {
    file: Option<JestFile>,
    path: GroupPath,
    /// The files so far, and how many of them failed.
    files: TestCounts,
    /// The tests listed in trees.
    listed: TestCounts,
    /// Files whose tests are not listed.
    unlisted_files: u32,
    /// The number of files according to jest.
    stated_files: TestCounts,
    /// The failures are printed a second time.
    is_repeating: bool,
}

#[derive(Debug)]
struct JestFile {
    name: String,
    outcome: TestOutcome,
    has_tests: bool,
    /// The tree comes directly after the name of the file.
    is_in_tree: bool,
    /// The file could not be loaded.
    is_broken: bool,
}

impl JestNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if line == "Summary of all failing tests" {
            self.close_file(names);
            self.is_repeating = true;
        } else if let Some(rest) = line.strip_prefix("Test Suites: ") {
            self.close_file(names);
            self.stated_files = test_counter::sum_counts(test_counter::number_word_pairs(rest));
        } else if line.starts_with("Tests: ") {
            self.close_run(line, names);
        } else if self.is_repeating {
        } else if let Some((outcome, name)) = parse_file(line) {
            self.close_file(names);
            self.file = Some(JestFile {
                name: name.to_owned(),
                outcome,
                has_tests: false,
                is_in_tree: true,
                is_broken: false,
            });
            self.path = GroupPath::default();
        } else {
            self.read_file_line(line, names);
        }
    }

    fn read_file_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let Some(file) = &mut self.file else { return };
        if let Some(title) = line.strip_prefix("  ● ") {
            file.is_in_tree = false;
            if title == "Test suite failed to run" {
                file.is_broken = true;
            } else if file.outcome == TestOutcome::Failed && title.contains(" › ") {
                let title = title.replace(" › ", PART_SEPARATOR);
                names.add_name(TestOutcome::Failed, &[&file.name, &title]);
            }
            return;
        }
        let spaces = leading_spaces(line);
        if !file.is_in_tree || spaces < 2 || line.trim().is_empty() {
            file.is_in_tree = false;
            return;
        }
        let depth = spaces / 2 - 1;
        let Some((outcome, test)) = parse_test(line.trim()) else {
            self.path.enter(depth, line.trim());
            return;
        };
        file.has_tests = true;
        let test = self.path.join(depth, test).replace(" › ", PART_SEPARATOR);
        self.listed = sum_of(self.listed, super::outcome_counts(outcome));
        names.add_name(outcome, &[&file.name, &test]);
    }

    fn close_file(&mut self, names: &mut NameCollector<'_>) {
        let Some(file) = self.file.take() else { return };
        self.files = sum_of(self.files, super::outcome_counts(file.outcome));
        if !file.has_tests && file.is_broken {
            names.add_failed_group(&[&file.name]);
        } else if !file.has_tests {
            names.add_name(file.outcome, &[&file.name]);
            self.unlisted_files += u32::from(!file.is_broken);
        }
    }

    /// `Tests:       1 failed, 8 passed, 9 total`
    fn close_run(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let done = std::mem::take(self);
        if done.files == TestCounts::default() {
            return;
        }
        let stated = test_counter::parse_summary(line).filter(|_| done.unlisted_files > 0);
        names.count(stated.unwrap_or(done.listed));
        names.compare_files(done.files, done.stated_files);
    }
}

/// `PASS test/cart.test.js (5.1 s)`, with the name of the project before the file if there are several.
fn parse_file(line: &str) -> Option<(TestOutcome, &str)> {
    let (outcome, rest) = match line.strip_prefix("PASS ") {
        Some(rest) => (TestOutcome::Passed, rest),
        None => (TestOutcome::Failed, line.strip_prefix("FAIL ")?),
    };
    let name = without_duration(rest.trim());
    let file = name.rsplit(' ').next()?;
    // Four spaces are the tab of `go test`.
    (!rest.starts_with("   ") && source_location::is_source_file(file)).then_some((outcome, name))
}

fn parse_test(line: &str) -> Option<(TestOutcome, &str)> {
    let (mark, name) = line.split_once(' ')?;
    let (outcome, name) = match mark {
        "✓" | "√" => (TestOutcome::Passed, name),
        "✕" | "×" => (TestOutcome::Failed, name),
        "○" => (TestOutcome::Skipped, name.strip_prefix("skipped ").unwrap_or(name)),
        "✎" => (TestOutcome::Skipped, name.strip_prefix("todo ").unwrap_or(name)),
        _ => return None,
    };
    Some((outcome, without_duration(name)))
}
