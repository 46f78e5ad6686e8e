//! A pretended client: it speaks the client's side of `-p --input-format stream-json --output-format stream-json` from
//! a scenario, without a model and without a delay, for whoever drives a client and wants to be tested by the hundred.
//!
//! ```text
//! driver ─ lines ─▶ inbox ─▶ client ─ turn ─▶ position: the scenario's turns, one queue over all processes
//!    ▲                         │        ├──▶ hooks: callbacks that the driver registered
//!    └──────── lines ──────────┘        └──▶ tools, which really run
//! ```
//!
//! What it does was measured on Claude Code 2.1.325. Prompts come from the driver: those of the scenario are passed
//! over. Hooks in settings files are not run; the session's transcript is written as the client writes it.

mod background;
mod client;
mod control;
mod flags;
mod hooks;
mod inbox;
mod permission;
mod position;
mod report;
mod stop;
mod tools;
mod turn;

#[cfg(test)]
mod tests;

pub use flags::{Asks, Dress, Flags, Start};
pub use inbox::{Bell, Signal};
pub use position::PositionError;

use crate::scenario::Scenario;
use client::Client;
use ralph_sys::fs::FileError;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

pub(crate) const BYPASS: &str = "bypassPermissions";

/// How the process was started.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program: tools run under it.
    pub program: PathBuf,
    pub pid: u32,
    /// Where it was started.
    pub project: PathBuf,
    pub home: PathBuf,
    /// All of its environment; tools get it too.
    pub env: Vec<(OsString, OsString)>,
    /// Where the script's position is kept. Without it every process starts the script anew.
    pub position: Option<PathBuf>,
    pub flags: Flags,
}

/// How the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With a code, and what is said on stderr.
    Code { code: u8, said: Option<String> },
    /// By SIGKILL, as the scenario has it.
    Killed,
    /// Never: it neither says nor hears anything any more.
    Never,
}

#[derive(Debug, thiserror::Error)]
pub enum PretendError {
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("commands cannot be started")]
    Cancel(#[source] std::io::Error),
}

/// Who hears the client: `false` when nobody does any more.
pub type Say<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// A client that was started, and has said nothing yet.
pub struct Pretended<'a>(Client<'a>);

impl std::fmt::Debug for Pretended<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Pretended").field(&self.0.options).finish()
    }
}

impl<'a> Pretended<'a> {
    pub fn new(scenario: &'a Scenario, options: Options, say: &'a mut Say<'a>) -> Self {
        Self(Client::new(scenario, options, say))
    }

    /// For signals.
    pub fn bell(&self) -> Bell {
        self.0.inbox.bell()
    }

    /// From the first line of the driver's to the end of the process.
    pub fn run(mut self, input: impl Read + Send + 'static) -> Result<Exit, PretendError> {
        inbox::listen(input, self.0.inbox.bell());
        self.0.live()
    }
}
