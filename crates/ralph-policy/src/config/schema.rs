//! Renders the table of keys as a JSON schema, for editors.

use super::judge_backend::{JUDGE_APIS, JUDGE_HOSTS};
use super::keys::{ConfigKey, EntryTable, ROOT, ValueKind};
use super::parse::ParsedLayer;
use super::value::{
    ConfigValue, MAX_ITEMS, MAX_NAME_BYTES, MAX_PATTERN_BYTES, MAX_USD, MAX_VARIABLE_BYTES,
    MAX_WILDCARD_BYTES,
};
use super::{ConfigLayer, ConfigSource, DEFAULTS_TOML, parse};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

const DURATION_PATTERN: &str = "^([0-9]+([mM]?[sS]|[mM]([iI][nN])?|[hH]|[dD]) *)+$";
const URL_PATTERN: &str = r"^https://[A-Za-z0-9\[][!#-\[\]-~]*$";
const ENDPOINT_PATTERN: &str = r"^https?://[A-Za-z0-9\[][!#-\[\]-~]*$";
const HOURS_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$";
/// Matches directories that are rejected: absolute ones, and those with `..`.
const OUTSIDE_PROJECT_PATTERN: &str = "^/|(^|/)\\.\\.(/|$)";
/// Matches globs that are rejected.
const INVALID_GLOB_PATTERN: &str = "^!|^\\.?/|(^|/)\\.\\.(/|$)";
const INVALID_SELECTION_PATTERN: &str = "^!?\\.?/|^!!|(^!?|/)\\.\\.(/|$)";

/// The JSON schema of `ralph.toml`.
pub fn json_schema() -> Value {
    let defaults = parse_defaults();
    let mut schema = table_schema(ROOT, "", &defaults);
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".to_string(), json!("http://json-schema.org/draft-07/schema#"));
        schema.insert("title".to_string(), json!("ralph.toml"));
        schema.insert(
            "description".to_string(),
            json!("What a project requires before a coding agent may stop."),
        );
    }
    schema
}

pub(super) fn parse_defaults() -> ParsedLayer {
    let source = ConfigSource {
        layer: ConfigLayer::BuiltIn,
        path: PathBuf::new(),
        text: Arc::from(DEFAULTS_TOML),
    };
    let mut problems = parse::ConfigProblems::default();
    let defaults = parse::parse_layer(&source, &mut problems);
    debug_assert!(problems.first.is_empty(), "{:?}", problems.first);
    defaults
}

