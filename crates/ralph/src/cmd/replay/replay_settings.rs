//! Loads the settings that the client would load, or those given on the command line.

use super::replay_args::ReplayArgs as Args;
use crate::cmd::simulate::simulated_host;
use crate::failure::CommandFailure;
use crate::timeline_view;
use ralph_home::host_env;
use ralph_sim::hook_settings::{
    self, HookSettingsFile, HookSettingsSource, LoadedHookSettings, MAX_SETTINGS_BYTES,
};
use ralph_sim::replay::HookPayload;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(super) struct ReplaySettings {
    pub(super) loaded: LoadedHookSettings,
    /// Settings that could not be loaded, and plugins whose hooks are not replayed.
    pub(super) notices: Vec<String>,
    /// The explanation to print if no hook ran.
    pub(super) no_hook_text: String,
}

pub(super) fn load_settings(
    env: &Env,
    args: &Args,
    payload: &HookPayload,
    project: &Path,
) -> Result<ReplaySettings, CommandFailure> {
    let mut notices = Vec::new();
    let texts = if args.settings.is_none() && args.hook.is_empty() {
        configured_settings(env, project, &mut notices)
    } else {
        given_settings(env, args, payload)?
    };
    for (source, text) in &texts {
        notices.extend(plugin_notice(source, text));
    }
    let silence = no_hook_text(args, payload.event(), &texts, project);
    let layers: Vec<_> = texts
        .iter()
        .map(|(source, text)| HookSettingsFile { source: source.clone(), text })
        .collect();
    Ok(ReplaySettings { loaded: hook_settings::load(&layers), notices, no_hook_text: silence })
}

fn no_hook_text(
    args: &Args,
    event: &str,
    texts: &[(HookSettingsSource, String)],
    project: &Path,
) -> String {
    let place = match &args.settings {
        Some(path) => path.display().to_string(),
        None => format!("your settings and those of {}", project.display()),
    };
    let is_configured = texts.iter().any(|(_, text)| {
        let settings: Value = serde_json::from_str(text).unwrap_or_default();
        settings["hooks"][event].as_array().is_some_and(|hooks| !hooks.is_empty())
    });
    if is_configured {
        format!("the client does not wait for any hook for {event} in {place}")
    } else {
        format!("no hook is configured for {event} in {place}")
    }
}

fn configured_settings(
    env: &Env,
    project: &Path,
    notices: &mut Vec<String>,
) -> Vec<(HookSettingsSource, String)> {
    let host = simulated_host();
    let names = &host.files;
    let files: [(HookSettingsSource, Option<PathBuf>); 3] = [
        (
            HookSettingsSource::User,
            host_env::host_config_dir(env, host)
                .map(|directory| directory.join(names.user_settings)),
        ),
        (HookSettingsSource::Project, Some(project.join(names.project_settings))),
        (HookSettingsSource::Local, Some(project.join(names.local_settings))),
    ];
    let mut texts = Vec::new();
    for (source, path) in files {
        let Some(path) = path else { continue };
        match fs::read_if_exists(&path, MAX_SETTINGS_BYTES) {
            Ok(Some(bytes)) => texts.push((source, String::from_utf8_lossy(&bytes).into_owned())),
            Ok(None) => {}
            Err(error) => notices.push(format!("{source} settings: {error}")),
        }
    }
    texts
}

/// The given settings and hooks, which replace the configured ones.
fn given_settings(
    env: &Env,
    args: &Args,
    payload: &HookPayload,
) -> Result<Vec<(HookSettingsSource, String)>, CommandFailure> {
    let mut texts = Vec::new();
    if let Some(path) = &args.settings {
        let bytes =
            fs::read(&env.current_dir().unwrap_or_default().join(path), MAX_SETTINGS_BYTES)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(error) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
            let what = format!("`{}` is not a settings file", path.display());
            return Err(CommandFailure::caused_by(&what, &error));
        }
        texts.push((HookSettingsSource::Flag, text));
    }
    if !args.hook.is_empty() {
        let hooks: Vec<Value> = args
            .hook
            .iter()
            .map(|command| json!({"type": "command", "command": command}))
            .collect();
        let settings = json!({"hooks": {payload.event(): [{"hooks": hooks}]}});
        texts.push((HookSettingsSource::Flag, settings.to_string()));
    }
    Ok(texts)
}

/// A notice about enabled plugins. Their hooks are not replayed: only the client knows which plugins are in effect.
fn plugin_notice(source: &HookSettingsSource, text: &str) -> Option<String> {
    let settings: Value = serde_json::from_str(text).ok()?;
    let names = settings.get("enabledPlugins")?.as_object()?.iter();
    let names = names.filter(|(_, is_on)| **is_on != Value::Bool(false));
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).take(10).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        let settings = timeline_view::settings_label(&source.to_string());
        format!("{settings} enable plugins ({names}): their hooks are not replayed")
    })
}
