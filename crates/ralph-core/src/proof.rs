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
//! If settings changed, a fifth run has the new code and the new tests with the settings of the base;
//! [`judge_old_settings`] evaluates it.
//!
//! The old tests must still hold on the new code, and at least one test must fail without it. Nothing here runs
//! anything; the `ralph-proof` crate does.

mod new_judge;
mod old_settings;
mod proof_runs;
mod proof_step;
mod proof_verdict;

pub use old_settings::{SettingsRuns, judge_old_settings};
pub use proof_runs::{BaseResults, ProofRuns};
pub use proof_step::ProofStep;
pub use proof_verdict::ProofVerdict;

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
    /// How many tests of the base hold on the new code. A gate that names no tests counts as one.
    pub held: usize,
    /// How many of them are gates that name no tests.
    #[serde(default)]
    pub held_checks: usize,
    /// Tests that pass now and fail without the change.
    pub telling: Vec<TellingTest>,
    pub broken: Vec<BrokenTest>,
    /// Why the verdict is not better, apart from `broken`: one line each.
    pub doubts: Vec<String>,
    /// Tests of the base that hold on the new code but were removed, or are skipped now.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Files with tests that a person allowed to change, and that did. Their new version counts as the old one.
    #[serde(default)]
    pub allowed: Vec<String>,
    /// Whether nothing that the agent does can improve it.
    #[serde(default)]
    pub is_final: bool,
    /// Empty if the proof could not be made.
    #[serde(default)]
    pub runs: ProofRuns,
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

/// What a proof has to know about the changed files.
#[derive(Clone, Debug, Default)]
pub struct ChangedFileFacts {
    /// They hold code and tests at once and could not be taken apart; with them a proof is at most
    /// [`ProofVerdict::Green`].
    pub inseparable: Vec<String>,
    /// A person allowed them to change.
    pub allowed: Vec<String>,
    /// Whether files with tests changed, not only settings and helpers.
    pub has_changed_tests: bool,
    /// Files with inline tests that were deleted. Without names of the tests of the base, nothing shows that they are
    /// missing.
    pub deleted_with_tests: Vec<String>,
    /// Gates of which every file that they run or read their commands from is new.
    pub new_judges: Vec<String>,
    /// The tests of the base, if a judge is new.
    pub unjudged_tests: Vec<String>,
    /// Gates of which a file or a script that they run, or read their commands from, is in the base and changed.
    pub changed_judges: Vec<String>,
    /// No file of the base is a test or contains one.
    pub is_base_untested: bool,
    /// Files with code that were deleted. A test may be named after one that it was generated from.
    pub deleted_code: Vec<String>,
}

