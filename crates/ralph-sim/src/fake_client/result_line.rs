//! The usage of a turn and a session, and the result line that ends a turn.

use super::control_requests::CONTEXT_WINDOW;
use super::process::{FakeClientProcess, TurnBreak};
use super::turn_loop::{FakeTurn, FakeTurnOutcome, add_message_ids};
use crate::scenario::ScriptedUsage;
use crate::transcript::{ModelTotals, usage_json};
use ralph_sys::clock::Stopwatch;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const MAX_OUTPUT_TOKENS: u64 = 128_000;

pub(super) const NO_USAGE: ScriptedUsage =
    ScriptedUsage { input: 0, output: 0, cache_read: 0, cache_creation: 0 };

type ModelTotalsByName = BTreeMap<String, ModelTotals>;

/// Usage counters of the process.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    /// Cost of the session when the process started.
    before: f64,
    /// Usage at the last result.
    models: ModelTotalsByName,
    results: u64,
    turn: Option<Stopwatch>,
}

impl UsageMeter {
    pub(super) fn begin(&mut self, before: f64, models: ModelTotalsByName) {
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

impl FakeClientProcess<'_> {
    /// Cost of this process, in USD.
    pub(super) fn process_cost_usd(&mut self) -> Result<f64, TurnBreak> {
        let before = self.meter.before;
        Ok(self.transcript()?.cost_usd() - before)
    }

    pub(super) fn write_result(
        &mut self,
        turn: &FakeTurn,
        over: &FakeTurnOutcome,
    ) -> Result<(), TurnBreak> {
        let transcript = self.transcript()?;
        let (cost, models) = (transcript.cost_usd(), transcript.usage_by_model().clone());
        let watch = self.meter.turn.take();
        let ms = watch.map_or(0, |watch| watch.elapsed().as_millis());
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        let since = models.iter().filter_map(|(name, used)| {
            let before = self.meter.models.get(name).copied().unwrap_or_default();
            let since = used.since(&before);
            (*used != before).then(|| (name.clone(), since))
        });
        let since = since.collect::<ModelTotalsByName>();
        let mut line = json!({
            "type": "result",
            "subtype": over.subtype,
            "is_error": over.is_error,
            "terminal_reason": over.reason,
            "stop_reason": turn.stop_reason,
            "num_turns": over.num_turns.unwrap_or(turn.num_turns),
            "total_cost_usd": cost,
            "usage": usage_json(turn.usage),
            "modelUsage": model_usage_json(&models),
            "permission_denials": turn.denials,
            "duration_ms": ms,
            "duration_api_ms": 0,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "subagent_stats": super::background_commands::empty_subagent_stats(),
            "model_usage_since_last_result": model_usage_json(&since),
            "safety_stops": turn.refusals,
            "queued_turn_count": 0,
            "result_index": self.meter.results,
        });
        if let Value::Object(fields) = &mut line {
            fields.extend(over.fields.clone());
        }
        if let Some(run) = &turn.task_run_id {
            line["origin"] =
                json!({"kind": "task-notification", "producer": "session-task", "runId": run});
        }
        add_message_ids(&mut line, &turn.message_ids);
        self.meter.models = models;
        self.meter.results += 1;
        self.write_message(line)
    }

    pub(super) fn session_cost_text(&self) -> String {
        let Some(transcript) = self.opened_transcript() else {
            return "Total cost:            $0.0000".to_owned();
        };
        let models = transcript.usage_by_model().iter().map(|(name, used)| {
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
        format!("Total cost:            ${:.4}\nUsage by model:{models}", transcript.cost_usd())
    }
}

fn model_usage_json(models: &ModelTotalsByName) -> Value {
    let listed = models.iter().map(|(name, used)| {
        let mut used = json!(used);
        used["contextWindow"] = json!(CONTEXT_WINDOW);
        used["maxOutputTokens"] = json!(MAX_OUTPUT_TOKENS);
        used["canonicalModel"] = json!(name);
        used["provider"] = json!("firstParty");
        used["costBasis"] = json!("list");
        (name.clone(), used)
    });
    Value::Object(listed.collect::<Map<_, _>>())
}
