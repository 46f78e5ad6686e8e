//! Hook events and answers of Claude Code. Parsing is tolerant: a field of an unexpected type counts as absent. Answers
//! are exact: the client ignores an answer with one wrongly typed field and lets the agent stop.

use crate::MalformedEvent;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ralph_core::event::{
    CompactionEvent, CompactionMoment, HookEvent, HostTrouble, IgnoredEvent, PendingWork,
    PendingWorkKind, PromptEvent, PromptMoment, SessionEndEvent, SessionStartEvent,
    SessionStartSource, StopEvent, StopFailureEvent, SubagentStopEvent, TaskEvent, TaskMoment,
    TeammateIdleEvent, ToolCallEvent, ToolDoneEvent,
};
use ralph_core::id::SessionId;
use ralph_core::slash_command;
use ralph_core::text;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Most pending tasks and wake-ups to report. The client clips their texts at a thousand characters.
const MAX_PENDING: usize = 100;

/// Prefix of the id of the client's own agent that answers a hook of type `agent`.
const HOOK_AGENT_PREFIX: &str = "hook-agent-";

/// Events of which ralph uses only the name and the session.
const NAME_ONLY_EVENTS: [&str; 19] = [
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
struct HookEventWire<'a> {
    #[serde(borrow)]
    hook_event_name: HookEventField<'a>,
    #[serde(borrow)]
    session_id: HookEventField<'a>,
    #[serde(borrow)]
    transcript_path: HookEventField<'a>,
    #[serde(borrow)]
    cwd: HookEventField<'a>,
    #[serde(borrow)]
    prompt_id: HookEventField<'a>,
    #[serde(borrow)]
    agent_id: HookEventField<'a>,
    #[serde(borrow)]
    agent_type: HookEventField<'a>,
    #[serde(borrow)]
    agent_transcript_path: HookEventField<'a>,
    #[serde(borrow)]
    stop_hook_active: HookEventField<'a>,
    #[serde(borrow)]
    last_assistant_message: HookEventField<'a>,
    #[serde(borrow)]
    stop_reason: HookEventField<'a>,
    #[serde(borrow)]
    error: HookEventField<'a>,
    #[serde(borrow)]
    error_details: HookEventField<'a>,
    #[serde(borrow)]
    background_tasks: HookEventField<'a>,
    #[serde(borrow)]
    session_crons: HookEventField<'a>,
    #[serde(borrow)]
    prompt: HookEventField<'a>,
    #[serde(borrow)]
    source: HookEventField<'a>,
    #[serde(borrow)]
    reason: HookEventField<'a>,
    #[serde(borrow)]
    compact_summary: HookEventField<'a>,
    #[serde(borrow)]
    tool_name: HookEventField<'a>,
    #[serde(borrow)]
    tool_input: HookEventField<'a>,
    #[serde(borrow)]
    task_id: HookEventField<'a>,
    #[serde(borrow)]
    task_subject: HookEventField<'a>,
    #[serde(borrow)]
    teammate_name: HookEventField<'a>,
}

type HookEventField<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct BackgroundTaskWire<'a> {
    #[serde(borrow)]
    status: HookEventField<'a>,
    #[serde(borrow)]
    r#type: HookEventField<'a>,
    #[serde(borrow)]
    description: HookEventField<'a>,
}

#[derive(Deserialize)]
struct CronWire<'a> {
    #[serde(borrow)]
    schedule: HookEventField<'a>,
    #[serde(borrow)]
    prompt: HookEventField<'a>,
}

fn read_field<'a, T: Deserialize<'a>>(field: HookEventField<'a>) -> Option<T> {
    serde_json::from_str(field?.get()).ok()
}

pub(super) fn parse_event(input: &[u8]) -> Result<HookEvent, MalformedEvent> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    // serde would accept a list as the fields in order.
    if input.trim_ascii_start().first() == Some(&b'[') {
        return Err(MalformedEvent { why: "it is a JSON list, not an object".to_string() });
    }
    let wire: HookEventWire =
        serde_json::from_slice(input).map_err(|error| malformed_event(input, &error))?;
    let name: Option<Cow<str>> = read_field(wire.hook_event_name);
    let session = read_field::<String>(wire.session_id).and_then(|id| SessionId::parse(&id));
    Ok(match name.as_deref() {
        Some("Stop") => HookEvent::Stop(parse_stop(&wire, session)),
        // Old clients, and people who test a hook by hand, send only the flag.
        None if wire.stop_hook_active.is_some() => HookEvent::Stop(parse_stop(&wire, session)),
        Some(name) => parse_other_event(name, &wire, session),
        None => HookEvent::Unknown,
    })
}

