//! Reconstructs the hooks of each event: which were started, their input and their answers.

use super::{ObservedHookBatch, ObservedItem, ObservedItemKind, TimelineBuilder, string_field};
use crate::hook_answer::is_stop_event;
use crate::real_client::expected_handlers::{self, ExpectedEvaluator, ExpectedHandler};
use crate::real_client::hook_tap::TappedInput;
use crate::real_client::stop_summaries;
use crate::timeline::{HandlerResult, HookEffect, TimelineEntry, TimelineHook};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `ended` of a hook that has not answered.
const STILL_RUNNING: &str = "still running";
/// `ended` of a hook about which the client prints nothing.
pub(super) const NOT_REPORTED: &str = "not reported";
/// How long before the line about its start a tap may have written its input, in nanoseconds.
const TAP_LEAD_NS: u64 = 200_000_000;

/// The client's lines about hook answers and the time of observation, by hook id.
pub(super) type HookAnswerLines = BTreeMap<String, (u64, Value)>;

/// Hooks that were started together.
#[derive(Debug, Default)]
pub(super) struct StartedHooks {
    pub(super) name: String,
    pub(super) event: String,
    /// Their ids and start times.
    pub(super) started: Vec<(String, u64)>,
}

impl TimelineBuilder {
    /// Splits hooks that were started together into events. Each event has one tap.
    pub(super) fn split_into_batches(
        &mut self,
        run: &StartedHooks,
        answers: &HookAnswerLines,
    ) -> Vec<ObservedItem> {
        let inputs: Vec<Option<TappedInput>> = run
            .started
            .iter()
            .map(|(id, _)| answers.get(id).and_then(|(_, line)| line["stdout"].as_str()))
            .map(|stdout| self.tap.take_named(stdout?))
            .collect();
        let count = inputs.iter().flatten().count().max(1);
        let size = (run.started.len() / count).max(1);
        let parts = run.started.chunks(size).zip(inputs.chunks(size));
        let mut items = Vec::new();
        for (started, inputs) in parts {
            let row = StartedEventHooks { event: &run.event, started, inputs };
            items.push(self.build_batch(&row, answers));
        }
        items
    }

    fn build_batch(
        &mut self,
        row: &StartedEventHooks<'_>,
        answers: &HookAnswerLines,
    ) -> ObservedItem {
        let started_ns = row.started.first().map_or(0, |(_, at_ns)| *at_ns);
        let named = row.inputs.iter().flatten().next().cloned();
        let found = named
            .or_else(|| self.tap.take_unused(row.event, started_ns.saturating_sub(TAP_LEAD_NS)));
        let input = found.map(|input| input.value).unwrap_or_default();
        self.note_input(&input);
        let known = self.expected_handlers(row.event, &input, Some(row.started.len()));
        let mut handled = Vec::new();
        let mut tapped_ns = started_ns;
        for (place, ((id, began), tapped)) in row.started.iter().zip(row.inputs).enumerate() {
            let answer = answers.get(id);
            let at_ns = answer.map(|(at_ns, _)| *at_ns);
            let expected = known.get(place).filter(|_| known.len() == row.started.len());
            if tapped.is_some() || expected.is_some_and(|handler| handler.is_tap) {
                tapped_ns = at_ns.unwrap_or(started_ns);
            } else if !expected.is_some_and(|handler| handler.is_async) {
                handled.push((at_ns, observed_result(expected, answer, *began)));
            }
        }
        let asked = self.evaluator_results(row.event, &input);
        // The client says nothing when a model has answered, so the hooks end with its next action.
        let waits_for_model = !asked.is_empty() && is_stop_event(row.event);
        // Hooks without an answer come last.
        handled.sort_by_key(|(at_ns, _)| at_ns.unwrap_or(u64::MAX));
        // The effect of the hooks does not wait for the tap.
        let last = handled.iter().filter_map(|(at_ns, _)| *at_ns).max();
        let hook = TimelineHook {
            event: row.event.to_owned(),
            agent: self.agent_lane(input["agent_id"].as_str()),
            input,
            handlers: handled.into_iter().map(|(_, handled)| handled).chain(asked).collect(),
            effect: HookEffect::Allowed,
        };
        let at_ns = if waits_for_model { u64::MAX } else { last.unwrap_or(tapped_ns) };
        ObservedItem {
            at_ns,
            what: ObservedItemKind::Batch(ObservedHookBatch { started_ns, hook }),
        }
    }

