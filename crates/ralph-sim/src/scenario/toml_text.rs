//! Formats values as readable TOML.

use serde_json::{Number, Value};

/// A longer list is split over several lines.
const MAX_LIST_WIDTH: usize = 90;

pub(super) fn format_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { basic_string(name) }
}

/// In the form that needs the fewest escapes: multi-line, literal, or basic.
pub(super) fn format_string(text: &str) -> String {
    let is_plain = !text.chars().any(needs_escape);
    let is_awkward = text.contains(['\\', '"']);
    if text.contains('\n') && text.len() > 1 {
        let is_literal = is_plain && is_awkward && !text.contains("'''") && !text.ends_with('\'');
        return if is_literal { format!("'''\n{text}'''") } else { multiline_string(text) };
    }
    if is_plain && is_awkward && !text.contains(['\'', '\n']) {
        return format!("'{text}'");
    }
    basic_string(text)
}

pub(super) fn format_list(values: impl Iterator<Item = String>) -> String {
    let values: Vec<_> = values.collect();
    let short = values.join(", ");
    if short.len() <= MAX_LIST_WIDTH && !short.contains('\n') {
        return format!("[{short}]");
    }
    let lines = values.iter().map(|value| format!("  {value},\n"));
    format!("[\n{}]", lines.collect::<String>())
}

pub(super) fn format_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.0}")
    } else if number.is_nan() {
        "nan".to_owned()
    } else {
        // As short as reads back the same, with a point or an exponent.
        format!("{number:?}")
    }
}

/// Formats JSON as an inline value. Nulls are left out.
pub(super) fn format_inline(value: &Value) -> String {
    match value {
        Value::Null => "{}".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format_json_number(number),
        Value::String(text) => format_string(text),
        Value::Array(items) => {
            let items = items.iter().filter(|item| !item.is_null()).map(format_inline);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<_> = fields
                .map(|(name, value)| format!("{} = {}", format_key(name), format_inline(value)))
                .collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
    }
}

fn format_json_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => format!("{float:?}"),
        (None, None) => number.to_string(),
    }
}

fn basic_string(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other => push_escaped(&mut out, other),
        }
    }
    out.push('"');
    out
}

fn multiline_string(text: &str) -> String {
    let mut out = String::from("\"\"\"\n");
    let mut quotes = 0;
    for char in text.chars() {
        quotes = if char == '"' { quotes + 1 } else { 0 };
        if quotes == 3 {
            out.push_str("\\\"");
            quotes = 0;
        } else if char == '\n' || char == '"' {
            out.push(char);
        } else {
            push_escaped(&mut out, char);
        }
    }
    out.push_str("\"\"\"");
    out
}

fn push_escaped(out: &mut String, char: char) {
    match char {
        '\\' => out.push_str("\\\\"),
        '\r' => out.push_str("\\r"),
        char if needs_escape(char) => {
            let code = u32::from(char);
            let escape =
                if code > 0xffff { format!("\\U{code:08x}") } else { format!("\\u{code:04x}") };
            out.push_str(&escape);
        }
        char => out.push(char),
    }
}

/// Characters that TOML requires to be escaped, and invisible ones that could mislead a reader.
fn needs_escape(char: char) -> bool {
    let is_hidden = matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}');
    char.is_control() && char != '\n' && char != '\t' || is_hidden
}
