//! Reads `quality-gate.json`: the last result of another tool's quality gate.

use super::json::{self, Json};
use super::{Garbled, LONGEST_FINDING, MOST_FINDINGS, findings};
use crate::requirement::{Evidence, Failure, Requirement, Stage, Standing, Weight};
use crate::text;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

const LONGEST_NAME: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityGate {
    pub last_result: LastResult,
    /// Whether the file is ralph's own view of a run.
    ours: bool,
    /// The first failed stages. They only explain the last result.
    pub failed_stages: Vec<FailedStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastResult {
    Passed,
    Failed,
    /// Missing, or any other value.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStage {
    pub name: String,
    pub details: Option<String>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    ralph_run: Json<'a>,
    #[serde(borrow, default)]
    last_result: Json<'a>,
    #[serde(borrow, default)]
    stages: Json<'a, WireStages>,
}

#[derive(Default)]
struct WireStages(Vec<FailedStage>);

#[derive(Deserialize)]
struct WireStage<'a> {
    #[serde(borrow, default)]
    status: Json<'a>,
    #[serde(borrow, default)]
    details: Json<'a>,
}

pub fn read(bytes: &[u8]) -> Result<QualityGate, Garbled> {
    let wire: Wire<'_> = json::read_object(bytes)?;
    Ok(QualityGate {
        ours: wire.ralph_run.text("ralph_run")?.is_some(),
        last_result: match wire.last_result.text("last_result")? {
            Some("passed") => LastResult::Passed,
            Some("failed") => LastResult::Failed,
            Some(_) | None => LastResult::Other,
        },
        failed_stages: wire.stages.object("stages")?.unwrap_or_default().0,
    })
}

impl<'de> Deserialize<'de> for WireStages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StagesVisitor)
    }
}

struct StagesVisitor;

