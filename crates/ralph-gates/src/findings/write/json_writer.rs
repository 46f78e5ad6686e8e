//! Writes gate results as JSON, for `--json`.

use super::{OverallOutcome, ReportedGate, clean_line, unknown_reason};
use crate::findings::finding_signature;
use ralph_core::coverage::{CoverageCount, MeasuredCoverage};
use ralph_core::digest64::Digest64;
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::requirement::{FindingAge, FindingSeverity, RequirementWeight};
use ralph_sys::clock;
use serde::Serialize;

#[derive(Serialize)]
struct GateReportsJson<'a> {
    v: u8,
    outcome: &'static str,
    gates: Vec<GateReportJson<'a>>,
}

/// A gate's result as JSON.
#[derive(Debug, Serialize)]
pub struct GateReportJson<'a> {
    name: &'a str,
    stage: &'static str,
    weight: RequirementWeight,
    outcome: &'static str,
    /// Why the gate neither passed nor failed.
    why: Option<String>,
    cached: bool,
    exit: Option<i32>,
    tests: Option<TestCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<CoverageCount>,
    steadiness: ResultStability,
    finding_count: u32,
    findings: Vec<FindingJson>,
    took_ms: u64,
    at: String,
    log: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct FindingJson {
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    rule: Option<String>,
    message: String,
    severity: FindingSeverity,
    since: FindingAge,
    signature: Digest64,
}

/// Writes one object on one line.
pub fn write_json(gates: &[ReportedGate<'_>]) -> serde_json::Result<String> {
    let document = GateReportsJson {
        v: 1,
        outcome: OverallOutcome::from_gates(gates).name(),
        gates: gates.iter().map(gate_report_json).collect(),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

pub fn gate_report_json<'a>(ran: &ReportedGate<'a>) -> GateReportJson<'a> {
    let report = ran.report;
    GateReportJson {
        name: &ran.gate.name,
        stage: ran.gate.stage.name(),
        weight: ran.gate.weight,
        outcome: report.outcome.name(),
        why: unknown_reason(&report.outcome),
        cached: ran.cached,
        exit: report.exit,
        tests: report.tests,
        coverage: report.coverage.as_deref().map(MeasuredCoverage::count),
        steadiness: report.steadiness,
        finding_count: report.finding_count,
        findings: report.findings.iter().map(finding_json).collect(),
        took_ms: report.took_ms,
        at: clock::format_rfc3339(report.at_ms),
        log: report.log.as_deref(),
    }
}

fn finding_json(finding: &ralph_core::requirement::Finding) -> FindingJson {
    let place = finding.place.as_ref();
    FindingJson {
        file: place.map(|place| clean_line(&place.file)),
        line: place.and_then(|place| place.line),
        column: place.and_then(|place| place.column),
        rule: finding.rule.as_deref().map(clean_line),
        message: clean_line(&finding.message),
        severity: finding.severity,
        since: finding.since,
        signature: finding_signature(finding),
    }
}
