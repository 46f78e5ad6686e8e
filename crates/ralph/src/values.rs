//! Values of options as people type them.

use ralph_core::limits;

pub(crate) fn complexity(text: &str) -> Result<u8, String> {
    let complexity = text.parse().ok().filter(|complexity| *complexity <= 10);
    complexity.ok_or_else(|| "a number from 0 to 10 is needed".to_string())
}

pub(crate) fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a whole number is needed".to_string())
}

pub(crate) fn at_least_one(text: &str) -> Result<u32, String> {
    count(text)
        .and_then(|count| if count > 0 { Ok(count) } else { Err("1 is the least".to_string()) })
}

/// `500000`, `500k`, `2M`.
pub(crate) fn tokens(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(_) | None => (text, 1),
    };
    let number = number.replace('_', "").parse::<u64>().ok();
    let tokens = number.and_then(|number| number.checked_mul(unit));
    tokens.ok_or_else(|| "a number such as `500k` or `2M` is needed".to_string())
}

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    limits::parse_duration(text)
        .ok_or_else(|| "a duration such as `90m` or `8h` is needed".to_string())
}

pub(crate) fn micro_usd(text: &str) -> Result<u64, String> {
    limits::parse_micro_usd(text).ok_or_else(|| match text.strip_prefix('-') {
        Some(_) => "it has to be a positive sum, such as `20`; 0 is without limit".to_string(),
        None => "an amount such as `20` or `1.50` is needed".to_string(),
    })
}
