//! Plays a scenario with the real client and produces the same timeline as the simulator.
//!
//! The model is [`server`](crate::server), in this process. The timeline is derived from three sources: the lines that
//! the client prints, its requests, and our own hook on every event, the `tap`.

mod drive;
mod handlers;
mod launch;
mod said;
mod story;
mod tap;

pub(crate) use launch::{environment, seed};

use crate::scenario::Scenario;
use crate::server::ServerError;
use crate::stage::Stage;
use crate::timeline::Watcher;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, Kind};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::talk::TalkError;
use ralph_sys::proc::{self, Ended, Limits, Spec};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "claude";
/// Timeout for `--version`.
const SHORT: Duration = Duration::from_secs(30);
const LONGEST_VERSION: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Transcripts of all sessions, in order.
    pub transcripts: Vec<PathBuf>,
    /// Exit code of the last client process.
    pub code: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot find Claude Code (`{0}`)")]
    Missing(String),
    #[error("`{}` does not report its version", .0.display())]
    NoVersion(PathBuf),
    #[error("`{}` is not a settings file", .0.display())]
    Settings(PathBuf),
    #[error("Claude Code exited with code {code} before its first output: {said}")]
    Failed { code: i32, said: String },
    #[error("Claude Code did not {what} within {} seconds", after.as_secs())]
    Silent { what: &'static str, after: Duration },
    #[error("cannot send input to Claude Code")]
    Deaf(#[source] std::io::Error),
    #[error("interrupted")]
    Cancelled,
    #[error("cannot wait for Claude Code")]
    Wait(#[source] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Talk(#[from] TalkError),
}

impl ClientError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("install it: `npm install -g @anthropic-ai/claude-code`"),
            Self::NoVersion(_) | Self::Failed { .. } => {
                Some("run it with `--version` to see what is wrong")
            }
            Self::Silent { .. } => {
                Some("check for a hook that hangs or a command that waits for input")
            }
            Self::Cancelled
            | Self::Settings(_)
            | Self::Deaf(_)
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
    stage: &Stage,
    client: &Client<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<Outcome, ClientError> {
    let Client { program, search_path, cancel } = *client;
    let launch = launch::Launch { scenario, stage, program, search_path, cancel };
    drive::play(scenario, &launch, watcher)
}

/// The program of the real client, and how to cancel it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub program: &'a Path,
    /// `PATH` of the client and its hooks.
    pub search_path: &'a OsStr,
    pub cancel: &'a Cancel,
}

/// Replaces the port in the address of the model, which differs in every run.
fn without_port(bytes: &[u8], port: u16) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:PORT")
}

/// Finds the client: `name`, or `claude` by default. A name without a slash is searched for in the search path.
pub fn locate(name: Option<&Path>, search_path: Option<&OsStr>) -> Result<PathBuf, ClientError> {
    let name = name.unwrap_or(Path::new(NAME));
    let is_program = |path: &PathBuf| {
        fs::stat(path).is_some_and(|found| found.kind == Kind::File && found.mode & 0o111 != 0)
    };
    let found = if name.components().count() > 1 || name.is_absolute() {
        fs::resolve(name).filter(is_program)
    } else {
        let directories = std::env::split_paths(search_path.unwrap_or_default());
        directories.map(|directory| directory.join(name)).find(is_program)
    };
    found.ok_or_else(|| ClientError::Missing(name.display().to_string()))
}

/// The version that the client reports, such as `2.1.325`.
pub fn version(program: &Path) -> Result<String, ClientError> {
    let argv = [program.as_os_str(), OsStr::new("--version")];
    let spec = Spec { argv: &argv, cwd: None, env: &[] };
    let limits = Limits { deadline: Deadline::after(SHORT), keep: LONGEST_VERSION };
    let Ended::Exited { code: 0, stdout, .. } = proc::run(&spec, &limits) else {
        return Err(ClientError::NoVersion(program.to_owned()));
    };
    let said = String::from_utf8_lossy(&stdout);
    let version = said.split_whitespace().next().map(str::to_owned);
    version.ok_or_else(|| ClientError::NoVersion(program.to_owned()))
}