    /// The hooks of the event that ask a model. What they answered at a stop of the main conversation is in the
    /// transcript; elsewhere the client does not say.
    fn evaluator_results(&mut self, event: &str, input: &Value) -> Vec<HandlerResult> {
        let transcript = input["transcript_path"].as_str().map(PathBuf::from);
        let transcript = transcript.filter(|_| event == "Stop");
        let index = transcript.as_ref().map(|path| {
            let count = self.stop_counts.entry(path.clone()).or_default();
            std::mem::replace(count, *count + 1)
        });
        let asked = expected_handlers::evaluators_for_event(&self.settings, event, input);
        if asked.is_empty() {
            return Vec::new();
        }
        let summary = transcript
            .zip(index)
            .and_then(|(path, index)| stop_summaries::read_stop_summary(&path, index));
        let results = asked.into_iter().map(|asked| {
            let ExpectedEvaluator { kind, prompt, source } = asked;
            let found = summary.as_ref().and_then(|summary| summary.evaluation(kind, &prompt));
            let mut result = empty_result(prompt, source, NOT_REPORTED);
            result.evaluator = Some(kind.name().to_owned());
            if let Some(found) = found {
                found.ended.clone_into(&mut result.ended);
                found.outcome.clone_into(&mut result.outcome);
                (result.stdout, result.stderr) = (found.stdout, found.stderr);
                result.ms = found.ms;
            }
            result
        });
        results.collect()
    }

    /// The hooks for an event. If their number is not `count`, the settings changed meanwhile and the previous ones
    /// apply.
    fn expected_handlers(
        &self,
        event: &str,
        input: &Value,
        count: Option<usize>,
    ) -> Vec<ExpectedHandler> {
        let answering = |settings| {
            expected_handlers::handlers_for_event(settings, &self.tap.program, event, input)
        };
        let now = answering(&self.settings);
        match count {
            Some(count) if count != now.len() => answering(&self.previous_settings),
            Some(_) | None => now,
        }
    }

    /// An event that only the tap reveals.
    pub(super) fn build_silent_batch(&mut self, input: TappedInput) -> ObservedItem {
        self.note_input(&input.value);
        let known = self.expected_handlers(&input.event, &input.value, None);
        let own = known.iter().filter(|handler| !handler.is_tap && !handler.is_async);
        let hook = TimelineHook {
            agent: self.agent_lane(input.value["agent_id"].as_str()),
            handlers: own.map(unreported_result).collect(),
            event: input.event,
            input: input.value,
            effect: HookEffect::Allowed,
        };
        let at_ns = input.at_ns;
        ObservedItem {
            at_ns,
            what: ObservedItemKind::Batch(ObservedHookBatch { started_ns: at_ns, hook }),
        }
    }
}

/// The hooks of one event, and the input that its tap stored.
struct StartedEventHooks<'a> {
    event: &'a str,
    started: &'a [(String, u64)],
    inputs: &'a [Option<TappedInput>],
}

/// The answer of one hook, as far as the client's lines show it.
fn observed_result(
    handler: Option<&ExpectedHandler>,
    answer: Option<&(u64, Value)>,
    began: u64,
) -> HandlerResult {
    let command = handler.map_or_else(|| "?".to_owned(), |handler| handler.command.clone());
    let source = handler.map_or_else(|| "?".to_owned(), |handler| handler.source.clone());
    let Some((at_ns, line)) = answer else {
        return empty_result(command, source, STILL_RUNNING);
    };
    let ms = at_ns.saturating_sub(began) / 1_000_000;
    let outcome = string_field(line, "outcome");
    let code = line["exit_code"].as_i64();
    let ended = match (outcome.as_str(), code) {
        ("cancelled", _) => "timeout".to_owned(),
        (_, Some(code)) => format!("exit {code}"),
        (_, None) => "not started".to_owned(),
    };
    let mut stderr = string_field(line, "stderr");
    // The client replaces the hook's own stderr with this message.
    let is_void = stderr.starts_with("Hook JSON output validation failed");
    let remark = is_void.then(|| std::mem::take(&mut stderr));
    HandlerResult {
        command,
        source,
        ended,
        stdout: string_field(line, "stdout"),
        stderr,
        outcome,
        evaluator: None,
        remark,
        ms,
    }
}

/// The result of a hook about which the client prints nothing.
fn unreported_result(handler: &ExpectedHandler) -> HandlerResult {
    empty_result(handler.command.clone(), handler.source.clone(), NOT_REPORTED)
}

fn empty_result(command: String, source: String, ended: &str) -> HandlerResult {
    HandlerResult {
        command,
        source,
        ended: ended.to_owned(),
        stdout: String::new(),
        stderr: String::new(),
        outcome: String::new(),
        evaluator: None,
        remark: None,
        ms: 0,
    }
}

/// If the client was killed, hooks that had not answered are assumed to have killed it.
pub(super) fn mark_killers(entries: &mut [TimelineEntry]) {
    let is_killed =
        |entry: &TimelineEntry| matches!(entry, TimelineEntry::Exit { code } if *code > 128);
    if !entries.iter().any(is_killed) {
        return;
    }
    for entry in entries {
        if let TimelineEntry::Hook(hook) = entry {
            let silent = hook.handlers.iter_mut().filter(|handled| handled.ended == STILL_RUNNING);
            silent.for_each(|handled| "killed its parent".clone_into(&mut handled.ended));
        }
    }
}
