//! Finds setups of other tools that hold an agent, which ralph could replace.

use std::path::{Path, PathBuf};

use super::settings_document::{SettingsDocument, SettingsPathStep};
use super::settings_layers::{SettingsLayer, SettingsLayerKind, SettingsLayerState};
use super::{native_judge, program_path};
use ralph_host::HostProfile;
use ralph_host::client_settings::HookOccurrence;
use ralph_sys::fs;

/// Plugins that loop a session, from any marketplace.
const LOOP_PLUGIN_PREFIXES: [&str; 2] = ["ralph-loop@", "ralph-wiggum@"];
const LOOP_STATE_FILE: &str = ".claude/ralph-loop.local.md";
const MAX_FOREIGN_FILES: usize = 10_000;

/// One setup of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignSetup {
    /// A plugin, and the layer that enables it.
    Plugin { name: String, by: SettingsLayerKind },
    /// A hook in the chosen file: its event and its index in the list.
    Hook {
        event: String,
        index: usize,
        command: String,
        /// Its text in the file.
        text: String,
    },
    /// The state file of an active loop.
    Loop(PathBuf),
    /// A file of rules, some of which may block a stop.
    Rules(PathBuf),
}

impl ForeignSetup {
    /// Whether settings of this layer can replace it.
    pub fn is_within(&self, layer: SettingsLayerKind) -> bool {
        match self {
            Self::Plugin { by, .. } => *by <= layer,
            Self::Hook { .. } => true,
            Self::Loop(_) | Self::Rules(_) => false,
        }
    }
}

/// The loop plugins that the combined settings enable.
pub fn find_loop_plugins(layers: &[SettingsLayer]) -> Vec<ForeignSetup> {
    let mut known: Vec<(String, bool, SettingsLayerKind)> = Vec::new();
    for layer in layers {
        let SettingsLayerState::Read(settings) = &layer.state else { continue };
        for (name, is_on) in &settings.enabled_plugins {
            known.retain(|(other, ..)| other != name);
            known.push((name.clone(), *is_on, layer.kind));
        }
    }
    let is_loop = |name: &str| LOOP_PLUGIN_PREFIXES.iter().any(|start| name.starts_with(start));
    let found = known.into_iter().filter(|(name, is_on, _)| *is_on && is_loop(name));
    found.map(|(name, _, by)| ForeignSetup::Plugin { name, by }).collect()
}

/// The stop hooks of a file that are not ralph's.
pub fn find_stop_hooks(host: &HostProfile, bytes: &[u8]) -> Vec<ForeignSetup> {
    let Ok(document) = SettingsDocument::read(bytes) else { return Vec::new() };
    let all = (host.settings.find_hooks)(&document.value());
    let mut found = Vec::new();
    for event in host.hooks.stop_events {
        let of_event: Vec<_> = all.iter().filter(|hook| hook.event == *event).collect();
        for group in of_event.chunk_by(|one, other| one.group == other.group) {
            let commands: Option<Vec<_>> =
                group.iter().map(|hook| describe_foreign_hook(hook)).collect();
            let (Some(commands), Some(first)) = (commands, group.first()) else { continue };
            let place = [
                SettingsPathStep::Key(host.settings.hooks),
                SettingsPathStep::Key(event),
                SettingsPathStep::Index(first.group),
            ];
            found.push(ForeignSetup::Hook {
                event: event.to_string(),
                index: first.group,
                command: commands.join("; "),
                text: document.raw(&place).unwrap_or_default().to_string(),
            });
        }
    }
    found
}

/// Describes a hook in one line; `None` for ralph's own.
fn describe_foreign_hook(hook: &HookOccurrence) -> Option<String> {
    match &hook.command {
        Some(command) if program_path::is_ralph_hook(command, hook.args.as_deref()) => None,
        Some(command) => {
            let words = std::iter::once(command).chain(hook.args.iter().flatten());
            Some(words.map(String::as_str).collect::<Vec<_>>().join(" "))
        }
        None if native_judge::is_native_judge_hook(hook) => None,
        None => Some(format!("a hook of type {}", hook.kind.as_deref().unwrap_or("unknown"))),
    }
}

