//! Sample events, as Claude Code would send them to a hook.

use alloc::string::ToString;
use alloc::vec::Vec;
use serde_json::{Value, json};

/// One event as a line of JSON.
pub(super) fn sample_event(event: &str, session: &str, project: &str) -> Vec<u8> {
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
