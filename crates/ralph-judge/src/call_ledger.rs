//! Counts what the calls of one verdict use, and refuses those that would exceed its budgets.

use crate::JudgeRequest;
use crate::case_text::JudgePrompt;
use crate::judge_call::{ModelReply, TokenCounts};
use crate::presets::{ANSWER_RULES, judge_instructions};
use ralph_core::judge::{Judge, JudgeBackend, JudgeKind, JudgeUsage};
use ralph_core::model_price::{CallUsage, PriceTable};
use ralph_core::units::format_usd;

/// Bytes per token, to estimate prompts before they are sent. Code has three to four, so this overestimates.
pub(crate) const BYTES_PER_TOKEN: u64 = 3;
const MIN_OUTPUT_TOKENS: u64 = 256;
const MAX_OUTPUT_TOKENS: u64 = 4_096;
/// A case that must be cut to less than this is not worth a call.
const MIN_CASE_TOKENS: u64 = 200;
/// The fences and labels around the facts.
const FENCE_TOKENS: u64 = 300;

#[derive(Clone, Debug)]
pub(crate) struct CallLedger {
    max_tokens: u64,
    budget_micro_usd: Option<u64>,
    /// The share of one call in `max_tokens`.
    call_tokens: u64,
    /// How many calls are made at least.
    reviewers: u64,
    /// Whether each call is one of a model. A command may be anything.
    is_model: bool,
    /// Reported tokens, or estimated ones where the backend reports none.
    spent_tokens: u64,
    /// What a token of a prompt costs, if it is known: at first the list price, then the average of the last call.
    nano_usd_per_token: Option<u64>,
    pub(crate) usage: JudgeUsage,
}

impl CallLedger {
    pub(crate) fn new(request: &JudgeRequest<'_>) -> Self {
        let judge = request.judge;
        Self {
            max_tokens: judge.max_tokens,
            budget_micro_usd: request.budget_micro_usd,
            call_tokens: judge.max_tokens / planned_calls(judge),
            reviewers: match judge.kind {
                JudgeKind::Adversarial => u64::from(judge.reviewers.max(1)),
                JudgeKind::Prompt
                | JudgeKind::Agent
                | JudgeKind::Plan
                | JudgeKind::Goal
                | JudgeKind::Amended => 1,
            },
            is_model: !matches!(judge.backend, JudgeBackend::Command(_)),
            spent_tokens: 0,
            nano_usd_per_token: input_price(request),
            usage: JudgeUsage::default(),
        }
    }

    /// How many tokens the facts of the next call may have, next to these instructions.
    pub(crate) fn case_tokens(&self, instructions: &str) -> Result<u64, String> {
        facts_room(self.max_tokens, self.call_tokens, instructions)
    }

    /// Returns how many tokens the answer may have, or which budget is used up.
    pub(crate) fn open_call(&mut self, prompt: &JudgePrompt) -> Result<u64, String> {
        let input = prompt.estimated_tokens();
        let left = self.max_tokens.saturating_sub(self.spent_tokens);
        let output = left.saturating_sub(input).min(output_tokens(self.call_tokens));
        if output < MIN_OUTPUT_TOKENS {
            return Err(format!(
                "the budget of {} tokens is used up after {}",
                self.max_tokens,
                ralph_core::text::count_noun(self.usage.calls, "call")
            ));
        }
        if let Some(left) = self.micro_usd_left() {
            if left == 0 {
                return Err(format!(
                    "the budget of {} is used up: {} spent",
                    format_usd(self.budget_micro_usd.unwrap_or(0)),
                    format_usd(self.usage.micro_usd.unwrap_or(0))
                ));
            }
            // Reviewers get the same facts. Without the last of them, the others would be paid for nothing.
            let calls = if self.usage.calls == 0 { self.reviewers } else { 1 };
            let estimate = self.estimate_micro_usd(input.saturating_mul(calls));
            if let Some(estimate) = estimate.filter(|estimate| *estimate > left) {
                return Err(format!(
                    "not asked: it would cost about {}, and {} of the budget is left",
                    format_usd(estimate),
                    format_usd(left)
                ));
            }
        }
        self.usage.calls = self.usage.calls.saturating_add(1);
        Ok(output)
    }

