//! The actions of a page: each is the command of the same name.

use ralph_core::id::RunId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAction {
    Pause,
    Resume,
    Cancel,
    /// A message for the agent, which is also the answer to its question.
    Tell {
        text: String,
    },
    Waive {
        requirement: String,
        until: String,
        why: String,
    },
    /// Withdraws a waiver.
    Require {
        requirement: String,
    },
}

/// Carries out actions as the commands do, for the person who started the server.
pub trait RunCommands: Send + Sync + 'static {
    /// A sentence for the person. The error says what is wrong and what to do next. Both are clean and without secrets.
    fn carry_out(&self, run: &RunId, action: &RunAction) -> Result<String, String>;

    /// Sends a test notification.
    fn test_notification(&self) -> Result<String, String>;
}
