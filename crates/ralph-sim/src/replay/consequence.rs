//! What the client does with the answers to one event, and who reads what of them.

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

/// What the model and the person read, besides what they would anyway.
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
        // Who wants to stop and is told something goes on.
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
        // The feedback is in the transcript, and nobody is asked with it.
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
                .push("(asked whether the call may run; denied where nobody is there)".to_owned());
            vec![denial]
        }
        reasons => reasons,
    };
    (Effect::Blocked { reasons }, words)
}

/// To this event a block means the same as `continue: false`.
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

/// What hooks print is added to what the summary is asked for with.
fn before_compaction(told: &Told) -> (Effect, Words) {
    let person = told.refused_compaction().into_iter().collect();
    (objections(told), Words { reads: Vec::new(), person })
}

/// Outside a team the client does not ask whether to go on.
fn at_task(told: &Told) -> (Effect, Words) {
    let reads = told.objection().map(|text| Said { role: Role::Tool, text });
    let words = Words { reads: reads.into_iter().collect(), person: Vec::new() };
    let effect = match told.reasons() {
        reasons if reasons.is_empty() => Effect::Allowed,
        reasons => Effect::Blocked { reasons },
    };
    (effect, words)
}

/// Context that goes along with what the model is told anyway: a prompt, the result of a tool.
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
