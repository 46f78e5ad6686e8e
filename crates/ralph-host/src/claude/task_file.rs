//! Claude Code's own task lists: a directory per list, with one JSON object per file.

use crate::profile::TaskFiles;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::source::SourceError;
use ralph_core::source::client_tasks::{ClientTask, ClientTaskStatus};
use ralph_core::source::lenient_json::{self, LenientJson};
use ralph_core::text;
use serde::Deserialize;

const MAX_LIST_CHARS: usize = 200;
const MAX_SUBJECT_CHARS: usize = 400;
const MAX_ID_CHARS: usize = 40;
const MAX_STATUS_CHARS: usize = 40;

pub(super) const TASK_FILES: TaskFiles = TaskFiles { list_directory, is_task_file, read_task };

/// Sanitized in the same way as the client does, so that no name leads outside the directory.
fn list_directory(list: &str) -> String {
    let list = text::truncate(list, MAX_LIST_CHARS);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let list: String = list.chars().map(|char| if is_plain(char) { char } else { '-' }).collect();
    format!("tasks/{list}")
}

fn is_task_file(name: &[u8]) -> bool {
    !name.starts_with(b".") && name.ends_with(b".json")
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
fn read_task(bytes: &[u8]) -> Result<Option<ClientTask>, SourceError> {
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
            let shown = match read_task(json.as_bytes()) {
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
}
