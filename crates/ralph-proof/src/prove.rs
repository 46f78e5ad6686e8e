//! A proof: the gates on the four combinations of old and new code with old and new tests.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateOutcome, GateReport, ReportFormat};
use ralph_core::policy::GateEnvironment;
use ralph_core::proof::{self, CanaryResult, GateProof, Proof, ProofStep};
use ralph_core::requirement::RequirementStage;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository, OverlayFile};
use ralph_git::tree::ListingError;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::FileError;
use ralph_sys::proc::cancel::CancelToken;

use crate::file_class::{ClassRules, FileClass, classify_file};
use crate::proof_directory::ProofDirectory;
use crate::proof_step::{CHECKOUT_TIMEOUT, StepResult, StepTree, run_step};
use crate::tree_changes::TreeChanges;
use crate::tree_composition::{RewrittenFile, TreeComposition, TreeSides, compose_tree};

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
    pub directory: &'a ProofDirectory,
    pub cancel: &'a CancelToken,
    /// Called when a step starts.
    pub watch: &'a (dyn Fn(ProofStep) + Sync),
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
    let deadline = Deadline::after(CHECKOUT_TIMEOUT);
    let sides = (request.base, request.candidate);
    let changes = TreeChanges::between(request.repository, sides, request.project, &deadline)?;
    let plan = ProofPlan::new(request, &changes);
    let no_canary = |_| false;
    let now = run_step(request, &plan.now, &no_canary)?;
    let is_green = now.reports.iter().all(|report| report.outcome == GateOutcome::Passed);
    let runs_tests =
        request.gates.iter().zip(&now.reports).map(|(gate, now)| is_test_gate(gate, now));
    let chosen: Vec<usize> =
        runs_tests.enumerate().filter(|(_, runs_tests)| *runs_tests).map(|(at, _)| at).collect();
    if !is_green || chosen.is_empty() || request.cancel.is_cancelled() {
        return Ok(plan.report_early(request, now, is_green));
    }
    let gates: Vec<&Gate> = chosen.iter().map(|at| request.gates[*at]).collect();
    let later = ProofRequest { gates: &gates, ..*request };
    // Without names, a failing canary could not be distinguished from a failing test.
    let is_named = |at: usize| now.reports[chosen[at]].cases.is_some();
    let (before, old_tests) = run_both(
        || run_step(&later, &plan.before, &no_canary),
        || run_step(&later, &plan.old_tests, &is_named),
    );
    let (before, old_tests) = (before?, old_tests?);
    let new_tests =
        plan.new_tests.as_ref().map(|tree| run_step(&later, tree, &no_canary)).transpose()?;
    let proofs: Vec<GateProof<'_>> = (0..gates.len())
        .map(|at| GateProof {
            gate: &gates[at].name,
            before: before.reports.get(at),
            now: now.reports.get(chosen[at]),
            old_tests: old_tests.reports.get(at),
            new_tests: new_tests.as_ref().unwrap_or(&before).reports.get(at),
            canary: old_tests.canaries.get(at).copied().unwrap_or(CanaryResult::NotPossible),
        })
        .collect();
    let proof = proof::evaluate(&proofs, &plan.inseparable);
    drop(proofs);
    let same = StepOutcome::SameAs(ProofStep::Before);
    let steps = vec![
        StepReport { step: ProofStep::Now, outcome: now.into() },
        StepReport { step: ProofStep::Before, outcome: before.into() },
        StepReport { step: ProofStep::OldTests, outcome: old_tests.into() },
        StepReport { step: ProofStep::NewTests, outcome: new_tests.map_or(same, Into::into) },
    ];
    Ok(plan.into_report(proof, steps))
}

/// Whether a gate runs tests. A linter or a formatter judges the text of files, and a composed tree is not formatted.
fn is_test_gate(gate: &Gate, now: &GateReport) -> bool {
    let judges_text = matches!(
        gate.report,
        ReportFormat::Sarif
            | ReportFormat::CargoJson
            | ReportFormat::EslintJson
            | ReportFormat::Tsc
    );
    now.cases.is_some() || gate.stage == RequirementStage::Correctness && !judges_text
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

/// The trees of the four steps.
struct ProofPlan<'a> {
    before: StepTree<'a>,
    now: StepTree<'a>,
    old_tests: StepTree<'a>,
    /// `None` if it is the same tree as another step's.
    new_tests: Option<StepTree<'a>>,
    changed_code: Vec<String>,
    changed_tests: Vec<String>,
    inseparable: Vec<String>,
}

