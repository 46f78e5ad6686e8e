//! Claude Code.

mod event;
mod flags;
mod hooks;
mod launch;
mod plugins;
#[doc(hidden)]
pub mod recordings;
mod reply;
mod settings;
mod status_line;
mod stream;
mod task_file;
mod tools;
mod transcript;
mod trust;
mod usage_line;

use crate::hook_profile::VersionProfile;
use crate::host_files::HostFiles;
use crate::profile::{HostCommandLine, HostProfile, HostVariables};
use crate::stream::StreamProtocol;
use alloc::format;
use alloc::string::String;

/// The client names the directory of a project after its path.
fn project_memory(project: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    let slug: String = project.chars().map(plain).collect();
    format!("projects/{slug}/memory")
}

const BLOCK_CAP_VARIABLE: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

pub static PROFILE: HostProfile = HostProfile {
    name: "claude",
    program: "claude",
    variables: HostVariables {
        agent_shell: "CLAUDECODE",
        session: "CLAUDE_CODE_SESSION_ID",
        process: "CLAUDE_PID",
        project_dir: "CLAUDE_PROJECT_DIR",
        config_dir: "CLAUDE_CONFIG_DIR",
        plugin_root: "CLAUDE_PLUGIN_ROOT",
        task_list: "CLAUDE_CODE_TASK_LIST_ID",
        block_cap: BLOCK_CAP_VARIABLE,
        model: "ANTHROPIC_MODEL",
    },
    command_line: HostCommandLine {
        login: "claude /login",
        provider_variable: "ANTHROPIC_BASE_URL",
        provider_url: "https://api.anthropic.com",
        plugin_commands: &["plugin", "plugins"],
        plugin_removals: &["uninstall", "remove", "disable", "rm"],
        other_commands: &["mcp", "config", "doctor", "update", "install", "agents", "auth"],
        resume_flags: &["--resume", "-r", "--continue", "-c"],
    },
    flags: flags::FLAGS,
    files: HostFiles {
        config_dir: ".claude",
        user_settings: "settings.json",
        project_dir: ".claude",
        project_settings: ".claude/settings.json",
        local_settings: ".claude/settings.local.json",
        managed_settings: "/etc/claude-code/managed-settings.json",
        managed_settings_dir: "/etc/claude-code/managed-settings.d",
        state: ".claude.json",
        commands: "commands",
        project_memory,
        transcripts: "projects",
        transcript_name: |session| format!("{session}.jsonl"),
        subagent_transcripts: "subagents",
        guarded_config: &["settings.json", "settings.local.json", "plugins"],
    },
    tools: tools::TOOLS,
    tasks: task_file::TASK_FILES,
    own_prompt_prefix: "<task-notification>",
    parse_event: event::parse_event,
    render_verdict: reply::render_verdict,
    parse_transcript_line: transcript::parse_transcript_line,
    parse_usage_line: usage_line::parse_usage_line,
    parse_status_line: status_line::parse_status_line,
    is_trusted_project: trust::is_trusted_project,
    hooks: hooks::HOOKS,
    settings: settings::SETTINGS,
    plugins: plugins::PLUGINS,
    versions: VersionProfile {
        tested: [2, 1, 325],
        features: &[
            ([2, 1, 163], "`--style context` is not supported"),
            ([2, 1, 143], "consecutive blocks have no cap"),
        ],
        update_command: "claude update",
    },
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
