//! The client's stream-json protocol: one JSON object per line, in both directions.
//!
//! All of its input is foreign. Text is cleaned and bounded here, but not redacted. Parsing never fails: an unknown
//! line is [`StreamLine::Other`].

mod answers;
mod call;
mod fields;
mod message;
mod outcome;
mod say;

#[cfg(test)]
mod tests;

pub use answers::{Context, context, cost, permille};
pub use call::{Gist, what};
pub use message::{Assistant, Block, Call, ToolResult, Usage};
pub use outcome::{LimitStatus, ModelUsage, Outcome, RateLimit};
pub use say::{
    Hook, Permit, answer, context_usage, initialize, permission, refuse, session_cost, user,
};

use fields::Fields;
use ralph_core::id::SessionId;

const LONGEST_WORD: usize = 120;
const LONGEST_NOTICE: usize = 400;
const LONGEST_QUESTION: usize = 2000;
const MOST_TASKS: usize = 200;

/// Key of the notice that the client sends when its block cap is reached and it ends the turn in spite of a block.
const CAP_NOTICE: &str = "stop-hook-block-cap";
const HOOK_FAILED: &str = "hook_callback_failed";

/// One line of the client's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Sent before every turn, not only the first.
    Init(Init),
    Assistant(Assistant),
    ToolResults {
        /// The tool call that started the subagent.
        parent: Option<String>,
        results: Vec<ToolResult>,
    },
    Result(Box<Outcome>),
    RateLimit(RateLimit),
    /// The client retries an API request by itself.
    Retry(Retry),
    /// A hook callback. `input` is the JSON that a command hook would read from stdin.
    Callback {
        request: String,
        callback: String,
        input: String,
    },
    /// The client asks a person for permission.
    Permission(Permission),
    /// Any other request that waits for an answer.
    Asked {
        request: String,
        subtype: String,
    },
    /// The client no longer waits for the answer.
    Cancelled {
        request: String,
    },
    /// The answer to one of our requests.
    Answered {
        request: String,
        answer: Result<String, String>,
    },
    Compacted {
        before: Option<u64>,
        after: Option<u64>,
    },
    /// The client ends the turn although it was held.
    Overridden {
        text: String,
    },
    /// The client rejected one of our hook answers.
    HookFailed {
        text: String,
    },
    /// Sent only if the environment enables it.
    State(State),
    /// All background tasks, sent whenever the list changes.
    Background(Vec<Task>),
    Task(TaskMoment),
    /// The client switched to another model by itself.
    Fallback {
        from: String,
        to: String,
    },
    /// A tool call was denied without asking a person.
    Denied {
        tool: String,
        text: String,
    },
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    pub session: Option<SessionId>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub version: Option<String>,
    pub tools: usize,
}

/// An API request that the client retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub attempt: Option<u64>,
    pub of: Option<u64>,
    pub delay_ms: Option<u64>,
    /// `None` if there was no answer at all.
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// A tool call that needs a person's permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub request: String,
    pub tool: String,
    pub gist: Gist,
    /// Has to be returned when the call is allowed.
    pub input: String,
    /// The question to the person, if the agent asks one.
    pub question: Option<String>,
}

/// The client's own state, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Idle,
    RequiresAction,
}

/// A background task of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskMoment {
    Started { id: String, what: String, place: Place },
    Ended { id: String, status: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Foreground,
    Background,
}

/// Parses one line of the client.
pub fn read(line: &[u8]) -> Line {
    let line = String::from_utf8_lossy(line);
    let Some(fields) = fields::object(&line) else { return Line::Other };
    let read = match fields.string("type").as_deref() {
        Some("system") => system(&fields),
        Some("assistant") => message::assistant(&fields).map(Line::Assistant),
        Some("user") => {
            let results = message::tool_results(&fields);
            let parent = fields.id("parent_tool_use_id");
            (!results.is_empty()).then_some(Line::ToolResults { parent, results })
        }
        Some("result") => Some(Line::Result(Box::new(outcome::outcome(&fields)))),
        Some("rate_limit_event") => outcome::rate_limit(&fields).map(Line::RateLimit),
        Some("control_request") => request(&fields),
        Some("control_response") => response(&fields),
        Some("control_cancel_request") => {
            fields.id("request_id").map(|request| Line::Cancelled { request })
        }
        Some(_) | None => None,
    };
    read.unwrap_or(Line::Other)
}

/// Whether the line comes from the client at all: it is a JSON object with a `type`.
pub fn is_sign_of_life(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    fields::object(&line).is_some_and(|fields| fields.string("type").is_some())
}

