//! One value of a policy file: parsed from TOML, checked against its kind, and rendered as TOML again.

mod value_format;

use super::apply::ConfigDraft;
use super::glob_check::{check_glob, check_selected_glob, only_excludes};
use super::judge_backend::{backend_toml, parse_backend};
use super::keys::{
    SetAmount, SetBackend, SetCount, SetFlag, SetShare, SetText, SetTexts, SetVariable, ValueKind,
};
use super::url_text::redact_url;
use ralph_core::judge::JudgeBackend;
use ralph_core::{text, units};
use ralph_gates::environment;
use regex::RegexBuilder;
use std::ops::Range;
use std::path::{Component, Path};
use toml::Spanned;
use toml::de::{DeArray, DeFloat, DeInteger, DeValue};
use value_format::{format_decimal, format_duration};

/// Maximum size of a glob or a regular expression; people write shorter ones.
pub(super) const MAX_PATTERN_BYTES: usize = 500;
/// Maximum size of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 1024 * 1024;
/// Maximum number of items in a list; longer lists belong in a file.
pub(super) const MAX_ITEMS: usize = 1000;
pub(super) const MAX_WILDCARD_BYTES: usize = 200;
pub(super) const MAX_NAME_BYTES: usize = 60;
pub(super) const MAX_VARIABLE_BYTES: usize = 100;
const MAX_URL_BYTES: usize = 2000;
pub(super) const MAX_USD: u32 = 1_000_000_000;
/// How many characters of a wrong value are quoted.
const MAX_QUOTED_CHARS: usize = 60;

#[derive(Clone, Debug)]
pub(super) enum ConfigValue {
    Flag(bool, SetFlag),
    Count(u32, SetCount),
    MicroUsd(u64, SetAmount),
    /// A decimal number, in units of its last digit, and how many digits it has after the point.
    Decimal(u16, usize, SetShare),
    DurationMs(u64, SetAmount),
    Text(String, SetText),
    Texts(Vec<String>, SetTexts),
    Url(String, SetText),
    Variable {
        name: String,
        text: String,
        set: SetVariable,
    },
    Backend(JudgeBackend, SetBackend),
}

#[derive(Debug)]
pub(super) struct RejectedValue {
    pub(super) span: Range<usize>,
    /// The rest of the sentence that starts with "`key`".
    pub(super) message: String,
    pub(super) hint: String,
}

type SpannedValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Parses a value of the given kind; on failure returns every problem.
pub(super) fn parse_value(
    kind: &ValueKind,
    found: SpannedValue,
) -> Result<ConfigValue, Vec<RejectedValue>> {
    let value = match (kind, found.get_ref()) {
        (ValueKind::Flag(set), DeValue::Boolean(flag)) => Some(ConfigValue::Flag(*flag, *set)),
        (ValueKind::Count { least, most, set }, DeValue::Integer(number)) => parse_count(number)
            .filter(|count| (least..=most).contains(&count))
            .map(|count| ConfigValue::Count(count, *set)),
        (ValueKind::Usd(set), DeValue::Integer(_) | DeValue::Float(_)) => {
            let micro = parse_number(found).and_then(to_micro_usd);
            micro.map(|micro| ConfigValue::MicroUsd(micro, *set))
        }
        (ValueKind::Share(set), DeValue::Integer(_) | DeValue::Float(_)) => {
            let permille = parse_number(found).and_then(|share| to_units(share, 1.0, 3));
            permille.filter(|one| *one > 0).map(|one| ConfigValue::Decimal(one, 3, *set))
        }
        (ValueKind::Percent(set), DeValue::Integer(_) | DeValue::Float(_)) => {
            let units = parse_number(found).and_then(|percent| to_units(percent, 100.0, 2));
            units.map(|units| ConfigValue::Decimal(units, 2, *set))
        }
        (ValueKind::Duration { least_ms, most_ms, set }, DeValue::String(text)) => {
            units::parse_duration(text)
                .filter(|ms| (least_ms..=most_ms).contains(&ms))
                .map(|ms| ConfigValue::DurationMs(ms, *set))
        }
        (ValueKind::MinTests { count: set, .. }, DeValue::Integer(number)) => {
            parse_count(number).map(|count| ConfigValue::Count(count, *set))
        }
        (ValueKind::MinTests { text: set, .. }, DeValue::String(text))
            if matches!(&**text, "baseline" | "some") =>
        {
            Some(ConfigValue::Text(text.to_string(), *set))
        }
        (
            ValueKind::Name(set)
            | ValueKind::Wildcard(set)
            | ValueKind::Choice(_, set)
            | ValueKind::Shell(set)
            | ValueKind::Text(set)
            | ValueKind::Regex(set)
            | ValueKind::Directory(set)
            | ValueKind::File(set)
            | ValueKind::Model(set)
            | ValueKind::Hours(set)
            | ValueKind::Url(set)
            | ValueKind::Endpoint(set),
            DeValue::String(text),
        ) => {
            let text = parse_text(kind, text, found.span()).map_err(|wrong| vec![wrong])?;
            let is_url = matches!(kind, ValueKind::Url(_) | ValueKind::Endpoint(_));
            Some(if is_url { ConfigValue::Url(text, *set) } else { ConfigValue::Text(text, *set) })
        }
        (
            ValueKind::Choices(_, set)
            | ValueKind::Names(set)
            | ValueKind::Argv(set)
            | ValueKind::Arguments(set)
            | ValueKind::Globs(set)
            | ValueKind::Selection(set)
            | ValueKind::Directories(set)
            | ValueKind::VariableNames(set),
            DeValue::Array(items),
        ) => Some(ConfigValue::Texts(parse_texts(kind, items, found.span())?, *set)),
        (ValueKind::Backend(set), DeValue::Table(table)) => {
            Some(ConfigValue::Backend(parse_backend(table, found.span())?, *set))
        }
        _ => None,
    };
    value.ok_or_else(|| vec![reject_type(kind, found)])
}

