//! Loads hooks from settings files and plugins, as leniently as the client does.
//!
//! Measured on the pinned client, 2.1.325: the client ignores a whole file if it is not JSON or has a known setting
//! of a wrong type; among the hooks it drops only the invalid entry. It reports neither. Here each is a
//! [`SettingsNotice`].

mod handler_entry;
mod settings_files;

pub use settings_files::{FlagSettings, MAX_SETTINGS_BYTES, SettingsPlaces, load_settings_files};

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::matcher::{self, HookMatcher};

/// Default timeout of a handler, in seconds.
const DEFAULT_TIMEOUT: f64 = 600.0;
const PROMPT_TIMEOUT: f64 = 30.0;
/// Default timeouts of handlers that ask a model, in seconds.
const EVALUATOR_PROMPT_TIMEOUT: f64 = 30.0;
const EVALUATOR_AGENT_TIMEOUT: f64 = 60.0;
const DISPLAY_TIMEOUT: f64 = 10.0;
/// Total time for all `SessionEnd` handlers, in seconds.
const SESSION_END_BUDGET: f64 = 1.5;

pub const CLIENT_EVENTS: [&str; 33] = [
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
pub struct HookSettingsFile<'a> {
    pub source: HookSettingsSource,
    pub text: &'a str,
}

/// In the order in which the client reads them: later settings win, and later handlers start later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookSettingsSource {
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

impl fmt::Display for HookSettingsSource {
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
pub struct RegisteredHandler {
    pub event: String,
    pub kind: HandlerKind,
    /// In seconds, if the settings set it.
    pub timeout: Option<f64>,
    pub mode: HandlerMode,
    pub source: HookSettingsSource,
    pub matcher: HookMatcher,
    /// `if`: a permission rule for the tool call. Only its tool name is compared here.
    pub condition: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerKind {
    Command {
        command: String,
        /// If set, the command runs without a shell.
        args: Option<Vec<String>>,
    },
    /// `prompt` and `agent`: a model answers instead of a process.
    Evaluator(EvaluatorHandler),
    /// A type of handler that is not simulated.
    Unsupported(String),
}

/// A handler whose answer comes from a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluatorHandler {
    pub kind: EvaluatorKind,
    /// The condition. `$ARGUMENTS` stands for the input of the event.
    pub prompt: String,
    /// The model to ask, if not the session's.
    pub model: Option<String>,
    /// Whether an unmet condition before or after a tool call lets the turn continue.
    pub continues_on_block: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluatorKind {
    /// One request, with the whole conversation.
    Prompt,
    /// A conversation of its own, with tools.
    Agent,
}

impl EvaluatorKind {
    /// The `type` of the handler.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Agent => "agent",
        }
    }

