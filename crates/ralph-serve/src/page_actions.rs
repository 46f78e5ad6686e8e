//! `POST /run/ID/ACTION`: carries out the command and leads back to the run.

use crate::access::{ActionNotice, SessionMark};
use crate::error_page::refusal;
use crate::guard::PostedForm;
use crate::refusal::RefusedRequest;
use crate::server_state::{ServerState, run_action};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_deck::person_action::PersonAction;
use ralph_sys::fs;
use std::sync::Arc;

const LONGEST_NOTICE: usize = 2_000;

fn action_of(name: &str, form: &PostedForm) -> Option<PersonAction> {
    let field = |name: &str| form.field(name).to_string();
    match name {
        "pause" => Some(PersonAction::Pause),
        "resume" => Some(PersonAction::Resume),
        "cancel" => Some(PersonAction::Cancel),
        "tell" => Some(PersonAction::Tell { text: field("text") }),
        "waive" => Some(PersonAction::Waive {
            requirement: field("requirement"),
            until: field("until"),
            why: field("why"),
        }),
        "limits" => Some(PersonAction::SetLimits {
            iterations: field("iterations"),
            duration: field("duration"),
            cost: field("cost"),
        }),
        "approve" => Some(PersonAction::Approve { name: field("name") }),
        "accept" => Some(PersonAction::Accept { why: field("why") }),
        "require" => Some(PersonAction::Require { requirement: field("requirement") }),
        _ => None,
    }
}

pub(crate) async fn act_on_run(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<SessionMark>,
    Extension(form): Extension<PostedForm>,
    Path((run, name)): Path<(String, String)>,
) -> Response {
    let Some((run, action)) = RunId::parse(&run).zip(action_of(&name, &form)) else {
        return refusal(RefusedRequest::NotFound);
    };
    let back = format!("/run/{run}");
    let done = run_action(&state, move |state| {
        if !fs::exists(state.home.run(&run).directory()) {
            return None;
        }
        Some(state.commands.carry_out(&run, &action))
    });
    match done.await {
        Ok(Some(outcome)) => lead_back(&state, session, &back, outcome),
        Ok(None) => refusal(RefusedRequest::NotFound),
        Err(refused) => refusal(refused),
    }
}

pub(crate) async fn test_notification(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<SessionMark>,
) -> Response {
    match run_action(&state, |state| state.commands.test_notification()).await {
        Ok(outcome) => lead_back(&state, session, "/states", outcome),
        Err(refused) => refusal(refused),
    }
}

/// A redirect to the page that shows the result, so that a reload does not repeat the action.
fn lead_back(
    state: &ServerState,
    session: SessionMark,
    back: &str,
    outcome: Result<String, String>,
) -> Response {
    let is_failure = outcome.is_err();
    let words = outcome.unwrap_or_else(|error| error);
    let words = text::truncate(&text::clean(&words), LONGEST_NOTICE);
    let number = state.access.add_notice(session, ActionNotice { text: words, is_failure });
    match HeaderValue::from_str(&format!("{back}?done={number}")) {
        Ok(location) => (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response(),
        Err(_) => refusal(RefusedRequest::Failed),
    }
}