fn table_schema(keys: &[ConfigKey], path: &str, defaults: &ParsedLayer) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let path =
            if path.is_empty() { key.name.to_string() } else { format!("{path}.{}", key.name) };
        let mut property = kind_schema(&key.kind, &path, defaults);
        if let Value::Object(property) = &mut property {
            property.insert("description".to_string(), json!(key.description));
            if let Some(default) = default_value(&path, defaults) {
                property.insert("default".to_string(), default);
            }
        }
        properties.insert(key.name.to_string(), property);
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn kind_schema(kind: &ValueKind, path: &str, defaults: &ParsedLayer) -> Value {
    match kind {
        ValueKind::Table(keys) | ValueKind::UserOnly(keys) => table_schema(keys, path, defaults),
        ValueKind::NamedEntries(table) => entries_schema(table, defaults),
        ValueKind::Variables(_) => json!({
            "type": "object",
            "propertyNames": { "pattern": variable_pattern() },
            "additionalProperties": { "type": "string" },
            "maxProperties": parse::MAX_VARIABLES,
        }),
        ValueKind::Flag(_) => json!({ "type": "boolean" }),
        ValueKind::Count { least, most, .. } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ValueKind::Usd(_) => json!({ "type": "number", "minimum": 0, "maximum": MAX_USD }),
        ValueKind::Percent(_) => json!({ "type": "number", "minimum": 0, "maximum": 100 }),
        ValueKind::Share(_) => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
        ValueKind::Duration { .. } => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        ValueKind::Name(_) => name_schema(),
        ValueKind::Names(_) => list_schema(&name_schema()),
        ValueKind::Wildcard(_) => {
            json!({ "type": "string", "minLength": 1, "maxLength": MAX_WILDCARD_BYTES })
        }
        ValueKind::Choice(choices, _) => json!({ "type": "string", "enum": choices }),
        ValueKind::Choices(choices, _) => {
            list_schema(&json!({ "type": "string", "enum": choices }))
        }
        ValueKind::MinTests { .. } => json!({ "anyOf": [
            { "type": "string", "enum": ["baseline", "some"] },
            { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        ] }),
        ValueKind::Argv(_) => {
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
        }
        ValueKind::Shell(_) => json!({ "type": "string", "pattern": "\\S" }),
        ValueKind::Text(_) => json!({ "type": "string" }),
        ValueKind::Regex(_) => {
            json!({ "type": "string", "format": "regex", "minLength": 1, "maxLength": MAX_PATTERN_BYTES })
        }
        ValueKind::Globs(_) => glob_list_schema(INVALID_GLOB_PATTERN),
        ValueKind::Selection(_) => glob_list_schema(INVALID_SELECTION_PATTERN),
        ValueKind::Directory(_) | ValueKind::File(_) => directory_schema(),
        ValueKind::Directories(_) => list_schema(&directory_schema()),
        ValueKind::VariableNames(_) => {
            list_schema(&json!({ "type": "string", "pattern": variable_pattern() }))
        }
        ValueKind::Arguments(_) => list_schema(&json!({ "type": "string" })),
        ValueKind::Model(_) => {
            let pattern = format!("^[!-,.-~][!-~]{{0,{}}}$", MAX_WILDCARD_BYTES - 1);
            json!({ "type": "string", "pattern": pattern })
        }
        ValueKind::Hours(_) => json!({ "type": "string", "pattern": HOURS_PATTERN }),
        ValueKind::Url(_) => json!({ "type": "string", "pattern": URL_PATTERN }),
        ValueKind::Backend(_) => backend_schema(),
        ValueKind::Endpoint(_) => json!({ "type": "string", "pattern": ENDPOINT_PATTERN }),
    }
}

fn backend_schema() -> Value {
    let form = |required: &[&str], properties: Value| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let words = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
    let variable = json!({ "type": "string", "pattern": variable_pattern() });
    let endpoint = json!({ "type": "string", "pattern": ENDPOINT_PATTERN });
    let model = json!({ "type": "string", "minLength": 1 });
    json!({ "oneOf": [
        form(&["command"], json!({ "command": words })),
        form(&["host"], json!({ "host": { "type": "string", "enum": JUDGE_HOSTS }, "model": model })),
        form(&["http", "model"], json!({
            "http": endpoint,
            "key": variable,
            "model": model,
            "api": { "type": "string", "enum": JUDGE_APIS },
        })),
    ] })
}

fn entries_schema(table: &EntryTable, defaults: &ParsedLayer) -> Value {
    let mut item = table_schema(table.keys, table.path, defaults);
    item["required"] = json!(table.required);
    if table.keys.iter().any(|key| matches!(key.kind, ValueKind::Shell(_))) {
        item["oneOf"] = json!([{ "required": ["run"] }, { "required": ["shell"] }]);
    }
    json!({ "type": "array", "items": item, "maxItems": parse::MAX_ENTRIES })
}

fn name_schema() -> Value {
    json!({ "type": "string", "pattern": format!("^[A-Za-z0-9._-]{{1,{MAX_NAME_BYTES}}}$") })
}

fn variable_pattern() -> String {
    format!("^[A-Za-z_][A-Za-z0-9_]{{0,{}}}$", MAX_VARIABLE_BYTES - 1)
}

fn list_schema(item: &Value) -> Value {
    json!({ "type": "array", "items": item, "maxItems": MAX_ITEMS })
}

fn glob_list_schema(rejected: &str) -> Value {
    list_schema(&json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_PATTERN_BYTES,
        "not": { "pattern": rejected },
    }))
}

fn directory_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "not": { "pattern": OUTSIDE_PROJECT_PATTERN } })
}

fn default_value(path: &str, defaults: &ParsedLayer) -> Option<Value> {
    let plain = defaults.settings.iter().find(|setting| setting.key == path);
    let setting = plain.or_else(|| {
        let entries = defaults.entries.iter();
        entries
            .flat_map(|entry| entry.settings.iter().map(move |setting| (entry, setting)))
            .find(|(entry, setting)| format!("{}.{}", entry.table.path, setting.key) == path)
            .map(|(_, setting)| setting)
    })?;
    Some(match &setting.value {
        ConfigValue::Flag(flag, _) => json!(flag),
        ConfigValue::Count(count, _) => json!(count),
        ConfigValue::MicroUsd(..) | ConfigValue::Decimal(..) | ConfigValue::DurationMs(..) => {
            // These render the same in TOML and JSON.
            serde_json::from_str(&setting.value.to_toml()).ok()?
        }
        ConfigValue::Text(text, _)
        | ConfigValue::Url(text, _)
        | ConfigValue::Variable { text, .. } => json!(text),
        ConfigValue::Texts(texts, _) => json!(texts),
        ConfigValue::Backend(..) => return None,
    })
}
