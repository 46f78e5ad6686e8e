//! Puts the results of gates into words.

use ralph_core::gate::{Gate, GateOutcome, GateReport, ResultStability, UnknownReason};
use ralph_core::record::RunRecord;
use ralph_core::units;

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
            UnknownReason::Skipped(why) | UnknownReason::NoTests(why) => safe_line(why),
            UnknownReason::Error(why) | UnknownReason::Inconclusive(why) => {
                format!("{}: {}", unknown.name(), safe_line(why))
            }
            UnknownReason::Timeout { after_ms } => {
                format!("timed out after {}", units::format_duration(*after_ms))
            }
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
