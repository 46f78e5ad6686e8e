//! Reads the task files of a session's state directory (`state/<session>/tasks/*.json`), one JSON object each. Claude
//! Code's own task files are read by [`super::client_tasks`].

use super::lenient_json::{self, LenientJson};
use super::{SourceError, count_of_total, to_findings};
use crate::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use serde::Deserialize;

const MAX_LABEL_CHARS: usize = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTask {
    pub label: String,
    pub status: StateTaskStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTaskStatus {
    Open,
    Closed,
}

#[derive(Deserialize)]
struct StateTaskWire<'a> {
    #[serde(borrow, default)]
    subject: LenientJson<'a>,
    #[serde(borrow, default)]
    content: LenientJson<'a>,
    #[serde(borrow, default)]
    description: LenientJson<'a>,
    #[serde(borrow, default)]
    title: LenientJson<'a>,
    #[serde(borrow, default)]
    id: LenientJson<'a>,
    #[serde(borrow, default)]
    status: LenientJson<'a>,
}

pub fn read_task(bytes: &[u8]) -> Result<StateTask, SourceError> {
    let wire: StateTaskWire<'_> = lenient_json::read_object(bytes)?;
    let status = match wire.status.as_text("status")? {
        Some("pending" | "in_progress") => StateTaskStatus::Open,
        Some(_) | None => StateTaskStatus::Closed,
    };
    let label = [wire.subject, wire.content, wire.description, wire.title, wire.id]
        .iter()
        .filter_map(LenientJson::as_label)
        .map(|word| text::clean_line(&word, MAX_LABEL_CHARS))
        .find(|label| !label.is_empty());
    Ok(StateTask { label: label.unwrap_or_else(|| "task".to_owned()), status })
}

pub fn tasks_requirement(tasks: &[StateTask]) -> Option<Requirement> {
    if tasks.is_empty() {
        return None;
    }
    let open = || tasks.iter().filter(|task| task.status == StateTaskStatus::Open);
    let (standing, next) = match open().count() {
        0 => (RequirementStatus::Met(EvidenceKind::Claimed), ""),
        count => (
            RequirementStatus::Unmet(RequirementFailure {
                summary: format!("{} open", count_of_total(count, tasks.len(), "task")),
                findings: to_findings(open().map(|task| &task.label)),
                ..RequirementFailure::default()
            }),
            "Finish the open tasks and mark each one completed",
        ),
    };
    Some(Requirement {
        name: "tasks".to_owned(),
        stage: RequirementStage::Planning,
        status: standing,
        weight: RequirementWeight::Required,
        next: next.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn a_task_has_a_label_and_is_open_or_closed() {
        for (json, expected) in [
            ("{}", "Closed task"),
            (r#"{"status": "pending"}"#, "Open task"),
            (r#"{"status": "in_progress", "id": "7"}"#, "Open 7"),
            (r#"{"status": "in_progress", "id": 7}"#, "Open 7"),
            (r#"{"status": "pending", "id": "7", "title": "t"}"#, "Open t"),
            (r#"{"status": "pending", "title": "t", "description": "d"}"#, "Open d"),
            (r#"{"status": "pending", "description": "d", "content": "c"}"#, "Open c"),
            (r#"{"status": "pending", "content": "c", "subject": "s"}"#, "Open s"),
            (
                r#"{"status": "pending", "subject": " ", "content": null, "title": [], "id": 1}"#,
                "Open 1",
            ),
            (r#"{"status": "completed", "subject": "s"}"#, "Closed s"),
            (r#"{"status": "deleted"}"#, "Closed task"),
            (r#"{"status": null}"#, "Closed task"),
            (r#"{"status": "PENDING"}"#, "Closed task"),
            (r#"{"status": "pending", "subject": "a\u001b[1m\n b"}"#, "Open a b"),
            (r#"{"status": true}"#, r#""status" is true, not a string"#),
            (r#"{"status": ["pending"]}"#, r#""status" is a list, not a string"#),
            (r#"[{"status": "pending"}]"#, "the file is a list, not an object"),
            (
                r#"{"status": "pending", "status": "completed"}"#,
                "line 1, column 30: duplicate field `status`",
            ),
        ] {
            let shown = match read_task(json.as_bytes()) {
                Ok(task) => format!("{:?} {}", task.status, task.label),
                Err(garbled) => garbled.why,
            };
            assert_eq!(shown, expected, "{json}");
        }
    }

    fn tasks(open: usize, closed: usize) -> Vec<StateTask> {
        let task = |status| StateTask { label: "task".to_owned(), status };
        [vec![task(StateTaskStatus::Open); open], vec![task(StateTaskStatus::Closed); closed]]
            .concat()
    }

    #[test]
    fn the_summary_counts_every_task_and_findings_are_limited_to_50() {
        for (open, closed, expected) in [
            (0, 0, "none"),
            (0, 3, "met"),
            (1, 0, "1 of 1 task is open, 1 finding(s)"),
            (3, 17, "3 of 20 tasks are open, 3 finding(s)"),
            (1000, 1, "1000 of 1001 tasks are open, 50 finding(s)"),
        ] {
            let standing =
                tasks_requirement(&tasks(open, closed)).map(|requirement| requirement.status);
            let shown = match standing {
                None => "none".to_owned(),
                Some(RequirementStatus::Met(_)) => "met".to_owned(),
                Some(RequirementStatus::Unmet(failure)) => {
                    format!("{}, {} finding(s)", failure.summary, failure.findings.len())
                }
                Some(RequirementStatus::Unknown(why)) => why,
                Some(RequirementStatus::Pending(pending)) => pending.why().to_owned(),
            };
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn open_tasks_are_named() {
        let tasks =
            [&br#"{"subject": "write the parser", "status": "in_progress"}"#[..], br#"{"id": 2}"#];
        let tasks: Vec<_> = tasks.iter().map(|bytes| read_task(bytes).unwrap()).collect();
        insta::assert_debug_snapshot!(tasks_requirement(&tasks), @r#"
        Some(
            Requirement {
                name: "tasks",
                stage: Planning,
                status: Unmet(
                    RequirementFailure {
                        summary: "1 of 2 tasks is open",
                        findings: [
                            Finding {
                                place: None,
                                rule: None,
                                message: "write the parser",
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
                next: "Finish the open tasks and mark each one completed",
            },
        )
        "#);
    }
}
