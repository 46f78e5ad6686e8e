//! The first step of a proof: the gates on the change itself. It decides which gates the other steps run, and how.

use std::collections::BTreeSet;

use ralph_core::gate::{Gate, GateOutcome, GateReport};
use ralph_core::proof::{self, CanaryResult, GateProof, Proof};
use ralph_gates::findings::{confirm_base, label_findings};

use crate::proof_plan::ProofPlan;
use crate::proof_step::{StepGate, StepResult, run_step};
use crate::prove::{
    OtherStepsMode, ProofError, ProofRequest, count_tests, is_test_gate, step_gates,
};
use crate::test_selection::{MIN_SELECTED_MS, select_files};

/// A step may take this many times as long as the first one, and this much longer.
const LIMIT_FACTOR: u64 = 3;
const LIMIT_MARGIN_MS: u64 = 30_000;

/// The gates of the first step and their results.
pub(crate) struct FirstStep<'a> {
    gates: Vec<StepGate<'a>>,
    pub now: StepResult,
    /// The positions of the gates that run tests. The other steps run only these.
    pub chosen: Vec<usize>,
    /// The gates that fail as in the base.
    pub accepted: Vec<&'a str>,
    /// Whether every gate just passed in the project itself.
    passed_in_tree: bool,
    /// Whether the old tests are the new ones, so that one run answers for both steps.
    is_shared: bool,
}

impl<'a> FirstStep<'a> {
    pub(crate) fn run(
        request: &ProofRequest<'a>,
        plan: &'a ProofPlan<'_>,
    ) -> Result<Self, ProofError> {
        let passed_in_tree = request.gates.iter().all(|gate| request.tree_report(gate).is_some());
        // A gate that passed in the project and runs no tests has nothing left to show.
        let is_needed = |gate: &&&Gate| {
            let tree = request.tree_report(gate);
            tree.is_none_or(|report| !passed_in_tree || is_test_gate(gate, report))
        };
        let needed: Vec<&'a Gate> = request.gates.iter().filter(is_needed).copied().collect();
        // A run with a canary cannot show that nothing else fails, but that is known from the project.
        let is_shared = passed_in_tree && plan.old_tests.id == plan.now.id;
        let is_named_in_tree =
            |gate: &Gate| request.tree_report(gate).is_some_and(|report| report.cases.is_some());
        let wants_canary = passed_in_tree && (is_shared || plan.has_new_harness);
        let mut gates = step_gates(&needed, |gate| wants_canary && is_named_in_tree(gate));
        for gate in &mut gates {
            gate.files = is_selected(request, plan, gate.gate).then_some(&plan.new_files);
        }
        let mut now = run_step(request, &plan.now, &gates)?;
        now.disregard_canaries(&gates, request);
        let runs_tests = |at: &usize| is_test_gate(needed[*at], &now.reports[*at]);
        let chosen = (0..needed.len()).filter(runs_tests).collect();
        Ok(Self { gates, now, chosen, accepted: Vec::new(), passed_in_tree, is_shared })
    }

    /// The proof, if no other step is needed.
    pub(crate) fn early_proof(
        &mut self,
        request: &ProofRequest<'_>,
        plan: &ProofPlan<'_>,
    ) -> Result<Option<Proof>, ProofError> {
        let mut is_green = true;
        for (at, (gate, report)) in self.gates.iter().zip(&self.now.reports).enumerate() {
            if report.outcome == GateOutcome::Passed {
                continue;
            }
            if request.accepts_old_failures && fails_as_in_base(request, plan, gate, report)? {
                self.accepted.push(&gate.gate.name);
            } else {
                is_green = false;
            }
            // A linter that fails as before names no tests that could be compared.
            if report.cases.is_none() {
                self.chosen.retain(|chosen| *chosen != at);
            }
        }
        if is_green && !self.chosen.is_empty() && !request.cancel.is_cancelled() {
            return Ok(None);
        }
        let failures = self.now.failures(&self.gates);
        Ok(Some(match (is_green, self.passed_in_tree) {
            (true, _) => Proof::impossible("no gate runs tests"),
            (false, true) => proof::report_disagreement(&failures),
            (false, false) => proof::report_failures(&failures),
        }))
    }

