//! What serde says about a file, in words for people.

use super::near;

/// A message, and a hint if there is one.
pub(super) fn explain(message: &str) -> (String, Option<String>) {
    if let Some((name, known)) = unknown(message, "unknown field ") {
        return (format!("there is no key `{name}` here"), Some(suggest(name, &known)));
    }
    if let Some((name, known)) = unknown(message, "unknown variant ") {
        return (format!("`{name}` is none of what can stand here"), Some(suggest(name, &known)));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return (format!("{name} is missing here"), None);
    }
    if let Some((found, expected)) = found_and_expected(message) {
        return (format!("this is {found}, not {expected}"), None);
    }
    (message.trim_end().to_owned(), None)
}

/// ``unknown field `x`, expected one of `a`, `b` `` and its two shorter forms.
fn unknown<'a>(message: &'a str, begins: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, rest) = message
        .strip_prefix(begins)?
        .strip_prefix('`')?
        .rsplit_once("`, expected ")
        .or_else(|| Some((message.strip_prefix(begins)?.strip_prefix('`')?, "")))?;
    // A name may have a backtick of its own; what is expected has pairs of them.
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

fn suggest(written: &str, known: &[&str]) -> String {
    if let Some(meant) = near::meant(written, known.iter().copied()) {
        return format!("did you mean `{meant}`?");
    }
    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("there is {}", known.join(", "))
}

/// ``invalid type: integer `5`, expected a string``
fn found_and_expected(message: &str) -> Option<(String, &str)> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "floating", text)) => {
            format!("the number {}", text.strip_prefix("point ").unwrap_or(text).replace('`', ""))
        }
        Some(("boolean", text)) => text.replace('`', ""),
        _ if found == "map" => "a table".to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ => found.to_owned(),
    };
    Some((found, plainly(expected)))
}

/// Types of Rust and serde's names for those of TOML.
fn plainly(expected: &str) -> &str {
    match expected {
        "u16" | "u32" | "u64" => "a whole number that is not negative",
        "i32" => "a whole number",
        "f64" => "a number",
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}
