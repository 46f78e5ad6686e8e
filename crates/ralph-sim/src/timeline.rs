//! What happened, in order. The simulator and the driver of a real client both tell it, so that they can be compared.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whoever looks on while it happens.
pub type Watcher<'a> = dyn FnMut(&Entry) + 'a;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The person said something, or the client did in their name (a notification of a background task).
    Prompt { text: String },
    /// The model was asked.
    Request(Request),
    /// The model answered.
    Reply(Reply),
    /// An event was told to its hooks, and these are their answers.
    Hook(Hook),
    /// A tool call ended.
    Tool(Tool),
    /// The client told the person something.
    Notice { text: String },
    /// The client is idle again, or gave up.
    Ending(Ending),
    /// A runner told something: an event of `ralph run --json`, as it stands.
    Run {
        /// Which of several: 0 is the first.
        runner: usize,
        told: Value,
    },
    /// The client's process ended, or that of whoever drives it.
    Exit { code: i32 },
}

/// `None` is the main conversation; otherwise the type of a subagent.
pub type Lane = Option<String>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Lane,
    /// What is new in it since the request before, without the client's own standing context.
    pub messages: Vec<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub role: Role,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    System,
    /// The answer of a tool.
    Tool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Lane,
    pub text: String,
    /// The names of the tools it calls.
    pub tools: Vec<String>,
    /// An API error instead of an answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Lane,
    /// What its hooks read on standard input.
    pub input: Value,
    /// In the order in which they ended.
    pub handlers: Vec<Handled>,
    pub effect: Effect,
}

/// One hook and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handled {
    pub command: String,
    /// Which settings it comes from: `user`, `project`, `local`, `flag`, or `plugin NAME`.
    pub source: String,
    /// `exit 2`, `signal 9`, `timeout`, `not started: …`, `killed its parent`
    pub ended: String,
    pub stdout: String,
    pub stderr: String,
    /// What the client made of it: `success`, `error`, `cancelled`.
    pub outcome: String,
    /// Why its answer was not taken for what it meant to be, and the like.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remark: Option<String>,
    pub ms: u64,
}

/// What all the answers to one event did together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: the client goes on.
    Allowed,
    /// The agent has to go on, for these reasons; a tool call is denied; a prompt is dropped; a task stays open.
    Blocked { reasons: Vec<String> },
    /// `continue: false`
    Stopped { reason: Option<String> },
    /// The hooks blocked once more than the client lets them.
    Overridden { reasons: Vec<String> },
    /// Only context was added, which at a stop means that the agent goes on.
    Continued { context: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Lane,
    pub name: String,
    pub input: Value,
    pub result: String,
    pub is_error: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The client's word for it: `completed`, `stop_hook_prevented`, `hook_stopped`, `api_error`, `max_turns`,
    /// `aborted_streaming`, `aborted_tools`, `prompt_blocked`.
    pub reason: String,
    /// What the person is left with.
    pub result: String,
    pub is_error: bool,
}
