//! Turns the error messages of serde into readable ones.

use super::suggestion;

/// Returns a message and an optional hint.
pub(super) fn explain_serde_error(message: &str) -> (String, Option<String>) {
    if let Some((name, known)) = parse_unknown(message, "unknown field ") {
        return (format!("unknown key `{name}`"), Some(suggest(name, &known)));
    }
    if let Some((name, known)) = parse_unknown(message, "unknown variant ") {
        return (format!("unknown value `{name}`"), Some(suggest(name, &known)));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return (format!("missing key {name}"), None);
    }
    if let Some((found, expected)) = found_and_expected(message) {
        return (format!("expected {expected}, found {found}"), None);
    }
    (message.trim_end().to_owned(), None)
}

/// ``unknown field `x`, expected one of `a`, `b` `` and its two shorter forms.
fn parse_unknown<'a>(message: &'a str, begins: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, rest) = message
        .strip_prefix(begins)?
        .strip_prefix('`')?
        .rsplit_once("`, expected ")
        .or_else(|| Some((message.strip_prefix(begins)?.strip_prefix('`')?, "")))?;
    // The name may contain a backtick; the expected words are in pairs of them.
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

fn suggest(written: &str, known: &[&str]) -> String {
    if let Some(meant) = suggestion::closest_word(written, known.iter().copied()) {
        return format!("did you mean `{meant}`?");
    }
    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("expected one of {}", known.join(", "))
}

/// ``invalid type: integer `5`, expected a string``
fn found_and_expected(message: &str) -> Option<(String, &str)> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("the string {text}"),
        Some(("integer" | "floating", text)) => {
            format!("the number {}", text.strip_prefix("point ").unwrap_or(text).replace('`', ""))
        }
        Some(("boolean", text)) => text.replace('`', ""),
        _ if found == "map" => "a table".to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ => found.to_owned(),
    };
    Some((found, toml_type_name(expected)))
}

/// Replaces Rust type names and serde's terms with those of TOML.
fn toml_type_name(expected: &str) -> &str {
    match expected {
        "u16" | "u32" | "u64" => "a non-negative integer",
        "i32" => "an integer",
        "f64" => "a number",
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}
