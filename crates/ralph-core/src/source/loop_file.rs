//! Reads `loop.json`, as the `/loop` skill writes it.

use super::lenient_json::{self, LenientJson};
use super::{SourceError, to_findings};
use crate::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::Deserialize;

const DEFAULT_MAX_ITERATIONS: u32 = 25;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFile {
    pub task: String,
    pub iteration: u32,
    pub max_iterations: u32,
    pub verified_done: bool,
    pub last_error: Option<String>,
    /// The run that ralph wrote this file for, if ralph wrote it.
    pub ralph_run: Option<String>,
}

#[derive(Deserialize)]
struct LoopFileWire<'a> {
    #[serde(borrow, default)]
    task: LenientJson<'a>,
    #[serde(borrow, default)]
    iteration: LenientJson<'a>,
    #[serde(borrow, default)]
    max_iterations: LenientJson<'a>,
    #[serde(borrow, default)]
    verified_done: LenientJson<'a>,
    #[serde(borrow, default)]
    last_error: LenientJson<'a>,
    #[serde(borrow, default)]
    ralph_run: LenientJson<'a>,
}

pub fn read_loop_file(bytes: &[u8]) -> Result<LoopFile, SourceError> {
    let wire: LoopFileWire<'_> = lenient_json::read_object(bytes)?;
    Ok(LoopFile {
        task: wire.task.as_text("task")?.unwrap_or_default().to_owned(),
        iteration: wire.iteration.as_count("iteration")?.unwrap_or(0),
        max_iterations: wire
            .max_iterations
            .as_count("max_iterations")?
            .unwrap_or(DEFAULT_MAX_ITERATIONS),
        verified_done: wire.verified_done.as_flag("verified_done")?.unwrap_or(false),
        last_error: wire.last_error.as_text("last_error")?.map(ToOwned::to_owned),
        ralph_run: wire.ralph_run.as_text("ralph_run")?.map(ToOwned::to_owned),
    })
}

impl LoopFile {
    /// `None` if the file is ralph's own view of a run and not a claim, or if the loop's own limit is reached.
    pub fn requirement(&self) -> Option<Requirement> {
        if self.ralph_run.is_some() {
            return None;
        }
        let (standing, next) = if self.verified_done {
            (RequirementStatus::Met(EvidenceKind::Claimed), "")
        } else if self.iteration >= self.max_iterations {
            return None;
        } else {
            (
                RequirementStatus::Unmet(self.failure()),
                "Finish the task in `loop.json`, validate it, then set its `verified_done` to true",
            )
        };
        Some(Requirement {
            name: "loop".to_owned(),
            stage: RequirementStage::Correctness,
            status: standing,
            weight: RequirementWeight::Required,
            next: next.to_owned(),
        })
    }

    fn failure(&self) -> RequirementFailure {
        let last_error = self.last_error.as_deref().filter(|error| !error.trim().is_empty());
        RequirementFailure {
            summary: format!(
                "iteration {} of {} and not verified",
                self.iteration, self.max_iterations
            ),
            findings: to_findings(last_error),
            ..RequirementFailure::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        let file = match read_loop_file(json.as_bytes()) {
            Ok(file) => file,
            Err(garbled) => return format!("garbled: {}", garbled.why),
        };
        match file.requirement().map(|requirement| requirement.status) {
            None => "none".to_owned(),
            Some(RequirementStatus::Met(evidence)) => format!("met {evidence:?}"),
            Some(RequirementStatus::Unmet(failure)) => failure.summary,
            Some(RequirementStatus::Unknown(why)) => why,
            Some(RequirementStatus::Pending(pending)) => pending.why().to_owned(),
        }
    }

    #[test]
    fn the_loop_holds_until_verified_or_its_own_limit_is_reached() {
        for (json, expected) in [
            ("{}", "iteration 0 of 25 and not verified"),
            (r#"{"iteration": 3}"#, "iteration 3 of 25 and not verified"),
            (r#"{"iteration": 3, "max_iterations": 5}"#, "iteration 3 of 5 and not verified"),
            (
                r#"{"iteration": null, "max_iterations": null}"#,
                "iteration 0 of 25 and not verified",
            ),
            (r#"{"iteration": 25}"#, "none"),
            (r#"{"iteration": 99999999999999}"#, "none"),
            (r#"{"max_iterations": 0}"#, "none"),
            (r#"{"iteration": 30, "verified_done": true}"#, "met Claimed"),
            (r#"{"verified_done": true}"#, "met Claimed"),
            (r#"{"ralph_run": "k7f2"}"#, "none"),
            (r#"{"ralph_run": "k7f2", "verified_done": true}"#, "none"),
            (r#"{"ralph_run": null}"#, "iteration 0 of 25 and not verified"),
            (r#"{"iteration": -1}"#, r#"garbled: "iteration" is -1, not a count"#),
            (r#"{"iteration": 2.5}"#, r#"garbled: "iteration" is 2.5, not a count"#),
            (r#"{"iteration": "3"}"#, r#"garbled: "iteration" is a string, not a number"#),
            (r#"{"max_iterations": 1e999}"#, "garbled: line 1, column 24: number out of range"),
            (
                r#"{"verified_done": "false"}"#,
                r#"garbled: "verified_done" is a string, not true or false"#,
            ),
            (r#"{"last_error": {}}"#, r#"garbled: "last_error" is an object, not a string"#),
            (r#"{"ralph_run": 7}"#, r#"garbled: "ralph_run" is a number, not a string"#),
            ("[]", "garbled: the file is a list, not an object"),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn a_real_file_shows_its_last_error() {
        let json = br#"{
            "session_id": "abc123",
            "task": "fix type errors",
            "iteration": 5,
            "max_iterations": 25,
            "validation_result": "failed",
            "last_error": "src/auth.ts:42 - Type 'string' is not assignable to type 'number'",
            "verified_done": false
        }"#;
        insta::assert_debug_snapshot!(read_loop_file(json).unwrap().requirement(), @r#"
        Some(
            Requirement {
                name: "loop",
                stage: Correctness,
                status: Unmet(
                    RequirementFailure {
                        summary: "iteration 5 of 25 and not verified",
                        findings: [
                            Finding {
                                place: None,
                                rule: None,
                                message: "src/auth.ts:42 - Type 'string' is not assignable to type 'number'",
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
                next: "Finish the task in `loop.json`, validate it, then set its `verified_done` to true",
            },
        )
        "#);
    }
}
