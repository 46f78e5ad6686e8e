//! Reads Claude Code's own task files, one JSON object each.

use super::json::{self, Json};
use super::{Garbled, part_of};
use crate::requirement::{Evidence, Failure, Finding, Requirement, Stage, Standing, Weight};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

const LONGEST_SUBJECT: usize = 400;
const LONGEST_ID: usize = 40;
const LONGEST_STATUS: usize = 40;
const MOST_FINDINGS: usize = 50;
const MOST_BLOCKERS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTask {
    pub id: String,
    pub subject: String,
    pub status: Status,
    /// Ids of tasks that come first.
    pub blocked_by: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Pending,
    InProgress,
    Completed,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    id: Json<'a>,
    #[serde(borrow, default)]
    subject: Json<'a>,
    #[serde(borrow, default)]
    description: Json<'a>,
    #[serde(borrow, default)]
    status: Json<'a>,
    #[serde(borrow, default, rename = "blockedBy")]
    blocked_by: Json<'a, serde::de::IgnoredAny, Vec<Json<'a>>>,
    #[serde(borrow, default)]
    metadata: Json<'a, Metadata<'a>>,
}

#[derive(Default, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default, rename = "_internal")]
    internal: Json<'a>,
}

/// `None` for a task that need not be done: deleted, or internal to the client.
pub fn read(bytes: &[u8]) -> Result<Option<ClientTask>, Garbled> {
    let wire: Wire<'_> = json::read_object(bytes)?;
    let status = match wire.status.text("status")? {
        Some("pending") => Status::Pending,
        Some("in_progress") => Status::InProgress,
        Some("completed") => Status::Completed,
        Some("deleted") => return Ok(None),
        // Another version of the client may mean either by it, so the task is neither open nor done.
        Some(other) => {
            let other = text::line(other, LONGEST_STATUS);
            return Err(Garbled::new(&format!("\"status\" is \"{other}\", which is not known")));
        }
        None => return Err(Garbled::new("it has no \"status\"")),
    };
    let is_internal = match wire.metadata {
        Json::Object(metadata) => matches!(metadata.internal, Json::Flag(true)),
        Json::Null | Json::Flag(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => false,
    };
    if is_internal {
        return Ok(None);
    }
    let subject = [&wire.subject, &wire.description]
        .into_iter()
        .filter_map(Json::word)
        .map(|word| text::line(&word, LONGEST_SUBJECT))
        .find(|subject| !subject.is_empty());
    let blocked_by = match wire.blocked_by {
        Json::List(ids) => ids.iter().filter_map(Json::word).map(|id| id_of(&id)).collect(),
        Json::Null | Json::Flag(_) | Json::Number(_) | Json::Text(_) | Json::Object(_) => {
            Vec::new()
        }
    };
    Ok(Some(ClientTask {
        id: wire.id.word().map_or_else(|| "?".to_owned(), |id| id_of(&id)),
        subject: subject.unwrap_or_else(|| "a task without a subject".to_owned()),
        status,
        blocked_by,
    }))
}

fn id_of(word: &str) -> String {
    text::line(word, LONGEST_ID)
}

/// One requirement for the whole list; `None` if it is empty.
pub fn requirement(mut tasks: Vec<ClientTask>) -> Option<Requirement> {
    if tasks.is_empty() {
        return None;
    }
    tasks.sort_by(|a, b| in_order(&a.id).cmp(&in_order(&b.id)));
    let open: BTreeMap<&str, &ClientTask> = tasks
        .iter()
        .filter(|task| task.status != Status::Completed)
        .map(|task| (task.id.as_str(), task))
        .collect();
    let is_open = |task: &&ClientTask| task.status != Status::Completed;
    let count = tasks.iter().filter(is_open).count();
    let (standing, next) = if count == 0 {
        (Standing::Met(Evidence::Claimed), "")
    } else {
        let shown = tasks.iter().filter(is_open).take(MOST_FINDINGS);
        let findings: Vec<Finding> = shown.map(|task| Finding::new(message(task, &open))).collect();
        let failure = Failure {
            summary: format!("{} open", part_of(count, tasks.len(), "task")),
            unlisted: count - findings.len(),
            findings,
            ..Failure::default()
        };
        (Standing::Unmet(failure), "Finish the open tasks and mark each one completed")
    };
    Some(Requirement {
        name: "client tasks".to_owned(),
        stage: Stage::Planning,
        standing,
        weight: Weight::Required,
        next: next.to_owned(),
    })
}

/// Sorts numeric ids by value and before all others.
fn in_order(id: &str) -> (u64, &str) {
    (id.parse().unwrap_or(u64::MAX), id)
}

/// `#3 Wire it in (in progress, blocked by #1, #2)`
fn message(task: &ClientTask, open: &BTreeMap<&str, &ClientTask>) -> String {
    let mut remarks = Vec::new();
    if task.status == Status::InProgress {
        remarks.push("in progress".to_owned());
    }
    let mut blockers: Vec<&str> = Vec::new();
    for id in &task.blocked_by {
        if blockers.len() < MOST_BLOCKERS && open.contains_key(id.as_str()) && *id != task.id {
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
            let shown = match read(json.as_bytes()) {
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

    fn task(id: &str, status: Status, blocked_by: &[&str]) -> ClientTask {
        let blocked_by = blocked_by.iter().map(|id| (*id).to_owned()).collect();
        ClientTask { id: id.to_owned(), subject: format!("do {id}"), status, blocked_by }
    }

    fn shown(tasks: Vec<ClientTask>) -> String {
        match requirement(tasks).map(|requirement| requirement.standing) {
            None => "none".to_owned(),
            Some(Standing::Met(evidence)) => format!("{evidence:?}"),
            Some(Standing::Unmet(failure)) => {
                let lines: Vec<_> =
                    failure.findings.into_iter().map(|finding| finding.message).collect();
                format!("{}\n{}\n+{}", failure.summary, lines.join("\n"), failure.unlisted)
            }
            Some(Standing::Unknown(why)) => why,
            Some(Standing::Pending(pending)) => pending.why().to_owned(),
        }
    }

    #[test]
    fn open_tasks_are_listed_in_order_with_their_blockers() {
        let tasks = [
            task("10", Status::Pending, &["2", "1", "99", "10"]),
            task("x", Status::Pending, &[]),
            task("2", Status::InProgress, &["1"]),
            task("1", Status::Completed, &[]),
            task("3", Status::Completed, &["2"]),
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
        assert_eq!(shown([task("1", Status::Completed, &[])].to_vec()), "Claimed");
    }

    #[test]
    fn all_tasks_are_counted_and_the_first_are_listed() {
        let tasks = (0..1_000).map(|id| task(&format!("{id}"), Status::Pending, &[])).collect();
        let shown = shown(tasks);
        assert_eq!(shown.lines().count(), 52);
        assert_eq!(shown.lines().next(), Some("1000 of 1000 tasks are open"));
        assert_eq!(shown.lines().last(), Some("+950"));
    }
}
