//! The names of the tests that one execution of a gate reported, by outcome. Two executions of the same tests are
//! compared by these names, so a name contains nothing that differs between two checkouts of a project.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use serde::{Deserialize, Serialize};

/// The largest number of names that are kept for one execution.
pub const MAX_CASES: usize = 50_000;
/// The total length of these names.
pub const MAX_CASE_BYTES: usize = 4 * 1024 * 1024;

/// Each list is sorted, and no name is in two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TestCasesWire", into = "TestCasesWire")]
pub struct TestCases {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    /// Skipped, or expected to fail. Some runners count these without naming them.
    pub skipped: Vec<String>,
    /// Those of `failed` that are no tests but stand for some: a file, package or group that did not load, or whose
    /// set-up failed. Once that succeeds, the tests are reported and this name is not.
    pub failed_groups: Vec<String>,
    /// Whether every test that passed or failed is named. If not, a test without a name here may still have run.
    pub is_complete: bool,
}

/// The files, suites and functions in the name of a test: `tests/test_cart.py::TestCart::test_total`, `cart > adds`.
pub fn name_parts(test: &str) -> impl Iterator<Item = &str> {
    test.split(" > ").flat_map(|part| part.split("::"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOutcome {
    Passed,
    Failed,
    Skipped,
}

/// Collects the outcomes of named tests within the limits.
#[derive(Clone, Debug, Default)]
pub struct TestCaseCollector {
    outcomes: BTreeMap<String, TestOutcome>,
    failed_groups: BTreeSet<String>,
    bytes: usize,
    has_dropped: bool,
}

impl TestOutcome {
    /// The combined outcome of two tests with the same name: failed if either failed, passed only if both passed.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed, _) | (_, Self::Failed) => Self::Failed,
            (Self::Skipped, _) | (_, Self::Skipped) => Self::Skipped,
            (Self::Passed, Self::Passed) => Self::Passed,
        }
    }
}

impl TestCaseCollector {
    /// Adds the name of a failure that stands for tests. If a test of this name fails too, it is an ordinary failure.
    pub fn add_failed_group(&mut self, name: String) {
        let is_new = self.outcomes.get(&name) != Some(&TestOutcome::Failed);
        let was_group = self.failed_groups.contains(&name);
        self.add(name.clone(), TestOutcome::Failed);
        if (is_new || was_group) && self.outcomes.contains_key(&name) {
            self.failed_groups.insert(name);
        }
    }

    pub fn add(&mut self, name: String, outcome: TestOutcome) {
        if outcome == TestOutcome::Failed {
            self.failed_groups.remove(&name);
        }
        if let Some(known) = self.outcomes.get_mut(&name) {
            *known = known.combine(outcome);
        } else if self.outcomes.len() < MAX_CASES && self.bytes + name.len() <= MAX_CASE_BYTES {
            self.bytes += name.len();
            self.outcomes.insert(name, outcome);
        } else {
            self.has_dropped = true;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Returns `None` if no test was named.
    pub fn into_cases(self, is_complete: bool) -> Option<TestCases> {
        if self.outcomes.is_empty() {
            return None;
        }
        let is_complete = is_complete && !self.has_dropped;
        let failed_groups = self.failed_groups.into_iter().collect();
        let mut cases = TestCases { failed_groups, is_complete, ..TestCases::default() };
        for (name, outcome) in self.outcomes {
            cases.names_mut(outcome).push(name);
        }
        Some(cases)
    }
}

impl TestCases {
    pub fn outcome(&self, name: &str) -> Option<TestOutcome> {
        [TestOutcome::Passed, TestOutcome::Failed, TestOutcome::Skipped].into_iter().find(
            |outcome| self.names(*outcome).binary_search_by(|one| one.as_str().cmp(name)).is_ok(),
        )
    }

    pub fn names(&self, outcome: TestOutcome) -> &[String] {
        match outcome {
            TestOutcome::Passed => &self.passed,
            TestOutcome::Failed => &self.failed,
            TestOutcome::Skipped => &self.skipped,
        }
    }

    fn names_mut(&mut self, outcome: TestOutcome) -> &mut Vec<String> {
        match outcome {
            TestOutcome::Passed => &mut self.passed,
            TestOutcome::Failed => &mut self.failed,
            TestOutcome::Skipped => &mut self.skipped,
        }
    }

    /// Updates the cases after a second execution on the same tree: a test that failed first and then passed is flaky,
    /// and counts as passed.
    #[must_use]
    pub fn without_flaky(self, second: &Self) -> Self {
        let mut collector = TestCaseCollector::default();
        let is_complete = self.is_complete;
        let has_passed = |name: &str| second.outcome(name) == Some(TestOutcome::Passed);
        for name in self.failed {
            match (has_passed(&name), self.failed_groups.contains(&name)) {
                (true, _) => collector.add(name, TestOutcome::Passed),
                (false, true) => collector.add_failed_group(name),
                (false, false) => collector.add(name, TestOutcome::Failed),
            }
        }
        self.passed.into_iter().for_each(|name| collector.add(name, TestOutcome::Passed));
        self.skipped.into_iter().for_each(|name| collector.add(name, TestOutcome::Skipped));
        collector.into_cases(is_complete).unwrap_or_default()
    }
}

/// The form on disk. Each list is one string with a line per name: the number of leading bytes that it shares with the
/// previous name, a colon, and the rest. Most names share a long prefix, so cached results stay small.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TestCasesWire {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    passed: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    failed: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    skipped: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    failed_groups: String,
    complete: bool,
}

impl From<TestCases> for TestCasesWire {
    fn from(cases: TestCases) -> Self {
        Self {
            passed: encode_names(&cases.passed),
            failed: encode_names(&cases.failed),
            skipped: encode_names(&cases.skipped),
            failed_groups: encode_names(&cases.failed_groups),
            complete: cases.is_complete,
        }
    }
}

impl TryFrom<TestCasesWire> for TestCases {
    type Error = &'static str;

    fn try_from(wire: TestCasesWire) -> Result<Self, Self::Error> {
        // A few bytes on disk can expand to a long name, so the limit is enforced again.
        let mut room = MAX_CASE_BYTES;
        let mut group_room = MAX_CASE_BYTES;
        Ok(Self {
            passed: decode_names(&wire.passed, &mut room)?,
            failed: decode_names(&wire.failed, &mut room)?,
            skipped: decode_names(&wire.skipped, &mut room)?,
            failed_groups: decode_names(&wire.failed_groups, &mut group_room)?,
            is_complete: wire.complete,
        })
    }
}

fn encode_names(names: &[String]) -> String {
    let mut out = String::new();
    let mut previous = "";
    for name in names {
        let shared = shared_prefix(previous, name);
        if !out.is_empty() {
            out.push('\n');
        }
        // Writing to a string does not fail.
        let _ = write!(out, "{shared}:{}", &name[shared..]);
        previous = name;
    }
    out
}

fn decode_names(text: &str, room: &mut usize) -> Result<Vec<String>, &'static str> {
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        let (shared, rest) = line.split_once(':').ok_or("a test name has no prefix length")?;
        let shared: usize = shared.parse().map_err(|_| "a prefix length is not a number")?;
        let previous = names.last().map_or("", String::as_str);
        let prefix = previous.get(..shared).ok_or("a prefix is longer than its name")?;
        *room = room
            .checked_sub(prefix.len() + rest.len())
            .filter(|_| names.len() < MAX_CASES)
            .ok_or("too many test names")?;
        let mut name = prefix.to_string();
        name.push_str(rest);
        names.push(name);
    }
    Ok(names)
}

