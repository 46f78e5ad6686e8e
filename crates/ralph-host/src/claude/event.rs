//! Hook events and answers of Claude Code. Parsing is tolerant: a field of an unexpected type counts as absent. Answers
//! are exact: the client ignores an answer with one wrongly typed field and lets the agent stop.

use crate::{Malformed, Reply, Style};
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ralph_core::event::{
    Compaction, CompactionMoment, Event, Idle, Noted, Occasion, Pending, PendingKind, Prompt,
    PromptMoment, SessionEnd, SessionStart, Source, Stop, StopFailure, SubagentStop, Task,
    TaskMoment, ToolCall, ToolDone, Trouble,
};
use ralph_core::id::SessionId;
use ralph_core::text;
use ralph_core::typed;
use ralph_core::verdict::{Bell, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The client writes a longer `additionalContext` to a file and replaces it with a preview.
const CONTEXT_LIMIT: usize = 10_000;

/// Most pending tasks and wake-ups to report. The client clips their texts at a thousand characters.
const MOST_PENDING: usize = 100;

/// Events of which ralph uses only the name and the session.
const NOTED: [&str; 19] = [
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "MessageDisplay",
    "Notification",
    "PermissionDenied",
    "PermissionRequest",
    "PostModelSwitch",
    "PostToolBatch",
    "PostToolUseFailure",
    "PreModelSwitch",
    "Setup",
    "SubagentStart",
    "WorktreeCreate",
    "WorktreeRemove",
];

/// All fields, unparsed. Each is parsed separately, so that an unexpected type in one does not affect the others.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    hook_event_name: Field<'a>,
    #[serde(borrow)]
    session_id: Field<'a>,
    #[serde(borrow)]
    transcript_path: Field<'a>,
    #[serde(borrow)]
    cwd: Field<'a>,
    #[serde(borrow)]
    prompt_id: Field<'a>,
    #[serde(borrow)]
    agent_id: Field<'a>,
    #[serde(borrow)]
    agent_type: Field<'a>,
    #[serde(borrow)]
    agent_transcript_path: Field<'a>,
    #[serde(borrow)]
    stop_hook_active: Field<'a>,
    #[serde(borrow)]
    last_assistant_message: Field<'a>,
    #[serde(borrow)]
    stop_reason: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    error_details: Field<'a>,
    #[serde(borrow)]
    background_tasks: Field<'a>,
    #[serde(borrow)]
    session_crons: Field<'a>,
    #[serde(borrow)]
    prompt: Field<'a>,
    #[serde(borrow)]
    source: Field<'a>,
    #[serde(borrow)]
    reason: Field<'a>,
    #[serde(borrow)]
    compact_summary: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    tool_input: Field<'a>,
    #[serde(borrow)]
    task_id: Field<'a>,
    #[serde(borrow)]
    task_subject: Field<'a>,
    #[serde(borrow)]
    teammate_name: Field<'a>,
}

type Field<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct BackgroundTask<'a> {
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    r#type: Field<'a>,
    #[serde(borrow)]
    description: Field<'a>,
}

#[derive(Deserialize)]
struct Cron<'a> {
    #[serde(borrow)]
    schedule: Field<'a>,
    #[serde(borrow)]
    prompt: Field<'a>,
}

fn read<'a, T: Deserialize<'a>>(field: Field<'a>) -> Option<T> {
    serde_json::from_str(field?.get()).ok()
}

pub fn parse(input: &[u8]) -> Result<Event, Malformed> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    // serde would accept a list as the fields in order.
    if input.trim_ascii_start().first() == Some(&b'[') {
        return Err(Malformed { why: "it is a JSON list, not an object".to_string() });
    }
    let wire: Wire = serde_json::from_slice(input).map_err(|error| malformed(input, &error))?;
    let name: Option<Cow<str>> = read(wire.hook_event_name);
    let session = read::<String>(wire.session_id).and_then(|id| SessionId::parse(&id));
    Ok(match name.as_deref() {
        Some("Stop") => Event::Stop(stop(&wire, session)),
        // Old clients, and people who test a hook by hand, send only the flag.
        None if wire.stop_hook_active.is_some() => Event::Stop(stop(&wire, session)),
        Some(name) => other(name, &wire, session),
        None => Event::Unknown,
    })
}

