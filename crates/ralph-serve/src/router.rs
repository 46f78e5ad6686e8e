//! The addresses and their handlers.

use crate::access::SessionMark;
use crate::board_visit::BoardVisit;
use crate::cookies::cookie_value;
use crate::error_page::{html_response, refusal};
use crate::live_page::LivePage;
use crate::query::query_field;
use crate::refusal::RefusedRequest;
use crate::run_source::{self, ComparisonQuery};
use crate::server_state::{ServerState, run_blocking};
use crate::template::frame::{self, NavigationPlace, PageFrame};
use crate::template::run_forms::FormKeys;
use crate::template::{changes, facts, history, insights, queues, states, stops};
use crate::{api, assets, guard, history_source, live, page_actions, stats_source};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use maud::{Markup, html};
use ralph_core::id::RunId;
use ralph_deck::view::queue_status;
use ralph_sys::clock;
use std::sync::Arc;

pub(crate) fn build_router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/", get(board))
        .route("/run/{id}", get(run))
        .route("/run/{id}/stops", get(older_stops))
        .route("/run/{id}/diff", get(compare))
        .route("/run/{id}/{action}", post(page_actions::act_on_run))
        .route("/history", get(history))
        .route("/queues", get(queues))
        .route("/insights", get(insights))
        .route("/api/board", get(api::board))
        .route("/api/run/{id}", get(api::run))
        .route("/api/history", get(api::history))
        .route("/api/insights", get(api::insights))
        .route(guard::METRICS_PATH, get(api::metrics))
        .route("/notify/test", post(page_actions::test_notification))
        .route("/states", get(states))
        .route("/events", get(live::events))
        .route("/enter", get(enter))
        .route("/style.css", get(assets::style))
        .route("/live.js", get(assets::script))
        .route("/favicon.svg", get(assets::icon))
        .fallback(api::nothing_here)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::guard_requests))
        .with_state(state)
}

