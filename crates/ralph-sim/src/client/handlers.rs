//! Which hooks answer to an event, in the order in which the client starts them. Its lines name the event only.

use super::tap::{Tap, read_settings};
use crate::stage::Stage;
use regex::Regex;
use serde_json::{Map, Value};
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Handler {
    event: String,
    matcher: Option<String>,
    /// As the client shows it.
    pub(super) command: String,
    pub(super) source: String,
    /// In seconds.
    pub(super) timeout: Option<f64>,
    pub(super) is_tap: bool,
}

/// All handlers of the stage. Files that the client could not read either have none.
pub(super) fn all(stage: &Stage, tap: &Tap) -> Vec<Handler> {
    let mut handlers = Vec::new();
    let layers = [
        ("user", stage.home.join(".claude/settings.json")),
        ("project", stage.project.join(".claude/settings.json")),
        ("local", stage.project.join(".claude/settings.local.json")),
        ("flag", tap.settings.clone()),
    ];
    for (source, path) in layers {
        add(&mut handlers, &read_settings(&path).unwrap_or_default(), source);
    }
    for plugin in &stage.plugins {
        let settings = read_settings(&plugin.join("hooks/hooks.json")).unwrap_or_default();
        let name = plugin.file_name().unwrap_or_default().to_string_lossy();
        let before = handlers.len();
        add(&mut handlers, &settings, &format!("plugin {name}"));
        for handler in handlers.iter_mut().skip(before) {
            let root = plugin.to_string_lossy();
            handler.command = handler.command.replace("${CLAUDE_PLUGIN_ROOT}", &root);
        }
    }
    for handler in &mut handlers {
        handler.is_tap = Path::new(handler.command.split(' ').next().unwrap_or_default())
            == tap.program
            || handler.command.starts_with(&*tap.program.to_string_lossy());
    }
    handlers
}

fn add(handlers: &mut Vec<Handler>, settings: &Map<String, Value>, source: &str) {
    let events = settings.get("hooks").and_then(Value::as_object);
    for (event, groups) in events.into_iter().flatten() {
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group.get("matcher").and_then(Value::as_str).map(str::to_owned);
            for handler in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                handlers.push(Handler {
                    event: event.clone(),
                    matcher: matcher.clone(),
                    command: command(handler),
                    source: source.to_owned(),
                    timeout: handler.get("timeout").and_then(Value::as_f64),
                    is_tap: false,
                });
            }
        }
    }
}

fn command(handler: &Value) -> String {
    let command = handler.get("command").and_then(Value::as_str).unwrap_or_default();
    let arguments = handler.get("args").and_then(Value::as_array).into_iter().flatten();
    let words = std::iter::once(command).chain(arguments.filter_map(Value::as_str));
    words.collect::<Vec<_>>().join(" ")
}

/// Those that answer to an event with this input. The same command is run once, wherever it comes from.
pub(super) fn answering<'a>(
    handlers: &'a [Handler],
    event: &str,
    input: &Value,
) -> Vec<&'a Handler> {
    let subject = subject(event).and_then(|name| input.get(name)).and_then(Value::as_str);
    let mut found: Vec<&Handler> = Vec::new();
    for handler in handlers.iter().filter(|handler| handler.event == event) {
        let matches = match (&handler.matcher, subject) {
            (Some(matcher), Some(subject)) => is_match(matcher, subject),
            (None, _) | (_, None) => true,
        };
        if matches && !found.iter().any(|known| known.command == handler.command) {
            found.push(handler);
        }
    }
    found
}

/// What a matcher is held against.
fn subject(event: &str) -> Option<&'static str> {
    match event {
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => Some("tool_name"),
        "SessionStart" => Some("source"),
        "SessionEnd" => Some("reason"),
        "SubagentStart" | "SubagentStop" => Some("agent_type"),
        "PreCompact" | "PostCompact" => Some("trigger"),
        "Notification" => Some("notification_type"),
        "StopFailure" => Some("error"),
        "UserPromptExpansion" => Some("command_name"),
        _ => None,
    }
}

fn is_match(matcher: &str, subject: &str) -> bool {
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if matcher.is_empty() || matcher == "*" {
        return true;
    }
    if matcher.split(['|', ',']).all(|part| is_name(part.trim())) {
        return matcher.split(['|', ',']).any(|part| part.trim() == subject);
    }
    Regex::new(matcher).is_ok_and(|matcher| matcher.is_match(subject))
}