fn other(name: &str, wire: &Wire<'_>, session: Option<SessionId>) -> Event {
    match name {
        "SubagentStop" => Event::SubagentStop(subagent_stop(wire, session)),
        "StopFailure" => {
            let details: Option<String> = read(wire.error_details);
            let class =
                trouble(&read::<String>(wire.error).unwrap_or_default(), details.as_deref());
            Event::StopFailure(StopFailure { session, class, agent: read(wire.agent_id) })
        }
        "UserPromptSubmit" => Event::Prompt(prompt(wire, session, PromptMoment::Submitted)),
        "UserPromptExpansion" => Event::Prompt(prompt(wire, session, PromptMoment::Expanded)),
        "SessionStart" => Event::SessionStart(SessionStart {
            session,
            cwd: read(wire.cwd),
            transcript: read(wire.transcript_path),
            source: source(&read::<String>(wire.source).unwrap_or_default()),
        }),
        "SessionEnd" => Event::SessionEnd(SessionEnd {
            session,
            transcript: read(wire.transcript_path),
            reason: text::line(&read::<String>(wire.reason).unwrap_or_default(), 60),
        }),
        "PreCompact" => Event::Compaction(Compaction { session, moment: CompactionMoment::Before }),
        "PostCompact" => {
            let summary = read(wire.compact_summary).unwrap_or_default();
            Event::Compaction(Compaction { session, moment: CompactionMoment::After { summary } })
        }
        "PreToolUse" => match wire.tool_input {
            Some(input) => Event::ToolCall(ToolCall {
                session,
                cwd: read(wire.cwd),
                transcript: read(wire.transcript_path),
                agent: read(wire.agent_id),
                tool: read(wire.tool_name).unwrap_or_default(),
                input: input.to_owned(),
            }),
            None => Event::Noted(Noted { session, name: "PreToolUse" }),
        },
        "PostToolUse" => {
            let tool = read(wire.tool_name).unwrap_or_default();
            Event::ToolDone(ToolDone { session, tool })
        }
        "TaskCreated" => Event::Task(task(wire, session, TaskMoment::Created)),
        "TaskCompleted" => Event::Task(task(wire, session, TaskMoment::Completed)),
        "TeammateIdle" => Event::Idle(Idle {
            session,
            teammate: read(wire.teammate_name),
            agent: read(wire.agent_id),
        }),
        name => match NOTED.iter().find(|known| **known == name) {
            Some(name) => Event::Noted(Noted { session, name }),
            None => Event::Unknown,
        },
    }
}

fn subagent_stop(wire: &Wire<'_>, session: Option<SessionId>) -> SubagentStop {
    let agent: Option<String> = read(wire.agent_id);
    SubagentStop {
        session,
        cwd: read(wire.cwd),
        prompt: read(wire.prompt_id),
        agent_type: read(wire.agent_type),
        transcript: read(wire.agent_transcript_path),
        continuing: read(wire.stop_hook_active) == Some(true),
        said: read(wire.last_assistant_message),
        pending: pending(wire, agent.as_deref()).collect(),
        agent,
    }
}

fn prompt(wire: &Wire<'_>, session: Option<SessionId>, moment: PromptMoment) -> Prompt {
    Prompt {
        session,
        cwd: read(wire.cwd),
        transcript: read(wire.transcript_path),
        id: read(wire.prompt_id),
        text: read(wire.prompt).unwrap_or_default(),
        moment,
    }
}

fn task(wire: &Wire<'_>, session: Option<SessionId>, moment: TaskMoment) -> Task {
    Task {
        session,
        moment,
        id: read(wire.task_id),
        subject: read(wire.task_subject),
        teammate: read(wire.teammate_name),
    }
}

fn source(word: &str) -> Source {
    match word {
        "startup" => Source::Startup,
        "resume" => Source::Resume,
        "clear" => Source::Clear,
        "compact" => Source::Compact,
        "fork" => Source::Fork,
        _ => Source::Unknown,
    }
}

fn malformed(input: &[u8], error: &serde_json::Error) -> Malformed {
    Malformed {
        why: if input.iter().all(u8::is_ascii_whitespace) {
            "it is empty".to_string()
        } else if error.is_eof() {
            "it is incomplete".to_string()
        } else {
            format!(
                "it is not a valid JSON event (line {}, column {})",
                error.line(),
                error.column()
            )
        },
    }
}

