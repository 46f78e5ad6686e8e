//! The schema for editors accepts and rejects the same files as the parser.

use super::load_project;
use crate::config::{DEFAULTS_TOML, json_schema};
use serde_json::Value as Json;

/// Validates a value against the subset of JSON schema that ours uses.
pub(super) fn matches_schema(schema: &Json, value: &Json) -> bool {
    let Some(rules) = schema.as_object() else { return false };
    rules.iter().all(|(rule, wanted)| match (rule.as_str(), value) {
        ("type", _) => match wanted.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            other => panic!("{other}"),
        },
        ("properties", Json::Object(fields)) => fields.iter().all(|(name, field)| {
            wanted.get(name).is_none_or(|wanted| matches_schema(wanted, field))
        }),
        ("additionalProperties", Json::Object(fields)) => fields.iter().all(|(name, field)| {
            rules.get("properties").is_some_and(|known| known.get(name).is_some())
                || (wanted.is_object() && matches_schema(wanted, field))
        }),
        ("propertyNames", Json::Object(fields)) => {
            fields.keys().all(|name| matches_schema(wanted, &Json::from(name.as_str())))
        }
        ("required", Json::Object(fields)) => wanted
            .as_array()
            .unwrap()
            .iter()
            .all(|name| fields.contains_key(name.as_str().unwrap())),
        ("oneOf", _) => {
            wanted.as_array().unwrap().iter().filter(|one| matches_schema(one, value)).count() == 1
        }
        ("anyOf", _) => wanted.as_array().unwrap().iter().any(|one| matches_schema(one, value)),
        ("not", _) => !matches_schema(wanted, value),
        ("enum", _) => wanted.as_array().unwrap().contains(value),
        ("pattern", Json::String(text)) => {
            regex::Regex::new(wanted.as_str().unwrap()).unwrap().is_match(text)
        }
        ("minLength", Json::String(text)) => text.len() as u64 >= wanted.as_u64().unwrap(),
        ("maxLength", Json::String(text)) => text.len() as u64 <= wanted.as_u64().unwrap(),
        ("items", Json::Array(items)) => items.iter().all(|item| matches_schema(wanted, item)),
        ("minItems", Json::Array(items)) => items.len() as u64 >= wanted.as_u64().unwrap(),
        ("maxItems", Json::Array(items)) => items.len() as u64 <= wanted.as_u64().unwrap(),
        ("maxProperties", Json::Object(fields)) => fields.len() as u64 <= wanted.as_u64().unwrap(),
        ("minimum", Json::Number(number)) => number.as_f64() >= wanted.as_f64(),
        ("maximum", Json::Number(number)) => number.as_f64() <= wanted.as_f64(),
        ("exclusiveMinimum", Json::Number(number)) => number.as_f64() > wanted.as_f64(),
        // Annotations, and rules about another type.
        (
            "$schema"
            | "title"
            | "description"
            | "default"
            | "format"
            | "properties"
            | "additionalProperties"
            | "propertyNames"
            | "required"
            | "pattern"
            | "minLength"
            | "maxLength"
            | "items"
            | "minItems"
            | "maxItems"
            | "maxProperties"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum",
            _,
        ) => true,
        (other, _) => panic!("the schema uses `{other}`"),
    })
}

pub(super) fn toml_to_json(text: &str) -> Json {
    fn value(found: &toml::de::DeValue) -> Json {
        use toml::de::DeValue;
        match found {
            DeValue::String(text) => Json::from(&**text),
            DeValue::Integer(number) => {
                Json::from(i64::from_str_radix(number.as_str(), number.radix()).unwrap())
            }
            DeValue::Float(number) => Json::from(number.as_str().parse::<f64>().unwrap()),
            DeValue::Boolean(flag) => Json::from(*flag),
            DeValue::Datetime(date) => Json::from(date.to_string()),
            DeValue::Array(items) => items.iter().map(|item| value(item.get_ref())).collect(),
            DeValue::Table(fields) => fields
                .iter()
                .map(|(name, field)| (name.get_ref().to_string(), value(field.get_ref())))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
    value(&toml::de::DeValue::Table(toml::de::DeTable::parse(text).unwrap().into_inner()))
}

#[test]
fn schema_and_parser_reject_the_same_files() {
    let schema = json_schema();
    let many = |count: usize| format!("protect.paths = [{}]", "'a',".repeat(count));
    for (text, is_fine) in [
        (&*many(1000), true),
        (&many(1001), false),
        (DEFAULTS_TOML.split("# The defaults of every gate").next().unwrap(), true),
        ("run.max_iterations = 0", true),
        ("run.max_iterations = -1", false),
        ("run.max_iterations = 1.5", false),
        ("run.max_iteration = 1", false),
        ("run.stuck_after = 1", false),
        ("run.handover_at = 0", false),
        ("run.handover_at = 1", true),
        ("run.max_cost_usd = 1", true),
        ("run.max_cost_usd = '1'", false),
        ("run.max_duration = '1h 30m'", true),
        ("run.max_duration = '2H30M'", true),
        ("run.max_duration = '30MIN'", true),
        ("run.max_duration = '2W'", false),
        ("run.max_duration = '8'", false),
        ("run.max_duration = 8", false),
        ("runs = {}", false),
        ("run = []", false),
        ("gate = []", true),
        ("gate = {}", false),
        ("[[gate]]\nname = 'a'", false),
        ("[[gate]]\nrun = ['a']", false),
        ("[[gate]]\nname = 'a'\nrun = ['a']", true),
        ("[[gate]]\nname = 'a'\nrun = []", false),
        ("[[gate]]\nname = 'a'\nshell = ' '", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nrun = ['a']", false),
        ("[[gate]]\nname = 'a/b'\nshell = 'a'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nmin_tests = 12", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nmin_tests = 'many'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\non = ['stop', 'task']", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\non = ['start']", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = 'a/..b'", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = 'a/..'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = '/a'", false),
        ("protect.paths = ['**/a..b']", true),
        ("protect.paths = ['./a']", false),
        ("protect.paths = ['']", false),
        ("environment.set = { A = 'b' }", true),
        ("environment.set = { 1A = 'b' }", false),
        ("environment.pass = ['A-B']", false),
        ("[[chunk]]\nmatch = 'a*'\noutputs = ['a']", true),
        ("[[chunk]]\nname = 'a'\noutputs = ['a']", false),
        ("[[chunk]]\nmatch = ''\noutputs = ['a']", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['/a']", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\nmax_holds = 0", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\ngates = ['a b']", false),
        ("[[pipeline.chunk]]\nname = 'a'", true),
        ("[[pipeline.chunk]]\nname = 'a b'", false),
        ("[[pipeline.chunk]]\nmatch = 'a'", false),
        ("[[pipeline.chunk]]\nname = 'a'\nafter = 'b'", false),
        ("[[pipeline.chunk]]\nname = 'a'\nafter = ['b c']", false),
        ("[[pipeline.chunk]]\nname = 'a'\n[[pipeline.chunk]]\nname = 'b'\nafter = ['a']", true),
        ("[pipeline]\nchunks = []", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\nafter = []", false),
        ("[[lines.pattern]]\nname = 'a'", false),
        ("[[lines.pattern]]\nname = 'a'\npattern = 'a'", true),
    ] {
        assert_eq!(load_project(text).is_ok(), is_fine, "reader: {text}");
        assert_eq!(matches_schema(&schema, &toml_to_json(text)), is_fine, "schema: {text}");
    }
}
