//! Writes SARIF 2.1.0.

use super::{Ran, line, summary, why};
use crate::findings::signature;
use ralph_core::gate::{Outcome, Unknown};
use ralph_core::mark::Mark;
use ralph_core::requirement::{Finding, Place, Severity, Since, Weight};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Tool,
    invocations: [Invocation<'a>; 1],
    original_uri_base_ids: BaseIds,
    results: Vec<Found<'a>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation<'a> {
    execution_successful: bool,
    tool_execution_notifications: Vec<Notification<'a>>,
}

#[derive(Serialize)]
struct Notification<'a> {
    level: &'static str,
    message: Message,
    descriptor: Descriptor<'a>,
}

#[derive(Serialize)]
struct Descriptor<'a> {
    id: &'a str,
}

#[derive(Serialize)]
struct BaseIds {
    #[serde(rename = "PROJECT")]
    project: BaseId,
}

#[derive(Serialize)]
struct BaseId {
    description: Message,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    rule_id: String,
    level: &'static str,
    message: Message,
    locations: Vec<Location>,
    partial_fingerprints: Fingerprints,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_state: Option<&'static str>,
    properties: Properties<'a>,
}

#[derive(Serialize)]
struct Fingerprints {
    #[serde(rename = "ralph/v1")]
    ralph: Mark,
}

#[derive(Serialize)]
struct Properties<'a> {
    gate: &'a str,
    stage: &'static str,
}

#[derive(Serialize)]
struct Message {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Physical,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_column: Option<u32>,
}

/// Writes SARIF 2.1.0 with one run. A gate with an unknown outcome becomes a notification of the tool, not a result.
pub fn sarif(gates: &[Ran<'_>]) -> String {
    let results: Vec<_> = gates.iter().flat_map(results).collect();
    let rules: BTreeSet<_> = results.iter().map(|result| result.rule_id.clone()).collect();
    let notifications: Vec<_> = gates.iter().filter_map(notification).collect();
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run {
            tool: Tool {
                driver: Driver {
                    name: "ralph",
                    version: env!("CARGO_PKG_VERSION"),
                    rules: rules.into_iter().map(|id| Rule { id }).collect(),
                },
            },
            invocations: [Invocation {
                execution_successful: notifications.iter().all(|one| one.level != "error"),
                tool_execution_notifications: notifications,
            }],
            original_uri_base_ids: BaseIds {
                project: BaseId { description: Message { text: "the root of the project".into() } },
            },
            results,
        }],
    };
    let mut out = serde_json::to_string_pretty(&log).unwrap_or_default();
    out.push('\n');
    out
}

fn results<'a>(ran: &Ran<'a>) -> Vec<Found<'a>> {
    let mut results: Vec<_> =
        ran.report.findings.iter().map(|finding| result(ran, finding)).collect();
    if results.is_empty() && ran.report.outcome == Outcome::Failed {
        results.push(result(ran, &Finding::new(format!("failed: {}", summary(ran.report)))));
    }
    results
}

fn result<'a>(ran: &Ran<'a>, finding: &Finding) -> Found<'a> {
    let level = match (finding.severity, ran.gate.weight) {
        (Severity::Error, Weight::Required) => "error",
        (Severity::Error, Weight::Advisory) | (Severity::Warning, _) => "warning",
        (Severity::Note, _) => "note",
    };
    let rule_id = match &finding.rule {
        Some(rule) => format!("{}/{}", ran.gate.name, line(rule)),
        None => ran.gate.name.clone(),
    };
    Found {
        rule_id,
        level,
        message: Message { text: line(&finding.message) },
        locations: finding.place.iter().map(location).collect(),
        partial_fingerprints: Fingerprints { ralph: signature(finding) },
        baseline_state: match finding.since {
            Since::Unknown => None,
            Since::New => Some("new"),
            Since::PreExisting => Some("unchanged"),
        },
        properties: Properties { gate: &ran.gate.name, stage: ran.gate.stage.name() },
    }
}

fn location(place: &Place) -> Location {
    let file = line(&place.file);
    let is_relative = !file.starts_with('/');
    let uri = if is_relative { encoded(&file) } else { format!("file://{}", encoded(&file)) };
    Location {
        physical_location: Physical {
            artifact_location: Artifact { uri, uri_base_id: is_relative.then_some("PROJECT") },
            region: place.line.filter(|number| *number > 0).map(|start_line| Region {
                start_line,
                start_column: place.column.filter(|number| *number > 0),
            }),
        },
    }
}

fn notification<'a>(ran: &Ran<'a>) -> Option<Notification<'a>> {
    let why = why(&ran.report.outcome)?;
    Some(Notification {
        level: match (&ran.report.outcome, ran.gate.weight) {
            (Outcome::Unknown(Unknown::Skipped(_)), _) => "note",
            (_, Weight::Required) => "error",
            (_, Weight::Advisory) => "warning",
        },
        message: Message {
            text: format!("{} ({}): {why}", ran.gate.name, ran.report.outcome.name()),
        },
        descriptor: Descriptor { id: &ran.gate.name },
    })
}

/// Percent-encodes a path for a URI.
fn encoded(path: &str) -> String {
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
