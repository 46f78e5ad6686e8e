//! Parsing and formatting of durations, money and token counts.

use crate::text;
use alloc::string::String;
use alloc::{format, vec};
use core::fmt::Write;

/// Parses `90s`, `15m`, `8h`, `1h30m`, `2d`, `500ms`, also in upper case, as other tools write it: no unit differs from
/// another by case alone. A number without a unit is ambiguous and rejected.
pub fn parse_duration(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit_on) = rest.split_at(digits);
        let letters = unit_on.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = unit_on.split_at(letters);
        let ms = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(ms)?)?;
        rest = next.trim_start();
    }
    Some(total)
}

/// Parses an amount of USD into millionths: `20`, `1.50`, `$3`. Rejects amounts above 0 that round to 0.
pub fn parse_micro_usd(text: &str) -> Option<u64> {
    let usd: f64 = text.strip_prefix('$').unwrap_or(text).parse().ok()?;
    if !(0.0..=1e9).contains(&usd) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be between 0 and 1e15; half a millionth more rounds it"
    )]
    let micro = (usd * 1e6 + 0.5) as u64;
    (micro > 0 || usd == 0.0).then_some(micro)
}

/// Parses a number of tokens, with an optional unit: `500000`, `500k`, `2M`.
pub fn parse_tokens(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1_000),
        b'm' | b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    number.replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a share into thousandths: `0.8` or `80%`. Accepts 0.1 to 0.99.
pub fn parse_permille(text: &str) -> Option<u16> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse::<f64>().ok()?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be between 0.1 and 0.99; half a thousandth more rounds it"
    )]
    let permille = (0.1..=0.99).contains(&share).then_some((share * 1000.0 + 0.5) as u16);
    permille
}

/// A duration for people: `14 min`, `2 h 4 min`.
pub fn format_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let parts = match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) if ms < 1000 => return format!("{ms} ms"),
        (0, 0, 0) => return format!("{seconds} s"),
        (0, 0, minutes) => vec![(minutes, "min")],
        (0, hours, minutes) => vec![(hours, "h"), (minutes, "min")],
        (days, hours, _) => vec![(days, "d"), (hours, "h")],
    };
    let mut out = String::new();
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
        if !out.is_empty() {
            out.push(' ');
        }
        let _ = write!(out, "{count} {unit}");
    }
    out
}

/// A number of bytes for people: `512 B`, `24 KiB`, `1.3 GiB`. One digit after the point below 10.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths = tenths.div_ceil(1024);
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 || tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{} {name}", tenths.div_ceil(10))
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// An amount of money for people: `$20`, `$1.82`. Below a cent, with as many digits as needed to differ from zero.
pub fn format_usd(micro_usd: u64) -> String {
    if (1..10_000).contains(&micro_usd) {
        return format_small_usd(micro_usd);
    }
    let cents = micro_usd.saturating_add(5000) / 10_000;
    if cents.is_multiple_of(100) {
        format!("${}", cents / 100)
    } else {
        format!("${}.{:02}", cents / 100, cents % 100)
    }
}

/// Amounts of money of one sentence, all with the digits that the smallest one needs: `$0.0042` and `$1.8200`.
pub fn format_usd_alike<const N: usize>(micro_usd: [u64; N]) -> [String; N] {
    let least = micro_usd.iter().copied().filter(|amount| *amount > 0).min().unwrap_or(0);
    if least >= 10_000 || least == 0 {
        return micro_usd.map(format_usd);
    }
    let shown = format_small_usd(least);
    let digits = shown.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = u32::try_from(digits).unwrap_or(0).min(6);
    let step = 10_u64.pow(6 - digits);
    micro_usd.map(|amount| {
        let steps = amount.saturating_add(step / 2) / step;
        let whole = 10_u64.pow(digits);
        let width = usize::try_from(digits).unwrap_or(0);
        format!("${}.{:0width$}", steps / whole, steps % whole)
    })
}

/// An estimated amount of money: `≈ $1.82`.
pub fn estimate_usd(micro_usd: u64) -> String {
    format!("≈ {}", format_usd(micro_usd))
}

