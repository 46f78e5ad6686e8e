//! Enabled plugins of the client, and their hooks.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::install::layers::{self, Hook, Layer, State};
use ralph_sys::env::Env;
use ralph_sys::fs;

const LARGEST: usize = 4 * 1024 * 1024;
const MOST: usize = 200;

pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) root: PathBuf,
    pub(super) hooks: Vec<Hook>,
}

/// Every plugin that the combined settings enable and that exists on disk.
pub(super) fn enabled(env: &Env, layers: &[Layer]) -> Vec<Plugin> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for layer in layers {
        let State::Read(settings) = &layer.state else { continue };
        if settings.ignored.is_some() {
            continue;
        }
        for (name, is_on) in &settings.enabled_plugins {
            names.retain(|(known, _)| known != name);
            names.push((name, *is_on));
        }
    }
    let names = names.into_iter().filter(|(_, is_on)| *is_on).take(MOST);
    let places = Places::read(env, layers);
    names
        .filter_map(|(name, _)| {
            let root = places.root(name)?;
            Some(Plugin { name: name.to_string(), hooks: hooks(&root), root })
        })
        .collect()
}

/// The client's records of where plugins are installed.
struct Places {
    /// `extraKnownMarketplaces` of every layer, highest precedence first; then the client's own list.
    marketplaces: Vec<Value>,
    installed: Value,
}

impl Places {
    fn read(env: &Env, layers: &[Layer]) -> Self {
        let extra = layers.iter().rev().map(|layer| {
            json(&layer.path).get("extraKnownMarketplaces").cloned().unwrap_or_default()
        });
        let directory = env.claude_config_dir().unwrap_or_default().join("plugins");
        let known = json(&directory.join("known_marketplaces.json"));
        Self {
            marketplaces: extra.chain([known]).collect(),
            installed: json(&directory.join("installed_plugins.json")),
        }
    }

    fn root(&self, name: &str) -> Option<PathBuf> {
        let (plugin, marketplace) = name.split_once('@')?;
        // A local marketplace is read in place; for others the client keeps a copy.
        let live = self.marketplaces.iter().find_map(|known| {
            let source = known.get(marketplace)?.get("source")?;
            let is_directory = source.get("source")?.as_str()? == "directory";
            let path = PathBuf::from(source.get("path")?.as_str()?);
            (is_directory && path.is_absolute()).then_some(path)
        });
        let live = live.and_then(|directory| in_marketplace(&directory, plugin));
        let copies =
            self.installed.get("plugins").and_then(|plugins| plugins.get(name)?.as_array());
        let mut copy = copies.into_iter().flatten().rev().filter_map(|copy| {
            let path = PathBuf::from(copy.get("installPath")?.as_str()?);
            (path.is_absolute() && fs::is_directory(&path)).then_some(path)
        });
        live.or_else(|| copy.next())
    }
}

fn in_marketplace(directory: &Path, plugin: &str) -> Option<PathBuf> {
    let listed = json(&directory.join(".claude-plugin/marketplace.json"));
    let plugins = listed.get("plugins")?.as_array()?;
    let found =
        plugins.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(plugin))?;
    inside(directory, found.get("source")?.as_str()?)
}

/// Joins a relative path; `None` if it would leave the directory.
fn inside(directory: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(path).components().all(is_plain).then(|| directory.join(path))
}

/// Hooks from `hooks/hooks.json`, and from `plugin.json`, which may name another file or contain hooks inline.
fn hooks(root: &Path) -> Vec<Hook> {
    let mut hooks = of_file(&root.join("hooks/hooks.json"));
    let manifest = json(&root.join(".claude-plugin/plugin.json"));
    match manifest.get("hooks") {
        Some(Value::String(path)) => {
            let path = inside(root, path).filter(|path| *path != root.join("hooks/hooks.json"));
            hooks.extend(path.map(|path| of_file(&path)).unwrap_or_default());
        }
        Some(inline @ Value::Object(_)) => {
            let whole = inline
                .get("hooks")
                .map_or_else(|| serde_json::json!({ "hooks": inline }), |_| inline.clone());
            hooks.extend(of_bytes(whole.to_string().as_bytes()));
        }
        Some(_) | None => {}
    }
    hooks
}

fn of_file(path: &Path) -> Vec<Hook> {
    fs::read_opt(path, LARGEST).ok().flatten().map(|bytes| of_bytes(&bytes)).unwrap_or_default()
}

fn of_bytes(bytes: &[u8]) -> Vec<Hook> {
    match layers::parse(bytes) {
        State::Read(settings) if settings.ignored.is_none() => settings.hooks,
        State::Read(_) | State::Missing | State::Broken(_) => Vec::new(),
    }
}

/// Reads JSON; a missing or malformed file counts as `null`.
fn json(path: &Path) -> Value {
    let bytes = fs::read_opt(path, LARGEST).ok().flatten().unwrap_or_default();
    serde_json::from_slice(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes))
        .unwrap_or_default()
}
