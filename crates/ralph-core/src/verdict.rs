//! Ralph's answer to a hook event. How a verdict is encoded for a particular host is up to the `ralph-host` crate.

use crate::status::Status;
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allow the event, without output.
    Allow,
    /// Allow the stop and show the person one line.
    AllowNoting(String),
    /// Block the stop; the agent continues with this reason.
    Block { reason: String },
    /// Answer the prompt here; it does not reach the agent.
    Answer { text: String },
    /// Add context for the agent, and optionally show the person one line.
    Tell { context: String, notice: Option<String> },
    /// Deny the tool call.
    Deny { reason: String },
    /// Ask the person before the tool call.
    Ask { reason: String },
    /// End the run: allow the stop and show the person one line.
    End { status: Status, notice: String, bell: Bell },
}

/// Whether the end of a run rings the terminal bell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bell {
    #[default]
    Silent,
    Rings,
}

impl Verdict {
    /// Sets the bell of an end; other verdicts stay as they are.
    pub fn with_bell(mut self, wanted: Bell) -> Self {
        if let Self::End { bell, .. } = &mut self {
            *bell = wanted;
        }
        self
    }
}