fn reject_type(kind: &ValueKind, found: SpannedValue) -> RejectedValue {
    let hint = match (kind, found.get_ref()) {
        (ValueKind::Argv(_), DeValue::String(_)) => {
            "expected a list of words: `run = [\"npm\", \"test\"]`; for a shell command line use `shell = \"…\"`".to_string()
        }
        _ => kind.expected(),
    };
    RejectedValue {
        span: found.span(),
        message: format!("cannot be {}", describe_value(found.get_ref())),
        hint,
    }
}

/// Parses a value of `[environment] set`.
pub(super) fn parse_variable(
    name: &str,
    found: SpannedValue,
    set: SetVariable,
) -> Result<ConfigValue, RejectedValue> {
    let wrong = |message: &str, hint: &str| RejectedValue {
        span: found.span(),
        message: message.to_string(),
        hint: hint.to_string(),
    };
    if !is_variable(name) {
        return Err(wrong("is not a valid variable name", VARIABLE_HINT));
    }
    if environment::is_git_location(name.as_ref()) {
        return Err(wrong("cannot be set", GIT_VARIABLE_HINT));
    }
    if let DeValue::String(text) = found.get_ref()
        && !text.contains('\0')
    {
        return Ok(ConfigValue::Variable { name: name.to_string(), text: text.to_string(), set });
    }
    let message = format!("cannot be {}", describe_value(found.get_ref()));
    Err(wrong(&message, "expected a string without NUL"))
}

pub(super) const FILE_HINT: &str = "expected a file inside the project, without `..`";
pub(super) const DIRECTORY_HINT: &str = "expected a directory inside the project, without `..`";
const VARIABLE_HINT: &str = "expected letters, digits and `_`, not starting with a digit";
const GIT_VARIABLE_HINT: &str = "it would point git at another repository, so no gate gets it";

