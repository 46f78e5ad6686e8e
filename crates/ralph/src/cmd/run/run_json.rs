//! The JSON output of a run: one object per line, as documented in `docs/json.md`.

use super::drive_view::DriveOutput;
use crate::cmd::json_line;
use ralph_deck::view::run_events::RunEventLines;
use ralph_drive::run_event::RunEvent;

pub(super) struct RunJsonLines<O> {
    output: O,
    now_ms: fn() -> u64,
    lines: RunEventLines,
}

impl<O: DriveOutput> RunJsonLines<O> {
    pub(super) fn new(output: O, now_ms: fn() -> u64) -> Self {
        Self { output, now_ms, lines: RunEventLines::default() }
    }

    pub(super) fn close(self) -> O {
        self.output
    }

    pub(super) fn on_event(&mut self, event: &RunEvent) {
        if let Some(view) = self.lines.view(event, (self.now_ms)()) {
            self.output.print(&json_line(&view));
        }
    }
}
