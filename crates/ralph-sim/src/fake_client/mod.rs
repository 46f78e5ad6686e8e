//! A fake client for testing programs that drive one. It speaks the client's side of `-p --input-format stream-json
//! --output-format stream-json`, scripted by a scenario, without a model and without delays.
//!
//! ```text
//! driver ─ lines ─▶ inbox ─▶ process ─ turn_loop ─▶ script_position: one queue of turns for all processes
//!    ▲                          │          ├──▶ hook_callbacks: hooks that the driver registered
//!    └───────── lines ──────────┘          └──▶ client_tools, which really run
//! ```
//!
//! Its behavior was measured on Claude Code 2.1.325. Prompts come from the driver; those of the scenario are ignored.
//! Hooks in settings files are not run. The transcript is written in the client's format.

mod background_commands;
mod client_flags;
mod client_tools;
mod control_requests;
mod hook_callbacks;
mod inbox;
mod permissions;
mod process;
mod refused_answer;
mod result_line;
mod script_position;
mod stop_attempt;
mod turn_loop;

#[cfg(test)]
mod tests;

pub use client_flags::{FakeClientFlags, FakeClientFlagsError, RequestedSession};
pub use inbox::{ExitSignal, InboxSender};
pub use script_position::ScriptPositionError;
pub(crate) use script_position::request_count;

use crate::scenario::Scenario;
use process::FakeClientProcess;
use ralph_sys::fs::FileError;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

/// How the process was started.
#[derive(Clone, Debug)]
pub struct FakeClientOptions {
    /// The `ralph` binary, which supervises tools.
    pub program: PathBuf,
    pub pid: u32,
    /// The working directory at the start.
    pub project: PathBuf,
    pub home: PathBuf,
    /// The whole environment, which tools inherit.
    pub env: Vec<(OsString, OsString)>,
    /// The file that stores the position in the script. Without it every process starts the script from the beginning.
    pub position: Option<PathBuf>,
    pub flags: FakeClientFlags,
}

/// How the process is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeClientExit {
    /// With a code and a message on stderr.
    Code { code: u8, stderr: Option<String> },
    /// By SIGKILL, because the scenario has a crash here.
    Killed,
    /// Never: the process hangs, without input or output.
    Never,
}

#[derive(Debug, thiserror::Error)]
pub enum FakeClientError {
    #[error(transparent)]
    Position(#[from] ScriptPositionError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot start commands")]
    Cancel(#[source] std::io::Error),
}

/// Receives the output of the client. Returns `false` if it is closed.
pub type FakeClientOutput<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// A fake client before its first output.
pub struct FakeClient<'a>(FakeClientProcess<'a>);

impl std::fmt::Debug for FakeClient<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Pretended").field(&self.0.options).finish()
    }
}

impl<'a> FakeClient<'a> {
    pub fn new(
        scenario: &'a Scenario,
        options: FakeClientOptions,
        say: &'a mut FakeClientOutput<'a>,
    ) -> Self {
        Self(FakeClientProcess::new(scenario, options, say))
    }

    /// A handle to deliver signals with.
    pub fn event_sender(&self) -> InboxSender {
        self.0.inbox.sender()
    }

    /// Runs until the process is to end.
    pub fn run(
        mut self,
        input: impl Read + Send + 'static,
    ) -> Result<FakeClientExit, FakeClientError> {
        inbox::spawn_reader(input, self.0.inbox.sender());
        self.0.run()
    }
}
