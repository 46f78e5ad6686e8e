//! Puts what a run in progress is at into words: its last stop, its question and its last event.

use crate::page::OpenQuestion;
use crate::wording::{FactMark, MarkedText, ago, local_time, safe_line};
use ralph_core::approval;
use ralph_core::record::RunRecord;
use ralph_core::run::RunState;

/// A run without an event for this long says when the last one was.
const QUIET_AFTER_MS: u64 = 5 * 60 * 1000;

/// What the last stop of a run led to; `None` before the first one.
pub fn last_stop(state: &RunState) -> Option<&'static str> {
    if state.answer.is_some() {
        return Some("held");
    }
    (state.report.is_some() || state.delivery.is_some()).then_some("let go")
}

/// ``asks until 14:05: which licence?; answer with `ralph tell k7f2 "…"` ``
pub fn question_line(run: &RunRecord, question: &OpenQuestion) -> MarkedText {
    let until = question.until_ms.map(|until_ms| format!(" until {}", local_time(until_ms)));
    // In a session that a person works in, the answer is typed there.
    let is_approval = approval::is_approval_question(&question.text);
    let driven = run.drive.as_ref().filter(|_| !is_approval);
    let how = driven.map(|_| format!("; answer with `ralph tell {} \"…\"`", run.id));
    let text = format!(
        "asks{}: {}{}",
        until.unwrap_or_default(),
        safe_line(&question.text),
        how.unwrap_or_default()
    );
    MarkedText::new(FactMark::Unclear, text)
}

/// `last event 9 min ago`; `None` if a run had one within minutes.
pub fn last_event(now_ms: u64, last_ms: u64) -> Option<String> {
    let is_old = now_ms.saturating_sub(last_ms) >= QUIET_AFTER_MS;
    is_old.then(|| format!("last event {}", ago(now_ms, last_ms)))
}
