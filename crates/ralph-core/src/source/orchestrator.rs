//! Reads `orchestrator.json`, as the `/orchestrator` skill writes it, and derives the requirements of an orchestrated
//! run.
//!
//! Without a run the file is a claim like any other. For an orchestrated run it is a view that ralph writes: the journal
//! is authoritative, and only the agent's edits of its own conditions are taken from the file.

mod condition;
mod demands;
mod edits;

use super::json::{self, Json};
use super::{Garbled, findings};
use crate::requirement::{Evidence, Failure, Requirement, Stage, Standing, Weight};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::Deserialize;

pub use condition::{Condition, Owner, Phase};
pub use demands::{
    ADVERSARIAL_FROM, Gauge, Gauges, Ground, Learned, Seen, Shown, conditions, current, picture,
};
pub use edits::{Edits, edits, ignored};

const LONGEST_PHASE: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orchestrator {
    pub phase: Option<String>,
    pub verified_done: bool,
    pub conditions: [(Condition, Tri); 9],
    /// From 1 to 10; `None` for any other value.
    pub complexity: Option<u8>,
    /// The run that ralph wrote this file for, if ralph wrote it.
    pub ralph_run: Option<String>,
}

/// The value of a condition in the file.
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
    #[serde(borrow, default)]
    complexity: Json<'a>,
    #[serde(borrow, default)]
    ralph_run: Json<'a>,
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
        phase: wire.phase.text("phase")?.map(ToOwned::to_owned),
        verified_done: wire.verified_done.flag("verified_done")?.unwrap_or(false),
        complexity: complexity(&wire.complexity),
        ralph_run: wire.ralph_run.text("ralph_run")?.map(ToOwned::to_owned),
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

/// Other tools use this key for other values, so a wrong type is not an error.
fn complexity(found: &Json<'_>) -> Option<u8> {
    let count = found.count("complexity").ok()??;
    u8::try_from(count).ok().filter(|complexity| (1..=10).contains(complexity))
}

impl Orchestrator {
    pub fn is_ours(&self) -> bool {
        self.ralph_run.is_some()
    }

    pub fn says(&self, condition: Condition) -> Tri {
        let found = self.conditions.iter().find(|(known, _)| *known == condition);
        found.map_or(Tri::Unknown, |(_, tri)| *tri)
    }

    /// `None` if the file is ralph's own view of a run and not a claim.
    pub fn requirement(&self) -> Option<Requirement> {
        if self.is_ours() {
            return None;
        }
        let (standing, next) = if self.verified_done {
            (Standing::Met(Evidence::Claimed), "")
        } else {
            (
                Standing::Unmet(self.failure()),
                "Finish what is open in `orchestrator.json`, then set its `verified_done` to true",
            )
        };
        Some(Requirement {
            name: "orchestrator".to_owned(),
            stage: Stage::Planning,
            standing,
            weight: Weight::Required,
            next: next.to_owned(),
        })
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
                text::line(self.phase.as_deref().unwrap_or("unknown"), LONGEST_PHASE)
                    .replace('"', "'")
            ),
            findings: findings(open),
            ..Failure::default()
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
        match read(json.as_bytes()) {
            Ok(found) => {
                let answers = found.conditions.iter().map(|(_, tri)| match tri {
                    Tri::Yes => 'y',
                    Tri::No => 'n',
                    Tri::Unknown => '?',
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
    fn a_real_file_names_every_open_condition() {
        insta::assert_debug_snapshot!(read(REAL_FILE).unwrap().requirement().unwrap(), @r#"
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
        insta::assert_debug_snapshot!(found.requirement().unwrap(), @r#"
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
        let Standing::Unmet(failure) =
            read(json.as_bytes()).unwrap().requirement().unwrap().standing
        else {
            panic!("not verified")
        };
        assert_eq!(
            failure.summary,
            format!("phase \"a b{}…\" is not complete", "x".repeat(LONGEST_PHASE - 4))
        );
    }
}
