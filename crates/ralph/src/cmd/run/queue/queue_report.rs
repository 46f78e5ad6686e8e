//! The report at the end of a queue: a line for each task, and one for the queue.

use super::super::run_screen::labelled_line;
use crate::describe::safe_line;
use crate::term::{self, paint};
use ralph_core::limits::{format_duration, format_usd};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_drive::queue::{
    QueueId, QueueOutcome, QueueStopReason, QueueTaskOutcome, QueueTaskState, TaskQueue,
};

const LONGEST_REASON: usize = 400;

/// 0 only if every task landed. Otherwise 130 if a person ended the queue, or else the exit code of the first task that
/// did not land, in the order of the queue.
pub(super) fn exit_code(outcome: &QueueOutcome) -> u8 {
    if outcome.tasks.iter().all(|task| task.state == QueueTaskState::Done) {
        return 0;
    }
    match outcome.stopped {
        Some(QueueStopReason::Cancelled) => return RunStatus::Cancelled.exit_code(),
        Some(QueueStopReason::OutOfBudget | QueueStopReason::OutOfTime) | None => {}
    }
    let mut parked = outcome.tasks.iter().filter(|task| task.state == QueueTaskState::Parked);
    let first = parked.find_map(|task| task.end.as_ref());
    match first.map(|end| end.status) {
        // Verified but not landed: a person has to look at it.
        Some(Some(RunStatus::Verified)) => RunStatus::NeedsHuman.exit_code(),
        Some(Some(status)) => status.exit_code(),
        Some(None) => crate::FAILURE,
        None => RunStatus::Exhausted.exit_code(),
    }
}

pub(super) fn state_name(stand: QueueTaskState) -> &'static str {
    match stand {
        QueueTaskState::Done => "done",
        QueueTaskState::Parked => "parked",
        QueueTaskState::Blocked(_) => "blocked",
        QueueTaskState::Running => "running",
        QueueTaskState::Ready | QueueTaskState::Waits(_) => "not_started",
    }
}

pub(super) fn stop_name(why: QueueStopReason) -> &'static str {
    match why {
        QueueStopReason::Cancelled => "cancelled",
        QueueStopReason::OutOfBudget => "out_of_budget",
        QueueStopReason::OutOfTime => "out_of_time",
    }
}

/// The reason for the state of a task.
pub(super) fn reason_text(
    queue: &TaskQueue,
    became: &QueueTaskOutcome,
    stopped: Option<QueueStopReason>,
) -> String {
    let name = |task: usize| queue.tasks.get(task).map_or("?", |task| task.name.as_str());
    match (became.state, &became.end) {
        (QueueTaskState::Done | QueueTaskState::Parked, Some(end)) => {
            text::clean_line(&end.why, LONGEST_REASON)
        }
        (QueueTaskState::Blocked(by), _) => format!("`{}` has not landed", name(by)),
        (QueueTaskState::Waits(by), _) => format!("`{}` comes first", name(by)),
        (QueueTaskState::Ready, _) => match stopped {
            Some(QueueStopReason::Cancelled) => "a person ended the queue".to_string(),
            Some(QueueStopReason::OutOfBudget) => "the budget is used up".to_string(),
            Some(QueueStopReason::OutOfTime) => "the time is up".to_string(),
            None => String::new(),
        },
        (QueueTaskState::Done | QueueTaskState::Parked | QueueTaskState::Running, _) => {
            String::new()
        }
    }
}

/// Renders the table of tasks, and the line that a person can forward.
pub(super) fn render_queue_report(
    (id, queue): (&QueueId, &TaskQueue),
    outcome: &QueueOutcome,
    elapsed_ms: u64,
    columns: usize,
) -> String {
    let mut out = task_rows(queue, outcome, columns);
    let all = outcome.tasks.len();
    let done = outcome.tasks.iter().filter(|task| task.state == QueueTaskState::Done).count();
    let (style, word) =
        if done == all { (term::GOOD, "verified") } else { (term::BAD, "not done") };
    let source = queue.source.file_name().unwrap_or_default().to_string_lossy();
    out.push_str(&format!(
        "\n{}: {} — {done} of {all} tasks landed, {}, {}\n",
        paint(style, word),
        safe_line(&source),
        format_duration(elapsed_ms),
        format_usd(outcome.spent_micro_usd)
    ));
    if done < all {
        let next = format!("`ralph run --resume {}` continues with what is left", id.as_str());
        out.push_str(&labelled_line("", &paint(term::DIM, "next"), &next, columns));
    }
    if outcome.tasks.iter().any(|task| task.state == QueueTaskState::Parked && is_final(task)) {
        let next = "a run that has ended is not repeated: change the goal or limits of its task to start another";
        out.push_str(&labelled_line("", "", next, columns));
    }
    out
}

/// A line for each task, with the reason for its state.
pub(super) fn task_rows(queue: &TaskQueue, outcome: &QueueOutcome, columns: usize) -> String {
    let mut out = String::new();
    let widest = queue.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).min(40);
    for (task, became) in queue.tasks.iter().zip(&outcome.tasks) {
        let status = became.end.as_ref().and_then(|end| end.status).map(RunStatus::name);
        let (mark, state) = match became.state {
            QueueTaskState::Done => (paint(term::GOOD, "✓"), "landed"),
            QueueTaskState::Parked => (paint(term::BAD, "✗"), status.unwrap_or("failed")),
            QueueTaskState::Blocked(_) => (paint(term::WARN, "?"), "blocked"),
            QueueTaskState::Running => (paint(term::WARN, "▸"), "running"),
            QueueTaskState::Ready | QueueTaskState::Waits(_) => {
                (paint(term::DIM, "·"), "not started")
            }
        };
        let run = became.run.as_ref().map_or("", |run| run.as_str());
        let spent = format_usd(became.spent_micro_usd);
        let head = format!("{mark} {:widest$}  {run:<4}  {state:<12} {spent:>7}", task.name);
        let why = safe_line(&reason_text(queue, became, outcome.stopped));
        out.push_str(head.trim_end());
        if !why.is_empty() && became.state != QueueTaskState::Done {
            out.push('\n');
            out.push_str(&labelled_line("", "", &why, columns));
        } else {
            out.push('\n');
        }
    }
    out
}

/// Whether a decision about the work ended the run. A run that was parked for another reason can be continued.
fn is_final(task: &QueueTaskOutcome) -> bool {
    match task.end.as_ref().and_then(|end| end.status) {
        Some(
            RunStatus::Exhausted
            | RunStatus::Stuck
            | RunStatus::Claimed
            | RunStatus::NeedsReview
            | RunStatus::GateBroken,
        ) => true,
        Some(
            RunStatus::Verified
            | RunStatus::NeedsHuman
            | RunStatus::RateLimited
            | RunStatus::Cancelled
            | RunStatus::Overridden
            | RunStatus::Crashed,
        )
        | None => false,
    }
}
