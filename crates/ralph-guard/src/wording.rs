//! What the agent is told when a call is denied.

use super::{Denied, What};
use alloc::format;
use alloc::string::String;
use ralph_core::text;

/// Enough for a path; whatever is longer says no more.
const LONGEST: usize = 120;

/// `how` is a tool, command or operator of ours to name, `on` the agent's text.
pub(super) fn denied(what: What, how: &str, on: &str) -> Denied {
    let how = shown(how);
    let on = shown(on);
    let subject = if on.is_empty() { format!("`{how}`") } else { format!("`{how}` on `{on}`") };
    let (why, instead) = because(what);
    Denied { what, reason: format!("ralph: {subject} is denied: {why}.\n{instead}") }
}

fn because(what: What) -> (&'static str, &'static str) {
    match what {
        What::Home => (
            "ralph's own files are there, and only ralph writes them",
            "Its logs may be read. A run ends by what its gates find, not by these files",
        ),
        What::Key => (
            "the key seals what ralph measured, and nobody else reads it",
            "Nothing that the gates ask for needs it. `ralph why` explains every decision",
        ),
        What::Settings => (
            "these settings decide whether ralph is called, and a run depends on them",
            "If they have to change, run `ralph ask \"…\"`: a person decides that",
        ),
        What::Policy => (
            "the policy is sealed while a run is held to it",
            "Meet the gates as they are. If one of them is wrong, run `ralph ask \"…\"` and say why",
        ),
        What::Protected => (
            "the policy protects this path while the run lasts",
            "Change the code, not what it is measured by. If it has to change, run `ralph ask \"…\"`",
        ),
        What::GitHooks => (
            "git's hooks are part of what this work has to pass",
            "Let the hooks run and mend what they find. If one is broken, run `ralph ask \"…\"`",
        ),
        What::Hidden => (
            "it hides changes from git, and ralph looks at all of them",
            "Leave the index to show what there is, or put the file back with `git restore`",
        ),
        What::Refs => (
            "the checkpoints of this run are kept there",
            "They may be read. `ralph checkpoint list` shows them",
        ),
        What::Loosening => (
            "only a person may loosen what holds this session",
            "Go on with the work. If only a person can decide, run `ralph ask \"…\"`; to wait for something, `ralph wait`; if a requirement is wrong, `ralph dispute`",
        ),
        What::Channel => (
            "this command is a person's to type",
            "If you think that it is needed, run `ralph ask \"…\"` and say why",
        ),
    }
}

/// The agent's text in backticks: clean, short, without a backtick that would end them.
fn shown(foreign: &str) -> String {
    text::line(foreign, LONGEST).replace('`', "'")
}
