//! A proof: the gates on the four combinations of old and new code with old and new tests.

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
use crate::first_step::FirstStep;
use crate::proof_directory::ProofDirectory;
use crate::proof_plan::{ProofPlan, StepTree};
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, StepResult, run_step};
use crate::step_cache::StepCache;
use crate::test_selection::complete_report;

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
    /// Identifies the content of the installed dependencies, for the cache. Zeros if they are not compared.
    pub installed: [u8; 32],
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
    let mut first = FirstStep::run(request, &plan)?;
    if let Some(proof) = first.early_proof(request) {
        let now = first.now;
        return Ok(plan.report_early(proof, now));
    }
    let gates = first.gates_of_other_steps(&plan);
    let OtherSteps { before, new_tests, old_tests, new_canaries } =
        run_other_steps(request, &plan, &gates, first.other_steps_mode(&plan))?;
    if let Some(result) = new_canaries {
        first.set_canaries(&result.canaries);
    }
    let FirstStep { now, chosen, .. } = first;
    let measured = MeasuredSteps {
        chosen: &chosen,
        before: &before,
        now: &now,
        old_tests: old_tests.as_ref().unwrap_or(&now),
        new_tests: new_tests.as_ref().unwrap_or(&before),
    };
    let proof = measured.evaluate(request, &plan, &gates);
    let steps = [
        (ProofStep::Now, now.into()),
        (ProofStep::Before, before.into()),
        (ProofStep::OldTests, outcome_or_same(old_tests, ProofStep::Now)),
        (ProofStep::NewTests, outcome_or_same(new_tests, ProofStep::Before)),
    ];
    Ok(plan.into_report(proof, steps))
}

/// What the steps after the first have to do.
#[derive(Clone, Copy)]
pub(crate) struct OtherStepsMode {
    /// The first step has the results of the old tests too.
    pub is_shared: bool,
    /// The first step ran without a canary, although its harness is new.
    pub needs_canary: bool,
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

pub(crate) fn count_tests(report: &GateReport) -> Option<usize> {
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

pub(crate) fn step_gates<'a>(
    gates: &[&'a Gate],
    wants_canary: impl Fn(&Gate) -> bool,
) -> Vec<StepGate<'a>> {
    let step_gate = |gate: &&'a Gate| {
        let wants_canary = wants_canary(gate);
        StepGate { gate, wants_canary, limit_ms: None, files: None, expected_tests: None }
    };
    gates.iter().map(step_gate).collect()
}

/// Whether a gate runs tests. A linter or a formatter judges the text of files, and a composed tree is not formatted.
pub(crate) fn is_test_gate(gate: &Gate, report: &GateReport) -> bool {
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
    pub(crate) fn tree_report(&self, gate: &Gate) -> Option<&GateReport> {
        let passed = |report: &&GateReport| {
            report.name == gate.name && report.outcome == GateOutcome::Passed
        };
        self.tree_reports.iter().find(passed)
    }
}
