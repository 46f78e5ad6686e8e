//! Determines which hooks the client runs for an event, in order. The client's output names only the event, not the
//! hooks.

use super::hook_tap::HookTap;
use crate::hook_settings::{
    self, HandlerKind, HandlerMode, HookSettingsFile, HookSettingsSource, LoadedHookSettings,
    RegisteredHandler,
};
use crate::matcher;
use crate::scratch::ScratchProject;
use crate::simulator::hook_dispatch::expand_plugin_root;
use ralph_sys::fs;
use serde_json::Value;
use std::path::Path;

const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;

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
    let mut files = vec![
        (HookSettingsSource::User, stage.home.join(".claude/settings.json")),
        (HookSettingsSource::Project, stage.project.join(".claude/settings.json")),
        (HookSettingsSource::Local, stage.project.join(".claude/settings.local.json")),
        (HookSettingsSource::Flag, tap.settings.clone()),
    ];
    for root in &stage.plugins {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let marketplace = "inline".to_owned();
        let source = HookSettingsSource::Plugin {
            name,
            marketplace,
            root: root.to_string_lossy().into_owned(),
        };
        files.push((source, root.join("hooks/hooks.json")));
    }
    let texts = files.into_iter().filter_map(|(source, path)| {
        let bytes = fs::read(&path, MAX_SETTINGS_BYTES).ok()?;
        Some((source, String::from_utf8_lossy(&bytes).into_owned()))
    });
    let texts: Vec<_> = texts.collect();
    let layers =
        texts.iter().map(|(source, text)| HookSettingsFile { source: source.clone(), text });
    hook_settings::load(&layers.collect::<Vec<_>>())
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
    let hooks = hooks.into_iter().map(|hook| {
        let command = shown_command(hook);
        let is_tap = command == format!("{} {event}", tap.display());
        ExpectedHandler {
            command,
            source: hook.source.to_string(),
            is_tap,
            is_async: hook.mode == HandlerMode::Async,
        }
    });
    hooks.collect()
}

fn shown_command(hook: &RegisteredHandler) -> String {
    let HandlerKind::Command { command, args } = &hook.kind else { return String::new() };
    let mut words = vec![command.clone()];
    words.extend(args.iter().flatten().cloned());
    let command = words.join(" ");
    match &hook.source {
        HookSettingsSource::Plugin { root, .. } => expand_plugin_root(&command, root),
        HookSettingsSource::User
        | HookSettingsSource::Project
        | HookSettingsSource::Local
        | HookSettingsSource::Flag => command,
    }
}
