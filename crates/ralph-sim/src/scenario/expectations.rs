//! The expected outcome of a scenario, and the names that it may use.

use std::collections::BTreeMap;

/// The hook events that the simulator fires.
pub const SIMULATED_EVENTS: [&str; 18] = [
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "PreCompact",
    "PostCompact",
    "StopFailure",
    "SessionEnd",
    "Notification",
];

/// The client's names for how a prompt ends.
pub const PROMPT_ENDINGS: [&str; 10] = [
    "completed",
    "stop_hook_prevented",
    "hook_stopped",
    "tool_deferred",
    "prompt_blocked",
    "api_error",
    "image_error",
    "max_turns",
    "aborted_streaming",
    "aborted_tools",
];

/// Statuses of a run that has ended or was left to a person.
pub(super) const RUN_STATUSES: [&str; 11] = [
    "verified",
    "claimed",
    "exhausted",
    "stuck",
    "needs_human",
    "needs_review",
    "gate_broken",
    "rate_limited",
    "overridden",
    "crashed",
    "cancelled",
];

/// The events of `ralph run --json`.
pub(super) const RUNNER_EVENTS: [&str; 19] = [
    "prepared",
    "session",
    "said",
    "tool",
    "tool_failed",
    "gate_started",
    "gate_ended",
    "held",
    "let_go",
    "handed_over",
    "trouble",
    "waiting",
    "woke",
    "silent",
    "tried",
    "question",
    "standing",
    "note",
    "ended",
];

/// Expectations that are not set allow any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioExpectations {
    /// How each prompt ends.
    pub endings: Option<Vec<String>>,
    /// The final text of each prompt.
    pub results: Option<Vec<String>>,
    /// Number of `Stop` events.
    pub stops: Option<u64>,
    /// Number of stops at which the agent is held.
    pub blocks: Option<u64>,
    /// Number of requests to the model.
    pub requests: Option<u64>,
    /// A substring of the reason of each block, in order.
    pub reasons: Option<Vec<String>>,
    /// All events in order.
    pub events: Option<Vec<String>>,
    /// Exit code of the client, or of the first runner.
    pub exit: Option<i32>,
    /// Files of the project and their final content.
    pub files: BTreeMap<String, String>,
    /// Commands, run by `sh` in the project after the client has exited, and their expected output.
    pub says: BTreeMap<String, String>,
    /// Files that do not exist in the project at the end.
    pub absent: Vec<String>,
    /// Parts of the final terminal screen, from top to bottom. Any white space counts as one space.
    pub screen: Vec<String>,
    /// Final status of the first run that a runner drove.
    pub status: Option<String>,
    /// Number of charged iterations of that run.
    pub iterations: Option<u64>,
    /// Number of agent sessions of that run.
    pub sessions: Option<u64>,
    /// Parts of the output of `ralph plan`, and of a `ralph run` that started no run, in order. Any white space counts
    /// as one space.
    pub output: Vec<String>,
    /// Number of runner events, by name.
    pub told: BTreeMap<String, u64>,
}
