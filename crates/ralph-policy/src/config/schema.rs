//! Renders the table of keys as a JSON schema, for editors.

use super::keys::{ConfigKey, ROOT, ValueKind};
use super::parse::ParsedLayer;
use super::value::{ConfigValue as Setting, MAX_ITEMS};
use super::{ConfigLayer, ConfigSource, DEFAULTS_TOML, parse};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

const NAME_PATTERN: &str = "^[A-Za-z0-9._-]{1,60}$";
const DURATION_PATTERN: &str = "^([0-9]+(ms|s|m|min|h|d) *)+$";
const URL_PATTERN: &str = r"^https://[A-Za-z0-9\[][!#-\[\]-~]*$";
const MODEL_PATTERN: &str = "^[!-,.-~][!-~]{0,199}$";
const HOURS_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$";
const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,99}$";
/// Matches directories that are rejected: absolute ones, and those with `..`.
const OUTSIDE_PROJECT_PATTERN: &str = "^/|(^|/)\\.\\.(/|$)";
/// Matches globs that are rejected.
const INVALID_GLOB_PATTERN: &str = "^\\.?/|(^|/)\\.\\.(/|$)";

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

fn parse_defaults() -> ParsedLayer {
    let source = ConfigSource {
        layer: ConfigLayer::BuiltIn,
        path: PathBuf::new(),
        text: Arc::from(DEFAULTS_TOML),
    };
    parse::parse_layer(&source, &mut parse::ConfigProblems::default())
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
        ValueKind::NamedEntries(keys) => {
            let mut item = table_schema(keys, path, defaults);
            if let Value::Object(item) = &mut item {
                if path == "gate" {
                    item.insert("required".to_string(), json!(["name"]));
                    let either = json!([{ "required": ["run"] }, { "required": ["shell"] }]);
                    item.insert("oneOf".to_string(), either);
                } else if path == "chunk" {
                    item.insert("required".to_string(), json!(["match"]));
                } else if path == parse::PIPELINE_TABLE {
                    item.insert("required".to_string(), json!(["name"]));
                } else {
                    item.insert("required".to_string(), json!(["name", "pattern"]));
                }
            }
            json!({ "type": "array", "items": item, "maxItems": parse::MAX_ENTRIES })
        }
        ValueKind::Variables => json!({
            "type": "object",
            "propertyNames": { "pattern": VARIABLE_PATTERN },
            "additionalProperties": { "type": "string" },
            "maxProperties": parse::MAX_VARIABLES,
        }),
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Count { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ValueKind::Usd => json!({ "type": "number", "minimum": 0, "maximum": 1_000_000_000 }),
        ValueKind::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
        ValueKind::Duration { .. } => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        ValueKind::Name => name_schema(),
        ValueKind::Names => list_schema(&name_schema()),
        ValueKind::Wildcard => json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
        ValueKind::Choice(choices) => json!({ "type": "string", "enum": choices }),
        ValueKind::Choices(choices) => list_schema(&json!({ "type": "string", "enum": choices })),
        ValueKind::MinTests => json!({ "anyOf": [
            { "type": "string", "enum": ["baseline", "some"] },
            { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        ] }),
        ValueKind::Argv => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        ValueKind::Shell => json!({ "type": "string", "pattern": "\\S" }),
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Regex => {
            json!({ "type": "string", "format": "regex", "minLength": 1, "maxLength": 500 })
        }
        ValueKind::Globs => list_schema(&json!({
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "not": { "pattern": INVALID_GLOB_PATTERN },
        })),
        ValueKind::Directory => directory_schema(),
        ValueKind::Directories => list_schema(&directory_schema()),
        ValueKind::VariableNames => {
            list_schema(&json!({ "type": "string", "pattern": VARIABLE_PATTERN }))
        }
        ValueKind::Arguments => list_schema(&json!({ "type": "string" })),
        ValueKind::Model => json!({ "type": "string", "pattern": MODEL_PATTERN }),
        ValueKind::Hours => json!({ "type": "string", "pattern": HOURS_PATTERN }),
        ValueKind::Url => json!({ "type": "string", "pattern": URL_PATTERN }),
    }
}

fn name_schema() -> Value {
    json!({ "type": "string", "pattern": NAME_PATTERN })
}

fn list_schema(item: &Value) -> Value {
    json!({ "type": "array", "items": item, "maxItems": MAX_ITEMS })
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
            .find(|(entry, setting)| format!("{}.{}", entry.table, setting.key) == path)
            .map(|(_, setting)| setting)
    })?;
    Some(match &setting.value {
        Setting::Flag(flag) => json!(flag),
        Setting::Count(count) => json!(count),
        Setting::MicroUsd(_) | Setting::Permille(_) | Setting::DurationMs(_) => {
            // These render the same in TOML and JSON.
            serde_json::from_str(&setting.value.to_toml()).ok()?
        }
        Setting::Text(text) | Setting::Url(text) => json!(text),
        Setting::Texts(texts) => json!(texts),
    })
}
