//! Claude Code.

mod event;
mod status_line;
mod transcript;

use crate::profile::{HostProfile, HostVariables};
use ralph_core::drive::AgentKind;

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
        block_cap: "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP",
    },
    config_dir: ".claude",
    parse_event: event::parse_event,
    render_verdict: event::render_verdict,
    parse_transcript_line: transcript::parse_transcript_line,
    parse_status_line: status_line::parse_status_line,
};
