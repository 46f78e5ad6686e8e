//! Names the tests of tape and its kind. Their points are assertions, often without a name or with the message of an
//! exception in its place; a comment before them is the name of the test.

use super::{MAX_PENDING_BYTES, PendingCase};
use ralph_core::test_cases::{MAX_CASES, TestOutcome};

#[derive(Debug, Default)]
pub(in crate::findings) struct TapeNames {
    part: StreamPart,
    /// The comment that names the assertions below it, for streams that begin with one.
    heading: Option<TestHeading>,
    cases: Vec<PendingCase>,
    bytes: usize,
    has_dropped: bool,
    /// Comments are what tests print, or the names of subtests.
    has_subtests: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamPart {
    /// After the line with the version.
    Start,
    #[default]
    Points,
    /// After the plan, which is at the end.
    Summary,
}

#[derive(Debug)]
struct TestHeading {
    name: String,
    /// Whether the last case is that of this test.
    has_case: bool,
}

impl TapeNames {
    /// Whether points are assertions, so that there are fewer tests than points.
    pub(super) fn has_headings(&self) -> bool {
        self.heading.is_some() && !self.has_subtests
    }

    /// Reads a line of the outermost level, outside of YAML.
    pub(super) fn read_line(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        let before = self.part;
        if line.starts_with("TAP version 1") {
            self.part = StreamPart::Start;
        } else if line.starts_with("1..") {
            self.part = StreamPart::Summary;
        } else if before == StreamPart::Start {
            self.part = StreamPart::Points;
        }
        let Some(name) = line.strip_prefix("# ") else { return };
        self.has_subtests |= name.starts_with("Subtest: ");
        let names_test = match before {
            StreamPart::Start => true,
            StreamPart::Points => self.heading.is_some(),
            StreamPart::Summary => false,
        };
        if names_test {
            self.heading = Some(TestHeading { name: name.trim().to_owned(), has_case: false });
        }
    }

    pub(super) fn mark_subtests(&mut self) {
        self.has_subtests = true;
    }

    /// A test fails with any of its assertions.
    pub(super) fn add_assertion(&mut self, outcome: TestOutcome) {
        let Some(heading) = &mut self.heading else { return };
        if heading.has_case {
            let Some(case) = self.cases.last_mut() else { return };
            case.outcome = match (case.outcome, outcome) {
                (TestOutcome::Failed, _) | (_, TestOutcome::Failed) => TestOutcome::Failed,
                (TestOutcome::Passed, _) | (_, TestOutcome::Passed) => TestOutcome::Passed,
                (TestOutcome::Skipped, TestOutcome::Skipped) => TestOutcome::Skipped,
            };
            return;
        }
        self.bytes += heading.name.len();
        if self.bytes > MAX_PENDING_BYTES || self.cases.len() >= MAX_CASES {
            self.has_dropped = true;
            return;
        }
        heading.has_case = true;
        self.cases.push(PendingCase::new(outcome, heading.name.clone()));
    }

    /// The tests, if comments name them and none is missing.
    pub(super) fn into_cases(self) -> Option<Vec<PendingCase>> {
        (self.has_headings() && !self.has_dropped).then_some(self.cases)
    }
}
