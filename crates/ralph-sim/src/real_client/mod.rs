//! Plays a scenario with the real client and produces the same timeline as the simulator.
//!
//! The model is [`server`](crate::server), in this process. The timeline is derived from three sources: the lines that
//! the client prints, its requests, and our own hook on every event, the `tap`.

mod client_driver;
mod expected_handlers;
mod hook_tap;
mod launch;
mod request_news;
mod stop_summaries;
mod timeline_builder;

pub(crate) use launch::{client_environment, seed_client_home};

use crate::scenario::Scenario;
use crate::scratch::ScratchProject;
use crate::server::ModelServerError;
use crate::timeline::TimelineWatcher;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, FileKind};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::line_process::LineProcessError;
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLIENT_NAME: &str = "claude";
/// Timeout for `--version`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_VERSION_BYTES: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealClientOutcome {
    /// Transcripts of all sessions, in order.
    pub transcripts: Vec<PathBuf>,
    /// Exit code of the last client process.
    pub code: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum RealClientError {
    #[error("cannot find Claude Code (`{0}`)")]
    Missing(String),
    #[error("`{}` does not report its version", .0.display())]
    NoVersion(PathBuf),
    #[error("`{}` is not a settings file", .0.display())]
    Settings(PathBuf),
    #[error("Claude Code exited with code {code} before its first output: {said}")]
    Failed { code: i32, said: String },
    #[error("Claude Code did not {what} within {} seconds", after.as_secs())]
    TimedOut { what: &'static str, after: Duration },
    #[error("cannot send input to Claude Code")]
    CannotSend(#[source] std::io::Error),
    #[error("interrupted")]
    Cancelled,
    #[error("cannot wait for Claude Code")]
    Wait(#[source] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Server(#[from] ModelServerError),
    #[error(transparent)]
    Talk(#[from] LineProcessError),
}

impl RealClientError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("install it: `npm install -g @anthropic-ai/claude-code`"),
            Self::NoVersion(_) | Self::Failed { .. } => {
                Some("run it with `--version` to see what is wrong")
            }
            Self::TimedOut { .. } => {
                Some("check for a hook that hangs or a command that waits for input")
            }
            Self::Cancelled
            | Self::Settings(_)
            | Self::CannotSend(_)
            | Self::Wait(_)
            | Self::File(_)
            | Self::Server(_)
            | Self::Talk(_) => None,
        }
    }
}

/// Plays the scenario with the real client, in a scratch project that was just set up, until the last process exits.
pub fn play(
    scenario: &Scenario,
    stage: &ScratchProject,
    client: &RealClient<'_>,
    watcher: &mut TimelineWatcher<'_>,
) -> Result<RealClientOutcome, RealClientError> {
    let RealClient { program, search_path, cancel } = *client;
    let launch = launch::ClientLaunch { scenario, stage, program, search_path, cancel };
    client_driver::play_scenario(scenario, &launch, watcher)
}

/// The program of the real client, and how to cancel it.
#[derive(Clone, Copy, Debug)]
pub struct RealClient<'a> {
    pub program: &'a Path,
    /// `PATH` of the client and its hooks.
    pub search_path: &'a OsStr,
    pub cancel: &'a CancelToken,
}

/// Replaces the port in the address of the model, which differs in every run.
fn mask_port(bytes: &[u8], port: u16) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:PORT")
}

/// Finds the client: `name`, or `claude` by default. A name without a slash is searched for in the search path.
pub fn locate_client(
    name: Option<&Path>,
    search_path: Option<&OsStr>,
) -> Result<PathBuf, RealClientError> {
    let name = name.unwrap_or(Path::new(CLIENT_NAME));
    let is_program = |path: &PathBuf| {
        fs::stat(path).is_some_and(|found| found.kind == FileKind::File && found.mode & 0o111 != 0)
    };
    let found = if name.components().count() > 1 || name.is_absolute() {
        fs::resolve(name).filter(is_program)
    } else {
        let directories = std::env::split_paths(search_path.unwrap_or_default());
        directories.map(|directory| directory.join(name)).find(is_program)
    };
    found.ok_or_else(|| RealClientError::Missing(name.display().to_string()))
}

/// The version that the client reports, such as `2.1.325`.
pub fn client_version(program: &Path) -> Result<String, RealClientError> {
    let argv = [program.as_os_str(), OsStr::new("--version")];
    let spec = ProgramSpec { argv: &argv, cwd: None, env: &[] };
    let limits = ProgramLimits {
        deadline: Deadline::after(VERSION_TIMEOUT),
        max_output_bytes: MAX_VERSION_BYTES,
    };
    let ProgramEnd::Exited { code: 0, stdout, .. } = proc::run_program(&spec, &limits) else {
        return Err(RealClientError::NoVersion(program.to_owned()));
    };
    let said = String::from_utf8_lossy(&stdout);
    let version = said.split_whitespace().next().map(str::to_owned);
    version.ok_or_else(|| RealClientError::NoVersion(program.to_owned()))
}