    /// Books a reply, whether or not it is an answer.
    pub(crate) fn close_call(
        &mut self,
        prompt: &JudgePrompt,
        reply: &ModelReply,
        prices: &PriceTable,
    ) {
        if reply.usage.is_unsent {
            self.usage.calls = self.usage.calls.saturating_sub(1);
            return;
        }
        let tokens = reply.usage.tokens;
        let counted = tokens.map_or_else(
            || {
                let answer = reply.answer.as_deref().map_or(0, estimate_tokens);
                prompt.estimated_tokens().saturating_add(answer)
            },
            |tokens| tokens.all_input().saturating_add(tokens.output),
        );
        self.spent_tokens = self.spent_tokens.saturating_add(counted);
        let is_priced = self.is_model || self.nano_usd_per_token.is_some();
        let is_estimated = reply.usage.is_abandoned && is_priced;
        let estimate = self.estimate_micro_usd(counted).filter(|_| is_estimated);
        let estimated = TokenCounts { input: counted, ..TokenCounts::default() };
        let tokens = tokens.or(is_estimated.then_some(estimated)).unwrap_or_default();
        let usage = &mut self.usage;
        if let Some(estimate) = estimate {
            usage.micro_usd = Some(usage.micro_usd.unwrap_or(0).saturating_add(estimate));
        }
        usage.input_tokens = usage.input_tokens.saturating_add(tokens.all_input());
        usage.output_tokens = usage.output_tokens.saturating_add(tokens.output);
        let nano = reply.usage.micro_usd.map(|micro| micro.saturating_mul(1000)).or_else(|| {
            let model = reply.model.as_deref()?;
            reply.usage.tokens.and_then(|tokens| call_price(prices, model, tokens))
        });
        if let Some(nano) = nano {
            let micro = nano.div_ceil(1000);
            usage.micro_usd = Some(usage.micro_usd.unwrap_or(0).saturating_add(micro));
            self.nano_usd_per_token = Some(nano / counted.max(1));
        }
    }

    fn estimate_micro_usd(&self, tokens: u64) -> Option<u64> {
        self.nano_usd_per_token.map(|nano| nano.saturating_mul(tokens).div_ceil(1000))
    }

    pub(crate) fn micro_usd_left(&self) -> Option<u64> {
        let spent = self.usage.micro_usd.unwrap_or(0);
        self.budget_micro_usd.map(|budget| budget.saturating_sub(spent))
    }
}

/// Whether `max_tokens` leaves room for facts next to the instructions of the judge, or why it gives no verdict.
pub fn check_token_limit(judge: &Judge) -> Result<(), String> {
    let call_tokens = judge.max_tokens / planned_calls(judge);
    facts_room(judge.max_tokens, call_tokens, judge_instructions(judge)).map(|_| ())
}

fn facts_room(max_tokens: u64, call_tokens: u64, instructions: &str) -> Result<u64, String> {
    let around = estimate_tokens(instructions)
        .saturating_add(estimate_tokens(ANSWER_RULES))
        .saturating_add(output_tokens(call_tokens))
        .saturating_add(FENCE_TOKENS);
    let room = call_tokens.saturating_sub(around);
    if room < MIN_CASE_TOKENS {
        return Err(format!("max_tokens = {max_tokens} leaves no room for the facts"));
    }
    Ok(room)
}

/// The list price of an input token, in 10⁻⁹ dollars.
fn input_price(request: &JudgeRequest<'_>) -> Option<u64> {
    let model = match &request.judge.backend {
        JudgeBackend::Command(_) => return None,
        JudgeBackend::Host(host) => host.model.as_deref()?,
        JudgeBackend::Http(endpoint) => &endpoint.model,
    };
    let sample = TokenCounts { input: 1000, ..TokenCounts::default() };
    call_price(request.prices, model, sample).map(|nano| nano / 1000)
}

/// In 10⁻⁹ dollars.
fn call_price(prices: &PriceTable, model: &str, tokens: TokenCounts) -> Option<u64> {
    prices.nano_usd(&CallUsage {
        model: model.to_string(),
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write_5m: tokens.cache_write,
        ..CallUsage::default()
    })
}

/// Among how many calls the token budget is divided.
fn planned_calls(judge: &Judge) -> u64 {
    match judge.kind {
        JudgeKind::Prompt | JudgeKind::Plan | JudgeKind::Goal | JudgeKind::Amended => 1,
        // The second follows a request for gates.
        JudgeKind::Agent => 2,
        // One more, for confirmations, which are short.
        JudgeKind::Adversarial => u64::from(judge.reviewers.max(1)) + 1,
    }
}

fn output_tokens(call_tokens: u64) -> u64 {
    (call_tokens / 4).clamp(MIN_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
}

pub(crate) fn estimate_tokens(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}
