//! Everything that ralph knows about a coding agent's program: its events and answers, transcript, stream, settings,
//! files, flags, variables and tools. One folder per host holds it, and a [`HostProfile`] describes it to the other
//! crates. A new host is a folder and a line in [`HOSTS`].
//!
//! Pure: a profile names files and variables but never reads them. `no_std` guards that.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod agent_flags;
pub mod agent_launch;
pub mod claude;
pub mod client_settings;
pub mod hook_profile;
mod host_files;
pub mod plugin_profile;
mod profile;
pub mod status_line_input;
pub mod stream;
pub mod tool_effect;
pub mod transcript_summary;
pub mod transcript_usage;

pub use agent_flags::AgentFlags;
pub use host_files::HostFiles;
pub use profile::{HostCommandLine, HostProfile, HostVariables, TaskFiles, ToolVocabulary};

use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::host_name::HostName;

/// Every host.
pub static HOSTS: [&HostProfile; 1] = [&claude::PROFILE];

/// The host that is called `name` on the command line.
pub fn host_named(name: &str) -> Option<&'static HostProfile> {
    HOSTS.into_iter().find(|host| host.name == name)
}

/// The host that is assumed where neither a command, nor the environment, nor a record names one.
pub fn default_host() -> &'static HostProfile {
    recorded_host(&HostName::DEFAULT)
}

/// The host of a record, or the first one for a name that this version does not know.
pub fn recorded_host(name: &HostName) -> &'static HostProfile {
    host_named(name.as_str()).unwrap_or(HOSTS[0])
}

/// How a block is reported to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStyle {
    /// Exit 2, the reason on stderr, `{}` on stdout.
    Exit2,
    /// `additionalContext`: the agent continues, and the host shows no error.
    Context,
    /// One `{"decision":"block"}` object.
    Json,
}

impl BlockStyle {
    pub fn parse_name(name: &str) -> Option<Self> {
        match name {
            "exit2" => Some(Self::Exit2),
            "context" => Some(Self::Context),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The exact output of a hook process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: u8,
}

/// Input that is not an event. `why` describes where parsing failed and never quotes the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedEvent {
    pub why: String,
}
