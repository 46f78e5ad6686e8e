//! Names the tests in a runner's output, so that two executions can be compared test by test.
//!
//! A name is made of parts joined by ` > `, from the outside in: the file, package, class or binary if the runner
//! prints it, the groups around the test, and the test. It must be the same for every checkout of a project, so paths
//! into the project are relative, and durations, line numbers and object addresses are removed.
//!
//! The output of tests is mixed with that of their runner, and a test can print lines that look like results. Therefore
//! a reader accepts results only inside its runner's own structure, and the number of results must be the number in the
//! runner's summary. If it is not, the names are marked as incomplete.

mod ava_names;
mod go_names;
mod jest_names;
pub(super) mod libtest_names;
mod mocha_names;
pub(super) mod nextest_names;
mod node_names;
pub(super) mod pytest_names;
pub(super) mod tap_names;
mod tape_names;
mod unittest_names;
mod vitest_names;

use super::source_location;
use super::{OutputExtent, ReportContext};
use ralph_core::digest64::Digest64;
use ralph_core::gate::TestCounts;
use ralph_core::test_cases::{
    MAX_CASE_BYTES, MAX_CASES, TestCaseCollector, TestCases, TestOutcome,
};
use ralph_core::text;

/// Longer names are cut, and a digest keeps them distinct.
const MAX_NAME_CHARS: usize = 1_000;
const PART_SEPARATOR: &str = " > ";
/// Limit for names that are not part of the report yet. They contain the names of their groups, so together they can be
/// longer than the output.
const MAX_PENDING_BYTES: usize = 4 * MAX_CASE_BYTES;

/// Collects the names that readers find, and counts results as the runner counts them.
#[derive(Debug)]
pub(super) struct NameCollector<'a> {
    context: &'a ReportContext<'a>,
    cases: TestCaseCollector,
    /// The results that the names stand for.
    counted: TestCounts,
    is_incomplete: bool,
    has_lookalikes: bool,
}

impl<'a> NameCollector<'a> {
    pub(super) fn new(context: &'a ReportContext<'a>) -> Self {
        Self {
            context,
            cases: TestCaseCollector::default(),
            counted: TestCounts::default(),
            is_incomplete: false,
            has_lookalikes: false,
        }
    }

    /// Adds the name of a test, and counts the test.
    pub(super) fn add(&mut self, outcome: TestOutcome, parts: &[&str]) {
        self.add_name(outcome, parts);
        self.count(outcome_counts(outcome));
    }

    /// Adds the name of something that the runner does not count as a test. The failure of a hook stands for the tests
    /// that did not run because of it.
    pub(super) fn add_name(&mut self, outcome: TestOutcome, parts: &[&str]) {
        if outcome == TestOutcome::Failed && parts.last().is_some_and(|last| is_hook(last)) {
            return self.add_failed_group(parts);
        }
        let name = self.stable_name(parts);
        if name.is_empty() {
            self.is_incomplete = true;
        } else {
            self.cases.add(name, outcome);
        }
    }

    /// Adds a result that the runner reports under the name of a file if the file could not be loaded.
    pub(super) fn add_file_or_test(&mut self, outcome: TestOutcome, parts: &[&str]) {
        let name = self.stable_name(parts);
        let is_file = !name.contains([' ', '[']) && source_location::is_source_file(&name);
        if outcome == TestOutcome::Failed && is_file {
            self.add_failed_group(parts);
        } else {
            self.add_name(outcome, parts);
        }
    }

    /// Adds a file, package or group that failed by itself, so that its tests were not reported.
    pub(super) fn add_failed_group(&mut self, parts: &[&str]) {
        let name = self.stable_name(parts);
        if name.is_empty() {
            self.is_incomplete = true;
        } else {
            self.cases.add_failed_group(name);
        }
    }

    pub(super) fn count_outcome(&mut self, outcome: TestOutcome) {
        self.count(outcome_counts(outcome));
    }

    pub(super) fn count(&mut self, counts: TestCounts) {
        self.counted = sum_of(self.counted, counts);
    }

    pub(super) fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// More results were printed than the runner counted, so some of them are output of tests.
    pub(super) fn mark_lookalikes(&mut self) {
        self.has_lookalikes = true;
    }

    /// Compares the files that a runner printed with the number that it states. The files stand for their tests.
    fn compare_files(&mut self, printed: TestCounts, stated: TestCounts) {
        self.is_incomplete |= (printed.run, printed.failed) != (stated.run, stated.failed);
        self.has_lookalikes |= printed.run > stated.run;
    }

