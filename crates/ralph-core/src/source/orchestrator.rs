//! Reads `orchestrator.json`, as the `/orchestrator` skill writes it, and derives the requirements of an orchestrated
//! run.
//!
//! Without a run the file is a claim like any other. For an orchestrated run it is a view that ralph writes: the journal
//! is authoritative, and only the agent's edits of its own conditions are taken from the file.

mod condition;
mod condition_requirements;
mod view_edits;

use super::lenient_json::{self, LenientJson};
use super::{SourceError, to_findings};
use crate::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::Deserialize;

pub use condition::{ConditionOwner, OrchestratorCondition, OrchestratorPhase};
pub use condition_requirements::{
    ADVERSARIAL_MIN_COMPLEXITY, ConditionBasis, ConditionStatus, ConditionView, GatesByStage,
    LearningStatus, StageGates, condition_requirements, condition_views, current_phase,
};
pub use view_edits::{ViewEdits, find_view_edits, ignored_edits_requirement};

const MAX_PHASE_CHARS: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrchestratorFile {
    pub phase: Option<String>,
    pub verified_done: bool,
    pub conditions: [(OrchestratorCondition, ConditionAnswer); 9],
    /// From 1 to 10; `None` for any other value.
    pub complexity: Option<u8>,
    /// The run that ralph wrote this file for, if ralph wrote it.
    pub ralph_run: Option<String>,
}

/// The value of a condition in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionAnswer {
    Yes,
    No,
    Unknown,
}

#[derive(Deserialize)]
struct OrchestratorWire<'a> {
    #[serde(borrow, default)]
    phase: LenientJson<'a>,
    #[serde(borrow, default)]
    verified_done: LenientJson<'a>,
    #[serde(borrow, default)]
    conditions: LenientJson<'a, OrchestratorConditionsWire<'a>>,
    #[serde(borrow, default)]
    complexity: LenientJson<'a>,
    #[serde(borrow, default)]
    ralph_run: LenientJson<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OrchestratorConditionsWire<'a> {
    #[serde(borrow)]
    memory_search: LenientJson<'a>,
    #[serde(borrow)]
    task_classified: LenientJson<'a>,
    #[serde(borrow)]
    must_have_answered: LenientJson<'a>,
    #[serde(borrow)]
    plan_approved: LenientJson<'a>,
    #[serde(borrow)]
    implementation_complete: LenientJson<'a>,
    #[serde(borrow)]
    correctness_passed: LenientJson<'a>,
    #[serde(borrow)]
    quality_passed: LenientJson<'a>,
    #[serde(borrow)]
    adversarial_passed: LenientJson<'a>,
    #[serde(borrow)]
    retrospective_done: LenientJson<'a>,
}

pub fn read_orchestrator(bytes: &[u8]) -> Result<OrchestratorFile, SourceError> {
    let wire: OrchestratorWire<'_> = lenient_json::read_object(bytes)?;
    let conditions = wire.conditions.into_object("conditions")?.unwrap_or_default();
    Ok(OrchestratorFile {
        phase: wire.phase.as_text("phase")?.map(ToOwned::to_owned),
        verified_done: wire.verified_done.as_flag("verified_done")?.unwrap_or(false),
        complexity: parse_complexity(&wire.complexity),
        ralph_run: wire.ralph_run.as_text("ralph_run")?.map(ToOwned::to_owned),
        conditions: [
            parse_answer(OrchestratorCondition::MemorySearch, &conditions.memory_search)?,
            parse_answer(OrchestratorCondition::TaskClassified, &conditions.task_classified)?,
            parse_answer(OrchestratorCondition::MustHaveAnswered, &conditions.must_have_answered)?,
            parse_answer(OrchestratorCondition::PlanApproved, &conditions.plan_approved)?,
            parse_answer(
                OrchestratorCondition::ImplementationComplete,
                &conditions.implementation_complete,
            )?,
            parse_answer(OrchestratorCondition::CorrectnessPassed, &conditions.correctness_passed)?,
            parse_answer(OrchestratorCondition::QualityPassed, &conditions.quality_passed)?,
            parse_answer(OrchestratorCondition::AdversarialPassed, &conditions.adversarial_passed)?,
            parse_answer(OrchestratorCondition::RetrospectiveDone, &conditions.retrospective_done)?,
        ],
    })
}

