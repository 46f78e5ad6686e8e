//! Parsers for the values of command-line options. An error text is printed as the hint of a usage error.

use ralph_core::units;

/// A number from 0 to 10.
pub(crate) fn parse_complexity(text: &str) -> Result<u8, String> {
    let complexity = text.parse().ok().filter(|complexity| *complexity <= 10);
    complexity.ok_or_else(|| "expected a number from 0 to 10".to_string())
}

pub(crate) fn parse_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a whole number".to_string())
}

pub(crate) fn parse_positive_count(text: &str) -> Result<u32, String> {
    parse_count(text).and_then(|count| {
        if count > 0 { Ok(count) } else { Err("expected at least 1".to_string()) }
    })
}

/// A number of tokens, with an optional unit: `500000`, `500k`, `2M`.
pub(crate) fn parse_tokens(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(_) | None => (text, 1),
    };
    let number = number.replace('_', "").parse::<u64>().ok();
    let tokens = number.and_then(|number| number.checked_mul(unit));
    tokens.ok_or_else(|| "expected a number such as `500k` or `2M`".to_string())
}

/// In milliseconds. `0` needs no unit.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    units::parse_duration(text)
        .ok_or_else(|| "expected a duration such as `90m` or `8h`".to_string())
}

pub(crate) fn parse_micro_usd(text: &str) -> Result<u64, String> {
    units::parse_micro_usd(text).ok_or_else(|| match text.strip_prefix('-') {
        Some(_) => "expected a positive amount such as `20`; 0 means no limit".to_string(),
        None => "expected an amount such as `20` or `1.50`".to_string(),
    })
}

/// `0.8` or `80%`, in thousandths.
pub(crate) fn parse_permille(text: &str) -> Result<u16, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let share = share.ok().filter(|share| (0.1..=0.99).contains(share));
    let wrong = || "expected a share from 0.1 to 0.99, such as `0.8`".to_string();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be between 0.1 and 0.99"
    )]
    let permille = share.map(|share| (share * 1000.0).round() as u16);
    permille.ok_or_else(wrong)
}