fn system(line: &Fields<'_>) -> Option<Line> {
    let text = |key| line.line(key, LONGEST_NOTICE).unwrap_or_default();
    Some(match &*line.string("subtype")? {
        "init" => Line::Init(Init {
            session: line.string("session_id").and_then(|id| SessionId::parse(&id)),
            model: line.line("model", LONGEST_WORD),
            permission_mode: line.line("permissionMode", LONGEST_WORD),
            version: line.line("claude_code_version", LONGEST_WORD),
            tools: line.raw("tools").map(fields::list).unwrap_or_default().len(),
        }),
        "api_retry" => Line::Retry(Retry {
            attempt: line.count("attempt"),
            of: line.count("max_retries"),
            delay_ms: line.count("retry_delay_ms"),
            status: line.count("error_status").and_then(|status| u16::try_from(status).ok()),
            error: line.line("error", LONGEST_WORD),
        }),
        "notification" if line.is("key", CAP_NOTICE) => Line::Overridden { text: text("text") },
        "informational" if line.is("tag", HOOK_FAILED) => {
            Line::HookFailed { text: text("content") }
        }
        "compact_boundary" => {
            let tokens = line.object("compact_metadata").unwrap_or_default();
            Line::Compacted {
                before: tokens.count("pre_tokens"),
                after: tokens.count("post_tokens"),
            }
        }
        "session_state_changed" => Line::State(match &*line.string("state")? {
            "running" => State::Running,
            "idle" => State::Idle,
            "requires_action" => State::RequiresAction,
            _ => return None,
        }),
        "background_tasks_changed" => {
            line.raw("tasks")?;
            let tasks = line.objects("tasks");
            Line::Background(tasks.iter().filter_map(task).take(MOST_TASKS).collect())
        }
        "task_started" => {
            let Task { id, what } = task(line)?;
            let is_background = line.flag("is_backgrounded") == Some(true);
            let place = if is_background { Place::Background } else { Place::Foreground };
            Line::Task(TaskMoment::Started { id, what, place })
        }
        "task_notification" => {
            let status = line.line("status", LONGEST_WORD).unwrap_or_default();
            Line::Task(TaskMoment::Ended { id: line.id("task_id")?, status })
        }
        "model_fallback" => {
            Line::Fallback { from: text("original_model"), to: text("fallback_model") }
        }
        "permission_denied" => Line::Denied { tool: text("tool_name"), text: text("message") },
        _ => return None,
    })
}

fn task(fields: &Fields<'_>) -> Option<Task> {
    let what = fields.line("description", LONGEST_WORD).unwrap_or_default();
    Some(Task { id: fields.id("task_id")?, what })
}

fn request(line: &Fields<'_>) -> Option<Line> {
    let request = line.id("request_id")?;
    let asked = line.object("request").unwrap_or_default();
    let subtype = asked.line("subtype", LONGEST_WORD).unwrap_or_default();
    Some(match (&*subtype, asked.id("callback_id"), asked.line("tool_name", LONGEST_WORD)) {
        ("hook_callback", Some(callback), _) => {
            let input = asked.raw("input").unwrap_or_default().to_owned();
            Line::Callback { request, callback, input }
        }
        ("can_use_tool", _, Some(tool)) => {
            let input = asked.raw("input").unwrap_or_default().to_owned();
            let question = question(&tool, &input);
            let gist = call::gist(&tool, &input);
            Line::Permission(Permission { request, tool, gist, input, question })
        }
        _ => Line::Asked { request, subtype },
    })
}

/// The questions of one call, one per line, each with its options.
fn question(tool: &str, input: &str) -> Option<String> {
    if tool != "AskUserQuestion" {
        return None;
    }
    let input = fields::object(input)?;
    let lines = input.objects("questions").into_iter().take(10).map(|asked| {
        let question = asked.line("question", LONGEST_NOTICE).unwrap_or_default();
        let options = asked.objects("options");
        let labels: Vec<_> =
            options.iter().filter_map(|option| option.line("label", LONGEST_WORD)).collect();
        if labels.is_empty() { question } else { format!("{question} ({})", labels.join(" / ")) }
    });
    let lines: Vec<_> = lines.collect();
    Some(ralph_core::text::cut(&lines.join("\n"), LONGEST_QUESTION))
}

fn response(line: &Fields<'_>) -> Option<Line> {
    let response = line.object("response")?;
    let request = response.id("request_id")?;
    let answer = if response.is("subtype", "success") {
        Ok(response.raw("response").unwrap_or("{}").to_owned())
    } else {
        Err(response.line("error", LONGEST_NOTICE).unwrap_or_else(|| "no reason given".to_owned()))
    };
    Some(Line::Answered { request, answer })
}
