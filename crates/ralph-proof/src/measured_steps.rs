//! The results of all steps of a proof, and what they show together.

use ralph_core::gate::GateReport;
use ralph_core::proof::{self, CanaryResult, GateProof, Proof, ProofVerdict, TellingTest};
use ralph_core::test_cases::TestCases;

use crate::proof_plan::ProofPlan;
use crate::proof_step::{StepGate, StepResult, run_step};
use crate::prove::{ProofError, ProofRequest};
use crate::reported_paths::{code_reported_as_tests, runs_examples};
use crate::test_selection::complete_report;

/// The results of all steps.
pub(crate) struct MeasuredSteps<'a> {
    /// The position of each gate in `now`, which may have more gates than the other steps.
    pub chosen: &'a [usize],
    pub before: &'a StepResult,
    pub now: &'a StepResult,
    pub old_tests: &'a StepResult,
    pub new_tests: &'a StepResult,
}

impl MeasuredSteps<'_> {
    pub(crate) fn evaluate(
        &self,
        request: &ProofRequest<'_>,
        plan: &ProofPlan<'_>,
        gates: &[StepGate<'_>],
    ) -> Proof {
        let whole: Vec<Option<[GateReport; 3]>> =
            gates.iter().enumerate().map(|(at, gate)| self.complete(request, at, gate)).collect();
        let or_whole = |at: usize, run: usize, report| {
            whole[at].as_ref().map_or(report, |reports| reports.get(run))
        };
        let proof = |at: usize| {
            let in_now = self.chosen[at];
            GateProof {
                gate: &gates[at].gate.name,
                before: self.before.reports.get(at),
                now: or_whole(at, 0, self.now.reports.get(in_now)),
                old_tests: or_whole(at, 1, self.old_tests.reports.get(at)),
                new_tests: or_whole(at, 2, self.new_tests.reports.get(at)),
                canary: self.old_tests.canaries.get(at).copied().unwrap_or_default(),
                new_canary: match self.now.canaries.get(in_now) {
                    Some(canary) if plan.has_new_harness => *canary,
                    Some(_) | None => CanaryResult::NotPossible,
                },
            }
        };
        let proofs: Vec<GateProof<'_>> = (0..gates.len()).map(proof).collect();
        let mut proof = proof::evaluate(&proofs, &plan.file_facts);
        let reports = proofs.iter().flat_map(|gate| [gate.before, gate.now]).flatten();
        let cases = reports.filter_map(|report| report.cases.as_ref());
        let cases: Vec<&TestCases> = cases.collect();
        let examples = plan.examples.iter().filter(|path| runs_examples(path, &cases));
        let examples: Vec<&str> = examples.map(String::as_str).collect();
        if !examples.is_empty() {
            let why = format!("examples that run as tests were changed in {}", examples.join(", "));
            proof.doubt(ProofVerdict::Green, why);
        }
        if request.accepts_old_failures {
            for gate in proofs_without_old_passes(&proofs) {
                let why = format!(
                    "old failures of {gate} are accepted, but no test passes in a checkout of the base, which may lack something"
                );
                proof.doubt(ProofVerdict::Green, why);
            }
        }
        let reported = code_reported_as_tests(&plan.changed_code, cases.into_iter());
        if !reported.is_empty() {
            let why = format!(
                "tests that count as code were changed: {}; `[tests] paths` in ralph.toml can name them",
                reported.join(", ")
            );
            proof.doubt(ProofVerdict::Green, why);
        }
        proof
    }

    /// Tests that were not selected ran once on the new code, in the project, and may have passed by chance. If the
    /// proof rests on nothing else, their gates run whole in a checkout, and only tests that pass again count.
    pub(crate) fn confirm_unselected(
        &self,
        request: &ProofRequest<'_>,
        plan: &ProofPlan<'_>,
        gates: &[StepGate<'_>],
        proof: &mut Proof,
    ) -> Result<(), ProofError> {
        let has_passed = |report: Option<&GateReport>, test: &TellingTest| {
            let cases = report.and_then(|report| report.cases.as_ref());
            cases.is_some_and(|cases| cases.passed.contains(&test.test))
        };
        let is_unselected = |test: &TellingTest| {
            let at = gates.iter().position(|gate| gate.gate.name == test.gate);
            let now = at.and_then(|at| self.now.reports.get(self.chosen[at]));
            let is_selected = at.is_some_and(|at| gates[at].files.is_some());
            is_selected && !has_passed(now, test) && test.test != test.gate
        };
        let rests_on_others = !proof.telling.is_empty() && proof.telling.iter().all(is_unselected);
        if proof.verdict != ProofVerdict::Verified || !rests_on_others {
            return Ok(());
        }
        let is_needed =
            |gate: &&StepGate<'_>| proof.telling.iter().any(|test| test.gate == gate.gate.name);
        let whole: Vec<StepGate<'_>> =
            gates.iter().filter(is_needed).map(StepGate::whole).collect();
        let again = run_step(request, &plan.now, &whole)?;
        let is_confirmed = |test: &TellingTest| {
            has_passed(again.reports.iter().find(|report| report.name == test.gate), test)
        };
        let unconfirmed: Vec<TellingTest> =
            proof.telling.iter().filter(|test| !is_confirmed(test)).cloned().collect();
        proof.telling.retain(is_confirmed);
        if let (true, Some(first)) = (proof.telling.is_empty(), unconfirmed.first()) {
            let why = format!(
                "`{}` fails without the change, passes in the project and does not pass in a clean checkout of it",
                first.test
            );
            proof.doubt(ProofVerdict::Green, why);
        }
        Ok(())
    }

    /// If only some tests of a gate ran: its reports of `now`, `old_tests` and `new_tests` with the results of the others.
    fn complete(
        &self,
        request: &ProofRequest<'_>,
        at: usize,
        gate: &StepGate<'_>,
    ) -> Option<[GateReport; 3]> {
        gate.files?;
        let (tree, before) = (request.tree_report(gate.gate)?, self.before.reports.get(at)?);
        let now = self.now.reports.get(self.chosen[at])?;
        let (old, new) = (self.old_tests.reports.get(at)?, self.new_tests.reports.get(at)?);
        Some([
            complete_report(now, tree, &[old]),
            complete_report(old, tree, &[now]),
            complete_report(new, before, &[now, old]),
        ])
    }
}

/// Gates of which no test passes in the base and some test still fails.
fn proofs_without_old_passes<'a>(proofs: &[GateProof<'a>]) -> Vec<&'a str> {
    let cases = |report: Option<&'a GateReport>| report.and_then(|report| report.cases.as_ref());
    let is_in_doubt = |proof: &&GateProof<'a>| match (cases(proof.before), cases(proof.now)) {
        (Some(before), Some(now)) => {
            before.passed.is_empty() && now.failed.iter().any(|test| before.failed.contains(test))
        }
        (Some(_) | None, _) => false,
    };
    proofs.iter().filter(is_in_doubt).map(|proof| proof.gate).collect()
}