/// Exchanges the token of a link for the cookie of a session, and removes it from the address.
async fn enter(State(state): State<Arc<ServerState>>, uri: Uri) -> Response {
    let token = query_field(&uri, "token").unwrap_or_default();
    let Some(secret) = state.access.begin_session(&token) else {
        return refusal(RefusedRequest::WrongLink);
    };
    let cookie =
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", state.cookie_name(), secret.as_str());
    let Ok(cookie) = HeaderValue::from_str(&cookie) else {
        return refusal(RefusedRequest::Failed);
    };
    let headers = [(header::LOCATION, HeaderValue::from_static("/")), (header::SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The result of the action before this page, if the address names one.
pub(crate) fn notice_of(state: &ServerState, session: SessionMark, uri: &Uri) -> Option<Markup> {
    let number = query_field(uri, "done")?.parse().ok()?;
    state.access.notice(session, number).map(|notice| facts::notice(&notice))
}

async fn board(
    state: State<Arc<ServerState>>,
    session: Extension<SessionMark>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let name = state.visit_cookie_name();
    let visit = BoardVisit::of_request(cookie_value(&headers, &name), clock::now_ms());
    let page = LivePage::Board { seen_ms: visit.seen_ms };
    let mut response = live_page(page, Some(NavigationPlace::Board), state, session, uri).await;
    let cookie = HeaderValue::from_str(&visit.set_cookie(&name));
    if let Some(cookie) = cookie.ok().filter(|_| response.status() == StatusCode::OK) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

async fn run(
    state: State<Arc<ServerState>>,
    session: Extension<SessionMark>,
    Path(id): Path<String>,
    uri: Uri,
) -> Response {
    match RunId::parse(&id) {
        Some(id) => live_page(LivePage::Run(id), None, state, session, uri).await,
        None => refusal(RefusedRequest::NotFound),
    }
}

async fn live_page(
    page: LivePage,
    place: Option<NavigationPlace>,
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<SessionMark>,
    uri: Uri,
) -> Response {
    let events = Some(page.events_path());
    let notice = notice_of(&state, session, &uri);
    let made = run_blocking(&state, move |state| {
        let view = page.load(state, session)?;
        let frame = PageFrame { title: &view.title, place, events, notice };
        let content = html! { @for region in &view.regions { (region.markup) } };
        Some(html_response(frame::page(&frame, &content)))
    });
    page_or_refusal(made.await)
}

fn page_or_refusal(made: Result<Option<Response>, RefusedRequest>) -> Response {
    match made {
        Ok(Some(page)) => page,
        Ok(None) => refusal(RefusedRequest::NotFound),
        Err(refused) => refusal(refused),
    }
}

/// A page about a run that does not update by itself.
async fn run_subpage(
    state: &Arc<ServerState>,
    id: &str,
    content: impl FnOnce(&ServerState, &RunId) -> Option<Markup> + Send + 'static,
) -> Response {
    let Some(id) = RunId::parse(id) else { return refusal(RefusedRequest::NotFound) };
    let made = run_blocking(state, move |state| {
        let content = content(state, &id)?;
        let title = format!("{id} · ralph");
        let frame = PageFrame { title: &title, ..PageFrame::default() };
        Some(html_response(frame::page(&frame, &content)))
    });
    page_or_refusal(made.await)
}

async fn older_stops(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Response {
    let before = query_field(&uri, "before").and_then(|number| number.parse().ok());
    run_subpage(&state, &id, move |state, id| {
        let details = run_source::load_run(state, id)?;
        Some(stops::older_stops(&details.page, before.unwrap_or(u64::MAX)))
    })
    .await
}

async fn compare(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Response {
    let number = |name| query_field(&uri, name).and_then(|number| number.parse().ok());
    let query = ComparisonQuery {
        from: number("from"),
        to: number("to"),
        path: query_field(&uri, "path").filter(|path| !path.is_empty()),
    };
    run_subpage(&state, &id, move |state, id| {
        let comparison = run_source::compare_checkpoints(state, id, &query)?;
        Some(changes::comparison_page(id.as_str(), &comparison))
    })
    .await
}

/// A page of the navigation that does not update by itself.
async fn plain_page(
    state: &Arc<ServerState>,
    place: NavigationPlace,
    title: &'static str,
    content: impl FnOnce(&ServerState) -> Option<Markup> + Send + 'static,
) -> Response {
    let made = run_blocking(state, move |state| {
        let content = content(state)?;
        let frame = PageFrame { title, place: Some(place), ..PageFrame::default() };
        Some(html_response(frame::page(&frame, &content)))
    });
    page_or_refusal(made.await)
}

async fn history(State(state): State<Arc<ServerState>>, uri: Uri) -> Response {
    let query = query_field(&uri, "q").unwrap_or_default();
    let before = query_field(&uri, "before");
    plain_page(&state, NavigationPlace::History, "History · ralph", move |state| {
        let page = history_source::load_history(state, &query, before.as_deref())?;
        Some(history::history_page(&page))
    })
    .await
}

async fn queues(State(state): State<Arc<ServerState>>) -> Response {
    plain_page(&state, NavigationPlace::Queues, "Queues · ralph", |state| {
        let (queues, unreadable) = queue_status::all_queues(&state.home);
        Some(queues::queues_page(&queues, unreadable.len()))
    })
    .await
}

async fn insights(State(state): State<Arc<ServerState>>) -> Response {
    plain_page(&state, NavigationPlace::Insights, "Insights · ralph", |state| {
        Some(insights::insights_page(&stats_source::load_insights(state)?))
    })
    .await
}

async fn states(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<SessionMark>,
    uri: Uri,
) -> Response {
    let frame = PageFrame {
        title: "States · ralph",
        place: Some(NavigationPlace::States),
        notice: notice_of(&state, session, &uri),
        ..PageFrame::default()
    };
    let forms = FormKeys { access: &state.access, session };
    html_response(frame::page(&frame, &states::states_page(&forms)))
}
