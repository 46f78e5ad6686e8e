//! Formats a turn of the scenario as an answer of the Messages API: as one message or as a stream of events.

use crate::model_answer;
use crate::scenario::ScriptedTurn;
use serde_json::{Value, json};
use std::path::Path;

/// Characters of text in one delta event.
const DELTA_CHARS: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelMessage<'a> {
    pub(super) turn: &'a ScriptedTurn,
    pub(super) number: u64,
    pub(super) model: &'a str,
    pub(super) project: &'a Path,
}

impl ModelMessage<'_> {
    pub(super) fn to_json(self) -> Value {
        let content = model_answer::content_blocks(self.turn, self.number, self.project);
        self.envelope(&content, Some(model_answer::stop_reason(self.turn)), self.turn.usage.output)
    }

    /// The message as server-sent events.
    pub(super) fn to_events(self) -> Vec<String> {
        let content = model_answer::content_blocks(self.turn, self.number, self.project);
        let start = self.envelope(&[], None, 1);
        let mut events = vec![format_event("message_start", json!({"message": start}))];
        for (index, block) in content.iter().enumerate() {
            let (empty, deltas) = split_block(block);
            events.push(format_event(
                "content_block_start",
                json!({"index": index, "content_block": empty}),
            ));
            events.extend(deltas.into_iter().map(|delta| {
                format_event("content_block_delta", json!({"index": index, "delta": delta}))
            }));
            events.push(format_event("content_block_stop", json!({"index": index})));
        }
        let delta = json!({"stop_reason": model_answer::stop_reason(self.turn), "stop_sequence": Value::Null});
        let usage = self.usage(self.turn.usage.output);
        events.push(format_event("message_delta", json!({"delta": delta, "usage": usage})));
        events.push(format_event("message_stop", json!({})));
        events
    }

    fn envelope(&self, content: &[Value], stop_reason: Option<&str>, output: u64) -> Value {
        json!({
            "id": model_answer::message_id(self.number),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": Value::Null,
            "usage": self.usage(output),
        })
    }

    fn usage(&self, output: u64) -> Value {
        let usage = self.turn.usage;
        json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_creation,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": output,
        })
    }
}

fn format_event(name: &str, mut data: Value) -> String {
    data["type"] = json!(name);
    format!("event: {name}\ndata: {data}\n\n")
}

/// The empty block of a start event, and the deltas that fill it.
fn split_block(block: &Value) -> (Value, Vec<Value>) {
    if let Some(text) = block["text"].as_str() {
        let deltas = split_text(text).map(|text| json!({"type": "text_delta", "text": text}));
        return (json!({"type": "text", "text": ""}), deltas.collect());
    }
    let mut empty = block.clone();
    empty["input"] = json!({});
    let input = block["input"].to_string();
    let deltas =
        split_text(&input).map(|part| json!({"type": "input_json_delta", "partial_json": part}));
    (empty, deltas.collect())
}

fn split_text(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(DELTA_CHARS).map_or(rest.len(), |(place, _)| place);
        let (piece, after) = rest.split_at_checked(end)?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
