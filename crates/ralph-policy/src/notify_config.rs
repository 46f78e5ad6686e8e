//! The `[notify]` section: how a person is notified that a run ended or asks something.

use ralph_core::status::RunStatus;

/// `[notify]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifySettings {
    pub channels: Vec<NotifyChannel>,
    /// The final statuses that send a notification.
    pub statuses: Vec<RunStatus>,
    /// Whether a question that waits for an answer sends one.
    pub notifies_questions: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyChannel {
    /// The terminal bell. A hook has no terminal, so the host rings it.
    Bell,
    Desktop,
    /// A program and its arguments.
    Command(Vec<String>),
    /// An `https://` URL.
    Webhook(String),
}

impl NotifyChannel {
    /// The key in `[notify]`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Desktop => "desktop",
            Self::Command(_) => "command",
            Self::Webhook(_) => "webhook",
        }
    }
}
