//! Attachment lines: the records that hooks leave in a transcript besides feedback.

use serde::Serialize;

/// One hook's answer to one event.
#[derive(Clone, Copy, Debug)]
pub struct HookAttachment<'a> {
    /// For example `Stop`.
    pub event: &'a str,
    /// The event with its subject, if it has one: `Stop`, `PostToolUse:Write`, `SessionStart:compact`.
    pub name: &'a str,
    /// The id of the tool call, or an id shared by all hooks of one event.
    pub tool_use_id: &'a str,
    pub kind: HookAttachmentKind<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum HookAttachmentKind<'a> {
    /// Exit code 0. `content` is the part of the output that the model reads, which may be empty.
    Success {
        content: &'a str,
        ended: AttachedHookOutput<'a>,
    },
    /// A block by JSON.
    BlockingError {
        reason: &'a str,
        command: &'a str,
    },
    /// A failure that does not block. `stderr` starts with the client's message.
    NonBlockingError {
        ended: AttachedHookOutput<'a>,
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
pub struct AttachedHookOutput<'a> {
    pub command: &'a str,
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub exit_code: i32,
    pub duration_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    attachment: AttachmentWire<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered: Option<[RenderedAttachment; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered_role: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct RenderedAttachment {
    content: String,
}

/// One struct for all kinds. Some keys appear in two positions, because their order depends on the kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentWire<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(rename = "content", skip_serializing_if = "Option::is_none")]
    first_content: Option<AttachmentContent<'a>>,
    hook_name: &'a str,
    #[serde(rename = "toolUseID")]
    tool_use_id: &'a str,
    hook_event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocking_error: Option<BlockingErrorWire<'a>>,
    #[serde(flatten)]
    ended: Option<HookStreamsWire<'a>>,
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
enum AttachmentContent<'a> {
    One(&'a str),
    Many(&'a [String]),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockingErrorWire<'a> {
    blocking_error: &'a str,
    command: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HookStreamsWire<'a> {
    StdoutFirst(StdoutFirstWire<'a>),
    StderrFirst(StderrFirstWire<'a>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StdoutFirstWire<'a> {
    stdout: &'a str,
    stderr: &'a str,
    exit_code: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StderrFirstWire<'a> {
    stderr: &'a str,
    stdout: &'a str,
    exit_code: i32,
}

impl<'a> AttachmentLine<'a> {
    pub(super) fn new(answered: &HookAttachment<'a>) -> Self {
        let rendered = render_attachment(answered);
        Self {
            agent_id: None,
            attachment: attachment_wire(answered),
            kind: "attachment",
            uuid: "",
            timestamp: String::new(),
            rendered_role: rendered.is_some().then_some("system"),
            rendered: rendered.map(|content| [RenderedAttachment { content }]),
        }
    }
}

/// The text that the model reads, if any.
fn render_attachment(answered: &HookAttachment<'_>) -> Option<String> {
    let text = match answered.kind {
        HookAttachmentKind::Success { content, .. } if !content.is_empty() => {
            format!("success: {content}")
        }
        HookAttachmentKind::BlockingError { reason, command } => {
            format!("blocking error from command: \"{command}\": {reason}")
        }
        HookAttachmentKind::StoppedContinuation { message } => {
            format!("stopped continuation: {message}")
        }
        HookAttachmentKind::AdditionalContext { content } => {
            format!("additional context: {}", content.join("\n"))
        }
        HookAttachmentKind::Success { .. }
        | HookAttachmentKind::NonBlockingError { .. }
        | HookAttachmentKind::Cancelled { .. }
        | HookAttachmentKind::SystemMessage { .. } => return None,
    };
    Some(format!("<system-reminder>\n{} hook {text}\n</system-reminder>", answered.name))
}

fn attachment_wire<'a>(answered: &HookAttachment<'a>) -> AttachmentWire<'a> {
    let wire = AttachmentWire {
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
    match answered.kind {
        HookAttachmentKind::Success { content, ended } => AttachmentWire {
            kind: "hook_success",
            content: Some(content),
            ended: Some(HookStreamsWire::StdoutFirst(StdoutFirstWire {
                stdout: ended.stdout,
                stderr: ended.stderr,
                exit_code: ended.exit_code,
            })),
            command: Some(ended.command),
            duration_ms: Some(ended.duration_ms),
            ..wire
        },
        HookAttachmentKind::NonBlockingError { ended } => AttachmentWire {
            kind: "hook_non_blocking_error",
            ended: Some(HookStreamsWire::StderrFirst(StderrFirstWire {
                stderr: ended.stderr,
                stdout: ended.stdout,
                exit_code: ended.exit_code,
            })),
            command: Some(ended.command),
            duration_ms: Some(ended.duration_ms),
            ..wire
        },
        HookAttachmentKind::BlockingError { reason, command } => AttachmentWire {
            kind: "hook_blocking_error",
            blocking_error: Some(BlockingErrorWire { blocking_error: reason, command }),
            ..wire
        },
        HookAttachmentKind::Cancelled { command, duration_ms, timeout_ms } => AttachmentWire {
            kind: "hook_cancelled",
            command: Some(command),
            duration_ms: Some(duration_ms),
            timed_out: timeout_ms.map(|_| true),
            timeout_ms,
            ..wire
        },
        HookAttachmentKind::StoppedContinuation { message } => {
            AttachmentWire { kind: "hook_stopped_continuation", message: Some(message), ..wire }
        }
        HookAttachmentKind::AdditionalContext { content } => AttachmentWire {
            kind: "hook_additional_context",
            first_content: Some(AttachmentContent::Many(content)),
            ..wire
        },
        HookAttachmentKind::SystemMessage { content } => AttachmentWire {
            kind: "hook_system_message",
            first_content: Some(AttachmentContent::One(content)),
            ..wire
        },
    }
}
