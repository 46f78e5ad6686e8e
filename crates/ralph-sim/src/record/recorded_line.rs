//! The fields of a transcript line that are read. All are untyped, so that an unexpected type only makes a field
//! absent.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedLineWire {
    #[serde(rename = "type", default)]
    pub(super) kind: Value,
    #[serde(default)]
    pub(super) subtype: Value,
    #[serde(default)]
    pub(super) cwd: Value,
    #[serde(default)]
    pub(super) is_meta: Value,
    #[serde(default)]
    pub(super) is_sidechain: Value,
    #[serde(default)]
    pub(super) is_compact_summary: Value,
    #[serde(default)]
    pub(super) origin: Value,
    #[serde(default)]
    pub(super) message: Value,
    #[serde(default)]
    pub(super) content: Value,
    #[serde(default)]
    pub(super) is_api_error_message: Value,
    #[serde(default)]
    pub(super) api_error_status: Value,
    #[serde(default)]
    pub(super) api_error_type: Value,
    #[serde(default)]
    pub(super) hook_infos: Value,
    #[serde(default)]
    pub(super) hook_additional_context: Value,
    #[serde(default)]
    pub(super) prevented_continuation: Value,
}

/// The text between two marks.
pub(super) fn text_between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to).map(|(inner, _)| inner)
}
