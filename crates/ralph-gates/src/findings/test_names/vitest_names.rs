//! Names the tests of vitest: `test/cart.test.js > cart > adds`. Only its verbose reporter prints all names. With
//! others, the names are those of the files and of the failed tests.

use super::super::source_location;
use super::super::test_counter;
use super::{NameCollector, is_duration, sum_of};
use ralph_core::gate::TestCounts;
use ralph_core::test_cases::TestOutcome;

#[derive(Debug, Default)]
pub(super) struct VitestNames {
    section: VitestSection,
    files: TestCounts,
    /// The number of files according to vitest.
    stated_files: TestCounts,
    /// The tests that the verbose reporter lists.
    listed: TestCounts,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum VitestSection {
    #[default]
    Outside,
    Results,
    /// Below `stdout | …`, until an empty line.
    TestOutput,
}

impl VitestNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let trimmed = line.trim();
        if trimmed.strip_prefix("RUN ").is_some_and(|rest| rest.trim_start().starts_with('v')) {
            *self = Self { section: VitestSection::Results, ..Self::default() };
        }
        match self.section {
            VitestSection::Outside => {}
            VitestSection::TestOutput => {
                if trimmed.is_empty() {
                    self.section = VitestSection::Results;
                }
            }
            VitestSection::Results => self.read_results(line, trimmed, names),
        }
    }

    fn read_results(&mut self, line: &str, trimmed: &str, names: &mut NameCollector<'_>) {
        if line.starts_with("stdout | ") || line.starts_with("stderr | ") {
            self.section = VitestSection::TestOutput;
        } else if let Some(rest) = line.strip_prefix(" FAIL  ") {
            add_failure(rest.trim(), names);
        } else if let Some(rest) = trimmed.strip_prefix("Test Files ") {
            self.stated_files = test_counter::sum_counts(test_counter::number_word_pairs(rest));
        } else if trimmed.starts_with("Tests ") {
            self.close_run(trimmed, names);
        } else if super::leading_spaces(line) == 1 {
            self.read_result(trimmed, names);
        }
    }

    fn read_result(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let Some((mark, rest)) = line.split_once(' ') else { return };
        let outcome = match mark {
            "✓" | "√" => TestOutcome::Passed,
            "×" | "❯" => TestOutcome::Failed,
            "↓" | "□" => TestOutcome::Skipped,
            _ => return,
        };
        let (project, rest) = split_project(rest.trim_start());
        if let Some((file, counts)) = rest.split_once(" (")
            && counts.trim_start_matches(|char: char| char.is_ascii_digit()).starts_with(" test")
            && source_location::is_source_file(file)
        {
            self.files = sum_of(self.files, super::outcome_counts(outcome));
            names.add_name(outcome, &[project, file]);
        } else if rest
            .split_once(" > ")
            .is_some_and(|(file, _)| source_location::is_source_file(file))
        {
            let name = if outcome == TestOutcome::Skipped {
                rest
            } else {
                without_trailing_duration(rest)
            };
            self.listed = sum_of(self.listed, super::outcome_counts(outcome));
            names.add_name(outcome, &[project, name]);
        }
    }

    fn close_run(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let done = std::mem::take(self);
        if done.listed == TestCounts::default() {
            names.count(test_counter::parse_summary(line).unwrap_or_default());
            names.compare_files(done.files, done.stated_files);
        } else {
            names.count(done.listed);
        }
    }
}

/// `test/cart.test.js > cart > adds`, or `test/cart.test.js [ test/cart.test.js ]` for a file that cannot be loaded.
fn add_failure(rest: &str, names: &mut NameCollector<'_>) {
    let (project, rest) = split_project(rest);
    let (file, _) = rest.split_once(' ').unwrap_or((rest, ""));
    if source_location::is_source_file(file) {
        if rest.ends_with(']') && rest.contains(" [ ") {
            names.add_failed_group(&[project, file]);
        } else {
            names.add_name(TestOutcome::Failed, &[project, rest]);
        }
    }
}

/// In a workspace, the name of the project comes first: `|unit| test/cart.test.js`.
fn split_project(rest: &str) -> (&str, &str) {
    match rest.strip_prefix('|').and_then(|rest| rest.split_once('|')) {
        Some((project, rest)) => (project, rest.trim_start()),
        None => ("", rest),
    }
}

/// Removes the duration from `cart > adds 12ms`, and from `cart > adds 12ms (retry x2)` for a repeated test.
fn without_trailing_duration(name: &str) -> &str {
    let name = match name.rsplit_once(" (") {
        Some((head, remark)) if remark.starts_with("retry x") || remark.starts_with("repeat x") => {
            head
        }
        Some(_) | None => name,
    };
    match name.rsplit_once(' ') {
        Some((head, took)) if is_duration(took) => head.trim_end(),
        Some(_) | None => name,
    }
}
