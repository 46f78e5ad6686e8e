//! What happened, in ralph's words. Hosts are translated into this in [`crate::host`].

use crate::id::SessionId;
use alloc::string::String;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent wants to stop.
    Stop(Stop),
    /// A subagent of the session wants to stop.
    SubagentStop(SubagentStop),
    /// The turn ended because the host or its API failed; there is nothing to hold.
    StopFailure(StopFailure),
    /// An event that the host is known to send and that asks nothing of ralph.
    Noted(Noted),
    /// An event name this version does not know.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// `None` when the host sent no id, or one that must not become a path.
    pub session: Option<SessionId>,
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// The host's id of the prompt being answered.
    pub prompt: Option<String>,
    /// The host's one bit: this turn already goes on because of an earlier block. Never a counter.
    pub continuing: bool,
    pub said: Option<String>,
    /// The turn did not end by the agent's wish, as far as the event itself tells.
    pub trouble: Option<Trouble>,
    /// Background work and scheduled wake-ups that will bring the agent back by itself.
    pub pending: Vec<Pending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStop {
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    pub agent_type: Option<String>,
    pub continuing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopFailure {
    pub session: Option<SessionId>,
    pub class: Trouble,
    /// A subagent failed (compaction runs in one); the session itself goes on.
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub session: Option<SessionId>,
    pub name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub kind: PendingKind,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingKind {
    Background,
    WakeUp,
}

/// Why a turn ended without the agent's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    RateLimit,
    Overloaded,
    Authentication,
    Billing,
    ContextFull,
    OutputLimit,
    InvalidRequest,
    Server,
    Interrupted,
    /// A word this version does not know, kept for the journal.
    Unknown(String),
}

impl Trouble {
    pub fn name(&self) -> &str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Authentication => "authentication",
            Self::Billing => "billing",
            Self::ContextFull => "context_full",
            Self::OutputLimit => "output_limit",
            Self::InvalidRequest => "invalid_request",
            Self::Server => "server",
            Self::Interrupted => "interrupted",
            Self::Unknown(word) => word,
        }
    }
}
