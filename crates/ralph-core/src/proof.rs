//! What it proves to run old and new tests on old and new code.
//!
//! "Old" is the base of the run, "new" is the candidate. Four runs of the same gates are compared:
//!
//! | run | code | tests and harness |
//! |---|---|---|
//! | `before` | old | old |
//! | `now` | new | new |
//! | `old_tests` | new | old |
//! | `new_tests` | old | new |
//!
//! The old tests must still hold on the new code, and at least one test must fail without it. Nothing here runs
//! anything; the `ralph-proof` crate does.

use crate::gate::{GateOutcome, GateReport};
use crate::requirement::Finding;
use crate::test_cases::TestCases;
use crate::text;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const MAX_MESSAGE_CHARS: usize = 200;

/// The results of one gate in the four runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateProof<'a> {
    pub gate: &'a str,
    /// `None` if it did not run. Runs on the same tree have the same report.
    pub before: Option<&'a GateReport>,
    pub now: Option<&'a GateReport>,
    /// Without the canary.
    pub old_tests: Option<&'a GateReport>,
    pub new_tests: Option<&'a GateReport>,
    /// Of the old tests on the new code.
    pub canary: CanaryResult,
    /// Of the new tests on the new code, if their harness is not the old one.
    pub new_canary: CanaryResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofStep {
    Before,
    Now,
    OldTests,
    NewTests,
}

/// What became of a failing test that ralph added to the old tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryResult {
    /// It was reported as failed, as it must be.
    Failed,
    /// The runner found it and did not report it as failed, or did not find it at all.
    Silent,
    /// Ralph knows no place where this runner would find it.
    #[default]
    NotPossible,
}

/// A test of the base that no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BrokenTest {
    pub gate: String,
    /// The gate's own name if it names no tests.
    pub test: String,
    pub how: BrokenHow,
    /// The first message about it; empty if there is none.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokenHow {
    /// It fails on the new code.
    Fails,
    /// The old harness no longer reports it, or skips it.
    Missing,
}

/// A test that distinguishes the new code from the old.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TellingTest {
    pub gate: String,
    pub test: String,
}

/// The outcome of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    pub verdict: ProofVerdict,
    /// How many tests of the base hold on the new code.
    pub held: usize,
    /// Tests that pass now and fail without the change.
    pub telling: Vec<TellingTest>,
    pub broken: Vec<BrokenTest>,
    /// Why the verdict is not better, apart from `broken`: one line each.
    pub doubts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofVerdict {
    /// The old tests hold, and at least one test fails without the change.
    Verified,
    /// The old tests hold, but no test distinguishes the new code from the old.
    Green,
    /// Old tests fail on the new code or are no longer reported, or the harness cannot fail.
    NeedsReview,
    /// A gate fails on the new code with the new tests.
    Failed,
}

impl ProofVerdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Green => "green",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
        }
    }
}

impl ProofStep {
    pub const ALL: [Self; 4] = [Self::Before, Self::Now, Self::OldTests, Self::NewTests];

    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Now => "now",
            Self::OldTests => "old-tests",
            Self::NewTests => "new-tests",
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::Before => "old tests on old code",
            Self::Now => "new tests on new code",
            Self::OldTests => "old tests on new code",
            Self::NewTests => "new tests on old code",
        }
    }

    pub fn has_new_code(self) -> bool {
        matches!(self, Self::Now | Self::OldTests)
    }
}

