//! Puts the results of gates into words.

use ralph_core::gate::{Gate, GateOutcome, GateReport, ResultStability, UnknownReason};
use ralph_core::record::RunRecord;
use ralph_core::text;

use crate::wording::{FactMark, safe_line};

pub fn gate_mark(outcome: &GateOutcome) -> FactMark {
    match outcome {
        GateOutcome::Passed => FactMark::Good,
        GateOutcome::Failed => FactMark::Bad,
        GateOutcome::Unknown(UnknownReason::Skipped(_)) => FactMark::Neutral,
        GateOutcome::Unknown(_) => FactMark::Unclear,
    }
}

/// Why a gate did not pass, on one line.
pub fn gate_note(report: &GateReport) -> String {
    match &report.outcome {
        GateOutcome::Passed => String::new(),
        GateOutcome::Failed => report.summary(),
        GateOutcome::Unknown(unknown) => match unknown {
            UnknownReason::Skipped(why)
            | UnknownReason::NoTests(why)
            | UnknownReason::Unpublished(why) => safe_line(why),
            UnknownReason::Error(why) | UnknownReason::Inconclusive(why) => {
                format!("{}: {}", unknown.name(), safe_line(why))
            }
            UnknownReason::Timeout { .. } => safe_line(&unknown.describe()),
            UnknownReason::Untrusted => "not approved yet: run `ralph trust`".to_string(),
        },
    }
}

pub fn steadiness(report: &GateReport) -> &'static str {
    match report.steadiness {
        ResultStability::Once | ResultStability::Confirmed => "",
        ResultStability::Flaky => "flaky: it failed first and passed when run again",
    }
}

/// The commands that a person typed for this run only.
pub fn check_texts(run: &RunRecord) -> Vec<String> {
    let text = |check: &Gate| {
        let (name, command) = (safe_line(&check.name), safe_line(&check.command_line()));
        format!("{name}: `{command}`, for this run only")
    };
    let checks = run
        .seal
        .iter()
        .flat_map(|seal| seal.policy.gates.iter().filter(|gate| seal.is_check(&gate.name)));
    checks.map(text).collect()
}

/// A gate that was this quick the last time, such as a question to CI, says nothing about how long it takes now.
pub const SHORTEST_USUAL_MS: u64 = 1000;

/// With it, the running judge still fits into the status line.
const LONGEST_STEP: usize = 60;

/// A log of a run may hold longer or other text than this ralph writes.
pub fn judge_step(step: &str) -> String {
    text::clean_line(step, LONGEST_STEP)
}
