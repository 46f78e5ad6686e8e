//! Enabled plugins of the client, and their hooks.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::install::settings_layers::{self, SettingsLayer, SettingsLayerState};
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_host::client_settings::HookSetting;
use ralph_sys::env::Env;
use ralph_sys::fs;

const MAX_PLUGIN_FILE_BYTES: usize = 4 * 1024 * 1024;
const MAX_PLUGINS: usize = 200;

pub(super) struct EnabledPlugin {
    pub(super) name: String,
    pub(super) root: PathBuf,
    pub(super) hooks: Vec<HookSetting>,
}

/// Every plugin that the combined settings enable and that exists on disk.
pub(super) fn enabled_plugins(
    env: &Env,
    host: &HostProfile,
    layers: &[SettingsLayer],
) -> Vec<EnabledPlugin> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for layer in layers {
        let SettingsLayerState::Read(settings) = &layer.state else { continue };
        if settings.ignored.is_some() {
            continue;
        }
        for (name, is_on) in &settings.enabled_plugins {
            names.retain(|(known, _)| known != name);
            names.push((name, *is_on));
        }
    }
    let names = names.into_iter().filter(|(_, is_on)| *is_on).take(MAX_PLUGINS);
    let places = PluginLocations::read(env, host, layers);
    names
        .filter_map(|(name, _)| {
            let root = places.root(host, name)?;
            Some(EnabledPlugin { name: name.to_string(), hooks: plugin_hooks(host, &root), root })
        })
        .collect()
}

/// The client's records of where plugins are installed.
struct PluginLocations {
    /// `extraKnownMarketplaces` of every layer, highest precedence first; then the client's own list.
    marketplaces: Vec<Value>,
    installed: Value,
}

impl PluginLocations {
    fn read(env: &Env, host: &HostProfile, layers: &[SettingsLayer]) -> Self {
        let extra = layers.iter().rev().map(|layer| {
            read_plugin_json(&layer.path).get("extraKnownMarketplaces").cloned().unwrap_or_default()
        });
        let directory = host_env::host_config_dir(env, host).unwrap_or_default();
        let directory = directory.join(host.files.plugins);
        let known = read_plugin_json(&directory.join("known_marketplaces.json"));
        Self {
            marketplaces: extra.chain([known]).collect(),
            installed: read_plugin_json(&directory.join("installed_plugins.json")),
        }
    }

    fn root(&self, host: &HostProfile, name: &str) -> Option<PathBuf> {
        let (plugin, marketplace) = name.split_once('@')?;
        // A local marketplace is read in place; for others the client keeps a copy.
        let live = self.marketplaces.iter().find_map(|known| {
            let source = known.get(marketplace)?.get("source")?;
            let is_directory = source.get("source")?.as_str()? == "directory";
            let path = PathBuf::from(source.get("path")?.as_str()?);
            (is_directory && path.is_absolute()).then_some(path)
        });
        let live = live.and_then(|directory| find_in_marketplace(host, &directory, plugin));
        let copies =
            self.installed.get("plugins").and_then(|plugins| plugins.get(name)?.as_array());
        let mut copy = copies.into_iter().flatten().rev().filter_map(|copy| {
            let path = PathBuf::from(copy.get("installPath")?.as_str()?);
            (path.is_absolute() && fs::is_directory(&path)).then_some(path)
        });
        live.or_else(|| copy.next())
    }
}

fn find_in_marketplace(host: &HostProfile, directory: &Path, plugin: &str) -> Option<PathBuf> {
    let listed = read_plugin_json(&directory.join(host.files.marketplace_manifest));
    let plugins = listed.get("plugins")?.as_array()?;
    let found =
        plugins.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(plugin))?;
    join_inside(directory, found.get("source")?.as_str()?)
}

/// Joins a relative path; `None` if it would leave the directory.
fn join_inside(directory: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(path).components().all(is_plain).then(|| directory.join(path))
}

/// Hooks from `hooks/hooks.json`, and from `plugin.json`, which may name another file or contain hooks inline.
fn plugin_hooks(host: &HostProfile, root: &Path) -> Vec<HookSetting> {
    let mut hooks = read_hooks(host, &root.join("hooks/hooks.json"));
    let manifest = read_plugin_json(&root.join(host.files.plugin_manifest));
    match manifest.get("hooks") {
        Some(Value::String(path)) => {
            let path =
                join_inside(root, path).filter(|path| *path != root.join("hooks/hooks.json"));
            hooks.extend(path.map(|path| read_hooks(host, &path)).unwrap_or_default());
        }
        Some(inline @ Value::Object(_)) => {
            let whole = inline
                .get("hooks")
                .map_or_else(|| serde_json::json!({ "hooks": inline }), |_| inline.clone());
            hooks.extend(parse_hooks(host, whole.to_string().as_bytes()));
        }
        Some(_) | None => {}
    }
    hooks
}

fn read_hooks(host: &HostProfile, path: &Path) -> Vec<HookSetting> {
    fs::read_if_exists(path, MAX_PLUGIN_FILE_BYTES)
        .ok()
        .flatten()
        .map(|bytes| parse_hooks(host, &bytes))
        .unwrap_or_default()
}

fn parse_hooks(host: &HostProfile, bytes: &[u8]) -> Vec<HookSetting> {
    match settings_layers::parse_client_settings(host, bytes) {
        SettingsLayerState::Read(settings) if settings.ignored.is_none() => settings.hooks,
        SettingsLayerState::Read(_)
        | SettingsLayerState::Missing
        | SettingsLayerState::Broken(_) => Vec::new(),
    }
}

/// Reads JSON; a missing or malformed file counts as `null`.
fn read_plugin_json(path: &Path) -> Value {
    let bytes = fs::read_if_exists(path, MAX_PLUGIN_FILE_BYTES).ok().flatten().unwrap_or_default();
    serde_json::from_slice(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes))
        .unwrap_or_default()
}
