//! The usage of a turn and a session, and the result line that ends a turn.

use super::client::{Break, Client};
use super::control::WINDOW;
use super::turn::{Over, Turn, name_messages};
use crate::scenario::Usage;
use crate::transcript::ModelUsed;
use ralph_sys::clock::Stopwatch;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const LONGEST_ANSWER: u64 = 128_000;

pub(super) const NONE: Usage = Usage { input: 0, output: 0, cache_read: 0, cache_creation: 0 };

type Models = BTreeMap<String, ModelUsed>;

/// Usage counters of the process.
#[derive(Debug, Default)]
pub(super) struct Metered {
    /// Cost of the session when the process started.
    before: f64,
    /// Usage at the last result.
    models: Models,
    results: u64,
    turn: Option<Stopwatch>,
}

impl Metered {
    pub(super) fn begin(&mut self, before: f64, models: Models) {
        self.before = before;
        self.models = models;
    }

    pub(super) fn start_turn(&mut self) {
        self.turn = Some(Stopwatch::start());
    }

    pub(super) fn is_in_turn(&self) -> bool {
        self.turn.is_some()
    }
}

impl Client<'_> {
    /// Cost of this process, in USD.
    pub(super) fn spent(&mut self) -> Result<f64, Break> {
        let before = self.metered.before;
        Ok(self.transcript()?.cost() - before)
    }

    pub(super) fn report(&mut self, turn: &Turn, over: &Over) -> Result<(), Break> {
        let transcript = self.transcript()?;
        let (cost, models) = (transcript.cost(), transcript.models().clone());
        let watch = self.metered.turn.take();
        let ms = watch.map_or(0, |watch| watch.elapsed().as_millis());
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        let since = models.iter().filter_map(|(name, used)| {
            let before = self.metered.models.get(name).copied().unwrap_or_default();
            let since = used.since(&before);
            (*used != before).then(|| (name.clone(), since))
        });
        let since = since.collect::<Models>();
        let mut line = json!({
            "type": "result",
            "subtype": over.subtype,
            "is_error": over.is_error,
            "terminal_reason": over.reason,
            "stop_reason": turn.stop_reason,
            "num_turns": over.num_turns.unwrap_or(turn.num_turns),
            "total_cost_usd": cost,
            "usage": usage(turn.usage),
            "modelUsage": model_usage(&models),
            "permission_denials": turn.denials,
            "duration_ms": ms,
            "duration_api_ms": 0,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "subagent_stats": super::background::subagent_stats(),
            "model_usage_since_last_result": model_usage(&since),
            "safety_stops": 0,
            "queued_turn_count": 0,
            "result_index": self.metered.results,
        });
        if let Value::Object(fields) = &mut line {
            fields.extend(over.fields.clone());
        }
        if let Some(run) = &turn.run {
            line["origin"] =
                json!({"kind": "task-notification", "producer": "session-task", "runId": run});
        }
        name_messages(&mut line, &turn.messages);
        self.metered.models = models;
        self.metered.results += 1;
        self.tell(line)
    }

    pub(super) fn session_cost(&self) -> String {
        let Some(transcript) = self.written() else {
            return "Total cost:            $0.0000".to_owned();
        };
        let models = transcript.models().iter().map(|(name, used)| {
            format!(
                "\n     {name}:  {} input, {} output, {} cache read, {} cache write (${:.4})",
                used.input_tokens,
                used.output_tokens,
                used.cache_read_input_tokens,
                used.cache_creation_input_tokens,
                used.cost
            )
        });
        let models = models.collect::<String>();
        format!("Total cost:            ${:.4}\nUsage by model:{models}", transcript.cost())
    }
}

/// The `usage` field of a result.
pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {
            "ephemeral_1h_input_tokens": 0,
            "ephemeral_5m_input_tokens": usage.cache_creation,
        },
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": null,
    })
}

fn model_usage(models: &Models) -> Value {
    let listed = models.iter().map(|(name, used)| {
        let mut used = serde_json::to_value(used).unwrap_or_default();
        used["contextWindow"] = json!(WINDOW);
        used["maxOutputTokens"] = json!(LONGEST_ANSWER);
        used["canonicalModel"] = json!(name);
        used["provider"] = json!("firstParty");
        used["costBasis"] = json!("list");
        (name.clone(), used)
    });
    Value::Object(listed.collect::<Map<_, _>>())
}