    /// The timeline lane of the requests.
    pub fn lane(self) -> &'static str {
        match self {
            Self::Prompt => "hook-prompt",
            Self::Agent => "hook-agent",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerMode {
    Awaited,
    /// The client does not wait, and ignores the answer.
    Async,
    /// Like `Async`, but exit 2 wakes an idle session. If there is no session to wake, the client waits.
    Rewakes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedHookSettings {
    handlers: Vec<RegisteredHandler>,
    /// Variables that the settings add; they override the client's environment.
    pub env: BTreeMap<String, String>,
    pub disabled: bool,
    pub notices: Vec<SettingsNotice>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{settings_source}: {problem}")]
pub struct SettingsNotice {
    pub settings_source: HookSettingsSource,
    pub problem: SettingsProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsProblem {
    #[error("not a JSON object ({0}); the client ignores the whole file")]
    NotJson(String),
    #[error("`{setting}` is not {wanted}; the client ignores the whole file")]
    Rejected { setting: &'static str, wanted: &'static str },
    #[error("{0}; ignored")]
    Unreadable(String),
    #[error("no `hooks` object, so there are no hooks")]
    NoHooksObject,
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
pub fn load(layers: &[HookSettingsFile<'_>]) -> LoadedHookSettings {
    let mut layers: Vec<_> = layers.iter().collect();
    // The sort is stable, so that plugins keep their order.
    layers.sort_by_key(|layer| match layer.source {
        HookSettingsSource::User => 0,
        HookSettingsSource::Project => 1,
        HookSettingsSource::Local => 2,
        HookSettingsSource::Flag => 3,
        HookSettingsSource::Plugin { .. } => 4,
    });
    let mut loaded = LoadedHookSettings::default();
    let mut disabled_by = None;
    for layer in layers {
        let read = parse_settings(layer.text).and_then(|fields| match layer.source {
            HookSettingsSource::Plugin { .. } => Ok(fields),
            HookSettingsSource::User
            | HookSettingsSource::Project
            | HookSettingsSource::Local
            | HookSettingsSource::Flag => check_setting_types(fields),
        });
        match read {
            Ok(fields) => {
                if !matches!(layer.source, HookSettingsSource::Plugin { .. }) {
                    if let Some(Value::Bool(disable)) = fields.get("disableAllHooks") {
                        disabled_by = disable.then(|| layer.source.clone());
                    }
                    loaded.add_env(&fields);
                }
                loaded.add_hooks(&layer.source, &fields);
            }
            Err(problem) => {
                loaded.add_notice(&layer.source, problem);
            }
        }
    }
    loaded.disabled = disabled_by.is_some();
    loaded.notices.extend(disabled_by.map(|source_of| SettingsNotice {
        settings_source: source_of,
        problem: SettingsProblem::Disabled,
    }));
    loaded
}

impl LoadedHookSettings {
    /// The handlers of an event, in the order in which the client starts them. Matchers are compared with the subject
    /// ([`matcher::subject_field`]).
    pub fn handlers(&self, event: &str, subject: Option<&str>) -> Vec<&RegisteredHandler> {
        if self.disabled {
            return Vec::new();
        }
        let subject = subject.filter(|_| matcher::subject_field(event).is_some());
        let mut chosen: Vec<&RegisteredHandler> = Vec::new();
        for handler in self
            .handlers
            .iter()
            .filter(|handler| handler.event == event && handler.matches_subject(subject))
        {
            // Of identical handlers, the first determines the position and the last the settings.
            match chosen.iter_mut().find(|earlier| earlier.is_duplicate_of(handler)) {
                Some(earlier) => *earlier = handler,
                None => chosen.push(handler),
            }
        }
        chosen
    }

    /// The timeout of a handler, in seconds.
    pub fn timeout(&self, handler: &RegisteredHandler) -> f64 {
        if let HandlerKind::Evaluator(evaluator) = &handler.kind {
            return handler.timeout.unwrap_or(match evaluator.kind {
                EvaluatorKind::Prompt => EVALUATOR_PROMPT_TIMEOUT,
                EvaluatorKind::Agent => EVALUATOR_AGENT_TIMEOUT,
            });
        }
        let usual = match handler.event.as_str() {
            "UserPromptSubmit" => PROMPT_TIMEOUT,
            "MessageDisplay" => DISPLAY_TIMEOUT,
            "SessionEnd" => {
                return handler.timeout.unwrap_or(DEFAULT_TIMEOUT).min(self.session_end_budget());
            }
            _ => DEFAULT_TIMEOUT,
        };
        handler.timeout.unwrap_or(usual)
    }

    /// How long the client waits for all `SessionEnd` handlers together. A plugin cannot raise it.
    fn session_end_budget(&self) -> f64 {
        self.handlers
            .iter()
            .filter(|handler| {
                handler.event == "SessionEnd"
                    && !matches!(handler.source, HookSettingsSource::Plugin { .. })
            })
            .filter_map(|handler| handler.timeout)
            .fold(SESSION_END_BUDGET, f64::max)
    }

    fn add_env(&mut self, fields: &Map<String, Value>) {
        if let Some(Value::Object(env)) = fields.get("env") {
            self.env.extend(env.iter().map(|(name, value)| (name.clone(), to_js_string(value))));
        }
    }

    fn add_hooks(&mut self, source: &HookSettingsSource, fields: &Map<String, Value>) {
        let groups = match fields.get("hooks") {
            None if matches!(source, HookSettingsSource::Plugin { .. }) => {
                return self.add_notice(source, SettingsProblem::NoHooksObject);
            }
            None => return,
            Some(Value::Object(groups)) => groups,
            Some(_) => return self.add_notice(source, SettingsProblem::NoHooksObject),
        };
        for (event, groups) in groups {
            if !CLIENT_EVENTS.contains(&event.as_str()) {
                self.add_notice(source, SettingsProblem::UnknownEvent(event.clone()));
                continue;
            }
            let Value::Array(groups) = groups else {
                self.note_dropped(source, event.clone(), "is not a list");
                continue;
            };
            for (index, group) in groups.iter().enumerate() {
                self.add_group(source, event, index, group);
            }
        }
    }

    fn add_group(&mut self, source: &HookSettingsSource, event: &str, index: usize, group: &Value) {
        let place = format!("{event}[{index}]");
        let Value::Object(fields) = group else {
            return self.note_dropped(source, place, "is not an object");
        };
        let Some(Value::Array(entries)) = fields.get("hooks") else {
            return self.note_dropped(source, place, "has no `hooks` list");
        };
        let matcher = match fields.get("matcher") {
            None => HookMatcher::All,
            Some(Value::String(text)) => HookMatcher::parse(text),
            Some(_) => {
                return self.note_dropped(
                    source,
                    place,
                    "has an invalid `matcher` (expected a string)",
                );
            }
        };
        if let (HookMatcher::Unsupported(why), Some(_)) = (&matcher, matcher::subject_field(event))
        {
            let matcher =
                fields.get("matcher").and_then(Value::as_str).unwrap_or_default().to_owned();
            self.add_notice(source, SettingsProblem::Matcher { matcher, why: why.clone() });
        }
        for (n, entry) in entries.iter().enumerate() {
            match handler_entry::parse_handler(entry) {
                Ok(entry) => self.handlers.push(RegisteredHandler {
                    event: event.to_owned(),
                    kind: entry.kind,
                    timeout: entry.timeout,
                    mode: entry.mode,
                    source: source.clone(),
                    matcher: matcher.clone(),
                    condition: entry.condition,
                }),
                Err(why) => self.note_dropped(source, format!("{place}.hooks[{n}]"), &why),
            }
        }
    }

    fn note_dropped(&mut self, source: &HookSettingsSource, place: String, why: &str) {
        self.add_notice(source, SettingsProblem::Dropped { place, why: why.to_owned() });
    }

    fn add_notice(&mut self, source: &HookSettingsSource, problem: SettingsProblem) {
        self.notices.push(SettingsNotice { settings_source: source.clone(), problem });
    }
}

impl RegisteredHandler {
    fn matches_subject(&self, subject: Option<&str>) -> bool {
        let Some(subject) = subject else {
            return self.condition.is_none();
        };
        let named = |wanted: &dyn Fn(&str) -> bool| {
            matcher::subject_names(&self.event, subject).any(wanted)
        };
        let by_matcher = named(&|name| self.matcher.matches(name));
        let by_condition = self.condition.as_ref().is_none_or(|rule| {
            let tool = rule.split('(').next().unwrap_or_default();
            matcher::subject_field(&self.event) == Some("tool_name") && named(&|name| name == tool)
        });
        by_matcher && by_condition
    }

    /// Whether the client treats the two as one handler and runs them once.
    fn is_duplicate_of(&self, other: &Self) -> bool {
        let root = |handler: &Self| match &handler.source {
            HookSettingsSource::Plugin { root, .. } => Some(root.clone()),
            HookSettingsSource::User
            | HookSettingsSource::Project
            | HookSettingsSource::Local
            | HookSettingsSource::Flag => None,
        };
        let is_same = match (&self.kind, &other.kind) {
            (HandlerKind::Command { .. }, kind) => self.kind == *kind,
            // Another model or timeout does not make another handler.
            (HandlerKind::Evaluator(one), HandlerKind::Evaluator(two)) => {
                one.kind == two.kind && one.prompt == two.prompt
            }
            (HandlerKind::Evaluator(_) | HandlerKind::Unsupported(_), _) => false,
        };
        is_same && self.condition == other.condition && root(self) == root(other)
    }
}

/// Parses a settings file. An empty file is valid.
fn parse_settings(text: &str) -> Result<Map<String, Value>, SettingsProblem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(SettingsProblem::NotJson("another type".to_owned())),
        Err(error) => Err(SettingsProblem::NotJson(error.to_string())),
    }
}

/// Rejects a file for a setting of a wrong type. The list has the settings that were tested; the client checks more.
fn check_setting_types(fields: Map<String, Value>) -> Result<Map<String, Value>, SettingsProblem> {
    type SettingTypeRule = (&'static str, fn(&Value) -> bool, &'static str);
    let rules: [SettingTypeRule; 5] = [
        ("disableAllHooks", Value::is_boolean, "true or false"),
        ("env", Value::is_object, "an object"),
        ("permissions", is_permissions, "an object of lists"),
        ("model", Value::is_string, "a string"),
        ("cleanupPeriodDays", Value::is_number, "a number"),
    ];
    for (setting, fits, wanted) in rules {
        if fields.get(setting).is_some_and(|value| !fits(value)) {
            return Err(SettingsProblem::Rejected { setting, wanted });
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
fn to_js_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(to_js_string).collect::<Vec<_>>().join(","),
        Value::Object(_) => "[object Object]".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