/// Tasks and wake-ups that will resume the agent by themselves. At a subagent's stop the host also lists the subagent
/// itself, under a different id, so agents are skipped there.
fn pending<'a>(wire: &'a Wire<'_>, agent: Option<&'a str>) -> impl Iterator<Item = Pending> + 'a {
    let background = items(wire.background_tasks).filter_map(move |task| {
        let task: Option<BackgroundTask> = read(Some(task));
        let status = task.as_ref().and_then(|task| read::<String>(task.status));
        if matches!(status.as_deref(), Some("completed" | "failed" | "killed" | "stopped")) {
            return None;
        }
        let (kind, what) = task.map_or((None, None), |task| {
            (read::<String>(task.r#type), read::<String>(task.description))
        });
        if agent.is_some() && matches!(kind.as_deref(), Some("subagent" | "teammate")) {
            return None;
        }
        let what = named(kind, what, "background task");
        Some(Pending { kind: PendingKind::Background, what, poses: false })
    });
    let wake_ups = items(wire.session_crons).map(|cron| {
        let cron: Option<Cron> = read(Some(cron));
        let (when, what) = cron.map_or((None, None), |cron| {
            (read::<String>(cron.schedule), read::<String>(cron.prompt))
        });
        let poses = what.as_deref().is_some_and(typed::poses);
        Pending { kind: PendingKind::WakeUp, what: named(when, what, "wake-up"), poses }
    });
    background.chain(wake_ups)
}

fn stop(wire: &Wire<'_>, session: Option<SessionId>) -> Stop {
    Stop {
        session,
        pending: pending(wire, None).collect(),
        cwd: read(wire.cwd),
        transcript: read(wire.transcript_path),
        prompt: read(wire.prompt_id),
        continuing: read(wire.stop_hook_active) == Some(true),
        said: read(wire.last_assistant_message),
        trouble: read::<String>(wire.stop_reason).and_then(|word| stop_trouble(&word)),
    }
}

fn items(field: Field<'_>) -> impl Iterator<Item = &RawValue> {
    read::<Vec<&RawValue>>(field).unwrap_or_default().into_iter().take(MOST_PENDING)
}

fn named(kind: Option<String>, what: Option<String>, otherwise: &str) -> String {
    match (kind, what) {
        (Some(kind), Some(what)) => text::line(&format!("{kind} \"{what}\""), 120),
        (Some(one), None) | (None, Some(one)) => text::line(&one, 120),
        (None, None) => otherwise.to_string(),
    }
}

/// Maps the client's error classes, as observed in `StopFailure` and in `stop_reason`.
fn trouble(word: &str, details: Option<&str>) -> Trouble {
    let too_long = details.is_some_and(|details| details.contains("prompt is too long"));
    match word {
        "rate_limit" => Trouble::RateLimit,
        "overloaded" | "overloaded_error" => Trouble::Overloaded,
        "authentication_failed" => Trouble::Authentication,
        "billing_error" => Trouble::Billing,
        "invalid_request" if too_long => Trouble::ContextFull,
        "model_context_window_exceeded" | "prompt_too_long" => Trouble::ContextFull,
        "max_output_tokens" | "max_tokens" => Trouble::OutputLimit,
        "invalid_request" | "model_not_found" => Trouble::InvalidRequest,
        "server_error" | "api_error" => Trouble::Server,
        "interrupted" | "aborted" | "aborted_streaming" | "aborted_tools" => Trouble::Interrupted,
        "" => Trouble::Unknown("unknown".to_string()),
        other => Trouble::Unknown(text::line(other, 60)),
    }
}

/// `None` for the stop reasons of an ordinary end of a turn.
fn stop_trouble(stop_reason: &str) -> Option<Trouble> {
    match stop_reason {
        "" | "end_turn" | "stop_sequence" | "tool_use" | "pause_turn" | "refusal" => None,
        other => Some(trouble(other, None)),
    }
}

#[derive(Serialize)]
struct Noting<'a> {
    #[serde(rename = "systemMessage")]
    system_message: &'a str,
    /// A hook has no terminal, so the client writes this to its own.
    #[serde(rename = "terminalSequence", skip_serializing_if = "Option::is_none")]
    terminal_sequence: Option<&'static str>,
}

