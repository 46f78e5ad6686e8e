//! Attachment lines: the records that hooks leave in a transcript besides feedback.

use serde::Serialize;

/// One hook's answer to one event.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// For example `Stop`.
    pub event: &'a str,
    /// The event with its subject, if it has one: `Stop`, `PostToolUse:Write`, `SessionStart:compact`.
    pub name: &'a str,
    /// The id of the tool call, or an id shared by all hooks of one event.
    pub tool_use_id: &'a str,
    pub attached: Attached<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Attached<'a> {
    /// Exit code 0. `content` is the part of the output that the model reads, which may be empty.
    Success {
        content: &'a str,
        ended: Ended<'a>,
    },
    /// A block by JSON.
    BlockingError {
        reason: &'a str,
        command: &'a str,
    },
    /// A failure that does not block. `stderr` starts with the client's message.
    NonBlockingError {
        ended: Ended<'a>,
    },
    /// The hook was cancelled, by its timeout if `timeout_ms` is set.
    Cancelled {
        command: &'a str,
        duration_ms: u64,
        timeout_ms: Option<u64>,
    },
    /// `continue: false`
    StoppedContinuation {
        message: &'a str,
    },
    AdditionalContext {
        content: &'a [String],
    },
    SystemMessage {
        content: &'a str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    pub command: &'a str,
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub exit_code: i32,
    pub duration_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    attachment: Wire<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered: Option<[Rendered; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered_role: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Rendered {
    content: String,
}

/// One struct for all kinds. Some keys appear in two positions, because their order depends on the kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(rename = "content", skip_serializing_if = "Option::is_none")]
    first_content: Option<Content<'a>>,
    hook_name: &'a str,
    #[serde(rename = "toolUseID")]
    tool_use_id: &'a str,
    hook_event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocking_error: Option<Blocking<'a>>,
    #[serde(flatten)]
    ended: Option<WireEnded<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    One(&'a str),
    Many(&'a [String]),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Blocking<'a> {
    blocking_error: &'a str,
    command: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WireEnded<'a> {
    Well(OutFirst<'a>),
    Badly(ErrFirst<'a>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutFirst<'a> {
    stdout: &'a str,
    stderr: &'a str,
    exit_code: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrFirst<'a> {
    stderr: &'a str,
    stdout: &'a str,
    exit_code: i32,
}

impl<'a> Body<'a> {
    pub(super) fn new(answered: &Answered<'a>) -> Self {
        let rendered = rendered(answered);
        Self {
            agent_id: None,
            attachment: wire(answered),
            kind: "attachment",
            uuid: "",
            timestamp: String::new(),
            rendered_role: rendered.is_some().then_some("system"),
            rendered: rendered.map(|content| [Rendered { content }]),
        }
    }
}

/// The text that the model reads, if any.
fn rendered(answered: &Answered<'_>) -> Option<String> {
    let text = match answered.attached {
        Attached::Success { content, .. } if !content.is_empty() => format!("success: {content}"),
        Attached::BlockingError { reason, command } => {
            format!("blocking error from command: \"{command}\": {reason}")
        }
        Attached::StoppedContinuation { message } => format!("stopped continuation: {message}"),
        Attached::AdditionalContext { content } => {
            format!("additional context: {}", content.join("\n"))
        }
        Attached::Success { .. }
        | Attached::NonBlockingError { .. }
        | Attached::Cancelled { .. }
        | Attached::SystemMessage { .. } => return None,
    };
    Some(format!("<system-reminder>\n{} hook {text}\n</system-reminder>", answered.name))
}

fn wire<'a>(answered: &Answered<'a>) -> Wire<'a> {
    let wire = Wire {
        kind: "",
        message: None,
        first_content: None,
        hook_name: answered.name,
        tool_use_id: answered.tool_use_id,
        hook_event: answered.event,
        content: None,
        blocking_error: None,
        ended: None,
        command: None,
        duration_ms: None,
        timed_out: None,
        timeout_ms: None,
    };
    match answered.attached {
        Attached::Success { content, ended } => Wire {
            kind: "hook_success",
            content: Some(content),
            ended: Some(WireEnded::Well(OutFirst {
                stdout: ended.stdout,
                stderr: ended.stderr,
                exit_code: ended.exit_code,
            })),
            command: Some(ended.command),
            duration_ms: Some(ended.duration_ms),
            ..wire
        },
        Attached::NonBlockingError { ended } => Wire {
            kind: "hook_non_blocking_error",
            ended: Some(WireEnded::Badly(ErrFirst {
                stderr: ended.stderr,
                stdout: ended.stdout,
                exit_code: ended.exit_code,
            })),
            command: Some(ended.command),
            duration_ms: Some(ended.duration_ms),
            ..wire
        },
        Attached::BlockingError { reason, command } => Wire {
            kind: "hook_blocking_error",
            blocking_error: Some(Blocking { blocking_error: reason, command }),
            ..wire
        },
        Attached::Cancelled { command, duration_ms, timeout_ms } => Wire {
            kind: "hook_cancelled",
            command: Some(command),
            duration_ms: Some(duration_ms),
            timed_out: timeout_ms.map(|_| true),
            timeout_ms,
            ..wire
        },
        Attached::StoppedContinuation { message } => {
            Wire { kind: "hook_stopped_continuation", message: Some(message), ..wire }
        }
        Attached::AdditionalContext { content } => Wire {
            kind: "hook_additional_context",
            first_content: Some(Content::Many(content)),
            ..wire
        },
        Attached::SystemMessage { content } => {
            Wire { kind: "hook_system_message", first_content: Some(Content::One(content)), ..wire }
        }
    }
}
