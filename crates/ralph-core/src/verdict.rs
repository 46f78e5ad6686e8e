//! Ralph's answer to a hook event. How a verdict is encoded for a particular host is up to the `ralph-host` crate.

use crate::status::RunStatus;
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allow the event, without output.
    Allow,
    /// Allow the stop and show the person one line.
    AllowWithNotice(String),
    /// Block the stop; the agent continues with this reason.
    Block { reason: String },
    /// Answer the prompt here; it does not reach the agent.
    AnswerPrompt { text: String },
    /// Add context for the agent, and optionally show the person one line.
    AddContext { context: String, notice: Option<String> },
    /// Deny the tool call.
    DenyTool { reason: String },
    /// Ask the person before the tool call.
    AskPerson { reason: String },
    /// End the run: allow the stop and show the person one line. The host rings the terminal bell if wanted.
    EndRun { status: RunStatus, notice: String, ring_bell: bool },
}

impl Verdict {
    /// Sets the bell of an end; other verdicts stay as they are.
    pub fn with_bell(mut self, wanted: bool) -> Self {
        if let Self::EndRun { ring_bell, .. } = &mut self {
            *ring_bell = wanted;
        }
        self
    }
}
