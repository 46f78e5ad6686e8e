//! Counts what the calls of one verdict use, and refuses those that would exceed its budgets.

use crate::JudgeRequest;
use crate::case_text::JudgePrompt;
use crate::judge_call::{ModelReply, TokenCounts, UnreportedCall};
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
    min_calls: u64,
    /// Whether each call is one of a model. A command may be anything.
    is_model: bool,
    /// Whether a call is a whole session of a client, in which the model is asked as often as it uses a tool.
    is_session: bool,
    /// Reported tokens, or estimated ones where the backend reports none.
    spent_tokens: u64,
    /// The model that the policy names.
    named_model: Option<String>,
    /// What a token costs at most, in 10⁻⁹ dollars, if the model has a list price.
    max_nano_usd_per_token: Option<u64>,
    /// What a token of a prompt costs, if it is known: at first the list price, then the average of the last call.
    nano_usd_per_token: Option<u64>,
    pub(crate) usage: JudgeUsage,
}

/// A call that is about to be made.
#[derive(Clone, Debug)]
pub(crate) struct OpenedCall {
    pub(crate) max_output_tokens: u64,
    /// What the call may cost: what is left of the money, or the price of the tokens that are left.
    pub(crate) max_micro_usd: Option<u64>,
    /// What the call costs if it never reports anything.
    pub(crate) estimate: JudgeUsage,
}

impl CallLedger {
    pub(crate) fn new(request: &JudgeRequest<'_>) -> Self {
        let judge = request.judge;
        Self {
            max_tokens: judge.max_tokens,
            budget_micro_usd: request.budget_micro_usd,
            call_tokens: judge.max_tokens / planned_calls(judge),
            min_calls: match judge.kind {
                JudgeKind::Adversarial => u64::from(judge.reviewers.max(1)),
                JudgeKind::Prompt
                | JudgeKind::Agent
                | JudgeKind::Plan
                | JudgeKind::Goal
                | JudgeKind::Amended => 1,
            },
            is_model: !matches!(judge.backend, JudgeBackend::Command(_)),
            is_session: judge.kind == JudgeKind::Agent
                && matches!(judge.backend, JudgeBackend::Host(_)),
            spent_tokens: 0,
            named_model: named_model(request).map(ToString::to_string),
            max_nano_usd_per_token: max_nano_usd_per_token(request),
            nano_usd_per_token: input_price(request),
            usage: JudgeUsage::default(),
        }
    }

    /// How many tokens the facts of the next call may have, next to these instructions.
    pub(crate) fn case_tokens(&self, instructions: &str) -> Result<u64, String> {
        facts_room(self.max_tokens, self.call_tokens, instructions)
    }

    /// The error is which budget is used up.
    pub(crate) fn open_call(&mut self, prompt: &JudgePrompt) -> Result<OpenedCall, String> {
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
            let calls = if self.usage.calls == 0 { self.min_calls } else { 1 };
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
        let priced =
            self.max_nano_usd_per_token.map(|nano| nano.saturating_mul(left).div_ceil(1000));
        Ok(OpenedCall {
            max_output_tokens: output,
            max_micro_usd: self.micro_usd_left().into_iter().chain(priced).min(),
            estimate: self.estimated_usage(input),
        })
    }

    /// A client asks its model without asking ralph, so only its report shows that it used more than it may. The error
    /// says so.
    pub(crate) fn check_session_tokens(&self) -> Result<(), String> {
        if !self.is_session || self.spent_tokens <= self.max_tokens {
            return Ok(());
        }
        Err(format!(
            "it used {} tokens, more than max_tokens = {}",
            self.spent_tokens, self.max_tokens
        ))
    }