impl<'de> Visitor<'de> for StagesVisitor {
    type Value = WireStages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stages by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut stages: A) -> Result<WireStages, A::Error> {
        let mut failed = Vec::new();
        while let Some((Name(name), stage)) =
            stages.next_entry::<Name<'de>, Json<'de, WireStage<'de>>>()?
        {
            if failed.len() < MOST_FINDINGS {
                failed.extend(failed_stage(&name, &stage));
            }
        }
        Ok(WireStages(failed))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

fn failed_stage(name: &str, stage: &Json<'_, WireStage<'_>>) -> Option<FailedStage> {
    let details = match stage {
        Json::Object(stage) if stage.status.is_text("failed") => stage.details.word(),
        Json::Text(status) if status == "failed" => None,
        Json::Null
        | Json::Flag(_)
        | Json::Number(_)
        | Json::Text(_)
        | Json::List(_)
        | Json::Object(_) => return None,
    };
    Some(FailedStage {
        name: text::line(name, LONGEST_NAME),
        details: details.map(|details| text::line(&details, LONGEST_FINDING)),
    })
}

impl QualityGate {
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// `None` if the file is ralph's own view, which contains nothing new, or has no result.
    pub fn requirement(&self) -> Option<Requirement> {
        if self.ours {
            return None;
        }
        let (standing, next) = match self.last_result {
            LastResult::Other => return None,
            LastResult::Passed => (Standing::Met(Evidence::Claimed), ""),
            LastResult::Failed => (
                Standing::Unmet(self.failure()),
                "Fix what the quality gate found and run it again until `quality-gate.json` reports `passed`",
            ),
        };
        Some(Requirement {
            name: "quality gate".to_owned(),
            stage: Stage::Quality,
            standing,
            weight: Weight::Required,
            next: next.to_owned(),
        })
    }

    fn failure(&self) -> Failure {
        let failed = self.failed_stages.iter().map(|stage| {
            let details = stage.details.as_deref().filter(|details| !details.is_empty());
            format!("{}: {}", stage.name, details.unwrap_or("failed"))
        });
        Failure {
            summary: "the last result is \"failed\"".to_owned(),
            findings: findings(failed),
            ..Failure::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let gate = match read(bytes) {
            Ok(gate) => gate,
            Err(garbled) => return format!("garbled: {}", garbled.why),
        };
        match gate.requirement().map(|requirement| requirement.standing) {
            None => "none".to_owned(),
            Some(Standing::Met(evidence)) => format!("met {evidence:?}"),
            Some(Standing::Unmet(failure)) => {
                let findings: Vec<_> =
                    failure.findings.into_iter().map(|finding| finding.message).collect();
                format!("unmet {findings:?}")
            }
            Some(Standing::Unknown(why)) => format!("unknown {why}"),
            Some(Standing::Pending(pending)) => pending.why().to_owned(),
        }
    }

    #[test]
    fn the_last_result_decides_and_failed_stages_explain() {
        for (json, expected) in [
            ("{}", "none"),
            (r#"{"last_result": null}"#, "none"),
            (r#"{"last_result": "pending"}"#, "none"),
            (r#"{"last_result": "FAILED"}"#, "none"),
            (r#"{"last_result": "passed"}"#, "met Claimed"),
            (r#"{"last_result": "passed", "stages": {"a": {"status": "failed"}}}"#, "met Claimed"),
            (r#"{"last_result": "failed"}"#, "unmet []"),
            (r#"{"last_result": "failed", "stages": null}"#, "unmet []"),
            (
                r#"{"last_result": "failed", "stages": {"a": "failed", "b": "passed"}}"#,
                r#"unmet ["a: failed"]"#,
            ),
            (
                r#"{"last_result": "failed", "stages": {"a": {"status": "failed", "details": null}}}"#,
                r#"unmet ["a: failed"]"#,
            ),
            (
                r#"{"last_result": "failed", "stages": {"a": {"status": "failed", "details": ["x"]}}}"#,
                r#"unmet ["a: failed"]"#,
            ),
            (
                r#"{"last_result": "failed", "stages": {"a": {"status": 1}, "b": [], "c": 2, "d": null}}"#,
                "unmet []",
            ),
            (
                r#"{"last_result": "failed", "stages": {"a\u001b[31m": {"status": "failed", "details": "x\ny"}}}"#,
                r#"unmet ["a: x y"]"#,
            ),
            (r#"{"last_result": true}"#, r#"garbled: "last_result" is true, not a string"#),
            (r#"{"last_result": {}}"#, r#"garbled: "last_result" is an object, not a string"#),
            (
                r#"{"last_result": "failed", "stages": ["a"]}"#,
                r#"garbled: "stages" is a list, not an object"#,
            ),
            (
                r#"{"last_result": "failed", "last_result": "passed"}"#,
                "garbled: line 1, column 39: duplicate field `last_result`",
            ),
            ("[]", "garbled: the file is a list, not an object"),
        ] {
            assert_eq!(shown(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn findings_are_limited_to_50() {
        let stages: Vec<_> = (0..1000).map(|number| format!(r#""{number}": "failed""#)).collect();
        let json = format!(r#"{{"last_result": "failed", "stages": {{{}}}}}"#, stages.join(","));
        assert_eq!(read(json.as_bytes()).unwrap().failed_stages.len(), MOST_FINDINGS);
    }

    #[test]
    fn a_real_file_names_the_failed_stage() {
        let json = br#"{
            "session_id": "abc123",
            "last_result": "failed",
            "stages": {
                "correctness": {"status": "passed", "details": "No syntax errors"},
                "quality": {"status": "failed", "details": "3 type errors found"},
                "security": {"status": "pending", "details": null}
            },
            "last_updated": "2026-02-14T12:00:00Z"
        }"#;
        insta::assert_debug_snapshot!(read(json).unwrap().requirement(), @r#"
        Some(
            Requirement {
                name: "quality gate",
                stage: Quality,
                standing: Unmet(
                    Failure {
                        summary: "the last result is \"failed\"",
                        findings: [
                            Finding {
                                place: None,
                                rule: None,
                                message: "quality: 3 type errors found",
                                severity: Error,
                                since: Unknown,
                            },
                        ],
                        unlisted: 0,
                        quote: None,
                        log: None,
                    },
                ),
                weight: Required,
                next: "Fix what the quality gate found and run it again until `quality-gate.json` reports `passed`",
            },
        )
        "#);
    }
}
