//! The JSON output of a queue: the events of its runs, each with its task, and the events of the queue itself.

use super::super::drive_view::DriveOutput;
use crate::cmd::json_line;
use ralph_deck::view::queue_events::{QueueEventLines, QueueEventView};
use ralph_drive::queue::{
    KnownQueueTask, QueueId, QueueOutcome, QueueTaskEnd, QueueTaskOrder, QueueTaskOutput, TaskQueue,
};

pub(super) struct QueueJsonLines<'a, O> {
    output: O,
    lines: QueueEventLines<'a>,
    now_ms: fn() -> u64,
}

impl<'a, O: DriveOutput> QueueJsonLines<'a, O> {
    pub(super) fn new(
        output: O,
        (id, queue): (&'a QueueId, &'a TaskQueue),
        now_ms: fn() -> u64,
    ) -> Self {
        Self { output, lines: QueueEventLines { id, queue }, now_ms }
    }

    pub(super) fn opened(&mut self, known: &[KnownQueueTask]) {
        let view = self.lines.opened(known, (self.now_ms)());
        self.print_line(&view);
    }

    pub(super) fn started(&mut self, task: usize, how: &QueueTaskOrder) {
        let view = self.lines.started(task, how, (self.now_ms)());
        self.print_line(&view);
    }

    pub(super) fn on_run_event(&mut self, task: usize, heard: &QueueTaskOutput) {
        if let Some(line) = self.lines.run_line(task, &heard.line) {
            self.output.print(&(line + "\n"));
        }
    }

    pub(super) fn ended(&mut self, task: usize, end: &QueueTaskEnd) {
        let view = self.lines.ended(task, end, (self.now_ms)());
        self.print_line(&view);
    }

    pub(super) fn close(mut self, outcome: &QueueOutcome) -> O {
        let view = self.lines.closed(outcome, (self.now_ms)());
        self.print_line(&view);
        self.output
    }

    fn print_line(&mut self, view: &QueueEventView<'_>) {
        self.output.print(&json_line(view));
    }
}
