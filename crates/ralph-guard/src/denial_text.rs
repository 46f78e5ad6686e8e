//! The reasons that an agent gets for denied calls.

use super::{DeniedCall, GuardTarget};
use alloc::format;
use alloc::string::String;
use ralph_core::text;

/// Longer paths and commands are shortened.
const MAX_QUOTED_CHARS: usize = 120;

/// `how` is the tool, command or operator; `on` is text from the agent, possibly empty.
pub(super) fn deny(what: GuardTarget, how: &str, on: &str) -> DeniedCall {
    let how = quote_safely(how);
    let on = quote_safely(on);
    let subject = if on.is_empty() { format!("`{how}`") } else { format!("`{how}` on `{on}`") };
    let (why, instead) = explain_target(what);
    DeniedCall { target: what, reason: format!("ralph: {subject} is denied: {why}.\n{instead}") }
}

fn explain_target(what: GuardTarget) -> (&'static str, &'static str) {
    match what {
        GuardTarget::Home => (
            "it contains ralph's own files, which only ralph may write",
            "You may read its logs. The gates decide how a run ends, not these files",
        ),
        GuardTarget::Key => (
            "this key seals or signs what ralph measured, and only ralph may read it",
            "No gate requires it. `ralph why` explains every decision",
        ),
        GuardTarget::Settings => (
            "these settings control whether ralph is called, and the run depends on them",
            "If they must change, run `ralph ask \"…\"`: a person decides",
        ),
        GuardTarget::Policy => (
            "the policy is sealed during a run",
            "Satisfy the gates as they are. If one is wrong, run `ralph ask \"…\"` and explain why",
        ),
        GuardTarget::Protected => (
            "the policy protects this path during the run",
            "Change the code, not the files that measure it. If this file must change, run `ralph ask \"…\"`",
        ),
        GuardTarget::GitHooks => (
            "the work must pass git's hooks",
            "Let the hooks run and fix what they report. If one is broken, run `ralph ask \"…\"`",
        ),
        GuardTarget::HiddenChanges => (
            "it hides changes from git, and ralph checks all changes",
            "Leave the index flags alone, or restore the file with `git restore`",
        ),
        GuardTarget::CheckpointRefs => (
            "the checkpoints of this run are stored there",
            "You may read them. `ralph list checkpoints` shows them",
        ),
        GuardTarget::Loosening => (
            "only a person may loosen ralph's hold on this session",
            "Continue the work. If only a person can decide, run `ralph ask \"…\"`; to wait for something, `ralph wait`; if a requirement is wrong, `ralph dispute`",
        ),
        GuardTarget::PersonCommand => (
            "only a person may run this command",
            "If you think it is needed, run `ralph ask \"…\"` and explain why",
        ),
    }
}

/// Text from the agent, safe to show in backticks: without control characters and backticks, and short.
fn quote_safely(foreign: &str) -> String {
    text::clean_line(foreign, MAX_QUOTED_CHARS).replace('`', "'")
}
