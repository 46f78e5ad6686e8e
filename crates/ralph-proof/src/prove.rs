//! A proof: the gates on the four combinations of old and new code with old and new tests.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateOutcome, GateReport, ReportFormat};
use ralph_core::policy::GateEnvironment;
use ralph_core::proof::{self, CanaryResult, Proof, ProofStep, ProofVerdict, SettingsRuns};
use ralph_core::requirement::RequirementStage;
use ralph_gates::gates::{GateResult, ResultReuse};
use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::tree::ListingError;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::FileError;
use ralph_sys::proc::cancel::CancelToken;

use crate::file_class::ClassRules;
use crate::first_step::FirstStep;
use crate::measured_steps::{MeasuredSteps, run_unnamed_canaries, run_without_failed_tests};
use crate::proof_directory::ProofDirectory;
use crate::proof_plan::ProofPlan;
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, StepResult, rerun_step, run_step};
use crate::reported_paths::is_named_after;
use crate::step_cache::StepCache;

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
    /// Directories with installed dependencies, besides the usual ones, relative to the project.
    pub links: &'a [String],
    /// Identifies the content of the installed dependencies, for the cache. Zeros if they are not compared.
    pub installed: [u8; 32],
    pub rules: &'a ClassRules,
    /// Globs, relative to the project: tests and harness that a person allowed to change. Their new version counts as
    /// the old one.
    pub may_change: &'a [String],
    /// Whether tests that fail in the base may still fail.
    pub accepts_old_failures: bool,
    /// The results of these gates in the project itself, on the files of the candidate. A checkout in which a gate does
    /// not pass that passed there lacks something. Empty if they did not run there.
    pub tree_reports: &'a [GateReport],
    /// The results of these gates in the project itself while it was the base, as far as they are known. Only failures
    /// that are in them are old. `None` if the project is not the one that the base was: then old failures are accepted,
    /// but the proof is at most [`ProofVerdict::Green`].
    pub base_reports: Option<&'a [GateReport]>,
    /// Files, relative to the work tree, that gates wrote when they ran in the project.
    pub gate_writes: &'a [String],
    pub reuse: ResultReuse,
    /// Whether gates run only in checkouts that are mounted in place of the project.
    pub must_mount: bool,
    pub directory: &'a ProofDirectory,
    pub cancel: &'a CancelToken,
    /// Called when a step starts, while its tests run, and when it ends.
    pub watch: &'a (dyn Fn(ProofProgress) + Sync),
    /// Called when a gate has run in a checkout.
    pub ended: &'a (dyn Fn(&GateResult) + Sync),
}

/// How far a proof is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofProgress {
    pub step: ProofStep,
    /// `None` when the step starts or ends.
    pub tests: Option<TestProgress>,
    pub has_ended: bool,
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

