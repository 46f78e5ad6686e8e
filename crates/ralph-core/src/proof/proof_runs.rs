//! How much of a proof was measured, in numbers for its record.

use super::GateProof;
use crate::gate::{GateOutcome, GateReport};
use serde::{Deserialize, Serialize};

/// How much the runs of a proof measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofRuns {
    /// How many gates took part.
    pub gates: u32,
    /// The old tests on the old code. `None` if they gave no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseResults>,
    /// How many gates gave a result with the old tests on the new code.
    pub old_tests: u32,
    /// How many gates gave a result with the new tests on the old code.
    pub new_tests: u32,
}

/// The results of the old tests on the old code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseResults {
    /// How many gates gave a result.
    pub gates: u32,
    /// How many of them passed.
    pub passed: u32,
    /// How many tests ran, as far as the gates count them.
    pub tests: u32,
    /// How many of the tests failed, so that they were red before the work.
    pub failed: u32,
}

impl ProofRuns {
    pub(super) fn count(gates: &[GateProof<'_>]) -> Self {
        let mut runs = Self::default();
        for gate in gates {
            add(&mut runs.gates, 1);
            add(&mut runs.old_tests, u32::from(gate.old_tests.is_some_and(has_result)));
            add(&mut runs.new_tests, u32::from(gate.new_tests.is_some_and(has_result_or_timeout)));
            if let Some(before) = gate.before.filter(|before| has_result(before)) {
                runs.base.get_or_insert_default().add(before);
            }
        }
        runs
    }
}

impl BaseResults {
    fn add(&mut self, before: &GateReport) {
        let (run, failed) = count_tests(before);
        add(&mut self.gates, 1);
        add(&mut self.passed, u32::from(before.outcome == GateOutcome::Passed));
        add(&mut self.tests, run);
        add(&mut self.failed, failed);
    }
}

/// How many tests of a report ran and failed. Names count where the tool gives no numbers.
fn count_tests(report: &GateReport) -> (u32, u32) {
    let count = |names: &[_]| u32::try_from(names.len()).unwrap_or(u32::MAX);
    match (&report.tests, &report.cases) {
        (Some(tests), _) => (tests.run, tests.failed),
        (None, Some(cases)) => {
            let (passed, failed) = (count(&cases.passed), count(&cases.failed));
            (passed.saturating_add(failed), failed)
        }
        (None, None) => (0, 0),
    }
}

fn has_result(report: &GateReport) -> bool {
    match report.outcome {
        GateOutcome::Passed | GateOutcome::Failed => true,
        GateOutcome::Unknown(_) => false,
    }
}

/// The old code may hang where the new one answers, which is a result of the new tests.
fn has_result_or_timeout(report: &GateReport) -> bool {
    let has_hung = matches!(&report.outcome, GateOutcome::Unknown(why) if why.is_timeout());
    has_hung || has_result(report)
}

fn add(count: &mut u32, more: u32) {
    *count = count.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use super::super::{ChangedFileFacts, Proof, evaluate, report_failures};
    use super::*;
    use crate::gate::{TestCounts, UnknownReason};
    use crate::test_cases::TestCases;
    use std::string::ToString;
    use std::vec;

    fn report(outcome: GateOutcome, tests: Option<TestCounts>) -> GateReport {
        GateReport { tests, ..GateReport::new("tests", outcome, 0) }
    }

    /// A hang of the old code is a result. A tool that did not start has none.
    #[test]
    fn only_runs_with_a_result_are_measured() {
        let counted = TestCounts { run: 12, failed: 2, skipped: 1 };
        let [pass, red, hung, broken] = [
            report(GateOutcome::Passed, None),
            report(GateOutcome::Failed, Some(counted)),
            report(GateOutcome::Unknown(UnknownReason::timeout(60_000)), None),
            report(GateOutcome::Unknown(UnknownReason::Error("no such program".to_string())), None),
        ];
        let named = TestCases {
            passed: vec!["a".to_string()],
            failed: vec!["b".to_string()],
            is_complete: true,
            ..TestCases::default()
        };
        let named = GateReport { cases: Some(named), ..report(GateOutcome::Failed, None) };
        let gate = |before, old_tests, new_tests| GateProof {
            gate: "tests",
            before: Some(before),
            now: Some(&pass),
            old_tests: Some(old_tests),
            new_tests: Some(new_tests),
            ..GateProof::default()
        };
        let runs = |gates: &[GateProof<'_>]| evaluate(gates, &ChangedFileFacts::default()).runs;
        let base =
            |gates, passed, tests, failed| Some(BaseResults { gates, passed, tests, failed });
        let expected =
            |gates, base, old_tests, new_tests| ProofRuns { gates, base, old_tests, new_tests };
        assert_eq!(
            [
                runs(&[gate(&pass, &pass, &red)]),
                runs(&[gate(&red, &red, &hung), gate(&named, &broken, &broken)]),
                runs(&[gate(&broken, &hung, &broken)]),
                report_failures(&[gate(&red, &red, &red)]).runs,
                Proof::impossible("no gate is part of the proof").runs,
            ],
            [
                expected(1, base(1, 1, 0, 0), 1, 1),
                expected(2, base(2, 0, 14, 3), 1, 1),
                expected(1, None, 0, 0),
                ProofRuns::default(),
                ProofRuns::default(),
            ]
        );
    }
}
