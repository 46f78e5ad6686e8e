//! Claude Code's stream-json protocol: one JSON object per line, in both directions.
//!
//! All of its input is foreign. Text is cleaned and bounded here, but not redacted. Parsing never fails: an unknown
//! line is [`StreamLine::Other`].

mod json_fields;
mod message;
mod outgoing;
mod query_answers;
mod tool_gist;
mod turn_outcome;
mod turn_result;

#[cfg(test)]
mod tests;

pub(super) use outgoing::{
    context_usage_request, error_response, hook_answer, open_conversation, permission_response,
    session_cost_request, user_message,
};
pub(super) use query_answers::{parse_context_usage, parse_session_cost};

use crate::stream::{
    ApiRetry, ClientState, StreamInit, StreamLine, StreamTask, StreamTaskEvent, TaskPlacement,
    ToolPermissionRequest,
};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use json_fields::JsonFields;
use ralph_core::id::SessionId;

const LONGEST_WORD: usize = 120;
const LONGEST_NOTICE: usize = 400;
const LONGEST_QUESTION: usize = 2000;
const MOST_TASKS: usize = 200;

/// Key of the notice that the client sends when its block cap is reached and it ends the turn in spite of a block.
const CAP_NOTICE: &str = "stop-hook-block-cap";
const HOOK_FAILED: &str = "hook_callback_failed";

/// Parses one line of the client.
pub(in crate::claude) fn parse_line(line: &[u8]) -> StreamLine {
    let line = String::from_utf8_lossy(line);
    let Some(fields) = json_fields::parse_object(&line) else { return StreamLine::Other };
    let read = match fields.string("type").as_deref() {
        Some("system") => parse_system(&fields),
        Some("assistant") => message::parse_assistant(&fields).map(StreamLine::Assistant),
        Some("user") => {
            let results = message::parse_tool_results(&fields);
            let parent = fields.id("parent_tool_use_id");
            (!results.is_empty()).then_some(StreamLine::ToolResults { parent, results })
        }
        Some("result") => Some(StreamLine::Result(Box::new(turn_result::parse_result(&fields)))),
        Some("rate_limit_event") => {
            turn_result::parse_rate_limit(&fields).map(StreamLine::RateLimit)
        }
        Some("control_request") => parse_request(&fields),
        Some("control_response") => parse_response(&fields),
        Some("control_cancel_request") => {
            fields.id("request_id").map(|request| StreamLine::Cancelled { request })
        }
        Some(_) | None => None,
    };
    read.unwrap_or(StreamLine::Other)
}

/// Whether the line comes from the client at all: it is a JSON object with a `type`.
pub(in crate::claude) fn is_sign_of_life(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    json_fields::parse_object(&line).is_some_and(|fields| fields.string("type").is_some())
}

