//! The description of a host that the other crates use. It holds constants and pure functions, so that looking
//! something up costs the hook nothing.

use crate::launch::LaunchProfile;
use crate::status_line::StatusLineInput;
use crate::stream::StreamProtocol;
use crate::transcript::TranscriptLine;
use crate::{BlockStyle, HookReply, MalformedEvent};
use ralph_core::drive::AgentKind;
use ralph_core::event::{HookEvent, ReplyOccasion};
use ralph_core::verdict::Verdict;

/// All that ralph needs to know about one host.
#[derive(Debug)]
pub struct HostProfile {
    /// Its name on the command line: `ralph hook NAME`.
    pub name: &'static str,
    /// The name that a run records for its agents.
    pub agent: AgentKind,
    /// The name of its program on `PATH`.
    pub program: &'static str,
    pub variables: HostVariables,
    /// Its configuration directory, below the home directory, if no variable names another.
    pub config_dir: &'static str,
    pub parse_event: fn(&[u8]) -> Result<HookEvent, MalformedEvent>,
    pub render_verdict: fn(BlockStyle, ReplyOccasion, &Verdict) -> HookReply,
    pub parse_transcript_line: fn(&[u8]) -> TranscriptLine,
    /// `None` if the input contains no valid session id.
    pub parse_status_line: fn(&[u8]) -> Option<StatusLineInput>,
    pub launch: LaunchProfile,
    pub stream: StreamProtocol,
}

/// Names of the variables that a host reads, or sets for hooks and for its agent's shell.
#[derive(Debug)]
pub struct HostVariables {
    /// Set in every shell of the agent.
    pub agent_shell: &'static str,
    pub session: &'static str,
    /// The host's process id.
    pub process: &'static str,
    pub project_dir: &'static str,
    pub config_dir: &'static str,
    /// A task list that sessions share.
    pub task_list: &'static str,
    /// How many consecutive blocks the host allows.
    pub block_cap: &'static str,
}
