//! Reads Claude Code's own task files, one JSON object each.

use super::lenient_json::{self, LenientJson};
use super::{SourceError, count_of_total};
use crate::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

const MAX_SUBJECT_CHARS: usize = 400;
const MAX_ID_CHARS: usize = 40;
const MAX_STATUS_CHARS: usize = 40;
const MAX_FINDINGS: usize = 50;
const MAX_BLOCKERS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTask {
    pub id: String,
    pub subject: String,
    pub status: ClientTaskStatus,
    /// Ids of tasks that come first.
    pub blocked_by: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTaskStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Deserialize)]
struct ClientTaskWire<'a> {
    #[serde(borrow, default)]
    id: LenientJson<'a>,
    #[serde(borrow, default)]
    subject: LenientJson<'a>,
    #[serde(borrow, default)]
    description: LenientJson<'a>,
    #[serde(borrow, default)]
    status: LenientJson<'a>,
    #[serde(borrow, default, rename = "blockedBy")]
    blocked_by: LenientJson<'a, serde::de::IgnoredAny, Vec<LenientJson<'a>>>,
    #[serde(borrow, default)]
    metadata: LenientJson<'a, ClientTaskMetadata<'a>>,
}

#[derive(Default, Deserialize)]
struct ClientTaskMetadata<'a> {
    #[serde(borrow, default, rename = "_internal")]
    internal: LenientJson<'a>,
}

/// `None` for a task that need not be done: deleted, or internal to the client.
pub fn read_client_task(bytes: &[u8]) -> Result<Option<ClientTask>, SourceError> {
    let wire: ClientTaskWire<'_> = lenient_json::read_object(bytes)?;
    let status = match wire.status.as_text("status")? {
        Some("pending") => ClientTaskStatus::Pending,
        Some("in_progress") => ClientTaskStatus::InProgress,
        Some("completed") => ClientTaskStatus::Completed,
        Some("deleted") => return Ok(None),
        // Another version of the client may mean either by it, so the task is neither open nor done.
        Some(other) => {
            let other = text::clean_line(other, MAX_STATUS_CHARS);
            return Err(SourceError::new(&format!(
                "\"status\" is \"{other}\", which is not known"
            )));
        }
        None => return Err(SourceError::new("it has no \"status\"")),
    };
    let is_internal = match wire.metadata {
        LenientJson::Object(metadata) => matches!(metadata.internal, LenientJson::Flag(true)),
        LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::List(_) => false,
    };
    if is_internal {
        return Ok(None);
    }
    let subject = [&wire.subject, &wire.description]
        .into_iter()
        .filter_map(LenientJson::as_label)
        .map(|word| text::clean_line(&word, MAX_SUBJECT_CHARS))
        .find(|subject| !subject.is_empty());
    let blocked_by = match wire.blocked_by {
        LenientJson::List(ids) => {
            ids.iter().filter_map(LenientJson::as_label).map(|id| clean_id(&id)).collect()
        }
        LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::Object(_) => Vec::new(),
    };
    Ok(Some(ClientTask {
        id: wire.id.as_label().map_or_else(|| "?".to_owned(), |id| clean_id(&id)),
        subject: subject.unwrap_or_else(|| "a task without a subject".to_owned()),
        status,
        blocked_by,
    }))
}

fn clean_id(word: &str) -> String {
    text::clean_line(word, MAX_ID_CHARS)
}

/// One requirement for the whole list; `None` if it is empty.
pub fn client_tasks_requirement(mut tasks: Vec<ClientTask>) -> Option<Requirement> {
    if tasks.is_empty() {
        return None;
    }
    tasks.sort_by(|a, b| id_sort_key(&a.id).cmp(&id_sort_key(&b.id)));
    let open: BTreeMap<&str, &ClientTask> = tasks
        .iter()
        .filter(|task| task.status != ClientTaskStatus::Completed)
        .map(|task| (task.id.as_str(), task))
        .collect();
    let is_open = |task: &&ClientTask| task.status != ClientTaskStatus::Completed;
    let count = tasks.iter().filter(is_open).count();
    let (standing, next) = if count == 0 {
        (RequirementStatus::Met(EvidenceKind::Claimed), "")
    } else {
        let shown = tasks.iter().filter(is_open).take(MAX_FINDINGS);
        let findings: Vec<Finding> =
            shown.map(|task| Finding::new(describe_task(task, &open))).collect();
        let failure = RequirementFailure {
            summary: format!("{} open", count_of_total(count, tasks.len(), "task")),
            unlisted: count - findings.len(),
            findings,
            ..RequirementFailure::default()
        };
        (RequirementStatus::Unmet(failure), "Finish the open tasks and mark each one completed")
    };
    Some(Requirement {
        name: "client tasks".to_owned(),
        stage: RequirementStage::Planning,
        status: standing,
        weight: RequirementWeight::Required,
        next: next.to_owned(),
    })
}

/// Sorts numeric ids by value and before all others.
fn id_sort_key(id: &str) -> (u64, &str) {
    (id.parse().unwrap_or(u64::MAX), id)
}