/// Evaluates the four runs of all gates.
pub fn evaluate(gates: &[GateProof<'_>], files: &ChangedFileFacts) -> Proof {
    let inseparable = &files.inseparable;
    let mut proof = Proof::new(ProofVerdict::Verified);
    proof.allowed.clone_from(&files.allowed);
    proof.runs = ProofRuns::count(gates);
    for gate in gates {
        gate.check_now(&mut proof);
        if gate.has_new_judge(files) {
            gate.check_new_judge(files, &mut proof);
        } else if gate.has_untested_base(files) {
            gate.check_new_canary(&mut proof);
        } else {
            gate.check_old_tests(files, &mut proof);
        }
        gate.find_telling_tests(files, &mut proof);
        gate.find_removed_tests(&mut proof);
    }
    if !proof.broken.is_empty() {
        proof.lower_to(ProofVerdict::NeedsReview);
    }
    if !inseparable.is_empty() {
        let why = format!("tests cannot be separated from code in {}", inseparable.join(", "));
        proof.doubt(ProofVerdict::Green, why);
    }
    let names_base = gates.iter().all(|gate| gate.before.is_some_and(|one| one.cases.is_some()));
    if !names_base && !files.deleted_with_tests.is_empty() {
        let names = files.deleted_with_tests.join(", ");
        let why = format!(
            "the tests of the base have no names, and files with tests were deleted: {names}"
        );
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

    /// The outcome when the policy or the machine allows no proof, so that holding the agent would be pointless.
    pub fn impossible(why: &str) -> Self {
        Self { is_final: true, ..Self::unavailable(why.to_string()) }
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
        Self {
            verdict,
            held: 0,
            held_checks: 0,
            telling: Vec::new(),
            broken: Vec::new(),
            doubts: Vec::new(),
            removed: Vec::new(),
            allowed: Vec::new(),
            is_final: false,
            runs: ProofRuns::default(),
        }
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
    /// Tests that fail now as they fail in the base, if the caller did not report them as failures.
    fn accepted_failures(&self) -> BTreeSet<&'a str> {
        let failed = |report: Option<&'a GateReport>| {
            let cases = report.and_then(|report| report.cases.as_ref());
            cases.map(|cases| name_set(&cases.failed)).unwrap_or_default()
        };
        failed(self.now).intersection(&failed(self.before)).copied().collect()
    }

    fn check_now(&self, proof: &mut Proof) {
        let failed = self.now.and_then(|now| now.cases.as_ref()).map_or(0, |one| one.failed.len());
        if failed > 0 && failed == self.accepted_failures().len() {
            return;
        }
        let why = match self.now.map(|now| &now.outcome) {
            Some(GateOutcome::Passed) => return,
            Some(GateOutcome::Failed) => format!("`{}` fails on the change itself", self.gate),
            Some(GateOutcome::Unknown(unknown)) => {
                format!("{} gave no result: {}", self.gate, unknown.describe())
            }
            None => format!("{} did not run", self.gate),
        };
        proof.doubt(ProofVerdict::Failed, why);
    }

    /// The old tests must hold on the new code: each is reported, and none fails.
    fn check_old_tests(&self, files: &ChangedFileFacts, proof: &mut Proof) {
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
        self.check_new_canary(proof);
        match (self.before.and_then(|before| before.cases.as_ref()), &old.cases) {
            // A gate that names no tests counts as one test.
            (None, None) if old.outcome == GateOutcome::Passed => {
                let held = usize::from(!self.is_allowed_to_differ(files));
                proof.held = proof.held.saturating_add(held);
                proof.held_checks = proof.held_checks.saturating_add(held);
            }
            (None, None) => proof.broken.push(self.broken_test(self.gate, BrokenHow::Fails)),
            (before, old) => {
                let none = TestCases { is_complete: true, ..TestCases::default() };
                let (before, old) = (before.unwrap_or(&none), old.as_ref().unwrap_or(&none));
                self.compare_names(before, old, files, proof);
            }
        }
    }

    fn compare_names(
        &self,
        before: &TestCases,
        old: &TestCases,
        files: &ChangedFileFacts,
        proof: &mut Proof,
    ) {
        let (passed, failed) = (name_set(&old.passed), name_set(&old.failed));
        let red = name_set(&before.failed);
        // A file that did not load is reported under its own name. Once it loads, its tests are. A test that failed has
        // to be reported again, even if new code brings tests with new names: tests that are generated from the code
        // would disappear with it.
        let groups = name_set(&before.failed_groups);
        let deleted = name_set(&files.deleted_code);
        let may_be_replaced = |test: &str| groups.contains(test) && !deleted.contains(test);
        let all = || [&before.passed, &before.failed, &before.skipped].into_iter();
        let known: BTreeSet<&str> = all().flat_map(|names| name_set(names)).collect();
        let loads = passed.iter().any(|test| !known.contains(test));
        let expected = name_set(&before.passed).into_iter().chain(red.iter().copied());
        let accepted = self.accepted_failures();
        for test in failed.difference(&accepted) {
            proof.broken.push(self.broken_test(test, BrokenHow::Fails));
        }
        for test in expected {
            if passed.contains(test) {
                // A changed version of a test that fails without the change is not an old test.
                let is_old = proof.allowed.is_empty() || !red.contains(test);
                proof.held = proof.held.saturating_add(usize::from(is_old));
            } else if !failed.contains(test) && old.is_complete && !(may_be_replaced(test) && loads)
            {
                proof.broken.push(self.broken_test(test, BrokenHow::Missing));
            }
        }
        let (ran, expected) = (self.old_tests.and_then(count_run), self.before.and_then(count_run));
        if let (Some(ran), Some(expected)) = (ran, expected)
            && ran < expected
            && proof.broken.is_empty()
        {
            let why =
                format!("only {ran} of {expected} old tests of {} ran on the new code", self.gate);
            proof.doubt(ProofVerdict::NeedsReview, why);
        }
        if !before.is_complete || !old.is_complete {
            let why = format!("{} does not name all of its tests", self.gate);
            proof.doubt(ProofVerdict::Green, why);
        }
    }

    /// Finds the tests of the base that would still pass but do not run any more.
    fn find_removed_tests(&self, proof: &mut Proof) {
        let cases =
            |report: Option<&'a GateReport>| report.and_then(|report| report.cases.as_ref());
        let (Some(now), Some(old)) = (cases(self.now), cases(self.old_tests)) else { return };
        if now.is_complete {
            let present: BTreeSet<&str> =
                [&now.passed, &now.failed].into_iter().flat_map(|names| name_set(names)).collect();
            let removed = name_set(&old.passed).into_iter().filter(|test| !present.contains(test));
            proof.removed.extend(removed.map(ToString::to_string));
        }
    }

    /// Finds the tests that pass now and fail without the change.
    fn find_telling_tests(&self, files: &ChangedFileFacts, proof: &mut Proof) {
        let (Some(now), Some(new)) = (self.now, self.new_tests) else { return };
        let has_failed = match &new.outcome {
            GateOutcome::Passed => false,
            GateOutcome::Failed => true,
            // The old code may hang where the new one answers.
            GateOutcome::Unknown(unknown) => unknown.is_timeout(),
        };
        let is_accepted =
            now.outcome == GateOutcome::Passed || !self.accepted_failures().is_empty();
        if !is_accepted || !has_failed {
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
            // Changed tests may have kept their names. If only settings changed, these do not load.
            if telling.is_empty() && missing().next().is_some() && files.has_changed_tests {
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
        // A name is made of parts, and a rule of some of them: `pytest > tests.test_cart > test_total` is about
        // `tests.test_cart.test_total`.
        let parts: Vec<&str> = test.split(" > ").flat_map(|part| part.split("::")).collect();
        let shared_parts = |finding: &&Finding| {
            let rule = finding.rule.as_deref().unwrap_or_default();
            let before = parts.last().and_then(|last| rule.strip_suffix(last));
            let is_named = before
                .is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            let count = parts.iter().filter(|part| rule.contains(**part)).count();
            if is_named { count } else { 0 }
        };
        let best = findings.iter().filter(|one| shared_parts(one) > 0).max_by_key(shared_parts);
        let only = || findings.first().filter(|_| findings.len() == 1 || test == self.gate);
        let message = best.or_else(only);
        let message = message
            .filter(|_| how == BrokenHow::Fails)
            .map_or_else(String::new, |one| text::clean_line(&one.message, MAX_MESSAGE_CHARS));
        BrokenTest { gate: self.gate.to_string(), test: test.to_string(), how, message }
    }
}

fn count_run(report: &GateReport) -> Option<u32> {
    report.tests.map(|tests| tests.run)
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

    /// `+a -b ~c /d` is a report in which `a` passed, `b` failed, `c` was skipped and the group `d` did not load. `pass`
    /// and `fail` name no tests, and `none` is a run that did not take place.
    fn parse(text: &str) -> Option<GateReport> {
        Some(match text {
            "none" => return None,
            "pass" => report(GateOutcome::Passed, None),
            "fail" => report(GateOutcome::Failed, None),
            "timeout" => report(GateOutcome::Unknown(UnknownReason::timeout(60_000)), None),
            "broken" => {
                let why = "no such program".to_string();
                report(GateOutcome::Unknown(UnknownReason::Error(why)), None)
            }
            named => {
                let of = |sign: char| -> Vec<String> {
                    let words = named.split(' ').filter_map(|word| word.strip_prefix(sign));
                    words.map(ToString::to_string).collect()
                };
                let cases = TestCases {
                    passed: of('+'),
                    failed: [of('-'), of('/')].concat(),
                    skipped: of('~'),
                    failed_groups: of('/'),
                    is_complete: !named.ends_with('…'),
                };
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
        let files = ChangedFileFacts {
            has_changed_tests: true,
            deleted_code: vec!["deleted.js".to_string()],
            ..ChangedFileFacts::default()
        };
        let proof = evaluate(&[gate], &files);
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

    fn named(text: &str, run: u32) -> GateReport {
        let tests = Some(crate::gate::TestCounts { run, failed: 0, skipped: 0 });
        GateReport { tests, ..parse(text).unwrap() }
    }

    /// R-V1b: tests of the same name count as one name, but as several tests.
    #[test]
    fn fewer_old_tests_than_in_the_base_need_a_review() {
        let (before, old) = (named("+a", 2), named("+a", 1));
        let gate = GateProof {
            gate: "tests",
            before: Some(&before),
            now: Some(&old),
            old_tests: Some(&old),
            new_tests: Some(&before),
            ..GateProof::default()
        };
        let proof = evaluate(&[gate], &ChangedFileFacts::default());
        assert_eq!(
            (proof.verdict, proof.doubts),
            (
                ProofVerdict::NeedsReview,
                vec!["only 1 of 2 old tests of tests ran on the new code".to_string()]
            )
        );
    }

    /// A gate that names no tests is a check, not an old test. With files that a person allowed to change it is no
    /// evidence about the old ones.
    #[test]
    fn a_gate_without_names_is_described_as_a_check() {
        let [pass, fail] = ["pass", "fail"].map(|text| parse(text).unwrap());
        let describe = |before: &GateReport, allowed: &[&str], changed_judges: &[&str]| {
            let gate = GateProof {
                gate: "check",
                before: Some(before),
                now: Some(&pass),
                old_tests: Some(&pass),
                new_tests: Some(&fail),
                ..GateProof::default()
            };
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            let files = ChangedFileFacts {
                allowed: owned(allowed),
                changed_judges: owned(changed_judges),
                ..ChangedFileFacts::default()
            };
            evaluate(&[gate], &files).describe()
        };
        assert_eq!(
            [
                describe(&pass, &[], &[]),
                describe(&fail, &[], &[]),
                describe(&pass, &["lib.sh"], &[]),
                describe(&pass, &["test.sh"], &["check"]),
                describe(&fail, &["test.sh"], &["check"]),
            ],
            [
                "1 check passes on the new code; 1 check fails without the change",
                "1 check passes on the new code; 1 check fails without the change",
                "1 check passes on the new code; 1 check fails without the change; allowed to change: lib.sh",
                "no old tests have to pass; 1 check fails without the change; allowed to change: test.sh",
                "no old tests have to pass; 1 check fails without the change; allowed to change: test.sh",
            ]
        );
    }

    /// R-V1a: settings that do not load without the change are no test of it.
    #[test]
    fn settings_that_need_the_change_tell_nothing() {
        let [before, new] = ["+a", "fail"].map(|text| parse(text).unwrap());
        let gate = GateProof {
            gate: "tests",
            before: Some(&before),
            now: Some(&before),
            old_tests: Some(&before),
            new_tests: Some(&new),
            ..GateProof::default()
        };
        let verdict = |has_changed_tests| {
            let files = ChangedFileFacts { has_changed_tests, ..ChangedFileFacts::default() };
            evaluate(&[gate], &files).verdict
        };
        assert_eq!([verdict(true), verdict(false)], [ProofVerdict::Verified, ProofVerdict::Green]);
    }

    /// R-V1b: a change that fails with the settings of the base, other than by a test, needs a review. A test that
    /// fails with them must not hide it.
    #[test]
    fn old_settings_must_accept_the_change() {
        // With the settings of the base, also without the tests that fail with them, and with those of the change.
        for (report, alone, now, verdict) in [
            ("pass", "none", "pass", "verified"),
            ("+a -new", "+a", "+a +new", "verified"),
            ("+a -new", "+a !", "+a +new", "needs_review"),
            ("+a -new", "fail", "+a +new", "green"),
            ("+a -new", "+a -b", "+a +b +new", "green"),
            ("+a -new", "timeout", "+a +new", "green"),
            ("+a -new", "none", "+a +new", "green"),
            ("fail", "none", "pass", "needs_review"),
            ("fail", "none", "+a", "green"),
            ("+a !", "none", "+a", "needs_review"),
            ("broken", "none", "pass", "green"),
            // Accepted failures.
            ("+a -b", "none", "+a -b", "verified"),
            ("+a -b -new", "+a -b", "+a -b +new", "verified"),
        ] {
            let mut proof = Proof::new(ProofVerdict::Verified);
            let without: Vec<GateReport> = parse(alone).into_iter().collect();
            let runs = SettingsRuns {
                settings: &["tsconfig.json".to_string()],
                reports: &[parse(report).unwrap()],
                without_failed_tests: &without,
                now: &[parse(now).unwrap()],
                new_judges: &[],
            };
            judge_old_settings(&mut proof, &runs);
            assert_eq!(proof.verdict.name(), verdict, "{report} | {alone} | {now}");
        }
    }

    /// The message of each broken test is its own.
    #[test]
    fn broken_tests_have_their_own_messages() {
        let finding = |rule: &str, message: &str| Finding {
            rule: Some(rule.to_string()),
            ..Finding::new(message.to_string())
        };
        let findings = vec![
            finding("tests.test_cart.test_a", "1 != 2"),
            finding("tests.test_cart.test_b", "3 != 4"),
        ];
        let old = GateReport { findings, ..parse("-x").unwrap() };
        let gate = GateProof { gate: "tests", old_tests: Some(&old), ..GateProof::default() };
        let message = |test: &str| gate.broken_test(test, BrokenHow::Fails).message;
        assert_eq!(message("pytest > tests.test_cart > test_b"), "3 != 4");
        assert_eq!(message("tests/test_cart.py::test_a"), "1 != 2");
        assert_eq!(message("pytest > tests.test_cart > test_c"), "");
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
            // A file that did not load is reported by its name, until its tests are.
            (["+a /file", "+a +b", "+a +b", "+a /file"], "verified held 1; telling b"),
            // A test that fails as in the base, if that was accepted.
            (["+a -b", "+a -b +c", "+a -b", "+a -b -c"], "verified held 1; telling c"),
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
            // A test that was red, generated from code, disappears with it. Another takes its place.
            (["+a -b", "+a +c", "+a +c", "+a -b"], "needs_review held 1; telling c; b missing"),
            (
                ["+a /file", "+a +b", "+a", "+a /file"],
                "needs_review held 1; telling b; file missing",
            ),
            (
                ["+a /deleted.js", "+a +b", "+a +b", "+a /deleted.js"],
                "needs_review held 1; telling b; deleted.js missing",
            ),
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
                "failed held 0; `tests` fails on the change itself; the old tests of tests did not run on the new code",
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
        let proof = evaluate(&[gate], &ChangedFileFacts::default());
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
        let proof = evaluate(&[gate], &ChangedFileFacts::default());
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
        let proof = evaluate(
            &[gate],
            &ChangedFileFacts {
                inseparable: vec!["src/lib.py".to_string()],
                ..ChangedFileFacts::default()
            },
        );
        assert_eq!(proof.verdict, ProofVerdict::Green);
        assert_eq!(proof.doubts, ["tests cannot be separated from code in src/lib.py"]);
    }
}
