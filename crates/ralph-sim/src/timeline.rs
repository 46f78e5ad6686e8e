//! The events of a played scenario, in order. The simulator and the driver of the real client both produce a timeline,
//! so that the two can be compared.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Called with each entry as it happens.
pub type TimelineWatcher<'a> = dyn FnMut(&TimelineEntry) + 'a;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TimelineEntry {
    /// The user sent a prompt, or the client sent one on their behalf (the notification of a background task).
    Prompt { text: String },
    /// The client sent a request to the model.
    Request(TimelineRequest),
    /// The model answered.
    Reply(TimelineReply),
    /// An event fired, and its hooks answered.
    Hook(TimelineHook),
    /// A tool call ended.
    Tool(TimelineTool),
    /// The client showed the user a message.
    Notice { text: String },
    /// The prompt was finished or given up: the client is idle again.
    Ending(TimelineEnding),
    /// An event that a runner printed, unchanged from the output of `ralph run --json`.
    Run {
        /// Index of the runner; 0 is the first.
        runner: usize,
        told: Value,
    },
    /// The process of the client, or of the runner that drives it, exited.
    Exit { code: i32 },
}

/// `None` for the main conversation, otherwise the type of a subagent, or `hook-prompt` and `hook-agent` for a model
/// that answers a hook.
pub type AgentLane = Option<String>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRequest {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: AgentLane,
    /// The messages added since the previous request, without the client's own standing context.
    pub messages: Vec<TimelineMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineMessage {
    pub role: MessageRole,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    User,
    System,
    /// The result of a tool call.
    Tool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineReply {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: AgentLane,
    pub text: String,
    /// Names of the tools that the reply calls.
    pub tools: Vec<String>,
    /// An API error instead of an answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineHook {
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: AgentLane,
    /// The JSON that its hooks read on standard input.
    pub input: Value,
    /// In the order in which they finished.
    pub handlers: Vec<HandlerResult>,
    pub effect: HookEffect,
}

/// One hook and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandlerResult {
    pub command: String,
    /// The settings that registered it: `user`, `project`, `local`, `flag`, or `plugin NAME`.
    pub source: String,
    /// `exit 2`, `signal 9`, `timeout`, `not started: …`, `killed its parent`; of a model `answered`, `failed`,
    /// `no verdict`
    pub ended: String,
    pub stdout: String,
    pub stderr: String,
    /// The client's label for the result: `success`, `error`, `cancelled`.
    pub outcome: String,
    /// `prompt` or `agent` if a model answered; then `command` is the prompt and `stdout` the answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evaluator: Option<String>,
    /// A remark for the user, for example why the client ignored the answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remark: Option<String>,
    pub ms: u64,
}

/// The combined effect of all hook answers to one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEffect {
    /// No effect: the client proceeds.
    Allowed,
    /// At a stop the agent has to continue; elsewhere a tool call is denied, a prompt is dropped, or a task stays open.
    Blocked { reasons: Vec<String> },
    /// `continue: false`
    Stopped { reason: Option<String> },
    /// The hooks blocked, but the client's cap on consecutive blocks was exceeded.
    Overridden { reasons: Vec<String> },
    /// Only context was added. At a stop this makes the agent continue.
    Continued { context: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineTool {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: AgentLane,
    pub name: String,
    pub input: Value,
    pub result: String,
    pub is_error: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineEnding {
    /// The client's word for it: `completed`, `stop_hook_prevented`, `hook_stopped`, `api_error`, `max_turns`,
    /// `aborted_streaming`, `aborted_tools`, `prompt_blocked`.
    pub reason: String,
    /// The final text shown to the user.
    pub result: String,
    pub is_error: bool,
}
