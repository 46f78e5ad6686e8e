//! Enabled plugins of the client, and their hooks.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::install::settings_layers::{self, SettingsLayer, SettingsLayerState};
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_host::client_settings::HookSetting;
use ralph_host::plugin_profile::{ManifestHooks, PluginProfile};
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
            let root = places.root(name)?;
            Some(EnabledPlugin { name: name.to_string(), hooks: plugin_hooks(host, &root), root })
        })
        .collect()
}

/// The client's records of where plugins are installed.
struct PluginLocations<'a> {
    profile: &'a PluginProfile,
    /// The extra marketplaces of every layer, highest precedence first; then the client's own list.
    marketplaces: Vec<Value>,
    installed: Value,
}

impl<'a> PluginLocations<'a> {
    fn read(env: &Env, host: &'a HostProfile, layers: &[SettingsLayer]) -> Self {
        let profile = &host.plugins;
        let extra = layers.iter().rev().map(|layer| {
            read_plugin_json(&layer.path)
                .get(profile.extra_marketplaces)
                .cloned()
                .unwrap_or_default()
        });
        let directory = host_env::host_config_dir(env, host).unwrap_or_default();
        let directory = directory.join(profile.directory);
        let known = read_plugin_json(&directory.join(profile.known_marketplaces));
        Self {
            profile,
            marketplaces: extra.chain([known]).collect(),
            installed: read_plugin_json(&directory.join(profile.installed)),
        }
    }

    fn root(&self, name: &str) -> Option<PathBuf> {
        let (plugin, marketplace) = name.split_once('@')?;
        // A local marketplace is read in place; for others the client keeps a copy.
        let live = self.marketplaces.iter().find_map(|known| {
            let path = PathBuf::from((self.profile.local_marketplace)(known, marketplace)?);
            path.is_absolute().then_some(path)
        });
        let live = live.and_then(|directory| {
            let listed = read_plugin_json(&directory.join(self.profile.marketplace_manifest));
            join_inside(&directory, &(self.profile.listed_path)(&listed, plugin)?)
        });
        let copies = (self.profile.installed_paths)(&self.installed, name);
        let mut copies = copies.into_iter().rev().map(PathBuf::from);
        live.or_else(|| copies.find(|path| path.is_absolute() && fs::is_directory(path)))
    }
}

/// Joins a relative path; `None` if it would leave the directory.
fn join_inside(directory: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(path).components().all(is_plain).then(|| directory.join(path))
}

/// Hooks from the plugin's own file, and from its manifest.
fn plugin_hooks(host: &HostProfile, root: &Path) -> Vec<HookSetting> {
    let usual = root.join(host.plugins.hooks);
    let mut hooks = read_hooks(host, &usual);
    let manifest = read_plugin_json(&root.join(host.plugins.manifest));
    match (host.plugins.manifest_hooks)(&manifest) {
        Some(ManifestHooks::File(path)) => {
            let path = join_inside(root, &path).filter(|path| *path != usual);
            hooks.extend(path.map(|path| read_hooks(host, &path)).unwrap_or_default());
        }
        Some(ManifestHooks::Inline(settings)) => {
            hooks.extend(parse_hooks(host, settings.to_string().as_bytes()));
        }
        None => {}
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
