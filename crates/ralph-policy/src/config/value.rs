//! One value of a policy file: parsed from TOML, checked against its kind, and rendered as TOML again.

use super::keys::Kind;
use globset::GlobBuilder;
use ralph_core::{limits, text};
use ralph_gates::environment;
use regex::RegexBuilder;
use std::ops::Range;
use std::path::{Component, Path};
use toml::Spanned;
use toml::de::{DeArray, DeFloat, DeInteger, DeValue};

/// Maximum size of a glob or a regular expression; people write shorter ones.
const LONGEST_PATTERN: usize = 500;
/// Maximum size of a compiled regular expression, in bytes.
const LARGEST_REGEX: usize = 1024 * 1024;
/// Maximum number of items in a list; longer lists belong in a file.
pub(super) const MOST_ITEMS: usize = 1000;
const LONGEST_WILDCARD: usize = 200;
const LONGEST_NAME: usize = 60;
const LONGEST_VARIABLE: usize = 100;
const LONGEST_ADDRESS: usize = 2000;
const MOST_USD: f64 = 1e9;
/// How many characters of a wrong value are quoted.
const QUOTED: usize = 60;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Flag(bool),
    Count(u32),
    MicroUsd(u64),
    Permille(u16),
    DurationMs(u64),
    Text(String),
    Texts(Vec<String>),
    Address(String),
}

/// Why a value is rejected.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) span: Range<usize>,
    /// The rest of the sentence that starts with "`key`".
    pub(super) says: String,
    pub(super) hint: String,
}

type Found<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Parses a value of the given kind; on failure returns every problem.
pub(super) fn read(kind: &Kind, found: Found) -> Result<Value, Vec<Wrong>> {
    let value = match (kind, found.get_ref()) {
        (Kind::Flag, DeValue::Boolean(flag)) => Some(Value::Flag(*flag)),
        (Kind::Count { least, most }, DeValue::Integer(number)) => {
            count(number).filter(|count| (least..=most).contains(&count)).map(Value::Count)
        }
        (Kind::Amount, DeValue::Integer(_) | DeValue::Float(_)) => {
            number(found).and_then(micro_usd).map(Value::MicroUsd)
        }
        (Kind::Share, DeValue::Integer(_) | DeValue::Float(_)) => {
            number(found).and_then(permille).map(Value::Permille)
        }
        (Kind::Duration { least_ms, most_ms }, DeValue::String(text)) => {
            limits::parse_duration(text)
                .filter(|ms| (least_ms..=most_ms).contains(&ms))
                .map(Value::DurationMs)
        }
        (Kind::Tests, DeValue::Integer(number)) => count(number).map(Value::Count),
        (Kind::Tests, DeValue::String(text)) if matches!(&**text, "baseline" | "some") => {
            Some(Value::Text(text.to_string()))
        }
        (
            Kind::Name
            | Kind::Wildcard
            | Kind::Choice(_)
            | Kind::Shell
            | Kind::Text
            | Kind::Regex
            | Kind::Directory
            | Kind::Model
            | Kind::Hours
            | Kind::Address,
            DeValue::String(text),
        ) => {
            let value = if let Kind::Address = kind { Value::Address } else { Value::Text };
            return one(kind, text, found.span()).map(value).map_err(|wrong| vec![wrong]);
        }
        (
            Kind::Choices(_)
            | Kind::Names
            | Kind::Argv
            | Kind::Arguments
            | Kind::Globs
            | Kind::Directories
            | Kind::VariableNames,
            DeValue::Array(items),
        ) => return texts(kind, items, found.span()).map(Value::Texts),
        _ => None,
    };
    value.ok_or_else(|| vec![refuse(kind, found)])
}

fn refuse(kind: &Kind, found: Found) -> Wrong {
    let hint = match (kind, found.get_ref()) {
        (Kind::Argv, DeValue::String(_)) => {
            "expected a list of words: `run = [\"npm\", \"test\"]`; for a shell command line use `shell = \"…\"`".to_string()
        }
        _ => kind.expected(),
    };
    Wrong { span: found.span(), says: format!("cannot be {}", describe(found.get_ref())), hint }
}

/// Parses a value of `[environment] set`.
pub(super) fn variable(name: &str, found: Found) -> Result<Value, Wrong> {
    let wrong = |message: &str, hint: &str| Wrong {
        span: found.span(),
        says: message.to_string(),
        hint: hint.to_string(),
    };
    if !is_variable(name) {
        return Err(wrong("is not a valid variable name", VARIABLE_HINT));
    }
    if environment::is_location(name.as_ref()) {
        return Err(wrong("cannot be set", LOCATION_HINT));
    }
    if let DeValue::String(text) = found.get_ref()
        && !text.contains('\0')
    {
        return Ok(Value::Text(text.to_string()));
    }
    let message = format!("cannot be {}", describe(found.get_ref()));
    Err(wrong(&message, "expected a string without NUL"))
}

