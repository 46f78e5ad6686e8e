//! A proof: the gates on the four combinations of old and new code with old and new tests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateOutcome, GateReport, ReportFormat};
use ralph_core::policy::GateEnvironment;
use ralph_core::proof::{self, CanaryResult, GateProof, Proof, ProofStep};
use ralph_core::requirement::RequirementStage;
use ralph_gates::gates::ResultReuse;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::tree::ListingError;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::FileError;
use ralph_sys::proc::cancel::CancelToken;

use crate::file_class::ClassRules;
use crate::proof_directory::ProofDirectory;
use crate::proof_plan::{ProofPlan, StepTree};
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, StepResult, run_step};
use crate::step_cache::StepCache;
use crate::test_selection::{MIN_SELECTED_MS, complete_report, select_files};

/// A step may take this many times as long as the first one, and this much longer.
const LIMIT_FACTOR: u64 = 3;
const LIMIT_MARGIN_MS: u64 = 30_000;

#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Listing(#[from] ListingError),
}

/// What to prove, and with which gates.
#[derive(Clone, Copy)]
pub struct ProofRequest<'a> {
    pub home: &'a RalphHome,
    pub env: &'a Env,
    /// The directory of the policy.
    pub project: &'a Path,
    pub repository: &'a CheckpointRepository,
    pub base: &'a Checkpoint,
    pub candidate: &'a Checkpoint,
    pub gates: &'a [&'a Gate],
    pub environment: &'a GateEnvironment,
    /// The `PATH` from when the user approved the policy; `None` for ralph's own.
    pub path: Option<&'a OsStr>,
    /// Directories with installed dependencies; the usual ones if empty.
    pub links: &'a [String],
    pub rules: &'a ClassRules,
    /// Globs, relative to the project: tests and harness that a person allowed to change. Their new version counts as
    /// the old one.
    pub may_change: &'a [String],
    /// The results of these gates in the project itself, if they just passed there on the files of the candidate. A
    /// checkout in which they do not pass lacks something then. Empty if they did not run there.
    pub tree_reports: &'a [GateReport],
    pub reuse: ResultReuse,
    pub directory: &'a ProofDirectory,
    pub cancel: &'a CancelToken,
    /// Called when a step starts, and while its tests run.
    pub watch: &'a (dyn Fn(ProofProgress) + Sync),
}

/// How far a proof is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofProgress {
    pub step: ProofStep,
    /// `None` when the step starts.
    pub tests: Option<TestProgress>,
}

/// How many tests of a step have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestProgress {
    pub done: usize,
    /// As far as an earlier step shows it.
    pub of: Option<usize>,
}

/// The outcome of a proof with everything it rests on.
#[derive(Debug)]
pub struct ProofReport {
    pub proof: Proof,
    pub steps: Vec<StepReport>,
    /// Changed files, relative to the project.
    pub changed_code: Vec<String>,
    pub changed_tests: Vec<String>,
}

#[derive(Debug)]
pub struct StepReport {
    pub step: ProofStep,
    pub outcome: StepOutcome,
}

#[derive(Debug)]
pub enum StepOutcome {
    Ran {
        reports: Vec<GateReport>,
        canaries: Vec<CanaryResult>,
        took_ms: u64,
    },
    /// Its tree is that of another step, so its results are too.
    SameAs(ProofStep),
    /// An earlier step decided.
    NotNeeded,
}

/// Runs the gates on the base with its own tests and caches the results, so that a later proof finds them. Only the base
/// of the request is used.
pub fn measure_base(request: &ProofRequest<'_>) -> Result<StepReport, ProofError> {
    let tree = StepTree::of_base(request, &Deadline::after(CHECKOUT_TIMEOUT))?;
    let gates: Vec<&Gate> =
        request.gates.iter().filter(|gate| may_run_tests(gate)).copied().collect();
    let result = run_step(request, &tree, &step_gates(&gates, |_| false))?;
    Ok(StepReport { step: ProofStep::Before, outcome: result.into() })
}

