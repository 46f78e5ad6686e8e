//! The input that Claude Code passes to a status line command. Parsed as tolerantly as its events: a field of an
//! unexpected type counts as absent, but the input must be an object.

use crate::status_line_input::StatusLineInput;
use alloc::string::String;
use ralph_core::id::SessionId;
use serde::Deserialize;
use serde_json::value::RawValue;

type StatusLineField<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct StatusLineWire<'a> {
    #[serde(borrow)]
    session_id: StatusLineField<'a>,
    #[serde(borrow)]
    cost: StatusLineField<'a>,
    #[serde(borrow)]
    context_window: StatusLineField<'a>,
}

#[derive(Deserialize)]
struct StatusLineCostWire<'a> {
    #[serde(borrow)]
    total_cost_usd: StatusLineField<'a>,
}

#[derive(Deserialize)]
struct StatusLineContextWire<'a> {
    #[serde(borrow)]
    used_percentage: StatusLineField<'a>,
}

/// `None` if the input contains no valid session id.
pub(super) fn parse_status_line(input: &[u8]) -> Option<StatusLineInput> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    // serde would accept a list as the fields in order.
    if input.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let wire: StatusLineWire = serde_json::from_slice(input).ok()?;
    let session = SessionId::parse(&read_field::<String>(wire.session_id)?)?;
    let cost = read_field::<StatusLineCostWire>(wire.cost)
        .and_then(|cost| read_number(cost.total_cost_usd, 1e9));
    let context = read_field::<StatusLineContextWire>(wire.context_window)
        .and_then(|context| read_number(context.used_percentage, 1e3));
    Some(StatusLineInput {
        session,
        cost_micro_usd: cost.map(|usd| round(usd * 1e6)),
        context_percent: context.map(|percent| u8::try_from(round(percent)).unwrap_or(u8::MAX)),
    })
}

/// Rejects lists, which serde would accept in place of a struct.
fn read_field<'a, T: Deserialize<'a>>(field: StatusLineField<'a>) -> Option<T> {
    let text = field?.get();
    if text.starts_with('[') { None } else { serde_json::from_str(text).ok() }
}

/// A number from 0 to `most`.
fn read_number(field: StatusLineField<'_>, most: f64) -> Option<f64> {
    read_field::<f64>(field).filter(|number| (0.0..=most).contains(number))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 0 and 1e15"
)]
fn round(number: f64) -> u64 {
    // `round` is not part of `core`.
    (number + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "387efd9b-f5d1-4d5e-b749-ea1a460fcfe8";

    fn parse_cost_and_context(more: &str) -> Option<(Option<u64>, Option<u8>)> {
        let input = alloc::format!(r#"{{"session_id":"{SESSION}"{more}}}"#);
        parse_status_line(input.as_bytes())
            .map(|glance| (glance.cost_micro_usd, glance.context_percent))
    }

    #[test]
    fn fields_are_parsed_and_unexpected_types_are_absent() {
        for (more, expected) in [
            ("", (None, None)),
            (r#","cost":{"total_cost_usd":0.05004}"#, (Some(50_040), None)),
            (r#","context_window":{"used_percentage":13}"#, (None, Some(13))),
            (
                r#","context_window":{"used_percentage":40.6},"cost":{"total_cost_usd":2}"#,
                (Some(2_000_000), Some(41)),
            ),
            (
                r#","cost":{"total_cost_usd":-1},"context_window":{"used_percentage":1e99}"#,
                (None, None),
            ),
            (
                r#","cost":{"total_cost_usd":"1"},"context_window":{"used_percentage":null}"#,
                (None, None),
            ),
            (r#","cost":[1],"context_window":"full""#, (None, None)),
            (r#","context_window":{"used_percentage":999}"#, (None, Some(255))),
        ] {
            assert_eq!(parse_cost_and_context(more), Some(expected), "{more}");
        }
    }

    #[test]
    fn input_without_a_session_id_is_rejected() {
        for input in [
            &b""[..],
            b"null",
            b"{}",
            b"[\"387efd9b\"]",
            b"{\"session_id\":7}",
            b"{\"session_id\":\"../../x\"}",
            b"{\"session_id\":\"abc\"",
            b"\xff\xfe{}",
        ] {
            assert_eq!(parse_status_line(input), None, "{input:?}");
        }
    }
}
