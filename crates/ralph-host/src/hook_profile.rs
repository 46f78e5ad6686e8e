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
    /// Whether the output of a stop hook holds the session: its exit code, stdout and stderr.
    pub holds_session: fn(i32, &[u8], &[u8]) -> bool,
    /// Variables that the host sets for a hook in an interactive session, in addition to those with a name of their own.
    pub interactive_variables: &'static [(&'static str, &'static str)],
}

impl HookProfile {
    /// The event that holds a session.
    pub fn session_stop(&self) -> &'static str {
        self.stop_events.first().copied().unwrap_or_default()
    }

    /// Whether the hook of this event waits for gates.
    pub fn waits_for_gates(&self, event: &str) -> bool {
        self.events.iter().any(|row| row.event == event && row.timeout == HookTimeout::Gates)
    }
}

#[derive(Debug)]
pub struct HookRegistration {
    pub event: &'static str,
    pub timeout: HookTimeout,
    /// Whether a run cannot be started or held in a session without it.
    pub is_essential: bool,
    /// Whether a runner answers it in the stream of the agents that it starts.
    pub has_callback: bool,
    /// The consequence if it is not registered.
    pub consequence: &'static str,
}

impl HookRegistration {
    pub(crate) const fn new(
        event: &'static str,
        timeout: HookTimeout,
        consequence: &'static str,
    ) -> Self {
        Self { event, timeout, is_essential: false, has_callback: false, consequence }
    }

    pub(crate) const fn essential(self) -> Self {
        Self { is_essential: true, ..self }
    }

    pub(crate) const fn with_callback(self) -> Self {
        Self { has_callback: true, ..self }
    }
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