    /// The names are complete if they stand for all the tests that the runners counted. Skipped tests are not compared:
    /// several runners count them without naming them.
    pub(super) fn into_cases(
        self,
        tests: Option<TestCounts>,
        doubt: Option<&str>,
    ) -> Option<TestCases> {
        let is_counted = tests.is_none_or(|tests| {
            (tests.run, tests.failed) == (self.counted.run, self.counted.failed)
        });
        let has_lookalikes =
            self.has_lookalikes || tests.is_some_and(|tests| self.counted.run > tests.run);
        let is_complete = is_counted
            && !self.is_incomplete
            && !has_lookalikes
            && doubt.is_none()
            && self.context.extent == OutputExtent::Complete;
        let mut cases = self.cases.into_cases(is_complete)?;
        if has_lookalikes {
            // A missing name is better than a wrong one.
            cases.passed.clear();
        }
        Some(cases)
    }

    /// Joins the parts, without those that repeat the part before them.
    fn stable_name(&self, parts: &[&str]) -> String {
        let mut name = String::new();
        let mut previous = String::new();
        for part in parts {
            let part = self.stable_part(part);
            if part.is_empty() || part == previous {
                continue;
            }
            if !name.is_empty() {
                name.push_str(PART_SEPARATOR);
            }
            name.push_str(&part);
            previous = part;
        }
        if name.chars().count() <= MAX_NAME_CHARS {
            return name;
        }
        let digest = Digest64::of_parts(&[name.as_bytes()]).0;
        let kept: String = name.chars().take(MAX_NAME_CHARS - 20).collect();
        format!("{kept}…{digest:016x}")
    }

    fn stable_part(&self, part: &str) -> String {
        let mut part = text::collapse_whitespace(&text::clean(part));
        // A path that was joined with an empty one ends with a slash.
        let root = self.context.root.to_str().map(|root| root.trim_end_matches('/'));
        if let Some(root) = root.filter(|root| root.len() > 1)
            && part.contains(root)
        {
            let inside = format!("{root}/");
            part = part.replace(&format!("file://{inside}"), "").replace(&inside, "");
        }
        without_addresses(part)
    }
}

/// `cart > "before all" hook for "adds"` of mocha, `setup_file failed` of bats.
fn is_hook(name: &str) -> bool {
    const HOOKS: [&str; 6] = [
        "\"before all\" hook",
        "\"before each\" hook",
        "\"after all\" hook",
        "\"after each\" hook",
        "setup_file failed",
        "bats-gather-tests",
    ];
    let last = name.rsplit(PART_SEPARATOR).next().unwrap_or(name).trim();
    HOOKS.iter().any(|hook| last.starts_with(hook))
}

fn outcome_counts(outcome: TestOutcome) -> TestCounts {
    match outcome {
        TestOutcome::Passed => TestCounts { run: 1, ..TestCounts::default() },
        TestOutcome::Failed => TestCounts { run: 1, failed: 1, skipped: 0 },
        TestOutcome::Skipped => TestCounts { skipped: 1, ..TestCounts::default() },
    }
}

fn sum_of(one: TestCounts, other: TestCounts) -> TestCounts {
    TestCounts {
        run: one.run.saturating_add(other.run),
        failed: one.failed.saturating_add(other.failed),
        skipped: one.skipped.saturating_add(other.skipped),
    }
}

/// Replaces the address in `<Cart object at 0x7f3a5c1d2e80>`, which differs in every run.
fn without_addresses(part: String) -> String {
    const MARK: &str = " at 0x";
    if !part.contains(MARK) {
        return part;
    }
    let mut pieces = part.split(MARK);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(MARK);
        let rest = piece.trim_start_matches(|char: char| char.is_ascii_hexdigit());
        if piece.len() - rest.len() >= 6 {
            out.push('…');
            out.push_str(rest);
        } else {
            out.push_str(piece);
        }
    }
    out
}

/// Removes a duration at the end: `adds (12 ms)`, `adds (1.2s)`.
fn without_duration(name: &str) -> &str {
    let Some((head, last)) = name.trim_end().rsplit_once(" (") else {
        return name;
    };
    match last.strip_suffix(')') {
        Some(took) if is_duration(took) => head.trim_end(),
        Some(_) | None => name,
    }
}

/// `12 ms`, `1.2s`, `3m`
fn is_duration(took: &str) -> bool {
    let unit = took.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
    unit.len() < took.len() && matches!(unit.trim_start(), "ms" | "s" | "m" | "μs" | "ns")
}

