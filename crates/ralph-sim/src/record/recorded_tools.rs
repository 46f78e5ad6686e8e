//! Converts recorded tool calls to those of a scenario, with paths relative to its project.

use crate::scenario::{DEFAULT_AGENT_TYPE, ScriptedToolCall};
use serde_json::{Map, Value};

/// Deeper values are converted to strings, because the TOML parser limits the nesting depth.
const MAX_DEPTH: usize = 24;

/// The shorthand form if it expresses the whole call, otherwise the call with its full input.
pub(super) fn scenario_call(name: &str, input: &Value, cwd: &str) -> ScriptedToolCall {
    let input = localize_input(input, cwd, 0);
    shorthand_call(name, &input).unwrap_or_else(|| ScriptedToolCall::Other {
        name: name.to_owned(),
        input: object_or_empty(input),
    })
}

fn shorthand_call(name: &str, input: &Value) -> Option<ScriptedToolCall> {
    let fields = input.as_object()?;
    let has_only = |known: &[&str]| fields.keys().all(|key| known.contains(&&**key));
    let text = |key: &str| fields.get(key)?.as_str().map(str::to_owned);
    let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
    match name {
        "Bash" if has_only(&["command", "description", "timeout", "run_in_background"]) => {
            let background = flag("run_in_background").unwrap_or_default();
            Some(ScriptedToolCall::Bash { command: text("command")?, background })
        }
        "Write" if has_only(&["file_path", "content"]) => {
            Some(ScriptedToolCall::Write { path: text("file_path")?, text: text("content")? })
        }
        "Edit"
            if has_only(&["file_path", "old_string", "new_string", "replace_all"])
                && flag("replace_all") != Some(true) =>
        {
            let (old, new) = (text("old_string")?, text("new_string")?);
            Some(ScriptedToolCall::Edit { path: text("file_path")?, old, new })
        }
        "Read" if has_only(&["file_path"]) => {
            Some(ScriptedToolCall::Read { path: text("file_path")? })
        }
        "Agent" | "Task"
            if has_only(&["description", "prompt", "subagent_type", "run_in_background"]) =>
        {
            let kind = text("subagent_type").unwrap_or_else(|| DEFAULT_AGENT_TYPE.to_owned());
            // Older clients, which called the tool `Task`, ran it in the foreground by default.
            let background = flag("run_in_background").unwrap_or(name == "Agent");
            Some(ScriptedToolCall::Agent { prompt: text("prompt")?, kind, background })
        }
        _ => None,
    }
}

/// Replaces an input that is not an object with an empty one.
fn object_or_empty(input: Value) -> Value {
    if input.is_object() { input } else { Value::Object(Map::new()) }
}

/// Removes nulls, which TOML lacks, and makes paths of the project relative.
fn localize_input(value: &Value, cwd: &str, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::String(value.to_string());
    }
    match value {
        Value::String(text) => Value::String(make_paths_relative(text, cwd)),
        Value::Array(items) => {
            let items = items.iter().filter(|item| !item.is_null());
            items.map(|item| localize_input(item, cwd, depth + 1)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields =
                fields.map(|(key, value)| (key.clone(), localize_input(value, cwd, depth + 1)));
            Value::Object(fields.collect())
        }
        // TOML integers are signed.
        Value::Number(number) if number.as_i64().is_none() && !number.is_f64() => {
            number.as_f64().map_or(Value::Null, Value::from)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Makes every path below the directory relative, also inside a command.
pub(super) fn make_paths_relative(text: &str, cwd: &str) -> String {
    let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.' | '~');
    if !cwd.starts_with('/') || cwd.trim_end_matches('/').is_empty() || !text.contains(cwd) {
        return text.to_owned();
    }
    let cwd = cwd.trim_end_matches('/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(cwd) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        let behind = found.get(cwd.len()..).unwrap_or_default();
        let is_begun = out.chars().next_back().is_some_and(|char| is_name(char) || char == '/');
        let mut chars = behind.chars();
        match (is_begun, chars.next()) {
            (false, Some('/')) if chars.next().is_some_and(|char| is_name(char) || char == '/') => {
                rest = behind.get(1..).unwrap_or_default();
            }
            (false, next) if !next.is_some_and(is_name) => {
                out.push('.');
                rest = behind;
            }
            _ => {
                out.push_str(cwd);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether a call names a file outside the project.
pub(super) fn is_outside_project(call: &ScriptedToolCall) -> bool {
    let is_out =
        |path: &str| path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..");
    match call {
        ScriptedToolCall::Write { path, .. }
        | ScriptedToolCall::Edit { path, .. }
        | ScriptedToolCall::Read { path } => is_out(path),
        ScriptedToolCall::Other { input, .. } => input["file_path"].as_str().is_some_and(is_out),
        ScriptedToolCall::Bash { .. } | ScriptedToolCall::Agent { .. } => false,
    }
}

/// The approximate size of the call in the scenario file, in bytes.
pub(super) fn estimated_size(call: &ScriptedToolCall) -> usize {
    let texts = match call {
        ScriptedToolCall::Bash { command: one, .. } | ScriptedToolCall::Read { path: one } => {
            escaped_len(one)
        }
        ScriptedToolCall::Write { path, text } => escaped_len(path) + escaped_len(text),
        ScriptedToolCall::Edit { path, old, new } => {
            escaped_len(path) + escaped_len(old) + escaped_len(new)
        }
        ScriptedToolCall::Agent { prompt, kind, .. } => escaped_len(prompt) + escaped_len(kind),
        // Characters that JSON escapes are escaped in TOML too; a doubled length covers the rest.
        ScriptedToolCall::Other { name, input } => escaped_len(name) + 2 * input.to_string().len(),
    };
    texts + 64
}

pub(super) fn escaped_len(text: &str) -> usize {
    let plain = |char: char| !char.is_control() || char == '\n' || char == '\t';
    text.chars().map(|char| if plain(char) { char.len_utf8() + 1 } else { 6 }).sum()
}