/// `#3 Wire it in (in progress, blocked by #1, #2)`
fn describe_task(task: &ClientTask, open: &BTreeMap<&str, &ClientTask>) -> String {
    let mut remarks = Vec::new();
    if task.status == ClientTaskStatus::InProgress {
        remarks.push("in progress".to_owned());
    }
    let mut blockers: Vec<&str> = Vec::new();
    for id in &task.blocked_by {
        if blockers.len() < MAX_BLOCKERS && open.contains_key(id.as_str()) && *id != task.id {
            blockers.push(id);
        }
    }
    if !blockers.is_empty() {
        remarks.push(format!("blocked by #{}", blockers.join(", #")));
    }
    let ClientTask { id, subject, .. } = task;
    if remarks.is_empty() {
        format!("#{id} {subject}")
    } else {
        format!("#{id} {subject} ({})", remarks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_task_files_are_read() {
        for (json, expected) in [
            (
                r#"{"id":"1","subject":"Write the parser","description":"all of it","activeForm":"Writing","status":"pending","blocks":["2"],"blockedBy":[]}"#,
                "Pending #1 Write the parser <-",
            ),
            (
                r#"{"id":"2","subject":"Wire it in","description":"","status":"in_progress","blocks":[],"blockedBy":["1","3"],"owner":"a"}"#,
                "InProgress #2 Wire it in <- 1 3",
            ),
            (r#"{"id":"3","subject":"s","status":"completed"}"#, "Completed #3 s <-"),
            (r#"{"id":"3","subject":"s","status":"deleted"}"#, "ignored"),
            (
                r#"{"id":"3","subject":"s","status":"pending","metadata":{"_internal":true}}"#,
                "ignored",
            ),
            (
                r#"{"id":"3","subject":"s","status":"pending","metadata":{"_internal":false,"a":[1]}}"#,
                "Pending #3 s <-",
            ),
            (r#"{"id":3,"subject":"s","status":"pending","metadata":7}"#, "Pending #3 s <-"),
            (r#"{"subject":" ","description":"d","status":"pending"}"#, "Pending #? d <-"),
            (r#"{"status":"pending"}"#, "Pending #? a task without a subject <-"),
            (
                r#"{"id":"1","status":"pending","subject":"a\u001b[31m\n b","blockedBy":[2,null,{},"3\n4"]}"#,
                "Pending #1 a b <- 2 3 4",
            ),
            (r#"{"id":"1","status":"pending","subject":"s","blockedBy":"2"}"#, "Pending #1 s <-"),
            (r#"{"id":"1","subject":"s"}"#, r#"it has no "status""#),
            (r#"{"id":"1","status":"PENDING"}"#, r#""status" is "PENDING", which is not known"#),
            (r#"{"id":"1","status":"blocked"}"#, r#""status" is "blocked", which is not known"#),
            (r#"{"id":"1","status":1}"#, r#""status" is a number, not a string"#),
            (r#"{"id":"1","status":"pend"#, "line 1, column 24: EOF while parsing a string"),
            ("", "it is empty"),
            (
                "\u{feff}{\"status\":\"completed\",\"id\":\"1\"}",
                "Completed #1 a task without a subject <-",
            ),
            ("[]", "the file is a list, not an object"),
            ("1", "the file is a number, not an object"),
            (
                r#"{"status":"pending","status":"completed"}"#,
                "line 1, column 28: duplicate field `status`",
            ),
        ] {
            let shown = match read_client_task(json.as_bytes()) {
                Ok(Some(task)) => {
                    let before = task.blocked_by.iter().map(|id| format!(" {id}"));
                    let before: String = before.collect();
                    format!("{:?} #{} {} <-{before}", task.status, task.id, task.subject)
                }
                Ok(None) => "ignored".to_owned(),
                Err(garbled) => garbled.why,
            };
            assert_eq!(shown, expected, "{json}");
        }
    }

    fn task(id: &str, status: ClientTaskStatus, blocked_by: &[&str]) -> ClientTask {
        let blocked_by = blocked_by.iter().map(|id| (*id).to_owned()).collect();
        ClientTask { id: id.to_owned(), subject: format!("do {id}"), status, blocked_by }
    }

    fn shown(tasks: Vec<ClientTask>) -> String {
        match client_tasks_requirement(tasks).map(|requirement| requirement.status) {
            None => "none".to_owned(),
            Some(RequirementStatus::Met(evidence)) => format!("{evidence:?}"),
            Some(RequirementStatus::Unmet(failure)) => {
                let lines: Vec<_> =
                    failure.findings.into_iter().map(|finding| finding.message).collect();
                format!("{}\n{}\n+{}", failure.summary, lines.join("\n"), failure.unlisted)
            }
            Some(RequirementStatus::Unknown(why)) => why,
            Some(RequirementStatus::Pending(pending)) => pending.why().to_owned(),
        }
    }

    #[test]
    fn open_tasks_are_listed_in_order_with_their_blockers() {
        let tasks = [
            task("10", ClientTaskStatus::Pending, &["2", "1", "99", "10"]),
            task("x", ClientTaskStatus::Pending, &[]),
            task("2", ClientTaskStatus::InProgress, &["1"]),
            task("1", ClientTaskStatus::Completed, &[]),
            task("3", ClientTaskStatus::Completed, &["2"]),
        ];
        insta::assert_snapshot!(shown(tasks.to_vec()), @"
        3 of 5 tasks are open
        #2 do 2 (in progress)
        #10 do 10 (blocked by #2)
        #x do x
        +0
        ");
    }

    /// R-S4c: a task that the agent marked completed is a claim.
    #[test]
    fn completed_tasks_are_a_claim_and_an_empty_list_is_no_requirement() {
        assert_eq!(shown(Vec::new()), "none");
        assert_eq!(shown([task("1", ClientTaskStatus::Completed, &[])].to_vec()), "Claimed");
    }

    #[test]
    fn all_tasks_are_counted_and_the_first_are_listed() {
        let tasks =
            (0..1_000).map(|id| task(&format!("{id}"), ClientTaskStatus::Pending, &[])).collect();
        let shown = shown(tasks);
        assert_eq!(shown.lines().count(), 52);
        assert_eq!(shown.lines().next(), Some("1000 of 1000 tasks are open"));
        assert_eq!(shown.lines().last(), Some("+950"));
    }
}
