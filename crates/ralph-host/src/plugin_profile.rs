//! Where a host records its plugins, and how to read those records. They are JSON.

use alloc::string::String;
use alloc::vec::Vec;
use serde_json::Value;

#[derive(Debug)]
pub struct PluginProfile {
    /// Installed plugins, below the configuration directory.
    pub directory: &'static str,
    /// The known marketplaces, below that directory.
    pub known_marketplaces: &'static str,
    /// The settings key that adds marketplaces.
    pub extra_marketplaces: &'static str,
    /// The installed copies of plugins, below that directory.
    pub installed: &'static str,
    /// The list of a marketplace's plugins, below the marketplace.
    pub marketplace_manifest: &'static str,
    /// The manifest of a plugin, below the plugin.
    pub manifest: &'static str,
    /// The hooks of a plugin, below the plugin.
    pub hooks: &'static str,
    /// Finds the path of a marketplace that the host reads in place, in the known marketplaces.
    pub local_marketplace: fn(&Value, &str) -> Option<String>,
    /// Finds the path of a plugin in its marketplace's list.
    pub listed_path: fn(&Value, &str) -> Option<String>,
    /// The paths of the copies of a plugin, oldest first.
    pub installed_paths: fn(&Value, &str) -> Vec<String>,
    /// The hooks that a manifest adds.
    pub manifest_hooks: fn(&Value) -> Option<ManifestHooks>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ManifestHooks {
    /// In this file, below the plugin.
    File(String),
    /// In the form of a settings file with only these hooks.
    Inline(Value),
}
