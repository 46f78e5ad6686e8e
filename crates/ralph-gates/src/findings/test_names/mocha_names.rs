//! Names the tests of mocha's `spec` reporter: `cart > adds`. Nothing announces its tree, so names count only if the
//! summary follows.

use super::{GroupPath, NameCollector, PendingCases, leading_spaces, without_duration};
use ralph_core::test_cases::TestOutcome;

#[derive(Debug, Default)]
pub(super) struct MochaNames {
    path: GroupPath,
    pending: PendingCases,
    /// The depth of the last line of the tree; an empty line is outside.
    last_depth: Option<usize>,
}

impl MochaNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        let trimmed = line.trim();
        let spaces = leading_spaces(line);
        if is_summary(trimmed) && spaces == 2 {
            self.pending.commit(names);
            *self = Self::default();
        } else if trimmed.is_empty() {
            self.last_depth = None;
        } else if spaces >= 2 && spaces.is_multiple_of(2) {
            self.read_tree_line(spaces / 2 - 1, trimmed);
        } else if ["PASS ", "FAIL ", "Tests: ", "ℹ tests "]
            .iter()
            .any(|mark| line.starts_with(mark))
        {
            // The tree of another runner.
            self.pending.clear();
        }
    }

    fn read_tree_line(&mut self, depth: usize, line: &str) {
        if let Some((outcome, test)) = parse_test(line) {
            self.pending.push(outcome, self.path.join(depth, test));
            self.last_depth = Some(depth);
            return;
        }
        // An outermost group follows an empty line or a test outside groups. An inner group follows a line that is at
        // most one level further out. Other lines are output of tests.
        let is_group = match self.last_depth {
            None => depth == 0,
            Some(last) => depth == 0 && last == 0 || depth > 0 && depth <= last + 1,
        };
        if is_group {
            self.path.enter(depth, line);
            self.last_depth = Some(depth);
        }
    }
}

/// `8 passing (146ms)`
fn is_summary(line: &str) -> bool {
    line.split_once(" passing (").is_some_and(|(number, took)| {
        number.parse::<u32>().is_ok() && took.strip_suffix(')').is_some_and(super::is_duration)
    })
}

fn parse_test(line: &str) -> Option<(TestOutcome, &str)> {
    let (mark, name) = line.split_once(' ')?;
    let outcome = match mark {
        "✔" | "✓" | "√" => TestOutcome::Passed,
        "-" => TestOutcome::Skipped,
        _ => {
            mark.strip_suffix(')')?.parse::<u32>().ok()?;
            TestOutcome::Failed
        }
    };
    Some((outcome, without_duration(name)))
}
