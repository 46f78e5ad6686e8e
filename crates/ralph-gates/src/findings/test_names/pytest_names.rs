//! Names the tests of pytest by their node ids: `tests/test_cart.py::TestFirst::test_empty[3-7]`. With `-v` they are in
//! the progress, with `-rA` in the summary. Without either, only failures have names.

use super::{NameCollector, PendingCase};
use ralph_core::gate::TestCounts;
use ralph_core::test_cases::{MAX_CASES, TestOutcome};
use std::collections::HashSet;

#[derive(Debug, Default)]
pub(in crate::findings) struct PytestNames {
    section: PytestPart,
    /// Whether the progress names tests.
    is_verbose: bool,
    /// The failures in the progress. The summary repeats them.
    failures: HashSet<String>,
    /// Tests with a failed subtest. Each counts as one failed test, whatever its own result is.
    with_subtests: HashSet<String>,
    /// Tests whose own result is a failure.
    failed_themselves: HashSet<String>,
    /// Tests with a failed subtest in the last summary.
    summary_subtests: Vec<String>,
    /// The results in the last summary. A test can print lines that look like an earlier one.
    summary: Vec<PendingCase>,
    has_dropped: bool,
    /// With `-s` or a live log, the result of a test is on a line of its own, after its output.
    open: Option<OpenPytestCase>,
}

#[derive(Debug)]
struct OpenPytestCase {
    id: String,
    /// The last line that is a result.
    status: Option<PytestStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PytestPart {
    #[default]
    Outside,
    Progress,
    /// Failures, captured output, warnings.
    Details,
    Summary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PytestStatus {
    Result(TestOutcome),
    /// A failed subtest. Its test is reported as well.
    SubtestFailed,
    SubtestPassed,
}

impl PytestNames {
    pub(in crate::findings) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if let Some(title) = framed_title(line) {
            self.enter_section(title, names);
            return;
        }
        match self.section {
            PytestPart::Outside | PytestPart::Details => {}
            PytestPart::Progress => {
                if let Some((status, id)) = parse_progress(line) {
                    self.close_case(names);
                    self.add_progress(status, id, names);
                } else if let Some(status) = parse_status(without_progress(line)) {
                    if let Some(open) = &mut self.open {
                        open.status = Some(status);
                    }
                } else if let Some(id) = line.split(' ').next().filter(|id| is_node_id(id)) {
                    self.close_case(names);
                    self.open = Some(OpenPytestCase { id: id.to_owned(), status: None });
                }
            }
            PytestPart::Summary => {
                if let Some((status, rest)) = parse_summary_line(line) {
                    let name = summary_id(rest, &self.failures);
                    let outcome = match status {
                        PytestStatus::Result(outcome) => outcome,
                        PytestStatus::SubtestFailed => {
                            if self.summary_subtests.len() < MAX_CASES {
                                self.summary_subtests.push(name.to_owned());
                            }
                            return;
                        }
                        PytestStatus::SubtestPassed => return,
                    };
                    if self.summary.len() < MAX_CASES {
                        self.summary.push(PendingCase::new(outcome, name.to_owned()));
                    } else {
                        self.has_dropped = true;
                    }
                }
            }
        }
    }

    pub(in crate::findings) fn finish(mut self, names: &mut NameCollector<'_>) {
        self.close_run(names);
    }

    fn enter_section(&mut self, title: &str, names: &mut NameCollector<'_>) {
        self.close_case(names);
        self.section = match title {
            "test session starts" => {
                self.close_run(names);
                PytestPart::Progress
            }
            "short test summary info" => {
                self.summary.clear();
                self.summary_subtests.clear();
                PytestPart::Summary
            }
            // Titles in the output of tests are details too. Only the start of another session ends them.
            _ => PytestPart::Details,
        };
    }

    fn close_case(&mut self, names: &mut NameCollector<'_>) {
        if let Some(OpenPytestCase { id, status: Some(status) }) = self.open.take() {
            self.add_progress(status, &id, names);
        }
    }

    fn add_progress(&mut self, status: PytestStatus, id: &str, names: &mut NameCollector<'_>) {
        self.is_verbose = true;
        let outcome = match status {
            PytestStatus::Result(outcome) => outcome,
            PytestStatus::SubtestFailed => {
                self.add_subtest(id, names);
                return;
            }
            PytestStatus::SubtestPassed => return,
        };
        self.add_result(outcome, id, names);
    }

    fn add_result(&mut self, outcome: TestOutcome, id: &str, names: &mut NameCollector<'_>) {
        if outcome == TestOutcome::Failed && self.failures.len() < MAX_CASES {
            self.failures.insert(id.to_owned());
            self.failed_themselves.insert(id.to_owned());
        }
        // A file that could not be loaded has no test in its id.
        if outcome == TestOutcome::Failed && !id.contains("::") {
            names.add_failed_group(&[id]);
        } else {
            names.add_name(outcome, &[id]);
        }
        names.count_outcome(outcome);
    }

    fn add_subtest(&mut self, id: &str, names: &mut NameCollector<'_>) {
        if self.failures.len() < MAX_CASES {
            self.failures.insert(id.to_owned());
            self.with_subtests.insert(id.to_owned());
        }
        names.add_name(TestOutcome::Failed, &[id]);
    }

    fn close_run(&mut self, names: &mut NameCollector<'_>) {
        self.close_case(names);
        for PendingCase { outcome, name, .. } in std::mem::take(&mut self.summary) {
            // With `-v`, the summary adds files that could not be loaded, and failed subtests.
            let is_new = outcome == TestOutcome::Failed && !self.failures.contains(&name);
            if !self.is_verbose || is_new {
                self.add_result(outcome, &name, names);
            }
        }
        for name in std::mem::take(&mut self.summary_subtests) {
            self.add_subtest(&name, names);
        }
        for id in self.with_subtests.drain() {
            if !self.failed_themselves.contains(&id) {
                names.count(TestCounts { failed: 1, ..TestCounts::default() });
            }
        }
        self.failed_themselves.clear();
        if std::mem::take(&mut self.has_dropped) {
            names.mark_incomplete();
        }
        self.is_verbose = false;
        self.failures.clear();
    }
}

/// `==== title ====`
fn framed_title(line: &str) -> Option<&str> {
    let title = line.strip_prefix('=')?.trim_matches('=');
    line.ends_with('=').then(|| title.trim()).filter(|title| !title.is_empty())
}

/// `tests/test_cart.py::test_adds PASSED [ 10%]`, or with pytest-xdist `[gw0] [ 10%] PASSED tests/test_cart.py::test_adds`
fn parse_progress(line: &str) -> Option<(PytestStatus, &str)> {
    let line = line.trim_end();
    if let Some(worker) = line.strip_prefix("[gw") {
        let (_, rest) = worker.split_once("] [")?;
        let (_, rest) = rest.split_once("] ")?;
        let (status, id) = rest.split_once(' ')?;
        return Some((parse_status(status)?, id)).filter(|(_, id)| is_node_id(id));
    }
    let line = without_progress(line);
    // The reason of a skip follows in parentheses, and may itself contain the name of a status.
    let plain = line.rsplit_once(' ').and_then(|(id, status)| Some((parse_status(status)?, id)));
    let explained = || {
        let (head, _) = line.strip_suffix(')')?.split_once(" (")?;
        let (id, status) = head.rsplit_once(' ')?;
        Some((parse_status(status)?, id))
    };
    plain.or_else(explained).filter(|(_, id)| is_node_id(id))
}

/// Removes `[ 10%]` or `[3/20]` from the end.
fn without_progress(line: &str) -> &str {
    match line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once(" [")) {
        Some((head, progress)) if progress.ends_with('%') || progress.contains('/') => {
            head.trim_end()
        }
        Some(_) | None => line.trim_end(),
    }
}

