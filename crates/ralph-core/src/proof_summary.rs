//! A proof in words: one line for reports, a requirement for the agent, and a bounded copy for the journal.

use crate::proof::{BrokenHow, BrokenTest, Proof, ProofRuns, ProofVerdict};
use crate::requirement::{
    Finding, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The name of the requirement that reports a proof.
pub const PROOF_REQUIREMENT: &str = "proof";

/// How many tests a journal line names.
const MAX_RECORDED: usize = 50;
const MAX_DOUBTS: usize = 10;
const MAX_NAMED: usize = 3;
const MAX_NAME_CHARS: usize = 120;
const MAX_DOUBT_CHARS: usize = 300;

impl Proof {
    /// `148 old tests pass on the new code; 3 tests fail without the change`
    pub fn describe(&self) -> String {
        let held = self.describe_held();
        let telling = self.describe_telling();
        let removed = match self.removed.len() {
            0 => String::new(),
            1 => "; 1 of them no longer runs".to_string(),
            count => format!("; {count} of them no longer run"),
        };
        let allowed = match self.allowed.as_slice() {
            [] => String::new(),
            files => format!("; allowed to change: {}", name_some(files.iter())),
        };
        match self.verdict {
            ProofVerdict::Verified => format!("{held}{removed}; {telling}{allowed}"),
            ProofVerdict::Green if self.doubts.is_empty() => {
                format!("{telling}; {held}{removed}{allowed}")
            }
            ProofVerdict::NeedsReview if !self.broken.is_empty() => {
                let (verb, count) = match self.broken.len() {
                    1 => ("fails or is missing", "1 old test".to_string()),
                    count => ("fail or are missing", format!("{count} old tests")),
                };
                let names = name_some(self.broken.iter().map(|broken| &broken.test));
                format!("{count} {verb} on the new code ({names}){allowed}")
            }
            ProofVerdict::Green | ProofVerdict::NeedsReview | ProofVerdict::Failed => {
                self.doubts.join("; ")
            }
        }
    }

    fn describe_held(&self) -> String {
        let tests = self.held.saturating_sub(self.held_checks);
        match count_both((tests, "old test"), (self.held_checks, "check")) {
            None => "no old tests have to pass".to_string(),
            Some(what) => {
                let verb = if self.held == 1 { "passes" } else { "pass" };
                format!("{what} {verb} on the new code")
            }
        }
    }

    fn describe_telling(&self) -> String {
        let checks = self.telling.iter().filter(|one| one.test == one.gate).count();
        let tests = self.telling.len().saturating_sub(checks);
        match count_both((tests, "test"), (checks, "check")) {
            None => "no test fails without the change".to_string(),
            Some(what) => {
                let verb = if self.telling.len() == 1 { "fails" } else { "fail" };
                format!("{what} {verb} without the change")
            }
        }
    }

    /// What the agent reads if the proof is not `verified`: the findings and the honest ways out.
    pub fn requirement(&self) -> Requirement {
        let next = match self.verdict {
            ProofVerdict::Verified => "",
            ProofVerdict::Green if self.doubts.is_empty() => {
                "Add a test that fails on the old code, or end your message with why no test can"
            }
            ProofVerdict::Green => {
                "Fix the cause above so that the proof can run, or explain at the end of your message why you cannot"
            }
            ProofVerdict::NeedsReview | ProofVerdict::Failed if self.broken.is_empty() => {
                "Undo the change that is named above, or explain at the end of your message why it is needed. If only a person can decide, run `ralph ask \"…\"`"
            }
            ProofVerdict::NeedsReview | ProofVerdict::Failed => {
                "Make the old tests pass on your code or restore them; if the goal asks for the change, end your message with a reason for each test. If only a person can decide, run `ralph ask \"…\"`"
            }
        };
        let status = RequirementStatus::Unmet(RequirementFailure {
            findings: self.broken.iter().take(MAX_RECORDED).map(broken_finding).collect(),
            unlisted: self.broken.len().saturating_sub(MAX_RECORDED),
            ..RequirementFailure::new(self.describe())
        });
        Requirement {
            name: PROOF_REQUIREMENT.to_string(),
            stage: RequirementStage::Correctness,
            status,
            weight: RequirementWeight::Required,
            next: next.to_string(),
        }
    }

    /// A copy that fits into a journal line. The counts in `describe` come from the original.
    pub fn record(&self) -> ProofRecord {
        ProofRecord {
            verdict: self.verdict,
            held: self.held,
            telling: self.telling.len(),
            broken_count: self.broken.len(),
            broken: self.broken.iter().take(MAX_RECORDED).map(bounded_test).collect(),
            doubts: self
                .doubts
                .iter()
                .take(MAX_DOUBTS)
                .map(|doubt| text::clean_line(doubt, MAX_DOUBT_CHARS))
                .collect(),
            removed: bounded_names(&self.removed),
            allowed: bounded_names(&self.allowed),
            runs: Some(self.runs),
        }
    }
}

/// `2 tests and 1 check`; `None` if there are none.
fn count_both(tests: (usize, &str), checks: (usize, &str)) -> Option<String> {
    let count = |(count, noun): (usize, &str)| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {noun}{plural}"))
    };
    match (count(tests), count(checks)) {
        (Some(tests), Some(checks)) => Some(format!("{tests} and {checks}")),
        (tests, checks) => tests.or(checks),
    }
}

/// `test_adds, test_zero, test_one and 3 more`
fn name_some<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let count = names.len();
    let shown: Vec<String> =
        names.take(MAX_NAMED).map(|name| text::clean_line(name, MAX_NAME_CHARS)).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What a run remembers of a proof.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProofRecord {
    pub verdict: ProofVerdict,
    /// How many tests of the base hold on the new code.
    pub held: usize,
    /// How many tests fail without the change.
    pub telling: usize,
    pub broken_count: usize,
    /// The first of the tests of the base that do not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenTest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The first tests of the base that hold but no longer run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Files with tests that a person allowed to change, and that did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// How much was measured. Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<ProofRuns>,
}

impl ProofRecord {
    /// How much was measured. An older version recorded a proof that could not be made without any test, and with why.
    pub fn runs_or_assumed(&self) -> ProofRuns {
        let has_tests = self.held > 0 || self.broken_count > 0 || self.telling > 0;
        let assumed = u32::from(has_tests || self.doubts.is_empty());
        self.runs.unwrap_or(ProofRuns {
            gates: assumed,
            base: None,
            old_tests: assumed,
            new_tests: assumed,
        })
    }

    /// `test_adds fails on the new code: 3 != 4`
    pub fn broken_lines(&self) -> Vec<String> {
        self.broken.iter().map(describe_broken).collect()
    }
}

fn describe_broken(broken: &BrokenTest) -> String {
    let how = match broken.how {
        BrokenHow::Fails => "fails on the new code",
        BrokenHow::Missing => "is no longer reported",
    };
    let message = match broken.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!("{} {how}{message}", broken.test)
}

fn broken_finding(broken: &BrokenTest) -> Finding {
    Finding::new(describe_broken(broken))
}

fn bounded_names(names: &[String]) -> Vec<String> {
    names.iter().take(MAX_RECORDED).map(|name| text::clean_line(name, MAX_DOUBT_CHARS)).collect()
}

fn bounded_test(broken: &BrokenTest) -> BrokenTest {
    BrokenTest { test: text::clean_line(&broken.test, MAX_DOUBT_CHARS), ..broken.clone() }
}
