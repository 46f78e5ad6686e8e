//! Checks every request before its handler runs, and gives every response the same security headers.
//!
//! In order: the name in `Host`, the method, the page that sent the request, the session (or, for metrics, their token). A POST also needs the origin of our own
//! pages and the token of the form. Handlers of POST get the parsed form from here, so none can skip a check.

use crate::access::{SessionMark, TOKEN_FIELD};
use crate::cookies::cookie_value;
use crate::error_page;
use crate::refusal::RefusedRequest;
use crate::server_state::ServerState;
use axum::body::{self, Body};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use ralph_core::text;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest form is an answer of 2,000 characters, each of which can take 12 bytes in this encoding.
const MAX_FORM_BYTES: usize = 64 * 1024;
const MAX_FORM_FIELDS: usize = 32;
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// What a browser may load without a session: nothing that depends on the person.
pub(crate) const PUBLIC_PATHS: [&str; 4] = ["/enter", "/favicon.svg", "/live.js", "/style.css"];

/// What a scraper may read with its token.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Forbids inline scripts and styles, so that text that was not escaped by mistake still cannot run.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types ralph";

const SECURITY_HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The fields of a form, without its token.
#[derive(Clone, Debug, Default)]
pub(crate) struct PostedForm(Vec<(String, String)>);

impl PostedForm {
    /// The field, or an empty text.
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }
}

/// The address that a client connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddress(pub(crate) SocketAddr);

pub(crate) async fn guard_requests(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match admit_request(&state, request).await {
        Ok(request) => next.run(request).await,
        Err(refused) => error_page::refusal(refused),
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        let value = HeaderValue::from_static(value);
        if name == header::CONTENT_SECURITY_POLICY {
            // A report has a stricter one of its own.
            headers.entry(name).or_insert(value);
        } else {
            headers.insert(name, value);
        }
    }
    response
}

async fn admit_request(
    state: &ServerState,
    mut request: Request,
) -> Result<Request, RefusedRequest> {
    let host = request_host(&request).ok_or(RefusedRequest::WrongHost)?.to_string();
    let local = request.extensions().get::<LocalAddress>().copied();
    let hosts = match local {
        Some(LocalAddress(address)) => state.hosts.clone().with_local_address(address),
        None => state.hosts.clone(),
    };
    if !hosts.contains(&host) {
        return Err(RefusedRequest::WrongHost);
    }
    let is_post = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => return Err(RefusedRequest::WrongMethod),
    };
    if !is_from_own_page(request.headers(), is_post) {
        return Err(RefusedRequest::ForeignPage);
    }
    if !is_post && PUBLIC_PATHS.contains(&request.uri().path()) {
        return Ok(request);
    }
    let is_metrics = !is_post && request.uri().path() == METRICS_PATH;
    if is_metrics && has_metrics_token(state, request.headers()) {
        return Ok(request);
    }
    let session = session_of(state, request.headers()).ok_or(RefusedRequest::NoSession)?;
    if is_post {
        let origin = single_header(request.headers(), &header::ORIGIN);
        let is_own = match origin {
            HeaderCount::One(origin) if origin != "null" => hosts.is_own_origin(&host, origin),
            // With `Referrer-Policy: no-referrer`, browsers send `null`. They send `Sec-Fetch-Site` then, which no page can forge.
            HeaderCount::One(_) | HeaderCount::None => {
                fetch_metadata(request.headers(), "sec-fetch-site") == Some("same-origin")
            }
            HeaderCount::Several => false,
        };
        if !is_own {
            return Err(RefusedRequest::ForeignPage);
        }
        let path = request.uri().path().to_string();
        let (parts, body) = request.into_parts();
        let mut form = read_form(&parts.headers, body).await?;
        let token = form.0.iter().position(|(name, _)| name == TOKEN_FIELD);
        let token = token.map(|at| form.0.swap_remove(at).1).unwrap_or_default();
        if !state.access.is_form_token(session, &path, &token) {
            return Err(RefusedRequest::StaleForm);
        }
        request = Request::from_parts(parts, Body::empty());
        request.extensions_mut().insert(form);
    }
    request.extensions_mut().insert(session);
    Ok(request)
}

/// The name that the client used. `None` if there is none, or if there are several that differ.
fn request_host(request: &Request) -> Option<&str> {
    let HeaderCount::One(host) = single_header(request.headers(), &header::HOST) else {
        return None;
    };
    match request.uri().authority() {
        Some(authority) if authority.as_str() != host => None,
        Some(_) | None => Some(host),
    }
}

enum HeaderCount<'a> {
    None,
    One(&'a str),
    /// More than one, or one that is not text.
    Several,
}

fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> HeaderCount<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => HeaderCount::None,
        (Some(Ok(value)), None) => HeaderCount::One(value),
        (Some(_), _) => HeaderCount::Several,
    }
}

fn fetch_metadata<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Browsers say in `Sec-Fetch-Site` which page caused a request. Another page may link here, but not load anything.
fn is_from_own_page(headers: &HeaderMap, is_post: bool) -> bool {
    match fetch_metadata(headers, "sec-fetch-site") {
        None | Some("same-origin") => true,
        Some("none") => !is_post,
        Some(_) => {
            let is_navigation = fetch_metadata(headers, "sec-fetch-mode") == Some("navigate");
            let is_document = fetch_metadata(headers, "sec-fetch-dest") == Some("document");
            !is_post && is_navigation && is_document
        }
    }
}

/// The session of the cookie.
pub(crate) fn session_of(state: &ServerState, headers: &HeaderMap) -> Option<SessionMark> {
    state.access.find_session(cookie_value(headers, &state.cookie_name())?)
}

/// A scraper has no cookie. Its token opens the metrics only.
fn has_metrics_token(state: &ServerState, headers: &HeaderMap) -> bool {
    let HeaderCount::One(given) = single_header(headers, &header::AUTHORIZATION) else {
        return false;
    };
    let Some((scheme, token)) = given.split_once(' ') else { return false };
    scheme.eq_ignore_ascii_case("bearer") && state.access.is_metrics_token(token.trim())
}

async fn read_form(headers: &HeaderMap, body: Body) -> Result<PostedForm, RefusedRequest> {
    let HeaderCount::One(kind) = single_header(headers, &header::CONTENT_TYPE) else {
        return Err(RefusedRequest::WrongForm);
    };
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        return Err(RefusedRequest::WrongForm);
    }
    let reading = tokio::time::timeout(FORM_TIMEOUT, body::to_bytes(body, MAX_FORM_BYTES));
    let bytes = match reading.await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(RefusedRequest::TooLarge),
        Err(_) => return Err(RefusedRequest::TooSlow),
    };
    let fields: Vec<(String, String)> =
        serde_urlencoded::from_bytes(&bytes).map_err(|_| RefusedRequest::WrongForm)?;
    if fields.len() > MAX_FORM_FIELDS {
        return Err(RefusedRequest::WrongForm);
    }
    let clean = |(name, value): (String, String)| (name, text::clean(&value));
    Ok(PostedForm(fields.into_iter().map(clean).collect()))
}
