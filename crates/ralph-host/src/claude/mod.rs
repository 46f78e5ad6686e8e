//! Claude Code.

mod event;
mod launch;
#[cfg(any(test, feature = "testing"))]
pub mod recordings;
mod status_line;
mod stream;
mod task_file;
mod tools;
mod transcript;

use crate::files::HostFiles;
use crate::profile::{HostCommandLine, HostProfile, HostVariables};
use crate::stream::StreamProtocol;
use ralph_core::drive::AgentKind;

const BLOCK_CAP_VARIABLE: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

pub static PROFILE: HostProfile = HostProfile {
    name: "claude",
    agent: AgentKind::Claude,
    program: "claude",
    variables: HostVariables {
        agent_shell: "CLAUDECODE",
        session: "CLAUDE_CODE_SESSION_ID",
        process: "CLAUDE_PID",
        project_dir: "CLAUDE_PROJECT_DIR",
        config_dir: "CLAUDE_CONFIG_DIR",
        task_list: "CLAUDE_CODE_TASK_LIST_ID",
        block_cap: BLOCK_CAP_VARIABLE,
    },
    command_line: HostCommandLine {
        plugin_commands: &["plugin", "plugins"],
        plugin_removals: &["uninstall", "remove", "disable", "rm"],
        other_commands: &["mcp", "config", "doctor", "update", "install", "agents", "auth"],
        resume_flags: &["--resume", "-r", "--continue", "-c"],
    },
    files: HostFiles {
        config_dir: ".claude",
        user_settings: "settings.json",
        project_dir: ".claude",
        project_settings: ".claude/settings.json",
        local_settings: ".claude/settings.local.json",
        managed_settings: "/etc/claude-code/managed-settings.json",
        managed_settings_dir: "/etc/claude-code/managed-settings.d",
        state: ".claude.json",
        plugins: "plugins",
        commands: "commands",
        guarded_config: &["settings.json", "settings.local.json", "plugins"],
    },
    tools: tools::TOOLS,
    tasks: task_file::TASK_FILES,
    own_prompt_prefix: "<task-notification>",
    parse_event: event::parse_event,
    render_verdict: event::render_verdict,
    parse_transcript_line: transcript::parse_transcript_line,
    parse_status_line: status_line::parse_status_line,
    launch: launch::LAUNCH,
    stream: StreamProtocol {
        parse_line: stream::parse_line,
        is_sign_of_life: stream::is_sign_of_life,
        stop_callback: "Stop",
        open_conversation: stream::open_conversation,
        user_message: stream::user_message,
        hook_answer: stream::hook_answer,
        error_response: stream::error_response,
        permission_response: stream::permission_response,
        context_usage_request: stream::context_usage_request,
        parse_context_usage: stream::parse_context_usage,
        session_cost_request: stream::session_cost_request,
        parse_session_cost: stream::parse_session_cost,
    },
};
