//! Writes gate results in formats that CI systems and programs read. Untrusted text is cleaned once more and escaped as
//! the format requires.

mod github;
mod json;
mod junit;
mod markdown;
mod sarif;

pub use github::github;
pub use json::{Told, json, told};
pub use junit::junit;
pub use markdown::markdown;
pub use sarif::sarif;

use ralph_core::gate::{Gate, GateReport, Outcome, Unknown};
use ralph_core::requirement::{Finding, Place, Severity, Weight};
use ralph_core::text as words;

const LONGEST: usize = 1_000;

/// A gate and its result.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    pub gate: &'a Gate,
    pub report: &'a GateReport,
    pub cached: Cached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    No,
    /// Nothing it reads changed since this result, so it was not run again.
    Yes,
}

/// The outcome of all gates together. Without gates it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overall {
    Passed,
    Failed,
    Unknown,
}

impl Overall {
    fn of(gates: &[Ran<'_>]) -> Self {
        let required = || gates.iter().filter(|ran| ran.gate.weight == Weight::Required);
        if required().any(|ran| ran.report.outcome == Outcome::Failed) {
            Self::Failed
        } else if !gates.is_empty() && required().all(|ran| ran.report.outcome == Outcome::Passed) {
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
fn why(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Passed | Outcome::Failed => None,
        Outcome::Unknown(unknown) => Some(match unknown {
            Unknown::Error(why) | Unknown::Inconclusive(why) | Unknown::Skipped(why) => line(why),
            Unknown::Timeout { after_ms } => {
                format!("timed out after {}", ralph_core::limits::duration(*after_ms))
            }
            Unknown::Untrusted => "it is not approved".into(),
        }),
    }
}

fn line(text: &str) -> String {
    words::line(text, LONGEST)
}

/// Formats a location as `src/a.rs:3:5`.
fn place(place: &Place) -> String {
    let mut out = line(&place.file);
    for number in [place.line, place.line.and(place.column)].into_iter().flatten() {
        out.push(':');
        out.push_str(&number.to_string());
    }
    out
}

/// Formats a finding as `src/a.rs:3:5: error: message [rule]`.
fn sentence(finding: &Finding) -> String {
    let place = finding.place.as_ref().map(|at| format!("{}: ", place(at))).unwrap_or_default();
    let rule = finding.rule.as_deref().map(|rule| format!(" [{}]", line(rule))).unwrap_or_default();
    format!("{place}{}: {}{rule}", severity(finding.severity), line(&finding.message))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// `2 findings`, preceded by the number of failed tests if it is known.
fn summary(report: &GateReport) -> String {
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
fn more(report: &GateReport, shown: usize) -> Option<u32> {
    let shown = u32::try_from(shown).unwrap_or(u32::MAX);
    report.finding_count.checked_sub(shown).filter(|more| *more > 0)
}

#[cfg(test)]
mod tests;
