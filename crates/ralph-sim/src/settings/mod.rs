//! Loads hooks from settings files and plugins, as leniently as the client does.
//!
//! Measured on the pinned client, 2.1.325: the client ignores a whole file if it is not JSON or has a known setting of a
//! wrong type; among the hooks it drops only the invalid entry. It reports neither. Here each is a [`SettingsNotice`].

mod entry;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::matcher::{self, Matcher};

/// Default timeout of a handler, in seconds.
const TIMEOUT: f64 = 600.0;
const PROMPT_TIMEOUT: f64 = 30.0;
const DISPLAY_TIMEOUT: f64 = 10.0;
/// Total time for all `SessionEnd` handlers, in seconds.
const END_BUDGET: f64 = 1.5;

pub const EVENTS: [&str; 33] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

/// One file of settings, or a plugin's `hooks/hooks.json`.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    pub source: Source,
    pub text: &'a str,
}

/// In the order in which the client reads them: later settings win, and later handlers start later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    User,
    Project,
    Local,
    /// `--settings`
    Flag,
    /// `marketplace` is `inline` for a plugin given on the command line.
    Plugin {
        name: String,
        marketplace: String,
        root: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Project => f.write_str("project"),
            Self::Local => f.write_str("local"),
            Self::Flag => f.write_str("flag"),
            Self::Plugin { name, .. } => write!(f, "plugin {name}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub event: String,
    pub kind: Kind,
    /// In seconds, if the settings set it.
    pub timeout: Option<f64>,
    pub mode: Mode,
    pub source: Source,
    pub matcher: Matcher,
    /// `if`: a permission rule for the tool call. Only its tool name is compared here.
    pub condition: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Command {
        command: String,
        /// If set, the command runs without a shell.
        args: Option<Vec<String>>,
    },
    /// A type of handler that is not simulated.
    Unsupported(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Waits,
    /// The client does not wait, and ignores the answer.
    Async,
    /// Like `Async`, but exit 2 wakes an idle session. If there is no session to wake, the client waits.
    Rewakes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    handlers: Vec<Hook>,
    /// Variables that the settings add; they override the client's environment.
    pub env: BTreeMap<String, String>,
    pub disabled: bool,
    pub notices: Vec<Notice>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{source_of}: {problem}")]
pub struct Notice {
    pub source_of: Source,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("not a JSON object ({0}); the client ignores the whole file")]
    NotJson(String),
    #[error("`{setting}` is not {wanted}; the client ignores the whole file")]
    Rejected { setting: &'static str, wanted: &'static str },
    #[error("no `hooks` object, so there are no hooks")]
    Hooks,
    #[error("`{0}` is not an event")]
    UnknownEvent(String),
    #[error("{place} {why}; the client ignores it")]
    Dropped { place: String, why: String },
    #[error("matcher `{matcher}` matches nothing: {why}")]
    Matcher { matcher: String, why: String },
    #[error("`disableAllHooks` is set: no hook runs")]
    Disabled,
}

/// Loads all layers, given in any order.
pub fn load(layers: &[Layer<'_>]) -> Loaded {
    let mut layers: Vec<_> = layers.iter().collect();
    // The sort is stable, so that plugins keep their order.
    layers.sort_by_key(|layer| match layer.source {
        Source::User => 0,
        Source::Project => 1,
        Source::Local => 2,
        Source::Flag => 3,
        Source::Plugin { .. } => 4,
    });
    let mut loaded = Loaded::default();
    let mut disabled_by = None;
    for layer in layers {
        let read = file(layer.text).and_then(|fields| match layer.source {
            Source::Plugin { .. } => Ok(fields),
            Source::User | Source::Project | Source::Local | Source::Flag => acceptable(fields),
        });
        match read {
            Ok(fields) => {
                if !matches!(layer.source, Source::Plugin { .. }) {
                    if let Some(Value::Bool(disable)) = fields.get("disableAllHooks") {
                        disabled_by = disable.then(|| layer.source.clone());
                    }
                    loaded.add_env(&fields);
                }
                loaded.add_hooks(&layer.source, &fields);
            }
            Err(problem) => {
                loaded.note(&layer.source, problem);
            }
        }
    }
    loaded.disabled = disabled_by.is_some();
    loaded
        .notices
        .extend(disabled_by.map(|source_of| Notice { source_of, problem: Problem::Disabled }));
    loaded
}

impl Loaded {
    /// The handlers of an event, in the order in which the client starts them. Matchers are compared with the subject
    /// ([`matcher::subject_field`]).
    pub fn handlers(&self, event: &str, subject: Option<&str>) -> Vec<&Hook> {
        if self.disabled {
            return Vec::new();
        }
        let subject = subject.filter(|_| matcher::subject_field(event).is_some());
        let mut chosen: Vec<&Hook> = Vec::new();
        for handler in
            self.handlers.iter().filter(|handler| handler.event == event && handler.wants(subject))
        {
            // Of identical handlers, the first determines the position and the last the settings.
            match chosen.iter_mut().find(|earlier| earlier.is_same_as(handler)) {
                Some(earlier) => *earlier = handler,
                None => chosen.push(handler),
            }
        }
        chosen
    }

    /// The timeout of a handler, in seconds.
    pub fn limit(&self, handler: &Hook) -> f64 {
        let usual = match handler.event.as_str() {
            "UserPromptSubmit" => PROMPT_TIMEOUT,
            "MessageDisplay" => DISPLAY_TIMEOUT,
            "SessionEnd" => return handler.timeout.unwrap_or(TIMEOUT).min(self.end_budget()),
            _ => TIMEOUT,
        };
        handler.timeout.unwrap_or(usual)
    }

    /// How long the client waits for all `SessionEnd` handlers together. A plugin cannot raise it.
    fn end_budget(&self) -> f64 {
        self.handlers
            .iter()
            .filter(|handler| {
                handler.event == "SessionEnd" && !matches!(handler.source, Source::Plugin { .. })
            })
            .filter_map(|handler| handler.timeout)
            .fold(END_BUDGET, f64::max)
    }

    fn add_env(&mut self, fields: &Map<String, Value>) {
        if let Some(Value::Object(env)) = fields.get("env") {
            self.env.extend(env.iter().map(|(name, value)| (name.clone(), written(value))));
        }
    }

    fn add_hooks(&mut self, source: &Source, fields: &Map<String, Value>) {
        let groups = match fields.get("hooks") {
            None if matches!(source, Source::Plugin { .. }) => {
                return self.note(source, Problem::Hooks);
            }
            None => return,
            Some(Value::Object(groups)) => groups,
            Some(_) => return self.note(source, Problem::Hooks),
        };
        for (event, groups) in groups {
            if !EVENTS.contains(&event.as_str()) {
                self.note(source, Problem::UnknownEvent(event.clone()));
                continue;
            }
            let Value::Array(groups) = groups else {
                self.drop(source, event.clone(), "is not a list");
                continue;
            };
            for (n, group) in groups.iter().enumerate() {
                self.add_group(source, event, (n, group));
            }
        }
    }

    fn add_group(&mut self, source: &Source, event: &str, (n, group): (usize, &Value)) {
        let place = format!("{event}[{n}]");
        let Value::Object(fields) = group else {
            return self.drop(source, place, "is not an object");
        };
        let Some(Value::Array(entries)) = fields.get("hooks") else {
            return self.drop(source, place, "has no `hooks` list");
        };
        let matcher = match fields.get("matcher") {
            None => Matcher::All,
            Some(Value::String(text)) => Matcher::read(text),
            Some(_) => {
                return self.drop(source, place, "has an invalid `matcher` (expected a string)");
            }
        };
        if let (Matcher::Nothing(why), Some(_)) = (&matcher, matcher::subject_field(event)) {
            let matcher =
                fields.get("matcher").and_then(Value::as_str).unwrap_or_default().to_owned();
            self.note(source, Problem::Matcher { matcher, why: why.clone() });
        }
        for (n, entry) in entries.iter().enumerate() {
            match entry::read(entry) {
                Ok(entry) => self.handlers.push(Hook {
                    event: event.to_owned(),
                    kind: entry.kind,
                    timeout: entry.timeout,
                    mode: entry.mode,
                    source: source.clone(),
                    matcher: matcher.clone(),
                    condition: entry.condition,
                }),
                Err(why) => self.drop(source, format!("{place}.hooks[{n}]"), &why),
            }
        }
    }

    fn drop(&mut self, source: &Source, place: String, why: &str) {
        self.note(source, Problem::Dropped { place, why: why.to_owned() });
    }

    fn note(&mut self, source: &Source, problem: Problem) {
        self.notices.push(Notice { source_of: source.clone(), problem });
    }
}

impl Hook {
    fn wants(&self, subject: Option<&str>) -> bool {
        let Some(subject) = subject else {
            return self.condition.is_none();
        };
        let named =
            |wanted: &dyn Fn(&str) -> bool| matcher::names_of(&self.event, subject).any(wanted);
        let by_matcher = named(&|name| self.matcher.matches(name));
        let by_condition = self.condition.as_ref().is_none_or(|rule| {
            let tool = rule.split('(').next().unwrap_or_default();
            matcher::subject_field(&self.event) == Some("tool_name") && named(&|name| name == tool)
        });
        by_matcher && by_condition
    }

    /// Whether the client treats the two as one handler and runs them once.
    fn is_same_as(&self, other: &Self) -> bool {
        let root = |handler: &Self| match &handler.source {
            Source::Plugin { root, .. } => Some(root.clone()),
            Source::User | Source::Project | Source::Local | Source::Flag => None,
        };
        matches!(self.kind, Kind::Command { .. })
            && self.kind == other.kind
            && self.condition == other.condition
            && root(self) == root(other)
    }
}

/// Parses a settings file. An empty file is valid.
fn file(text: &str) -> Result<Map<String, Value>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::NotJson("another type".to_owned())),
        Err(error) => Err(Problem::NotJson(error.to_string())),
    }
}

/// Rejects a file for a setting of a wrong type. The list has the settings that were tested; the client checks more.
fn acceptable(fields: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    type Rule = (&'static str, fn(&Value) -> bool, &'static str);
    let rules: [Rule; 5] = [
        ("disableAllHooks", Value::is_boolean, "true or false"),
        ("env", Value::is_object, "an object"),
        ("permissions", is_permissions, "an object of lists"),
        ("model", Value::is_string, "a string"),
        ("cleanupPeriodDays", Value::is_number, "a number"),
    ];
    for (setting, fits, wanted) in rules {
        if fields.get(setting).is_some_and(|value| !fits(value)) {
            return Err(Problem::Rejected { setting, wanted });
        }
    }
    Ok(fields)
}

fn is_permissions(value: &Value) -> bool {
    value.as_object().is_some_and(|lists| {
        ["allow", "deny", "ask"].iter().all(|list| lists.get(*list).is_none_or(Value::is_array))
    })
}

/// Converts a value to a string as JavaScript does.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(","),
        Value::Object(_) => "[object Object]".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