/// Runs a proof. A change that fails its own gates ends it early.
pub fn prove(request: &ProofRequest<'_>) -> Result<ProofReport, ProofError> {
    let plan = ProofPlan::new(request, &Deadline::after(CHECKOUT_TIMEOUT))?;
    let mut first = FirstStep::run(request, &plan)?;
    if let Some(proof) = first.early_proof(request, &plan)? {
        let now = first.now;
        return Ok(plan.report_early(proof, now));
    }
    let gates = first.gates_of_other_steps(&plan);
    let mut others = run_other_steps(request, &plan, &gates, first.other_steps_mode(&plan))?;
    confirm_alone(request, &plan, &gates, &mut others)?;
    let OtherSteps { before, new_tests, old_tests, new_canaries } = others;
    let settings = first.run_with_old_settings(request, &plan)?;
    if let Some(result) = new_canaries {
        first.set_canaries(&result.canaries);
    }
    run_unnamed_canaries(request, &plan, &gates, &mut first)?;
    let FirstStep { now, chosen, accepted, .. } = first;
    let measured = MeasuredSteps {
        chosen: &chosen,
        before: &before,
        now: &now,
        old_tests: old_tests.as_ref().unwrap_or(&now),
        new_tests: new_tests.as_ref().unwrap_or(&before),
    };
    let mut proof = measured.evaluate(request, &plan, &gates);
    measured.confirm_unselected(request, &plan, &gates, &mut proof)?;
    measured.confirm_undecided(request, &plan, &gates, &mut proof)?;
    if request.base_reports.is_none() && !accepted.is_empty() {
        let gates = accepted.join(", ");
        let why = format!(
            "old failures of {gates} are accepted, but only a checkout of the base shows them"
        );
        proof.doubt(ProofVerdict::Green, why);
    }
    if let Some(settings) = &settings {
        let runs = SettingsRuns {
            settings: &plan.changed_settings,
            reports: &settings.reports,
            without_failed_tests: &[],
            now: &now.reports,
            new_judges: &plan.gates_without_old_settings(&now.reports),
        };
        let without_failed_tests = &run_without_failed_tests(request, &plan, &runs)?;
        proof::judge_old_settings(&mut proof, &SettingsRuns { without_failed_tests, ..runs });
    }
    let mut steps = vec![
        (ProofStep::Now, now.into()),
        (ProofStep::Before, before.into()),
        (ProofStep::OldTests, outcome_or_same(old_tests, ProofStep::Now)),
        (ProofStep::NewTests, outcome_or_same(new_tests, ProofStep::Before)),
    ];
    steps.extend(settings.map(|settings| (ProofStep::OldSettings, settings.into())));
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

/// Runs a step again, without another beside it, if its failures may be due to the other: tests that share a port or a
/// file outside of the checkouts fail when they run at the same time. The second run has an empty home, temporary and
/// build directory, so nothing that the first one left behind can change its result.
fn confirm_alone(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    gates: &[StepGate<'_>],
    others: &mut OtherSteps,
) -> Result<(), ProofError> {
    let OtherSteps { before, new_tests, old_tests, .. } = others;
    // A new test that fails is expected to, and so is one whose name shows that its file changed.
    let is_of_changed_file =
        |test: &String| plan.new_files.iter().any(|file| is_named_after(test, file));
    let fails_only_known_tests = |(report, before): (&GateReport, &GateReport)| {
        let passed = before.outcome == GateOutcome::Passed;
        report.outcome == GateOutcome::Failed
            && match (&report.cases, &before.cases) {
                (Some(cases), Some(before)) => {
                    // The base may have run beside this step, and failed for the same reason.
                    let is_known = |test: &String| {
                        before.passed.contains(test) || before.failed.contains(test)
                    };
                    cases.failed.iter().all(|test| is_known(test) && !is_of_changed_file(test))
                }
                (None, _) => passed,
                (Some(_), None) => false,
            }
    };
    let is_doubtful = |result: &StepResult| {
        result.is_fresh && result.reports.iter().zip(&before.reports).any(fails_only_known_tests)
    };
    if new_tests.as_ref().is_some_and(is_doubtful) {
        let chosen: Vec<StepGate<'_>> =
            gates.iter().map(|gate| gate.with_files(&plan.new_files)).collect();
        *new_tests = Some(rerun_step(request, &plan.new_tests, &chosen)?);
    }
    let has_failed = |report: &GateReport| match &report.cases {
        Some(cases) => !cases.failed.is_empty(),
        None => report.outcome == GateOutcome::Failed,
    };
    let is_broken = |result: &StepResult| result.is_fresh && result.reports.iter().any(has_failed);
    if old_tests.as_ref().is_some_and(is_broken) {
        let chosen = expect_tests_of_base(request, plan, gates)?;
        *old_tests = Some(rerun_step(request, &plan.old_tests, &chosen)?);
    }
    Ok(())
}

/// The base has as many tests as were found when it was measured. If it was not, it has about as many as the change.
fn expect_tests_of_base<'a>(
    request: &ProofRequest<'_>,
    plan: &ProofPlan<'_>,
    gates: &[StepGate<'a>],
) -> Result<Vec<StepGate<'a>>, ProofError> {
    let cache = StepCache::open(request)?;
    let expected = |gate: &StepGate<'_>| match (request.reuse, gate.files) {
        (ResultReuse::Cached | ResultReuse::CachedUnlessCi, None) => {
            count_tests(&cache.read(&plan.before, &gate.whole())?.report)
        }
        (_, Some(_)) | (ResultReuse::Never, _) => None,
    };
    let expecting = |gate: &StepGate<'a>| StepGate {
        expected_tests: expected(gate).or(gate.expected_tests),
        ..*gate
    };
    Ok(gates.iter().map(expecting).collect())
}

pub(crate) fn count_tests(report: &GateReport) -> Option<usize> {
    let cases = report.cases.as_ref()?;
    Some(cases.passed.len() + cases.failed.len() + cases.skipped.len())
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

/// Whether a gate counts as one that runs tests, as far as it is known before it runs.
pub fn may_run_tests(gate: &Gate) -> bool {
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
    /// Gates that the settings of the base cannot judge, because it has no judge, or neither settings nor tests.
    fn gates_without_old_settings(&self, now: &[GateReport]) -> Vec<String> {
        let is_first = self.file_facts.is_base_untested && self.has_only_new_settings;
        let tested = now.iter().filter(|report| is_first && report.has_passed_tests());
        let new_judges = self.file_facts.new_judges.iter().cloned();
        new_judges.chain(tested.map(|report| report.name.clone())).collect()
    }

    fn report_early(self, proof: Proof, now: StepResult) -> ProofReport {
        let skipped = |step| (step, StepOutcome::NotNeeded);
        let steps = vec![
            (ProofStep::Now, now.into()),
            skipped(ProofStep::Before),
            skipped(ProofStep::OldTests),
            skipped(ProofStep::NewTests),
        ];
        self.into_report(proof, steps)
    }

    fn into_report(self, proof: Proof, steps: Vec<(ProofStep, StepOutcome)>) -> ProofReport {
        let Self { changed_code, changed_tests, .. } = self;
        let steps = steps.into_iter().map(|(step, outcome)| StepReport { step, outcome }).collect();
        ProofReport { proof, steps, changed_code, changed_tests }
    }
}

impl From<StepResult> for StepOutcome {
    fn from(StepResult { reports, canaries, took_ms, .. }: StepResult) -> Self {
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

    /// The result of a gate in the project while it was the base.
    pub(crate) fn base_report(&self, gate: &Gate) -> Option<&GateReport> {
        self.base_reports?.iter().find(|report| report.name == gate.name)
    }

    /// The result of a gate in the project, if it passed there.
    pub(crate) fn tree_report(&self, gate: &Gate) -> Option<&GateReport> {
        let passed = |report: &&GateReport| {
            report.name == gate.name && report.outcome == GateOutcome::Passed
        };
        self.tree_reports.iter().find(passed)
    }
}
