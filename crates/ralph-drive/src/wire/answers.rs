//! Parsers for the client's answers to our control requests.

use super::fields;

/// The answer to `get_context_usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub tokens: u64,
    pub most: u64,
    pub permille: u16,
}

pub fn context(answer: &str) -> Option<Context> {
    let fields = fields::object(answer)?;
    let tokens = fields.count("totalTokens")?;
    let most = fields.count("maxTokens").filter(|most| *most > 0)?;
    Some(Context { tokens, most, permille: permille(tokens, most) })
}

/// The share of the context window in use, in thousandths, capped at 1000.
pub fn permille(tokens: u64, most: u64) -> u16 {
    let permille = u128::from(tokens) * 1000 / u128::from(most.max(1));
    u16::try_from(permille.min(1000)).unwrap_or(1000)
}

/// The session cost in micro-USD. The client answers with text only; its first line is `Total cost:            $0.1050`.
pub fn cost(answer: &str) -> Option<u64> {
    let text = fields::object(answer)?.string("text")?;
    let amount =
        text.lines().next()?.strip_prefix("Total cost:")?.trim_start().strip_prefix('$')?;
    let end = amount.find(|char: char| !char.is_ascii_digit() && !matches!(char, '.' | ','));
    let number = amount.get(..end.unwrap_or(amount.len()))?.replace(',', "");
    let usd: f64 = number.parse().ok()?;
    usd.is_finite().then(|| fields::micro_usd(usd))
}
