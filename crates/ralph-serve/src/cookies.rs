//! The cookies of a request.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// The value of a cookie; the first one if there are several.
pub(crate) fn cookie_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}
