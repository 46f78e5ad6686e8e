//! Answers, in the reason for a hold, what the agent's last message expected to happen: a completion marker that does not
//! end the run, or a question that does not reach the person.

use super::{HeldStop, MAX_NAME_CHARS, open_requirements, safe_line, safe_name};
use crate::claim::{self, CompletionMarker};
use crate::hold::StopHold;
use crate::message_question;
use crate::record::{RunOrigin, RunRecord};
use crate::redact::Redactor;
use crate::requirement::{GOAL_REQUIREMENT, PROMISE_REQUIREMENT, Requirement, RequirementStatus};
use alloc::format;
use alloc::string::{String, ToString};

/// The notes about the last message, one line each; empty if there is nothing to answer.
pub(super) fn message_notes(held: &HeldStop<'_>, redactor: &Redactor) -> String {
    let (StopHold::Run { run, .. }, Some(message)) = (held.hold, held.last_message) else {
        return String::new();
    };
    let marker = describe_marker(message, run, held.requirements, redactor);
    // A session without a run has no run that could wait for the person.
    let can_ask = run.origin != RunOrigin::Session;
    let question = (can_ask && message_question::asks_person(message)).then_some(
        "Your message asks a question, but a held stop does not reach the person. \
         If only a person can answer it, run `ralph ask \"…\"` and stop",
    );
    let notes = [marker, question.map(ToString::to_string)];
    let mut out = String::new();
    for note in notes.into_iter().flatten() {
        out.push_str(&note);
        out.push('\n');
    }
    out
}

/// What was seen, and why the run goes on all the same.
fn describe_marker(
    message: &str,
    run: &RunRecord,
    requirements: &[Requirement],
    redactor: &Redactor,
) -> Option<String> {
    let found = claim::inspect_marker(message)?;
    let seen = match &found {
        Ok(marker) => marker.describe(),
        Err(ignored) => ignored.marker.describe(),
    };
    let seen = safe_line(&seen, MAX_NAME_CHARS, redactor).replace('`', "'");
    let is_open = |name: &str| open_requirements(requirements).any(|one| one.name == name);
    let waits_for_marker = is_open(PROMISE_REQUIREMENT) || is_open(GOAL_REQUIREMENT);
    Some(match (found, &run.promise) {
        (Err(ignored), _) if waits_for_marker => {
            format!("`{seen}` was seen, but it does not count: {}", ignored.why)
        }
        (Ok(_), Some(promise)) if is_open(PROMISE_REQUIREMENT) => {
            let promise = safe_line(promise, MAX_NAME_CHARS, redactor);
            format!(
                "`{seen}` was seen, but it does not count: the promise of this run is `{promise}`"
            )
        }
        (Ok(CompletionMarker::Promise(_)), None) if is_open(GOAL_REQUIREMENT) => {
            format!("`{seen}` was seen, but it does not say that all of the goal is done")
        }
        (Ok(_) | Err(_), _) => {
            let open = describe_open(requirements, redactor)?;
            format!("`{seen}` was seen; it starts a check and ends nothing: {open}")
        }
    })
}

/// `tests is not met (and 2 more)`
fn describe_open(requirements: &[Requirement], redactor: &Redactor) -> Option<String> {
    let first = open_requirements(requirements).next()?;
    let standing = match &first.status {
        RequirementStatus::Unknown(_) => "has no result",
        RequirementStatus::Pending(_) => "is pending",
        RequirementStatus::Unmet(_) | RequirementStatus::Met(_) => "is not met",
    };
    let more = match open_requirements(requirements).count() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("`{}` {standing}{more}", safe_name(first, redactor).replace('`', "'")))
}
