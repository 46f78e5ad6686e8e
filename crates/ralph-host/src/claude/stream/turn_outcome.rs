//! Parses how a turn of Claude Code ended, and its errors.

use super::json_fields::JsonFields;
use crate::stream::{TurnError, TurnOutcome};
use alloc::format;

const MAX_WORD_CHARS: usize = 80;

/// Uses structured fields only: the text of an answer is not evidence of an error.
pub(super) fn parse_outcome(line: &JsonFields<'_>) -> TurnOutcome {
    let word = |key| line.line(key, MAX_WORD_CHARS);
    let (subtype, reason) = (word("subtype").unwrap_or_default(), word("terminal_reason"));
    match (&*subtype, reason.as_deref()) {
        ("error_max_turns", _) | (_, Some("max_turns")) => TurnOutcome::MaxTurns,
        ("error_max_budget_usd", _) | (_, Some("budget_exhausted")) => TurnOutcome::Budget,
        (_, Some("aborted_streaming" | "aborted_tools")) => TurnOutcome::Interrupted,
        (_, Some("prompt_too_long" | "blocking_limit" | "rapid_refill_breaker")) => {
            TurnOutcome::ContextFull
        }
        (_, Some("stop_hook_prevented" | "hook_stopped")) => TurnOutcome::HookStopped,
        // The turn never began: this is how the client reports a session that it does not have.
        ("error_during_execution", None) if line.count("num_turns") == Some(0) => {
            TurnOutcome::NoSession
        }
        ("success", None | Some("completed")) if line.flag("is_error") != Some(true) => {
            TurnOutcome::Completed
        }
        _ if word("stop_reason").as_deref() == Some("refusal") => TurnOutcome::Refused,
        (subtype, reason) => {
            let code = line.count("api_error_status");
            let status = code.and_then(error_by_status);
            let named = || ["api_error", "api_error_type"].into_iter().find_map(named_error(line));
            let is_unnamed = line.line("api_error_type", MAX_WORD_CHARS).is_none();
            // A request that failed without a status and a type got no response.
            let unanswered = || {
                let has_no_response = code.is_none() && is_unnamed && reason == Some("api_error");
                has_no_response.then_some(TurnError::Network)
            };
            let shown = if subtype.is_empty() { "no subtype" } else { subtype };
            TurnOutcome::Failed {
                error: status.or_else(named).or_else(unanswered),
                is_request_error: reason == Some("api_error"),
                label: format!("{shown}, {}", reason.unwrap_or("no reason")),
            }
        }
    }
}

fn named_error(line: &JsonFields<'_>) -> impl Fn(&'static str) -> Option<TurnError> {
    |key| error_by_name(&line.line(key, MAX_WORD_CHARS)?)
}

fn error_by_status(status: u64) -> Option<TurnError> {
    Some(match status {
        401 | 403 => TurnError::Auth,
        402 => TurnError::Billing,
        404 => TurnError::NotFound,
        408 => TurnError::Network,
        413 => TurnError::ContextFull,
        429 => TurnError::RateLimit,
        529 => TurnError::Overloaded,
        500..=599 => TurnError::Server,
        _ => return None,
    })
}

pub(super) fn error_by_name(word: &str) -> Option<TurnError> {
    Some(match word {
        "connection_failed" | "connection_timeout" => TurnError::Network,
        "max_output_tokens" => TurnError::OutputLimit,
        "rate_limit_error" | "rate_limit" => TurnError::RateLimit,
        "overloaded_error" | "overloaded" => TurnError::Overloaded,
        "authentication_error" | "permission_error" | "authentication_failed" => TurnError::Auth,
        "billing_error" => TurnError::Billing,
        "not_found_error" | "model_not_found" => TurnError::NotFound,
        "request_too_large" => TurnError::ContextFull,
        "api_error" | "server_error" | "timeout_error" => TurnError::Server,
        _ => return None,
    })
}
