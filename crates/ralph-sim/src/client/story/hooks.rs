//! Reconstructs the hooks of each event: which were started, their input and their answers.

use super::{Batch, Item, Story, What, word};
use crate::client::handlers::{self, Answering};
use crate::client::tap::Input;
use crate::timeline::{Effect, Entry, Handled, Hook};
use serde_json::Value;
use std::collections::BTreeMap;

/// `ended` of a hook that has not answered.
const NOT_YET: &str = "still running";
/// `ended` of a hook about which the client prints nothing.
pub(super) const NOT_TOLD: &str = "not reported";
/// How long before the line about its start a tap may have written its input, in nanoseconds.
const TAP_AHEAD: u64 = 200_000_000;

/// The client's lines about hook answers and the time of observation, by hook id.
pub(super) type Answers = BTreeMap<String, (u64, Value)>;

/// Hooks that were started together.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) event: String,
    /// Their ids and start times.
    pub(super) started: Vec<(String, u64)>,
}

impl Story {
    /// Splits hooks that were started together into events. Each event has one tap.
    pub(super) fn batches(&mut self, run: &Run, answers: &Answers) -> Vec<Item> {
        let inputs: Vec<Option<Input>> = run
            .started
            .iter()
            .map(|(id, _)| answers.get(id).and_then(|(_, line)| line["stdout"].as_str()))
            .map(|stdout| self.tap.named_by(stdout?))
            .collect();
        let count = inputs.iter().flatten().count().max(1);
        let size = (run.started.len() / count).max(1);
        let parts = run.started.chunks(size).zip(inputs.chunks(size));
        let mut items = Vec::new();
        for (started, inputs) in parts {
            let row = Row { event: &run.event, started, inputs };
            items.push(self.batch(&row, answers));
        }
        items
    }

    fn batch(&mut self, row: &Row<'_>, answers: &Answers) -> Item {
        let started_ns = row.started.first().map_or(0, |(_, at_ns)| *at_ns);
        let named = row.inputs.iter().flatten().next().cloned();
        let found =
            named.or_else(|| self.tap.unnamed(row.event, started_ns.saturating_sub(TAP_AHEAD)));
        let input = found.map(|input| input.value).unwrap_or_default();
        self.note(&input);
        let known = self.known(row.event, &input, Some(row.started.len()));
        let mut handled = Vec::new();
        let mut tapped_ns = started_ns;
        for (place, ((id, began), tapped)) in row.started.iter().zip(row.inputs).enumerate() {
            let answer = answers.get(id);
            let at_ns = answer.map(|(at_ns, _)| *at_ns);
            let who = known.get(place).filter(|_| known.len() == row.started.len());
            if tapped.is_some() || who.is_some_and(|who| who.is_tap) {
                tapped_ns = at_ns.unwrap_or(started_ns);
            } else if !who.is_some_and(|who| who.is_async) {
                handled.push((at_ns, answered(who, answer, *began)));
            }
        }
        // Hooks without an answer come last.
        handled.sort_by_key(|(at_ns, _)| at_ns.unwrap_or(u64::MAX));
        // The effect of the hooks does not wait for the tap.
        let last = handled.iter().filter_map(|(at_ns, _)| *at_ns).max();
        let hook = Hook {
            event: row.event.to_owned(),
            agent: self.lane(input["agent_id"].as_str()),
            input,
            handlers: handled.into_iter().map(|(_, handled)| handled).collect(),
            effect: Effect::Allowed,
        };
        let at_ns = last.unwrap_or(tapped_ns);
        Item { at_ns, what: What::Batch(Batch { started_ns, hook }) }
    }

    /// The hooks for an event. If the settings changed meanwhile, `count` tells whether the previous ones applied.
    fn known(&self, event: &str, input: &Value, count: Option<usize>) -> Vec<Answering> {
        let answering = |settings| handlers::answering(settings, &self.tap.program, event, input);
        let now = answering(&self.settings);
        match count {
            Some(count) if count != now.len() => answering(&self.former),
            Some(_) | None => now,
        }
    }

    /// An event that only the tap reveals.
    pub(super) fn silent(&mut self, input: Input) -> Item {
        self.note(&input.value);
        let known = self.known(&input.event, &input.value, None);
        let own = known.iter().filter(|who| !who.is_tap && !who.is_async);
        let hook = Hook {
            agent: self.lane(input.value["agent_id"].as_str()),
            handlers: own.map(not_told).collect(),
            event: input.event,
            input: input.value,
            effect: Effect::Allowed,
        };
        let at_ns = input.at_ns;
        Item { at_ns, what: What::Batch(Batch { started_ns: at_ns, hook }) }
    }
}

/// The hooks of one event, and the input that its tap stored.
struct Row<'a> {
    event: &'a str,
    started: &'a [(String, u64)],
    inputs: &'a [Option<Input>],
}

/// The answer of one hook, as far as the client's lines show it.
fn answered(handler: Option<&Answering>, answer: Option<&(u64, Value)>, began: u64) -> Handled {
    let command = handler.map_or_else(|| "?".to_owned(), |handler| handler.command.clone());
    let source = handler.map_or_else(|| "?".to_owned(), |handler| handler.source.clone());
    let Some((at_ns, line)) = answer else {
        return unanswered(command, source, NOT_YET);
    };
    let ms = at_ns.saturating_sub(began) / 1_000_000;
    let outcome = word(line, "outcome");
    let code = line["exit_code"].as_i64();
    let ended = match (outcome.as_str(), code) {
        ("cancelled", _) => "timeout".to_owned(),
        (_, Some(code)) => format!("exit {code}"),
        (_, None) => "not started".to_owned(),
    };
    let mut stderr = word(line, "stderr");
    // The client replaces the hook's own stderr with this message.
    let is_void = stderr.starts_with("Hook JSON output validation failed");
    let remark = is_void.then(|| std::mem::take(&mut stderr));
    Handled { command, source, ended, stdout: word(line, "stdout"), stderr, outcome, remark, ms }
}

/// The result of a hook about which the client prints nothing.
fn not_told(who: &Answering) -> Handled {
    unanswered(who.command.clone(), who.source.clone(), NOT_TOLD)
}

fn unanswered(command: String, source: String, ended: &str) -> Handled {
    Handled {
        command,
        source,
        ended: ended.to_owned(),
        stdout: String::new(),
        stderr: String::new(),
        outcome: String::new(),
        remark: None,
        ms: 0,
    }
}

/// If the client was killed, hooks that had not answered are assumed to have killed it.
pub(super) fn note_killers(entries: &mut [Entry]) {
    let is_killed = |entry: &Entry| matches!(entry, Entry::Exit { code } if *code > 128);
    if !entries.iter().any(is_killed) {
        return;
    }
    for entry in entries {
        if let Entry::Hook(hook) = entry {
            let silent = hook.handlers.iter_mut().filter(|handled| handled.ended == NOT_YET);
            silent.for_each(|handled| "killed its parent".clone_into(&mut handled.ended));
        }
    }
}