const VARIABLE_HINT: &str = "expected letters, digits and `_`, not starting with a digit";
const LOCATION_HINT: &str = "it would point git at another repository, so no gate gets it";

fn texts(kind: &Kind, items: &DeArray, span: Range<usize>) -> Result<Vec<String>, Vec<Wrong>> {
    let is_command = matches!(kind, Kind::Argv);
    if items.len() > MOST_ITEMS && !is_command {
        let message = format!("has more than {MOST_ITEMS} items");
        return Err(vec![Wrong {
            span,
            says: message,
            hint: "use globs to shorten the list".to_string(),
        }]);
    }
    let mut texts = Vec::new();
    let mut wrongs = Vec::new();
    for item in items {
        match item.get_ref() {
            DeValue::String(text) => match one(kind, text, item.span()) {
                Ok(text) => texts.push(text),
                Err(wrong) => wrongs.push(wrong),
            },
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => wrongs.push(Wrong {
                span: item.span(),
                says: format!("cannot contain {}", describe(item.get_ref())),
                hint: kind.expected(),
            }),
        }
    }
    if wrongs.is_empty() && is_command && texts.first().is_none_or(String::is_empty) {
        let message = "names no program".to_string();
        wrongs.push(Wrong { span: span.clone(), says: message, hint: kind.expected() });
    }
    if wrongs.is_empty() && matches!(kind, Kind::Choices(_)) {
        let mut seen = Vec::new();
        texts.retain(|text| {
            !seen.contains(text) && {
                seen.push(text.clone());
                true
            }
        });
    }
    if wrongs.is_empty() { Ok(texts) } else { Err(wrongs) }
}

/// Checks one string, on its own or in a list.
fn one(kind: &Kind, text: &str, span: Range<usize>) -> Result<String, Wrong> {
    let problem = match kind {
        Kind::Name | Kind::Names => (!is_name(text)).then(|| kind.expected()),
        Kind::Wildcard => (!is_wildcard(text)).then(|| kind.expected()),
        Kind::Model => (!is_model(text)).then(|| kind.expected()),
        Kind::Hours => hours(text).is_none().then(|| kind.expected()),
        Kind::Choice(choices) | Kind::Choices(choices) => {
            (!choices.contains(&text)).then(|| match text::nearest(text, choices.iter().copied()) {
                Some(near) => format!("did you mean `\"{near}\"`?"),
                None => kind.expected(),
            })
        }
        Kind::Shell if text.trim().is_empty() => Some(kind.expected()),
        Kind::Shell if text.contains("{report}") => Some(
            "nothing is substituted in a shell line; the report's path is in `$RALPH_REPORT`"
                .to_string(),
        ),
        Kind::Regex => regex(text).err(),
        Kind::Globs => glob(text).err(),
        Kind::Directory | Kind::Directories => directory(text),
        Kind::VariableNames if !is_variable(text) => Some(VARIABLE_HINT.to_string()),
        Kind::VariableNames => {
            environment::is_location(text.as_ref()).then(|| LOCATION_HINT.to_string())
        }
        // Not quoted: a mistyped URL may still contain a secret.
        Kind::Address if !is_address(text) => {
            let message = "is not an `https://` URL".to_string();
            return Err(Wrong { span, says: message, hint: kind.expected() });
        }
        Kind::Shell | Kind::Argv | Kind::Arguments | Kind::Text | Kind::Address => None,
        // The other kinds are never strings.
        Kind::Table(_)
        | Kind::Own(_)
        | Kind::Named(_)
        | Kind::Variables
        | Kind::Flag
        | Kind::Count { .. }
        | Kind::Amount
        | Kind::Share
        | Kind::Duration { .. }
        | Kind::Tests => Some(kind.expected()),
    };
    let problem = problem.or_else(|| text.contains('\0').then(|| "remove the NUL".to_string()));
    match problem {
        None => Ok(text.to_string()),
        Some(hint) => Err(Wrong { span, says: format!("cannot be {}", quote(text)), hint }),
    }
}

fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_wildcard(text: &str) -> bool {
    (1..=LONGEST_WILDCARD).contains(&text.len())
        && !text.trim().is_empty()
        && !text.contains(|each: char| each.is_control())
}

/// Accepts any provider's model name, but nothing that an agent could parse as a flag.
fn is_model(text: &str) -> bool {
    (1..=LONGEST_WILDCARD).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Parses `22:00-06:00` into minutes since midnight.
pub(super) fn hours(text: &str) -> Option<(u16, u16)> {
    let minutes = |time: &str| {
        let (hour, minute) = time.split_once(':')?;
        let part = |part: &str, below: u16| -> Option<u16> {
            let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|part| is_plain && *part < below)
        };
        Some(part(hour, 24)? * 60 + part(minute, 60)?)
    };
    let (from, to) = text.split_once('-')?;
    let (from, to) = (minutes(from)?, minutes(to)?);
    (from != to).then_some((from, to))
}

