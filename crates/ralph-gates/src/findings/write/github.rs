//! Writes annotations for GitHub Actions.

use super::{Ran, line, severity, summary, why};
use ralph_core::gate::{Outcome, Unknown};
use ralph_core::requirement::{Finding, Severity, Weight};

/// Writes workflow commands of GitHub Actions: one annotation for each finding, and one for each gate without findings.
pub fn github(gates: &[Ran<'_>]) -> String {
    let mut out = String::new();
    for ran in gates {
        let is_bad = ran.report.outcome != Outcome::Passed;
        for finding in &ran.report.findings {
            out.push_str(&annotation(ran, finding));
        }
        if is_bad && (ran.report.findings.is_empty() || why(&ran.report.outcome).is_some()) {
            let kind = match (&ran.report.outcome, ran.gate.weight) {
                (Outcome::Unknown(Unknown::Skipped(_)), _) => "notice",
                (_, Weight::Required) => "error",
                (_, Weight::Advisory) => "warning",
            };
            let title = property(&format!("{} ({})", ran.gate.name, ran.report.outcome.name()));
            let what = why(&ran.report.outcome).unwrap_or_else(|| summary(ran.report));
            out.push_str(&format!("::{kind} title={title}::{}\n", data(&what)));
        }
    }
    out
}

fn annotation(ran: &Ran<'_>, finding: &Finding) -> String {
    let kind = match (finding.severity, ran.gate.weight) {
        (Severity::Error, Weight::Required) => severity(Severity::Error),
        (Severity::Error, Weight::Advisory) | (Severity::Warning, _) => severity(Severity::Warning),
        (Severity::Note, _) => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        properties.push(format!("file={}", property(&place.file)));
        if let Some(number) = place.line {
            properties.push(format!("line={number}"));
            if let Some(number) = place.column {
                properties.push(format!("col={number}"));
            }
        }
    }
    let title = match &finding.rule {
        Some(rule) => format!("{}: {rule}", ran.gate.name),
        None => ran.gate.name.clone(),
    };
    properties.push(format!("title={}", property(&title)));
    format!("::{kind} {}::{}\n", properties.join(","), data(&finding.message))
}

fn data(text: &str) -> String {
    line(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
