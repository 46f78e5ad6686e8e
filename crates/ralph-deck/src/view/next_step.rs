//! What a person can do next with a run, in the words of every screen.

use crate::page::{OpenQuestion, open_question};
use crate::standing_wording::approve_command;
use crate::view::denied_tools::allowing_flags;
use ralph_core::approval;
use ralph_core::closed_run::closing_entry;
use ralph_core::ending::{self, ParkedWait};
use ralph_core::record::{JournalEntry, ReportedStatus, RunRecord};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;

/// A command or a sentence; `None` while the run works. `entries` is its journal.
pub fn next_step(
    run: &RunRecord,
    state: &RunState,
    phase: RunPhase,
    entries: &[JournalEntry],
) -> Option<String> {
    let id = &run.id;
    let question = open_question(entries);
    match (phase, &state.driving.parked) {
        (RunPhase::Ended(_), _) if closing_entry(entries).is_some() => {
            Some("nothing; a person closed the run after its end".to_string())
        }
        (RunPhase::Ended(status), _) => Some(ended_step(status, run, state, entries)),
        (RunPhase::Active, _) => question.map(|question| answer_step(run, state, &question)),
        (RunPhase::Paused { .. }, Some(parked)) => {
            let approve = approve_command(id, &approval::first_awaited_name(state.report.as_ref()));
            let wait = match &question {
                Some(OpenQuestion { approval: Some(_), .. }) => ParkedWait::Approval(&approve),
                Some(OpenQuestion { approval: None, .. }) => ParkedWait::Answer,
                None if !state.hints.is_empty() => ParkedWait::Message,
                None => ParkedWait::Other,
            };
            Some(ending::parked_step(parked.status, run, wait, unknown_requirement(state)))
        }
        (RunPhase::Paused { .. }, None) => Some(format!("`ralph resume {id}` continues")),
        (RunPhase::Orphaned, _) if run.drive.is_some() => {
            Some(format!("`ralph run --resume {id}` continues"))
        }
        (RunPhase::Orphaned, _) => Some(format!("`ralph resume {id}` resumes it")),
    }
}

/// How a person answers the question of an active run.
fn answer_step(run: &RunRecord, state: &RunState, question: &OpenQuestion) -> String {
    let id = &run.id;
    if question.approval.is_some() {
        let name = approval::first_awaited_name(state.report.as_ref());
        format!("review it, then run `{}`", approve_command(id, &name))
    } else if run.drive.is_some() {
        format!("answer with `ralph tell {id} \"…\"`")
    } else {
        "answer in the session".to_string()
    }
}

/// The first requirement that had no result at the last stop.
fn unknown_requirement(state: &RunState) -> Option<&str> {
    let lines = state.report.iter().flat_map(|report| &report.lines);
    let mut unknown = lines.filter(|line| line.standing == ReportedStatus::Unknown);
    unknown.next().map(|line| line.name.as_str())
}

/// What to do after the end of a run. A screen that explains the result already does not send its reader to
/// `ralph why`.
fn ended_step(
    status: RunStatus,
    run: &RunRecord,
    state: &RunState,
    entries: &[JournalEntry],
) -> String {
    let id = &run.id;
    let has_start = run.seal.as_ref().is_some_and(|seal| seal.base.is_some());
    if status == RunStatus::Verified && has_start {
        return format!("review the change: `ralph checkpoint diff {id}`");
    }
    if status == RunStatus::Stuck
        && let Some(drive) = &run.drive
        && let Some(denied) = allowing_flags(ralph_host::recorded_host(&drive.agent), entries)
    {
        return format!(
            "`ralph why {id}` shows what it is stuck on; the client did not permit {}, and `{} -- {}` continues with that allowed",
            denied.tools,
            ending::fork_command(id, status),
            denied.flags
        );
    }
    ending::next_step(status, run, state.limits(run), unknown_requirement(state))
}