    /// Books a reply, whether or not it is an answer. Returns what its call used: what it reported, and the estimate where
    /// it reported nothing.
    pub(crate) fn close_call(
        &mut self,
        prompt: &JudgePrompt,
        reply: &ModelReply,
        prices: &PriceTable,
    ) -> JudgeUsage {
        // A model that is asked uses tokens: a report of none is no report.
        let tokens = reply.usage.tokens.filter(|tokens| *tokens != TokenCounts::default());
        let is_reported = tokens.is_some() || reply.usage.micro_usd.is_some();
        if !is_reported && reply.usage.unreported == UnreportedCall::Unsent {
            self.usage.calls = self.usage.calls.saturating_sub(1);
            return JudgeUsage::default();
        }
        let counted = tokens.map_or_else(
            || {
                let answer = reply.answer.as_deref().map_or(0, estimate_tokens);
                prompt.estimated_tokens().saturating_add(answer)
            },
            |tokens| tokens.all_input().saturating_add(tokens.output),
        );
        let limited =
            tokens.filter(|_| self.is_session).map_or(counted, TokenCounts::without_cache_reads);
        self.spent_tokens = self.spent_tokens.saturating_add(limited);
        let mut used = match (tokens, reply.usage.unreported) {
            (Some(tokens), _) => JudgeUsage {
                calls: 1,
                input_tokens: tokens.all_input(),
                output_tokens: tokens.output,
                micro_usd: self.estimate_micro_usd(counted),
            },
            (None, UnreportedCall::Billed) if !is_reported => self.estimated_usage(counted),
            (None, _) => JudgeUsage { calls: 1, ..JudgeUsage::default() },
        };
        let nano = reply.usage.micro_usd.map(|micro| micro.saturating_mul(1000)).or_else(|| {
            // A gateway may report another name for the model than the one that has a price.
            let mut models = [&reply.model, &self.named_model].into_iter().flatten();
            models.find_map(|model| call_price(prices, model, tokens?))
        });
        if let Some(nano) = nano {
            used.micro_usd = Some(nano.div_ceil(1000));
            // A turn that failed before it reached the model reports a cost of 0, which says nothing about the next one.
            if nano > 0 {
                self.nano_usd_per_token = Some(nano.div_ceil(counted.max(1)));
            }
        }
        let usage = &mut self.usage;
        usage.input_tokens = usage.input_tokens.saturating_add(used.input_tokens);
        usage.output_tokens = usage.output_tokens.saturating_add(used.output_tokens);
        if let Some(micro_usd) = used.micro_usd {
            usage.micro_usd = Some(usage.micro_usd.unwrap_or(0).saturating_add(micro_usd));
        }
        used
    }

    /// The usage of a call that reports nothing. A command need not be a model: its calls cost nothing unless one of them
    /// reported a cost.
    fn estimated_usage(&self, tokens: u64) -> JudgeUsage {
        let is_priced = self.is_model || self.nano_usd_per_token.is_some();
        JudgeUsage {
            calls: 1,
            input_tokens: if is_priced { tokens } else { 0 },
            output_tokens: 0,
            micro_usd: self.estimate_micro_usd(tokens),
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

/// The model that the policy names.
fn named_model<'a>(request: &JudgeRequest<'a>) -> Option<&'a str> {
    match &request.judge.backend {
        JudgeBackend::Command(_) => None,
        JudgeBackend::Host(host) => host.model.as_deref(),
        JudgeBackend::Http(endpoint) => Some(&endpoint.model),
    }
}

/// The list price of the most expensive kind of token, in 10⁻⁹ dollars.
fn max_nano_usd_per_token(request: &JudgeRequest<'_>) -> Option<u64> {
    let rates = request.prices.find(named_model(request)?)?.rates;
    let kinds = [rates.input, rates.output, rates.cache_write_5m, rates.cache_write_1h];
    kinds.into_iter().max().map(|pico| pico.div_ceil(1000))
}

/// The list price of an input token, in 10⁻⁹ dollars.
fn input_price(request: &JudgeRequest<'_>) -> Option<u64> {
    let model = named_model(request)?;
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
