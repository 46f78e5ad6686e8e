//! Parses the JSON that a hook prints. As in the client, one known field of a wrong type invalidates the whole answer.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Choice, Permission};

/// An object whose values are parsed only if they are known, so that an oversized number or an unpaired surrogate in an
/// unknown field does not invalidate the rest.
type Raw<'a> = BTreeMap<String, &'a RawValue>;

/// The known fields of a hook's JSON, after type checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) continues: Option<bool>,
    pub(super) stop_reason: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) system_message: Option<String>,
    /// `hookEventName` of its `hookSpecificOutput`.
    pub(super) about: Option<String>,
    pub(super) context: Option<String>,
    pub(super) permission: Option<Permission>,
    pub(super) updated_input: Option<serde_json::Value>,
    pub(super) initial_user_message: Option<String>,
    pub(super) suppress_original_prompt: bool,
}

#[derive(Clone, Copy)]
enum Shape {
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

const TOP: [(&str, Shape); 7] = [
    ("continue", Shape::Flag),
    ("suppressOutput", Shape::Flag),
    ("stopReason", Shape::Text),
    ("decision", Shape::OneOf(&["approve", "block"])),
    ("reason", Shape::Text),
    ("systemMessage", Shape::Text),
    ("terminalSequence", Shape::Text),
];

const CONTEXT: (&str, Shape) = ("additionalContext", Shape::Text);
const ACTION: &[&str] = &["accept", "decline", "cancel"];

/// The fields that the client checks in the `hookSpecificOutput` of an event, or `None` if the event has no such part.
fn specific(event: &str) -> Option<&'static [(&'static str, Shape)]> {
    Some(match event {
        "PreToolUse" => &[
            ("permissionDecision", Shape::OneOf(&["allow", "deny", "ask", "defer"])),
            ("permissionDecisionReason", Shape::Text),
            ("updatedInput", Shape::Record),
            CONTEXT,
        ],
        "UserPromptSubmit" => {
            &[CONTEXT, ("sessionTitle", Shape::Text), ("suppressOriginalPrompt", Shape::Flag)]
        }
        "UserPromptExpansion" => &[CONTEXT, ("suppressOriginalPrompt", Shape::Flag)],
        "SessionStart" => &[
            CONTEXT,
            ("initialUserMessage", Shape::Text),
            ("sessionTitle", Shape::Text),
            ("watchPaths", Shape::Texts),
            ("reloadSkills", Shape::Flag),
        ],
        "PostToolUse" | "PostToolUseFailure" | "PostToolBatch" | "Notification" | "Setup"
        | "Stop" | "SubagentStart" | "SubagentStop" | "PostModelSwitch" => &[CONTEXT],
        "PreModelSwitch" => &[
            ("permissionDecision", Shape::OneOf(&["allow", "deny", "ask"])),
            ("permissionDecisionReason", Shape::Text),
        ],
        "PermissionRequest" => &[("decision", Shape::Decision)],
        "PermissionDenied" => &[("retry", Shape::Flag)],
        "Elicitation" | "ElicitationResult" => {
            &[("action", Shape::OneOf(ACTION)), ("content", Shape::Record)]
        }
        "WorktreeCreate" => &[("worktreePath", Shape::Required)],
        "CwdChanged" | "FileChanged" => &[("watchPaths", Shape::Texts)],
        "MessageDisplay" => &[("displayContent", Shape::Text)],
        _ => return None,
    })
}

/// The outer `Err` means that the text is not JSON; the inner one is the client's message for JSON that it rejects.
pub(super) fn read(text: &str) -> Result<Result<Said, String>, serde_json::Error> {
    let raw: Raw<'_> = serde_json::from_str(text)?;
    Ok(check(&raw))
}

/// Whether this is `{"async": true}`, by which a hook asks the client not to wait for it.
pub(super) fn is_detaching(text: &str) -> bool {
    serde_json::from_str::<Raw<'_>>(text)
        .is_ok_and(|raw| raw.get("async").is_some_and(|value| value.get() == "true"))
}

fn check(raw: &Raw<'_>) -> Result<Said, String> {
    for (field, shape) in TOP {
        fits(field, raw.get(field).copied(), shape)?;
    }
    let mut said = Said {
        continues: raw.get("continue").map(|value| value.get() == "true"),
        stop_reason: text(raw, "stopReason"),
        decision: text(raw, "decision"),
        reason: text(raw, "reason"),
        system_message: text(raw, "systemMessage"),
        ..Said::default()
    };
    if let Some(value) = raw.get("hookSpecificOutput") {
        let inner = object(value).ok_or_else(|| {
            format!("hookSpecificOutput: expected object, received {}", kind(value.get()))
        })?;
        add_specific(&mut said, &inner)?;
    }
    Ok(said)
}

