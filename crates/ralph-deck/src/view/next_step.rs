//! What a person can do next with a run, in the words of every screen.

use crate::standing_wording::approve_command;
use crate::wording::safe_line;
use ralph_core::approval;
use ralph_core::ending;
use ralph_core::facts::DeclaredPause;
use ralph_core::limits::RunLimits;
use ralph_core::record::{ReportedStatus, RunRecord};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;

/// A command or a sentence; `None` while the run works. `asks` is whether a question is open.
pub fn next_step(
    run: &RunRecord,
    state: &RunState,
    phase: RunPhase,
    asks: AsksPerson,
) -> Option<String> {
    let id = &run.id;
    let lines = state.report.iter().flat_map(|report| &report.lines);
    let mut unknown = lines.filter(|line| line.standing == ReportedStatus::Unknown);
    let broken = unknown.next().map(|line| line.name.as_str());
    match (phase, &state.driving.parked) {
        (RunPhase::Ended(status), _) => Some(ended_step(status, run, state.limits(run), broken)),
        (RunPhase::Active, _) if asks == AsksPerson::No => None,
        (RunPhase::Active, _) if matches!(state.declared, Some(DeclaredPause::Approval(_))) => {
            let name = approval::first_awaited_name(state.report.as_ref());
            Some(format!("review it, then run `{}`", approve_command(id, &name)))
        }
        (RunPhase::Active, _) if run.drive.is_some() => {
            Some(format!("answer with `ralph tell {id} \"…\"`"))
        }
        (RunPhase::Active, _) => Some("answer in the session".to_string()),
        (RunPhase::Paused { .. }, Some(parked)) => {
            Some(ending::next_step(parked.status, run, state.limits(run), broken))
        }
        (RunPhase::Paused { .. }, None) => Some(format!("`ralph resume {id}` continues")),
        (RunPhase::Orphaned, _) if run.drive.is_some() => {
            Some(format!("`ralph run --resume {id}` continues"))
        }
        (RunPhase::Orphaned, _) => Some(format!("`ralph resume {id}` resumes it")),
    }
}

/// What to do after the end of a run. A screen that explains the result already does not send its reader to
/// `ralph why`.
fn ended_step(
    status: RunStatus,
    run: &RunRecord,
    bounds: &RunLimits,
    broken: Option<&str>,
) -> String {
    let has_start = run.seal.as_ref().is_some_and(|seal| seal.base.is_some());
    if status == RunStatus::Verified && has_start {
        return format!("review the change: `ralph checkpoint diff {}`", run.id);
    }
    ending::next_step(status, run, bounds, broken)
}

/// What the agent of an ended run asked, and what to do about it; empty if it asked nothing.
pub(super) fn ended_question(run: &RunRecord, state: &RunState, status: RunStatus) -> Vec<String> {
    let Some(DeclaredPause::NeedsHuman(question)) = &state.declared else { return Vec::new() };
    let is_open = status == RunStatus::NeedsHuman && state.accepted.is_none();
    let next = is_open.then(|| ending::next_step(status, run, state.limits(run), None));
    let next = next.map(|next| format!("next: {next}"));
    std::iter::once(format!("asks: {}", safe_line(question))).chain(next).collect()
}

/// Whether a run has an open question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsksPerson {
    Yes,
    No,
}

impl AsksPerson {
    pub fn from_question<T>(question: Option<&T>) -> Self {
        if question.is_some() { Self::Yes } else { Self::No }
    }
}
