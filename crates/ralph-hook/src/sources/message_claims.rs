//! Requirements that the agent meets by what it writes in its messages: a promise, and a task list.

use super::required_correctness;
use crate::transcript_reader::TranscriptSnapshot;
use ralph_core::claim;
use ralph_core::event::StopEvent;
use ralph_core::requirement::{
    EvidenceKind, PROMISE_REQUIREMENT, Requirement, RequirementFailure, RequirementStatus,
};
use ralph_core::source::checklist;
use ralph_core::text;

pub(super) fn promise_requirement(promise: &str, stop: &StopEvent) -> Requirement {
    let kept =
        stop.last_message.as_deref().is_some_and(|message| claim::is_promised(message, promise));
    let standing = if kept {
        RequirementStatus::Met(EvidenceKind::Claimed)
    } else {
        RequirementStatus::Unmet(RequirementFailure::new(
            "the last message does not give the promise".to_string(),
        ))
    };
    let promise = text::clean_line(promise, 200);
    let next = format!(
        "When, and only when, the goal is really reached, end your message with the line <promise>{promise}</promise>"
    );
    required_correctness(PROMISE_REQUIREMENT.to_string(), standing, next)
}

pub(super) fn checklist_requirement(
    stop: &StopEvent,
    snapshot: &TranscriptSnapshot,
) -> Requirement {
    let written = stop.last_message.as_deref().and_then(checklist::from_markdown);
    let known = snapshot.observed.as_ref().and_then(|observed| observed.checklist.clone());
    if let Some(list) = written.or(known) {
        return list.requirement();
    }
    let why = "no task list was found in the conversation".to_string();
    let next = "Write the task list as `- [ ]` lines and tick what is done".to_string();
    required_correctness(
        "checklist".to_string(),
        RequirementStatus::Unmet(RequirementFailure::new(why)),
        next,
    )
}