impl<'a> ProofPlan<'a> {
    fn new(request: &ProofRequest<'a>, changes: &TreeChanges) -> Self {
        let texts = changes.texts();
        let (base, candidate) = (request.base, request.candidate);
        let mut old_tests = compose_tree(&texts, TreeSides::NewCodeOldTests, request.rules);
        let mut new_tests = compose_tree(&texts, TreeSides::OldCodeNewTests, request.rules);
        for path in changes.all.iter().filter(|change| !change.is_text()).map(|change| &change.path)
        {
            // Images and other data cannot be merged, but they can be taken from one side.
            if matches!(
                classify_file(path, request.rules).class,
                FileClass::Tests | FileClass::Harness
            ) {
                old_tests.from_tests.push(path.clone());
                new_tests.from_tests.push(path.clone());
            }
        }
        let tree = |step, code, tests, mix: Option<&TreeComposition>| StepTree {
            step,
            code,
            tests,
            from_tests: mix.map_or_else(BTreeSet::new, |mix| request.in_work_tree(&mix.from_tests)),
            merged: mix.map_or(Vec::new(), |mix| request.overlay(&mix.rewritten)),
        };
        let mut inseparable: Vec<String> =
            old_tests.not_separable.iter().map(|file| file.path.clone()).collect();
        if changes.left_out + changes.missing > 0 {
            inseparable.push("files that cannot be read".to_string());
        }
        let is_test = |path: &String| new_tests.from_tests.contains(path);
        let paths = changes.all.iter().map(|change| change.path.clone());
        let (changed_tests, changed_code) = paths.partition::<Vec<_>, _>(is_test);
        let has_new_tests = !changed_tests.is_empty() || !new_tests.rewritten.is_empty();
        Self {
            before: tree(ProofStep::Before, base, base, None),
            now: tree(ProofStep::Now, candidate, candidate, None),
            old_tests: tree(ProofStep::OldTests, candidate, base, Some(&old_tests)),
            new_tests: has_new_tests
                .then(|| tree(ProofStep::NewTests, base, candidate, Some(&new_tests))),
            changed_code,
            changed_tests,
            inseparable,
        }
    }

    fn report_early(
        self,
        request: &ProofRequest<'_>,
        now: StepResult,
        is_green: bool,
    ) -> ProofReport {
        let proof = if is_green {
            Proof::unavailable("no gate runs tests".to_string())
        } else {
            let failed = |(gate, now)| GateProof { gate, now, ..GateProof::default() };
            let gates = request.gates.iter().map(|gate| gate.name.as_str());
            let proofs: Vec<_> = gates.zip(now.reports.iter().map(Some)).map(failed).collect();
            proof::report_failures(&proofs)
        };
        let mut steps = vec![StepReport { step: ProofStep::Now, outcome: now.into() }];
        for step in [ProofStep::Before, ProofStep::OldTests, ProofStep::NewTests] {
            steps.push(StepReport { step, outcome: StepOutcome::NotNeeded });
        }
        self.into_report(proof, steps)
    }

    fn into_report(self, proof: Proof, steps: Vec<StepReport>) -> ProofReport {
        let Self { changed_code, changed_tests, .. } = self;
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

    fn in_work_tree(&self, paths: &[String]) -> BTreeSet<OsString> {
        let below = self.project_below();
        paths.iter().map(|path| below.join(path).into_os_string()).collect()
    }

    fn overlay(&self, rewritten: &[RewrittenFile]) -> Vec<OverlayFile> {
        let below = self.project_below();
        let file = |file: &RewrittenFile| OverlayFile {
            path: below.join(&file.path).into_os_string(),
            content: file.text.clone().into_bytes(),
        };
        rewritten.iter().map(file).collect()
    }
}
