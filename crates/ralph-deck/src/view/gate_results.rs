//! The results of gates. Their JSON, and the formats of other tools, are in `ralph_gates::findings::write`.

use crate::gate_wording::{gate_note, steadiness};
use crate::wording::count_noun;
use ralph_core::gate::{GateOutcome, GateReport, UnknownReason};
use ralph_core::requirement::RequirementWeight;
use ralph_gates::findings::write;
use ralph_gates::gates::{GateResult, ResultSource};

const REQUIRED_GATE_FAILED: u8 = 1;
const NO_RESULT: u8 = 4;

/// The exit code: 0 if every required gate passed, 1 if one failed, 4 if one gave no result.
pub fn gate_exit_code(ran: &[GateResult]) -> u8 {
    let required = || ran.iter().filter(|ran| ran.gate.weight == RequirementWeight::Required);
    if required().any(|ran| ran.report.outcome == GateOutcome::Failed) {
        REQUIRED_GATE_FAILED
    } else if required().any(|ran| !ran.passed()) {
        NO_RESULT
    } else {
        0
    }
}

/// A result as `ralph_gates::findings::write` takes it.
pub fn reported_gate(ran: &GateResult) -> write::ReportedGate<'_> {
    let cached = ran.source == ResultSource::Cached;
    write::ReportedGate { gate: &ran.gate, report: &ran.report, cached }
}

/// Why a gate did not pass, and how much that counts.
pub fn result_notes(ran: &GateResult) -> Vec<String> {
    let mut notes = vec![gate_note(&ran.report), steadiness(&ran.report).to_string()];
    notes.extend(coverage_note(&ran.report));
    if ran.gate.weight == RequirementWeight::Advisory && !ran.passed() {
        notes.push("advisory".to_string());
    }
    notes.retain(|note| !note.is_empty());
    notes
}

/// `coverage 71.42 % (15 of 21 lines), 2 files of the report are not in the project`; `None` if it is the failure itself.
fn coverage_note(report: &GateReport) -> Option<String> {
    let coverage = report.coverage.as_deref().filter(|_| report.outcome == GateOutcome::Passed)?;
    let share = format!("coverage {}", coverage.count().describe());
    Some(match coverage.unmatched {
        0 => share,
        1 => format!("{share}, 1 file of the report is not in the project"),
        more => format!("{share}, {more} files of the report are not in the project"),
    })
}

/// `2 of 3 gates passed, 1 failed`
pub fn count_line(ran: &[GateResult], noun: &str) -> String {
    let count = |wanted: &dyn Fn(&GateOutcome) -> bool| {
        ran.iter().filter(|ran| wanted(&ran.report.outcome)).count()
    };
    let passed = count(&|outcome| *outcome == GateOutcome::Passed);
    let mut parts = vec![format!("{passed} of {} passed", count_noun(ran.len(), noun))];
    let failed = count(&|outcome| *outcome == GateOutcome::Failed);
    let skipped =
        count(&|outcome| matches!(outcome, GateOutcome::Unknown(UnknownReason::Skipped(_))));
    let unknown = ran.len() - passed - failed - skipped;
    for (count, word) in
        [(failed, "failed"), (unknown, "without a result"), (skipped, "not reached")]
    {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}
