//! Sessions without a run: those that the gates of a project decided about, and those that files of other tools hold.

use super::status_view::StatusSelection;
use crate::page::RunActivity;
use crate::wording::safe_line;
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::overview::{self, GatedSession, HeldSession, UngatedSession, UnreadableRun};
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock;
use ralph_sys::fs::FileError;
use serde::Serialize;

const GATES_OFF: &str = "the gates are off (`/ralph:on` in it turns them on)";

#[derive(Debug, Serialize)]
pub struct GatedSessionView<'a> {
    pub session: &'a str,
    /// The name of its record for `ralph why`.
    pub record: &'a str,
    pub holds: u32,
    pub because: &'a str,
    /// Whether the last decision held it.
    pub held: bool,
    /// Whether a person turned the gates off for it.
    pub off: bool,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<RunActivity>,
}

pub fn gated_session_view(one: &GatedSession, now_ms: u64) -> GatedSessionView<'_> {
    GatedSessionView {
        session: one.session.as_str(),
        record: one.record.as_str(),
        holds: one.holds,
        because: &one.because,
        held: one.is_held,
        off: one.is_off,
        at: clock::format_rfc3339(one.at_ms),
        activity: one.activity.as_ref().map(|activity| RunActivity::from_log(activity, now_ms)),
    }
}

#[derive(Debug, Serialize)]
pub struct UngatedSessionView<'a> {
    pub session: &'a str,
    pub at: String,
}

pub fn ungated_session_view(one: &UngatedSession) -> UngatedSessionView<'_> {
    UngatedSessionView { session: one.session.as_str(), at: clock::format_rfc3339(one.at_ms) }
}

/// The session, how often it was held, and the gates that run now or the last decision.
pub fn gated_session_text(one: &GatedSession, now_ms: u64) -> String {
    let holds = match one.holds {
        0 => "not held".to_string(),
        1 => "held once".to_string(),
        more => format!("held {more} times"),
    };
    let off = if one.is_off { format!("{GATES_OFF}; ") } else { String::new() };
    let news = match &one.activity {
        Some(activity) => RunActivity::from_log(activity, now_ms).describe(now_ms),
        None => format!("last: {}", safe_line(&one.because)),
    };
    format!("session {}  {off}{holds}, {news}", one.session.short())
}

/// A session whose gates are off.
pub fn ungated_session_text(one: &UngatedSession) -> String {
    format!("session {}  {GATES_OFF}", one.session.short())
}

/// The sessions that gates decided about since then, or the one whose record is selected.
pub(super) fn select_gated_sessions(
    home: &RalphHome,
    selection: &StatusSelection,
    scope: Option<&ProjectScope>,
    since_ms: u64,
) -> Result<Vec<GatedSession>, FileError> {
    match selection {
        StatusSelection::Run(run) if run.is_of_session() => {
            let opened = store::load_run(home, run).ok();
            let gated = opened.and_then(|opened| overview::gated_session(home, &opened));
            Ok(gated.into_iter().collect())
        }
        StatusSelection::Run(_)
        | StatusSelection::Recent(_)
        | StatusSelection::All(_)
        | StatusSelection::Queue(_) => overview::list_gated_sessions(home, scope, since_ms),
    }
}

#[derive(Debug, Serialize)]
pub struct HeldSessionView<'a> {
    pub session: &'a str,
    pub last_decided_at: String,
}

#[derive(Debug, Serialize)]
pub struct UnreadableRunView<'a> {
    pub run: &'a str,
    pub why: String,
}

pub(super) fn held_session_view(held: &HeldSession) -> HeldSessionView<'_> {
    HeldSessionView {
        session: held.session.as_str(),
        last_decided_at: clock::format_rfc3339(held.last.at_ms),
    }
}

pub(super) fn unreadable_run_view(one: &UnreadableRun) -> UnreadableRunView<'_> {
    UnreadableRunView { run: one.run.as_str(), why: describe_error(&one.error) }
}