/// The length in bytes of the common prefix, which ends at a character boundary.
fn shared_prefix(one: &str, other: &str) -> usize {
    let pairs = one.char_indices().zip(other.chars());
    let differing = pairs.clone().find(|((_, left), right)| left != right);
    match differing {
        Some(((at, _), _)) => at,
        None => one.len().min(other.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;
    use proptest::prelude::*;

    fn collect(named: &[(&str, TestOutcome)]) -> TestCases {
        let mut collector = TestCaseCollector::default();
        for (name, outcome) in named {
            collector.add((*name).to_string(), *outcome);
        }
        collector.into_cases(true).unwrap_or_default()
    }

    #[test]
    fn a_name_has_the_worst_of_its_outcomes() {
        use TestOutcome::{Failed, Passed, Skipped};
        let cases = collect(&[
            ("b", Passed),
            ("a", Passed),
            ("b", Passed),
            ("c", Passed),
            ("c", Failed),
            ("c", Passed),
            ("d", Skipped),
            ("d", Passed),
            ("e", Skipped),
            ("e", Failed),
        ]);
        let expected = TestCases {
            passed: vec!["a".to_string(), "b".to_string()],
            failed: vec!["c".to_string(), "e".to_string()],
            skipped: vec!["d".to_string()],
            failed_groups: Vec::new(),
            is_complete: true,
        };
        assert_eq!(cases, expected);
        let outcomes = ["a", "c", "d", "x"].map(|name| cases.outcome(name));
        assert_eq!(outcomes, [Some(Passed), Some(Failed), Some(Skipped), None]);
    }

    #[test]
    fn a_test_that_passes_the_second_time_is_not_failed() {
        use TestOutcome::{Failed, Passed};
        let first = collect(&[("a", Failed), ("b", Failed), ("c", Failed), ("d", Passed)]);
        let second = collect(&[("a", Passed), ("b", Failed), ("d", Failed)]);
        let expected = collect(&[("a", Passed), ("b", Failed), ("c", Failed), ("d", Passed)]);
        assert_eq!(first.without_flaky(&second), expected);
    }

    /// A test that fails under the name of a group is a failed test, in either order.
    #[test]
    fn a_group_that_failed_stands_for_tests() {
        let mut collector = TestCaseCollector::default();
        collector.add_failed_group("a".to_string());
        collector.add_failed_group("a".to_string());
        collector.add_failed_group("b".to_string());
        collector.add("b".to_string(), TestOutcome::Failed);
        collector.add("c".to_string(), TestOutcome::Failed);
        collector.add_failed_group("c".to_string());
        collector.add_failed_group("d".to_string());
        let cases = collector.into_cases(true).unwrap_or_default();
        assert_eq!(cases.failed, ["a", "b", "c", "d"]);
        assert_eq!(cases.failed_groups, ["a", "d"]);
        let json = serde_json::to_string(&cases).unwrap();
        assert_eq!(serde_json::from_str::<TestCases>(&json).unwrap(), cases);
        let second = collect(&[("d", TestOutcome::Passed)]);
        let cases = cases.without_flaky(&second);
        assert_eq!(
            (cases.failed_groups.join(" "), cases.passed.join(" ")),
            ("a".into(), "d".into())
        );
    }

    #[test]
    fn the_form_on_disk_is_short() {
        let cases = collect(&[
            ("tests/test_cart.py::test_adds[1-2]", TestOutcome::Passed),
            ("tests/test_cart.py::test_adds[2-5]", TestOutcome::Passed),
            ("tests/test_cart.py::test_first", TestOutcome::Passed),
            ("tests/ä", TestOutcome::Failed),
            ("tests/ö \"q\"", TestOutcome::Failed),
        ]);
        let json = serde_json::to_string(&cases).unwrap();
        assert_eq!(
            json,
            r#"{"passed":"0:tests/test_cart.py::test_adds[1-2]\n30:2-5]\n25:first","failed":"0:tests/ä\n6:ö \"q\"","complete":true}"#
        );
        assert_eq!(serde_json::from_str::<TestCases>(&json).unwrap(), cases);
    }

    #[test]
    fn an_invalid_form_is_an_error() {
        let bomb = format!("0:{}{}", "x".repeat(1_000), "\\n1000:".repeat(10_000));
        for passed in ["x", "0x", "1:x", "x:y", "0:ä\\n1:b", "-1:x", &bomb] {
            let json = format!(r#"{{"passed":"{passed}","complete":true}}"#);
            assert!(serde_json::from_str::<TestCases>(&json).is_err(), "{passed}");
        }
        let many = "0:\\n".repeat(MAX_CASES + 1);
        let json = format!(r#"{{"passed":"{many}","complete":true}}"#);
        assert!(serde_json::from_str::<TestCases>(&json).is_err());
    }

    #[test]
    fn names_beyond_the_limits_are_dropped_and_the_rest_is_incomplete() {
        let mut collector = TestCaseCollector::default();
        for number in 0..=MAX_CASES {
            collector.add(format!("test {number}"), TestOutcome::Passed);
        }
        let cases = collector.into_cases(true).unwrap();
        assert_eq!((cases.passed.len(), cases.is_complete), (MAX_CASES, false));
        let mut collector = TestCaseCollector::default();
        for number in 0..5 {
            collector.add(format!("{number}{}", "x".repeat(1 << 20)), TestOutcome::Passed);
        }
        let cases = collector.into_cases(true).unwrap();
        assert_eq!((cases.passed.len(), cases.is_complete), (3, false));
    }

    proptest! {
        #[test]
        fn any_names_survive_a_round_trip(
            named in proptest::collection::vec(("[a-c/ä€]{0,6}", 0..3_u8), 0..30),
            is_complete: bool,
        ) {
            let mut collector = TestCaseCollector::default();
            for (name, outcome) in named {
                let outcome = match outcome {
                    0 => TestOutcome::Passed,
                    1 => TestOutcome::Failed,
                    _ => TestOutcome::Skipped,
                };
                collector.add(name, outcome);
            }
            if let Some(cases) = collector.into_cases(is_complete) {
                let json = serde_json::to_string(&cases).unwrap();
                prop_assert_eq!(serde_json::from_str::<TestCases>(&json).unwrap(), cases);
            }
        }
    }
}
