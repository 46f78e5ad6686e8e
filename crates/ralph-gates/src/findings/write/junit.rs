//! Writes `JUnit` XML.

use super::{Ran, line, more, sentence, summary, why};
use quick_xml::escape::escape;
use ralph_core::gate::{Outcome, Unknown};
use ralph_core::requirement::Weight;

/// Writes one suite with one case for each gate. A failed advisory gate has its findings in the output of the case,
/// which does not fail.
pub fn junit(gates: &[Ran<'_>]) -> String {
    let count = |wanted: Mark| gates.iter().filter(|ran| mark(ran) == wanted).count();
    let took: u64 = gates.iter().map(|ran| ran.report.took_ms).fold(0, u64::saturating_add);
    let attributes = format!(
        "name=\"ralph\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        gates.len(),
        count(Mark::Failure),
        count(Mark::Error),
        count(Mark::Skipped),
        seconds(took),
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {attributes}>\n  <testsuite {attributes}>\n"
    );
    for ran in gates {
        out.push_str(&case(ran));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Failure,
    Error,
    Skipped,
}

fn mark(ran: &Ran<'_>) -> Mark {
    match (&ran.report.outcome, ran.gate.weight) {
        (Outcome::Passed, _) | (Outcome::Failed, Weight::Advisory) => Mark::None,
        (Outcome::Failed, Weight::Required) => Mark::Failure,
        (Outcome::Unknown(Unknown::Skipped(_)), _) | (Outcome::Unknown(_), Weight::Advisory) => {
            Mark::Skipped
        }
        (
            Outcome::Unknown(
                Unknown::Error(_)
                | Unknown::Timeout { .. }
                | Unknown::Inconclusive(_)
                | Unknown::Untrusted,
            ),
            Weight::Required,
        ) => Mark::Error,
    }
}

fn case(ran: &Ran<'_>) -> String {
    let report = ran.report;
    let mut out = format!(
        "    <testcase classname=\"ralph.{}\" name=\"{}\" time=\"{}\"",
        ran.gate.stage.name(),
        text(&ran.gate.name),
        seconds(report.took_ms),
    );
    let why = why(&report.outcome).unwrap_or_else(|| summary(report));
    let kind = report.outcome.name();
    let body = findings(ran);
    let inside = match mark(ran) {
        Mark::None if body.is_empty() => String::new(),
        Mark::None => format!("      <system-out>{body}</system-out>\n"),
        Mark::Failure => {
            format!("      <failure type=\"{kind}\" message=\"{}\">{body}</failure>\n", text(&why))
        }
        Mark::Error => {
            format!("      <error type=\"{kind}\" message=\"{}\">{body}</error>\n", text(&why))
        }
        Mark::Skipped => format!("      <skipped message=\"{}\"/>\n", text(&why)),
    };
    if inside.is_empty() {
        out.push_str("/>\n");
    } else {
        out.push_str(&format!(">\n{inside}    </testcase>\n"));
    }
    out
}

fn findings(ran: &Ran<'_>) -> String {
    let report = ran.report;
    let mut lines: Vec<_> =
        report.findings.iter().map(|finding| text(&sentence(finding))).collect();
    if let Some(more) = more(report, report.findings.len()) {
        lines.push(format!("and {more} more"));
    }
    if let Some(log) = report.log.as_deref().filter(|_| !lines.is_empty()) {
        lines.push(format!("all of it: {}", text(log)));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// Removes characters that XML does not allow, and escapes the rest.
fn text(foreign: &str) -> String {
    let allowed: String =
        line(foreign).chars().filter(|char| !matches!(char, '\u{fffe}' | '\u{ffff}')).collect();
    escape(allowed).into_owned()
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}
