//! Reads `quality-gate.json`: the last result of another tool's quality gate.

use super::lenient_json::{self, LenientJson};
use super::{MAX_FINDING_CHARS, MAX_FINDINGS, SourceError, to_findings};
use crate::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

const MAX_STAGE_NAME_CHARS: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityGateFile {
    pub last_result: QualityGateResult,
    /// Whether the file is ralph's own view of a run.
    is_ours: bool,
    /// The first failed stages. They only explain the last result.
    pub failed_stages: Vec<FailedStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QualityGateResult {
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
struct QualityGateWire<'a> {
    #[serde(borrow, default)]
    ralph_run: LenientJson<'a>,
    #[serde(borrow, default)]
    last_result: LenientJson<'a>,
    #[serde(borrow, default)]
    stages: LenientJson<'a, QualityStagesWire>,
}

#[derive(Default)]
struct QualityStagesWire(Vec<FailedStage>);

#[derive(Deserialize)]
struct QualityStageWire<'a> {
    #[serde(borrow, default)]
    status: LenientJson<'a>,
    #[serde(borrow, default)]
    details: LenientJson<'a>,
}

pub fn read_quality_gate(bytes: &[u8]) -> Result<QualityGateFile, SourceError> {
    let wire: QualityGateWire<'_> = lenient_json::read_object(bytes)?;
    Ok(QualityGateFile {
        is_ours: wire.ralph_run.as_text("ralph_run")?.is_some(),
        last_result: match wire.last_result.as_text("last_result")? {
            Some("passed") => QualityGateResult::Passed,
            Some("failed") => QualityGateResult::Failed,
            Some(_) | None => QualityGateResult::Other,
        },
        failed_stages: wire.stages.into_object("stages")?.unwrap_or_default().0,
    })
}

impl<'de> Deserialize<'de> for QualityStagesWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StagesVisitor)
    }
}

struct StagesVisitor;

impl<'de> Visitor<'de> for StagesVisitor {
    type Value = QualityStagesWire;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stages by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut stages: A) -> Result<QualityStagesWire, A::Error> {
        let mut failed = Vec::new();
        while let Some((StageName(name), stage)) =
            stages.next_entry::<StageName<'de>, LenientJson<'de, QualityStageWire<'de>>>()?
        {
            if failed.len() < MAX_FINDINGS {
                failed.extend(failed_stage(&name, &stage));
            }
        }
        Ok(QualityStagesWire(failed))
    }
}

#[derive(Deserialize)]
struct StageName<'a>(#[serde(borrow)] Cow<'a, str>);

fn failed_stage(name: &str, stage: &LenientJson<'_, QualityStageWire<'_>>) -> Option<FailedStage> {
    let details = match stage {
        LenientJson::Object(stage) if stage.status.is_text("failed") => stage.details.as_label(),
        LenientJson::Text(status) if status == "failed" => None,
        LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::List(_)
        | LenientJson::Object(_) => return None,
    };
    Some(FailedStage {
        name: text::clean_line(name, MAX_STAGE_NAME_CHARS),
        details: details.map(|details| text::clean_line(&details, MAX_FINDING_CHARS)),
    })
}

impl QualityGateFile {
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// `None` if the file is ralph's own view, which contains nothing new, or has no result.
    pub fn requirement(&self) -> Option<Requirement> {
        if self.is_ours {
            return None;
        }
        let (standing, next) = match self.last_result {
            QualityGateResult::Other => return None,
            QualityGateResult::Passed => (RequirementStatus::Met(EvidenceKind::Claimed), ""),
            QualityGateResult::Failed => (
                RequirementStatus::Unmet(self.failure()),
                "Fix what the quality gate found and run it again until `quality-gate.json` reports `passed`",
            ),
        };
        Some(Requirement {
            name: "quality gate".to_owned(),
            stage: RequirementStage::Quality,
            status: standing,
            weight: RequirementWeight::Required,
            next: next.to_owned(),
        })
    }

    fn failure(&self) -> RequirementFailure {
        let failed = self.failed_stages.iter().map(|stage| {
            let details = stage.details.as_deref().filter(|details| !details.is_empty());
            format!("{}: {}", stage.name, details.unwrap_or("failed"))
        });
        RequirementFailure {
            summary: "the last result is \"failed\"".to_owned(),
            findings: to_findings(failed),
            ..RequirementFailure::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let gate = match read_quality_gate(bytes) {
            Ok(gate) => gate,
            Err(garbled) => return format!("garbled: {}", garbled.why),
        };
        match gate.requirement().map(|requirement| requirement.status) {
            None => "none".to_owned(),
            Some(RequirementStatus::Met(evidence)) => format!("met {evidence:?}"),
            Some(RequirementStatus::Unmet(failure)) => {
                let findings: Vec<_> =
                    failure.findings.into_iter().map(|finding| finding.message).collect();
                format!("unmet {findings:?}")
            }
            Some(RequirementStatus::Unknown(why)) => format!("unknown {why}"),
            Some(RequirementStatus::Pending(pending)) => pending.why().to_owned(),
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
        assert_eq!(read_quality_gate(json.as_bytes()).unwrap().failed_stages.len(), MAX_FINDINGS);
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
        insta::assert_debug_snapshot!(read_quality_gate(json).unwrap().requirement(), @r#"
        Some(
            Requirement {
                name: "quality gate",
                stage: Quality,
                status: Unmet(
                    RequirementFailure {
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
