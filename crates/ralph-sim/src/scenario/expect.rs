//! What a scenario says has to come of it.

use std::collections::BTreeMap;

/// The events that the simulator tells.
pub const EVENTS: [&str; 18] = [
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

/// The client's words for how a prompt ends.
pub const ENDINGS: [&str; 10] = [
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

/// How a run ends, or is left for a person.
pub(super) const STATUSES: [&str; 11] = [
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
pub(super) const TOLD: [&str; 19] = [
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

/// Whatever is not said may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// How each prompt ends.
    pub endings: Option<Vec<String>>,
    /// What the person is left with after each prompt.
    pub results: Option<Vec<String>>,
    /// How often `Stop` is told.
    pub stops: Option<u64>,
    /// How often the agent is held at a stop.
    pub blocks: Option<u64>,
    /// How often the model is asked.
    pub requests: Option<u64>,
    /// What the reason of each block contains, in order.
    pub reasons: Option<Vec<String>>,
    /// All events in order.
    pub events: Option<Vec<String>>,
    /// How the client's process ends.
    pub exit: Option<i32>,
    /// Files of the project and what they hold in the end.
    pub files: BTreeMap<String, String>,
    /// Commands, run by `sh` in the project when the client has ended, and what they say.
    pub says: BTreeMap<String, String>,
    /// Files of the project that are not there in the end.
    pub absent: Vec<String>,
    /// What the terminal shows in the end, from top to bottom. Blanks and breaks of lines count as one blank.
    pub screen: Vec<String>,
    /// How the run ends that a runner drove.
    pub status: Option<String>,
    /// How many iterations it was charged for.
    pub iterations: Option<u64>,
    /// How many sessions of the agent it had.
    pub sessions: Option<u64>,
    /// How often the runner tells an event, by its name.
    pub told: BTreeMap<String, u64>,
}
