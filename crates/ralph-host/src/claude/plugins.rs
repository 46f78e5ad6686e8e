//! The plugins of Claude Code.

use crate::plugin_profile::{ManifestHooks, PluginProfile};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Value, json};

pub(super) const PLUGINS: PluginProfile = PluginProfile {
    directory: "plugins",
    known_marketplaces: "known_marketplaces.json",
    extra_marketplaces: "extraKnownMarketplaces",
    installed: "installed_plugins.json",
    marketplace_manifest: ".claude-plugin/marketplace.json",
    manifest: ".claude-plugin/plugin.json",
    hooks: "hooks/hooks.json",
    local_marketplace,
    listed_path,
    installed_paths,
    manifest_hooks,
};

/// Only a directory is read in place; for other sources the client keeps a copy.
fn local_marketplace(known: &Value, marketplace: &str) -> Option<String> {
    let source = known.get(marketplace)?.get("source")?;
    let is_directory = source.get("source")?.as_str()? == "directory";
    source.get("path")?.as_str().filter(|_| is_directory).map(str::to_owned)
}

fn listed_path(manifest: &Value, plugin: &str) -> Option<String> {
    let mut plugins = manifest.get("plugins")?.as_array()?.iter();
    let found = plugins.find(|one| one.get("name").and_then(Value::as_str) == Some(plugin))?;
    found.get("source")?.as_str().map(str::to_owned)
}

fn installed_paths(installed: &Value, name: &str) -> Vec<String> {
    let copies = installed.get("plugins").and_then(|plugins| plugins.get(name)?.as_array());
    let path = |copy: &Value| copy.get("installPath")?.as_str().map(str::to_owned);
    copies.into_iter().flatten().filter_map(path).collect()
}

/// A manifest names another file or contains hooks, with or without the outer object of a settings file.
fn manifest_hooks(manifest: &Value) -> Option<ManifestHooks> {
    match manifest.get("hooks")? {
        Value::String(path) => Some(ManifestHooks::File(path.clone())),
        inline @ Value::Object(fields) if fields.contains_key("hooks") => {
            Some(ManifestHooks::Inline(inline.clone()))
        }
        inline @ Value::Object(_) => Some(ManifestHooks::Inline(json!({ "hooks": inline }))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}