fn parse_other_event(
    name: &str,
    wire: &HookEventWire<'_>,
    session: Option<SessionId>,
) -> HookEvent {
    match name {
        "SubagentStop" => parse_subagent_stop(wire, session),
        "StopFailure" => {
            let details: Option<String> = read_field(wire.error_details);
            let class = parse_trouble(
                &read_field::<String>(wire.error).unwrap_or_default(),
                details.as_deref(),
            );
            HookEvent::StopFailure(StopFailureEvent {
                session,
                class,
                agent: read_field(wire.agent_id),
            })
        }
        "UserPromptSubmit" => {
            HookEvent::Prompt(parse_prompt(wire, session, PromptMoment::Submitted))
        }
        "UserPromptExpansion" => {
            HookEvent::Prompt(parse_prompt(wire, session, PromptMoment::Expanded))
        }
        "SessionStart" => HookEvent::SessionStart(SessionStartEvent {
            session,
            cwd: read_field(wire.cwd),
            transcript: read_field(wire.transcript_path),
            source: parse_session_source(&read_field::<String>(wire.source).unwrap_or_default()),
        }),
        "SessionEnd" => HookEvent::SessionEnd(SessionEndEvent {
            session,
            transcript: read_field(wire.transcript_path),
            reason: text::clean_line(&read_field::<String>(wire.reason).unwrap_or_default(), 60),
        }),
        "PreCompact" => {
            HookEvent::Compaction(CompactionEvent { session, moment: CompactionMoment::Before })
        }
        "PostCompact" => {
            let summary = read_field(wire.compact_summary).unwrap_or_default();
            HookEvent::Compaction(CompactionEvent {
                session,
                moment: CompactionMoment::After { summary },
            })
        }
        "PreToolUse" => match wire.tool_input {
            Some(input) => HookEvent::ToolCall(ToolCallEvent {
                session,
                cwd: read_field(wire.cwd),
                transcript: read_field(wire.transcript_path),
                agent: read_field(wire.agent_id),
                tool: read_field(wire.tool_name).unwrap_or_default(),
                input: input.to_owned(),
            }),
            None => HookEvent::Ignored(IgnoredEvent { session, name: "PreToolUse" }),
        },
        "PostToolUse" => {
            let tool = read_field(wire.tool_name).unwrap_or_default();
            HookEvent::ToolDone(ToolDoneEvent { session, tool })
        }
        "TaskCreated" => HookEvent::Task(parse_task(wire, session, TaskMoment::Created)),
        "TaskCompleted" => HookEvent::Task(parse_task(wire, session, TaskMoment::Completed)),
        "TeammateIdle" => HookEvent::Idle(TeammateIdleEvent {
            session,
            teammate: read_field(wire.teammate_name),
            agent: read_field(wire.agent_id),
        }),
        name => match NAME_ONLY_EVENTS.iter().find(|known| **known == name) {
            Some(name) => HookEvent::Ignored(IgnoredEvent { session, name }),
            None => HookEvent::Unknown,
        },
    }
}

/// Whether the event comes from the client's own agent that answers a hook of type `agent`.
fn is_hook_agent(wire: &HookEventWire<'_>) -> bool {
    let id: Option<String> = read_field(wire.agent_id);
    id.is_some_and(|id| id.starts_with(HOOK_AGENT_PREFIX))
}

fn parse_subagent_stop(wire: &HookEventWire<'_>, session: Option<SessionId>) -> HookEvent {
    // This agent evaluates a hook. It does not work on the run, and blocking it would only make it loop.
    if is_hook_agent(wire) {
        return HookEvent::Ignored(IgnoredEvent { session, name: "SubagentStop" });
    }
    let agent: Option<String> = read_field(wire.agent_id);
    HookEvent::SubagentStop(SubagentStopEvent {
        session,
        cwd: read_field(wire.cwd),
        prompt: read_field(wire.prompt_id),
        agent_type: read_field(wire.agent_type),
        transcript: read_field(wire.agent_transcript_path),
        continuing: read_field(wire.stop_hook_active) == Some(true),
        last_message: read_field(wire.last_assistant_message),
        pending: parse_pending(wire, agent.as_deref()).collect(),
        agent,
    })
}

fn parse_prompt(
    wire: &HookEventWire<'_>,
    session: Option<SessionId>,
    moment: PromptMoment,
) -> PromptEvent {
    PromptEvent {
        session,
        cwd: read_field(wire.cwd),
        transcript: read_field(wire.transcript_path),
        id: read_field(wire.prompt_id),
        text: read_field(wire.prompt).unwrap_or_default(),
        moment,
    }
}

fn parse_task(
    wire: &HookEventWire<'_>,
    session: Option<SessionId>,
    moment: TaskMoment,
) -> TaskEvent {
    TaskEvent {
        session,
        moment,
        id: read_field(wire.task_id),
        subject: read_field(wire.task_subject),
        teammate: read_field(wire.teammate_name),
    }
}

