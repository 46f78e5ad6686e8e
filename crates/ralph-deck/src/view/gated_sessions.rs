//! Sessions without a run that the gates of a project decided about.

use crate::view::gate_activity_view::{ActivityView, activity_view};
use crate::wording::{self, safe_line};
use ralph_hook::overview::GatedSession;
use ralph_sys::clock;
use serde::Serialize;

/// How many characters of a session's id are shown.
const SHORT_ID: usize = 8;

#[derive(Debug, Serialize)]
pub struct GatedSessionView<'a> {
    pub session: &'a str,
    /// The name of its record for `ralph why`.
    pub record: &'a str,
    pub holds: u32,
    pub because: &'a str,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityView<'a>>,
}

pub fn gated_session_view(one: &GatedSession, now_ms: u64) -> GatedSessionView<'_> {
    GatedSessionView {
        session: one.session.as_str(),
        record: one.record.as_str(),
        holds: one.holds,
        because: &one.because,
        at: clock::format_rfc3339(one.at_ms),
        activity: one.activity.as_ref().map(|activity| activity_view(activity, now_ms)),
    }
}

/// The session, how often it was held, and the gates that run now or the last decision.
pub fn gated_session_text(one: &GatedSession, now_ms: u64) -> String {
    let id: String = one.session.as_str().chars().take(SHORT_ID).collect();
    let holds = match one.holds {
        0 => "not held".to_string(),
        1 => "held once".to_string(),
        more => format!("held {more} times"),
    };
    let news = match &one.activity {
        Some(activity) => wording::activity(activity, now_ms),
        None => format!("last: {}", safe_line(&one.because)),
    };
    format!("session {id}  {holds}, {news}")
}