fn parse_answer(
    condition: OrchestratorCondition,
    found: &LenientJson<'_>,
) -> Result<(OrchestratorCondition, ConditionAnswer), SourceError> {
    let tri = match found {
        LenientJson::Flag(true) => ConditionAnswer::Yes,
        LenientJson::Flag(false) => ConditionAnswer::No,
        LenientJson::Null => ConditionAnswer::Unknown,
        LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::List(_)
        | LenientJson::Object(_) => {
            return Err(found.type_error(condition.key(), "true, false or null"));
        }
    };
    Ok((condition, tri))
}

/// Other tools use this key for other values, so a wrong type is not an error.
fn parse_complexity(found: &LenientJson<'_>) -> Option<u8> {
    let count = found.as_count("complexity").ok()??;
    u8::try_from(count).ok().filter(|complexity| (1..=10).contains(complexity))
}

impl OrchestratorFile {
    pub fn is_ours(&self) -> bool {
        self.ralph_run.is_some()
    }

    pub fn answer(&self, condition: OrchestratorCondition) -> ConditionAnswer {
        let found = self.conditions.iter().find(|(known, _)| *known == condition);
        found.map_or(ConditionAnswer::Unknown, |(_, tri)| *tri)
    }

    /// `None` if the file is ralph's own view of a run and not a claim.
    pub fn requirement(&self) -> Option<Requirement> {
        if self.is_ours() {
            return None;
        }
        let (standing, next) = if self.verified_done {
            (RequirementStatus::Met(EvidenceKind::Claimed), "")
        } else {
            (
                RequirementStatus::Unmet(self.failure()),
                "Finish what is open in `orchestrator.json`, then set its `verified_done` to true",
            )
        };
        Some(Requirement {
            name: "orchestrator".to_owned(),
            stage: RequirementStage::Planning,
            status: standing,
            weight: RequirementWeight::Required,
            next: next.to_owned(),
        })
    }

