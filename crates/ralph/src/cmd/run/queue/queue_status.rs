//! The progress of queues as `ralph status` prints it, and the errors about their names.

use super::super::text_lines::labelled_line;
use super::queue_report;
use crate::failure::CommandFailure;
use crate::term::{self, TextWidth, paint};
use ralph_deck::view::queue_status::{self, QueueStatus};
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_hook::control::ControlError;

const SHOWN_RUNS: usize = 8;
const WIDEST: usize = 100;

/// The queue with this name, if there is one.
pub(crate) fn named_queue(
    home: &RalphHome,
    name: &str,
) -> Result<Option<QueueStatus>, CommandFailure> {
    queue_status::named_queue(home, name).map_err(super::queue_record_failure)
}

/// Its id, its progress, and how to continue it.
pub(crate) fn queue_paragraph(queue: &QueueStatus) -> String {
    let more = format!("`ralph status {}` shows its tasks", queue.id.as_str());
    let next = match queue.next_step() {
        Some(next) => format!("{next}, {more}"),
        None => more,
    };
    format!("{}          {next}\n", queue_head(queue))
}

/// Like [`queue_paragraph`], with every task.
pub(crate) fn render_queue_tasks(queue: &QueueStatus) -> String {
    let width = TextWidth::of_stdout(WIDEST);
    let rows = queue_report::task_rows(&queue.queue, &queue.tasks, width);
    let next = queue.next_step();
    let next = next.map(|next| labelled_line("", &paint(term::DIM, "next"), &next, width));
    format!("{}{rows}{}", queue_head(queue), next.unwrap_or_default())
}

fn queue_head(queue: &QueueStatus) -> String {
    let source = safe_line(&queue.queue.source.to_string_lossy());
    let id = paint(term::BOLD, queue.id.as_str());
    format!("{id}  queue  `{source}`\n          {}\n", queue.progress_text())
}

fn not_a_run_failure(queue: &QueueStatus) -> CommandFailure {
    let id = queue.id.as_str();
    let tasks = queue.queue.tasks.iter().zip(&queue.tasks.tasks);
    let runs: Vec<_> = tasks
        .filter_map(|(task, became)| Some(format!("{} ({})", became.run.as_ref()?, task.name)))
        .collect();
    let shown = runs.get(..SHOWN_RUNS).unwrap_or(&runs).join(", ");
    let what = match runs.len().saturating_sub(SHOWN_RUNS) {
        _ if runs.is_empty() => format!("`{id}` is a queue, and none of its runs has started"),
        0 => format!("`{id}` is a queue, not a run; its runs are {shown}"),
        more => format!("`{id}` is a queue, not a run; its runs are {shown} and {more} more"),
    };
    CommandFailure::new(&what, &format!("name one of them; `ralph status {id}` shows its tasks"))
}

/// Turns the error about an unknown name into a hint, if the name is that of a queue.
pub(crate) fn unknown_name_failure(home: &RalphHome, error: ControlError) -> CommandFailure {
    let ControlError::UnknownName(name) = &error else { return error.into() };
    match named_queue(home, name) {
        Ok(Some(queue)) => not_a_run_failure(&queue),
        Ok(None) => error.into(),
        Err(failure) => failure,
    }
}
