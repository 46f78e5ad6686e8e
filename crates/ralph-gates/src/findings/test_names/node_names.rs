//! Names the tests of node's own runner, as its `spec` reporter prints them: `suite > inner`. Names count only if the
//! summary follows, and if it has as many tests and suites as were printed.

use super::super::{source_location, test_counter};
use super::{GroupPath, NameCollector, PendingCase, PendingCases, leading_spaces};
use ralph_core::test_cases::TestOutcome;
use std::cmp::Ordering;

#[derive(Debug, Default)]
pub(super) struct NodeNames {
    path: GroupPath,
    pending: PendingCases,
    /// Tests and suites.
    printed: u32,
    /// Groups that were opened and not closed.
    open: Vec<OpenGroup>,
    summary: NodeSummary,
}

#[derive(Debug)]
struct OpenGroup {
    depth: usize,
    /// Whether a test in it failed. If none did, a failure of the group comes from its own code, such as its set-up.
    has_failure: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum NodeSummary {
    #[default]
    Running,
    /// After `ℹ tests 13`.
    Counted {
        tests: u32,
    },
    Ended,
}

impl NodeNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if let Some(rest) = line.strip_prefix("ℹ ") {
            self.read_summary(line, rest, names);
            return;
        }
        if self.summary != NodeSummary::Running {
            // The failures are printed once more.
            if line.starts_with("▶ ") || line.starts_with("✔ ") {
                *self = Self::default();
            } else {
                return;
            }
        }
        let depth = leading_spaces(line) / 2;
        if let Some((mark, rest)) = line.trim_start().split_once(' ') {
            self.read_result(depth, mark, rest.trim_end());
        }
    }

    fn read_result(&mut self, depth: usize, mark: &str, rest: &str) {
        let timed = split_duration(rest);
        if mark == "▶" && timed.is_none() {
            self.path.enter(depth, rest);
            if self.open.len() < super::MAX_GROUP_DEPTH {
                self.open.push(OpenGroup { depth, has_failure: false });
            }
            return;
        }
        let Some((name, remark)) = timed else { return };
        let outcome = match mark {
            _ if remark.starts_with("# TODO") || remark.starts_with("# SKIP") => {
                TestOutcome::Skipped
            }
            "✔" | "▶" => TestOutcome::Passed,
            "✖" => TestOutcome::Failed,
            "﹣" => TestOutcome::Skipped,
            _ => return,
        };
        self.printed = self.printed.saturating_add(1);
        let closed = self.open.pop_if(|group| group.depth == depth);
        let is_failed = outcome == TestOutcome::Failed;
        if is_failed && let Some(around) = self.open.last_mut() {
            around.has_failure = true;
        }
        let is_file = depth == 0 && source_location::is_source_file(name);
        let is_failed_group = is_failed && (closed.is_some() || is_file);
        let is_named = match closed {
            Some(group) => is_failed && !group.has_failure,
            None => mark != "▶",
        };
        if is_named {
            let name = self.path.join(depth, name);
            self.pending.push_case(PendingCase { outcome, name, is_failed_group });
        }
    }

    fn read_summary(&mut self, line: &str, rest: &str, names: &mut NameCollector<'_>) {
        let Some((key, number)) = rest.split_once(' ') else { return };
        let Ok(number) = number.trim().parse::<u32>() else { return };
        match (key, &self.summary) {
            ("tests", NodeSummary::Running) => {
                for case in self.pending.cases.drain(..) {
                    case.add_name(names);
                }
                self.summary = NodeSummary::Counted { tests: number };
            }
            ("suites", NodeSummary::Counted { tests }) => {
                match self.printed.cmp(&tests.saturating_add(number)) {
                    Ordering::Less => names.mark_incomplete(),
                    Ordering::Equal => {}
                    Ordering::Greater => names.mark_lookalikes(),
                }
                self.summary = NodeSummary::Ended;
            }
            _ => names.count(test_counter::parse_summary(line).unwrap_or_default()),
        }
    }
}

/// The name before `(12.5ms)`, and the remark after it.
fn split_duration(rest: &str) -> Option<(&str, &str)> {
    let (name, took) = rest.rsplit_once(" (").filter(|(_, took)| took.contains("ms)"))?;
    let (number, remark) = took.split_once("ms)")?;
    number.parse::<f64>().ok()?;
    Some((name, remark.trim_start()))
}