fn is_variable(text: &str) -> bool {
    (1..=LONGEST_VARIABLE).contains(&text.len())
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Requires `https://`, a host and printable ASCII without quotes, so that a URL cannot break out of the quoted line in
/// `curl`'s configuration.
fn is_address(text: &str) -> bool {
    text.len() <= LONGEST_ADDRESS
        && text.strip_prefix("https://").is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        })
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
}

/// A URL reduced to its host; path, query and credentials may be secret.
fn shown_address(address: &str) -> String {
    let rest = address.strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("https://{host}/…")
}

fn regex(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > LONGEST_PATTERN {
        return Err(format!("expected 1 to {LONGEST_PATTERN} bytes"));
    }
    let built = RegexBuilder::new(text).size_limit(LARGEST_REGEX).build();
    // The last line is the message; the lines before it show the pattern.
    built.map(drop).map_err(|error| {
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        text::line(last.strip_prefix("error: ").unwrap_or(last), 200)
    })
}

fn glob(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > LONGEST_PATTERN {
        return Err(format!("expected 1 to {LONGEST_PATTERN} bytes"));
    }
    if text.starts_with('/') || text.starts_with("./") || text.split('/').any(|part| part == "..") {
        return Err(
            "globs are relative to the project: no leading `/` or `./`, no `..`".to_string()
        );
    }
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(drop)
        .map_err(|error| text::line(&error.kind().to_string(), 200))
}

fn directory(text: &str) -> Option<String> {
    let is_inside = !text.is_empty()
        && Path::new(text)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (!is_inside).then(|| Kind::Directory.expected())
}

fn count(number: &DeInteger) -> Option<u32> {
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(found: Found) -> Option<f64> {
    match found.get_ref() {
        DeValue::Integer(number) => count(number).map(f64::from),
        DeValue::Float(number) => DeFloat::as_str(number).parse().ok(),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 0 and 1e15"
)]
fn micro_usd(usd: f64) -> Option<u64> {
    let micro = (0.0..=MOST_USD).contains(&usd).then(|| (usd * 1e6).round() as u64)?;
    // Rounding a tiny amount to 0 would mean "no limit".
    (micro > 0 || usd == 0.0).then_some(micro)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 0 and 1000"
)]
fn permille(share: f64) -> Option<u16> {
    let permille = (0.0..=1.0).contains(&share).then(|| (share * 1000.0).round() as u16)?;
    (permille > 0).then_some(permille)
}

fn describe(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => quote(text),
        DeValue::Integer(number) => format!("`{}`", text::line(&number.to_string(), QUOTED)),
        DeValue::Float(number) => format!("`{}`", text::line(number.as_str(), QUOTED)),
        DeValue::Boolean(flag) => format!("`{flag}`"),
        DeValue::Datetime(_) => "a date".to_string(),
        DeValue::Array(_) => "a list".to_string(),
        DeValue::Table(_) => "a table".to_string(),
    }
}

fn quote(text: &str) -> String {
    format!("`\"{}\"`", text::line(text, QUOTED))
}

impl Value {
    /// Renders the value as TOML; of a URL only the host is shown.
    pub(super) fn to_toml(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Count(count) => count.to_string(),
            Self::MicroUsd(micro) => decimal(*micro, 6),
            Self::Permille(permille) => decimal(u64::from(*permille), 3),
            Self::DurationMs(ms) => format!("\"{}\"", duration(*ms)),
            Self::Text(text) => string(text),
            Self::Address(address) => string(&shown_address(address)),
            Self::Texts(texts) => {
                format!(
                    "[{}]",
                    texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(", ")
                )
            }
        }
    }
}

/// Formats `number * 10^-places` with at least one digit after the point.
fn decimal(number: u64, places: usize) -> String {
    let digits = format!("{number:0width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let part = part.trim_end_matches('0');
    format!("{whole}.{}", if part.is_empty() { "0" } else { part })
}

/// Formats a duration as people write it: `1h30m`.
fn duration(ms: u64) -> String {
    let mut rest = ms;
    let mut out = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]
    {
        // `24h` reads better than `1d`.
        if rest >= size && (unit != "d" || rest >= 2 * size) {
            out.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if out.is_empty() { "0s".to_string() } else { out }
}

/// A basic TOML string. Invisible and control characters are escaped.
fn string(text: &str) -> String {
    let mut out = String::from('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ if text::is_hidden(char) => out.push_str(&format!("\\U{:08X}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}