fn parse_session_source(word: &str) -> SessionStartSource {
    match word {
        "startup" => SessionStartSource::Startup,
        "resume" => SessionStartSource::Resume,
        "clear" => SessionStartSource::Clear,
        "compact" => SessionStartSource::Compact,
        "fork" => SessionStartSource::Fork,
        _ => SessionStartSource::Unknown,
    }
}

fn malformed_event(input: &[u8], error: &serde_json::Error) -> MalformedEvent {
    MalformedEvent {
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
fn parse_pending<'a>(
    wire: &'a HookEventWire<'_>,
    agent: Option<&'a str>,
) -> impl Iterator<Item = PendingWork> + 'a {
    let background = list_items(wire.background_tasks).filter_map(move |task| {
        let task: Option<BackgroundTaskWire> = read_field(Some(task));
        let status = task.as_ref().and_then(|task| read_field::<String>(task.status));
        if matches!(status.as_deref(), Some("completed" | "failed" | "killed" | "stopped")) {
            return None;
        }
        let (kind, what) = task.map_or((None, None), |task| {
            (read_field::<String>(task.r#type), read_field::<String>(task.description))
        });
        if agent.is_some() && matches!(kind.as_deref(), Some("subagent" | "teammate")) {
            return None;
        }
        let what = describe_pending(kind, what, "background task");
        Some(PendingWork { kind: PendingWorkKind::Background, what, impersonates_person: false })
    });
    let wake_ups = list_items(wire.session_crons).map(|cron| {
        let cron: Option<CronWire> = read_field(Some(cron));
        let (when, what) = cron.map_or((None, None), |cron| {
            (read_field::<String>(cron.schedule), read_field::<String>(cron.prompt))
        });
        let poses = what.as_deref().is_some_and(slash_command::impersonates_person);
        PendingWork {
            kind: PendingWorkKind::WakeUp,
            what: describe_pending(when, what, "wake-up"),
            impersonates_person: poses,
        }
    });
    background.chain(wake_ups)
}

fn parse_stop(wire: &HookEventWire<'_>, session: Option<SessionId>) -> StopEvent {
    StopEvent {
        session,
        pending: parse_pending(wire, None).collect(),
        cwd: read_field(wire.cwd),
        transcript: read_field(wire.transcript_path),
        prompt: read_field(wire.prompt_id),
        continuing: read_field(wire.stop_hook_active) == Some(true),
        last_message: read_field(wire.last_assistant_message),
        trouble: read_field::<String>(wire.stop_reason)
            .and_then(|word| trouble_from_stop_reason(&word)),
    }
}

fn list_items(field: HookEventField<'_>) -> impl Iterator<Item = &RawValue> {
    read_field::<Vec<&RawValue>>(field).unwrap_or_default().into_iter().take(MAX_PENDING)
}

fn describe_pending(kind: Option<String>, what: Option<String>, otherwise: &str) -> String {
    match (kind, what) {
        (Some(kind), Some(what)) => text::clean_line(&format!("{kind} \"{what}\""), 120),
        (Some(one), None) | (None, Some(one)) => text::clean_line(&one, 120),
        (None, None) => otherwise.to_string(),
    }
}

/// Maps the client's error classes, as observed in `StopFailure` and in `stop_reason`.
fn parse_trouble(word: &str, details: Option<&str>) -> HostTrouble {
    let too_long = details.is_some_and(|details| details.contains("prompt is too long"));
    match word {
        "rate_limit" => HostTrouble::RateLimit,
        "overloaded" | "overloaded_error" => HostTrouble::Overloaded,
        "authentication_failed" => HostTrouble::Authentication,
        "billing_error" => HostTrouble::Billing,
        "invalid_request" if too_long => HostTrouble::ContextFull,
        "model_context_window_exceeded" | "prompt_too_long" => HostTrouble::ContextFull,
        "max_output_tokens" | "max_tokens" => HostTrouble::OutputLimit,
        "invalid_request" | "model_not_found" => HostTrouble::InvalidRequest,
        "server_error" | "api_error" => HostTrouble::Server,
        "interrupted" | "aborted" | "aborted_streaming" | "aborted_tools" => {
            HostTrouble::Interrupted
        }
        "" => HostTrouble::Unknown("unknown".to_string()),
        other => HostTrouble::Unknown(text::clean_line(other, 60)),
    }
}

/// `None` for the stop reasons of an ordinary end of a turn.
fn trouble_from_stop_reason(stop_reason: &str) -> Option<HostTrouble> {
    match stop_reason {
        "" | "end_turn" | "stop_sequence" | "tool_use" | "pause_turn" | "refusal" => None,
        other => Some(parse_trouble(other, None)),
    }
}
