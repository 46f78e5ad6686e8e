//! Reads the settings files of a session, as the client does when it starts and whenever they change.

use super::{
    HookSettingsFile, HookSettingsSource, LoadedHookSettings, SettingsNotice, SettingsProblem, load,
};
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// Size limit of a settings file.
pub const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;

/// Where the settings of a session are.
#[derive(Clone, Copy, Debug)]
pub struct SettingsPlaces<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    pub flag: FlagSettings<'a>,
    /// The directories of plugins that were given on the command line.
    pub plugins: &'a [PathBuf],
}

/// The value of `--settings`.
#[derive(Clone, Copy, Debug)]
pub enum FlagSettings<'a> {
    Absent,
    File(&'a Path),
    Inline(&'a str),
}

impl<'a> FlagSettings<'a> {
    /// Parses the value of the flag: inline JSON, or the path of a file.
    pub fn parse(value: Option<&'a str>) -> Self {
        match value {
            None => Self::Absent,
            Some(text) if text.trim_start().starts_with('{') => Self::Inline(text),
            Some(path) => Self::File(Path::new(path)),
        }
    }
}

/// Loads all settings that exist. An unreadable file is ignored, with a notice.
pub fn load_settings_files(places: &SettingsPlaces<'_>) -> LoadedHookSettings {
    let claude = |directory: &Path, name: &str| directory.join(".claude").join(name);
    let mut files = vec![
        (HookSettingsSource::User, claude(places.home, "settings.json")),
        (HookSettingsSource::Project, claude(places.project, "settings.json")),
        (HookSettingsSource::Local, claude(places.project, "settings.local.json")),
    ];
    let mut texts = Vec::new();
    match places.flag {
        FlagSettings::Absent => {}
        FlagSettings::File(path) => files.push((HookSettingsSource::Flag, path.to_owned())),
        FlagSettings::Inline(text) => texts.push((HookSettingsSource::Flag, text.to_owned())),
    }
    files.extend(places.plugins.iter().map(|root| {
        let source = HookSettingsSource::Plugin {
            name: root.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            marketplace: "inline".to_owned(),
            root: root.to_string_lossy().into_owned(),
        };
        (source, root.join("hooks/hooks.json"))
    }));
    let mut unreadable = Vec::new();
    for (source, path) in files {
        match fs::read_if_exists(&path, MAX_SETTINGS_BYTES) {
            Ok(Some(bytes)) => texts.push((source, String::from_utf8_lossy(&bytes).into_owned())),
            Ok(None) => {}
            Err(error) => unreadable.push(SettingsNotice {
                settings_source: source,
                problem: SettingsProblem::Unreadable(error.to_string()),
            }),
        }
    }
    let layers =
        texts.iter().map(|(source, text)| HookSettingsFile { source: source.clone(), text });
    let mut loaded = load(&layers.collect::<Vec<_>>());
    loaded.notices.extend(unreadable);
    loaded
}
