//! Replaces the hooks of scenarios by those given on the command line.

use super::simulate_args::SimulateArgs as Args;
use crate::failure::CommandFailure;
use ralph_core::gate::shell_quote;
use ralph_core::text;
use ralph_sim::scenario::{
    SIMULATED_EVENTS, Scenario, ScenarioHook, ScenarioHookCommand, ScenarioSettingsLayer,
};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;

/// What replaces the hooks of every scenario.
#[derive(Debug, Default)]
pub(super) struct HookOverrides {
    hooks: Vec<ScenarioHook>,
    settings: Option<Value>,
    project: Option<PathBuf>,
    /// The directory `hooks` next to the settings file.
    pub scripts: Option<PathBuf>,
    /// Warnings about probable mistakes.
    pub notes: Vec<String>,
}

impl HookOverrides {
    pub(super) fn read(env: &Env, args: &Args) -> Result<Self, CommandFailure> {
        let here = env.current_dir().unwrap_or_default();
        let mut given = Self {
            hooks: args.hook.iter().map(|command| parse_hook(&here, command)).collect(),
            notes: args.hook.iter().filter_map(|command| misspelt_event_note(command)).collect(),
            ..Self::default()
        };
        if let Some(project) = &args.project {
            if !fs::is_directory(project) {
                let what = format!("there is no directory `{}`", project.display());
                return Err(CommandFailure::new(&what, "give the directory of a project"));
            }
            let files = &super::simulated_host().files;
            let settings = [files.project_settings, files.local_settings];
            let has_settings = settings.iter().any(|file| fs::exists(&project.join(file)));
            if !has_settings && args.hook.is_empty() && args.settings.is_none() {
                let shown = project.display();
                given.notes.push(format!("`{shown}` has no settings in `.claude`, so no hooks"));
            }
            given.project = Some(project.clone());
        }
        let Some(path) = &args.settings else { return Ok(given) };
        let bytes = fs::read(path, MAX_SETTINGS_BYTES)?;
        let settings = serde_json::from_slice::<Map<String, Value>>(&bytes).map_err(|error| {
            CommandFailure::caused_by(
                &format!("`{}` is not a settings file", path.display()),
                &error,
            )
        })?;
        given.settings = Some(Value::Object(settings));
        let scripts = here.join(path).parent().map(|directory| directory.join("hooks"));
        given.scripts = scripts.filter(|scripts| fs::is_directory(scripts));
        Ok(given)
    }

    /// Whether the scenario's own hooks are replaced.
    pub(super) fn is_any(&self) -> bool {
        !self.hooks.is_empty() || self.settings.is_some() || self.project.is_some()
    }

    pub(super) fn apply_to(&self, scenario: &mut Scenario) {
        if !self.is_any() {
            return;
        }
        scenario.hooks.clone_from(&self.hooks);
        scenario.plugins.clear();
        if let Some(project) = &self.project {
            scenario.copy = Some(project.clone());
            scenario.files.retain(|name, _| !name.starts_with(".claude/"));
            scenario.settings.project = None;
            scenario.settings.local = None;
        }
        if let Some(settings) = &self.settings {
            scenario.settings.project = Some(settings.clone());
        }
    }
}

/// `PreToolUse=./guard.sh`, or a command for `Stop`.
fn parse_hook(here: &Path, named: &str) -> ScenarioHook {
    let event = named.split_once('=').filter(|(event, _)| SIMULATED_EVENTS.contains(event));
    let (event, command) = event.unwrap_or(("Stop", named));
    ScenarioHook {
        event: event.to_owned(),
        run: ScenarioHookCommand::Command(absolute_script_paths(here, command)),
        layer: ScenarioSettingsLayer::Flag,
        ..ScenarioHook::default()
    }
}

/// Warns about an unknown event, because the shell takes `NAME=` for a variable.
fn misspelt_event_note(named: &str) -> Option<String> {
    let (event, _) =
        named.split_once('=').filter(|(event, _)| !SIMULATED_EVENTS.contains(event))?;
    let lower = SIMULATED_EVENTS.map(str::to_lowercase);
    let near = text::nearest(event, lower.iter().map(String::as_str))?;
    let near = SIMULATED_EVENTS.iter().find(|event| event.eq_ignore_ascii_case(near))?;
    Some(format!(
        "there is no event `{event}`, so this is a command for `Stop`: did you mean `{near}=`?"
    ))
}

/// Makes relative paths of scripts absolute: hooks run in the scratch project, but paths are given from `here`.
fn absolute_script_paths(here: &Path, command: &str) -> String {
    let words = command.split(' ').map(|word| match absolute_file(here, word) {
        Some(path) => Cow::Owned(shell_quote(&path)),
        None => Cow::Borrowed(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The absolute path, if the word is the relative path of an existing file.
fn absolute_file(here: &Path, word: &str) -> Option<String> {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+@%,".contains(char);
    if !word.contains('/') || word.starts_with('/') || !word.chars().all(is_plain) {
        return None;
    }
    let path = here.join(word.trim_start_matches("./"));
    let is_file = fs::stat(&path).is_some_and(|found| found.kind == fs::FileKind::File);
    path.into_os_string().into_string().ok().filter(|_| is_file)
}