/// Runs a proof. A change that fails its own gates ends it early.
pub fn prove(request: &ProofRequest<'_>) -> Result<ProofReport, ProofError> {
    let plan = ProofPlan::new(request, &Deadline::after(CHECKOUT_TIMEOUT))?;
    let passed_in_tree = request.gates.iter().all(|gate| request.tree_report(gate).is_some());
    // What passed in the project and runs no tests is not of interest any more.
    let is_needed = |gate: &&&Gate| {
        request.tree_report(gate).is_none_or(|report| !passed_in_tree || is_test_gate(gate, report))
    };
    let first: Vec<&Gate> = request.gates.iter().filter(is_needed).copied().collect();
    // If the files of both steps are the same, one run with a canary answers both. It cannot show that nothing else
    // fails, but that is known from the project.
    let is_shared = passed_in_tree && plan.old_tests.id == plan.now.id;
    let is_named_in_tree =
        |gate: &Gate| request.tree_report(gate).is_some_and(|report| report.cases.is_some());
    let wants_canary = passed_in_tree && (is_shared || plan.has_new_harness);
    let mut first_gates = step_gates(&first, |gate| wants_canary && is_named_in_tree(gate));
    for gate in &mut first_gates {
        gate.files = is_selected(request, &plan, gate.gate).then_some(&plan.new_files);
    }
    let mut now = run_step(request, &plan.now, &first_gates)?;
    now.disregard_canaries(&first, request);
    let is_green = now.reports.iter().all(|report| report.outcome == GateOutcome::Passed);
    let runs_tests = |at: &usize| is_test_gate(first[*at], &now.reports[*at]);
    let chosen: Vec<usize> = (0..first.len()).filter(runs_tests).collect();
    if !is_green || chosen.is_empty() || request.cancel.is_cancelled() {
        let failures = now.failures(&first);
        let proof = match (is_green, passed_in_tree) {
            (true, _) => Proof::unavailable("no gate runs tests".to_string()),
            (false, true) => proof::report_disagreement(&failures),
            (false, false) => proof::report_failures(&failures),
        };
        drop(failures);
        return Ok(plan.report_early(proof, now));
    }
    let gates: Vec<&Gate> = chosen.iter().map(|at| first[*at]).collect();
    // Without names, a failing canary could not be distinguished from a failing test.
    let names_tests = |gate: &Gate| {
        now.reports.iter().any(|report| report.name == gate.name && report.cases.is_some())
    };
    let mut with_canary = step_gates(&gates, names_tests);
    for (gate, at) in with_canary.iter_mut().zip(&chosen) {
        gate.limit_ms = Some(step_limit_ms(now.reports[*at].took_ms));
        gate.files = first_gates[*at].files.and(Some(&plan.old_files));
        gate.expected_tests = count_tests(&now.reports[*at]);
    }
    let mode = OtherStepsMode { is_shared, needs_canary: plan.has_new_harness && !passed_in_tree };
    let OtherSteps { before, new_tests, old_tests, new_canaries } =
        run_other_steps(request, &plan, &with_canary, mode)?;
    for (at, canary) in chosen.iter().zip(new_canaries.iter().flat_map(|run| &run.canaries)) {
        now.canaries[*at] = *canary;
    }
    let shared = old_tests.as_ref().unwrap_or(&now);
    let measured = MeasuredSteps {
        chosen: &chosen,
        before: &before,
        now: &now,
        old_tests: shared,
        new_tests: new_tests.as_ref().unwrap_or(&before),
    };
    let proof = measured.evaluate(request, &plan, &with_canary);
    let steps = [
        (ProofStep::Now, now.into()),
        (ProofStep::Before, before.into()),
        (ProofStep::OldTests, outcome_or_same(old_tests, ProofStep::Now)),
        (ProofStep::NewTests, outcome_or_same(new_tests, ProofStep::Before)),
    ];
    Ok(plan.into_report(proof, steps))
}

