//! The lines of an agent's client that a runner drives, and the protocol to talk to it. Each host parses and writes its
//! own lines.
//!
//! Text in these types is cleaned and bounded, but not redacted.

use crate::HookReply;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::id::SessionId;

/// The parsers and writers of one host. Every written line ends with a line break.
#[derive(Debug)]
pub struct StreamProtocol {
    /// Never fails: an unknown line is [`StreamLine::Other`].
    pub parse_line: fn(&[u8]) -> StreamLine,
    /// Whether the line comes from the client at all.
    pub is_sign_of_life: fn(&[u8]) -> bool,
    /// The id of the callback at a stop of the main agent.
    pub stop_callback: &'static str,
    /// Starts the conversation and registers the callbacks. Takes the id of the request.
    pub open_conversation: fn(&str) -> Vec<u8>,
    /// A user message. If it has an id, the result lists it among the messages that it answers.
    pub user_message: fn(&str, Option<&str>) -> Vec<u8>,
    /// Answers the callback of this request.
    pub hook_answer: fn(&str, &HookReply) -> Vec<u8>,
    /// Answers a request that is not supported, with the reason.
    pub error_response: fn(&str, &str) -> Vec<u8>,
    pub permission_response: fn(&str, PermissionReply<'_>) -> Vec<u8>,
    pub context_usage_request: fn(&str) -> Vec<u8>,
    pub parse_context_usage: fn(&str) -> Option<ContextUsage>,
    pub session_cost_request: fn(&str) -> Vec<u8>,
    /// The session cost in micro-USD.
    pub parse_session_cost: fn(&str) -> Option<u64>,
}

/// One line of the client's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamLine {
    /// Sent before every turn, not only the first.
    Init(StreamInit),
    Assistant(StreamAssistant),
    ToolResults {
        /// The tool call that started the subagent.
        parent: Option<String>,
        results: Vec<StreamToolResult>,
    },
    Result(Box<TurnResult>),
    RateLimit(RateLimitEvent),
    /// The client retries an API request by itself.
    Retry(ApiRetry),
    /// A hook callback. `input` is the JSON that a command hook would read from stdin.
    Callback {
        request: String,
        callback: String,
        input: String,
    },
    /// The client asks a person for permission.
    Permission(ToolPermissionRequest),
    /// Any other request that waits for an answer.
    Asked {
        request: String,
        subtype: String,
    },
    /// The client no longer waits for the answer.
    Cancelled {
        request: String,
    },
    /// The answer to one of our requests.
    Answered {
        request: String,
        answer: Result<String, String>,
    },
    Compacted {
        before: Option<u64>,
        after: Option<u64>,
    },
    /// The client ends the turn although it was held.
    Overridden {
        text: String,
    },
    /// The client rejected one of our hook answers.
    HookFailed {
        text: String,
    },
    /// Sent only if the environment enables it.
    State(ClientState),
    /// All background tasks, sent whenever the list changes.
    Background(Vec<StreamTask>),
    Task(StreamTaskEvent),
    /// The client switched to another model by itself.
    Fallback {
        from: String,
        to: String,
    },
    /// A tool call was denied without asking a person.
    Denied {
        tool: String,
        text: String,
    },
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamInit {
    pub session: Option<SessionId>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub version: Option<String>,
    pub tools: usize,
}

/// An API request that the client retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRetry {
    pub attempt: Option<u64>,
    pub of: Option<u64>,
    pub delay_ms: Option<u64>,
    /// `None` if there was no answer at all.
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// A tool call that needs a person's permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPermissionRequest {
    pub request: String,
    pub tool: String,
    pub gist: ToolGist,
    /// Has to be returned when the call is allowed.
    pub input: String,
    /// The question to the person, if the agent asks one.
    pub question: Option<String>,
}

/// The client's own state, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    Running,
    Idle,
    RequiresAction,
}

