//! Determines which hooks the client runs for an event, in order. The client's output names only the event, not the
//! hooks.

use super::tap::Tap;
use crate::matcher;
use crate::query::hooks::with_root;
use crate::settings::{self, Hook, Kind, Layer, Loaded, Mode, Source};
use crate::stage::Stage;
use ralph_sys::fs;
use serde_json::Value;
use std::path::Path;

const LARGEST_SETTINGS: usize = 4 * 1024 * 1024;

/// A hook that the client should run for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answering {
    pub(super) command: String,
    pub(super) source: String,
    pub(super) is_tap: bool,
    /// The client does not wait for it.
    pub(super) is_async: bool,
}

/// Loads the hooks of the scratch project, including the tap.
pub(super) fn load(stage: &Stage, tap: &Tap) -> Loaded {
    let mut files = vec![
        (Source::User, stage.home.join(".claude/settings.json")),
        (Source::Project, stage.project.join(".claude/settings.json")),
        (Source::Local, stage.project.join(".claude/settings.local.json")),
        (Source::Flag, tap.settings.clone()),
    ];
    for root in &stage.plugins {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let marketplace = "inline".to_owned();
        let source =
            Source::Plugin { name, marketplace, root: root.to_string_lossy().into_owned() };
        files.push((source, root.join("hooks/hooks.json")));
    }
    let texts = files.into_iter().filter_map(|(source, path)| {
        let bytes = fs::read(&path, LARGEST_SETTINGS).ok()?;
        Some((source, String::from_utf8_lossy(&bytes).into_owned()))
    });
    let texts: Vec<_> = texts.collect();
    let layers = texts.iter().map(|(source, text)| Layer { source: source.clone(), text });
    settings::load(&layers.collect::<Vec<_>>())
}

/// The hooks for an event with this input.
pub(super) fn answering(loaded: &Loaded, tap: &Path, event: &str, input: &Value) -> Vec<Answering> {
    let subject = matcher::subject_field(event).and_then(|name| input.get(name));
    let hooks = loaded.handlers(event, subject.and_then(Value::as_str));
    let hooks = hooks.into_iter().map(|hook| {
        let command = command(hook);
        let is_tap = command == format!("{} {event}", tap.display());
        Answering {
            command,
            source: hook.source.to_string(),
            is_tap,
            is_async: hook.mode == Mode::Async,
        }
    });
    hooks.collect()
}

fn command(hook: &Hook) -> String {
    let Kind::Command { command, args } = &hook.kind else { return String::new() };
    let mut words = vec![command.clone()];
    words.extend(args.iter().flatten().cloned());
    let command = words.join(" ");
    match &hook.source {
        Source::Plugin { root, .. } => with_root(&command, root),
        Source::User | Source::Project | Source::Local | Source::Flag => command,
    }
}
