//! The same views as JSON, for programs that have the cookie.

use crate::error_page::{refusal, refusal_title};
use crate::history_source::{self, HistoryAnswer};
use crate::query::query_field;
use crate::refusal::RefusedRequest;
use crate::server_state::{ServerState, run_blocking};
use crate::stats_source::StatsQuery;
use crate::{board_source, run_source, stats_source};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use ralph_core::id::RunId;
use ralph_deck::IndexCoverage;
use ralph_deck::view::queue_status::{self, QueueStatus, QueueStatusView};
use ralph_sys::clock;
use serde::Serialize;
use std::sync::Arc;

async fn json_response(
    state: &Arc<ServerState>,
    view: impl FnOnce(&ServerState) -> Option<Vec<u8>> + Send + 'static,
) -> Response {
    match run_blocking(state, view).await {
        Ok(Some(body)) => json_body(StatusCode::OK, body),
        Ok(None) => json_refusal(RefusedRequest::NotFound),
        Err(refused) => json_refusal(refused),
    }
}

#[derive(Serialize)]
struct ApiError<'a> {
    v: u8,
    error: &'a str,
}

/// The answer to a request that is refused, for a program.
fn json_refusal(refused: RefusedRequest) -> Response {
    json_error(refused.status(), refusal_title(refused))
}

fn json_error(status: StatusCode, error: &str) -> Response {
    json_body(status, serde_json::to_vec(&ApiError { v: 1, error }).unwrap_or_default())
}

fn json_page(page: &impl Serialize) -> Response {
    match serde_json::to_vec(page) {
        Ok(body) => json_body(StatusCode::OK, body),
        Err(_) => json_refusal(RefusedRequest::Failed),
    }
}

fn json_body(status: StatusCode, body: Vec<u8>) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The answer about an address that has no page: JSON below `/api/`.
pub(crate) async fn nothing_here(uri: Uri) -> Response {
    if uri.path().starts_with("/api/") {
        json_refusal(RefusedRequest::NotFound)
    } else {
        refusal(RefusedRequest::NotFound)
    }
}

pub(crate) async fn board(State(state): State<Arc<ServerState>>) -> Response {
    json_response(&state, |state| serde_json::to_vec(&board_source::load_board(state, 0)?.0).ok())
        .await
}

pub(crate) async fn stats(State(state): State<Arc<ServerState>>, uri: Uri) -> Response {
    let query = StatsQuery::of_request(&uri);
    let answer =
        run_blocking(&state, move |state| Some(stats_source::load_stats(state, query)?.figures));
    match answer.await {
        Ok(Some(Ok(loaded))) => json_page(&loaded.page),
        Ok(Some(Err(mistake))) => json_error(StatusCode::BAD_REQUEST, mistake.hint()),
        Ok(None) => json_refusal(RefusedRequest::NotFound),
        Err(refused) => json_refusal(refused),
    }
}

#[derive(Serialize)]
struct QueuesView<'a> {
    v: u8,
    now: String,
    queues: Vec<QueueStatusView<'a>>,
    /// How many queues cannot be read.
    unreadable: usize,
}

pub(crate) async fn queues(State(state): State<Arc<ServerState>>) -> Response {
    json_response(&state, |state| {
        let (queues, unreadable) = queue_status::all_queues(&state.home);
        let view = QueuesView {
            v: 1,
            now: clock::format_rfc3339(clock::now_ms()),
            queues: queues.iter().map(QueueStatus::view).collect(),
            unreadable: unreadable.len(),
        };
        serde_json::to_vec(&view).ok()
    })
    .await
}

/// For a scraper. Without all journals the figures would be too low, and no figures are better than wrong ones.
pub(crate) async fn metrics(State(state): State<Arc<ServerState>>) -> Response {
    let loaded = match run_blocking(&state, stats_source::load_metrics).await {
        Ok(loaded) => loaded,
        Err(refused) => return refusal(refused),
    };
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    match loaded {
        Some((text, IndexCoverage::Whole)) => {
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Some((_, IndexCoverage::Partial)) => refusal(RefusedRequest::Incomplete),
        None => refusal(RefusedRequest::Failed),
    }
}

pub(crate) async fn run(State(state): State<Arc<ServerState>>, Path(id): Path<String>) -> Response {
    let Some(id) = RunId::parse(&id) else { return json_refusal(RefusedRequest::NotFound) };
    json_response(&state, move |state| {
        serde_json::to_vec(&run_source::load_run(state, &id)?.page).ok()
    })
    .await
}

pub(crate) async fn history(State(state): State<Arc<ServerState>>, uri: Uri) -> Response {
    let query = query_field(&uri, "q").unwrap_or_default();
    // A form sends an empty field for the first page.
    let before = query_field(&uri, "before").filter(|key| !key.is_empty());
    let answer = run_blocking(&state, move |state| {
        history_source::load_history(state, &query, before.as_deref())
    });
    match answer.await {
        Ok(Some(HistoryAnswer::Found(page))) => json_page(&page),
        Ok(Some(HistoryAnswer::Mistake { error, .. })) => {
            json_error(StatusCode::BAD_REQUEST, &error.to_string())
        }
        Ok(None) => json_refusal(RefusedRequest::NotFound),
        Err(refused) => json_refusal(refused),
    }
}