/// Whether a gate runs only the changed tests. Its whole result must be known from the project, and nothing but whole
/// files of tests may differ between the old and the new tests.
fn is_selected(request: &ProofRequest<'_>, plan: &ProofPlan<'_>, gate: &Gate) -> bool {
    let is_measured = request.tree_report(gate).is_some_and(|tree| {
        let is_complete = tree.cases.as_ref().is_some_and(|cases| cases.is_complete);
        is_complete && tree.took_ms > MIN_SELECTED_MS
    });
    let only_files = !plan.has_new_harness
        && plan.inseparable.is_empty()
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
fn step_limit_ms(now_ms: u64) -> u64 {
    now_ms.saturating_mul(LIMIT_FACTOR).saturating_add(LIMIT_MARGIN_MS)
}

/// What the steps after the first have to do.
#[derive(Clone, Copy)]
struct OtherStepsMode {
    /// The first step has the results of the old tests too.
    is_shared: bool,
    /// The first step ran without a canary, although its harness is new.
    needs_canary: bool,
}

struct OtherSteps {
    before: StepResult,
    /// `None` if its files are those of `before`.
    new_tests: Option<StepResult>,
    old_tests: Option<StepResult>,
    new_canaries: Option<StepResult>,
}

/// Runs the steps with old code, and at the same time those with new code.
fn run_other_steps(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    with_canary: &[StepGate<'_>],
    mode: OtherStepsMode,
) -> Result<OtherSteps, ProofError> {
    let (old_code, new_code) = run_both(
        || {
            let gates: Vec<StepGate<'_>> = with_canary.iter().map(StepGate::whole).collect();
            let before = run_step(request, &plan.before, &gates)?;
            let is_same = plan.new_tests.id == plan.before.id;
            let gates: Vec<StepGate<'_>> =
                with_canary.iter().map(|gate| gate.with_files(&plan.new_files)).collect();
            let new_tests = (!is_same).then(|| run_step(request, &plan.new_tests, &gates));
            Ok::<_, ProofError>((before, new_tests.transpose()?))
        },
        || {
            let old_tests = (!mode.is_shared).then(|| {
                let gates = expect_tests_of_base(request, plan, with_canary)?;
                run_step(request, &plan.old_tests, &gates)
            });
            let new_canaries = mode.needs_canary.then(|| run_step(request, &plan.now, with_canary));
            Ok::<_, ProofError>((old_tests.transpose()?, new_canaries.transpose()?))
        },
    );
    let ((before, new_tests), (old_tests, new_canaries)) = (old_code?, new_code?);
    Ok(OtherSteps { before, new_tests, old_tests, new_canaries })
}

/// The base has as many tests as were found when it was measured, if it was.
fn expect_tests_of_base<'a>(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    gates: &[StepGate<'a>],
) -> Result<Vec<StepGate<'a>>, ProofError> {
    let cache = StepCache::open(request)?;
    let expected = |gate: &StepGate<'_>| match (request.reuse, gate.files) {
        (ResultReuse::Cached, None) => {
            count_tests(&cache.read(&plan.before, &gate.whole())?.report)
        }
        (ResultReuse::Cached, Some(_)) | (ResultReuse::Never, _) => None,
    };
    Ok(gates.iter().map(|gate| StepGate { expected_tests: expected(gate), ..*gate }).collect())
}

fn count_tests(report: &GateReport) -> Option<usize> {
    let cases = report.cases.as_ref()?;
    Some(cases.passed.len() + cases.failed.len() + cases.skipped.len())
}

/// The results of all steps.
struct MeasuredSteps<'a> {
    /// The position of each gate in `now`, which may have more gates than the other steps.
    chosen: &'a [usize],
    before: &'a StepResult,
    now: &'a StepResult,
    old_tests: &'a StepResult,
    new_tests: &'a StepResult,
}

