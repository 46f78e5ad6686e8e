//! Edits the text of a feature list so that every byte outside the edit is preserved.

use super::FeatureDraft;
use jsonc_parser::ast::{Array, Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use ralph_core::source::feature_list::FeatureList;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

const BYTE_ORDER_MARK: &str = "\u{feff}";
const FEATURES_KEY: &str = "features";
const PASSES_KEY: &str = "passes";
const TOTAL_KEY: &str = "total_features";

/// Sets `passes` of one feature.
pub(super) fn with_passes(bytes: &[u8], position: usize, wanted: bool) -> Result<Vec<u8>, String> {
    let (mark, text) = split_byte_order_mark(bytes)?;
    let parsed = parse_json(text)?;
    let list = features_array(&parsed).ok_or_else(no_list_message)?;
    let Some(Value::Object(feature)) = list.elements.get(position) else {
        return Err(no_list_message());
    };
    let known = feature.properties.iter().find(|property| property.name.as_str() == PASSES_KEY);
    let edited = match known {
        Some(passes) => {
            replace_range(text, passes.value.start(), passes.value.end(), json_bool(wanted))
        }
        None => with_property(text, feature, PASSES_KEY, json_bool(wanted)),
    };
    Ok([mark, &edited].concat().into_bytes())
}

/// Appends a feature, formatted like the others.
pub(super) fn with_feature(
    bytes: &[u8],
    list: &FeatureList,
    draft: &FeatureDraft,
) -> Result<Vec<u8>, String> {
    let (mark, text) = split_byte_order_mark(bytes)?;
    let count = list.features.len();
    let text = with_list(text)?;
    let added = append_feature(&text, draft)?;
    let edited = with_updated_total(&added, count)?;
    Ok([mark, &edited].concat().into_bytes())
}

fn split_byte_order_mark(bytes: &[u8]) -> Result<(&'static str, &str), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        format!("line {line} is not UTF-8")
    })?;
    Ok(match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    })
}

fn parse_json(text: &str) -> Result<Value<'_>, String> {
    let options = ParseOptions {
        allow_comments: false,
        allow_trailing_commas: false,
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
    parsed.map_err(|error| error.to_string())?.value.ok_or_else(no_list_message)
}

fn no_list_message() -> String {
    "it contains no list of features".to_string()
}

fn features_array<'a, 'b>(parsed: &'b Value<'a>) -> Option<&'b Array<'a>> {
    let list =
        parsed.as_object().and_then(|file| property_value(file, FEATURES_KEY)).unwrap_or(parsed);
    list.as_array()
}

fn property_value<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<&'b Value<'a>> {
    let property = object.properties.iter().find(|property| property.name.as_str() == name)?;
    Some(&property.value)
}

/// Adds an empty list to a file without one.
fn with_list(text: &str) -> Result<String, String> {
    let parsed = parse_json(text)?;
    let Some(file) = parsed.as_object() else { return Ok(text.to_string()) };
    Ok(match property_value(file, FEATURES_KEY) {
        Some(Value::NullKeyword(null)) => {
            replace_range(text, null.range.start, null.range.end, "[]")
        }
        Some(_) => text.to_string(),
        None => with_property(text, file, FEATURES_KEY, "[]"),
    })
}

/// Updates `total_features` if it was correct before.
fn with_updated_total(text: &str, before: usize) -> Result<String, String> {
    let parsed = parse_json(text)?;
    if let Value::Object(file) = &parsed
        && let Some(Value::NumberLit(total)) = property_value(file, TOTAL_KEY)
        && total.value == before.to_string()
    {
        let after = (before + 1).to_string();
        return Ok(replace_range(text, total.range.start, total.range.end, &after));
    }
    Ok(text.to_string())
}

