//! The report at the end of a queue: a line for each task, and one for the queue.

use super::super::screen::line_of;
use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::limits::{duration, money};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_drive::queue::{Became, Outcome, Queue, QueueId, Stand, Stopped};

const LONGEST_REASON: usize = 400;

/// 0 only if every task landed. Otherwise 130 if a person ended the queue, or else the exit code of the first task that
/// did not land, in the order of the queue.
pub(super) fn exit_code(outcome: &Outcome) -> u8 {
    if outcome.tasks.iter().all(|task| task.stand == Stand::Done) {
        return 0;
    }
    match outcome.stopped {
        Some(Stopped::Cancelled) => return Status::Cancelled.exit_code(),
        Some(Stopped::OutOfBudget | Stopped::OutOfTime) | None => {}
    }
    let mut parked = outcome.tasks.iter().filter(|task| task.stand == Stand::Parked);
    let first = parked.find_map(|task| task.end.as_ref());
    match first.map(|end| end.status) {
        // Verified but not landed: a person has to look at it.
        Some(Some(Status::Verified)) => Status::NeedsHuman.exit_code(),
        Some(Some(status)) => status.exit_code(),
        Some(None) => crate::FAILURE,
        None => Status::Exhausted.exit_code(),
    }
}

pub(super) fn state(stand: Stand) -> &'static str {
    match stand {
        Stand::Done => "done",
        Stand::Parked => "parked",
        Stand::Blocked(_) => "blocked",
        Stand::Running => "running",
        Stand::Ready | Stand::Waits(_) => "not_started",
    }
}

pub(super) fn stopped(why: Stopped) -> &'static str {
    match why {
        Stopped::Cancelled => "cancelled",
        Stopped::OutOfBudget => "out_of_budget",
        Stopped::OutOfTime => "out_of_time",
    }
}

/// The reason for the state of a task.
pub(super) fn why(queue: &Queue, became: &Became, stopped: Option<Stopped>) -> String {
    let name = |task: usize| queue.tasks.get(task).map_or("?", |task| task.name.as_str());
    match (became.stand, &became.end) {
        (Stand::Done | Stand::Parked, Some(end)) => text::line(&end.why, LONGEST_REASON),
        (Stand::Blocked(by), _) => format!("`{}` has not landed", name(by)),
        (Stand::Waits(by), _) => format!("`{}` comes first", name(by)),
        (Stand::Ready, _) => match stopped {
            Some(Stopped::Cancelled) => "a person ended the queue".to_string(),
            Some(Stopped::OutOfBudget) => "the budget is used up".to_string(),
            Some(Stopped::OutOfTime) => "the time is up".to_string(),
            None => String::new(),
        },
        (Stand::Done | Stand::Parked | Stand::Running, _) => String::new(),
    }
}

/// Renders the table of tasks, and the line that a person can forward.
pub(super) fn told(
    (id, queue): (&QueueId, &Queue),
    outcome: &Outcome,
    elapsed_ms: u64,
    columns: usize,
) -> String {
    let mut out = rows(queue, outcome, columns);
    let all = outcome.tasks.len();
    let done = outcome.tasks.iter().filter(|task| task.stand == Stand::Done).count();
    let (style, word) =
        if done == all { (term::GOOD, "verified") } else { (term::BAD, "not done") };
    let source = queue.source.file_name().unwrap_or_default().to_string_lossy();
    out.push_str(&format!(
        "\n{}: {} — {done} of {all} tasks landed, {}, {}\n",
        paint(style, word),
        safe(&source),
        duration(elapsed_ms),
        money(outcome.spent_micro_usd)
    ));
    if done < all {
        let next = format!("`ralph run --resume {}` continues with what is left", id.as_str());
        out.push_str(&line_of("", &paint(term::DIM, "next"), &next, columns));
    }
    if outcome.tasks.iter().any(|task| task.stand == Stand::Parked && is_over(task)) {
        let next = "a run that has ended is not repeated: change the goal or limits of its task to start another";
        out.push_str(&line_of("", "", next, columns));
    }
    out
}

/// A line for each task, with the reason for its state.
pub(super) fn rows(queue: &Queue, outcome: &Outcome, columns: usize) -> String {
    let mut out = String::new();
    let widest = queue.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).min(40);
    for (task, became) in queue.tasks.iter().zip(&outcome.tasks) {
        let status = became.end.as_ref().and_then(|end| end.status).map(Status::name);
        let (mark, state) = match became.stand {
            Stand::Done => (paint(term::GOOD, "✓"), "landed"),
            Stand::Parked => (paint(term::BAD, "✗"), status.unwrap_or("failed")),
            Stand::Blocked(_) => (paint(term::ODD, "?"), "blocked"),
            Stand::Running => (paint(term::ODD, "▸"), "running"),
            Stand::Ready | Stand::Waits(_) => (paint(term::DIM, "·"), "not started"),
        };
        let run = became.run.as_ref().map_or("", |run| run.as_str());
        let spent = money(became.spent_micro_usd);
        let head = format!("{mark} {:widest$}  {run:<4}  {state:<12} {spent:>7}", task.name);
        let why = safe(&why(queue, became, outcome.stopped));
        out.push_str(head.trim_end());
        if !why.is_empty() && became.stand != Stand::Done {
            out.push('\n');
            out.push_str(&line_of("", "", &why, columns));
        } else {
            out.push('\n');
        }
    }
    out
}

/// Whether a decision about the work ended the run. A run that was parked for another reason can be continued.
fn is_over(task: &Became) -> bool {
    match task.end.as_ref().and_then(|end| end.status) {
        Some(
            Status::Exhausted
            | Status::Stuck
            | Status::Claimed
            | Status::NeedsReview
            | Status::GateBroken,
        ) => true,
        Some(
            Status::Verified
            | Status::NeedsHuman
            | Status::RateLimited
            | Status::Cancelled
            | Status::Overridden
            | Status::Crashed,
        )
        | None => false,
    }
}
