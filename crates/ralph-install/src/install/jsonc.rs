//! Parses settings as people write them by hand: JSON with comments and trailing commas.

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Why a text is not valid settings, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {why}")]
pub struct SettingsTextError {
    pub line: usize,
    pub column: usize,
    pub why: String,
}

impl SettingsTextError {
    /// An error at this byte offset.
    pub(super) fn at(text: &str, offset: usize, why: &str) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            why: why.to_string(),
        }
    }
}

/// The text of a file, with its byte order mark if it has one.
pub(super) fn decode_settings(bytes: &[u8]) -> Result<&str, SettingsTextError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let valid = String::from_utf8_lossy(valid);
        SettingsTextError::at(&valid, valid.len(), "not UTF-8")
    })
}

/// The syntax tree of a text without a byte order mark; `None` if the text has no value.
pub(super) fn parse_jsonc(text: &str) -> Result<Option<ast::Value<'_>>, SettingsTextError> {
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
    match parse_to_ast(text, &CollectOptions::default(), &options) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => {
            let why = error.kind().to_string();
            let mut chars = why.chars();
            let first = chars.next().map(|first| first.to_lowercase().to_string());
            let why = first.unwrap_or_default() + chars.as_str();
            Err(SettingsTextError::at(text, error.range().start, &why))
        }
    }
}

/// Converts a syntax tree to a value. If a key appears twice, the last one counts, as in every JSON parser.
pub(super) fn to_json_value(parsed: &ast::Value<'_>) -> Value {
    match parsed {
        ast::Value::StringLit(string) => Value::String(string.value.to_string()),
        ast::Value::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        ast::Value::BooleanLit(boolean) => Value::Bool(boolean.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => {
            Value::Array(array.elements.iter().map(to_json_value).collect())
        }
        ast::Value::Object(object) => Value::Object(
            object
                .properties
                .iter()
                .map(|property| {
                    (property.name.as_str().to_string(), to_json_value(&property.value))
                })
                .collect::<Map<_, _>>(),
        ),
    }
}

/// Whether this is plain JSON, without comments or trailing commas.
pub(super) fn is_plain_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
