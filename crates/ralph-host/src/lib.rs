//! The wire formats of coding agents: parses a host's hook payload into an [`HookEvent`] and renders a [`Verdict`] as the
//! host's answer. Knowledge about one host's formats belongs here and nowhere else.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod claude;

use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::event::{HookEvent, ReplyOccasion};
use ralph_core::verdict::Verdict;

/// A coding agent's program that calls ralph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Claude,
}

/// How a block is reported to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStyle {
    /// Exit 2, the reason on stderr, `{}` on stdout.
    Exit2,
    /// `additionalContext`: the agent continues, and the host shows no error.
    Context,
    /// One `{"decision":"block"}` object.
    Json,
}

/// The exact output of a hook process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: u8,
}

/// Input that is not an event. `why` describes where parsing failed and never quotes the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedEvent {
    pub why: String,
}

impl Host {
    pub fn parse_name(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            _ => None,
        }
    }

    pub fn parse(self, input: &[u8]) -> Result<HookEvent, MalformedEvent> {
        match self {
            Self::Claude => claude::event::parse_event(input),
        }
    }

    pub fn render(
        self,
        style: BlockStyle,
        occasion: ReplyOccasion,
        verdict: &Verdict,
    ) -> HookReply {
        match self {
            Self::Claude => claude::event::render_verdict(style, occasion, verdict),
        }
    }
}

impl BlockStyle {
    pub fn parse_name(name: &str) -> Option<Self> {
        match name {
            "exit2" => Some(Self::Exit2),
            "context" => Some(Self::Context),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}