fn leading_spaces(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A named result that is not part of the report yet.
#[derive(Debug)]
struct PendingCase {
    outcome: TestOutcome,
    name: String,
    /// Whether it is a group that failed by itself.
    is_failed_group: bool,
}

impl PendingCase {
    fn new(outcome: TestOutcome, name: String) -> Self {
        Self { outcome, name, is_failed_group: false }
    }

    fn add_name(&self, names: &mut NameCollector<'_>) {
        if self.is_failed_group {
            names.add_failed_group(&[&self.name]);
        } else {
            names.add_name(self.outcome, &[&self.name]);
        }
    }
}

/// Results that count only if their runner's summary follows.
#[derive(Debug, Default)]
struct PendingCases {
    cases: Vec<PendingCase>,
    bytes: usize,
    has_dropped: bool,
}

impl PendingCases {
    fn push(&mut self, outcome: TestOutcome, name: String) {
        self.push_case(PendingCase::new(outcome, name));
    }

    fn push_case(&mut self, case: PendingCase) {
        self.bytes += case.name.len();
        if self.cases.len() < MAX_CASES && self.bytes <= MAX_PENDING_BYTES {
            self.cases.push(case);
        } else {
            self.has_dropped = true;
        }
    }

    fn commit(&mut self, names: &mut NameCollector<'_>) {
        for case in self.cases.drain(..) {
            case.add_name(names);
            names.count_outcome(case.outcome);
        }
        names.is_incomplete |= self.has_dropped;
        *self = Self::default();
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The groups around the current test. Their names are part of the name of every test in them, so they are bounded.
#[derive(Debug, Default)]
pub(super) struct GroupPath {
    joined: String,
    /// Where each group ends in `joined`.
    ends: Vec<usize>,
}

const MAX_GROUP_DEPTH: usize = 64;
const MAX_PATH_BYTES: usize = 2_000;

impl GroupPath {
    /// Enters a group at this depth and leaves those that are as deep or deeper.
    pub(super) fn enter(&mut self, depth: usize, group: &str) {
        self.ends.truncate(depth);
        self.joined.truncate(self.ends.last().copied().unwrap_or(0));
        if self.ends.len() >= MAX_GROUP_DEPTH {
            return;
        }
        if self.joined.len() + group.len() <= MAX_PATH_BYTES {
            self.joined.push_str(group);
        } else {
            let digest = Digest64::of_parts(&[group.as_bytes()]).0;
            self.joined.push_str(&format!("…{digest:016x}"));
        }
        self.joined.push_str(PART_SEPARATOR);
        self.ends.push(self.joined.len());
    }

    /// The groups around a test at this depth.
    pub(super) fn around(&self, depth: usize) -> &str {
        let end = depth.min(self.ends.len()).checked_sub(1).and_then(|last| self.ends.get(last));
        self.joined.get(..end.copied().unwrap_or(0)).unwrap_or_default()
    }

    /// The name of a test at this depth.
    fn join(&self, depth: usize, test: &str) -> String {
        format!("{}{test}", self.around(depth))
    }
}

/// Readers of the output that runners print for people. Each recognises its own runner.
#[derive(Debug, Default)]
pub(super) struct TextNames {
    libtest: libtest_names::LibtestNames,
    nextest: nextest_names::NextestNames,
    pytest: pytest_names::PytestNames,
    unittest: unittest_names::UnittestNames,
    go: go_names::GoNames,
    jest: jest_names::JestNames,
    vitest: vitest_names::VitestNames,
    mocha: mocha_names::MochaNames,
    ava: ava_names::AvaNames,
    node: node_names::NodeNames,
    tap: tap_names::TapNames,
}

impl TextNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        self.nextest.read_line(line, names);
        if !self.nextest.is_running() {
            self.libtest.read_line(line, names);
        }
        self.pytest.read_line(line, names);
        self.unittest.read_line(line, names);
        self.go.read_line(line, names);
        self.jest.read_line(line, names);
        self.vitest.read_line(line, names);
        self.mocha.read_line(line, names);
        self.ava.read_line(line, names);
        self.node.read_line(line, names);
        self.tap.read_line(line);
    }

    /// Whether the runner counts assertions, so that there are fewer tests than it counts.
    pub(super) fn counts_assertions(&self) -> bool {
        self.tap.has_headings()
    }

    pub(super) fn finish(self, names: &mut NameCollector<'_>) {
        self.nextest.finish(names);
        self.libtest.finish(names);
        self.pytest.finish(names);
        self.unittest.finish(names);
        self.go.finish(names);
        self.tap.finish(names);
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
