//! The addresses and their handlers.

use crate::access::{LinkEntry, SessionMark};
use crate::board_visit::BoardVisit;
use crate::cookies::cookie_value;
use crate::error_page::{html_response, refusal};
use crate::live_page::LivePage;
use crate::query::query_field;
use crate::refusal::RefusedRequest;
use crate::run_actions::EntryReport;
use crate::run_source::{self, ComparisonQuery};
use crate::server_state::{ServerState, run_blocking};
use crate::stats_source::StatsQuery;
use crate::template::frame::{self, NavigationPlace, PageFrame};
use crate::template::run_forms::FormKeys;
use crate::template::{changes, facts, history, states, stats, stops};
use crate::{api, assets, guard, history_source, live, page_actions, report_page, stats_source};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use maud::{Markup, html};
use ralph_core::id::RunId;
use ralph_sys::clock;
use std::sync::Arc;

pub(crate) fn build_router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/", get(board))
        .route("/run/{id}", get(run))
        .route("/run/{id}/stops", get(older_stops))
        .route("/run/{id}/diff", get(compare))
        .route("/run/{id}/report", get(report_page::report))
        .route("/run/{id}/{action}", post(page_actions::act_on_run))
        .route("/history", get(history))
        .route("/queues", get(queues))
        .route("/stats", get(stats))
        .route("/api/board", get(api::board))
        .route("/api/run/{id}", get(api::run))
        .route("/api/history", get(api::history))
        .route("/api/stats", get(api::stats))
        .route("/api/queues", get(api::queues))
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
async fn enter(
    State(state): State<Arc<ServerState>>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    // Programs that only look at a link would use it up.
    if method != Method::GET || headers.contains_key("sec-purpose") {
        return refusal(RefusedRequest::WrongMethod);
    }
    let token = query_field(&uri, "token").unwrap_or_default();
    let browser = guard::session_of(&state, &headers);
    let (cookie, next_token) = match state.access.use_link(&token, browser) {
        LinkEntry::Begun { cookie, next_token } => (Some(cookie), next_token),
        LinkEntry::Known { next_token } => (None, next_token),
        LinkEntry::Reused => {
            report_entry(&state, EntryReport::LinkReused);
            return refusal(RefusedRequest::UsedLink);
        }
        LinkEntry::Wrong => return refusal(RefusedRequest::WrongLink),
    };
    if let Some(next) = next_token {
        report_entry(&state, EntryReport::NextLink(state.link(&next)));
    }
    let cookie = cookie.map(|secret| {
        let name = state.cookie_name();
        HeaderValue::from_str(&format!(
            "{name}={}; HttpOnly; SameSite=Strict; Path=/",
            secret.as_str()
        ))
    });
    let location = [(header::LOCATION, HeaderValue::from_static("/"))];
    match cookie {
        Some(Ok(cookie)) => {
            (StatusCode::SEE_OTHER, location, [(header::SET_COOKIE, cookie)]).into_response()
        }
        Some(Err(_)) => refusal(RefusedRequest::Failed),
        None => (StatusCode::SEE_OTHER, location).into_response(),
    }
}

/// In a thread of its own, because a terminal can be stopped.
fn report_entry(state: &Arc<ServerState>, report: EntryReport) {
    let state = Arc::clone(state);
    tokio::task::spawn_blocking(move || state.commands.report_entry(&report));
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
        let before = before.unwrap_or(u64::MAX);
        let lines = run_source::load_earlier_lines(state, id, before, stops::STOPS_PER_PAGE)?;
        Some(stops::older_stops(id.as_str(), &lines, clock::now_ms()))
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

async fn queues(
    state: State<Arc<ServerState>>,
    session: Extension<SessionMark>,
    uri: Uri,
) -> Response {
    live_page(LivePage::Queues, Some(NavigationPlace::Queues), state, session, uri).await
}

async fn stats(State(state): State<Arc<ServerState>>, uri: Uri) -> Response {
    let query = StatsQuery::of_request(&uri);
    plain_page(&state, NavigationPlace::Stats, "Stats · ralph", move |state| {
        Some(stats::stats_page(&stats_source::load_stats(state, query)?))
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