fn parse_texts(
    kind: &ValueKind,
    items: &DeArray,
    span: Range<usize>,
) -> Result<Vec<String>, Vec<RejectedValue>> {
    let is_command = matches!(kind, ValueKind::Argv(_));
    if items.len() > MAX_ITEMS && !is_command {
        let message = format!("has more than {MAX_ITEMS} items");
        return Err(vec![RejectedValue {
            span,
            message,
            hint: "use globs to shorten the list".to_string(),
        }]);
    }
    let mut texts = Vec::new();
    let mut wrongs = Vec::new();
    for item in items {
        match item.get_ref() {
            DeValue::String(text) => match parse_text(kind, text, item.span()) {
                Ok(text) => texts.push(text),
                Err(wrong) => wrongs.push(wrong),
            },
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => wrongs.push(RejectedValue {
                span: item.span(),
                message: format!("cannot contain {}", describe_value(item.get_ref())),
                hint: kind.expected(),
            }),
        }
    }
    if wrongs.is_empty() && is_command && texts.first().is_none_or(String::is_empty) {
        let message = "names no program".to_string();
        wrongs.push(RejectedValue { span: span.clone(), message, hint: kind.expected() });
    }
    if wrongs.is_empty() && matches!(kind, ValueKind::Selection(_)) && only_excludes(&texts) {
        let message = "names only files that it excludes".to_string();
        let hint = format!("name what it includes first: `[\"**\", \"{}\"]`", texts[0]);
        wrongs.push(RejectedValue { span: span.clone(), message, hint });
    }
    if wrongs.is_empty() && matches!(kind, ValueKind::Choices(..)) {
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
fn parse_text(kind: &ValueKind, text: &str, span: Range<usize>) -> Result<String, RejectedValue> {
    let problem = match kind {
        ValueKind::Name(_) | ValueKind::Names(_) => (!is_name(text)).then(|| kind.expected()),
        ValueKind::Wildcard(_) => (!is_wildcard(text)).then(|| kind.expected()),
        ValueKind::Model(_) => (!is_model(text)).then(|| kind.expected()),
        ValueKind::Hours(_) => parse_hours(text).is_none().then(|| kind.expected()),
        ValueKind::Choice(choices, _) | ValueKind::Choices(choices, _) => {
            (!choices.contains(&text)).then(|| match text::nearest(text, choices.iter().copied()) {
                Some(near) => format!("did you mean `\"{near}\"`?"),
                None => kind.expected(),
            })
        }
        ValueKind::Shell(_) if text.trim().is_empty() => Some(kind.expected()),
        ValueKind::Shell(_) if text.contains("{report}") => Some(
            "nothing is substituted in a shell line; the report's path is in `$RALPH_REPORT`"
                .to_string(),
        ),
        ValueKind::Regex(_) => check_regex(text).err(),
        ValueKind::Globs(_) => check_glob(text).err(),
        ValueKind::Selection(_) => check_selected_glob(text).err(),
        ValueKind::Directories(_) if text.starts_with('!') => {
            Some("it names directories, and `!` excludes none of them".to_string())
        }
        ValueKind::Directory(_) | ValueKind::Directories(_) => {
            (!is_inside_project(text)).then(|| DIRECTORY_HINT.to_string())
        }
        ValueKind::File(_) => (!is_inside_project(text)).then(|| FILE_HINT.to_string()),
        ValueKind::VariableNames(_) if !is_variable(text) => Some(VARIABLE_HINT.to_string()),
        ValueKind::VariableNames(_) => {
            environment::is_git_location(text.as_ref()).then(|| GIT_VARIABLE_HINT.to_string())
        }
        // Not quoted: a mistyped URL may still contain a secret.
        ValueKind::Url(_) if !is_url(text, &["https://"]) => {
            let message = "is not an `https://` URL".to_string();
            return Err(RejectedValue { span, message, hint: kind.expected() });
        }
        // A collector often listens on the same machine, without TLS.
        ValueKind::Endpoint(_) if !is_url(text, &["https://", "http://"]) => {
            let message = "is not an `http://` or `https://` URL".to_string();
            return Err(RejectedValue { span, message, hint: kind.expected() });
        }
        ValueKind::Shell(_)
        | ValueKind::Argv(_)
        | ValueKind::Arguments(_)
        | ValueKind::Text(_)
        | ValueKind::Url(_)
        | ValueKind::Endpoint(_) => None,
        // The other kinds are never strings.
        ValueKind::Table(_)
        | ValueKind::UserOnly(_)
        | ValueKind::NamedEntries(_)
        | ValueKind::Variables(_)
        | ValueKind::Flag(_)
        | ValueKind::Count { .. }
        | ValueKind::Usd(_)
        | ValueKind::Share(_)
        | ValueKind::Percent(_)
        | ValueKind::Duration { .. }
        | ValueKind::Backend(_)
        | ValueKind::MinTests { .. } => Some(kind.expected()),
    };
    let problem = problem.or_else(|| text.contains('\0').then(|| "remove the NUL".to_string()));
    match problem {
        None => Ok(text.to_string()),
        Some(hint) => {
            Err(RejectedValue { span, message: format!("cannot be {}", quote(text)), hint })
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_wildcard(text: &str) -> bool {
    (1..=MAX_WILDCARD_BYTES).contains(&text.len())
        && !text.trim().is_empty()
        && !text.contains(|each: char| each.is_control())
}

/// Accepts any provider's model name, but nothing that an agent could parse as a flag.
pub(super) fn is_model(text: &str) -> bool {
    (1..=MAX_WILDCARD_BYTES).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Parses `22:00-06:00` into minutes since midnight.
pub(super) fn parse_hours(text: &str) -> Option<(u16, u16)> {
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

pub(super) fn is_variable(text: &str) -> bool {
    (1..=MAX_VARIABLE_BYTES).contains(&text.len())
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Requires `https://`, a host and printable ASCII without quotes, so that a URL cannot break out of the quoted line in
/// `curl`'s configuration.
pub(super) fn is_url(text: &str, schemes: &[&str]) -> bool {
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    text.len() <= MAX_URL_BYTES
        && rest.is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        })
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
}

fn check_regex(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
        return Err(format!("expected 1 to {MAX_PATTERN_BYTES} bytes"));
    }
    let built = RegexBuilder::new(text).size_limit(MAX_REGEX_BYTES).build();
    // The last line is the message; the lines before it show the pattern.
    built.map(drop).map_err(|error| {
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        text::clean_line(last.strip_prefix("error: ").unwrap_or(last), 200)
    })
}

fn is_inside_project(text: &str) -> bool {
    !text.is_empty()
        && Path::new(text)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn parse_count(number: &DeInteger) -> Option<u32> {
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

fn parse_number(found: SpannedValue) -> Option<f64> {
    match found.get_ref() {
        DeValue::Integer(number) => parse_count(number).map(f64::from),
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
fn to_micro_usd(usd: f64) -> Option<u64> {
    let micro = (0.0..=f64::from(MAX_USD)).contains(&usd).then(|| (usd * 1e6).round() as u64)?;
    // Rounding a tiny amount to 0 would mean "no limit".
    (micro > 0 || usd == 0.0).then_some(micro)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 0 and 10,000"
)]
fn to_units(number: f64, most: f64, digits: i32) -> Option<u16> {
    (0.0..=most).contains(&number).then(|| (number * 10_f64.powi(digits)).round() as u16)
}

fn describe_value(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => quote(text),
        DeValue::Integer(number) => {
            format!("`{}`", text::clean_line(&number.to_string(), MAX_QUOTED_CHARS))
        }
        DeValue::Float(number) => {
            format!("`{}`", text::clean_line(number.as_str(), MAX_QUOTED_CHARS))
        }
        DeValue::Boolean(flag) => format!("`{flag}`"),
        DeValue::Datetime(_) => "a date".to_string(),
        DeValue::Array(_) => "a list".to_string(),
        DeValue::Table(_) => "a table".to_string(),
    }
}

fn quote(text: &str) -> String {
    format!("`\"{}\"`", text::clean_line(text, MAX_QUOTED_CHARS))
}

impl ConfigValue {
    pub(super) fn apply(&self, draft: &mut ConfigDraft) {
        match self {
            Self::Flag(flag, set) => set(draft, *flag),
            Self::Count(count, set) => set(draft, *count),
            Self::Decimal(units, _, set) => set(draft, *units),
            Self::MicroUsd(amount, set) | Self::DurationMs(amount, set) => set(draft, *amount),
            Self::Text(text, set) | Self::Url(text, set) => set(draft, text),
            Self::Texts(texts, set) => set(draft, texts),
            Self::Variable { name, text, set } => set(draft, name, text),
            Self::Backend(backend, set) => set(draft, backend),
        }
    }

    /// Renders the value as TOML; of a URL only the host is shown.
    pub(super) fn to_toml(&self) -> String {
        match self {
            Self::Flag(flag, _) => flag.to_string(),
            Self::Count(count, _) => count.to_string(),
            Self::MicroUsd(micro, _) => format_decimal(*micro, 6),
            Self::Decimal(units, digits, _) => format_decimal(u64::from(*units), *digits),
            Self::DurationMs(ms, _) => format!("\"{}\"", format_duration(*ms)),
            Self::Text(text, _) | Self::Variable { text, .. } => toml_string(text),
            Self::Url(address, _) => toml_string(&redact_url(address)),
            Self::Texts(texts, _) => toml_list(texts),
            Self::Backend(backend, _) => backend_toml(backend),
        }
    }
}

pub(crate) fn toml_list(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| toml_string(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A basic TOML string. Invisible and control characters are escaped.
pub fn toml_string(text: &str) -> String {
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
