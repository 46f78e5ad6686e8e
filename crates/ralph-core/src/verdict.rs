//! What ralph answers.

use crate::status::Status;
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The agent may stop and nobody needs to hear about it.
    Allow,
    /// The agent may stop; the person is told one line.
    AllowNoting(String),
    /// The agent goes on, with this to work from.
    Block { reason: String },
    /// The prompt is answered here and does not reach the agent.
    Answer { text: String },
    /// The agent gets to know this; the person is told one line, if there is one to tell.
    Tell { context: String, notice: Option<String> },
    /// The tool is not used.
    Deny { reason: String },
    /// The person is asked before the tool is used.
    Ask { reason: String },
    /// The run is over; the agent may stop and the person is told one line.
    End { status: Status, notice: String, bell: Bell },
}

/// Whether the person hears it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bell {
    #[default]
    Silent,
    Rings,
}

impl Verdict {
    /// An end as the person wants to hear it.
    pub fn with_bell(mut self, wanted: Bell) -> Self {
        if let Self::End { bell, .. } = &mut self {
            *bell = wanted;
        }
        self
    }
}
