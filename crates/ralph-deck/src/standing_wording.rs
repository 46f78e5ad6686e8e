//! Puts what a run in progress is at into words: its last stop, its question and its last event.

use crate::page::OpenQuestion;
use crate::person_action::PersonAction;
use crate::wording::{FactMark, MarkedText, ago, local_time, safe_line};
use ralph_core::drive::Remedy;
use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_core::run::RunState;

/// A run without an event for this long says when the last one was.
const QUIET_AFTER_MS: u64 = 5 * 60 * 1000;

/// What a run waits for if only a person's approval is missing.
pub const AWAITS_APPROVAL: &str = "waits for your approval";

/// `another approach: the last 3 stops made no progress`. The reason of the decision names the remedy too.
pub fn tried_text(remedy: Remedy, why: &str) -> String {
    let name = remedy.name();
    let why = why.strip_suffix(&format!("; trying {name}")).unwrap_or(why);
    format!("{name}: {}", safe_line(why))
}

/// The command that approves what a run waits for.
pub fn approve_command(run: &RunId, name: &str) -> String {
    PersonAction::Approve { name: name.to_string() }.command_line(run)
}

/// What the last stop of a run led to; `None` before the first one.
pub fn last_stop(state: &RunState) -> Option<&'static str> {
    if state.answer.is_some() {
        return Some("held");
    }
    (state.report.is_some() || state.delivery.is_some()).then_some("let go")
}

/// ``asks until 14:05: which licence?; answer with `ralph tell k7f2 "…"` ``, or ``waits for your approval: `ralph approve
/// k7f2 design` ``. A run that needs a runner has to be resumed, too.
pub fn question_line(run: &RunRecord, question: &OpenQuestion, needs_runner: bool) -> MarkedText {
    let then = if needs_runner {
        format!(", then run `ralph run --resume {}`", run.id)
    } else {
        String::new()
    };
    let until = question.until_ms.map(|until_ms| format!(" until {}", local_time(until_ms)));
    if let Some(name) = &question.approval {
        let text = format!(
            "{}{}: `{}`{then}",
            AWAITS_APPROVAL,
            until.unwrap_or_default(),
            safe_line(&approve_command(&run.id, name))
        );
        return MarkedText::new(FactMark::Unclear, text);
    }
    // In a session that a person works in, the answer is typed there.
    let driven = run.drive.as_ref();
    let how = driven.map(|_| format!("; answer with `ralph tell {} \"…\"`{then}", run.id));
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
