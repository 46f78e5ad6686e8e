//! Writes Markdown for CI summaries and comments.

use super::{Cached, Overall, Ran, line, more, place, severity, why};
use ralph_core::gate::{Outcome, Tests, Unknown};
use ralph_core::limits::duration;
use ralph_core::requirement::{Finding, Since, Weight};

const SHOWN: usize = 10;

/// Writes a table and the first findings of each gate, for a job summary or a comment.
pub fn markdown(gates: &[Ran<'_>]) -> String {
    let passed = gates.iter().filter(|ran| ran.report.outcome == Outcome::Passed).count();
    let mut out = format!(
        "**ralph: {}** — {passed} of {} gates passed\n\n| | gate | stage | outcome | tests | findings | time |\n|---|---|---|---|---|---|---|\n",
        Overall::of(gates).name(),
        gates.len(),
    );
    for ran in gates {
        out.push_str(&row(ran));
    }
    for ran in gates {
        let report = ran.report;
        if report.findings.is_empty() && why(&report.outcome).is_none() {
            continue;
        }
        out.push_str(&format!("\n#### {}\n\n", code(&ran.gate.name)));
        if let Some(why) = why(&report.outcome) {
            out.push_str(&format!("- {}: {}\n", report.outcome.name(), code(&why)));
        }
        for finding in report.findings.iter().take(SHOWN) {
            out.push_str(&item(finding));
        }
        if let Some(more) = more(report, report.findings.len().min(SHOWN)) {
            out.push_str(&format!("- and {more} more\n"));
        }
    }
    out
}

fn row(ran: &Ran<'_>) -> String {
    let report = ran.report;
    let mark = match (&report.outcome, ran.gate.weight) {
        (Outcome::Passed, _) => "✓",
        (Outcome::Failed, Weight::Required) => "✗",
        (Outcome::Failed, Weight::Advisory) | (Outcome::Unknown(Unknown::Skipped(_)), _) => "·",
        (Outcome::Unknown(_), _) => "?",
    };
    let outcome = match ran.gate.weight {
        Weight::Required => report.outcome.name().to_owned(),
        Weight::Advisory => format!("{}, advisory", report.outcome.name()),
    };
    let took = match ran.cached {
        Cached::No => duration(report.took_ms),
        Cached::Yes => "cached".into(),
    };
    format!(
        "| {mark} | {} | {} | {outcome} | {} | {} | {took} |\n",
        code(&ran.gate.name),
        ran.gate.stage.name(),
        report.tests.map(tests).unwrap_or_default(),
        report.finding_count,
    )
}

fn tests(tests: Tests) -> String {
    let Tests { run, failed, skipped } = tests;
    let mut out = format!("{run} ran");
    for (number, what) in [(failed, "failed"), (skipped, "skipped")] {
        if number > 0 {
            out.push_str(&format!(", {number} {what}"));
        }
    }
    out
}

fn item(finding: &Finding) -> String {
    let place =
        finding.place.as_ref().map(|at| format!("{} ", code(&place(at)))).unwrap_or_default();
    let rule = finding.rule.as_deref().map(|rule| format!(" ({})", code(rule))).unwrap_or_default();
    let since = match finding.since {
        Since::Unknown | Since::New => "",
        Since::PreExisting => ", pre-existing",
    };
    format!("- {place}{}{since}: {}{rule}\n", severity(finding.severity), code(&finding.message))
}

/// Formats text as code, with more backticks than it contains in a row, so that it cannot contain a link, a mention,
/// HTML or a table column.
fn code(foreign: &str) -> String {
    let text = line(foreign).replace('|', "¦");
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad =
        if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}
