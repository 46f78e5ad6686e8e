//! A proof: what each of its steps reported, and what they show together.

use ralph_core::gate::{GateOutcome, GateReport};
use ralph_core::proof::{BrokenHow, CanaryResult, Proof, ProofVerdict};
use ralph_core::status::RunStatus;
use ralph_proof::{HunkResult, HunkTrials, ProofReport, StepOutcome};
use serde::Serialize;

const GATES_FAILED: u8 = 1;

#[derive(Debug, Serialize)]
pub struct ProofView<'a> {
    pub v: u8,
    pub base: &'a str,
    pub head: &'a str,
    pub verdict: &'static str,
    pub because: String,
    /// How many tests of the base hold on the new code.
    pub held: usize,
    /// Tests that pass now and fail without the change.
    pub telling: Vec<NamedTestView<'a>>,
    pub broken: Vec<BrokenTestView<'a>>,
    pub doubts: &'a [String],
    /// Tests of the base that hold on the new code but were removed, or are skipped now.
    pub removed: &'a [String],
    /// Gates that run at a stop and are not part of the proof.
    #[serde(skip_serializing_if = "is_empty")]
    pub left_out: &'a [LeftOutGateView<'a>],
    /// Tests and settings that a person allowed to change, and that did.
    #[serde(skip_serializing_if = "is_empty")]
    pub allowed: &'a [String],
    pub changed_code: &'a [String],
    pub changed_tests: &'a [String],
    pub steps: Vec<ProofStepView<'a>>,
    /// Present if hunks were to be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<HunkTrialsView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct LeftOutGateView<'a> {
    pub gate: &'a str,
    pub because: &'static str,
}

#[derive(Debug, Serialize)]
pub struct HunkTrialsView<'a> {
    /// How many hunks of code the change has.
    pub found: usize,
    /// How many hunks and files were left out: comments, blank lines, documents and lock files.
    pub trivial: usize,
    pub out_of_time: bool,
    pub tried: Vec<TriedHunkView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct TriedHunkView<'a> {
    pub file: &'a str,
    /// The first and last line in the new version; `None` for a whole file.
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub added: u32,
    pub removed: u32,
    pub result: &'static str,
    /// Why there is no result.
    pub because: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub struct NamedTestView<'a> {
    pub gate: &'a str,
    pub test: &'a str,
}

#[derive(Debug, Serialize)]
pub struct BrokenTestView<'a> {
    pub gate: &'a str,
    pub test: &'a str,
    pub how: &'static str,
    pub message: &'a str,
}

#[derive(Debug, Serialize)]
pub struct ProofStepView<'a> {
    pub step: &'static str,
    /// `None` if it did not run.
    pub took_ms: Option<u64>,
    /// The step whose results count for this one too, because both have the same files.
    pub same_as: Option<&'static str>,
    pub gates: Vec<ProofGateView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct ProofGateView<'a> {
    pub gate: &'a str,
    pub outcome: &'static str,
    pub passed: Option<usize>,
    pub failed: Option<usize>,
    pub skipped: Option<usize>,
    pub canary: &'static str,
    pub log: Option<&'a str>,
}

fn is_empty<T>(list: &&[T]) -> bool {
    list.is_empty()
}

pub fn proof_view<'a>(
    report: &'a ProofReport,
    hunks: Option<&'a HunkTrials>,
    base: &'a str,
    head: &'a str,
) -> ProofView<'a> {
    let Proof { verdict, held, telling, broken, doubts, removed, allowed, .. } = &report.proof;
    ProofView {
        v: 1,
        base,
        head,
        verdict: verdict.name(),
        because: report.proof.describe(),
        held: *held,
        telling: telling
            .iter()
            .map(|one| NamedTestView { gate: &one.gate, test: &one.test })
            .collect(),
        broken: broken
            .iter()
            .map(|one| BrokenTestView {
                gate: &one.gate,
                test: &one.test,
                how: broken_word(one.how),
                message: &one.message,
            })
            .collect(),
        doubts,
        removed,
        left_out: &[],
        allowed,
        changed_code: &report.changed_code,
        changed_tests: &report.changed_tests,
        steps: report
            .steps
            .iter()
            .map(|one| {
                let (took_ms, same_as, gates) = match &one.outcome {
                    StepOutcome::Ran { reports, canaries, took_ms } => {
                        let gates = reports.iter().zip(canaries).map(gate_view).collect();
                        (Some(*took_ms), None, gates)
                    }
                    StepOutcome::SameAs(other) => (None, Some(other.name()), Vec::new()),
                    StepOutcome::NotNeeded => (None, None, Vec::new()),
                };
                ProofStepView { step: one.step.name(), took_ms, same_as, gates }
            })
            .collect(),
        hunks: hunks.map(hunks_view),
    }
}

fn hunks_view(trials: &HunkTrials) -> HunkTrialsView<'_> {
    let HunkTrials { tried, found, trivial, out_of_time } = trials;
    HunkTrialsView {
        found: *found,
        trivial: *trivial,
        out_of_time: *out_of_time,
        tried: tried
            .iter()
            .map(|one| TriedHunkView {
                file: &one.hunk.path,
                line: one.hunk.lines.map(|(first, _)| first),
                end_line: one.hunk.lines.map(|(_, last)| last),
                added: one.hunk.added,
                removed: one.hunk.removed,
                result: match &one.result {
                    HunkResult::Noticed => "noticed",
                    HunkResult::Unnoticed => "unnoticed",
                    HunkResult::Unknown(_) => "unknown",
                },
                because: match &one.result {
                    HunkResult::Unknown(why) => Some(why),
                    HunkResult::Noticed | HunkResult::Unnoticed => None,
                },
            })
            .collect(),
    }
}

fn gate_view<'a>((report, canary): (&'a GateReport, &CanaryResult)) -> ProofGateView<'a> {
    let cases = report.cases.as_ref();
    ProofGateView {
        gate: &report.name,
        outcome: report.outcome.name(),
        passed: cases.map(|cases| cases.passed.len()),
        failed: cases.map(|cases| cases.failed.len()),
        skipped: cases.map(|cases| cases.skipped.len()),
        canary: match canary {
            CanaryResult::Failed => "failed",
            CanaryResult::Silent => "silent",
            CanaryResult::NotPossible => "none",
        },
        log: report.log.as_deref(),
    }
}

pub fn broken_word(how: BrokenHow) -> &'static str {
    match how {
        BrokenHow::Fails => "fails",
        BrokenHow::Missing => "missing",
    }
}

/// `148 passed`, `2 of 151 failed`, `gave no result: timed out`
pub fn describe_step_report(report: &GateReport) -> String {
    let outcome = match &report.outcome {
        GateOutcome::Unknown(unknown) => return format!("no result: {}", unknown.describe()),
        GateOutcome::Passed => "passed",
        GateOutcome::Failed => "failed",
    };
    match &report.cases {
        None => outcome.to_string(),
        Some(cases) if cases.failed.is_empty() => format!("{} passed", cases.passed.len()),
        Some(cases) => {
            let all = cases.failed.len() + cases.passed.len();
            format!("{} of {all} failed", cases.failed.len())
        }
    }
}

/// 0 only for `verified`; the codes of runs that end alike.
pub fn proof_exit_code(verdict: ProofVerdict) -> u8 {
    match verdict {
        ProofVerdict::Verified => RunStatus::Verified.exit_code(),
        ProofVerdict::Green => RunStatus::Green.exit_code(),
        ProofVerdict::NeedsReview => RunStatus::NeedsReview.exit_code(),
        ProofVerdict::Failed => GATES_FAILED,
    }
}