#[derive(Serialize)]
struct Blocking<'a> {
    decision: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Continuing<'a> {
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: Additional<'a>,
}

#[derive(Serialize)]
struct Additional<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "additionalContext")]
    additional_context: &'a str,
}

#[derive(Serialize)]
struct Telling<'a> {
    #[serde(rename = "systemMessage", skip_serializing_if = "Option::is_none")]
    system_message: Option<&'a str>,
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: Additional<'a>,
}

#[derive(Serialize)]
struct Answering<'a> {
    decision: &'static str,
    reason: &'a str,
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: Suppressing,
}

#[derive(Serialize)]
struct Suppressing {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "suppressOriginalPrompt")]
    suppress_original_prompt: bool,
}

#[derive(Serialize)]
struct Permitting<'a> {
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: Permission<'a>,
}

#[derive(Serialize)]
struct Permission<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "permissionDecision")]
    decision: &'static str,
    #[serde(rename = "permissionDecisionReason")]
    reason: &'a str,
}

/// The client's name of the event, which answers must repeat.
fn event_name(occasion: Occasion) -> &'static str {
    match occasion {
        Occasion::SubagentStop => "SubagentStop",
        Occasion::Prompt => "UserPromptSubmit",
        Occasion::Expansion => "UserPromptExpansion",
        Occasion::SessionStart => "SessionStart",
        Occasion::ToolCall => "PreToolUse",
        Occasion::Stop
        | Occasion::Task
        | Occasion::Idle
        | Occasion::Compaction
        | Occasion::Other => "Stop",
    }
}

pub fn render(style: Style, occasion: Occasion, verdict: &Verdict) -> Reply {
    let hook_event_name = event_name(occasion);
    match (verdict, style) {
        (Verdict::Allow, _) => Reply::default(),
        (Verdict::AllowNoting(notice) | Verdict::End { notice, bell: Bell::Silent, .. }, _) => {
            object(&Noting { system_message: notice, terminal_sequence: None })
        }
        (Verdict::End { notice, bell: Bell::Rings, .. }, _) => {
            object(&Noting { system_message: notice, terminal_sequence: Some("\u{7}") })
        }
        (Verdict::Answer { text }, _) => object(&Answering {
            decision: "block",
            reason: text,
            hook_specific_output: Suppressing { hook_event_name, suppress_original_prompt: true },
        }),
        // For compaction the client reads plain text.
        (Verdict::Tell { context, .. }, _) if occasion == Occasion::Compaction => {
            Reply { stdout: context.as_bytes().to_vec(), ..Reply::default() }
        }
        (Verdict::Tell { context, notice }, _) => {
            let additional_context = &text::cut(context, CONTEXT_LIMIT);
            let hook_specific_output = Additional { hook_event_name, additional_context };
            object(&Telling { system_message: notice.as_deref(), hook_specific_output })
        }
        (Verdict::Deny { reason } | Verdict::Ask { reason }, _) => {
            let decision = if matches!(verdict, Verdict::Deny { .. }) { "deny" } else { "ask" };
            object(&Permitting {
                hook_specific_output: Permission { hook_event_name, decision, reason },
            })
        }
        // With any text on stdout the client does not mistake "no such file" in the reason for a missing script.
        (Verdict::Block { reason }, style) if style == Style::Exit2 || is_exit_only(occasion) => {
            let stderr = format!("{}\n", reason.trim_end()).into_bytes();
            Reply { stdout: b"{}".to_vec(), stderr, exit: 2 }
        }
        (Verdict::Block { reason }, Style::Context) => {
            let additional_context = &text::cut(reason, CONTEXT_LIMIT);
            object(&Continuing {
                hook_specific_output: Additional { hook_event_name, additional_context },
            })
        }
        (Verdict::Block { reason }, Style::Json | Style::Exit2) => {
            object(&Blocking { decision: "block", reason })
        }
    }
}

/// For tasks and teammates, every version of the client blocks on exit code 2 only.
fn is_exit_only(occasion: Occasion) -> bool {
    matches!(occasion, Occasion::Task | Occasion::Idle)
}

fn object(value: &impl Serialize) -> Reply {
    // Strings and maps of strings cannot fail to serialise. If they did, an empty answer would let the agent stop.
    Reply { stdout: serde_json::to_vec(value).unwrap_or_default(), ..Reply::default() }
}
