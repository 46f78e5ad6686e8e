//! The report at the end of a queue: a line for each task, and one for the queue.

use super::super::text_lines::labelled_line;
use super::task_process::LONGEST_REASON;
use crate::term::{self, TextWidth, paint};
use ralph_core::gate::shell_quote;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::units::{format_duration, format_usd};
use ralph_deck::view::queue_status::{is_final, reason_text};
use ralph_deck::wording::safe_line;
use ralph_drive::issues::IssueQueue;
use ralph_drive::queue::{
    QueueId, QueueOutcome, QueueStopReason, QueueTaskOutcome, QueueTaskState, TaskQueue,
};

/// Renders the table of tasks, and the line that a person can forward.
pub(super) fn render_queue_report(
    (id, queue): (&QueueId, &TaskQueue),
    outcome: &QueueOutcome,
    elapsed_ms: u64,
    width: TextWidth,
) -> String {
    let mut out = task_rows(queue, outcome, width);
    let all = outcome.tasks.len();
    let done = outcome.tasks.iter().filter(|task| task.state == QueueTaskState::Done).count();
    let (style, word) = match done == all {
        true if outcome.tasks.iter().any(is_landed_green) => (term::WARN, RunStatus::Green.name()),
        true => (term::GOOD, RunStatus::Verified.name()),
        false => (term::BAD, "not done"),
    };
    let whole = queue.source.to_string_lossy();
    let is_of_issues = IssueQueue::parse(&whole).is_some();
    let source = match queue.source.file_name() {
        Some(name) if !is_of_issues => name.to_string_lossy(),
        Some(_) | None => whole,
    };
    out.push_str(&format!(
        "\n{}: {} — {done} of {all} tasks landed, {}, {}\n",
        paint(style, word),
        safe_line(&source),
        format_duration(elapsed_ms),
        format_usd(outcome.spent_micro_usd)
    ));
    if done < all {
        let next = match outcome.stopped {
            // `--resume` keeps the budget.
            Some(QueueStopReason::OutOfBudget { .. }) => {
                let source = shell_quote(&safe_line(&queue.source.to_string_lossy()));
                format!(
                    "`ralph run --queue {source} --max-cost USD` continues with a larger budget"
                )
            }
            Some(QueueStopReason::Cancelled | QueueStopReason::OutOfTime) | None => {
                format!("`ralph run --resume {}` continues with what is left", id.as_str())
            }
        };
        out.push_str(&labelled_line("", &paint(term::DIM, "next"), &next, width));
    }
    if outcome.tasks.iter().any(|task| task.state == QueueTaskState::Parked && is_final(task)) {
        let change = if is_of_issues { "text of its issue" } else { "goal or limits of its task" };
        let next =
            format!("a run that has ended is not repeated: change the {change} to start another");
        out.push_str(&labelled_line("", "", &next, width));
    }
    out
}

/// Whether the task landed although its proof only shows that nothing broke.
fn is_landed_green(task: &QueueTaskOutcome) -> bool {
    let status = task.end.as_ref().and_then(|end| end.status);
    task.state == QueueTaskState::Done && status == Some(RunStatus::Green)
}

/// A line for each task, with the reason for its state.
pub(super) fn task_rows(queue: &TaskQueue, outcome: &QueueOutcome, width: TextWidth) -> String {
    let mut out = String::new();
    let widest = queue.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).min(40);
    for (task, became) in queue.tasks.iter().zip(&outcome.tasks) {
        let status = became.end.as_ref().and_then(|end| end.status).map(RunStatus::name);
        let (mark, state) = match became.state {
            QueueTaskState::Done if is_landed_green(became) => {
                (paint(term::WARN, "✓"), "landed green")
            }
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
        let why = text::clean_line(&reason_text(queue, became, outcome.stopped), LONGEST_REASON);
        out.push_str(head.trim_end());
        if !why.is_empty() && became.state != QueueTaskState::Done {
            out.push('\n');
            out.push_str(&labelled_line("", "", &why, width));
        } else {
            out.push('\n');
        }
    }
    out
}
