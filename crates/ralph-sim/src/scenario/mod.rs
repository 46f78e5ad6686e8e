//! A scenario: a scratch project, the hooks under test, the steps of the person and the agent, and the expected
//! outcome.

mod contradictions;
mod expectations;
mod fake_client_keys;
mod file_format;
mod hook_section;
mod runner_section;
mod scenario_parser;
mod serde_messages;
mod suggestion;
mod terminal_keys;
mod toml_text;
mod write;

#[cfg(test)]
mod repository_scenarios;
#[cfg(test)]
mod tests;

pub use expectations::{PROMPT_ENDINGS, SIMULATED_EVENTS, ScenarioExpectations};
pub use runner_section::{InterventionAction, RunnerIntervention, ScenarioRunner};
pub(crate) use scenario_parser::DEFAULT_AGENT_TYPE;
pub use scenario_parser::{ScenarioError, parse, read, read_for_fake_client};
pub use write::write;

use crate::hook_settings::EvaluatorKind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// One sentence that describes what the scenario shows.
    pub name: String,
    /// The only player that can run the scenario, if not all can.
    pub only: Option<ScenarioPlayer>,
    pub client: ScenarioClient,
    /// If set, `ralph run` drives the client instead of a person.
    pub runner: Option<Box<ScenarioRunner>>,
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
    pub settings: ScenarioSettings,
    pub hooks: Vec<ScenarioHook>,
    pub plugins: Vec<ScenarioPlugin>,
    pub steps: Vec<ScenarioStep>,
    pub subagents: Vec<ScriptedSubagent>,
    /// The answers to hooks that ask a model.
    pub evaluators: Vec<ScriptedSubagent>,
    pub summary: String,
    pub expect: ScenarioExpectations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScenarioPlayer {
    Simulator,
    Client,
    /// The real client in a terminal, with typed input.
    Terminal,
    /// The fake client for programs that drive one: see [`crate::fake_client`].
    Pretend,
}

/// How the client is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioClient {
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
pub struct ScenarioSettings {
    pub user: Option<Value>,
    pub project: Option<Value>,
    pub local: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScenarioHook {
    pub event: String,
    pub matcher: Option<String>,
    pub run: ScenarioHookCommand,
    /// In seconds.
    pub timeout: Option<f64>,
    pub is_async: bool,
    pub layer: ScenarioSettingsLayer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioHookCommand {
    /// Run by a shell.
    Command(String),
    /// Run without a shell.
    Program { command: String, args: Vec<String> },
    /// A script that is written to a file of the project.
    Script(String),
    /// No process: the client asks a model.
    Evaluator { kind: EvaluatorKind, prompt: String, model: Option<String> },
}

impl Default for ScenarioHookCommand {
    fn default() -> Self {
        Self::Command(String::new())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScenarioSettingsLayer {
    User,
    #[default]
    Project,
    Local,
    /// The client's `--settings`.
    Flag,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScenarioPlugin {
    pub name: String,
    /// A directory with a whole plugin, resolved like the scenario's `copy`. Excludes `hooks`.
    pub copy: Option<PathBuf>,
    pub hooks: Vec<ScenarioHook>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ScenarioStep {
    Person(String),
    Agent(ScriptedTurn),
    Session(SessionStep),
    Screen(ScreenStep),
    Shell(ShellStep),
}

/// Waits until the terminal shows a text. The next input is then typed at once, even in the middle of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenStep {
    pub text: String,
    /// Keys to press then, by tmux's names for them; anything else is typed.
    pub keys: Vec<String>,
}

/// A command that the person types at the shell of the terminal. Without such a step, the terminal runs the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellStep {
    pub command: String,
    pub answer: Option<TypedAnswer>,
}

/// The person's answer to the question of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedAnswer {
    /// The end of the question, as the terminal shows it.
    pub question: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStep {
    /// The client exits and is started again with the same session.
    Resume,
    /// The client exits and is started again with a copy of the session under a new id.
    Fork,
    /// A second client starts a new session in the same project. The first one stays open and idle.
    New,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptedTurn {
    pub text: String,
    pub tools: Vec<ScriptedToolCall>,
    pub usage: ScriptedUsage,
    /// An API error instead of an answer.
    pub error: Option<ScriptedApiError>,
    pub delay_ms: u64,
    pub repeat: TurnRepeat,
    pub stop_reason: Option<String>,
    pub interrupt: TurnInterrupt,
    pub mishap: TurnMishap,
    /// The rate limit that the client reports before this answer.
    pub rate_limit: Option<Box<ScriptedRateLimit>>,
}

/// A failure of the fake client in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnMishap {
    #[default]
    None,
    /// Its process exits with this code, or is killed if there is none.
    Crash {
        at: TurnPoint,
        exit: Option<u8>,
    },
    Hang(TurnHang),
}

/// The progress of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnPoint {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnHang {
    /// The model never answers; the client still reads its input.
    Answer,
    /// The client no longer reads input or writes output.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedRateLimit {
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
pub enum TurnRepeat {
    Times(u32),
    Forever,
}

impl Default for TurnRepeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// Whether the person interrupts the agent in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnInterrupt {
    #[default]
    #[serde(skip)]
    No,
    /// While the answer is streaming.
    Answer,
    /// While the tools run.
    Tools,
}

/// A tool call. Relative paths are resolved against the project.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedToolCall {
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
pub struct ScriptedUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_creation: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedApiError {
    /// The HTTP status, or 0 if the connection breaks before there is one.
    pub status: u16,
    /// For example `overloaded_error`.
    pub kind: String,
    pub message: String,
}

/// The script of a conversation beside the main one: of a subagent, or of a hook that asks a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptedSubagent {
    /// A substring of its task, or of the hook's prompt, that identifies it.
    pub prompt: String,
    pub turns: Vec<ScriptedTurn>,
}
