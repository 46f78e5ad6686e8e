//! The description of a host that the other crates use. It holds constants and pure functions, so that looking
//! something up costs the hook nothing.

use crate::agent_flags::AgentFlags;
use crate::agent_launch::LaunchProfile;
use crate::client_settings::SettingsSchema;
use crate::hook_profile::{HookProfile, VersionProfile};
use crate::host_files::HostFiles;
use crate::plugin_profile::PluginProfile;
use crate::status_line_input::StatusLineInput;
use crate::stream::StreamProtocol;
use crate::tool_effect::ToolEffect;
use crate::transcript_summary::TranscriptLine;
use crate::transcript_usage::TranscriptUsage;
use crate::{BlockStyle, HookReply, MalformedEvent};
use alloc::string::String;
use ralph_core::event::{HookEvent, ReplyOccasion};
use ralph_core::host_name::HostName;
use ralph_core::source::SourceError;
use ralph_core::source::client_tasks::ClientTask;
use ralph_core::verdict::Verdict;
use serde_json::value::RawValue;

/// All that ralph needs to know about one host.
#[derive(Debug)]
pub struct HostProfile {
    /// Its name on the command line (`ralph hook NAME`) and in the records of runs.
    pub name: &'static str,
    /// The name of its program on `PATH`.
    pub program: &'static str,
    pub variables: HostVariables,
    pub command_line: HostCommandLine,
    pub flags: AgentFlags,
    pub files: HostFiles,
    pub tools: ToolVocabulary,
    pub tasks: TaskFiles,
    /// The beginning of prompts that the host itself sends, about background work.
    pub own_prompt_prefix: &'static str,
    pub parse_event: fn(&[u8]) -> Result<HookEvent, MalformedEvent>,
    pub render_verdict: fn(BlockStyle, ReplyOccasion, &Verdict) -> HookReply,
    pub parse_transcript_line: fn(&[u8]) -> TranscriptLine,
    /// `None` for a line without token usage.
    pub parse_usage_line: fn(&[u8]) -> Option<TranscriptUsage>,
    /// `None` if the input contains no valid session id.
    pub parse_status_line: fn(&[u8]) -> Option<StatusLineInput>,
    /// Whether the host trusts a project, according to the content of its state file.
    pub is_trusted_project: fn(&[u8], &str) -> bool,
    pub hooks: HookProfile,
    pub settings: SettingsSchema,
    pub plugins: PluginProfile,
    pub versions: VersionProfile,
    pub launch: LaunchProfile,
    pub stream: StreamProtocol,
}

impl HostProfile {
    pub fn recorded_name(&self) -> HostName {
        HostName::new(self.name)
    }
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
    /// The directory of the plugin that a hook belongs to.
    pub plugin_root: &'static str,
    /// A task list that sessions share.
    pub task_list: &'static str,
    /// How many consecutive blocks the host allows.
    pub block_cap: &'static str,
    /// The model of new sessions.
    pub model: &'static str,
}

/// The parts of the host's command line that matter when an agent calls the host itself.
#[derive(Debug)]
pub struct HostCommandLine {
    /// The command that a person logs in with.
    pub login: &'static str,
    /// The variable with the address of the model's provider, and the address without it.
    pub provider_variable: &'static str,
    pub provider_url: &'static str,
    /// Subcommands that add and remove plugins.
    pub plugin_commands: &'static [&'static str],
    /// Words after a plugin command that take a plugin away.
    pub plugin_removals: &'static [&'static str],
    /// Subcommands that start no session.
    pub other_commands: &'static [&'static str],
    /// Flags that continue a session, whose prompts would count as typed by a person.
    pub resume_flags: &'static [&'static str],
}

/// The tools of the host's agent.
#[derive(Debug)]
pub struct ToolVocabulary {
    /// What a call with this tool and input would touch; `None` for a tool that touches nothing that ralph guards.
    pub parse_call: for<'a> fn(&str, &'a RawValue) -> Option<ToolEffect<'a>>,
    /// Tools that edit files.
    pub edit_tools: &'static [&'static str],
}

/// The task lists that the host keeps on disk.
#[derive(Debug)]
pub struct TaskFiles {
    /// The directory of a list, below the configuration directory.
    pub list_directory: fn(&str) -> String,
    /// Whether a file with this name in the directory is a task.
    pub is_task_file: fn(&[u8]) -> bool,
    /// `None` for a task that need not be done: deleted, or internal to the client.
    pub read_task: fn(&[u8]) -> Result<Option<ClientTask>, SourceError>,
}
