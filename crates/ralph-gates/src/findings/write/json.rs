//! Writes gate results as JSON, for `--json`.

use super::{Cached, Overall, Ran, line, why};
use crate::findings::signature;
use ralph_core::gate::{Steadiness, Tests};
use ralph_core::mark::Mark;
use ralph_core::requirement::{Severity, Since, Weight};
use ralph_sys::clock;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    v: u8,
    outcome: &'static str,
    gates: Vec<Told<'a>>,
}

/// A gate's result as JSON.
#[derive(Debug, Serialize)]
pub struct Told<'a> {
    name: &'a str,
    stage: &'static str,
    weight: Weight,
    outcome: &'static str,
    /// Why the gate neither passed nor failed.
    why: Option<String>,
    cached: bool,
    exit: Option<i32>,
    tests: Option<Tests>,
    steadiness: Steadiness,
    finding_count: u32,
    findings: Vec<Finding>,
    took_ms: u64,
    at: String,
    log: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Finding {
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    rule: Option<String>,
    message: String,
    severity: Severity,
    since: Since,
    signature: Mark,
}

/// Writes one object on one line.
pub fn json(gates: &[Ran<'_>]) -> String {
    let document = Document {
        v: 1,
        outcome: Overall::of(gates).name(),
        gates: gates.iter().map(told).collect(),
    };
    // Serialising strings, numbers and lists of them cannot fail.
    let mut out = serde_json::to_string(&document).unwrap_or_default();
    out.push('\n');
    out
}

pub fn told<'a>(ran: &Ran<'a>) -> Told<'a> {
    let report = ran.report;
    Told {
        name: &ran.gate.name,
        stage: ran.gate.stage.name(),
        weight: ran.gate.weight,
        outcome: report.outcome.name(),
        why: why(&report.outcome),
        cached: ran.cached == Cached::Yes,
        exit: report.exit,
        tests: report.tests,
        steadiness: report.steadiness,
        finding_count: report.finding_count,
        findings: report.findings.iter().map(finding).collect(),
        took_ms: report.took_ms,
        at: clock::rfc3339(report.at_ms),
        log: report.log.as_deref(),
    }
}

fn finding(finding: &ralph_core::requirement::Finding) -> Finding {
    let place = finding.place.as_ref();
    Finding {
        file: place.map(|place| line(&place.file)),
        line: place.and_then(|place| place.line),
        column: place.and_then(|place| place.column),
        rule: finding.rule.as_deref().map(line),
        message: line(&finding.message),
        severity: finding.severity,
        since: finding.since,
        signature: signature(finding),
    }
}
