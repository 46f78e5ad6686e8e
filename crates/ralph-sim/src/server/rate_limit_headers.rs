//! The response headers and the error by which the API reports an account's rate limit. The client passes them on only
//! if it is logged in (`CLAUDE_CODE_OAUTH_TOKEN`), not with an API key.

use crate::scenario::{ScriptedApiError, ScriptedRateLimit};
use ralph_sys::clock;

const REJECTED: &str = "rejected";
const REJECTION_MESSAGE: &str =
    "This request would exceed your account's rate limit. Please try again later.";
/// Default utilization of a window that rejects requests.
const FULL_UTILIZATION: &str = "1.0";
/// Default utilization of any other window.
const DEFAULT_UTILIZATION: &str = "0.9";

pub(super) fn is_rejected(limit: &ScriptedRateLimit) -> bool {
    limit.status == REJECTED
}

/// The API error for a rejected request.
pub(crate) fn rejection_error(limit: &ScriptedRateLimit) -> Option<ScriptedApiError> {
    let (status, kind) = (429, "rate_limit_error".to_owned());
    is_rejected(limit).then(|| ScriptedApiError {
        status,
        kind,
        message: REJECTION_MESSAGE.to_owned(),
    })
}

/// When the limit resets, in whole seconds since the epoch, rounded up so that it is never reported too early.
pub(crate) fn reset_time(limit: &ScriptedRateLimit) -> Option<u64> {
    limit.resets_in_ms.map(|ms| clock::now_ms().saturating_add(ms).div_ceil(1000))
}

pub(super) fn rate_limit_headers(limit: &ScriptedRateLimit) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("anthropic-ratelimit-unified-status", limit.status.clone()),
        ("anthropic-ratelimit-unified-representative-claim", limit.kind.clone()),
    ];
    let window = match limit.kind.as_str() {
        "five_hour" => Some(FIVE_HOURS),
        "seven_day" => Some(SEVEN_DAYS),
        _ => None,
    };
    if let Some(reset) = reset_time(limit).map(|reset| reset.to_string()) {
        headers.extend(window.map(|window| (window.reset, reset.clone())));
        headers.push(("anthropic-ratelimit-unified-reset", reset));
    }
    if let Some(window) = window {
        let usual = if is_rejected(limit) { FULL_UTILIZATION } else { DEFAULT_UTILIZATION };
        let used = limit.used_percent.map(|percent| (f64::from(percent) / 100.0).to_string());
        headers.push((window.status, limit.status.clone()));
        headers.push((window.utilization, used.unwrap_or_else(|| usual.to_owned())));
    }
    headers
}

#[derive(Clone, Copy)]
struct RateLimitWindowHeaders {
    status: &'static str,
    reset: &'static str,
    utilization: &'static str,
}

const FIVE_HOURS: RateLimitWindowHeaders = RateLimitWindowHeaders {
    status: "anthropic-ratelimit-unified-5h-status",
    reset: "anthropic-ratelimit-unified-5h-reset",
    utilization: "anthropic-ratelimit-unified-5h-utilization",
};

const SEVEN_DAYS: RateLimitWindowHeaders = RateLimitWindowHeaders {
    status: "anthropic-ratelimit-unified-7d-status",
    reset: "anthropic-ratelimit-unified-7d-reset",
    utilization: "anthropic-ratelimit-unified-7d-utilization",
};
