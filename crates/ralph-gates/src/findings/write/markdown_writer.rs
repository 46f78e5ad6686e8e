//! Writes Markdown for CI summaries and comments.

use super::{
    OverallOutcome, ReportedGate, clean_line, format_location, severity_name, unknown_reason,
    unlisted_findings,
};
use ralph_core::gate::{GateOutcome, TestCounts, UnknownReason};
use ralph_core::requirement::{Finding, FindingAge, RequirementWeight};
use ralph_core::units::format_duration;

const MAX_SHOWN: usize = 10;

/// Writes a table and the first findings of each gate, for a job summary or a comment.
pub fn write_markdown(gates: &[ReportedGate<'_>]) -> String {
    let passed = gates.iter().filter(|ran| ran.report.outcome == GateOutcome::Passed).count();
    let mut out = format!(
        "**ralph: {}** — {passed} of {} gates passed\n\n| | gate | stage | outcome | tests | findings | time |\n|---|---|---|---|---|---|---|\n",
        OverallOutcome::from_gates(gates).name(),
        gates.len(),
    );
    for ran in gates {
        out.push_str(&table_row(ran));
    }
    for ran in gates {
        let report = ran.report;
        if report.findings.is_empty() && unknown_reason(&report.outcome).is_none() {
            continue;
        }
        out.push_str(&format!("\n#### {}\n\n", code_span(&ran.gate.name)));
        if let Some(why) = unknown_reason(&report.outcome) {
            out.push_str(&format!("- {}: {}\n", report.outcome.name(), code_span(&why)));
        }
        for finding in report.findings.iter().take(MAX_SHOWN) {
            out.push_str(&finding_item(finding));
        }
        if let Some(more) = unlisted_findings(report, report.findings.len().min(MAX_SHOWN)) {
            out.push_str(&format!("- and {more} more\n"));
        }
    }
    out
}

fn table_row(ran: &ReportedGate<'_>) -> String {
    let report = ran.report;
    let mark = match (&report.outcome, ran.gate.weight) {
        (GateOutcome::Passed, _) => "✓",
        (GateOutcome::Failed, RequirementWeight::Required) => "✗",
        (GateOutcome::Failed, RequirementWeight::Advisory)
        | (GateOutcome::Unknown(UnknownReason::Skipped(_)), _) => "·",
        (GateOutcome::Unknown(_), _) => "?",
    };
    let outcome = match ran.gate.weight {
        RequirementWeight::Required => report.outcome.name().to_owned(),
        RequirementWeight::Advisory => format!("{}, advisory", report.outcome.name()),
    };
    let took = if ran.cached { "cached".into() } else { format_duration(report.took_ms) };
    format!(
        "| {mark} | {} | {} | {outcome} | {} | {} | {took} |\n",
        code_span(&ran.gate.name),
        ran.gate.stage.name(),
        report.tests.map(format_tests).unwrap_or_default(),
        report.finding_count,
    )
}

fn format_tests(tests: TestCounts) -> String {
    let TestCounts { run, failed, skipped } = tests;
    let mut out = format!("{run} ran");
    for (number, what) in [(failed, "failed"), (skipped, "skipped")] {
        if number > 0 {
            out.push_str(&format!(", {number} {what}"));
        }
    }
    out
}

fn finding_item(finding: &Finding) -> String {
    let place = finding
        .place
        .as_ref()
        .map(|at| format!("{} ", code_span(&format_location(at))))
        .unwrap_or_default();
    let rule =
        finding.rule.as_deref().map(|rule| format!(" ({})", code_span(rule))).unwrap_or_default();
    let since = match finding.since {
        FindingAge::Unknown | FindingAge::New => "",
        FindingAge::PreExisting => ", pre-existing",
    };
    format!(
        "- {place}{}{since}: {}{rule}\n",
        severity_name(finding.severity),
        code_span(&finding.message)
    )
}

/// Formats text as code, with more backticks than it contains in a row, so that it cannot contain a link, a mention,
/// HTML or a table column.
fn code_span(foreign: &str) -> String {
    let text = clean_line(foreign).replace('|', "¦");
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad =
        if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}
