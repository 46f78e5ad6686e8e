//! The hook events of Claude Code that ralph registers. Everything else that lists them derives from this table.

use super::reply;
use crate::hook_profile::{HookProfile, HookRegistration, HookTimeout};
use alloc::string::ToString;
use alloc::vec::Vec;
use serde_json::{Value, json};

const DEFAULT_TIMEOUT_SECS: u32 = 600;

pub(super) const HOOKS: HookProfile = HookProfile {
    events: &EVENTS,
    edit_event: "PostToolUse",
    edit_matcher: "Edit|Write|MultiEdit|NotebookEdit",
    stop_events: &["Stop", "SubagentStop"],
    default_timeout_secs: DEFAULT_TIMEOUT_SECS,
    default_block_cap: 8,
    sample_event,
    holds_session: reply::holds_session,
    interactive_variables: &[("CLAUDE_CODE_ENTRYPOINT", "cli")],
};

/// Prompts have no callback, because only the runner sends them.
const EVENTS: [HookRegistration; 13] = [
    HookRegistration::new("Stop", HookTimeout::Gates, "no session is held")
        .essential()
        .with_callback(),
    HookRegistration::new(
        "SubagentStop",
        HookTimeout::Gates,
        "subagents are not checked when they stop",
    )
    .essential()
    .with_callback(),
    HookRegistration::new("TaskCompleted", HookTimeout::Gates, "completed tasks are not checked")
        .with_callback(),
    HookRegistration::new("TeammateIdle", HookTimeout::Gates, "idle teammates are not checked")
        .with_callback(),
    HookRegistration::new("TaskCreated", HookTimeout::Seconds(30), "new tasks are not noticed")
        .with_callback(),
    HookRegistration::new("StopFailure", HookTimeout::Seconds(10), "API errors look like silence")
        .essential()
        .with_callback(),
    HookRegistration::new(
        "SessionStart",
        HookTimeout::Seconds(30),
        "a resumed or cleared session loses its run",
    )
    .essential()
    .with_callback(),
    HookRegistration::new(
        "SessionEnd",
        HookTimeout::Seconds(5),
        "an ended session looks alive for a while",
    ),
    HookRegistration::new(
        "UserPromptSubmit",
        HookTimeout::Seconds(DEFAULT_TIMEOUT_SECS),
        "typed prompts do not reach ralph",
    )
    .essential(),
    HookRegistration::new(
        "UserPromptExpansion",
        HookTimeout::Seconds(DEFAULT_TIMEOUT_SECS),
        "`/ralph:` commands do not reach ralph",
    )
    .essential(),
    HookRegistration::new(
        "PreToolUse",
        HookTimeout::Seconds(10),
        "ralph's files are not guarded against the agent",
    )
    .with_callback(),
    HookRegistration::new(
        "PreCompact",
        HookTimeout::Seconds(30),
        "nothing is saved before the conversation is compacted",
    ),
    HookRegistration::new(
        "PostCompact",
        HookTimeout::Seconds(30),
        "the agent forgets its goal after a compaction",
    )
    .with_callback(),
];

/// One event as a line of JSON.
fn sample_event(event: &str, session: &str, project: &str) -> Vec<u8> {
    let mut fields = json!({
        "session_id": session,
        "transcript_path": "",
        "cwd": project,
        "hook_event_name": event,
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut fields, sample_fields(event)) {
        all.extend(own);
    }
    let mut line = fields.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn sample_fields(event: &str) -> Value {
    const TEXT: &str = "ralph doctor is checking whether this hook answers";
    match event {
        "Stop" => json!({
            "permission_mode": "default", "prompt_id": "doctor", "stop_hook_active": false,
            "last_assistant_message": TEXT, "background_tasks": [], "session_crons": [],
        }),
        "SubagentStop" => json!({
            "permission_mode": "default", "agent_id": "doctor", "agent_type": "ralph-doctor",
            "stop_hook_active": false, "last_assistant_message": TEXT,
        }),
        "StopFailure" => json!({"error": "unknown", "error_details": TEXT}),
        "UserPromptSubmit" => json!({"prompt_id": "doctor", "prompt": TEXT}),
        "UserPromptExpansion" => json!({
            "prompt_id": "doctor", "expansion_type": "slash_command", "command_name": "doctor",
            "command_args": "", "command_source": "userSettings", "prompt": "/doctor",
        }),
        "SessionStart" => json!({"source": "startup"}),
        "SessionEnd" => json!({"reason": "other"}),
        "PreCompact" => json!({"trigger": "manual", "custom_instructions": ""}),
        "PostCompact" => json!({"trigger": "manual", "compact_summary": TEXT}),
        "PreToolUse" => json!({
            "tool_name": "Bash", "tool_use_id": "doctor",
            "tool_input": {"command": "ls", "description": TEXT},
        }),
        "PostToolUse" => json!({
            "tool_name": "Bash", "tool_use_id": "doctor",
            "tool_input": {"command": "ls"}, "tool_response": {"stdout": ""},
        }),
        "TaskCreated" | "TaskCompleted" => json!({"task_id": "1", "task_subject": TEXT}),
        "TeammateIdle" => json!({"teammate_name": "doctor", "team_name": "doctor"}),
        _ => json!({}),
    }
}
