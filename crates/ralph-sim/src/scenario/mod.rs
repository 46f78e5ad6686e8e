//! A scenario: a scratch project, the hooks under test, the steps of the person and the agent, and the expected outcome.

mod expect;
mod near;
mod possible;
mod pretended;
mod raw;
mod read;
mod runner;
mod toml_text;
mod wording;
mod write;

#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;

pub use expect::{ENDINGS, EVENTS, Expect};
pub use read::{Mistakes, parse, read, read_to_pretend};
pub use runner::{Act, Moment, Runner};
pub use write::write;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// One sentence that describes what the scenario shows.
    pub name: String,
    /// The only player that can run the scenario, if not all can.
    pub only: Option<Player>,
    pub client: Client,
    /// If set, `ralph run` drives the client instead of a person.
    pub runner: Option<Box<Runner>>,
    /// Environment variables of the client, inherited by its hooks.
    pub env: BTreeMap<String, String>,
    /// A directory that is copied into the project, resolved against the directory of the scenario file.
    pub copy: Option<PathBuf>,
    /// Files of the project, by relative path. A file that starts with `#!` is executable.
    pub files: BTreeMap<String, String>,
    /// Files of the home directory, by relative path.
    pub home: BTreeMap<String, String>,
    /// Commands that prepare the project, run by `sh` before the client starts.
    pub setup: Vec<String>,
    pub settings: Settings,
    pub hooks: Vec<Hook>,
    pub plugins: Vec<Plugin>,
    pub steps: Vec<Step>,
    pub subagents: Vec<Subagent>,
    pub summary: String,
    pub expect: Expect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Player {
    Simulator,
    Client,
    /// The real client in a terminal, with typed input.
    Terminal,
    /// The fake client for programs that drive one: see [`crate::fake_client`].
    Pretend,
}

/// How the client is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The session id; generated if it is not given.
    pub session: Option<String>,
    /// The name of the project's directory, if not the default.
    pub directory: Option<String>,
    pub model: Option<String>,
    /// The size of the context window in tokens, the value of `--autocompact`.
    pub autocompact: Option<u64>,
    pub max_turns: Option<u32>,
}

/// Contents of settings files, to which the hooks are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub user: Option<Value>,
    pub project: Option<Value>,
    pub local: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hook {
    pub event: String,
    pub matcher: Option<String>,
    pub run: Run,
    /// In seconds.
    pub timeout: Option<f64>,
    pub is_async: bool,
    pub layer: Layer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Run by a shell.
    Command(String),
    /// Run without a shell.
    Program { command: String, args: Vec<String> },
    /// A script that is written to a file of the project.
    Script(String),
}

impl Default for Run {
    fn default() -> Self {
        Self::Command(String::new())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    User,
    #[default]
    Project,
    Local,
    /// The client's `--settings`.
    Flag,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugin {
    pub name: String,
    /// A directory with a whole plugin, resolved like the scenario's `copy`. Excludes `hooks`.
    pub copy: Option<PathBuf>,
    pub hooks: Vec<Hook>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Person(String),
    Agent(AgentTurn),
    Session(SessionStep),
    /// Waits until the terminal shows this text. The next input is then typed at once, even in the middle of a turn.
    Screen(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// The client exits and is started again with the same session.
    Resume,
    /// The client exits and is started again with a copy of the session under a new id.
    Fork,
    /// A second client starts a new session in the same project. The first one stays open and idle.
    New,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentTurn {
    pub text: String,
    pub tools: Vec<ToolCall>,
    pub usage: Usage,
    /// An API error instead of an answer.
    pub error: Option<ApiError>,
    pub delay_ms: u64,
    pub repeat: Repeat,
    pub stop_reason: Option<String>,
    pub interrupt: Interrupt,
    pub mishap: Mishap,
    /// The rate limit that the client reports before this answer.
    pub rate_limit: Option<Box<RateLimit>>,
}

/// A failure of the fake client in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mishap {
    #[default]
    None,
    /// Its process exits with this code, or is killed if there is none.
    Crash {
        at: Point,
        exit: Option<u8>,
    },
    Hang(Hang),
}

/// The progress of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The request was sent, and no part of the answer has arrived.
    Answer,
    /// The tools have run, and their results are not reported yet.
    Tools,
    /// The stop hooks are called and have not answered yet.
    Stop,
    /// The stop hooks have answered, and the result is not reported yet.
    Result,
    /// The result is reported.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// The model never answers; the client still reads its input.
    Answer,
    /// The client no longer reads input or writes output.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `allowed`, `allowed_warning` or `rejected`. If `rejected`, the answer is an error.
    pub status: String,
    /// For example `five_hour`.
    pub kind: String,
    /// Measured from the moment of the report, if known.
    pub resets_in_ms: Option<u64>,
    /// Used share of the limit, in percent.
    pub used_percent: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    Times(u32),
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// Whether the person interrupts the agent in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupt {
    #[default]
    No,
    /// While the answer is streaming.
    Answer,
    /// While the tools run.
    Tools,
}

/// A tool call. Relative paths are resolved against the project.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCall {
    Bash {
        command: String,
        background: bool,
    },
    Write {
        path: String,
        text: String,
    },
    Edit {
        path: String,
        old: String,
        new: String,
    },
    Read {
        path: String,
    },
    Agent {
        prompt: String,
        kind: String,
        background: bool,
    },
    /// Any other tool, with its input unchanged.
    Other {
        name: String,
        input: Value,
    },
}

/// Tokens, as the API reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_creation: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, or 0 if the connection breaks before there is one.
    pub status: u16,
    /// For example `overloaded_error`.
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subagent {
    /// A substring of its task that identifies it.
    pub prompt: String,
    pub turns: Vec<AgentTurn>,
}
