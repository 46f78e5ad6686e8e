//! The real client, played with a scenario, telling the same story as the simulated one.
//!
//! Its model is [`server`](crate::server), in this process. What it does is read off three things: the lines it
//! prints, the requests it makes, and a hook of ours on every event, the `tap`.

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
/// For what is quick or broken.
const SHORT: Duration = Duration::from_secs(30);
const LONGEST_VERSION: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The transcripts of the session, and of those it went over into.
    pub transcripts: Vec<PathBuf>,
    /// How the last process of the client ended.
    pub code: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("there is no Claude Code: `{0}` was not found")]
    Missing(String),
    #[error("`{}` does not tell its version", .0.display())]
    NoVersion(PathBuf),
    #[error("`{}` holds no settings", .0.display())]
    Settings(PathBuf),
    #[error("Claude Code ended with code {code} before it asked the model anything: {said}")]
    Failed { code: i32, said: String },
    #[error("Claude Code did not {what} within {} seconds", after.as_secs())]
    Silent { what: &'static str, after: Duration },
    #[error("cannot tell Claude Code anything")]
    Deaf(#[source] std::io::Error),
    #[error("it was interrupted")]
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
    /// What to do about it, where anything can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("`npm install -g @anthropic-ai/claude-code` installs it"),
            Self::NoVersion(_) | Self::Failed { .. } => {
                Some("run it by hand with `--version` and see what it says")
            }
            Self::Silent { .. } => Some("a hook that hangs, or a command that waits for input?"),
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

/// Plays the scenario with a real client, on a stage that was just set up, to the end of its last process.
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

/// The real one, and who may end it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub program: &'a Path,
    /// Where it and its hooks find programs.
    pub search_path: &'a OsStr,
    pub cancel: &'a Cancel,
}

/// The client names its model by address, whose port is another one every time.
fn without_port(bytes: &[u8], port: u16) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:PORT")
}

/// Where the client is: `name`, or `claude`, looked for in the search path unless it is a path itself.
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

/// What the client says its version is, such as `2.1.325`.
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