/// Files of other tools in the project.
pub fn find_tool_files(host: &HostProfile, project: &Path) -> Vec<ForeignSetup> {
    let directory = project.join(host.files.project_dir);
    let names = fs::list(&directory, MAX_FOREIGN_FILES).unwrap_or_default();
    let rules = names.into_iter().filter(|name| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"hookify.") && name.ends_with(b".local.md")
    });
    let under_way = project.join(LOOP_STATE_FILE);
    let under_way = fs::exists(&under_way).then_some(ForeignSetup::Loop(under_way));
    under_way
        .into_iter()
        .chain(rules.map(|name| ForeignSetup::Rules(directory.join(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::settings_layers;
    use ralph_host::default_host;

    #[test]
    fn foreign_stop_hooks_are_found() {
        let text = br#"{"hooks": {
            "Stop": [
                {"hooks": [{"type": "command", "command": "a.sh"}, {"type": "prompt", "prompt": "b"}]},
                {"hooks": [{"type": "command", "command": "/opt/ralph hook claude"}]},
                {"hooks": []},
                {"hooks": [{"type": "command", "command": "a.sh"}, {"type": "command", "command": "ralph hook claude"}]}
            ],
            "SubagentStop": [7, {"hooks": [{"type": "command", "command": "c", "args": ["d", "e"]}]}],
            "PreToolUse": [{"hooks": [{"type": "command", "command": "guard"}]}]
        }}"#;
        let shown =
            find_stop_hooks(default_host(), text).into_iter().map(|found| format!("{found:?}\n"));
        insta::assert_snapshot!(shown.collect::<String>(), @r#"
        Hook { event: "Stop", index: 0, command: "a.sh; a hook of type prompt", text: "{\"hooks\": [{\"type\": \"command\", \"command\": \"a.sh\"}, {\"type\": \"prompt\", \"prompt\": \"b\"}]}" }
        Hook { event: "SubagentStop", index: 1, command: "c d e", text: "{\"hooks\": [{\"type\": \"command\", \"command\": \"c\", \"args\": [\"d\", \"e\"]}]}" }
        "#);
        for odd in [&b"[]"[..], b"{\"hooks\": 1}", b"{", b"{\"hooks\": {\"Stop\": {}}}"] {
            assert_eq!(find_stop_hooks(default_host(), odd), []);
        }
    }

    #[test]
    fn the_highest_layer_decides_whether_a_plugin_is_enabled() {
        let layer = |kind, text: &str| SettingsLayer {
            kind,
            path: PathBuf::from("/nowhere"),
            state: settings_layers::parse_client_settings(default_host(), text.as_bytes()),
        };
        let on = r#"{"enabledPlugins": {"ralph-loop@official": true, "ralph-wiggum@x": true, "other@x": true}}"#;
        let off = r#"{"enabledPlugins": {"ralph-loop@official": false}}"#;
        let layers = [layer(SettingsLayerKind::User, on), layer(SettingsLayerKind::Local, off)];
        let expected = ForeignSetup::Plugin {
            name: "ralph-wiggum@x".to_string(),
            by: SettingsLayerKind::User,
        };
        assert_eq!(find_loop_plugins(&layers), [expected]);
    }

    #[test]
    fn files_of_other_tools_are_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_tool_files(default_host(), dir.path()), []);
        let directory = dir.path().join(".claude");
        fs::create_private_dir(&directory).unwrap();
        for name in
            ["ralph-loop.local.md", "hookify.tests.local.md", "hookify.md", "other.local.md"]
        {
            fs::replace_with_mode(&directory.join(name), b"", fs::SharedFileMode::Ordinary)
                .unwrap();
        }
        let expected = [
            ForeignSetup::Loop(directory.join("ralph-loop.local.md")),
            ForeignSetup::Rules(directory.join("hookify.tests.local.md")),
        ];
        assert_eq!(find_tool_files(default_host(), dir.path()), expected);
    }
}
