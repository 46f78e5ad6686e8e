//! `orchestrator.json`, as the `/orchestrator` skill writes it.

use super::json::{self, Json};
use super::{Garbled, findings};
use crate::requirement::{Evidence, Failure, Requirement, Stage, Standing, Weight};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

const LONGEST_PHASE: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orchestrator {
    pub phase: String,
    pub verified_done: bool,
    pub conditions: [(Condition, Tri); 9],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    MemorySearch,
    TaskClassified,
    MustHaveAnswered,
    PlanApproved,
    ImplementationComplete,
    CorrectnessPassed,
    QualityPassed,
    AdversarialPassed,
    RetrospectiveDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tri {
    Yes,
    No,
    Unknown,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    phase: Json<'a>,
    #[serde(borrow, default)]
    verified_done: Json<'a>,
    #[serde(borrow, default)]
    conditions: Json<'a, WireConditions<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireConditions<'a> {
    #[serde(borrow)]
    memory_search: Json<'a>,
    #[serde(borrow)]
    task_classified: Json<'a>,
    #[serde(borrow)]
    must_have_answered: Json<'a>,
    #[serde(borrow)]
    plan_approved: Json<'a>,
    #[serde(borrow)]
    implementation_complete: Json<'a>,
    #[serde(borrow)]
    correctness_passed: Json<'a>,
    #[serde(borrow)]
    quality_passed: Json<'a>,
    #[serde(borrow)]
    adversarial_passed: Json<'a>,
    #[serde(borrow)]
    retrospective_done: Json<'a>,
}

pub fn read(bytes: &[u8]) -> Result<Orchestrator, Garbled> {
    let wire: Wire<'_> = json::read_object(bytes)?;
    let conditions = wire.conditions.object("conditions")?.unwrap_or_default();
    Ok(Orchestrator {
        phase: wire.phase.text("phase")?.unwrap_or("unknown").to_owned(),
        verified_done: wire.verified_done.flag("verified_done")?.unwrap_or(false),
        conditions: [
            answer(Condition::MemorySearch, &conditions.memory_search)?,
            answer(Condition::TaskClassified, &conditions.task_classified)?,
            answer(Condition::MustHaveAnswered, &conditions.must_have_answered)?,
            answer(Condition::PlanApproved, &conditions.plan_approved)?,
            answer(Condition::ImplementationComplete, &conditions.implementation_complete)?,
            answer(Condition::CorrectnessPassed, &conditions.correctness_passed)?,
            answer(Condition::QualityPassed, &conditions.quality_passed)?,
            answer(Condition::AdversarialPassed, &conditions.adversarial_passed)?,
            answer(Condition::RetrospectiveDone, &conditions.retrospective_done)?,
        ],
    })
}

fn answer(condition: Condition, found: &Json<'_>) -> Result<(Condition, Tri), Garbled> {
    let tri = match found {
        Json::Flag(true) => Tri::Yes,
        Json::Flag(false) => Tri::No,
        Json::Null => Tri::Unknown,
        Json::Number(_) | Json::Text(_) | Json::List(_) | Json::Object(_) => {
            return Err(found.is_not(condition.name(), "true, false or null"));
        }
    };
    Ok((condition, tri))
}

impl Orchestrator {
    pub fn requirement(&self) -> Requirement {
        let (standing, next) = if self.verified_done {
            (Standing::Met(Evidence::Claimed), "")
        } else {
            (
                Standing::Unmet(self.failure()),
                "Finish what is open in `orchestrator.json`, then set its `verified_done` to true",
            )
        };
        Requirement {
            name: "orchestrator".to_owned(),
            stage: Stage::Planning,
            standing,
            weight: Weight::Required,
            next: next.to_owned(),
        }
    }

    fn failure(&self) -> Failure {
        let open = self.conditions.iter().filter_map(|(condition, tri)| match tri {
            Tri::Yes => None,
            Tri::No => Some(format!("{}: not done", condition.name())),
            Tri::Unknown => Some(format!("{}: not known yet", condition.name())),
        });
        Failure {
            summary: format!(
                "phase \"{}\" is not complete",
                text::line(&self.phase, LONGEST_PHASE).replace('"', "'")
            ),
            findings: findings(open),
            ..Failure::default()
        }
    }
}

impl Condition {
    pub fn name(self) -> &'static str {
        match self {
            Self::MemorySearch => "memory search",
            Self::TaskClassified => "task classified",
            Self::MustHaveAnswered => "must-have questions answered",
            Self::PlanApproved => "plan approved",
            Self::ImplementationComplete => "implementation complete",
            Self::CorrectnessPassed => "correctness passed",
            Self::QualityPassed => "quality passed",
            Self::AdversarialPassed => "adversarial passed",
            Self::RetrospectiveDone => "retrospective done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &[u8] = br#"{
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
        match read(json.as_bytes()) {
            Ok(found) => {
                let answers = found.conditions.iter().map(|(_, tri)| match tri {
                    Tri::Yes => 'y',
                    Tri::No => 'n',
                    Tri::Unknown => '?',
                });
                format!("{} {} {}", found.phase, found.verified_done, answers.collect::<String>())
            }
            Err(garbled) => garbled.why,
        }
    }

    #[test]
    fn a_wrong_type_is_neither_yes_nor_no() {
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
                r#""plan approved" is a string, not true, false or null"#,
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
    fn the_seeds_own_file_names_every_open_condition() {
        insta::assert_debug_snapshot!(read(SEED).unwrap().requirement(), @r#"
        Requirement {
            name: "orchestrator",
            stage: Planning,
            standing: Unmet(
                Failure {
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
        let found =
            read(br#"{"verified_done": true, "conditions": {"plan_approved": false}}"#).unwrap();
        insta::assert_debug_snapshot!(found.requirement(), @r#"
        Requirement {
            name: "orchestrator",
            stage: Planning,
            standing: Met(
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
        let Standing::Unmet(failure) = read(json.as_bytes()).unwrap().requirement().standing else {
            panic!("not verified")
        };
        assert_eq!(
            failure.summary,
            format!("phase \"a b{}…\" is not complete", "x".repeat(LONGEST_PHASE - 4))
        );
    }
}
