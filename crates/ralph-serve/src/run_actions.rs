//! The actions of pages, which the binary carries out.

use ralph_core::id::RunId;
use ralph_deck::person_action::PersonAction;

/// Carries out actions as the commands do, for the person who started the server.
pub trait RunCommands: Send + Sync + 'static {
    /// A sentence for the person. The error says what is wrong and what to do next. Both are clean and without secrets.
    fn carry_out(&self, run: &RunId, action: &PersonAction) -> Result<String, String>;

    /// Sends a test notification.
    fn test_notification(&self) -> Result<String, String>;

    /// Shows this where the server was started.
    fn report_entry(&self, report: &EntryReport);
}

/// What happened to a link of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryReport {
    /// A browser used the printed link. This one is for the next browser.
    NextLink(String),
    /// A used link was opened in another browser, and the session that it had opened has ended.
    LinkReused,
}
