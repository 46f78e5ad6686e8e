//! The input of a status line command. Each host parses its own form of it.

use ralph_core::id::SessionId;

/// The state of a session as its client reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLineInput {
    pub session: SessionId,
    /// Cost of the whole session so far.
    pub cost_micro_usd: Option<u64>,
    pub context_percent: Option<u8>,
}
