//! Parsers for the result of a turn and for rate-limit events.

use super::json_fields::JsonFields;
use super::{message, turn_outcome};
use crate::stream::{RateLimitEvent, RateLimitStatus, StreamModelUsage, TokenUsage, TurnResult};
use alloc::vec::Vec;
use ralph_core::id::SessionId;

const LONGEST_TEXT: usize = 20_000;
const LONGEST_WORD: usize = 80;
const LONGEST_ERROR: usize = 300;
const MOST_ERRORS: usize = 10;
const MOST_MODELS: usize = 20;
/// A timestamp of at least this is in milliseconds, not in seconds.
const SECONDS_END: u64 = 100_000_000_000;

pub(super) fn parse_result(line: &JsonFields<'_>) -> TurnResult {
    let errors = line.strings("errors");
    let denials = line.objects("permission_denials");
    let mut answers: Vec<_> = line.id("user_message_uuid").into_iter().collect();
    answers.extend(line.strings("user_message_uuids"));
    answers.dedup();
    answers.retain(|id| id.len() <= LONGEST_WORD);
    TurnResult {
        session: line.string("session_id").and_then(|id| SessionId::parse(&id)),
        outcome: turn_outcome::parse_outcome(line),
        text: line.text("result", LONGEST_TEXT),
        errors: errors
            .iter()
            .take(MOST_ERRORS)
            .map(|error| ralph_core::text::clean_line(error, LONGEST_ERROR))
            .collect(),
        num_turns: line.count("num_turns"),
        duration_ms: line.count("duration_ms"),
        micro_usd: line.micro_usd("total_cost_usd"),
        usage: line.object("usage").as_ref().map(message::parse_usage),
        models: parse_models(line.object("modelUsage")),
        since: parse_models(line.object("model_usage_since_last_result")),
        denied: denials
            .iter()
            .filter_map(|denial| denial.line("tool_name", LONGEST_WORD))
            .take(MOST_ERRORS)
            .collect(),
        index: line.count("result_index"),
        origin: line.object("origin").and_then(|origin| origin.line("kind", LONGEST_WORD)),
        answers,
    }
}

fn parse_models(fields: Option<JsonFields<'_>>) -> Vec<StreamModelUsage> {
    let fields = fields.unwrap_or_default();
    let entries = fields.entries().take(MOST_MODELS);
    entries
        .filter_map(|(model, raw)| {
            let of = super::json_fields::parse_object(raw)?;
            let count = |key| of.count(key).unwrap_or_default();
            Some(StreamModelUsage {
                model: ralph_core::text::clean_line(model, LONGEST_WORD),
                usage: TokenUsage {
                    input: count("inputTokens"),
                    cache_read: count("cacheReadInputTokens"),
                    cache_creation: count("cacheCreationInputTokens"),
                    output: count("outputTokens"),
                },
                micro_usd: of.micro_usd("costUSD").unwrap_or_default(),
                window: of.count("contextWindow").filter(|window| *window > 0),
            })
        })
        .collect()
}

pub(super) fn parse_rate_limit(line: &JsonFields<'_>) -> Option<RateLimitEvent> {
    let info = line.object("rate_limit_info")?;
    let status = match info.string("status").as_deref() {
        Some("allowed") => RateLimitStatus::Allowed,
        Some("allowed_warning") => RateLimitStatus::Warning,
        Some("rejected") => RateLimitStatus::Rejected,
        Some(_) | None => RateLimitStatus::Unknown,
    };
    let resets = info.count("resetsAt").filter(|at| *at > 0);
    let used = info
        .number("utilization")
        .map(|used| super::json_fields::to_whole_number(used.min(1.0) * 1000.0));
    Some(RateLimitEvent {
        status,
        resets_at_ms: resets.map(|at| if at < SECONDS_END { at * 1000 } else { at }),
        kind: info.line("rateLimitType", LONGEST_WORD),
        used_permille: used.and_then(|used| u16::try_from(used).ok()),
        is_overage: info.flag("isUsingOverage") == Some(true),
    })
}
