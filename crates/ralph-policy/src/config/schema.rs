//! Renders the table of keys as a JSON schema, for editors.

use super::keys::{Key, Kind, ROOT};
use super::read::Sheet;
use super::value::{MOST_ITEMS, Value as Setting};
use super::{DEFAULTS, Layer, Source, read};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

const NAME: &str = "^[A-Za-z0-9._-]{1,60}$";
const DURATION: &str = "^([0-9]+(ms|s|m|min|h|d) *)+$";
const ADDRESS: &str = r"^https://[A-Za-z0-9\[][!#-\[\]-~]*$";
const MODEL: &str = "^[!-,.-~][!-~]{0,199}$";
const HOURS: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$";
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]{0,99}$";
/// Matches directories that are rejected: absolute ones, and those with `..`.
const OUTSIDE: &str = "^/|(^|/)\\.\\.(/|$)";
/// Matches globs that are rejected.
const NO_GLOB: &str = "^\\.?/|(^|/)\\.\\.(/|$)";

/// The JSON schema of `ralph.toml`.
pub fn schema() -> Value {
    let defaults = defaults();
    let mut schema = table(ROOT, "", &defaults);
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

fn defaults() -> Sheet {
    let source = Source { layer: Layer::BuiltIn, path: PathBuf::new(), text: Arc::from(DEFAULTS) };
    read::read(&source, &mut read::Problems::default())
}

fn table(keys: &[Key], path: &str, defaults: &Sheet) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let path =
            if path.is_empty() { key.name.to_string() } else { format!("{path}.{}", key.name) };
        let mut property = kind(&key.kind, &path, defaults);
        if let Value::Object(property) = &mut property {
            property.insert("description".to_string(), json!(key.about));
            if let Some(default) = default(&path, defaults) {
                property.insert("default".to_string(), default);
            }
        }
        properties.insert(key.name.to_string(), property);
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn kind(kind: &Kind, path: &str, defaults: &Sheet) -> Value {
    match kind {
        Kind::Table(keys) | Kind::Own(keys) => table(keys, path, defaults),
        Kind::Named(keys) => {
            let mut item = table(keys, path, defaults);
            if let Value::Object(item) = &mut item {
                if path == "gate" {
                    item.insert("required".to_string(), json!(["name"]));
                    let either = json!([{ "required": ["run"] }, { "required": ["shell"] }]);
                    item.insert("oneOf".to_string(), either);
                } else if path == "chunk" {
                    item.insert("required".to_string(), json!(["match"]));
                } else if path == read::PIPELINE {
                    item.insert("required".to_string(), json!(["name"]));
                } else {
                    item.insert("required".to_string(), json!(["name", "pattern"]));
                }
            }
            json!({ "type": "array", "items": item, "maxItems": read::MOST_ENTRIES })
        }
        Kind::Variables => json!({
            "type": "object",
            "propertyNames": { "pattern": VARIABLE },
            "additionalProperties": { "type": "string" },
            "maxProperties": read::MOST_VARIABLES,
        }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Amount => json!({ "type": "number", "minimum": 0, "maximum": 1_000_000_000 }),
        Kind::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
        Kind::Duration { .. } => json!({ "type": "string", "pattern": DURATION }),
        Kind::Name => name(),
        Kind::Names => list(&name()),
        Kind::Wildcard => json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
        Kind::Choice(choices) => json!({ "type": "string", "enum": choices }),
        Kind::Choices(choices) => list(&json!({ "type": "string", "enum": choices })),
        Kind::Tests => json!({ "anyOf": [
            { "type": "string", "enum": ["baseline", "some"] },
            { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        ] }),
        Kind::Argv => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        Kind::Shell => json!({ "type": "string", "pattern": "\\S" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Regex => {
            json!({ "type": "string", "format": "regex", "minLength": 1, "maxLength": 500 })
        }
        Kind::Globs => list(&json!({
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "not": { "pattern": NO_GLOB },
        })),
        Kind::Directory => directory(),
        Kind::Directories => list(&directory()),
        Kind::VariableNames => list(&json!({ "type": "string", "pattern": VARIABLE })),
        Kind::Arguments => list(&json!({ "type": "string" })),
        Kind::Model => json!({ "type": "string", "pattern": MODEL }),
        Kind::Hours => json!({ "type": "string", "pattern": HOURS }),
        Kind::Address => json!({ "type": "string", "pattern": ADDRESS }),
    }
}

fn name() -> Value {
    json!({ "type": "string", "pattern": NAME })
}

fn list(item: &Value) -> Value {
    json!({ "type": "array", "items": item, "maxItems": MOST_ITEMS })
}

fn directory() -> Value {
    json!({ "type": "string", "minLength": 1, "not": { "pattern": OUTSIDE } })
}

fn default(path: &str, defaults: &Sheet) -> Option<Value> {
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
        Setting::Text(text) | Setting::Address(text) => json!(text),
        Setting::Texts(texts) => json!(texts),
    })
}
