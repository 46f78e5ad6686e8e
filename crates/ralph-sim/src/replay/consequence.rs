//! Derives what the client does with the hook answers to one event, and which messages reach the model and the user.

use super::{HookPayload, ReplayDecision};
use crate::client_rules::event_outcome::EventOutcome;
use crate::simulator::pending_messages::PendingMessages;
use crate::timeline::{HookEffect, MessageRole, TimelineMessage};

pub(super) struct ReplayConsequence {
    pub(super) decision: ReplayDecision,
    pub(super) effect: HookEffect,
    pub(super) reads: Vec<TimelineMessage>,
    pub(super) person: Vec<String>,
}

/// The messages that reach the model and the user because of the hooks.
#[derive(Default)]
struct ReplayMessages {
    reads: Vec<TimelineMessage>,
    person: Vec<String>,
}

pub(super) fn derive_consequence(
    payload: &HookPayload,
    outcome: &EventOutcome,
) -> ReplayConsequence {
    let event = payload.event;
    let (effect, words) = match event {
        event if is_stop(event) => stop_consequence(outcome),
        "PreToolUse" => pre_tool_consequence(outcome),
        "PostToolUse" | "PostToolUseFailure" => {
            (outcome.effect(), accompanying_context(outcome.side_texts()))
        }
        "PostToolBatch" => tool_batch_consequence(outcome),
        "UserPromptSubmit" | "UserPromptExpansion" => prompt_consequence(payload, outcome),
        "SessionStart" | "SubagentStart" => {
            (outcome.effect(), accompanying_context(outcome.context_texts()))
        }
        "PreCompact" => compaction_consequence(outcome),
        "TaskCreated" | "TaskCompleted" => task_consequence(outcome),
        _ => (outcome.effect(), ReplayMessages::default()),
    };
    let ReplayMessages { reads, mut person } = words;
    person.extend(outcome.system_messages());
    ReplayConsequence { decision: decision(event, &effect), effect, reads, person }
}

fn decision(event: &str, effect: &HookEffect) -> ReplayDecision {
    match effect {
        HookEffect::Blocked { .. } | HookEffect::Overridden { .. } => ReplayDecision::Blocked,
        HookEffect::Stopped { .. } => ReplayDecision::Stopped,
        // Context at a stop makes the agent continue.
        HookEffect::Continued { .. } if is_stop(event) => ReplayDecision::Blocked,
        HookEffect::Continued { .. } | HookEffect::Allowed => ReplayDecision::Allowed,
    }
}

fn is_stop(event: &str) -> bool {
    matches!(event, "Stop" | "SubagentStop" | "TeammateIdle")
}

fn stop_consequence(outcome: &EventOutcome) -> (HookEffect, ReplayMessages) {
    let effect = outcome.effect();
    if let HookEffect::Stopped { .. } = effect {
        // The feedback is written to the transcript, but no request to the model follows.
        return (effect, ReplayMessages::default());
    }
    let mut pending = PendingMessages::default();
    for text in outcome.feedback_texts() {
        pending.add_user_text(text);
    }
    for text in outcome.side_texts() {
        pending.add_context(text);
    }
    (effect, ReplayMessages { reads: pending.take(), person: Vec::new() })
}

fn pre_tool_consequence(outcome: &EventOutcome) -> (HookEffect, ReplayMessages) {
    let Some(denial) = outcome.denial_text(outcome.name()) else {
        return (outcome.effect(), accompanying_context(outcome.side_texts()));
    };
    let mut words = accompanying_context(outcome.side_texts());
    words.reads.insert(0, TimelineMessage { role: MessageRole::Tool, text: denial.clone() });
    let reasons = match outcome.reasons() {
        reasons if reasons.is_empty() => {
            words
                .person
                .push("(asked whether to allow the call; denied in a headless session)".to_owned());
            vec![denial]
        }
        reasons => reasons,
    };
    (HookEffect::Blocked { reasons }, words)
}

/// A block of `PostToolBatch` has the same effect as `continue: false`.
fn tool_batch_consequence(outcome: &EventOutcome) -> (HookEffect, ReplayMessages) {
    match outcome.turn_end_reason() {
        Some(reason) => (HookEffect::Stopped { reason: Some(reason) }, ReplayMessages::default()),
        None => (outcome.effect(), accompanying_context(outcome.side_texts())),
    }
}

fn prompt_consequence(
    payload: &HookPayload,
    outcome: &EventOutcome,
) -> (HookEffect, ReplayMessages) {
    let words = match outcome.prompt_refusal(payload.text("prompt").unwrap_or_default()) {
        Some(text) => ReplayMessages { reads: Vec::new(), person: vec![text] },
        None => accompanying_context(outcome.context_texts()),
    };
    (outcome.effect(), words)
}

/// The output of the hooks is added to the request for the summary, which the replay does not show.
fn compaction_consequence(outcome: &EventOutcome) -> (HookEffect, ReplayMessages) {
    let person = outcome.compaction_refusal().into_iter().collect();
    (outcome.effect_without_stop(), ReplayMessages { reads: Vec::new(), person })
}

/// Outside a team the client ignores `continue: false` at this event.
fn task_consequence(outcome: &EventOutcome) -> (HookEffect, ReplayMessages) {
    let reads =
        outcome.task_objection().map(|text| TimelineMessage { role: MessageRole::Tool, text });
    let words = ReplayMessages { reads: reads.into_iter().collect(), person: Vec::new() };
    (outcome.block_effect(), words)
}

/// Context that accompanies a message the model receives anyway: a prompt or a tool result.
fn accompanying_context(contexts: Vec<String>) -> ReplayMessages {
    let mut pending = PendingMessages::default();
    pending.add_tool_result(String::new());
    for context in contexts {
        pending.add_context(context);
    }
    let mut reads = pending.take();
    reads.retain(|said| said.role != MessageRole::Tool);
    ReplayMessages { reads, person: Vec::new() }
}
