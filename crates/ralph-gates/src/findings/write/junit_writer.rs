//! Writes `JUnit` XML.

use super::{
    ReportedGate, clean_line, format_finding, result_summary, unknown_reason, unlisted_findings,
};
use quick_xml::escape::escape;
use ralph_core::gate::{GateOutcome, UnknownReason};
use ralph_core::reason::FULL_LOG_LABEL;
use ralph_core::requirement::RequirementWeight;

/// Writes one suite with one case for each gate. A failed advisory gate has its findings in the output of the case,
/// which does not fail.
pub fn write_junit(gates: &[ReportedGate<'_>]) -> String {
    let count =
        |wanted: JunitCaseStatus| gates.iter().filter(|ran| case_status(ran) == wanted).count();
    let took: u64 = gates.iter().map(|ran| ran.report.took_ms).fold(0, u64::saturating_add);
    let attributes = format!(
        "name=\"ralph\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        gates.len(),
        count(JunitCaseStatus::Failure),
        count(JunitCaseStatus::Error),
        count(JunitCaseStatus::Skipped),
        format_seconds(took),
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {attributes}>\n  <testsuite {attributes}>\n"
    );
    for ran in gates {
        out.push_str(&write_case(ran));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JunitCaseStatus {
    None,
    Failure,
    Error,
    Skipped,
}

fn case_status(ran: &ReportedGate<'_>) -> JunitCaseStatus {
    match (&ran.report.outcome, ran.gate.weight) {
        (GateOutcome::Passed, _) | (GateOutcome::Failed, RequirementWeight::Advisory) => {
            JunitCaseStatus::None
        }
        (GateOutcome::Failed, RequirementWeight::Required) => JunitCaseStatus::Failure,
        (GateOutcome::Unknown(UnknownReason::Skipped(_)), _)
        | (GateOutcome::Unknown(_), RequirementWeight::Advisory) => JunitCaseStatus::Skipped,
        (
            GateOutcome::Unknown(
                UnknownReason::Error(_)
                | UnknownReason::Timeout { .. }
                | UnknownReason::Inconclusive(_)
                | UnknownReason::NoTests(_)
                | UnknownReason::Unpublished(_)
                | UnknownReason::Untrusted,
            ),
            RequirementWeight::Required,
        ) => JunitCaseStatus::Error,
    }
}

fn write_case(ran: &ReportedGate<'_>) -> String {
    let report = ran.report;
    let mut out = format!(
        "    <testcase classname=\"ralph.{}\" name=\"{}\" time=\"{}\"",
        ran.gate.stage.name(),
        xml_text(&ran.gate.name),
        format_seconds(report.took_ms),
    );
    let why = unknown_reason(&report.outcome).unwrap_or_else(|| result_summary(report));
    let kind = report.outcome.name();
    let body = case_body(ran);
    let inside = match case_status(ran) {
        JunitCaseStatus::None if body.is_empty() => String::new(),
        JunitCaseStatus::None => format!("      <system-out>{body}</system-out>\n"),
        JunitCaseStatus::Failure => {
            format!(
                "      <failure type=\"{kind}\" message=\"{}\">{body}</failure>\n",
                xml_text(&why)
            )
        }
        JunitCaseStatus::Error => {
            format!("      <error type=\"{kind}\" message=\"{}\">{body}</error>\n", xml_text(&why))
        }
        JunitCaseStatus::Skipped => format!("      <skipped message=\"{}\"/>\n", xml_text(&why)),
    };
    if inside.is_empty() {
        out.push_str("/>\n");
    } else {
        out.push_str(&format!(">\n{inside}    </testcase>\n"));
    }
    out
}

fn case_body(ran: &ReportedGate<'_>) -> String {
    let report = ran.report;
    let mut lines: Vec<_> =
        report.findings.iter().map(|finding| xml_text(&format_finding(finding))).collect();
    if let Some(more) = unlisted_findings(report, report.findings.len()) {
        lines.push(format!("and {more} more"));
    }
    if let Some(log) = report.log.as_deref().filter(|_| !lines.is_empty()) {
        lines.push(format!("{FULL_LOG_LABEL} {}", xml_text(log)));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// Removes characters that XML does not allow, and escapes the rest.
fn xml_text(foreign: &str) -> String {
    let allowed: String = clean_line(foreign)
        .chars()
        .filter(|char| !matches!(char, '\u{fffe}' | '\u{ffff}'))
        .collect();
    escape(allowed).into_owned()
}

fn format_seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}