/// Rounded to two significant digits.
fn format_small_usd(micro_usd: u64) -> String {
    let step = if micro_usd < 100 {
        1
    } else if micro_usd < 1_000 {
        10
    } else {
        100
    };
    let rounded = micro_usd.saturating_add(step / 2) / step * step;
    let digits = format!("{rounded:06}");
    format!("$0.{}", digits.trim_end_matches('0'))
}

/// `900 tokens`, `41 k tokens`, `1.2 M tokens`.
pub fn format_tokens(count: u64) -> String {
    let (tenths, unit) = match count {
        0..1_000 => return text::count_noun(count, "token"),
        1_000..1_000_000 => (count / 100, "k"),
        1_000_000.. => (count / 100_000, "M"),
    };
    match tenths % 10 {
        0 => format!("{} {unit} tokens", tenths / 10),
        rest => format!("{}.{rest} {unit} tokens", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_one_sentence_have_the_same_digits() {
        assert_eq!(format_usd_alike([1_820_000, 20_000_000]), ["$1.82", "$20"]);
        assert_eq!(format_usd_alike([4_200, 1_820_000, 0]), ["$0.0042", "$1.8200", "$0.0000"]);
        assert_eq!(format_usd_alike([933, 28_000]), ["$0.00093", "$0.02800"]);
    }

    #[test]
    fn bytes_have_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1500, "1.5 KiB"),
            (20 * 1024, "20 KiB"),
            (3 << 30, "3 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, ms) in [
            ("90s", Some(90_000)),
            ("8h", Some(28_800_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30min", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("500ms", Some(500)),
            ("2H", Some(7_200_000)),
            ("30M", Some(1_800_000)),
            ("1H30M", Some(5_400_000)),
            ("90S", Some(90_000)),
            ("2D", Some(172_800_000)),
            ("500MS", Some(500)),
            ("5Min", Some(300_000)),
            ("2W", None),
            ("H", None),
            ("0s", Some(0)),
            ("", None),
            ("8", None),
            ("h", None),
            ("-1h", None),
            ("8 h", None),
            ("99999999999999999999s", None),
            ("9999999999999999d", None),
        ] {
            assert_eq!(parse_duration(text), ms, "{text:?}");
        }
    }

    #[test]
    fn tokens_and_shares_are_parsed() {
        for (text, expected) in [
            ("0", Some(0)),
            ("500000", Some(500_000)),
            ("500_000", Some(500_000)),
            ("500k", Some(500_000)),
            ("2M", Some(2_000_000)),
            ("M", None),
            ("", None),
            ("-1", None),
            ("é", None),
            ("99999999999999999999", None),
            ("9999999999999M", Some(9_999_999_999_999_000_000)),
            ("99999999999999M", None),
        ] {
            assert_eq!(parse_tokens(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("0.8", Some(800)),
            ("80%", Some(800)),
            ("0.805", Some(805)),
            ("0.99", Some(990)),
            ("1", None),
            ("80", None),
            ("0.05", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(parse_permille(text), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_money_and_tokens_are_formatted() {
        let shown: alloc::vec::Vec<_> =
            [0, 999, 59_000, 60_000, 14 * 60_000, 7_440_000, 8 * 3_600_000, 90_000_000]
                .map(format_duration)
                .into();
        assert_eq!(shown.join(", "), "0 ms, 999 ms, 59 s, 1 min, 14 min, 2 h 4 min, 8 h, 1 d 1 h");
        assert_eq!([0, 1_820_000, 20_000_000].map(format_usd).join(", "), "$0, $1.82, $20");
        assert_eq!(
            [1, 42, 100, 996, 4_999, 4_321, 9_949, 9_999, 10_000].map(format_usd).join(", "),
            "$0.000001, $0.000042, $0.0001, $0.001, $0.005, $0.0043, $0.0099, $0.01, $0.01"
        );
        assert_eq!(
            [0, 1, 999, 1_000, 41_900, 999_999, 1_000_000, 1_240_000].map(format_tokens).join(", "),
            "0 tokens, 1 token, 999 tokens, 1 k tokens, 41.9 k tokens, 999.9 k tokens, 1 M tokens, 1.2 M tokens"
        );
    }
}
