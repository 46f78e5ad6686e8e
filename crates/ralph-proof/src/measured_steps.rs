//! The results of all steps of a proof, and what they show together.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use ralph_core::gate::{Gate, GateOutcome, GateReport};
use ralph_core::proof::{
    self, CanaryResult, GateProof, Proof, ProofVerdict, SettingsRuns, TellingTest,
};
use ralph_core::test_cases::TestCases;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

use crate::canary::unnamed_canary;
use crate::environment_roots::environment_roots;
use crate::file_class::{FileClass, classify_file};
use crate::first_step::{FirstStep, step_limit_ms};
use crate::outside_changes::path_in_work_tree;
use crate::proof_plan::{ProofPlan, StepTree};
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, StepResult, run_step};
use crate::prove::{ProofError, ProofRequest, step_gates};
use crate::reported_paths::{ReportedCases, code_reported_as_tests, files_of_tests, runs_examples};
use crate::test_selection::complete_report;
use crate::unlisted_files::{UnlistedScope, has_changed_unlisted_files};

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
        let reported = proofs.iter().zip(gates).flat_map(|(proof, gate)| {
            let reports = [proof.before, proof.now].into_iter().flatten();
            let cases = reports.filter_map(|report| report.cases.as_ref());
            cases.map(|cases| ReportedCases { directory: &gate.gate.cwd, cases })
        });
        let reported: Vec<ReportedCases<'_>> = reported.collect();
        let cases: Vec<&TestCases> = reported.iter().map(|one| one.cases).collect();
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
        let below = request.project_below();
        let is_code =
            |path: &&String| !plan.old_tests.from_tests.contains(&path_in_work_tree(&below, path));
        let outside = plan.changed_outside.iter().filter(is_code);
        let code: Vec<String> = plan.changed_code.iter().chain(outside).cloned().collect();
        let reported = code_reported_as_tests(&code, &reported);
        if !reported.is_empty() {
            let why = format!(
                "tests that count as code were changed: {}; `[tests] paths` in ralph.toml can name them",
                reported.join(", ")
            );
            proof.doubt(ProofVerdict::Green, why);
        }
        proof
    }

    /// Tests that were not selected ran once on the new code, in the project, and may have passed by chance, or because of
    /// an ignored file. If the proof rests on nothing else, their gates run whole in a checkout, and only tests that pass
    /// again count. If ignored files changed, all tests that passed in the project have to pass again.
    pub(crate) fn confirm_unselected(
        &self,
        request: &ProofRequest<'_>,
        plan: &ProofPlan<'_>,
        gates: &[StepGate<'_>],
        proof: &mut Proof,
    ) -> Result<(), ProofError> {
        let is_selected = gates.iter().any(|gate| gate.files.is_some());
        if proof.verdict != ProofVerdict::Verified || !is_selected {
            return Ok(());
        }
        let rests_on_others = self.rests_on_unselected(gates, proof);
        let has_stand_ins = has_changed_ignored_files(request)?;
        let is_needed = |gate: &&StepGate<'_>| {
            let tells = || proof.telling.iter().any(|test| test.gate == gate.gate.name);
            has_stand_ins && gate.files.is_some() || rests_on_others && tells()
        };
        let whole: Vec<StepGate<'_>> =
            gates.iter().filter(is_needed).map(StepGate::whole).collect();
        if whole.is_empty() {
            return Ok(());
        }
        let again = run_step(request, &plan.now, &whole)?;
        match failed_again(request, &whole, &again).filter(|_| has_stand_ins) {
            Some(why) => proof.doubt(ProofVerdict::Green, why),
            None if rests_on_others => keep_confirmed_tests(proof, &again),
            None => {}
        }
        Ok(())
    }

    /// Whether every test that tells the change from the base was left out of the selection.
    fn rests_on_unselected(&self, gates: &[StepGate<'_>], proof: &Proof) -> bool {
        let is_unselected = |test: &TellingTest| {
            let at = gates.iter().position(|gate| gate.gate.name == test.gate);
            let now = at.and_then(|at| self.now.reports.get(self.chosen[at]));
            let is_selected = at.is_some_and(|at| gates[at].files.is_some());
            is_selected && !has_passed(now, test) && test.test != test.gate
        };
        !proof.telling.is_empty() && proof.telling.iter().all(is_unselected)
    }

    /// Changed files that may be code or helpers of tests have their new version in all steps on the new code, so a
    /// changed expectation in one of them would not show. Old tests therefore have to pass with the old version too.
    pub(crate) fn confirm_undecided(
        &self,
        request: &ProofRequest<'_>,
        plan: &ProofPlan<'_>,
        gates: &[StepGate<'_>],
        proof: &mut Proof,
    ) -> Result<(), ProofError> {
        let Some(tree) = &plan.old_helpers else { return Ok(()) };
        if proof.verdict != ProofVerdict::Verified {
            return Ok(());
        }
        let whole: Vec<StepGate<'_>> = gates.iter().map(StepGate::whole).collect();
        let again = run_step(request, tree, &whole)?;
        let is_held = |at: usize| {
            let completed = self.complete(request, at, &gates[at]);
            let old_tests = match &completed {
                Some([_, old_tests, _]) => Some(old_tests),
                None => self.old_tests.reports.get(at),
            };
            holds(self.before.reports.get(at), old_tests, again.reports.get(at))
        };
        if !(0..gates.len()).all(is_held) {
            let files = plan.undecided.join(", ");
            let why = format!(
                "old tests fail with the old version of {files}, which may be code or a helper of tests"
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

fn has_passed(report: Option<&GateReport>, test: &TellingTest) -> bool {
    let cases = report.and_then(|report| report.cases.as_ref());
    cases.is_some_and(|cases| cases.passed.contains(&test.test))
}

/// Whether files that git ignores differ between the two sides.
fn has_changed_ignored_files(request: &ProofRequest<'_>) -> Result<bool, ProofError> {
    let scope = UnlistedScope {
        repository: request.repository,
        below: &request.project_below(),
        skipped: compared_directories(request),
    };
    let (base, candidate) = (request.base, request.candidate);
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    Ok(has_changed_unlisted_files(&scope, base, candidate, &deadline)?)
}

/// Keeps the telling tests that pass in a checkout too. If none does, the change is in doubt.
fn keep_confirmed_tests(proof: &mut Proof, again: &StepResult) {
    let is_confirmed = |test: &TellingTest| {
        has_passed(again.reports.iter().find(|report| report.name == test.gate), test)
    };
    let unconfirmed = proof.telling.iter().find(|test| !is_confirmed(test)).cloned();
    proof.telling.retain(is_confirmed);
    if let (true, Some(first)) = (proof.telling.is_empty(), unconfirmed) {
        let why = format!(
            "`{}` fails without the change, passes in the project and does not pass in a clean checkout of it",
            first.test
        );
        proof.doubt(ProofVerdict::Green, why);
    }
}

/// Directories with packages, which the run compares with its start, and ralph's home.
fn compared_directories(request: &ProofRequest<'_>) -> HashSet<PathBuf> {
    let gates: Vec<Gate> = request.gates.iter().map(|gate| (*gate).clone()).collect();
    let roots =
        environment_roots(request.project, request.links, &gates, request.env, request.path);
    // The directory itself may be a link.
    let in_place = roots.iter().filter_map(|root| {
        let name = root.path.file_name()?;
        Some(fs::resolve(root.path.parent()?)?.join(name))
    });
    in_place.chain(fs::resolve(request.home.root())).collect()
}

/// What passed in the project and does not pass in a checkout of the same files.
fn failed_again(
    request: &ProofRequest<'_>,
    gates: &[StepGate<'_>],
    again: &StepResult,
) -> Option<String> {
    gates.iter().zip(&again.reports).find_map(|(gate, report)| {
        let failed = match (request.tree_report(gate.gate)?.cases.as_ref(), &report.cases) {
            (Some(tree), Some(here)) => {
                let passed: BTreeSet<&String> = here.passed.iter().collect();
                tree.passed.iter().find(|test| !passed.contains(test))?
            }
            _ if report.outcome == GateOutcome::Passed => return None,
            _ => &gate.gate.name,
        };
        Some(format!("`{failed}` passes in the project and fails in a clean checkout of it"))
    })
}

/// Whether everything that passed both in the base and with the old tests passes again.
fn holds(
    before: Option<&GateReport>,
    old_tests: Option<&GateReport>,
    again: Option<&GateReport>,
) -> bool {
    let (Some(before), Some(old_tests), Some(again)) = (before, old_tests, again) else {
        return false;
    };
    match (&before.cases, &old_tests.cases, &again.cases) {
        (Some(before), Some(old_tests), Some(again)) => {
            let passed_again: BTreeSet<&String> = again.passed.iter().collect();
            let passed_before: BTreeSet<&String> = before.passed.iter().collect();
            let mut passed = old_tests.passed.iter().filter(|test| passed_before.contains(test));
            passed.all(|test| passed_again.contains(test))
        }
        _ => before.outcome != GateOutcome::Passed || again.outcome == GateOutcome::Passed,
    }
}

/// Runs the gates without names of which the judge is new on the change itself, with a canary. A failing test beside theirs
/// must make them fail. `gates` are those that run tests.
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

/// Runs the gates of which tests fail with the settings of the base once more, without these tests. A failed test makes its
/// gate fail, whatever else does: a coverage threshold that is not reached, for example, shows only without it.
pub(crate) fn run_without_failed_tests(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    runs: &SettingsRuns<'_>,
) -> Result<Vec<GateReport>, ProofError> {
    let failed = runs.failed_tests();
    let (Some(tree), false) = (&plan.old_settings, failed.is_empty()) else {
        return Ok(Vec::new());
    };
    let is_tests = |path: &&String| classify_file(path, request.rules).class == FileClass::Tests;
    let changed: Vec<&String> = plan.changed_tests.iter().filter(is_tests).collect();
    let with_failures = files_of_tests(&changed, failed.iter().map(|(_, test)| *test));
    let tree = match with_failures {
        Some(files) => {
            &tree.with_base_files(request, &files, &Deadline::after(CHECKOUT_TIMEOUT))?
        }
        // It is not known where the tests are, so all changed tests are as in the base.
        None => &StepTree { step: tree.step, ..plan.old_tests.clone() },
    };
    let has_failures = |gate: &&&Gate| failed.iter().any(|(name, _)| *name == gate.name);
    let gates: Vec<&Gate> = request.gates.iter().filter(has_failures).copied().collect();
    let mut gates = step_gates(&gates, |_| false);
    for gate in &mut gates {
        let now = runs.now.iter().find(|report| report.name == gate.gate.name);
        gate.limit_ms = now.map(|report| step_limit_ms(report.took_ms));
    }
    Ok(run_step(request, tree, &gates)?.reports)
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
