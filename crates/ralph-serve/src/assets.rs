//! Style, script and icon, which are part of the program.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

fn asset(kind: &'static str, content: &'static str) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], content).into_response()
}

pub(crate) async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("../assets/style.css"))
}

pub(crate) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("../assets/live.js"))
}

pub(crate) async fn icon() -> Response {
    asset("image/svg+xml", include_str!("../assets/favicon.svg"))
}
