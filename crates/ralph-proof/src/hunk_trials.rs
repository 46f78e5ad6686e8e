//! Reverts the hunks of a change one by one and runs its tests each time: a hunk without which every test passes is one
//! that no test notices.

use std::collections::BTreeSet;
use std::time::Duration;

use ralph_core::gate::{Gate, GateOutcome, GateReport, UnknownReason};
use ralph_core::proof::{ProofStep, ProofVerdict};
use ralph_sys::clock::Deadline;

use crate::code_hunks::{CodeHunk, CodeHunks};
use crate::first_step::step_limit_ms;
use crate::proof_plan::StepTree;
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, run_step};
use crate::prove::{ProofError, ProofReport, ProofRequest, StepOutcome, is_test_gate};
use crate::test_selection::{MIN_SELECTED_MS, select_files};
use crate::tree_changes::{ComparedCheckpoints, FileChangeKind, TreeChanges};

/// How many hunks are tried, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct HunkLimits {
    pub count: usize,
    pub time: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct HunkProgress<'a> {
    pub number: usize,
    pub of: usize,
    pub hunk: &'a CodeHunk,
}

#[derive(Debug, Default)]
pub struct HunkTrials {
    /// In the order of the files.
    pub tried: Vec<TriedHunk>,
    /// The number of hunks of code, tried or not.
    pub found: usize,
    /// The number of hunks and files that were left out: comments, blank lines, documents and lock files.
    pub trivial: usize,
    pub out_of_time: bool,
}

#[derive(Debug)]
pub struct TriedHunk {
    pub hunk: CodeHunk,
    pub result: HunkResult,
}

#[derive(Debug, PartialEq, Eq)]
pub enum HunkResult {
    /// A test fails without the hunk.
    Noticed,
    /// Every test passes without it.
    Unnoticed,
    Unknown(String),
}

/// Tries the largest hunks first. The change must have passed its gates; otherwise nothing is tried.
pub fn try_hunks(
    request: &ProofRequest<'_>,
    report: &ProofReport,
    limits: HunkLimits,
    watch: &dyn Fn(HunkProgress<'_>),
) -> Result<HunkTrials, ProofError> {
    let deadline = Deadline::after(limits.time);
    let sides = ComparedCheckpoints { base: request.base, now: request.candidate };
    let reading = Deadline::after(CHECKOUT_TIMEOUT);
    let changes = TreeChanges::between(request.repository, sides, request.project, &reading)?;
    let hunks = CodeHunks::find(&changes, request.rules);
    let (found, trivial) = (hunks.all.len(), hunks.trivial);
    let mut trials = HunkTrials { found, trivial, ..HunkTrials::default() };
    let exists = |path: &&String| {
        changes.all.iter().any(|file| file.path == **path && file.kind != FileChangeKind::Deleted)
    };
    let changed_tests: Vec<&String> = report.changed_tests.iter().filter(exists).collect();
    let gates = trial_gates(request, report, &changed_tests);
    if gates.is_empty() {
        return Ok(trials);
    }
    let mut order: Vec<usize> = (0..found).collect();
    order.sort_by_key(|at| {
        hunks.all.get(*at).map(|hunk| std::cmp::Reverse(hunk.added.saturating_add(hunk.removed)))
    });
    order.truncate(limits.count);
    let quiet = ProofRequest { watch: &|_| {}, ..*request };
    let mut tried = Vec::new();
    for (number, at) in order.iter().enumerate() {
        let Some(hunk) = hunks.all.get(*at) else { continue };
        watch(HunkProgress { number: number + 1, of: order.len(), hunk });
        let trial = HunkTrial { request: &quiet, gates: &gates, deadline: &deadline };
        let result = trial.run(&hunks, hunk)?;
        if request.cancel.is_cancelled() {
            break;
        }
        let Some(result) = result else {
            trials.out_of_time = true;
            break;
        };
        tried.push((*at, TriedHunk { hunk: hunk.clone(), result }));
    }
    tried.sort_by_key(|(at, _)| *at);
    trials.tried = tried.into_iter().map(|(_, tried)| tried).collect();
    Ok(trials)
}

/// A gate that runs tests, and its result on the whole change.
struct TrialGate<'a> {
    gate: &'a Gate,
    now: &'a GateReport,
    /// The changed tests that it can run alone, if that is faster than all of its tests.
    changed: Vec<String>,
}

