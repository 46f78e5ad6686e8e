//! The settings files that the client reads for a project, reduced to what concerns hooks.
//!
//! Parsing is lenient: an entry of an unexpected type is skipped and reported in [`ClientSettings::skipped_entries`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::jsonc::{self, BYTE_ORDER_MARK};
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_host::client_settings::ClientSettings;
use ralph_sys::env::Env;
use ralph_sys::fs;

/// Far larger than any real settings file.
pub(super) const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;
const MAX_MANAGED_FILES: usize = 100;

/// From lowest to highest precedence: a later layer overrides a setting of an earlier one. Hooks of all layers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingsLayerKind {
    User,
    Project,
    Local,
    Managed,
}

impl SettingsLayerKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Managed => "managed",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SettingsLayer {
    pub kind: SettingsLayerKind,
    pub path: PathBuf,
    pub state: SettingsLayerState,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SettingsLayerState {
    Missing,
    /// It cannot be read or parsed, for this reason.
    Broken(String),
    Read(Box<ClientSettings>),
}

/// Every layer that the client would look for, from lowest to highest precedence.
pub fn read_layers(env: &Env, host: &HostProfile, project: &Path) -> Vec<SettingsLayer> {
    let files = &host.files;
    let kinds = [SettingsLayerKind::User, SettingsLayerKind::Project, SettingsLayerKind::Local];
    let personal = kinds
        .into_iter()
        .filter_map(|kind| Some(read_layer(host, kind, layer_path(env, host, project, kind)?)))
        .chain([read_layer(
            host,
            SettingsLayerKind::Managed,
            PathBuf::from(files.managed_settings),
        )]);
    let parts = Path::new(files.managed_settings_dir);
    let names = fs::list(parts, MAX_MANAGED_FILES).unwrap_or_default();
    let names = names.into_iter().filter(|name| name.as_encoded_bytes().ends_with(b".json"));
    let parts = names.map(|name| read_layer(host, SettingsLayerKind::Managed, parts.join(name)));
    personal.chain(parts).collect()
}

/// The path of a layer; `None` if there is no home directory.
pub fn layer_path(
    env: &Env,
    host: &HostProfile,
    project: &Path,
    kind: SettingsLayerKind,
) -> Option<PathBuf> {
    let files = &host.files;
    Some(match kind {
        SettingsLayerKind::User => host_env::host_config_dir(env, host)?.join(files.user_settings),
        SettingsLayerKind::Project => project.join(files.project_settings),
        SettingsLayerKind::Local => project.join(files.local_settings),
        SettingsLayerKind::Managed => PathBuf::from(files.managed_settings),
    })
}

fn read_layer(host: &HostProfile, kind: SettingsLayerKind, path: PathBuf) -> SettingsLayer {
    let state = match fs::read_if_exists(&path, MAX_SETTINGS_BYTES) {
        Ok(None) => SettingsLayerState::Missing,
        Ok(Some(bytes)) => parse_client_settings(host, &bytes),
        Err(error) => SettingsLayerState::Broken(read_error_reason(&error)),
    };
    SettingsLayer { kind, path, state }
}

fn read_error_reason(error: &fs::FileError) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Parses the content of a settings file.
pub fn parse_client_settings(host: &HostProfile, bytes: &[u8]) -> SettingsLayerState {
    let text = match jsonc::decode_settings(bytes) {
        Ok(text) => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
        Err(fault) => return SettingsLayerState::Broken(fault.to_string()),
    };
    match jsonc::parse_jsonc(text) {
        Ok(None) => SettingsLayerState::Read(Box::default()),
        Ok(Some(parsed)) => match jsonc::to_json_value(&parsed) {
            Value::Object(fields) => {
                let mut settings = (host.settings.parse)(&fields);
                if !jsonc::is_plain_json(text) {
                    // The client ignores such a file (observed with 2.1.325).
                    settings.ignored = Some("it has comments or trailing commas".to_string());
                }
                SettingsLayerState::Read(Box::new(settings))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => SettingsLayerState::Broken("it is not a JSON object".to_string()),
        },
        Err(fault) => SettingsLayerState::Broken(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use insta::{assert_debug_snapshot, assert_snapshot};

    use super::*;

    /// R-H2c: the commands that the client would run are known before they run.
    #[test]
    fn settings_about_hooks_are_parsed() {
        let text = r#"{
            "model": "opus",
            "disableAllHooks": false,
            "env": {"A": "1", "B": 2},
            "enabledPlugins": {"ralph-loop@official": true, "x@y": false, "z@y": ["1.0"]},
            "statusLine": {"type": "command", "command": "line"},
            "permissions": {"allow": ["Bash(ls)", 7], "deny": ["Read(.env)"], "defaultMode": "plan"},
            "hooks": {
                "Stop": [{"hooks": [{"type": "command", "command": "a", "timeout": 600}]}],
                "PostToolUse": [{"matcher": "Edit|Write", "hooks": [
                    {"type": "command", "command": "b", "args": ["c"], "async": true},
                    {"type": "prompt", "prompt": "well?"}
                ]}]
            }
        }"#;
        let SettingsLayerState::Read(settings) =
            parse_client_settings(ralph_host::default_host(), text.as_bytes())
        else {
            panic!("it is valid");
        };
        let settings = format!("{settings:?}").replace("Hook {", "\nHook {");
        assert_snapshot!(settings, @r#"ClientSettings { hooks: [HookSetting { event: "PostToolUse", matcher: Some("Edit|Write"), kind: "command", command: "b", prompt: None, args: Some(["c"]), timeout: None, mode: Async }, HookSetting { event: "PostToolUse", matcher: Some("Edit|Write"), kind: "prompt", command: "", prompt: Some("well?"), args: None, timeout: None, mode: Waits }, HookSetting { event: "Stop", matcher: None, kind: "command", command: "a", prompt: None, args: None, timeout: Some(600.0), mode: Waits }], disable_all_hooks: Some(false), allow_managed_hooks_only: false, env: [("A", "1"), ("B", "2")], enabled_plugins: [("ralph-loop@official", true), ("x@y", false), ("z@y", true)], status_line: Some(StatusLineSetting { kind: "command", command: "line" }), permissions: PermissionSettings { allow: ["Bash(ls)"], ask: [], deny: ["Read(.env)"], default_mode: Some("plan") }, ignored: None, skipped_entries: [] }"#);
    }

    #[test]
    fn odd_entries_are_reported_and_skipped() {
        for (text, ignored, odd, hooks) in [
            ("", None, &[][..], 0),
            (" \n", None, &[], 0),
            ("\u{feff}{}", None, &[], 0),
            ("{\"a\": 1, // b\n}", Some("it has comments or trailing commas"), &[], 0),
            (r#"{"statusLine": 7}"#, Some("`statusLine` is not an object"), &[], 0),
            (
                r#"{"permissions": {"ask": 1}}"#,
                Some("`permissions` is not an object of lists"),
                &[],
                0,
            ),
            (r#"{"hooks": []}"#, None, &["`hooks` is not an object"], 0),
            (r#"{"hooks": {"Stop": {}}}"#, None, &["`hooks.Stop` is not a list"], 0),
            (r#"{"hooks": {"Stop": [7]}}"#, None, &["`hooks.Stop[0]` has no `hooks` list"], 0),
            (
                r#"{"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}}"#,
                None,
                &["`hooks.Stop[0]` has a `matcher` that is not a string"],
                0,
            ),
            (
                r#"{"hooks": {"Stop": [{"hooks": [1, {"type": "command"}, {"type": "command", "command": "a"}]}]}}"#,
                None,
                &[
                    "`hooks.Stop[0].hooks[0]` is not an object",
                    "`hooks.Stop[0].hooks[1]` has no command",
                ],
                1,
            ),
            (r#"{"hooks": {"Stop": []}, "hooks": 1}"#, None, &["`hooks` is not an object"], 0),
        ] {
            let SettingsLayerState::Read(settings) =
                parse_client_settings(ralph_host::default_host(), text.as_bytes())
            else {
                panic!("{text}");
            };
            assert_eq!(settings.ignored.as_deref(), ignored, "{text}");
            assert_eq!(settings.skipped_entries, odd, "{text}");
            assert_eq!(settings.hooks.len(), hooks, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let deep = b"[".repeat(100_000);
        let errors = [
            &b"[]"[..],
            b"{\"a\": 1\n \"b\": 2}",
            b"{\"a\": \"\xff\"}",
            b"{'a': 1}",
            b"{} {}",
            b"{",
            &deep,
        ]
        .map(|bytes| match parse_client_settings(ralph_host::default_host(), bytes) {
            SettingsLayerState::Broken(why) => why,
            SettingsLayerState::Missing | SettingsLayerState::Read(_) => panic!("it was read"),
        });
        assert_debug_snapshot!(errors, @r#"
        [
            "it is not a JSON object",
            "line 1, column 8: expected comma",
            "line 1, column 8: not UTF-8",
            "line 1, column 2: single-quoted strings are not allowed",
            "line 1, column 4: text cannot contain more than one JSON value",
            "line 1, column 1: unterminated object",
            "line 1, column 513: maximum nesting depth exceeded",
        ]
        "#);
    }

    #[test]
    fn layers_have_the_paths_of_the_client() {
        let env = Env::from_pairs([("HOME", "/nowhere/u")], None, Vec::new());
        let project = Path::new("/nowhere/p");
        let places = |env: &Env| {
            let layers = read_layers(env, ralph_host::default_host(), project).into_iter();
            let ours = layers.filter(|layer| layer.kind != SettingsLayerKind::Managed);
            ours.map(|layer| {
                (layer.kind.name(), layer.path, layer.state == SettingsLayerState::Missing)
            })
            .collect::<Vec<_>>()
        };
        let in_project = [
            ("project", PathBuf::from("/nowhere/p/.claude/settings.json"), true),
            ("local", PathBuf::from("/nowhere/p/.claude/settings.local.json"), true),
        ];
        let user = |path: &str| ("user", PathBuf::from(path), true);
        let mut expected = vec![user("/nowhere/u/.claude/settings.json")];
        expected.extend(in_project.clone());
        assert_eq!(places(&env), expected);
        let env = Env::from_pairs([("CLAUDE_CONFIG_DIR", "/nowhere/c")], None, Vec::new());
        expected[0] = user("/nowhere/c/settings.json");
        assert_eq!(places(&env), expected);
        assert_eq!(places(&Env::from_pairs([("A", "b")], None, Vec::new())), in_project);
    }
}
