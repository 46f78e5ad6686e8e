//! Writes gate results in formats that CI systems and programs read. Untrusted text is cleaned once more and escaped as
//! the format requires.

mod github_writer;
mod json_writer;
mod junit_writer;
mod markdown_writer;
mod sarif_writer;

pub use github_writer::{
    without_github_commands, write_github, write_github_error, write_github_warning,
};
pub use json_writer::{GateReportJson, gate_report_json, write_json};
pub use junit_writer::write_junit;
pub use markdown_writer::write_markdown;
pub use sarif_writer::write_sarif;

use ralph_core::gate::{Gate, GateOutcome, GateReport, UnknownReason};
use ralph_core::requirement::{Finding, FindingLocation, FindingSeverity, RequirementWeight};
use ralph_core::text;

const MAX_TEXT_CHARS: usize = 1_000;

/// A gate and its result.
#[derive(Clone, Copy, Debug)]
pub struct ReportedGate<'a> {
    pub gate: &'a Gate,
    pub report: &'a GateReport,
    /// Nothing it reads changed since this result, so it was not run again.
    pub cached: bool,
}

/// The outcome of all gates together. Without gates it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverallOutcome {
    Passed,
    Failed,
    Unknown,
}

impl OverallOutcome {
    fn from_gates(gates: &[ReportedGate<'_>]) -> Self {
        let required = || gates.iter().filter(|ran| ran.gate.weight == RequirementWeight::Required);
        if required().any(|ran| ran.report.outcome == GateOutcome::Failed) {
            Self::Failed
        } else if !gates.is_empty()
            && required().all(|ran| ran.report.outcome == GateOutcome::Passed)
        {
            Self::Passed
        } else {
            Self::Unknown
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// The reason why a gate neither passed nor failed.
fn unknown_reason(outcome: &GateOutcome) -> Option<String> {
    match outcome {
        GateOutcome::Passed | GateOutcome::Failed => None,
        GateOutcome::Unknown(unknown) => Some(match unknown {
            UnknownReason::Error(why)
            | UnknownReason::Inconclusive(why)
            | UnknownReason::NoTests(why)
            | UnknownReason::Unpublished(why)
            | UnknownReason::Skipped(why) => clean_line(why),
            UnknownReason::Timeout { .. } => clean_line(&unknown.describe()),
            UnknownReason::Untrusted => "it is not approved".into(),
        }),
    }
}

fn clean_line(text: &str) -> String {
    text::clean_line(text, MAX_TEXT_CHARS)
}

/// Formats a location as `src/a.rs:3:5`.
fn format_location(place: &FindingLocation) -> String {
    let mut out = clean_line(&place.file);
    for number in [place.line, place.line.and(place.column)].into_iter().flatten() {
        out.push(':');
        out.push_str(&number.to_string());
    }
    out
}

/// Formats a finding as `src/a.rs:3:5: error: message [rule]`.
fn format_finding(finding: &Finding) -> String {
    let place =
        finding.place.as_ref().map(|at| format!("{}: ", format_location(at))).unwrap_or_default();
    let rule =
        finding.rule.as_deref().map(|rule| format!(" [{}]", clean_line(rule))).unwrap_or_default();
    format!("{place}{}: {}{rule}", severity_name(finding.severity), clean_line(&finding.message))
}

fn severity_name(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Error => "error",
        FindingSeverity::Warning => "warning",
        FindingSeverity::Note => "note",
    }
}

/// `2 findings`, preceded by the number of failed tests if it is known.
fn result_summary(report: &GateReport) -> String {
    let findings = match report.finding_count {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    match report.tests {
        Some(tests) if tests.failed > 0 => {
            format!("{} of {} tests failed, {findings}", tests.failed, tests.run)
        }
        Some(_) | None => findings,
    }
}

/// How many findings are not among the first `shown`.
fn unlisted_findings(report: &GateReport, shown: usize) -> Option<u32> {
    let shown = u32::try_from(shown).unwrap_or(u32::MAX);
    report.finding_count.checked_sub(shown).filter(|more| *more > 0)
}

#[cfg(test)]
mod tests;
