//! The hooks that ralph registers with a host, and how to try them.

use alloc::vec::Vec;

#[derive(Debug)]
pub struct HookProfile {
    /// Every event that is registered.
    pub events: &'static [HookRegistration],
    /// The event after an edit, which starts the gates ahead of the next stop.
    pub edit_event: &'static str,
    /// Limits the edit event to tools that edit files.
    pub edit_matcher: &'static str,
    /// Events at which an agent or a subagent stops. The first one holds a session.
    pub stop_events: &'static [&'static str],
    /// The host kills a hook after this time if its settings do not say otherwise, and the agent then stops unchecked.
    pub default_timeout_secs: u32,
    /// How many consecutive blocks the host allows if its settings do not say otherwise.
    pub default_block_cap: u32,
    /// An event as the host would send it to a hook: its name, the session and the project.
    pub sample_event: fn(&str, &str, &str) -> Vec<u8>,
    /// Variables that the host sets for a hook in an interactive session, in addition to those with a name of their own.
    pub interactive_variables: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub struct HookRegistration {
    pub event: &'static str,
    pub timeout: HookTimeout,
    /// Whether a run cannot be started or held in a session without it.
    pub is_essential: bool,
    /// The consequence if it is not registered.
    pub consequence: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTimeout {
    /// As long as the gates.
    Gates,
    Seconds(u32),
}

/// The versions of a host that matter to ralph.
#[derive(Debug)]
pub struct VersionProfile {
    /// The version that ralph was tested with.
    pub tested: [u32; 3],
    /// The version that introduced a feature, and the effect of its absence.
    pub features: &'static [([u32; 3], &'static str)],
    /// The command that installs the newest version.
    pub update_command: &'static str,
}
