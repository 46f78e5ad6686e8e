//! Parses the JSON that a hook prints. As in the client, one known field of a wrong type invalidates the whole answer.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{HookPermission, PermissionChoice};

/// An object whose values are parsed only if they are known, so that an oversized number or an unpaired surrogate in an
/// unknown field does not invalidate the rest.
type RawObject<'a> = BTreeMap<String, &'a RawValue>;

/// The known fields of a hook's JSON, after type checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookJson {
    pub(super) continues: Option<bool>,
    pub(super) stop_reason: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) system_message: Option<String>,
    /// `hookEventName` of its `hookSpecificOutput`.
    pub(super) event: Option<String>,
    pub(super) context: Option<String>,
    pub(super) permission: Option<HookPermission>,
    pub(super) updated_input: Option<serde_json::Value>,
    pub(super) initial_user_message: Option<String>,
    pub(super) suppress_original_prompt: bool,
}

#[derive(Clone, Copy)]
enum FieldShape {
    Text,
    Flag,
    Record,
    Texts,
    OneOf(&'static [&'static str]),
    /// The answer to a permission request; required.
    Decision,
    /// A path; required.
    Required,
}

const TOP_LEVEL_FIELDS: [(&str, FieldShape); 7] = [
    ("continue", FieldShape::Flag),
    ("suppressOutput", FieldShape::Flag),
    ("stopReason", FieldShape::Text),
    ("decision", FieldShape::OneOf(&["approve", "block"])),
    ("reason", FieldShape::Text),
    ("systemMessage", FieldShape::Text),
    ("terminalSequence", FieldShape::Text),
];

const CONTEXT_FIELD: (&str, FieldShape) = ("additionalContext", FieldShape::Text);
const ELICITATION_ACTIONS: &[&str] = &["accept", "decline", "cancel"];

/// The fields that the client checks in the `hookSpecificOutput` of an event, or `None` if the event has no such part.
fn specific_fields(event: &str) -> Option<&'static [(&'static str, FieldShape)]> {
    Some(match event {
        "PreToolUse" => &[
            ("permissionDecision", FieldShape::OneOf(&["allow", "deny", "ask", "defer"])),
            ("permissionDecisionReason", FieldShape::Text),
            ("updatedInput", FieldShape::Record),
            CONTEXT_FIELD,
        ],
        "UserPromptSubmit" => &[
            CONTEXT_FIELD,
            ("sessionTitle", FieldShape::Text),
            ("suppressOriginalPrompt", FieldShape::Flag),
        ],
        "UserPromptExpansion" => &[CONTEXT_FIELD, ("suppressOriginalPrompt", FieldShape::Flag)],
        "SessionStart" => &[
            CONTEXT_FIELD,
            ("initialUserMessage", FieldShape::Text),
            ("sessionTitle", FieldShape::Text),
            ("watchPaths", FieldShape::Texts),
            ("reloadSkills", FieldShape::Flag),
        ],
        "PostToolUse" | "PostToolUseFailure" | "PostToolBatch" | "Notification" | "Setup"
        | "Stop" | "SubagentStart" | "SubagentStop" | "PostModelSwitch" => &[CONTEXT_FIELD],
        "PreModelSwitch" => &[
            ("permissionDecision", FieldShape::OneOf(&["allow", "deny", "ask"])),
            ("permissionDecisionReason", FieldShape::Text),
        ],
        "PermissionRequest" => &[("decision", FieldShape::Decision)],
        "PermissionDenied" => &[("retry", FieldShape::Flag)],
        "Elicitation" | "ElicitationResult" => {
            &[("action", FieldShape::OneOf(ELICITATION_ACTIONS)), ("content", FieldShape::Record)]
        }
        "WorktreeCreate" => &[("worktreePath", FieldShape::Required)],
        "CwdChanged" | "FileChanged" => &[("watchPaths", FieldShape::Texts)],
        "MessageDisplay" => &[("displayContent", FieldShape::Text)],
        _ => return None,
    })
}

/// The outer `Err` means that the text is not JSON; the inner one is the client's message for JSON that it rejects.
pub(super) fn parse_hook_json(text: &str) -> Result<Result<HookJson, String>, serde_json::Error> {
    let raw: RawObject<'_> = serde_json::from_str(text)?;
    Ok(check_fields(&raw))
}

/// Whether this is `{"async": true}`, by which a hook asks the client not to wait for it.
pub(super) fn is_async_request(text: &str) -> bool {
    serde_json::from_str::<RawObject<'_>>(text)
        .is_ok_and(|raw| raw.get("async").is_some_and(|value| value.get() == "true"))
}

fn check_fields(raw: &RawObject<'_>) -> Result<HookJson, String> {
    for (field, shape) in TOP_LEVEL_FIELDS {
        check_shape(field, raw.get(field).copied(), shape)?;
    }
    let mut said = HookJson {
        continues: raw.get("continue").map(|value| value.get() == "true"),
        stop_reason: text_field(raw, "stopReason"),
        decision: text_field(raw, "decision"),
        reason: text_field(raw, "reason"),
        system_message: text_field(raw, "systemMessage"),
        ..HookJson::default()
    };
    if let Some(value) = raw.get("hookSpecificOutput") {
        let inner = parse_object(value).ok_or_else(|| {
            format!("hookSpecificOutput: expected object, received {}", json_type(value.get()))
        })?;
        add_specific(&mut said, &inner)?;
    }
    Ok(said)
}

