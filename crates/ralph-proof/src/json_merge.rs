//! Merges two versions of `package.json`, `composer.json` or `deno.json`: the keys about tests and tools of one with
//! the other keys of the other.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

/// Gates call scripts. Development dependencies go with the tests, because new tests must find theirs beside old code,
/// or they would fail for the wrong reason. `type`, `imports` and `exports` decide how the code is loaded, so they are
/// code.
const PACKAGE_KEYS: [&str; 24] = [
    "scripts",
    "config",
    "wireit",
    "nx",
    "devDependencies",
    "jest",
    "jest-junit",
    "vitest",
    "mocha",
    "ava",
    "nyc",
    "c8",
    "tap",
    "karma",
    "jasmine",
    "cypress-cucumber-preprocessor",
    "babel",
    "eslintConfig",
    "eslintIgnore",
    "stylelint",
    "xo",
    "standard",
    "husky",
    "lint-staged",
];
const COMPOSER_KEYS: [&str; 4] = ["scripts", "scripts-descriptions", "require-dev", "autoload-dev"];
const DENO_KEYS: [&str; 5] = ["tasks", "test", "bench", "lint", "fmt"];

/// The keys of a manifest that go with the tests.
pub(crate) fn json_harness_keys(name: &str) -> &'static [&'static str] {
    match name {
        "package.json" => &PACKAGE_KEYS,
        "composer.json" => &COMPOSER_KEYS,
        _ => &DENO_KEYS,
    }
}

/// The code side with the given keys of the test side. `None` if these keys are the same in both.
pub(crate) fn merge_json(code: &str, tests: &str, keys: &[&str]) -> Result<Option<String>, String> {
    let ours = parse_object(code)?;
    let theirs = parse_object(tests)?;
    let (our_value, their_value) = (object_value(&ours)?, object_value(&theirs)?);
    if leads_elsewhere(our_value.get("imports"), their_value.get("imports")) {
        return Err("a name that tests import leads to another file".to_string());
    }
    let mut expected = our_value.clone();
    let mut text = code.to_string();
    for key in keys {
        if our_value.get(*key) == their_value.get(*key) {
            continue;
        }
        match their_value.get(*key) {
            Some(value) => expected.insert((*key).to_string(), value.clone()),
            None => expected.remove(*key),
        };
        text = take_key(&text, tests, &theirs, key)?;
    }
    if text == code {
        return Ok(None);
    }
    let merged = object_value(&parse_object(&text)?)?;
    if merged == expected { Ok(Some(text)) } else { Err("its keys cannot be merged".to_string()) }
}

/// Whether a name that both versions map is mapped differently.
fn leads_elsewhere(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    let (Some(Value::Object(ours)), Some(Value::Object(theirs))) = (ours, theirs) else {
        return false;
    };
    ours.iter().any(|(name, target)| theirs.get(name).is_some_and(|other| other != target))
}

/// Replaces, inserts or removes one key. The text is parsed again for each key, because every edit moves the ranges.
fn take_key(
    text: &str,
    tests: &str,
    theirs: &ast::Object<'_>,
    key: &str,
) -> Result<String, String> {
    let ours = parse_object(text)?;
    let at = ours.properties.iter().position(|property| property.name.as_str() == key);
    let new = theirs.properties.iter().find(|property| property.name.as_str() == key);
    let slice = |text: &'_ str, start: usize, end: usize| {
        text.get(start..end).unwrap_or_default().to_string()
    };
    let value_text =
        |property: &ast::ObjectProp<'_>| slice(tests, property.value.start(), property.value.end());
    let (start, end, replacement) = match (at.and_then(|at| ours.properties.get(at)), new) {
        (Some(old), Some(new)) => (old.value.start(), old.value.end(), value_text(new)),
        (Some(old), None) => {
            let index = at.unwrap_or_default();
            let next = ours.properties.get(index + 1);
            let previous = index.checked_sub(1).and_then(|index| ours.properties.get(index));
            match (next, previous) {
                (Some(next), _) => (old.range.start, next.range.start, String::new()),
                (None, Some(previous)) => (previous.range.end, old.range.end, String::new()),
                (None, None) => (old.range.start, old.range.end, String::new()),
            }
        }
        (None, Some(new)) => {
            let value = value_text(new);
            if let Some(last) = ours.properties.last() {
                let before = text.get(..last.range.start).unwrap_or_default();
                let gap = before.get(before.trim_end().len()..).unwrap_or_default();
                let separator = if gap.is_empty() { " " } else { gap };
                let end = last.range.end;
                (end, end, format!(",{separator}\"{key}\": {value}"))
            } else {
                let end = ours.range.end.saturating_sub(1);
                (end, end, format!("\"{key}\": {value}"))
            }
        }
        (None, None) => return Ok(text.to_string()),
    };
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    Ok(format!("{before}{replacement}{after}"))
}

fn parse_object(text: &str) -> Result<ast::Object<'_>, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    match parsed.map(|parsed| parsed.value) {
        Ok(Some(ast::Value::Object(object))) => Ok(object),
        Ok(_) => Err("it is not a JSON object".to_string()),
        Err(error) => Err(format!("it is not valid JSON: {}", error.kind())),
    }
}

/// The content, regardless of layout and order. Duplicate keys are an error, because tools read them differently.
fn object_value(object: &ast::Object<'_>) -> Result<Map<String, Value>, String> {
    let mut map = Map::new();
    for property in &object.properties {
        let name = property.name.as_str().to_string();
        if map.insert(name.clone(), plain_value(&property.value)?).is_some() {
            return Err(format!("key `{name}` occurs twice"));
        }
    }
    Ok(map)
}

fn plain_value(value: &ast::Value<'_>) -> Result<Value, String> {
    Ok(match value {
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        // As text, because only equality matters, and a number may not fit into any type.
        ast::Value::NumberLit(number) => {
            Value::Array(vec![Value::String(number.value.to_string())])
        }
        ast::Value::BooleanLit(flag) => Value::Bool(flag.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Object(object) => Value::Object(object_value(object)?),
        ast::Value::Array(array) => {
            let elements: Result<Vec<Value>, String> =
                array.elements.iter().map(plain_value).collect();
            Value::Array(elements?)
        }
    })
}
