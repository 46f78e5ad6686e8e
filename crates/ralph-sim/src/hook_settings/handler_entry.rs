//! Parses one handler entry of the settings. The client drops an entry with a field of a wrong type and keeps the
//! others.

use serde_json::{Map, Value};

use super::{EvaluatorHandler, EvaluatorKind, HandlerKind, HandlerMode};

/// The fields of the entry itself, without its event, matcher and source.
#[derive(Debug)]
pub(super) struct HandlerEntry {
    pub(super) kind: HandlerKind,
    pub(super) timeout: Option<f64>,
    pub(super) mode: HandlerMode,
    pub(super) condition: Option<String>,
}

/// The fields that must be strings, by type of handler. `None` for an unknown type.
fn required_fields(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "command" => &["command"],
        "prompt" | "agent" => &["prompt"],
        "http" => &["url"],
        "mcp_tool" => &["server", "tool"],
        _ => return None,
    })
}

pub(super) fn parse_handler(value: &Value) -> Result<HandlerEntry, String> {
    let Value::Object(fields) = value else {
        return Err("is not an object".to_owned());
    };
    let kind = fields.get("type").and_then(Value::as_str).ok_or("has no `type`")?;
    let required = required_fields(kind).ok_or_else(|| format!("has the unknown type `{kind}`"))?;
    for field in required {
        if !fields.get(*field).is_some_and(Value::is_string) {
            return Err(format!("has no `{field}` string"));
        }
    }
    for field in ["if", "statusMessage", "rewakeMessage", "model"] {
        check_field(fields, field, Value::is_string, "a string")?;
    }
    for field in ["async", "asyncRewake", "once", "continueOnBlock"] {
        check_field(fields, field, Value::is_boolean, "true or false")?;
    }
    check_field(
        fields,
        "timeout",
        |value| value.as_f64().is_some_and(|seconds| seconds > 0.0),
        "a positive number",
    )?;
    check_field(fields, "args", is_string_list, "a list of strings")?;
    check_field(
        fields,
        "shell",
        |value| matches!(value.as_str(), Some("bash" | "powershell")),
        "`bash` or `powershell`",
    )?;
    check_field(fields, "onFailure", |value| value.as_str() == Some("block"), "`block`")?;
    let kind = handler_kind(kind, fields);
    // The client waits for a model whatever `async` is.
    let mode = match kind {
        HandlerKind::Evaluator(_) => HandlerMode::Awaited,
        HandlerKind::Command { .. } | HandlerKind::Unsupported(_) => handler_mode(fields),
    };
    Ok(HandlerEntry {
        kind,
        timeout: fields.get("timeout").and_then(Value::as_f64),
        mode,
        condition: fields
            .get("if")
            .and_then(Value::as_str)
            .filter(|rule| !rule.is_empty())
            .map(str::to_owned),
    })
}

fn handler_kind(kind: &str, fields: &Map<String, Value>) -> HandlerKind {
    match (kind, fields.get("command").and_then(Value::as_str)) {
        ("command", Some(command)) => HandlerKind::Command {
            command: command.to_owned(),
            args: fields
                .get("args")
                .and_then(Value::as_array)
                .map(|args| args.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        },
        ("prompt", _) => HandlerKind::Evaluator(evaluator(EvaluatorKind::Prompt, fields)),
        ("agent", _) => HandlerKind::Evaluator(evaluator(EvaluatorKind::Agent, fields)),
        _ => HandlerKind::Unsupported(kind.to_owned()),
    }
}

fn evaluator(kind: EvaluatorKind, fields: &Map<String, Value>) -> EvaluatorHandler {
    let text = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
    EvaluatorHandler {
        kind,
        prompt: text("prompt").unwrap_or_default(),
        model: text("model"),
        continues_on_block: fields.get("continueOnBlock") == Some(&Value::Bool(true)),
    }
}

fn handler_mode(fields: &Map<String, Value>) -> HandlerMode {
    let is_set = |field: &str| fields.get(field) == Some(&Value::Bool(true));
    match (is_set("asyncRewake"), is_set("async")) {
        (true, _) => HandlerMode::Rewakes,
        (false, true) => HandlerMode::Async,
        (false, false) => HandlerMode::Awaited,
    }
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn check_field(
    fields: &Map<String, Value>,
    field: &str,
    fits: impl Fn(&Value) -> bool,
    wanted: &str,
) -> Result<(), String> {
    match fields.get(field) {
        Some(value) if !fits(value) => Err(format!("has an invalid `{field}` (expected {wanted})")),
        _ => Ok(()),
    }
}
