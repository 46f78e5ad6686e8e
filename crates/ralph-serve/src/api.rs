//! The same views as JSON, for programs that have the cookie.

use crate::error_page::{refusal, refusal_title};
use crate::history_source::{self, HistoryAnswer};
use crate::query::query_field;
use crate::refusal::RefusedRequest;
use crate::server_state::{ServerState, run_blocking};
use crate::{board_source, run_source, stats_source};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Uri, header};
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
        Ok(Some(body)) => {
            let kind = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Ok(None) => json_refusal(RefusedRequest::NotFound),
        Err(refused) => json_refusal(refused),
    }
}

#[derive(Serialize)]
struct ApiError {
    v: u8,
    error: &'static str,
}

/// The answer to a request that is refused, for a program.
fn json_refusal(refused: RefusedRequest) -> Response {
    let kind = HeaderValue::from_static("application/json");
    let error = ApiError { v: 1, error: refusal_title(refused) };
    let body = serde_json::to_vec(&error).unwrap_or_default();
    (refused.status(), [(header::CONTENT_TYPE, kind)], body).into_response()
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

pub(crate) async fn stats(State(state): State<Arc<ServerState>>) -> Response {
    json_response(&state, |state| serde_json::to_vec(&stats_source::load_stats(state)?.page).ok())
        .await
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
    let before = query_field(&uri, "before");
    json_response(&state, move |state| {
        match history_source::load_history(state, &query, before.as_deref())? {
            HistoryAnswer::Found(page) => serde_json::to_vec(&page).ok(),
            HistoryAnswer::Mistake { .. } => None,
        }
    })
    .await
}