fn add_specific(said: &mut HookJson, inner: &RawObject<'_>) -> Result<(), String> {
    if !inner.contains_key("hookEventName") {
        return Err("hookSpecificOutput is missing required field \"hookEventName\"".to_owned());
    }
    let name = text_field(inner, "hookEventName").unwrap_or_default();
    let Some(fields) = specific_fields(&name) else {
        return Err("hookSpecificOutput.hookEventName: expected one of \"PreToolUse\" | \"UserPromptSubmit\" | \
                    \"UserPromptExpansion\" | \"SessionStart\" | \"Setup\" | \"PreModelSwitch\" | …"
            .to_owned());
    };
    for &(field, shape) in fields {
        check_shape(&format!("hookSpecificOutput.{field}"), inner.get(field).copied(), shape)?;
    }
    said.context = text_field(inner, "additionalContext");
    said.initial_user_message = text_field(inner, "initialUserMessage");
    said.suppress_original_prompt =
        inner.get("suppressOriginalPrompt").is_some_and(|value| value.get() == "true");
    said.updated_input = record_field(inner, "updatedInput");
    said.permission = text_field(inner, "permissionDecision").and_then(|word| {
        let choice = PermissionChoice::parse(&word)?;
        Some(HookPermission {
            choice,
            reason: non_empty(text_field(inner, "permissionDecisionReason")),
        })
    });
    if name == "PermissionRequest"
        && let Some(decision) = inner.get("decision").and_then(|value| parse_object(value))
    {
        said.permission = text_field(&decision, "behavior").and_then(|word| {
            Some(HookPermission {
                choice: PermissionChoice::parse(&word)?,
                reason: non_empty(text_field(&decision, "message")),
            })
        });
        said.updated_input = record_field(&decision, "updatedInput");
    }
    said.event = Some(name);
    Ok(())
}

fn check_shape(path: &str, value: Option<&RawValue>, shape: FieldShape) -> Result<(), String> {
    let received = value.map_or("undefined", |value| json_type(value.get()));
    let wanted = |wanted: &str| match received {
        "undefined" => Ok(()),
        received if received == wanted => Ok(()),
        received => Err(format!("{path}: expected {wanted}, received {received}")),
    };
    match shape {
        FieldShape::Text => wanted("string"),
        FieldShape::Flag => wanted("boolean"),
        FieldShape::Record if received == "object" || received == "undefined" => Ok(()),
        FieldShape::Record => Err(format!("{path}: expected record, received {received}")),
        FieldShape::Texts => {
            wanted("array")?;
            let items: Vec<&RawValue> =
                value.and_then(|value| parse_json(value.get())).unwrap_or_default();
            items.iter().enumerate().try_for_each(|(n, item)| {
                check_shape(&format!("{path}.{n}"), Some(item), FieldShape::Text)
            })
        }
        FieldShape::OneOf(words) => {
            let known = value.is_none_or(|value| {
                parse_string(value).is_some_and(|word| words.contains(&word.as_str()))
            });
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            if known {
                Ok(())
            } else {
                Err(format!("{path}: Invalid option: expected one of {}", words.join("|")))
            }
        }
        FieldShape::Decision => check_decision(path, value),
        FieldShape::Required if received == "string" => Ok(()),
        FieldShape::Required => Err(format!("{path}: expected string, received {received}")),
    }
}

fn check_decision(path: &str, value: Option<&RawValue>) -> Result<(), String> {
    let Some(decision) = value.and_then(parse_object) else {
        let received = value.map_or("undefined", |value| json_type(value.get()));
        return Err(format!("{path}: expected object, received {received}"));
    };
    let fields: &[(&str, FieldShape)] = match text_field(&decision, "behavior").as_deref() {
        Some("allow") => &[("updatedInput", FieldShape::Record)],
        Some("deny") => &[("message", FieldShape::Text), ("interrupt", FieldShape::Flag)],
        _ => return Err(format!("{path}.behavior: expected one of \"allow\" | \"deny\"")),
    };
    fields.iter().try_for_each(|&(field, shape)| {
        check_shape(&format!("{path}.{field}"), decision.get(field).copied(), shape)
    })
}

pub(super) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn text_field(raw: &RawObject<'_>, field: &str) -> Option<String> {
    parse_string(raw.get(field)?)
}

fn record_field(raw: &RawObject<'_>, field: &str) -> Option<serde_json::Value> {
    parse_json(raw.get(field)?.get())
}

fn parse_object(value: &RawValue) -> Option<RawObject<'_>> {
    parse_json(value.get())
}

fn parse_json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Parses a JSON string. The client accepts unpaired surrogates, which Rust strings cannot hold; they are replaced with
/// U+FFFD.
fn parse_string(value: &RawValue) -> Option<String> {
    let written = value.get();
    if !written.starts_with('"') {
        return None;
    }
    parse_json(written).or_else(|| parse_json(&without_surrogates(written)))
}

fn without_surrogates(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let hex = escape.strip_prefix("\\u").and_then(|after| after.get(..4));
        let is_half =
            hex.is_some_and(|hex| matches!(u16::from_str_radix(hex, 16), Ok(0xd800..=0xdfff)));
        let length = if hex.is_some() { 6 } else { 2 };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        out.push_str(if is_half { "\u{fffd}" } else { escape });
        rest = after;
    }
    out + rest
}

fn json_type(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}
