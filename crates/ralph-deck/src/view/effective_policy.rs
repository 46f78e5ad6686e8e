//! The policy in force, with the origin of every setting.

use ralph_core::policy::Policy;
use ralph_policy::config::{ConfigLayer, ProjectConfig};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct ConfigView<'a> {
    pub v: u8,
    pub project: String,
    pub file: Option<String>,
    pub policy: &'a Policy,
    pub origins: Vec<ConfigOriginView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct ConfigOriginView<'a> {
    pub key: &'a str,
    /// In TOML syntax.
    pub value: &'a str,
    pub layer: ConfigLayer,
    pub line: Option<u32>,
}

pub fn config_view(config: &ProjectConfig) -> ConfigView<'_> {
    let origins = config.origins.iter().map(|origin| ConfigOriginView {
        key: &origin.key,
        value: &origin.value,
        layer: origin.location.layer,
        line: (origin.location.layer != ConfigLayer::BuiltIn).then_some(origin.location.line),
    });
    ConfigView {
        v: 1,
        project: config.project.display().to_string(),
        file: config.file.as_ref().map(|file| file.path.display().to_string()),
        policy: &config.policy,
        origins: origins.collect(),
    }
}