/// `PASSED tests/test_cart.py::test_adds`, `FAILED tests/test_cart.py::test_adds - assert 1 == 2`
fn parse_summary_line(line: &str) -> Option<(PytestStatus, &str)> {
    let (status, rest) = if let Some(subtest) = line.strip_prefix("SUBFAILED") {
        // The parameters of a subtest may contain spaces.
        (PytestStatus::SubtestFailed, subtest.split_once(") ")?.1)
    } else {
        let (status, rest) = line.split_once(' ')?;
        (parse_status(status)?, rest)
    };
    // `SKIPPED [1] tests/test_cart.py:30: later` names a line, and no test.
    (!rest.starts_with('[')).then_some((status, rest))
}

fn parse_status(word: &str) -> Option<PytestStatus> {
    Some(match word {
        "PASSED" | "XPASS" => PytestStatus::Result(TestOutcome::Passed),
        "FAILED" | "ERROR" => PytestStatus::Result(TestOutcome::Failed),
        "SKIPPED" | "XFAIL" => PytestStatus::Result(TestOutcome::Skipped),
        _ if word.starts_with("SUBFAILED") => PytestStatus::SubtestFailed,
        _ if word.starts_with("SUBPASSED") || word.starts_with("SUBSKIPPED") => {
            PytestStatus::SubtestPassed
        }
        _ => return None,
    })
}

/// Only parameters, which are in brackets, can contain spaces.
fn is_node_id(id: &str) -> bool {
    let test = id.split_once('[').map_or(id, |(test, _)| test);
    test.contains("::") && !test.contains(' ') && (!id.contains('[') || id.ends_with(']'))
}

/// Separates the node id from the message after it. Parameters may contain the separator, so a known id is preferred.
fn summary_id<'a>(rest: &'a str, known: &HashSet<String>) -> &'a str {
    let ends = rest.match_indices(" - ").map(|(at, _)| at).chain([rest.len()]);
    let candidates = || ends.clone().filter_map(|end| rest.get(..end));
    candidates()
        .find(|id| known.contains(*id))
        .or_else(|| candidates().find(|id| id.matches('[').count() == id.matches(']').count()))
        .unwrap_or(rest)
}
