//! The settings files that the client reads for a project, reduced to what concerns hooks.
//!
//! Parsing is lenient: an entry of an unexpected type is skipped and reported in [`ClientSettings::odd`].

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::jsonc::{self, BYTE_ORDER_MARK};
use ralph_home::host_env;
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSettings {
    /// Sorted by event; hooks of one event are in the order of the file.
    pub hooks: Vec<HookSetting>,
    pub disable_all_hooks: Option<bool>,
    /// In managed settings: hooks of users, projects and plugins do not run.
    pub allow_managed_hooks_only: bool,
    pub env: Vec<(String, String)>,
    /// `name@marketplace`, and whether it is enabled.
    pub enabled_plugins: Vec<(String, bool)>,
    pub status_line: Option<StatusLineSetting>,
    pub permissions: PermissionSettings,
    /// Why the client ignores the whole file although it parses.
    pub ignored: Option<String>,
    /// Entries that were skipped because of their type.
    pub odd: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HookSetting {
    pub event: String,
    pub matcher: Option<String>,
    /// `command`, or another type, which runs no command.
    pub kind: String,
    /// Empty unless it is a command.
    pub command: String,
    /// With arguments the command runs without a shell.
    pub args: Option<Vec<String>>,
    /// In seconds.
    pub timeout: Option<f64>,
    pub mode: HookMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMode {
    Waits,
    /// The client does not wait for the hook and ignores its answer.
    Async,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLineSetting {
    pub kind: String,
    pub command: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionSettings {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    pub default_mode: Option<String>,
}

/// Every layer that the client would look for, from lowest to highest precedence.
pub fn read_layers(env: &Env, project: &Path) -> Vec<SettingsLayer> {
    let files = &ralph_host::default_host().files;
    let kinds = [SettingsLayerKind::User, SettingsLayerKind::Project, SettingsLayerKind::Local];
    let personal = kinds
        .into_iter()
        .filter_map(|kind| Some(read_layer(kind, layer_path(env, project, kind)?)))
        .chain([read_layer(SettingsLayerKind::Managed, PathBuf::from(files.managed_settings))]);
    let parts = Path::new(files.managed_settings_dir);
    let names = fs::list(parts, MAX_MANAGED_FILES).unwrap_or_default();
    let names = names.into_iter().filter(|name| name.as_encoded_bytes().ends_with(b".json"));
    let parts = names.map(|name| read_layer(SettingsLayerKind::Managed, parts.join(name)));
    personal.chain(parts).collect()
}

/// The path of a layer; `None` if there is no home directory.
pub fn layer_path(env: &Env, project: &Path, kind: SettingsLayerKind) -> Option<PathBuf> {
    let host = ralph_host::default_host();
    let files = &host.files;
    Some(match kind {
        SettingsLayerKind::User => host_env::host_config_dir(env, host)?.join(files.user_settings),
        SettingsLayerKind::Project => project.join(files.project_settings),
        SettingsLayerKind::Local => project.join(files.local_settings),
        SettingsLayerKind::Managed => PathBuf::from(files.managed_settings),
    })
}

fn read_layer(kind: SettingsLayerKind, path: PathBuf) -> SettingsLayer {
    let state = match fs::read_if_exists(&path, MAX_SETTINGS_BYTES) {
        Ok(None) => SettingsLayerState::Missing,
        Ok(Some(bytes)) => parse_client_settings(&bytes),
        Err(error) => SettingsLayerState::Broken(read_error_reason(&error)),
    };
    SettingsLayer { kind, path, state }
}

fn read_error_reason(error: &fs::FileError) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Parses the content of a settings file.
pub fn parse_client_settings(bytes: &[u8]) -> SettingsLayerState {
    let text = match jsonc::decode_settings(bytes) {
        Ok(text) => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
        Err(fault) => return SettingsLayerState::Broken(fault.to_string()),
    };
    match jsonc::parse_jsonc(text) {
        Ok(None) => SettingsLayerState::Read(Box::default()),
        Ok(Some(parsed)) => match jsonc::to_json_value(&parsed) {
            Value::Object(fields) => {
                let mut settings = extract_settings(&fields);
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

fn extract_settings(fields: &Map<String, Value>) -> ClientSettings {
    let mut settings = ClientSettings {
        ignored: find_wrong_type(fields),
        disable_all_hooks: fields.get("disableAllHooks").and_then(Value::as_bool),
        allow_managed_hooks_only: fields.get("allowManagedHooksOnly") == Some(&Value::Bool(true)),
        ..ClientSettings::default()
    };
    for (name, value) in object_entries(fields, "env") {
        settings.env.push((name.clone(), string_value(value)));
    }
    for (name, value) in object_entries(fields, "enabledPlugins") {
        // A list names versions; the plugin is enabled.
        let is_on = value.as_bool().unwrap_or(value.is_array());
        settings.enabled_plugins.push((name.clone(), is_on));
    }
    settings.status_line =
        fields.get("statusLine").and_then(Value::as_object).map(|line| StatusLineSetting {
            kind: setting_string(line, "type"),
            command: setting_string(line, "command"),
        });
    if let Some(Value::Object(permissions)) = fields.get("permissions") {
        settings.permissions = PermissionSettings {
            allow: string_list(permissions.get("allow")),
            ask: string_list(permissions.get("ask")),
            deny: string_list(permissions.get("deny")),
            default_mode: permissions
                .get("defaultMode")
                .and_then(Value::as_str)
                .map(str::to_string),
        };
    }
    collect_hooks(&mut settings, fields);
    settings
}

/// A setting of a wrong type that was observed to make the client ignore the whole file.
fn find_wrong_type(fields: &Map<String, Value>) -> Option<String> {
    type ClientSettingRule = (&'static str, fn(&Value) -> bool, &'static str);
    let rules: [ClientSettingRule; 7] = [
        ("disableAllHooks", Value::is_boolean, "true or false"),
        ("env", Value::is_object, "an object"),
        ("permissions", has_permission_lists, "an object of lists"),
        ("enabledPlugins", Value::is_object, "an object"),
        ("model", Value::is_string, "a string"),
        ("statusLine", Value::is_object, "an object"),
        ("cleanupPeriodDays", Value::is_number, "a number"),
    ];
    let wrong =
        |(name, fits, _): &ClientSettingRule| fields.get(*name).is_some_and(|value| !fits(value));
    let (name, _, wanted) = rules.into_iter().find(wrong)?;
    Some(format!("`{name}` is not {wanted}"))
}

fn has_permission_lists(value: &Value) -> bool {
    value.as_object().is_some_and(|lists| {
        ["allow", "deny", "ask"].iter().all(|list| lists.get(*list).is_none_or(Value::is_array))
    })
}

fn collect_hooks(settings: &mut ClientSettings, fields: &Map<String, Value>) {
    let events = match fields.get("hooks") {
        None => return,
        Some(Value::Object(events)) => events,
        Some(_) => {
            settings.odd.push("`hooks` is not an object".to_string());
            return;
        }
    };
    for (event, groups) in events {
        let Some(groups) = groups.as_array() else {
            settings.odd.push(format!("`hooks.{event}` is not a list"));
            continue;
        };
        for (n, group) in groups.iter().enumerate() {
            let place = format!("hooks.{event}[{n}]");
            let matcher = group.get("matcher");
            let entries = group.get("hooks").and_then(Value::as_array);
            match (entries, matcher) {
                (Some(entries), None | Some(Value::String(_))) => {
                    let matcher = matcher.and_then(Value::as_str).map(str::to_string);
                    collect_hook_group(settings, (event, &matcher, &place), entries);
                }
                (None, _) => settings.odd.push(format!("`{place}` has no `hooks` list")),
                (Some(_), Some(_)) => {
                    settings.odd.push(format!("`{place}` has a `matcher` that is not a string"));
                }
            }
        }
    }
}

fn collect_hook_group(
    settings: &mut ClientSettings,
    (event, matcher, place): (&str, &Option<String>, &str),
    entries: &[Value],
) {
    for (n, entry) in entries.iter().enumerate() {
        let Some(fields) = entry.as_object() else {
            settings.odd.push(format!("`{place}.hooks[{n}]` is not an object"));
            continue;
        };
        let kind = setting_string(fields, "type");
        let command = setting_string(fields, "command");
        if kind.is_empty() || (kind == "command" && command.is_empty()) {
            settings.odd.push(format!("`{place}.hooks[{n}]` has no command"));
            continue;
        }
        let is_async = fields.get("async") == Some(&Value::Bool(true));
        settings.hooks.push(HookSetting {
            event: event.to_string(),
            matcher: matcher.clone(),
            kind,
            command,
            args: fields
                .get("args")
                .and_then(Value::as_array)
                .map(|_| string_list(fields.get("args"))),
            timeout: fields.get("timeout").and_then(Value::as_f64),
            mode: if is_async { HookMode::Async } else { HookMode::Waits },
        });
    }
}

fn object_entries<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    fields.get(name).and_then(Value::as_object).into_iter().flatten()
}

fn setting_string(fields: &Map<String, Value>, name: &str) -> String {
    fields.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}

fn string_list(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_string).collect()
}

/// A value as a string, converted as the client does.
fn string_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
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
        let SettingsLayerState::Read(settings) = parse_client_settings(text.as_bytes()) else {
            panic!("it is valid");
        };
        let settings = format!("{settings:?}").replace("Hook {", "\nHook {");
        assert_snapshot!(settings, @r#"ClientSettings { hooks: [HookSetting { event: "PostToolUse", matcher: Some("Edit|Write"), kind: "command", command: "b", args: Some(["c"]), timeout: None, mode: Async }, HookSetting { event: "PostToolUse", matcher: Some("Edit|Write"), kind: "prompt", command: "", args: None, timeout: None, mode: Waits }, HookSetting { event: "Stop", matcher: None, kind: "command", command: "a", args: None, timeout: Some(600.0), mode: Waits }], disable_all_hooks: Some(false), allow_managed_hooks_only: false, env: [("A", "1"), ("B", "2")], enabled_plugins: [("ralph-loop@official", true), ("x@y", false), ("z@y", true)], status_line: Some(StatusLineSetting { kind: "command", command: "line" }), permissions: PermissionSettings { allow: ["Bash(ls)"], ask: [], deny: ["Read(.env)"], default_mode: Some("plan") }, ignored: None, odd: [] }"#);
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
            let SettingsLayerState::Read(settings) = parse_client_settings(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!(settings.ignored.as_deref(), ignored, "{text}");
            assert_eq!(settings.odd, odd, "{text}");
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
        .map(|bytes| match parse_client_settings(bytes) {
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
            let layers = read_layers(env, project).into_iter();
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
