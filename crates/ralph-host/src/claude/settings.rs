//! The settings files of Claude Code.

use crate::client_settings::{
    ClientSettings, HookEntry, HookMode, HookOccurrence, HookSetting, NativeJudgeEntry,
    PermissionSettings, SettingsSchema, StatusLineSetting,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde_json::{Map, Value, json};

pub(super) const SETTINGS: SettingsSchema = SettingsSchema {
    hooks: "hooks",
    group_hooks: "hooks",
    variables: "env",
    status_line: "statusLine",
    plugins: "enabledPlugins",
    disable_hooks: "disableAllHooks",
    managed_hooks_only: "allowManagedHooksOnly",
    parse: parse_settings,
    find_hooks,
    render_hook,
    render_native_judge,
    render_status_line,
    status_line_command,
};

fn render_hook(entry: &HookEntry) -> String {
    let matcher = entry.matcher.map(|matcher| format!(r#""matcher": {}, "#, json!(matcher)));
    let mode = match entry.mode {
        HookMode::Waits => "",
        HookMode::Async => r#", "async": true"#,
    };
    let message = entry.status_message.map(|text| format!(r#", "statusMessage": {}"#, json!(text)));
    format!(
        r#"{{ {}"hooks": [{{ "type": "command", "command": {}, "timeout": {}{mode}{} }}] }}"#,
        matcher.unwrap_or_default(),
        json!(entry.command),
        entry.timeout,
        message.unwrap_or_default(),
    )
}

fn render_native_judge(entry: &NativeJudgeEntry) -> String {
    format!(
        r#"{{ "hooks": [{{ "type": {}, "prompt": {}, "timeout": {}, "statusMessage": {} }}] }}"#,
        json!(entry.kind.name()),
        json!(entry.prompt),
        entry.timeout,
        json!(entry.status_message),
    )
}

/// The client runs the command after a message, but not when a hook ends. Without an interval the line of a stop would
/// still say that gates are running after the run ended.
fn render_status_line(command: &str) -> String {
    let command = json!(command);
    format!(r#"{{ "type": "command", "command": {command}, "refreshInterval": 2 }}"#)
}

fn status_line_command(line: &Value) -> Option<String> {
    line.get("command")?.as_str().map(str::to_owned)
}

fn find_hooks(settings: &Value) -> Vec<HookOccurrence> {
    let mut found = Vec::new();
    for (event, groups) in settings.get("hooks").and_then(Value::as_object).into_iter().flatten() {
        for (group_index, group) in groups.as_array().into_iter().flatten().enumerate() {
            let hooks = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
            for (index, hook) in hooks.enumerate() {
                let text = |name: &str| hook.get(name).and_then(Value::as_str).map(str::to_owned);
                let args = hook.get("args").and_then(Value::as_array);
                let is_async = hook.get("async") == Some(&Value::Bool(true));
                found.push(HookOccurrence {
                    event: event.clone(),
                    group: group_index,
                    index,
                    matcher: group.get("matcher").map(string_value),
                    kind: text("type"),
                    command: text("command"),
                    prompt: text("prompt"),
                    args: args.map(|args| args.iter().map(string_value).collect()),
                    timeout: hook.get("timeout").map(string_value),
                    mode: if is_async { HookMode::Async } else { HookMode::Waits },
                    status_message: text("statusMessage"),
                });
            }
        }
    }
    found
}

fn parse_settings(fields: &Map<String, Value>) -> ClientSettings {
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
            settings.skipped_entries.push("`hooks` is not an object".to_string());
            return;
        }
    };
    for (event, groups) in events {
        let Some(groups) = groups.as_array() else {
            settings.skipped_entries.push(format!("`hooks.{event}` is not a list"));
            continue;
        };
        for (n, group) in groups.iter().enumerate() {
            let path = format!("hooks.{event}[{n}]");
            let matcher = group.get("matcher");
            let entries = group.get("hooks").and_then(Value::as_array);
            match (entries, matcher) {
                (Some(entries), None | Some(Value::String(_))) => {
                    let matcher = matcher.and_then(Value::as_str);
                    collect_hook_group(settings, &HookGroup { event, matcher, path }, entries);
                }
                (None, _) => settings.skipped_entries.push(format!("`{path}` has no `hooks` list")),
                (Some(_), Some(_)) => {
                    settings
                        .skipped_entries
                        .push(format!("`{path}` has a `matcher` that is not a string"));
                }
            }
        }
    }
}

/// A group of hooks in a settings file.
struct HookGroup<'a> {
    event: &'a str,
    matcher: Option<&'a str>,
    /// Its position in the file, such as `hooks.Stop[0]`.
    path: String,
}

fn collect_hook_group(settings: &mut ClientSettings, group: &HookGroup<'_>, entries: &[Value]) {
    let path = &group.path;
    for (n, entry) in entries.iter().enumerate() {
        let Some(fields) = entry.as_object() else {
            settings.skipped_entries.push(format!("`{path}.hooks[{n}]` is not an object"));
            continue;
        };
        let kind = setting_string(fields, "type");
        let command = setting_string(fields, "command");
        if kind.is_empty() || (kind == "command" && command.is_empty()) {
            settings.skipped_entries.push(format!("`{path}.hooks[{n}]` has no command"));
            continue;
        }
        let is_async = fields.get("async") == Some(&Value::Bool(true));
        settings.hooks.push(HookSetting {
            event: group.event.to_string(),
            matcher: group.matcher.map(str::to_string),
            kind,
            command,
            prompt: fields.get("prompt").and_then(Value::as_str).map(str::to_string),
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