/// The outcome when the change fails its own gates, so that nothing else was run.
pub fn report_failures(gates: &[GateProof<'_>]) -> Proof {
    let mut proof = Proof::new(ProofVerdict::Failed);
    for gate in gates {
        gate.check_now(&mut proof);
    }
    proof
}

/// The outcome when gates passed in the project and do not pass in a checkout of the same files. The checkout lacks
/// something then, so nothing that runs in one proves anything.
pub fn report_disagreement(gates: &[GateProof<'_>]) -> Proof {
    let mut proof = Proof::new(ProofVerdict::Green);
    for gate in gates {
        let Some(now) = gate.now else { continue };
        let what = match &now.outcome {
            GateOutcome::Passed => continue,
            GateOutcome::Failed => {
                let first = now.findings.first().map_or("", |first| first.message.as_str());
                format!("fails in a clean checkout of it: {first}")
            }
            GateOutcome::Unknown(unknown) => {
                format!("gives no result in a clean checkout of it: {}", unknown.describe())
            }
        };
        let why = format!("`{}` passes in the project and {what}", gate.gate);
        let why = text::clean_line(&why, MAX_MESSAGE_CHARS);
        proof.doubts.push(why.trim_end_matches([':', ' ']).to_string());
    }
    proof
}

/// Evaluates the four runs of all gates. `inseparable` names the files that hold code and tests at once and could not
/// be taken apart; with them a proof is at most [`ProofVerdict::Green`].
pub fn evaluate(gates: &[GateProof<'_>], inseparable: &[String]) -> Proof {
    let mut proof = Proof::new(ProofVerdict::Verified);
    for gate in gates {
        gate.check_now(&mut proof);
        gate.check_old_tests(&mut proof);
        gate.find_telling_tests(&mut proof);
    }
    if !proof.broken.is_empty() {
        proof.lower_to(ProofVerdict::NeedsReview);
    }
    if !inseparable.is_empty() {
        let why = format!("tests cannot be separated from code in {}", inseparable.join(", "));
        proof.doubt(ProofVerdict::Green, why);
    }
    if proof.telling.is_empty() {
        proof.lower_to(ProofVerdict::Green);
        proof.doubts.extend(gates.iter().filter_map(GateProof::unknown_telling_tests));
    }
    proof.broken.sort();
    proof.telling.sort();
    proof.telling.dedup();
    proof
}

impl Proof {
    /// The outcome when there is nothing to compare with.
    pub fn unavailable(why: String) -> Self {
        Self { doubts: vec![why], ..Self::new(ProofVerdict::Green) }
    }

    /// The proof without the broken tests that a person waived. A gate that names no tests is waived as a requirement.
    #[must_use]
    pub fn without_waived(&self, is_waived: impl Fn(&str) -> bool) -> Self {
        let mut proof = self.clone();
        proof.broken.retain(|broken| broken.test == broken.gate || !is_waived(&broken.test));
        // A doubt may be as grave as a broken test.
        let is_excused = proof.broken.is_empty() && !self.broken.is_empty();
        if is_excused && proof.doubts.is_empty() && proof.verdict == ProofVerdict::NeedsReview {
            let is_measured = !proof.telling.is_empty();
            proof.verdict = if is_measured { ProofVerdict::Verified } else { ProofVerdict::Green };
        }
        proof
    }

    fn new(verdict: ProofVerdict) -> Self {
        let (telling, broken, doubts) = (Vec::new(), Vec::new(), Vec::new());
        Self { verdict, held: 0, telling, broken, doubts }
    }

    fn lower_to(&mut self, verdict: ProofVerdict) {
        self.verdict = self.verdict.max(verdict);
    }

    /// Adds a reason why the verdict is at most this one.
    pub fn doubt(&mut self, verdict: ProofVerdict, why: String) {
        self.lower_to(verdict);
        self.doubts.push(why);
    }
}

impl<'a> GateProof<'a> {
    fn check_now(&self, proof: &mut Proof) {
        let why = match self.now.map(|now| &now.outcome) {
            Some(GateOutcome::Passed) => return,
            Some(GateOutcome::Failed) => format!("{} fails", self.gate),
            Some(GateOutcome::Unknown(unknown)) => {
                format!("{} gave no result: {}", self.gate, unknown.describe())
            }
            None => format!("{} did not run", self.gate),
        };
        proof.doubt(ProofVerdict::Failed, why);
    }

    /// The old tests must hold on the new code: each is reported, and none fails.
    fn check_old_tests(&self, proof: &mut Proof) {
        let Some(old) = self.old_tests else {
            let why = format!("the old tests of {} did not run on the new code", self.gate);
            return proof.doubt(ProofVerdict::NeedsReview, why);
        };
        if let GateOutcome::Unknown(unknown) = &old.outcome {
            let what = format!("the old tests of {} gave no result on the new code", self.gate);
            return proof
                .doubt(ProofVerdict::NeedsReview, format!("{what}: {}", unknown.describe()));
        }
        if self.canary == CanaryResult::Silent {
            let why = match (&old.outcome, &old.cases, old.findings.first()) {
                (GateOutcome::Failed, None, Some(first)) => {
                    let what =
                        format!("the old tests of {} do not start on the new code", self.gate);
                    text::clean_line(&format!("{what}: {}", first.message), MAX_MESSAGE_CHARS)
                }
                _ => format!("{} did not report a failing test that was added to it", self.gate),
            };
            proof.doubt(ProofVerdict::NeedsReview, why);
        }
        if self.new_canary == CanaryResult::Silent {
            let what = "with its new settings did not report a failing test that was added to it";
            proof.doubt(ProofVerdict::NeedsReview, format!("{} {what}", self.gate));
        }
        match (self.before.and_then(|before| before.cases.as_ref()), &old.cases) {
            // A gate that names no tests counts as one test.
            (None, None) if old.outcome == GateOutcome::Passed => {
                proof.held = proof.held.saturating_add(1);
            }
            (None, None) => proof.broken.push(self.broken_test(self.gate, BrokenHow::Fails)),
            (before, old) => {
                let none = TestCases { is_complete: true, ..TestCases::default() };
                let (before, old) = (before.unwrap_or(&none), old.as_ref().unwrap_or(&none));
                self.compare_names(before, old, proof);
            }
        }
    }

    fn compare_names(&self, before: &TestCases, old: &TestCases, proof: &mut Proof) {
        let (passed, failed) = (name_set(&old.passed), name_set(&old.failed));
        let expected = name_set(&before.passed).into_iter().chain(name_set(&before.failed));
        for test in &failed {
            proof.broken.push(self.broken_test(test, BrokenHow::Fails));
        }
        for test in expected {
            if passed.contains(test) {
                proof.held = proof.held.saturating_add(1);
            } else if !failed.contains(test) && old.is_complete {
                proof.broken.push(self.broken_test(test, BrokenHow::Missing));
            }
        }
        if !before.is_complete || !old.is_complete {
            let why = format!("{} does not name all of its tests", self.gate);
            proof.doubt(ProofVerdict::Green, why);
        }
    }

    /// Finds the tests that pass now and fail without the change.
    fn find_telling_tests(&self, proof: &mut Proof) {
        let (Some(now), Some(new)) = (self.now, self.new_tests) else { return };
        let has_failed = match &new.outcome {
            GateOutcome::Passed => false,
            GateOutcome::Failed => true,
            // The old code may hang where the new one answers.
            GateOutcome::Unknown(unknown) => unknown.is_timeout(),
        };
        if now.outcome != GateOutcome::Passed || !has_failed {
            return;
        }
        let none = TestCases::default();
        let cases =
            |report: Option<&'a GateReport>| report.and_then(|report| report.cases.as_ref());
        let (now, new) = (cases(self.now), cases(self.new_tests).unwrap_or(&none));
        let Some(now) = now else { return proof.telling.push(self.telling_test(self.gate)) };
        let (passed, failed) = (name_set(&now.passed), name_set(&new.failed));
        let mut telling: Vec<&str> = passed.intersection(&failed).copied().collect();
        if telling.is_empty() {
            // Tests that do not compile or load without the change are not reported at all.
            let known = name_set(&cases(self.before).unwrap_or(&none).passed);
            let reported = name_set(&new.passed);
            let missing = || passed.difference(&reported).copied();
            telling = missing().filter(|test| !known.contains(test)).collect();
            if telling.is_empty() && missing().next().is_some() {
                telling.push(self.gate);
            }
        }
        proof.telling.extend(telling.into_iter().map(|test| self.telling_test(test)));
    }

    /// Why it is not known whether a test fails without the change.
    fn unknown_telling_tests(&self) -> Option<String> {
        match &self.new_tests?.outcome {
            GateOutcome::Unknown(unknown) if !unknown.is_timeout() => {
                let what = format!("the new tests of {} gave no result on the old code", self.gate);
                Some(format!("{what}: {}", unknown.describe()))
            }
            GateOutcome::Unknown(_) | GateOutcome::Passed | GateOutcome::Failed => None,
        }
    }

    fn telling_test(&self, test: &str) -> TellingTest {
        TellingTest { gate: self.gate.to_string(), test: test.to_string() }
    }

    fn broken_test(&self, test: &str, how: BrokenHow) -> BrokenTest {
        let findings = self.old_tests.map_or(&[][..], |old| &old.findings);
        let is_about = |finding: &&Finding| {
            finding.rule.as_deref().is_some_and(|rule| rule.contains(test) || test.contains(rule))
        };
        let message = findings.iter().find(is_about).or_else(|| findings.first());
        let message = message
            .filter(|_| how == BrokenHow::Fails)
            .map_or_else(String::new, |one| text::clean_line(&one.message, MAX_MESSAGE_CHARS));
        BrokenTest { gate: self.gate.to_string(), test: test.to_string(), how, message }
    }
}

fn name_set(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::UnknownReason;

    fn report(outcome: GateOutcome, cases: Option<TestCases>) -> GateReport {
        GateReport { cases, ..GateReport::new("tests", outcome, 0) }
    }

    /// `+a -b ~c` is a report in which `a` passed, `b` failed and `c` was skipped. `pass` and `fail` name no tests, and
    /// `none` is a run that did not take place.
    fn parse(text: &str) -> Option<GateReport> {
        Some(match text {
            "none" => return None,
            "pass" => report(GateOutcome::Passed, None),
            "fail" => report(GateOutcome::Failed, None),
            "timeout" => {
                report(GateOutcome::Unknown(UnknownReason::Timeout { after_ms: 60_000 }), None)
            }
            "broken" => {
                let why = "no such program".to_string();
                report(GateOutcome::Unknown(UnknownReason::Error(why)), None)
            }
            named => {
                let of = |sign: char| -> Vec<String> {
                    let words = named.split(' ').filter_map(|word| word.strip_prefix(sign));
                    words.map(ToString::to_string).collect()
                };
                let is_complete = !named.ends_with('…');
                let cases =
                    TestCases { passed: of('+'), failed: of('-'), skipped: of('~'), is_complete };
                let is_red = !cases.failed.is_empty() || named.ends_with(" !");
                let outcome = if is_red { GateOutcome::Failed } else { GateOutcome::Passed };
                report(outcome, Some(cases))
            }
        })
    }

    fn judge(runs: [&str; 4], canary: CanaryResult) -> String {
        let [before, now, old_tests, new_tests] = runs.map(parse);
        let gate = GateProof {
            gate: "tests",
            before: before.as_ref(),
            now: now.as_ref(),
            old_tests: old_tests.as_ref(),
            new_tests: new_tests.as_ref(),
            canary,
            new_canary: CanaryResult::NotPossible,
        };
        let proof = evaluate(&[gate], &[]);
        let mut words = vec![format!("{} held {}", proof.verdict.name(), proof.held)];
        let telling: Vec<_> = proof.telling.iter().map(|one| one.test.as_str()).collect();
        if !telling.is_empty() {
            words.push(format!("telling {}", telling.join(" ")));
        }
        for one in &proof.broken {
            words.push(match one.how {
                BrokenHow::Fails => format!("{} fails", one.test),
                BrokenHow::Missing => format!("{} missing", one.test),
            });
        }
        words.extend(proof.doubts);
        words.join("; ")
    }

    /// R-V1a, R-V1b: a change is verified only if the tests of the base hold on the new code and a test distinguishes
    /// the new code from the old. Each row: old on old, new on new, old tests on new code, new tests on old code.
    #[test]
    fn verdicts_of_the_four_runs() {
        let rows = [
            // Honest work.
            (["+a", "+a +b", "+a", "+a -b"], "verified held 1; telling b"),
            (["+a -b", "+a +b", "+a +b", "+a -b"], "verified held 2; telling b"),
            (["+a", "+a +b", "+a", "fail"], "verified held 1; telling b"),
            (["+a", "+a", "+a", "fail"], "verified held 1; telling tests"),
            (["+a", "+a +b", "+a", "timeout"], "verified held 1; telling b"),
            (["fail", "+a", "+a", "fail"], "verified held 0; telling a"),
            (["fail", "pass", "pass", "fail"], "verified held 1; telling tests"),
            // No test distinguishes the code.
            (["+a", "+a", "+a", "+a"], "green held 1"),
            (["+a", "+a +b", "+a", "+a +b"], "green held 1"),
            (["pass", "pass", "pass", "pass"], "green held 1"),
            (
                ["+a", "+a +b", "+a", "broken"],
                "green held 1; the new tests of tests gave no result on the old code: no such program",
            ),
            // The old tests do not hold.
            (["+a +b", "+a", "+a -b", "+a"], "needs_review held 1; b fails"),
            (["+a +b", "+a", "+a", "+a"], "needs_review held 1; b missing"),
            (["+a +b", "+a ~b", "+a ~b", "+a"], "needs_review held 1; b missing"),
            (["+a -b", "+a", "+a -b", "+a"], "needs_review held 1; b fails"),
            (["pass", "pass", "fail", "pass"], "needs_review held 0; tests fails"),
            (["fail", "pass", "fail", "fail"], "needs_review held 0; telling tests; tests fails"),
            (["+a +b", "+a +b", "fail", "+a +b"], "needs_review held 0; a missing; b missing"),
            (
                ["+a", "+a +b", "broken", "+a -b"],
                "needs_review held 0; telling b; the old tests of tests gave no result on the new code: no such program",
            ),
            (
                ["+a", "+a +b", "none", "+a -b"],
                "needs_review held 0; telling b; the old tests of tests did not run on the new code",
            ),
            // The names are not all known.
            (
                ["+a +b …", "+a +b", "+a …", "-a …"],
                "green held 1; telling a; tests does not name all of its tests",
            ),
            // The change fails its own tests.
            (
                ["+a", "-a", "none", "none"],
                "failed held 0; tests fails; the old tests of tests did not run on the new code",
            ),
        ];
        for (runs, expected) in rows {
            assert_eq!(judge(runs, CanaryResult::Failed), expected, "{runs:?}");
        }
    }

    /// R-V1c: a harness that does not report an added failing test proves nothing.
    #[test]
    fn a_harness_that_cannot_fail_proves_nothing() {
        let runs = ["+a", "+a +b", "+a", "+a -b"];
        assert_eq!(
            judge(runs, CanaryResult::Silent),
            "needs_review held 1; telling b; tests did not report a failing test that was added to it"
        );
        assert_eq!(judge(runs, CanaryResult::NotPossible), "verified held 1; telling b");
    }

    /// R-V1c: if no test runs, the harness may be sound. The reason is the first thing that it reports.
    #[test]
    fn old_tests_that_do_not_start_are_not_a_harness_that_cannot_fail() {
        let [before, now, mut old_tests, new_tests] = ["+a", "+a", "fail", "+a"].map(parse);
        let message = Finding::new("cannot import name 'b'".to_string());
        old_tests.as_mut().unwrap().findings.push(message);
        let gate = GateProof {
            gate: "tests",
            before: before.as_ref(),
            now: now.as_ref(),
            old_tests: old_tests.as_ref(),
            new_tests: new_tests.as_ref(),
            canary: CanaryResult::Silent,
            new_canary: CanaryResult::NotPossible,
        };
        let proof = evaluate(&[gate], &[]);
        assert_eq!(proof.verdict, ProofVerdict::NeedsReview);
        assert_eq!(
            proof.doubts,
            ["the old tests of tests do not start on the new code: cannot import name 'b'"]
        );
    }

    /// R-V1c: the same holds for a harness that the change brings along, in which no new test can be believed.
    #[test]
    fn a_new_harness_that_cannot_fail_proves_nothing() {
        let [before, now, old_tests, new_tests] = ["+a", "+a +b", "+a", "+a -b"].map(parse);
        let gate = GateProof {
            gate: "tests",
            before: before.as_ref(),
            now: now.as_ref(),
            old_tests: old_tests.as_ref(),
            new_tests: new_tests.as_ref(),
            canary: CanaryResult::Failed,
            new_canary: CanaryResult::Silent,
        };
        let proof = evaluate(&[gate], &[]);
        assert_eq!(proof.verdict, ProofVerdict::NeedsReview);
        assert_eq!(
            proof.doubts,
            ["tests with its new settings did not report a failing test that was added to it"]
        );
    }

    /// R-V1f: a checkout in which gates fail that passed in the project is not representative.
    #[test]
    fn a_checkout_that_disagrees_with_the_project_proves_nothing() {
        let gate = |name, now| GateProof { gate: name, now, ..GateProof::default() };
        let (mut failed, none, passed) = (parse("-a"), parse("timeout"), parse("pass"));
        let message = Finding::new("no module named yaml".to_string());
        failed.as_mut().unwrap().findings.push(message);
        let gates = [
            gate("tests", failed.as_ref()),
            gate("slow", none.as_ref()),
            gate("lint", passed.as_ref()),
        ];
        let proof = report_disagreement(&gates);
        assert_eq!(proof.verdict, ProofVerdict::Green);
        assert_eq!(
            proof.doubts,
            [
                "`tests` passes in the project and fails in a clean checkout of it: no module named yaml",
                "`slow` passes in the project and gives no result in a clean checkout of it: timed out after 1 min",
            ]
        );
        let text = serde_json::to_string(&proof).unwrap();
        assert_eq!(serde_json::from_str::<Proof>(&text).unwrap(), proof);
    }

    #[test]
    fn inseparable_files_allow_no_more_than_green() {
        let [before, now, old_tests, new_tests] = ["+a", "+a +b", "+a", "+a -b"].map(parse);
        let gate = GateProof {
            gate: "tests",
            before: before.as_ref(),
            now: now.as_ref(),
            old_tests: old_tests.as_ref(),
            new_tests: new_tests.as_ref(),
            canary: CanaryResult::Failed,
            new_canary: CanaryResult::Failed,
        };
        let proof = evaluate(&[gate], &["src/lib.py".to_string()]);
        assert_eq!(proof.verdict, ProofVerdict::Green);
        assert_eq!(proof.doubts, ["tests cannot be separated from code in src/lib.py"]);
    }
}
