//! The usage and cost of a session, as the client records them when it exits.

use crate::scenario::ScriptedUsage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prices of the client's default model in USD per million tokens. All but `CACHE_CREATION` follow from recorded
/// sessions; it was never observed and is assumed to be a quarter more than `INPUT`.
const INPUT_PRICE: f64 = 4.0;
const OUTPUT_PRICE: f64 = 20.0;
const CACHE_READ_PRICE: f64 = 0.2;
const CACHE_CREATION_PRICE: f64 = 5.0;
const MILLION: f64 = 1e6;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SessionTotals {
    #[serde(rename = "totalCostUSD")]
    pub(super) total_cost: f64,
    #[serde(rename = "totalAPIDuration")]
    api_duration: u64,
    #[serde(rename = "totalAPIDurationWithoutRetries")]
    api_duration_without_retries: u64,
    total_tool_duration: u64,
    total_lines_added: u64,
    total_lines_removed: u64,
    pub(super) total_duration: u64,
    pub(super) start_time: u64,
    pub(super) model_usage: BTreeMap<String, ModelTotals>,
    has_unknown_model_cost: bool,
}

/// Usage of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelTotals {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub thinking_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub cache_creation_ephemeral5m_input_tokens: u64,
    pub cache_creation_ephemeral1h_input_tokens: u64,
    pub web_search_requests: u64,
    #[serde(rename = "costUSD")]
    pub cost: f64,
}

impl ModelTotals {
    /// The usage since an earlier state.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            thinking_tokens: self.thinking_tokens.saturating_sub(before.thinking_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .saturating_sub(before.cache_read_input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .saturating_sub(before.cache_creation_input_tokens),
            cache_creation_ephemeral5m_input_tokens: self
                .cache_creation_ephemeral5m_input_tokens
                .saturating_sub(before.cache_creation_ephemeral5m_input_tokens),
            cache_creation_ephemeral1h_input_tokens: self
                .cache_creation_ephemeral1h_input_tokens
                .saturating_sub(before.cache_creation_ephemeral1h_input_tokens),
            web_search_requests: self
                .web_search_requests
                .saturating_sub(before.web_search_requests),
            cost: self.cost - before.cost,
        }
    }
}

impl SessionTotals {
    pub(super) fn add(&mut self, model: &str, usage: ScriptedUsage) {
        let cost = usage_cost(usage) * price_factor(model);
        self.total_cost += cost;
        let model = self.model_usage.entry(model.to_owned()).or_default();
        add_saturating(&mut model.input_tokens, usage.input);
        add_saturating(&mut model.output_tokens, usage.output);
        add_saturating(&mut model.cache_read_input_tokens, usage.cache_read);
        add_saturating(&mut model.cache_creation_input_tokens, usage.cache_creation);
        add_saturating(&mut model.cache_creation_ephemeral5m_input_tokens, usage.cache_creation);
        model.cost += cost;
    }

    /// Adds the usage of a subagent.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.total_cost += other.total_cost;
        for (name, used) in &other.model_usage {
            let model = self.model_usage.entry(name.clone()).or_default();
            add_saturating(&mut model.input_tokens, used.input_tokens);
            add_saturating(&mut model.output_tokens, used.output_tokens);
            add_saturating(&mut model.cache_read_input_tokens, used.cache_read_input_tokens);
            add_saturating(
                &mut model.cache_creation_input_tokens,
                used.cache_creation_input_tokens,
            );
            add_saturating(
                &mut model.cache_creation_ephemeral5m_input_tokens,
                used.cache_creation_ephemeral5m_input_tokens,
            );
            model.cost += used.cost;
        }
    }
}

fn add_saturating(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The price of a model relative to the default one. Only these two were observed.
fn price_factor(model: &str) -> f64 {
    if model.contains("sonnet") { 0.5 } else { 1.0 }
}

#[expect(clippy::cast_precision_loss, reason = "money is rounded anyway")]
fn usage_cost(usage: ScriptedUsage) -> f64 {
    (usage.input as f64 * INPUT_PRICE
        + usage.output as f64 * OUTPUT_PRICE
        + usage.cache_read as f64 * CACHE_READ_PRICE
        + usage.cache_creation as f64 * CACHE_CREATION_PRICE)
        / MILLION
}