fn trial_gates<'a>(
    request: &ProofRequest<'a>,
    report: &'a ProofReport,
    changed_tests: &[&String],
) -> Vec<TrialGate<'a>> {
    let now = report.steps.iter().find(|step| step.step == ProofStep::Now);
    let reports = match now.map(|now| &now.outcome) {
        Some(StepOutcome::Ran { reports, .. }) if report.proof.verdict != ProofVerdict::Failed => {
            reports
        }
        Some(StepOutcome::Ran { .. } | StepOutcome::SameAs(_) | StepOutcome::NotNeeded) | None => {
            return Vec::new();
        }
    };
    let selectable = |gate: &Gate, now: &GateReport| {
        let is_selectable =
            |path: &&&String| select_files(gate, std::slice::from_ref(**path)).is_some();
        let files = changed_tests.iter().filter(|_| now.took_ms > MIN_SELECTED_MS);
        files.filter(is_selectable).map(|path| (*path).clone()).collect()
    };
    let trial_gate = |gate: &&'a Gate| {
        let now = reports.iter().find(|one| one.name == gate.name)?;
        let runs_tests = is_test_gate(gate, now) && now.outcome == GateOutcome::Passed;
        runs_tests.then(|| TrialGate { gate, now, changed: selectable(gate, now) })
    };
    request.gates.iter().filter_map(trial_gate).collect()
}

struct HunkTrial<'a> {
    request: &'a ProofRequest<'a>,
    gates: &'a [TrialGate<'a>],
    deadline: &'a Deadline,
}

impl HunkTrial<'_> {
    /// `None` if the time is up. Changed tests run first: they are likely to notice the hunk, and then no other has to.
    fn run(&self, hunks: &CodeHunks, hunk: &CodeHunk) -> Result<Option<HunkResult>, ProofError> {
        let reading = Deadline::after(CHECKOUT_TIMEOUT);
        let tree = StepTree::of_candidate(self.request, &hunks.revert(hunk), &reading)?;
        let mut unknown = None;
        for (gate, files) in self.runs() {
            if self.deadline.has_passed() {
                return Ok(None);
            }
            let limit_ms = step_limit_ms(gate.now.took_ms);
            let left_ms = u64::try_from(self.deadline.remaining().as_millis()).unwrap_or(u64::MAX);
            let step = StepGate {
                gate: gate.gate,
                wants_canary: false,
                limit_ms: Some(limit_ms.min(left_ms)),
                files,
                expected_tests: None,
            };
            let result = run_step(self.request, &tree, &[step])?;
            let Some(report) = result.reports.first() else { continue };
            match &report.outcome {
                GateOutcome::Unknown(UnknownReason::Timeout { .. }) if left_ms < limit_ms => {
                    return Ok(None);
                }
                // Without the hunk the code may hang.
                GateOutcome::Failed | GateOutcome::Unknown(UnknownReason::Timeout { .. }) => {
                    return Ok(Some(HunkResult::Noticed));
                }
                GateOutcome::Passed if files.is_none() && lacks_tests(report, gate.now) => {
                    return Ok(Some(HunkResult::Noticed));
                }
                GateOutcome::Passed => {}
                GateOutcome::Unknown(reason) => {
                    unknown.get_or_insert(format!("{}: {}", report.name, reason.describe()));
                }
            }
        }
        Ok(Some(unknown.map_or(HunkResult::Unnoticed, HunkResult::Unknown)))
    }

    /// Each gate with its changed tests, then each with all of them.
    fn runs(&self) -> impl Iterator<Item = (&TrialGate<'_>, Option<&[String]>)> {
        let changed = self.gates.iter().filter(|gate| !gate.changed.is_empty());
        let changed = changed.map(|gate| (gate, Some(gate.changed.as_slice())));
        changed.chain(self.gates.iter().map(|gate| (gate, None)))
    }
}

/// Whether a test that passes on the whole change is not reported any more.
fn lacks_tests(report: &GateReport, now: &GateReport) -> bool {
    match (&report.cases, &now.cases) {
        (Some(here), Some(now)) => {
            let here: BTreeSet<&String> = here.passed.iter().collect();
            now.passed.iter().any(|test| !here.contains(test))
        }
        (Some(_) | None, _) => false,
    }
}
