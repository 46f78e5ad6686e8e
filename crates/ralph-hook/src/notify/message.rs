//! The notification text: cleaned, bounded and redacted, because it leaves the machine.

use ralph_core::ending;
use ralph_core::record::Run;
use ralph_core::redact::Redactor;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::{Deserialize, Serialize};

const LONGEST_TITLE: usize = 200;
const LONGEST_REASON: usize = 600;
/// Cleaning scans the whole text, so longer text is cut first. The rest would be cut off later anyway.
const LOOKED_AT: usize = 16 * 1024;

/// The JSON that a command reads on stdin and a webhook receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub v: u8,
    pub run: String,
    /// The final status of the run, or `test`.
    pub status: String,
    pub title: String,
    pub because: String,
    pub next: String,
    /// Everything in one line.
    pub message: String,
    pub at: String,
}

impl Message {
    pub(super) fn of(env: &Env, run: &Run, status: Status, because: &str) -> Self {
        let redactor = Redactor::new(env.secrets());
        // Cleaned first, so that no invisible character splits a secret; cut last, so that no part of one remains.
        let safe = |foreign: &str, most: usize| {
            let cleaned = text::clean(&text::cut(foreign, LOOKED_AT));
            text::line(&redactor.redact(&cleaned), most)
        };
        let title = safe(&run.title, LONGEST_TITLE);
        let because = safe(because, LONGEST_REASON);
        let run = Run { title: title.clone(), ..run.clone() };
        Self {
            v: 1,
            run: run.id.to_string(),
            status: status.name().to_string(),
            next: ending::next_step(status, &run, &run.limits),
            message: ending::sentence(status, &run, &run.limits, &because),
            title,
            because,
            at: clock::rfc3339(clock::now_ms()),
        }
    }

    pub(super) fn test() -> Self {
        let because = "sent by `ralph notify --test`";
        let next = "the end of a run is announced the same way";
        Self {
            v: 1,
            run: String::new(),
            status: "test".to_string(),
            title: "a test message".to_string(),
            because: because.to_string(),
            next: next.to_string(),
            message: format!("test: a test message — {because}; {next}"),
            at: clock::rfc3339(clock::now_ms()),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Cannot fail: every field is a string or a number.
        serde_json::to_string(self).unwrap_or_default()
    }
}
