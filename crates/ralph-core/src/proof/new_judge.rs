//! Gates whose judge is new: the base could not be judged by them, so it has no old tests of theirs.

use super::{CanaryResult, ChangedFileFacts, GateProof, Proof, ProofVerdict};
use crate::gate::{GateOutcome, GateReport};
use alloc::format;
use alloc::vec::Vec;

/// How many tests are named.
const MAX_NAMED_TESTS: usize = 3;

impl GateProof<'_> {
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
    use crate::gate::UnknownReason;
    use crate::test_cases::TestCases;
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
        let named = report(GateOutcome::Failed, Some("b"));
        assert_eq!(verdict(&named, &failed, &["tests"], &[]), "verified");
    }
}
