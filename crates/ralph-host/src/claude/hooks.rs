//! The hook events of Claude Code that ralph registers.

use super::sample_event;
use crate::hook_profile::{HookProfile, HookRegistration, HookTimeout};

const DEFAULT_TIMEOUT_SECS: u32 = 600;

pub(super) const HOOKS: HookProfile = HookProfile {
    events: &EVENTS,
    edit_event: "PostToolUse",
    edit_matcher: "Edit|Write|MultiEdit|NotebookEdit",
    stop_events: &["Stop", "SubagentStop"],
    default_timeout_secs: DEFAULT_TIMEOUT_SECS,
    default_block_cap: 8,
    sample_event: sample_event::sample_event,
    interactive_variables: &[("CLAUDE_CODE_ENTRYPOINT", "cli")],
};

const fn essential(
    event: &'static str,
    timeout: HookTimeout,
    consequence: &'static str,
) -> HookRegistration {
    HookRegistration { event, timeout, is_essential: true, consequence }
}

const fn optional(
    event: &'static str,
    timeout: HookTimeout,
    consequence: &'static str,
) -> HookRegistration {
    HookRegistration { event, timeout, is_essential: false, consequence }
}

const EVENTS: [HookRegistration; 13] = [
    essential("Stop", HookTimeout::Gates, "no session is held"),
    essential("SubagentStop", HookTimeout::Gates, "subagents are not checked when they stop"),
    optional("TaskCompleted", HookTimeout::Gates, "completed tasks are not checked"),
    optional("TeammateIdle", HookTimeout::Gates, "idle teammates are not checked"),
    optional("TaskCreated", HookTimeout::Seconds(30), "new tasks are not noticed"),
    essential("StopFailure", HookTimeout::Seconds(10), "API errors look like silence"),
    essential(
        "SessionStart",
        HookTimeout::Seconds(30),
        "a resumed or cleared session loses its run",
    ),
    optional("SessionEnd", HookTimeout::Seconds(5), "an ended session looks alive for a while"),
    essential(
        "UserPromptSubmit",
        HookTimeout::Seconds(DEFAULT_TIMEOUT_SECS),
        "typed prompts do not reach ralph",
    ),
    essential(
        "UserPromptExpansion",
        HookTimeout::Seconds(DEFAULT_TIMEOUT_SECS),
        "`/ralph:` commands do not reach ralph",
    ),
    optional(
        "PreToolUse",
        HookTimeout::Seconds(10),
        "ralph's files are not guarded against the agent",
    ),
    optional(
        "PreCompact",
        HookTimeout::Seconds(30),
        "nothing is saved before the conversation is compacted",
    ),
    optional(
        "PostCompact",
        HookTimeout::Seconds(30),
        "the agent forgets its goal after a compaction",
    ),
];
