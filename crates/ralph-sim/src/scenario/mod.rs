//! A scenario: a scratch project, the hooks under test, what the person and the agent do, and what has to come of it.

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
    /// One sentence: what it shows.
    pub name: String,
    /// Who can play it, where one of the two cannot.
    pub only: Option<Player>,
    pub client: Client,
    /// `ralph run` in the place of a person, where it is to drive the client.
    pub runner: Option<Box<Runner>>,
    /// Variables of the client's process, and so of its hooks.
    pub env: BTreeMap<String, String>,
    /// A directory whose files the project starts with, resolved against the scenario's own place.
    pub copy: Option<PathBuf>,
    /// Files of the project, by relative path. What starts with `#!` can be run.
    pub files: BTreeMap<String, String>,
    /// Files of the person's home, by relative path.
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
    /// The client with a terminal, in which a person types.
    Terminal,
    /// Whoever drives a pretended client: see [`crate::pretend`].
    Pretend,
}

/// How the client is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The session's id; made up when it is not given.
    pub session: Option<String>,
    /// The name of the directory that the project is in, where the usual one will not do.
    pub directory: Option<String>,
    pub model: Option<String>,
    /// The size of the context window in tokens, as `--autocompact` takes it.
    pub autocompact: Option<u64>,
    pub max_turns: Option<u32>,
}

/// Whole settings files, besides the hooks.
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
    /// As it stands, by the shell.
    Command(String),
    /// Without a shell.
    Program { command: String, args: Vec<String> },
    /// A script that becomes a file of the project.
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
    /// A whole plugin, resolved like the scenario's own `copy`, in the place of hooks.
    pub copy: Option<PathBuf>,
    pub hooks: Vec<Hook>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Person(String),
    Agent(AgentTurn),
    Session(SessionStep),
    /// Waits until the terminal shows this; what is typed next is typed at once, whatever the agent does.
    Screen(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// The client ends and is started again with the same session.
    Resume,
    /// The client ends and is started again with a copy of the session under a new id.
    Fork,
    /// A second client begins a session of its own in the same project. The first one stays open, and is silent.
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
    /// What the client tells of the account's limit before this answer.
    pub rate_limit: Option<Box<RateLimit>>,
}

/// What happens to a pretended client in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mishap {
    #[default]
    None,
    /// Its process ends: with this code, or killed.
    Crash {
        at: Point,
        exit: Option<u8>,
    },
    Hang(Hang),
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The model was asked, and nothing of its answer has arrived.
    Answer,
    /// The tools have run, and nobody was told.
    Tools,
    /// The hooks of the stop are asked, and have not answered.
    Stop,
    /// They have answered, and the result is not told.
    Result,
    /// The result is told.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// The model never answers; the client still hears who drives it.
    Answer,
    /// The client neither says nor hears anything any more.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `allowed`, `allowed_warning` or `rejected`: then the answer is an error.
    pub status: String,
    /// Such as `five_hour`.
    pub kind: String,
    /// From the moment that it is told, where it is known.
    pub resets_in_ms: Option<u64>,
    /// How much of the window is used, in hundredths.
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

/// Whether the person interrupts the agent here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupt {
    #[default]
    No,
    /// While the answer is on its way.
    Answer,
    /// While its tools run.
    Tools,
}

/// A tool call. Relative paths in it are the project's.
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
    /// Any other, as it stands.
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
    /// 0 where the connection breaks before there is one.
    pub status: u16,
    /// Such as `overloaded_error`.
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subagent {
    /// A part of the task it is given, which tells it from others.
    pub prompt: String,
    pub turns: Vec<AgentTurn>,
}
