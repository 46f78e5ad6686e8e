//! The query of an address.

use axum::http::Uri;

/// A field of the query. An unreadable query counts as missing.
pub(crate) fn query_field(uri: &Uri, name: &str) -> Option<String> {
    let fields: Vec<(String, String)> =
        serde_urlencoded::from_str(uri.query().unwrap_or_default()).ok()?;
    fields.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}
