//! Gates whose judge is new: the base could not be judged by them, so it has no old tests of theirs.

use super::{CanaryResult, ChangedFileFacts, GateProof, Proof, ProofVerdict};
use crate::gate::{GateOutcome, GateReport};
use crate::test_cases::TestCases;
use alloc::format;
use alloc::vec::Vec;

/// How many tests are named.
const MAX_NAMED_TESTS: usize = 3;

impl GateProof<'_> {
    /// Whether a gate without names passes only, or perhaps, because a person allowed its files to change.
    pub(super) fn is_allowed_to_differ(&self, files: &ChangedFileFacts) -> bool {
        let has_passed = self.before.is_some_and(|before| before.outcome == GateOutcome::Passed);
        let is_changed = files.changed_judges.iter().any(|gate| gate == self.gate);
        !files.allowed.is_empty() && (!has_passed || is_changed)
    }

    /// Whether the gate runs files that the base does not have, and reported nothing without them.
    pub(super) fn has_new_judge(&self, files: &ChangedFileFacts) -> bool {
        let reports_nothing = |report: Option<&GateReport>| {
            report.is_some_and(|one| one.outcome != GateOutcome::Passed && one.cases.is_none())
        };
        files.new_judges.iter().any(|gate| gate == self.gate)
            && reports_nothing(self.before)
            && reports_nothing(self.old_tests)
    }

    /// There are no old tests, but the new harness must be able to fail, and tests that nothing runs are a doubt.
    pub(super) fn check_new_judge(&self, files: &ChangedFileFacts, proof: &mut Proof) {
        self.check_new_canary(proof);
        if !files.unjudged_tests.is_empty() {
            let tests = files.unjudged_tests.iter().take(MAX_NAMED_TESTS);
            let names: Vec<_> = tests.map(|test| format!("`{test}`")).collect();
            let why = format!(
                "{} could not run in the base, so nothing shows that its tests hold: {}",
                self.gate,
                names.join(", ")
            );
            proof.doubt(ProofVerdict::Green, why);
        }
    }

    /// Whether the base has no test at all, and the gate, which is the same, found none there. It then has no old tests
    /// to hold. It must run tests now: a gate without them is a test by itself, of old code too.
    pub(super) fn has_untested_base(&self, files: &ChangedFileFacts) -> bool {
        let names_none = |report: &GateReport| {
            let is_empty = |cases: &TestCases| cases.passed.is_empty() && cases.failed.is_empty();
            report.cases.as_ref().is_none_or(is_empty)
                && report.tests.is_none_or(|tests| tests.run == 0)
        };
        let found_none = |one: &GateReport| one.outcome != GateOutcome::Passed && names_none(one);
        files.is_base_untested
            && !files.changed_judges.iter().any(|gate| gate == self.gate)
            && self.now.is_some_and(GateReport::has_passed_tests)
            && self.before.is_some_and(found_none)
            && self.old_tests.is_some_and(names_none)
    }

    pub(super) fn check_new_canary(&self, proof: &mut Proof) {
        if self.new_canary == CanaryResult::Silent {
            let what = "with its new settings did not report a failing test that was added to it";
            proof.doubt(ProofVerdict::NeedsReview, format!("{} {what}", self.gate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::*;
    use crate::gate::{TestCounts, UnknownReason};
    use std::string::{String, ToString};
    use std::vec;

    fn report(outcome: GateOutcome, passed: Option<&str>) -> GateReport {
        let cases = passed.map(|test| TestCases {
            passed: vec![test.to_string()],
            is_complete: true,
            ..TestCases::default()
        });
        GateReport { cases, ..GateReport::new("tests", outcome, 0) }
    }

    /// R-V1h: a gate without a judge in the base has no old tests there. One that reported something there has.
    #[test]
    fn a_gate_without_a_judge_in_the_base_has_no_old_tests() {
        let missing = || {
            report(GateOutcome::Unknown(UnknownReason::Error("no `Makefile`".to_string())), None)
        };
        let (passed, failed) =
            (report(GateOutcome::Passed, Some("a")), report(GateOutcome::Failed, None));
        let verdict =
            |base: &GateReport, new_tests: &GateReport, judges: &[&str], tests: &[&str]| {
                let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect();
                let files = ChangedFileFacts {
                    new_judges: strings(judges),
                    unjudged_tests: strings(tests),
                    ..ChangedFileFacts::default()
                };
                let gate = GateProof {
                    gate: "tests",
                    before: Some(base),
                    now: Some(&passed),
                    old_tests: Some(base),
                    new_tests: Some(new_tests),
                    ..GateProof::default()
                };
                let proof = evaluate(&[gate], &files);
                let mut shown = String::from(proof.verdict.name());
                for doubt in proof.doubts {
                    shown.push_str(": ");
                    shown.push_str(&doubt);
                }
                shown
            };
        assert_eq!(verdict(&missing(), &failed, &["tests"], &[]), "verified");
        assert_eq!(verdict(&failed, &failed, &["tests"], &[]), "verified");
        assert_eq!(verdict(&missing(), &passed, &["tests"], &[]), "green");
        assert_eq!(
            verdict(&missing(), &failed, &["tests"], &["a.py"]),
            "green: tests could not run in the base, so nothing shows that its tests hold: `a.py`"
        );
        assert_eq!(
            verdict(&missing(), &failed, &["other"], &[]),
            "needs_review: the old tests of tests gave no result on the new code: no `Makefile`"
        );
        let gate = GateProof {
            gate: "tests",
            before: Some(&failed),
            now: Some(&passed),
            old_tests: Some(&failed),
            new_tests: Some(&failed),
            new_canary: CanaryResult::Silent,
            ..GateProof::default()
        };
        let files = ChangedFileFacts {
            new_judges: vec!["tests".to_string()],
            ..ChangedFileFacts::default()
        };
        assert_eq!(evaluate(&[gate], &files).verdict, ProofVerdict::NeedsReview);
        let named = report(GateOutcome::Failed, Some("b"));
        assert_eq!(verdict(&named, &failed, &["tests"], &[]), "verified");
    }

    /// The report that a word of the table below stands for.
    fn described_report(word: &str) -> GateReport {
        let unknown = |unknown| report(GateOutcome::Unknown(unknown), None);
        match word {
            "a" => report(GateOutcome::Passed, Some("a")),
            "b" => report(GateOutcome::Failed, Some("b")),
            "quiet" => report(GateOutcome::Passed, None),
            "red" => {
                let tests = Some(TestCounts { run: 2, failed: 1, skipped: 0 });
                GateReport { tests, ..report(GateOutcome::Failed, None) }
            }
            "counted" => {
                let tests = Some(TestCounts { run: 2, failed: 0, skipped: 0 });
                GateReport { tests, ..report(GateOutcome::Passed, None) }
            }
            "no-tests" => unknown(UnknownReason::Inconclusive("no tests ran".to_string())),
            "no-manifest" => {
                let why = "no `Cargo.toml`".to_string();
                GateReport { exit: Some(101), ..unknown(UnknownReason::Error(why)) }
            }
            _ => report(GateOutcome::Failed, None),
        }
    }

    /// R-V1h: a base without any test has no old tests, whatever the runner says about that. One with tests that
    /// report nothing has.
    #[test]
    fn a_base_without_tests_has_nothing_to_hold() {
        let no_result =
            "needs_review: the old tests of tests gave no result on the new code: no tests ran";
        let not_started =
            "green: the new tests of tests gave no result on the old code: no `Cargo.toml`";
        // The base and the change, then `before`, `now`, `old_tests` and `new_tests`.
        for (facts, reports, expected) in [
            ("untested", "no-tests a no-tests fail", "verified"),
            ("untested", "fail counted fail fail", "verified"),
            ("untested", "no-tests a no-tests a", "green"),
            ("tested", "no-tests a no-tests fail", no_result),
            ("untested, changed judge", "no-tests a no-tests fail", no_result),
            // A gate without tests is one itself.
            ("untested", "fail quiet fail fail", "needs_review"),
            // Tests that the classes of files do not know.
            ("untested", "b a no-tests fail", no_result),
            ("untested", "red a no-tests fail", no_result),
            // A runner that does not start says nothing about the tests.
            ("untested", "no-manifest a quiet no-manifest", not_started),
            ("untested", "no-manifest a quiet fail", "verified"),
        ] {
            let judges = facts.contains("changed judge").then(|| "tests".to_string());
            let files = ChangedFileFacts {
                is_base_untested: facts.starts_with("untested"),
                changed_judges: judges.into_iter().collect(),
                ..ChangedFileFacts::default()
            };
            let run: Vec<GateReport> = reports.split(' ').map(described_report).collect();
            let gate = GateProof {
                gate: "tests",
                before: run.first(),
                now: run.get(1),
                old_tests: run.get(2),
                new_tests: run.get(3),
                ..GateProof::default()
            };
            let proof = evaluate(&[gate], &files);
            let doubts = proof.doubts.iter().map(|doubt| format!(": {doubt}"));
            let shown = format!("{}{}", proof.verdict.name(), doubts.collect::<String>());
            assert_eq!(shown, expected, "{facts}: {reports}");
        }
    }
}