    fn failure(&self) -> RequirementFailure {
        let open = self.conditions.iter().filter_map(|(condition, tri)| match tri {
            ConditionAnswer::Yes => None,
            ConditionAnswer::No => Some(format!("{}: not done", condition.name())),
            ConditionAnswer::Unknown => Some(format!("{}: not known yet", condition.name())),
        });
        RequirementFailure {
            summary: format!(
                "phase \"{}\" is not complete",
                text::clean_line(self.phase.as_deref().unwrap_or("unknown"), MAX_PHASE_CHARS)
                    .replace('"', "'")
            ),
            findings: to_findings(open),
            ..RequirementFailure::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL_FILE: &[u8] = br#"{
        "session_id": "abc123",
        "task": "implement auth",
        "phase": "implementation",
        "verified_done": false,
        "conditions": {
            "memory_search": true,
            "task_classified": true,
            "must_have_answered": true,
            "plan_approved": true,
            "implementation_complete": false,
            "correctness_passed": null,
            "quality_passed": null,
            "adversarial_passed": null,
            "retrospective_done": false
        },
        "iterations": 3,
        "last_updated": "2026-02-14T12:00:00Z"
    }"#;

    fn shown(json: &str) -> String {
        match read_orchestrator(json.as_bytes()) {
            Ok(found) => {
                let answers = found.conditions.iter().map(|(_, tri)| match tri {
                    ConditionAnswer::Yes => 'y',
                    ConditionAnswer::No => 'n',
                    ConditionAnswer::Unknown => '?',
                });
                format!(
                    "{} {} {}",
                    found.phase.as_deref().unwrap_or("unknown"),
                    found.verified_done,
                    answers.collect::<String>()
                )
            }
            Err(garbled) => garbled.why,
        }
    }

    #[test]
    fn wrong_types_are_rejected() {
        for (json, expected) in [
            ("{}", "unknown false ?????????"),
            (r#"{"verified_done": true, "phase": "complete"}"#, "complete true ?????????"),
            (
                r#"{"verified_done": null, "phase": null, "conditions": null}"#,
                "unknown false ?????????",
            ),
            (r#"{"conditions": {}}"#, "unknown false ?????????"),
            (
                r#"{"conditions": {"retrospective_done": false, "other": [], "memory_search": true}}"#,
                "unknown false y???????n",
            ),
            (r#"{"extra": {"verified_done": true}}"#, "unknown false ?????????"),
            (r#"{"verified_done": "true"}"#, r#""verified_done" is a string, not true or false"#),
            (r#"{"verified_done": 1}"#, r#""verified_done" is a number, not true or false"#),
            (r#"{"verified_done": [true]}"#, r#""verified_done" is a list, not true or false"#),
            (r#"{"phase": 3}"#, r#""phase" is a number, not a string"#),
            (r#"{"phase": false}"#, r#""phase" is false, not a string"#),
            (r#"{"conditions": [true]}"#, r#""conditions" is a list, not an object"#),
            (r#"{"conditions": "none"}"#, r#""conditions" is a string, not an object"#),
            (
                r#"{"conditions": {"plan_approved": "yes"}}"#,
                r#""plan_approved" is a string, not true, false or null"#,
            ),
            (
                r#"{"verified_done": false, "verified_done": true}"#,
                "line 1, column 40: duplicate field `verified_done`",
            ),
            (r#"["implementation", true]"#, "the file is a list, not an object"),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn a_real_file_names_every_open_condition() {
        insta::assert_debug_snapshot!(read_orchestrator(REAL_FILE).unwrap().requirement().unwrap(), @r#"
        Requirement {
            name: "orchestrator",
            stage: Planning,
            status: Unmet(
                RequirementFailure {
                    summary: "phase \"implementation\" is not complete",
                    findings: [
                        Finding {
                            place: None,
                            rule: None,
                            message: "implementation complete: not done",
                            severity: Error,
                            since: Unknown,
                        },
                        Finding {
                            place: None,
                            rule: None,
                            message: "correctness passed: not known yet",
                            severity: Error,
                            since: Unknown,
                        },
                        Finding {
                            place: None,
                            rule: None,
                            message: "quality passed: not known yet",
                            severity: Error,
                            since: Unknown,
                        },
                        Finding {
                            place: None,
                            rule: None,
                            message: "adversarial passed: not known yet",
                            severity: Error,
                            since: Unknown,
                        },
                        Finding {
                            place: None,
                            rule: None,
                            message: "retrospective done: not done",
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
            next: "Finish what is open in `orchestrator.json`, then set its `verified_done` to true",
        }
        "#);
    }

    #[test]
    fn verified_done_is_a_claim() {
        let found = read_orchestrator(
            br#"{"verified_done": true, "conditions": {"plan_approved": false}}"#,
        )
        .unwrap();
        insta::assert_debug_snapshot!(found.requirement().unwrap(), @r#"
        Requirement {
            name: "orchestrator",
            stage: Planning,
            status: Met(
                Claimed,
            ),
            weight: Required,
            next: "",
        }
        "#);
    }

    #[test]
    fn a_hostile_phase_stays_on_one_short_line() {
        let json = format!(r#"{{"phase": "\u001b[2Ja\nb{}"}}"#, "x".repeat(1000));
        let RequirementStatus::Unmet(failure) =
            read_orchestrator(json.as_bytes()).unwrap().requirement().unwrap().status
        else {
            panic!("not verified")
        };
        assert_eq!(
            failure.summary,
            format!("phase \"a b{}…\" is not complete", "x".repeat(MAX_PHASE_CHARS - 4))
        );
    }
}
