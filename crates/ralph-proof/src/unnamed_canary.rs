//! The canary of a new judge that names no tests. Its tests are not compared by name, so a failing test beside them can
//! show only in the outcome of the whole gate: it passes without the canary and must fail with it.

use ralph_core::gate::{GateOutcome, GateReport};
use ralph_core::proof::CanaryResult;

use crate::first_step::FirstStep;
use crate::proof_plan::ProofPlan;
use crate::proof_step::{StepGate, run_step};
use crate::prove::{ProofError, ProofRequest};

/// Runs the gates without names of which the judge is new on the change itself, with a canary. `gates` are those that
/// run tests.
pub(crate) fn run_unnamed_canaries(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    gates: &[StepGate<'_>],
    first: &mut FirstStep<'_>,
) -> Result<(), ProofError> {
    for (gate, at) in gates.iter().zip(&first.chosen) {
        let is_unnamed = first.now.reports.get(*at).is_some_and(|report| report.cases.is_none());
        let has_new_judge = plan.file_facts.new_judges.contains(&gate.gate.name);
        if !is_unnamed || !has_new_judge {
            continue;
        }
        let with_canary = StepGate { wants_canary: true, ..gate.whole() };
        let ran = run_step(request, &plan.now, &[with_canary])?;
        if let (Some(canary), Some(report), Some(known)) =
            (ran.canaries.first(), ran.reports.first(), first.now.canaries.get_mut(*at))
        {
            *known = unnamed_canary(*canary, report);
        }
    }
    Ok(())
}

fn unnamed_canary(canary: CanaryResult, report: &GateReport) -> CanaryResult {
    match (canary, &report.outcome) {
        (CanaryResult::Silent, GateOutcome::Failed) => CanaryResult::Failed,
        (canary, _) => canary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-V1c: without names, a canary is reported if the gate fails with it.
    #[test]
    fn a_gate_without_names_must_fail_with_a_canary() {
        use CanaryResult::{Failed, NotPossible, Silent};
        for (canary, outcome, expected) in [
            (Silent, GateOutcome::Failed, Failed),
            (Silent, GateOutcome::Passed, Silent),
            (Failed, GateOutcome::Failed, Failed),
            (NotPossible, GateOutcome::Passed, NotPossible),
        ] {
            let report = GateReport::new("tests", outcome, 0);
            assert_eq!(unnamed_canary(canary, &report), expected, "{canary:?}");
        }
    }
}