fn parse_system(line: &JsonFields<'_>) -> Option<StreamLine> {
    let text = |key| line.line(key, LONGEST_NOTICE).unwrap_or_default();
    Some(match &*line.string("subtype")? {
        "init" => StreamLine::Init(StreamInit {
            session: line.string("session_id").and_then(|id| SessionId::parse(&id)),
            model: line.line("model", LONGEST_WORD),
            permission_mode: line.line("permissionMode", LONGEST_WORD),
            version: line.line("claude_code_version", LONGEST_WORD),
            tools: line.raw("tools").map(json_fields::parse_list).unwrap_or_default().len(),
        }),
        "api_retry" => StreamLine::Retry(ApiRetry {
            attempt: line.count("attempt"),
            of: line.count("max_retries"),
            delay_ms: line.count("retry_delay_ms"),
            status: line.count("error_status").and_then(|status| u16::try_from(status).ok()),
            error: line.line("error", LONGEST_WORD),
        }),
        "notification" if line.is("key", CAP_NOTICE) => {
            StreamLine::Overridden { text: text("text") }
        }
        "informational" if line.is("tag", HOOK_FAILED) => {
            StreamLine::HookFailed { text: text("content") }
        }
        "compact_boundary" => {
            let tokens = line.object("compact_metadata").unwrap_or_default();
            StreamLine::Compacted {
                before: tokens.count("pre_tokens"),
                after: tokens.count("post_tokens"),
            }
        }
        "session_state_changed" => StreamLine::State(match &*line.string("state")? {
            "running" => ClientState::Running,
            "idle" => ClientState::Idle,
            "requires_action" => ClientState::RequiresAction,
            _ => return None,
        }),
        "background_tasks_changed" => {
            line.raw("tasks")?;
            let tasks = line.objects("tasks");
            StreamLine::Background(tasks.iter().filter_map(parse_task).take(MOST_TASKS).collect())
        }
        "task_started" => {
            let StreamTask { id, what } = parse_task(line)?;
            let is_background = line.flag("is_backgrounded") == Some(true);
            let place =
                if is_background { TaskPlacement::Background } else { TaskPlacement::Foreground };
            StreamLine::Task(StreamTaskEvent::Started { id, what, place })
        }
        "task_notification" => {
            let status = line.line("status", LONGEST_WORD).unwrap_or_default();
            StreamLine::Task(StreamTaskEvent::Ended { id: line.id("task_id")?, status })
        }
        "model_fallback" => {
            StreamLine::Fallback { from: text("original_model"), to: text("fallback_model") }
        }
        "permission_denied" => {
            StreamLine::Denied { tool: text("tool_name"), text: text("message") }
        }
        _ => return None,
    })
}

fn parse_task(fields: &JsonFields<'_>) -> Option<StreamTask> {
    let what = fields.line("description", LONGEST_WORD).unwrap_or_default();
    Some(StreamTask { id: fields.id("task_id")?, what })
}

fn parse_request(line: &JsonFields<'_>) -> Option<StreamLine> {
    let request = line.id("request_id")?;
    let asked = line.object("request").unwrap_or_default();
    let subtype = asked.line("subtype", LONGEST_WORD).unwrap_or_default();
    Some(match (&*subtype, asked.id("callback_id"), asked.line("tool_name", LONGEST_WORD)) {
        ("hook_callback", Some(callback), _) => {
            let input = asked.raw("input").unwrap_or_default().to_owned();
            StreamLine::Callback { request, callback, input }
        }
        ("can_use_tool", _, Some(tool)) => {
            let input = asked.raw("input").unwrap_or_default().to_owned();
            let question = question_text(&tool, &input);
            let gist = tool_gist::parse_gist(&tool, &input);
            StreamLine::Permission(ToolPermissionRequest { request, tool, gist, input, question })
        }
        _ => StreamLine::Asked { request, subtype },
    })
}

/// The questions of one call, one per line, each with its options.
fn question_text(tool: &str, input: &str) -> Option<String> {
    if tool != "AskUserQuestion" {
        return None;
    }
    let input = json_fields::parse_object(input)?;
    let lines = input.objects("questions").into_iter().take(10).map(|asked| {
        let question = asked.line("question", LONGEST_NOTICE).unwrap_or_default();
        let options = asked.objects("options");
        let labels: Vec<_> =
            options.iter().filter_map(|option| option.line("label", LONGEST_WORD)).collect();
        if labels.is_empty() { question } else { format!("{question} ({})", labels.join(" / ")) }
    });
    let lines: Vec<_> = lines.collect();
    Some(ralph_core::text::truncate(&lines.join("\n"), LONGEST_QUESTION))
}

fn parse_response(line: &JsonFields<'_>) -> Option<StreamLine> {
    let response = line.object("response")?;
    let request = response.id("request_id")?;
    let answer = if response.is("subtype", "success") {
        Ok(response.raw("response").unwrap_or("{}").to_owned())
    } else {
        Err(response.line("error", LONGEST_NOTICE).unwrap_or_else(|| "no reason given".to_owned()))
    };
    Some(StreamLine::Answered { request, answer })
}
