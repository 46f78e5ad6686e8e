//! Parsers for the client's answers to our control requests.

use super::json_fields;
use crate::stream::{ContextUsage, usage_permille};

pub(in crate::claude) fn parse_context_usage(answer: &str) -> Option<ContextUsage> {
    let fields = json_fields::parse_object(answer)?;
    let tokens = fields.count("totalTokens")?;
    let most = fields.count("maxTokens").filter(|most| *most > 0)?;
    Some(ContextUsage { tokens, most, permille: usage_permille(tokens, most) })
}

/// The session cost in micro-USD. The client answers with text only; its first line is `Total cost:            $0.1050`.
pub(in crate::claude) fn parse_session_cost(answer: &str) -> Option<u64> {
    let text = json_fields::parse_object(answer)?.string("text")?;
    let amount =
        text.lines().next()?.strip_prefix("Total cost:")?.trim_start().strip_prefix('$')?;
    let end = amount.find(|char: char| !char.is_ascii_digit() && !matches!(char, '.' | ','));
    let number = amount.get(..end.unwrap_or(amount.len()))?.replace(',', "");
    let usd: f64 = number.parse().ok()?;
    usd.is_finite().then(|| json_fields::usd_to_micro(usd))
}