/// A background task of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTask {
    pub id: String,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamTaskEvent {
    Started { id: String, what: String, place: TaskPlacement },
    Ended { id: String, status: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlacement {
    Foreground,
    Background,
}

/// A message of the agent. The client usually writes one line per content block; lines of one message share its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamAssistant {
    /// The tool call that started the subagent; `None` for the agent itself.
    pub parent: Option<String>,
    pub message: Option<String>,
    /// `None` for messages that the client itself generated.
    pub model: Option<String>,
    pub blocks: Vec<AssistantBlock>,
    /// Input tokens are final, output tokens are not: those are reported with the result.
    pub usage: Option<TokenUsage>,
    /// Set if the message is a known error and not an answer.
    pub error: Option<TurnError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssistantBlock {
    Text(String),
    Call(AssistantToolCall),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantToolCall {
    pub id: Option<String>,
    pub name: String,
    pub gist: ToolGist,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub output: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamToolResult {
    pub call: Option<String>,
    pub is_error: bool,
    pub text: String,
}

impl TokenUsage {
    /// Input tokens, cached ones included: the context in use.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_creation)
    }

    pub fn total(&self) -> u64 {
        self.context().saturating_add(self.output)
    }
}

/// One `result` line. A message may have several: each background task reports in a turn of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnResult {
    pub session: Option<SessionId>,
    pub outcome: TurnOutcome,
    /// The agent's last text, if any.
    pub text: Option<String>,
    pub errors: Vec<String>,
    pub num_turns: Option<u64>,
    pub duration_ms: Option<u64>,
    /// Total of the session so far, subagents included. Restarts at 0 in the process after one that was killed.
    pub micro_usd: Option<u64>,
    /// Tokens of this turn, without subagents.
    pub usage: Option<TokenUsage>,
    /// Totals of the session so far, by model.
    pub models: Vec<StreamModelUsage>,
    /// Since the last result of this process, subagents included, by model.
    pub since: Vec<StreamModelUsage>,
    /// Names of the tools that were denied.
    pub denied: Vec<String>,
    /// Index of the result within this process.
    pub index: Option<u64>,
    /// What started the turn if it was not a message, such as `task-notification`.
    pub origin: Option<String>,
    /// Ids of the messages that this answers, if they had any.
    pub answers: Vec<String>,
}

/// How a turn ended, as reported by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The agent stopped. This does not say whether its stop was allowed.
    Completed,
    MaxTurns,
    /// The budget that the process was given is spent.
    Budget,
    Interrupted,
    ContextFull,
    /// Another hook ended the turn.
    HookStopped,
    /// The session to resume does not exist.
    NoSession,
    /// The model refused.
    Refused,
    Failed {
        error: Option<TurnError>,
        /// A request to the model failed.
        is_request_error: bool,
        /// The client's words for the kind of failure.
        label: String,
    },
}

impl Default for TurnOutcome {
    fn default() -> Self {
        Self::Failed { error: None, is_request_error: false, label: String::new() }
    }
}

/// Why a turn failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnError {
    RateLimit,
    Overloaded,
    Network,
    Server,
    Auth,
    Billing,
    /// The requested model or address does not exist.
    NotFound,
    ContextFull,
    OutputLimit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamModelUsage {
    pub model: String,
    pub usage: TokenUsage,
    pub micro_usd: u64,
    pub window: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitEvent {
    pub status: RateLimitStatus,
    pub resets_at_ms: Option<u64>,
    /// `five_hour`, `seven_day` …
    pub kind: Option<String>,
    /// Use of the window, in thousandths.
    pub used_permille: Option<u16>,
    /// Extra usage is paid separately, so a rejected window does not stop the agent.
    pub is_overage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimitStatus {
    Allowed,
    Warning,
    Rejected,
    Unknown,
}

impl TurnResult {
    /// Whether no request was sent to a model.
    pub fn is_idle(&self) -> bool {
        self.usage.unwrap_or_default().total() == 0
            && self.since.iter().all(StreamModelUsage::is_zero)
    }

    /// Tokens since the last result, subagents included.
    pub fn since_tokens(&self) -> u64 {
        self.since.iter().fold(0, |sum: u64, model| sum.saturating_add(model.usage.total()))
    }
}

impl StreamModelUsage {
    fn is_zero(&self) -> bool {
        self.usage.total() == 0 && self.micro_usd == 0
    }
}

/// The part of a tool call that a person wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolGist {
    Command(String),
    Path(String),
    Text(String),
}

/// The answer to a permission request.
#[derive(Clone, Copy, Debug)]
pub enum PermissionReply<'a> {
    /// Allows the call with its original input.
    Allow {
        input: &'a str,
    },
    Deny {
        message: &'a str,
    },
}

/// The answer to `get_context_usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextUsage {
    pub tokens: u64,
    pub most: u64,
    pub permille: u16,
}

/// The share of the context window in use, in thousandths, capped at 1000.
pub fn usage_permille(tokens: u64, most: u64) -> u16 {
    let permille = u128::from(tokens) * 1000 / u128::from(most.max(1));
    u16::try_from(permille.min(1000)).unwrap_or(1000)
}

impl RateLimitEvent {
    /// Whether the provider rejects all requests until the reset.
    pub fn is_in_force(&self) -> bool {
        self.status == RateLimitStatus::Rejected && !self.is_overage
    }
}