impl MeasuredSteps<'_> {
    fn evaluate(
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
        proof::evaluate(&proofs, &plan.inseparable)
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

fn outcome_or_same(result: Option<StepResult>, same: ProofStep) -> StepOutcome {
    result.map_or(StepOutcome::SameAs(same), Into::into)
}

fn step_gates<'a>(gates: &[&'a Gate], wants_canary: impl Fn(&Gate) -> bool) -> Vec<StepGate<'a>> {
    let step_gate = |gate: &&'a Gate| {
        let wants_canary = wants_canary(gate);
        StepGate { gate, wants_canary, limit_ms: None, files: None, expected_tests: None }
    };
    gates.iter().map(step_gate).collect()
}

/// Whether a gate runs tests. A linter or a formatter judges the text of files, and a composed tree is not formatted.
fn is_test_gate(gate: &Gate, report: &GateReport) -> bool {
    report.cases.is_some() || may_run_tests(gate)
}

fn may_run_tests(gate: &Gate) -> bool {
    let judges_text = matches!(
        gate.report,
        ReportFormat::Sarif
            | ReportFormat::CargoJson
            | ReportFormat::EslintJson
            | ReportFormat::Tsc
    );
    gate.report.counts_tests() || gate.stage == RequirementStage::Correctness && !judges_text
}

/// Runs both at the same time.
fn run_both<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        match first.join() {
            Ok(first) => (first, second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl ProofPlan<'_> {
    fn report_early(self, proof: Proof, now: StepResult) -> ProofReport {
        let skipped = |step| (step, StepOutcome::NotNeeded);
        let steps = [
            (ProofStep::Now, now.into()),
            skipped(ProofStep::Before),
            skipped(ProofStep::OldTests),
            skipped(ProofStep::NewTests),
        ];
        self.into_report(proof, steps)
    }

    fn into_report(self, proof: Proof, steps: [(ProofStep, StepOutcome); 4]) -> ProofReport {
        let Self { changed_code, changed_tests, .. } = self;
        let steps = steps.into_iter().map(|(step, outcome)| StepReport { step, outcome }).collect();
        ProofReport { proof, steps, changed_code, changed_tests }
    }
}

impl StepResult {
    /// A gate that reported the canary has failed because of it. It passes without the canary if every test that passed
    /// in the project passes here too.
    fn disregard_canaries(&mut self, gates: &[&Gate], request: &ProofRequest<'_>) {
        for (at, report) in self.reports.iter_mut().enumerate() {
            let is_reported = self.canaries.get(at) == Some(&CanaryResult::Failed);
            let tree = gates.get(at).and_then(|gate| request.tree_report(gate));
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

    fn failures<'a>(&'a self, gates: &[&'a Gate]) -> Vec<GateProof<'a>> {
        let failed = |(gate, now): (&&'a Gate, _)| GateProof {
            gate: &gate.name,
            now: Some(now),
            ..GateProof::default()
        };
        gates.iter().zip(&self.reports).map(failed).collect()
    }
}

impl From<StepResult> for StepOutcome {
    fn from(StepResult { reports, canaries, took_ms }: StepResult) -> Self {
        Self::Ran { reports, canaries, took_ms }
    }
}

impl fmt::Debug for ProofRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofRequest").field("project", &self.project).finish_non_exhaustive()
    }
}

impl ProofRequest<'_> {
    /// The path of the project relative to its work tree.
    pub(crate) fn project_below(&self) -> PathBuf {
        let below = self.project.strip_prefix(self.repository.root());
        below.map_or_else(|_| PathBuf::new(), Path::to_path_buf)
    }

    /// The result of a gate in the project, if it passed there.
    fn tree_report(&self, gate: &Gate) -> Option<&GateReport> {
        let passed = |report: &&GateReport| {
            report.name == gate.name && report.outcome == GateOutcome::Passed
        };
        self.tree_reports.iter().find(passed)
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
