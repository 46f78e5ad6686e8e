//! Writes SARIF 2.1.0.

use super::{ReportedGate, clean_line, result_summary, unknown_reason};
use crate::findings::finding_signature;
use ralph_core::digest64::Digest64;
use ralph_core::gate::{GateOutcome, UnknownReason};
use ralph_core::requirement::{
    Finding, FindingAge, FindingLocation, FindingSeverity, RequirementWeight,
};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
struct SarifLogOutput<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [SarifRunOutput<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifRunOutput<'a> {
    tool: SarifToolOutput,
    invocations: [SarifInvocationOutput<'a>; 1],
    original_uri_base_ids: SarifBaseIdsOutput,
    results: Vec<SarifResultOutput<'a>>,
}

#[derive(Serialize)]
struct SarifToolOutput {
    driver: SarifDriverOutput,
}

#[derive(Serialize)]
struct SarifDriverOutput {
    name: &'static str,
    version: &'static str,
    rules: Vec<SarifRuleOutput>,
}

#[derive(Serialize)]
struct SarifRuleOutput {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifInvocationOutput<'a> {
    execution_successful: bool,
    tool_execution_notifications: Vec<SarifNotificationOutput<'a>>,
}

#[derive(Serialize)]
struct SarifNotificationOutput<'a> {
    level: &'static str,
    message: SarifMessageOutput,
    descriptor: SarifDescriptorOutput<'a>,
}

#[derive(Serialize)]
struct SarifDescriptorOutput<'a> {
    id: &'a str,
}

#[derive(Serialize)]
struct SarifBaseIdsOutput {
    #[serde(rename = "PROJECT")]
    project: SarifBaseIdOutput,
}

#[derive(Serialize)]
struct SarifBaseIdOutput {
    description: SarifMessageOutput,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResultOutput<'a> {
    rule_id: String,
    level: &'static str,
    message: SarifMessageOutput,
    locations: Vec<SarifLocationOutput>,
    partial_fingerprints: SarifFingerprintsOutput,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_state: Option<&'static str>,
    properties: SarifPropertiesOutput<'a>,
}

#[derive(Serialize)]
struct SarifFingerprintsOutput {
    #[serde(rename = "ralph/v1")]
    ralph: Digest64,
}

#[derive(Serialize)]
struct SarifPropertiesOutput<'a> {
    gate: &'a str,
    stage: &'static str,
}

#[derive(Serialize)]
struct SarifMessageOutput {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifLocationOutput {
    physical_location: SarifPhysicalOutput,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifPhysicalOutput {
    artifact_location: SarifArtifactOutput,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<SarifRegionOutput>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifArtifactOutput {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifRegionOutput {
    start_line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_column: Option<u32>,
}

/// Writes SARIF 2.1.0 with one run. A gate with an unknown outcome becomes a notification of the tool, not a result.
pub fn write_sarif(gates: &[ReportedGate<'_>]) -> serde_json::Result<String> {
    let results: Vec<_> = gates.iter().flat_map(gate_results).collect();
    let rules: BTreeSet<_> = results.iter().map(|result| result.rule_id.clone()).collect();
    let notifications: Vec<_> = gates.iter().filter_map(gate_notification).collect();
    let log = SarifLogOutput {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [SarifRunOutput {
            tool: SarifToolOutput {
                driver: SarifDriverOutput {
                    name: "ralph",
                    version: env!("CARGO_PKG_VERSION"),
                    rules: rules.into_iter().map(|id| SarifRuleOutput { id }).collect(),
                },
            },
            invocations: [SarifInvocationOutput {
                execution_successful: notifications.iter().all(|one| one.level != "error"),
                tool_execution_notifications: notifications,
            }],
            original_uri_base_ids: SarifBaseIdsOutput {
                project: SarifBaseIdOutput {
                    description: SarifMessageOutput { text: "the root of the project".into() },
                },
            },
            results,
        }],
    };
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

fn gate_results<'a>(ran: &ReportedGate<'a>) -> Vec<SarifResultOutput<'a>> {
    let mut results: Vec<_> =
        ran.report.findings.iter().map(|finding| finding_result(ran, finding)).collect();
    if results.is_empty() && ran.report.outcome == GateOutcome::Failed {
        results.push(finding_result(
            ran,
            &Finding::new(format!("failed: {}", result_summary(ran.report))),
        ));
    }
    results
}

fn finding_result<'a>(ran: &ReportedGate<'a>, finding: &Finding) -> SarifResultOutput<'a> {
    let level = match (finding.severity, ran.gate.weight) {
        (FindingSeverity::Error, RequirementWeight::Required) => "error",
        (FindingSeverity::Error, RequirementWeight::Advisory) | (FindingSeverity::Warning, _) => {
            "warning"
        }
        (FindingSeverity::Note, _) => "note",
    };
    let rule_id = match &finding.rule {
        Some(rule) => format!("{}/{}", ran.gate.name, clean_line(rule)),
        None => ran.gate.name.clone(),
    };
    SarifResultOutput {
        rule_id,
        level,
        message: SarifMessageOutput { text: clean_line(&finding.message) },
        locations: finding.place.iter().map(sarif_location).collect(),
        partial_fingerprints: SarifFingerprintsOutput { ralph: finding_signature(finding) },
        baseline_state: match finding.since {
            FindingAge::Unknown => None,
            FindingAge::New => Some("new"),
            FindingAge::PreExisting => Some("unchanged"),
        },
        properties: SarifPropertiesOutput { gate: &ran.gate.name, stage: ran.gate.stage.name() },
    }
}

fn sarif_location(place: &FindingLocation) -> SarifLocationOutput {
    let file = clean_line(&place.file);
    let is_relative = !file.starts_with('/');
    let uri = if is_relative {
        percent_encode(&file)
    } else {
        format!("file://{}", percent_encode(&file))
    };
    SarifLocationOutput {
        physical_location: SarifPhysicalOutput {
            artifact_location: SarifArtifactOutput {
                uri,
                uri_base_id: is_relative.then_some("PROJECT"),
            },
            region: place.line.filter(|number| *number > 0).map(|start_line| SarifRegionOutput {
                start_line,
                start_column: place.column.filter(|number| *number > 0),
            }),
        },
    }
}

fn gate_notification<'a>(ran: &ReportedGate<'a>) -> Option<SarifNotificationOutput<'a>> {
    let why = unknown_reason(&ran.report.outcome)?;
    Some(SarifNotificationOutput {
        level: match (&ran.report.outcome, ran.gate.weight) {
            (GateOutcome::Unknown(UnknownReason::Skipped(_)), _) => "note",
            (_, RequirementWeight::Required) => "error",
            (_, RequirementWeight::Advisory) => "warning",
        },
        message: SarifMessageOutput {
            text: format!("{} ({}): {why}", ran.gate.name, ran.report.outcome.name()),
        },
        descriptor: SarifDescriptorOutput { id: &ran.gate.name },
    })
}

/// Percent-encodes a path for a URI.
fn percent_encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/@+".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
