//! Derives what the client does with the hook answers to one event, and which messages reach the model and the user.

use super::{Decision, Payload};
use crate::query::pending::Pending;
use crate::query::told::Told;
use crate::timeline::{Effect, Role, Said};

pub(super) struct Consequence {
    pub(super) decision: Decision,
    pub(super) effect: Effect,
    pub(super) reads: Vec<Said>,
    pub(super) person: Vec<String>,
}

/// The messages that reach the model and the user because of the hooks.
#[derive(Default)]
struct Words {
    reads: Vec<Said>,
    person: Vec<String>,
}

pub(super) fn of(payload: &Payload, told: &Told) -> Consequence {
    let event = payload.event;
    let (effect, words) = match event {
        event if is_stop(event) => at_stop(told),
        "PreToolUse" => before_call(told),
        "PostToolUse" | "PostToolUseFailure" => (usual(told), beside(told.asides())),
        "PostToolBatch" => after_calls(told),
        "UserPromptSubmit" | "UserPromptExpansion" => at_prompt(payload, told),
        "SessionStart" | "SubagentStart" => (usual(told), beside(told.additions())),
        "PreCompact" => before_compaction(told),
        "TaskCreated" | "TaskCompleted" => at_task(told),
        _ => (usual(told), Words::default()),
    };
    let Words { reads, mut person } = words;
    person.extend(told.messages());
    Consequence { decision: decision(event, &effect), effect, reads, person }
}

fn decision(event: &str, effect: &Effect) -> Decision {
    match effect {
        Effect::Blocked { .. } | Effect::Overridden { .. } => Decision::Blocked,
        Effect::Stopped { .. } => Decision::Stopped,
        // Context at a stop makes the agent continue.
        Effect::Continued { .. } if is_stop(event) => Decision::Blocked,
        Effect::Continued { .. } | Effect::Allowed => Decision::Allowed,
    }
}

fn is_stop(event: &str) -> bool {
    matches!(event, "Stop" | "SubagentStop" | "TeammateIdle")
}

fn usual(told: &Told) -> Effect {
    match told.stop() {
        Some(stop) => Effect::Stopped { reason: stop.reason.clone() },
        None => objections(told),
    }
}

fn objections(told: &Told) -> Effect {
    match (told.reasons(), told.contexts()) {
        (reasons, _) if !reasons.is_empty() => Effect::Blocked { reasons },
        (_, context) if !context.is_empty() => Effect::Continued { context },
        _ => Effect::Allowed,
    }
}

fn at_stop(told: &Told) -> (Effect, Words) {
    let effect = usual(told);
    if let Effect::Stopped { .. } = effect {
        // The feedback is written to the transcript, but no request to the model follows.
        return (effect, Words::default());
    }
    let mut pending = Pending::default();
    for text in told.feedback() {
        pending.text(text);
    }
    for text in told.asides() {
        pending.context(text);
    }
    (effect, Words { reads: pending.take(), person: Vec::new() })
}

fn before_call(told: &Told) -> (Effect, Words) {
    let Some(denial) = told.denial(told.name()) else {
        return (usual(told), beside(told.asides()));
    };
    let mut words = beside(told.asides());
    words.reads.insert(0, Said { role: Role::Tool, text: denial.clone() });
    let reasons = match told.reasons() {
        reasons if reasons.is_empty() => {
            words
                .person
                .push("(asked whether to allow the call; denied in a headless session)".to_owned());
            vec![denial]
        }
        reasons => reasons,
    };
    (Effect::Blocked { reasons }, words)
}

/// A block of `PostToolBatch` has the same effect as `continue: false`.
fn after_calls(told: &Told) -> (Effect, Words) {
    match told.end_of_turn() {
        Some(reason) => (Effect::Stopped { reason: Some(reason) }, Words::default()),
        None => (usual(told), beside(told.asides())),
    }
}

fn at_prompt(payload: &Payload, told: &Told) -> (Effect, Words) {
    let words = match told.refused_prompt(payload.text("prompt").unwrap_or_default()) {
        Some(text) => Words { reads: Vec::new(), person: vec![text] },
        None => beside(told.additions()),
    };
    (usual(told), words)
}

/// The output of the hooks is added to the request for the summary, which the replay does not show.
fn before_compaction(told: &Told) -> (Effect, Words) {
    let person = told.refused_compaction().into_iter().collect();
    (objections(told), Words { reads: Vec::new(), person })
}

/// Outside a team the client ignores `continue: false` at this event.
fn at_task(told: &Told) -> (Effect, Words) {
    let reads = told.objection().map(|text| Said { role: Role::Tool, text });
    let words = Words { reads: reads.into_iter().collect(), person: Vec::new() };
    let effect = match told.reasons() {
        reasons if reasons.is_empty() => Effect::Allowed,
        reasons => Effect::Blocked { reasons },
    };
    (effect, words)
}

/// Context that accompanies a message the model receives anyway: a prompt or a tool result.
fn beside(contexts: Vec<String>) -> Words {
    let mut pending = Pending::default();
    pending.tool(String::new());
    for context in contexts {
        pending.context(context);
    }
    let mut reads = pending.take();
    reads.retain(|said| said.role != Role::Tool);
    Words { reads, person: Vec::new() }
}