fn add_specific(said: &mut Said, inner: &Raw<'_>) -> Result<(), String> {
    if !inner.contains_key("hookEventName") {
        return Err("hookSpecificOutput is missing required field \"hookEventName\"".to_owned());
    }
    let name = text(inner, "hookEventName").unwrap_or_default();
    let Some(fields) = specific(&name) else {
        return Err("hookSpecificOutput.hookEventName: expected one of \"PreToolUse\" | \"UserPromptSubmit\" | \
                    \"UserPromptExpansion\" | \"SessionStart\" | \"Setup\" | \"PreModelSwitch\" | …"
            .to_owned());
    };
    for &(field, shape) in fields {
        fits(&format!("hookSpecificOutput.{field}"), inner.get(field).copied(), shape)?;
    }
    said.context = text(inner, "additionalContext");
    said.initial_user_message = text(inner, "initialUserMessage");
    said.suppress_original_prompt =
        inner.get("suppressOriginalPrompt").is_some_and(|value| value.get() == "true");
    said.updated_input = record(inner, "updatedInput");
    said.permission = text(inner, "permissionDecision").and_then(|word| {
        let choice = Choice::read(&word)?;
        Some(Permission { choice, reason: filled(text(inner, "permissionDecisionReason")) })
    });
    if name == "PermissionRequest"
        && let Some(decision) = inner.get("decision").and_then(|value| object(value))
    {
        said.permission = text(&decision, "behavior").and_then(|word| {
            Some(Permission {
                choice: Choice::read(&word)?,
                reason: filled(text(&decision, "message")),
            })
        });
        said.updated_input = record(&decision, "updatedInput");
    }
    said.about = Some(name);
    Ok(())
}

fn fits(path: &str, value: Option<&RawValue>, shape: Shape) -> Result<(), String> {
    let received = value.map_or("undefined", |value| kind(value.get()));
    let wanted = |wanted: &str| match received {
        "undefined" => Ok(()),
        received if received == wanted => Ok(()),
        received => Err(format!("{path}: expected {wanted}, received {received}")),
    };
    match shape {
        Shape::Text => wanted("string"),
        Shape::Flag => wanted("boolean"),
        Shape::Record if received == "object" || received == "undefined" => Ok(()),
        Shape::Record => Err(format!("{path}: expected record, received {received}")),
        Shape::Texts => {
            wanted("array")?;
            let items: Vec<&RawValue> =
                value.and_then(|value| parse(value.get())).unwrap_or_default();
            items
                .iter()
                .enumerate()
                .try_for_each(|(n, item)| fits(&format!("{path}.{n}"), Some(item), Shape::Text))
        }
        Shape::OneOf(words) => {
            let known = value.is_none_or(|value| {
                string(value).is_some_and(|word| words.contains(&word.as_str()))
            });
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            if known {
                Ok(())
            } else {
                Err(format!("{path}: Invalid option: expected one of {}", words.join("|")))
            }
        }
        Shape::Decision => fits_decision(path, value),
        Shape::Required if received == "string" => Ok(()),
        Shape::Required => Err(format!("{path}: expected string, received {received}")),
    }
}

fn fits_decision(path: &str, value: Option<&RawValue>) -> Result<(), String> {
    let Some(decision) = value.and_then(object) else {
        let received = value.map_or("undefined", |value| kind(value.get()));
        return Err(format!("{path}: expected object, received {received}"));
    };
    let fields: &[(&str, Shape)] = match text(&decision, "behavior").as_deref() {
        Some("allow") => &[("updatedInput", Shape::Record)],
        Some("deny") => &[("message", Shape::Text), ("interrupt", Shape::Flag)],
        _ => return Err(format!("{path}.behavior: expected one of \"allow\" | \"deny\"")),
    };
    fields.iter().try_for_each(|&(field, shape)| {
        fits(&format!("{path}.{field}"), decision.get(field).copied(), shape)
    })
}

pub(super) fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn text(raw: &Raw<'_>, field: &str) -> Option<String> {
    string(raw.get(field)?)
}

fn record(raw: &Raw<'_>, field: &str) -> Option<serde_json::Value> {
    parse(raw.get(field)?.get())
}

fn object(value: &RawValue) -> Option<Raw<'_>> {
    parse(value.get())
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Parses a JSON string. The client accepts unpaired surrogates, which Rust strings cannot hold; they are replaced with
/// U+FFFD.
fn string(value: &RawValue) -> Option<String> {
    let written = value.get();
    if !written.starts_with('"') {
        return None;
    }
    parse(written).or_else(|| parse(&without_surrogates(written)))
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

fn kind(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}