fn append_feature(text: &str, draft: &FeatureDraft) -> Result<String, String> {
    let parsed = parse_json(text)?;
    let features = features_array(&parsed).ok_or_else(no_list_message)?;
    let id = feature_id(features, draft);
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let Some(last) = features.elements.last() else {
        let (start, end) = (features.range.start, features.range.end);
        if !text.contains('\n') {
            let one = to_one_line_json(draft, &id, JsonSpacing::Some)?;
            return Ok(replace_range(text, start, end, &format!("[{one}]")));
        }
        let outer = indent_at(text, start);
        let unit = if outer.is_empty() { "  " } else { outer };
        let inner = format!("{outer}{unit}");
        let one = to_pretty_json(draft, &id, unit)?.replace('\n', &format!("{ending}{inner}"));
        let list = format!("[{ending}{inner}{one}{ending}{outer}]");
        return Ok(replace_range(text, start, end, &list));
    };
    let last_text = slice(text, last.start(), last.end());
    let before =
        match features.elements.len().checked_sub(2).and_then(|at| features.elements.get(at)) {
            Some(previous) => slice(text, previous.end(), last.start()).to_string(),
            None => match slice(text, features.range.start + 1, last.start()) {
                "" if last_text.contains("\": ") => ", ".to_string(),
                space => format!(",{space}"),
            },
        };
    let one = if last_text.contains('\n') {
        let outer = indent_at(text, last.start());
        let inner = first_property(last).map(|at| indent_at(text, at)).unwrap_or_default();
        let unit = inner.strip_prefix(outer).filter(|unit| !unit.is_empty()).unwrap_or("  ");
        to_pretty_json(draft, &id, unit)?.replace('\n', &format!("{ending}{outer}"))
    } else if last_text.contains("\": ") {
        to_one_line_json(draft, &id, JsonSpacing::Some)?
    } else {
        to_one_line_json(draft, &id, JsonSpacing::None)?
    };
    Ok(replace_range(text, last.end(), last.end(), &format!("{before}{one}")))
}

fn first_property(value: &Value<'_>) -> Option<usize> {
    value.as_object()?.properties.first().map(Ranged::start)
}

/// The id in the style of the others: a number, unless they are strings.
fn feature_id(list: &Array<'_>, draft: &FeatureDraft) -> serde_json::Value {
    let id = draft.id.clone().unwrap_or_default();
    let has_words = list
        .elements
        .iter()
        .filter_map(Value::as_object)
        .any(|feature| matches!(property_value(feature, "id"), Some(Value::StringLit(_))));
    match id.parse::<u64>() {
        Ok(number) if !has_words && number.to_string() == id => number.into(),
        Ok(_) | Err(_) => id.into(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonSpacing {
    Some,
    None,
}

fn to_pretty_json(
    draft: &FeatureDraft,
    id: &serde_json::Value,
    unit: &str,
) -> Result<String, String> {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    draft.to_wire(id.clone()).serialize(&mut serializer).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn to_one_line_json(
    draft: &FeatureDraft,
    id: &serde_json::Value,
    spaces: JsonSpacing,
) -> Result<String, String> {
    let value =
        serde_json::to_value(draft.to_wire(id.clone())).map_err(|error| error.to_string())?;
    let (comma, colon) = match spaces {
        JsonSpacing::Some => (", ", ": "),
        JsonSpacing::None => (",", ":"),
    };
    let words = |words: &[serde_json::Value]| {
        format!("[{}]", words.iter().map(ToString::to_string).collect::<Vec<_>>().join(comma))
    };
    // The map of `serde_json` does not keep this order.
    let fields =
        ["id", "description", "steps", "verify", PASSES_KEY].into_iter().filter_map(|name| {
            let field = value.get(name)?;
            let field = field.as_array().map_or_else(|| field.to_string(), |list| words(list));
            Some(format!("\"{name}\"{colon}{field}"))
        });
    Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(comma)))
}

/// Appends a property in the style of the last one.
fn with_property(text: &str, object: &Object<'_>, name: &str, value: &str) -> String {
    let Some(last) = object.properties.last() else {
        let at = object.range.start + 1;
        return replace_range(text, at, at, &format!("\"{name}\": {value}"));
    };
    let colon = slice(text, last.name.end(), last.value.start());
    let previous = object.properties.len().checked_sub(2).and_then(|at| object.properties.get(at));
    let space = match previous {
        Some(previous) => {
            let between = slice(text, previous.end(), last.start());
            between.split_once(',').map_or(between, |(_, space)| space)
        }
        None => slice(text, object.range.start + 1, last.start()),
    };
    let is_cramped = previous.is_none() && space.is_empty() && colon.ends_with(' ');
    let space = if is_cramped { " " } else { space };
    let added = format!(",{space}\"{name}\"{colon}{value}");
    replace_range(text, last.value.end(), last.value.end(), &added)
}

/// The indentation of the line that contains this byte.
fn indent_at(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let width = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..width).unwrap_or_default()
}

fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}

fn replace_range(text: &str, start: usize, end: usize, with: &str) -> String {
    let (before, after) = (text.get(..start), text.get(end..));
    [before.unwrap_or_default(), with, after.unwrap_or_default()].concat()
}

fn json_bool(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}
