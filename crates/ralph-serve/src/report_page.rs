//! The report of a run as a page, as `ralph report --format html` writes it.

use crate::error_page::refusal;
use crate::refusal::RefusedRequest;
use crate::run_source::GIT_TIMEOUT;
use crate::server_state::{ServerState, run_blocking};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_deck::report::{self, RunReport};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use std::sync::Arc;

/// `GET /run/ID/report`. The policy of the file itself cannot forbid frames, so the header repeats it and does.
pub(crate) async fn report(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> Response {
    let Some(id) = RunId::parse(&id) else { return refusal(RefusedRequest::NotFound) };
    let policy = format!("{}; frame-ancestors 'none'", report::content_policy());
    let made = run_blocking(&state, move |state| render_report(state, &id)).await;
    match (made, HeaderValue::try_from(policy)) {
        (Ok(Some(page)), Ok(policy)) => {
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
            (headers, page).into_response()
        }
        (Ok(Some(_)), Err(_)) => refusal(RefusedRequest::Failed),
        (Ok(None), _) => refusal(RefusedRequest::NotFound),
        (Err(refused), _) => refusal(refused),
    }
}

/// `None` if there is no such run or it cannot be read.
fn render_report(state: &ServerState, run: &RunId) -> Option<String> {
    if !fs::exists(state.home.run(run).directory()) {
        return None;
    }
    let deadline = Deadline::after(GIT_TIMEOUT);
    let report = RunReport::load(&state.env, &state.home, run, clock::now_ms(), &deadline).ok()?;
    Some(report::render_html(&report, &Redactor::new(state.env.secrets())))
}
