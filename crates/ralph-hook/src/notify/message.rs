//! The notification text: cleaned, bounded and redacted, because it leaves the machine.

use ralph_core::ending;
use ralph_core::record::RunRecord;
use ralph_core::redact::Redactor;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::{Deserialize, Serialize};

const MAX_TITLE_CHARS: usize = 200;
const MAX_REASON_CHARS: usize = 600;
/// Cleaning scans the whole text, so longer text is cut first. The rest would be cut off later anyway.
const MAX_CLEANED_CHARS: usize = 16 * 1024;

/// The JSON that a command reads on stdin and a webhook receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationMessage {
    pub v: u8,
    pub run: String,
    /// The final status of the run, `question` or `test`.
    pub status: String,
    pub title: String,
    pub because: String,
    pub next: String,
    /// Everything in one line.
    pub message: String,
    pub at: String,
}

impl NotificationMessage {
    pub(super) fn for_end(env: &Env, run: &RunRecord, status: RunStatus, because: &str) -> Self {
        let because = safe_text(env, because, MAX_REASON_CHARS);
        let broken = ending::broken_requirement(&because);
        let next = ending::next_step(status, run, &run.limits, broken);
        Self::for_halt(env, run, status, &because, next)
    }

    /// About a run that has ended or was parked, with what a person can do next.
    pub(super) fn for_halt(
        env: &Env,
        run: &RunRecord,
        status: RunStatus,
        because: &str,
        next: String,
    ) -> Self {
        let title = safe_text(env, &run.title, MAX_TITLE_CHARS);
        let because = safe_text(env, because, MAX_REASON_CHARS);
        let run = RunRecord { title: title.clone(), ..run.clone() };
        Self {
            v: 1,
            run: run.id.to_string(),
            status: status.name().to_string(),
            message: ending::describe_halt(status, &run, &because, &next),
            next,
            title,
            because,
            at: clock::format_rfc3339(clock::now_ms()),
        }
    }

    /// About a question that the run waits for until `until_ms`.
    pub(super) fn for_question(env: &Env, run: &RunRecord, question: &str, until_ms: u64) -> Self {
        let title = safe_text(env, &run.title, MAX_TITLE_CHARS);
        let because = safe_text(env, question, MAX_REASON_CHARS);
        let until = clock::local_time(until_ms);
        let next = format!(
            "`ralph tell {} \"…\"` answers it; without an answer by {until} the run is parked",
            run.id
        );
        Self {
            v: 1,
            run: run.id.to_string(),
            status: "question".to_string(),
            message: format!("question: {title} — {because} (run {}); {next}", run.id),
            title,
            because,
            next,
            at: clock::format_rfc3339(clock::now_ms()),
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
            at: clock::format_rfc3339(clock::now_ms()),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Cannot fail: every field is a string or a number.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn safe_text(env: &Env, foreign: &str, most: usize) -> String {
    // Cleaned first, so that no invisible character splits a secret; cut last, so that no part of one remains.
    let cleaned = text::clean(&text::truncate(foreign, MAX_CLEANED_CHARS));
    text::clean_line(&Redactor::new(env.secrets()).redact(&cleaned), most)
}