    /// The gates that run tests, with limits and selected files that follow from the results on the change itself.
    pub(crate) fn gates_of_other_steps(&self, plan: &'a ProofPlan<'_>) -> Vec<StepGate<'a>> {
        let other_gate = |at: &usize| {
            let (first, report) = (&self.gates[*at], &self.now.reports[*at]);
            StepGate {
                gate: first.gate,
                // Without names, a failing canary could not be distinguished from a failing test.
                wants_canary: report.cases.is_some(),
                limit_ms: Some(step_limit_ms(report.took_ms)),
                files: first.files.and(Some(&plan.old_files)),
                expected_tests: count_tests(report),
            }
        };
        self.chosen.iter().map(other_gate).collect()
    }

    /// Runs all gates on the change with the settings of the base, if these differ.
    pub(crate) fn run_with_old_settings(
        &self,
        request: &ProofRequest<'a>,
        plan: &'a ProofPlan<'_>,
    ) -> Result<Option<StepResult>, ProofError> {
        let Some(tree) = &plan.old_settings else { return Ok(None) };
        let report_of = |gate: &&Gate| self.now.reports.iter().find(|one| one.name == gate.name);
        let mut gates = step_gates(request.gates, |_| false);
        for gate in &mut gates {
            gate.limit_ms = report_of(&gate.gate).map(|report| step_limit_ms(report.took_ms));
        }
        run_step(request, tree, &gates).map(Some)
    }

    pub(crate) fn other_steps_mode(&self, plan: &ProofPlan<'_>) -> OtherStepsMode {
        OtherStepsMode {
            is_shared: self.is_shared,
            needs_canary: plan.has_new_harness && !self.passed_in_tree,
        }
    }

    /// Takes over the canaries of a later run of this step. It had only the gates that run tests.
    pub(crate) fn set_canaries(&mut self, canaries: &[CanaryResult]) {
        for (at, canary) in self.chosen.iter().zip(canaries) {
            self.now.canaries[*at] = *canary;
        }
    }
}

/// Whether only tests fail that fail in the base too, or, without names of tests, whether the base has all findings. A
/// failure of the base counts only if the project had it too while it was the base.
fn fails_as_in_base(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    gate: &StepGate<'_>,
    report: &GateReport,
) -> Result<bool, ProofError> {
    let before = run_step(request, &plan.before, &[gate.whole()])?;
    let Some(before) = before.reports.first() else { return Ok(false) };
    let before = match request.base_reports {
        Some(_) => &confirm_base(before, request.base_report(gate.gate)),
        None => before,
    };
    Ok(match (&report.cases, &before.cases) {
        (Some(now), Some(before)) => {
            !now.failed.is_empty() && now.failed.iter().all(|test| before.failed.contains(test))
        }
        (None, None) if report.outcome == GateOutcome::Failed && report.exit == before.exit => {
            let mut now = report.clone();
            label_findings(&mut now, before);
            now.is_preexisting()
        }
        _ => false,
    })
}

/// Whether a gate runs only the changed tests. Its whole result must be known from the project, and nothing but whole
/// files of tests may differ between the old and the new tests.
fn is_selected(request: &ProofRequest<'_>, plan: &ProofPlan<'_>, gate: &Gate) -> bool {
    let is_measured = request.tree_report(gate).is_some_and(|tree| {
        let is_complete = tree.cases.as_ref().is_some_and(|cases| cases.is_complete);
        is_complete && tree.took_ms > MIN_SELECTED_MS
    });
    let only_files = !plan.has_new_harness
        && !plan.has_changed_helpers
        && plan.changed_settings.is_empty()
        && plan.file_facts.inseparable.is_empty()
        && plan.changed_outside.is_empty()
        && plan.old_tests.merged.is_empty()
        && plan.new_tests.merged.is_empty()
        && request.may_change.is_empty();
    let selects = |files: &[String]| files.is_empty() || select_files(gate, files).is_some();
    is_measured
        && only_files
        && !plan.new_files.is_empty()
        && selects(&plan.new_files)
        && selects(&plan.old_files)
}

/// How long a gate may take, given how long it took on the change itself. Old code with new tests may hang, which must
/// not take as long as the gate's own timeout allows.
pub(crate) fn step_limit_ms(now_ms: u64) -> u64 {
    now_ms.saturating_mul(LIMIT_FACTOR).saturating_add(LIMIT_MARGIN_MS)
}

impl StepResult {
    /// A gate that reported the canary has failed because of it. It passes without the canary if every test that passed
    /// in the project passes here too.
    fn disregard_canaries(&mut self, gates: &[StepGate<'_>], request: &ProofRequest<'_>) {
        for (at, report) in self.reports.iter_mut().enumerate() {
            let is_reported = self.canaries.get(at) == Some(&CanaryResult::Failed);
            let tree = gates.get(at).and_then(|gate| request.tree_report(gate.gate));
            if let (Some(tree), Some(here)) =
                (tree.and_then(|tree| tree.cases.as_ref()), &report.cases)
                && is_reported
                && here.failed.is_empty()
            {
                let passed: BTreeSet<&String> = here.passed.iter().collect();
                if tree.passed.iter().all(|test| passed.contains(test)) {
                    report.outcome = GateOutcome::Passed;
                }
            }
        }
    }

    fn failures<'a>(&'a self, gates: &[StepGate<'a>]) -> Vec<GateProof<'a>> {
        let failed = |(gate, now): (&StepGate<'a>, _)| GateProof {
            gate: &gate.gate.name,
            now: Some(now),
            ..GateProof::default()
        };
        gates.iter().zip(&self.reports).map(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_gets_three_times_as_long_and_half_a_minute() {
        assert_eq!(
            [0, 1_000, 600_000, u64::MAX].map(step_limit_ms),
            [30_000, 33_000, 1_830_000, u64::MAX]
        );
    }
}
