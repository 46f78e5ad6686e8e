//! Determines which hooks the client runs for an event, in order. The client's output names only the event, not the
//! hooks.

use super::hook_tap::HookTap;
use crate::hook_settings::{
    EvaluatorKind, FlagSettings, HandlerKind, HandlerMode, HookSettingsSource, LoadedHookSettings,
    RegisteredHandler, SettingsPlaces, load_settings_files,
};
use crate::matcher;
use crate::scratch::ScratchProject;
use crate::simulator::hook_dispatch::expand_plugin_root;
use serde_json::Value;
use std::path::Path;

/// A hook that the client should run for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedHandler {
    pub(super) command: String,
    pub(super) source: String,
    pub(super) is_tap: bool,
    /// The client does not wait for it.
    pub(super) is_async: bool,
}

/// Loads the hooks of the scratch project, including the tap.
pub(super) fn load_hook_settings(stage: &ScratchProject, tap: &HookTap) -> LoadedHookSettings {
    let flag = FlagSettings::File(&tap.settings);
    load_settings_files(&SettingsPlaces { flag, ..stage.settings_places() })
}

/// The hooks for an event with this input.
pub(super) fn handlers_for_event(
    loaded: &LoadedHookSettings,
    tap: &Path,
    event: &str,
    input: &Value,
) -> Vec<ExpectedHandler> {
    let subject = matcher::subject_field(event).and_then(|name| input.get(name));
    let hooks = loaded.handlers(event, subject.and_then(Value::as_str));
    // The client prints lines about processes only.
    let hooks = hooks.into_iter().filter_map(|hook| {
        let command = match &hook.kind {
            HandlerKind::Command { command, args } => shown_command(hook, command, args.as_deref()),
            HandlerKind::Unsupported(_) => String::new(),
            HandlerKind::Evaluator(_) => return None,
        };
        let is_tap = command == format!("{} {event}", tap.display());
        Some(ExpectedHandler {
            command,
            source: hook.source.to_string(),
            is_tap,
            is_async: hook.mode == HandlerMode::Async,
        })
    });
    hooks.collect()
}

/// A hook that should ask a model about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedEvaluator {
    pub(super) kind: EvaluatorKind,
    pub(super) prompt: String,
    pub(super) source: String,
}

/// The hooks that ask a model about an event with this input.
pub(super) fn evaluators_for_event(
    loaded: &LoadedHookSettings,
    event: &str,
    input: &Value,
) -> Vec<ExpectedEvaluator> {
    let subject = matcher::subject_field(event).and_then(|name| input.get(name));
    let hooks = loaded.handlers(event, subject.and_then(Value::as_str));
    let asked = hooks.into_iter().filter_map(|hook| match &hook.kind {
        HandlerKind::Evaluator(evaluator) => Some(ExpectedEvaluator {
            kind: evaluator.kind,
            prompt: evaluator.prompt.clone(),
            source: hook.source.to_string(),
        }),
        HandlerKind::Command { .. } | HandlerKind::Unsupported(_) => None,
    });
    asked.collect()
}

fn shown_command(hook: &RegisteredHandler, command: &str, args: Option<&[String]>) -> String {
    let mut words = vec![command.to_owned()];
    words.extend(args.into_iter().flatten().cloned());
    let command = words.join(" ");
    match &hook.source {
        HookSettingsSource::Plugin { root, .. } => expand_plugin_root(&command, root),
        HookSettingsSource::User
        | HookSettingsSource::Project
        | HookSettingsSource::Local
        | HookSettingsSource::Flag => command,
    }
}
