//! The output of a queue: a screen for a person, or JSON lines for a program.

use super::super::drive_view::TerminalOutput;
use super::super::run_args::RunArgs;
use super::super::run_screen::SignSet;
use super::queue_json::QueueJsonLines;
use super::queue_screen::{QueueScreen, QueueScreenOptions};
use crate::failure::CommandFailure;
use crate::term;
use ralph_drive::queue::{
    KnownQueueTask, QueueBudget, QueueId, QueueOutcome, QueueTaskEnd, QueueTaskOrder,
    QueueTaskOutput, QueueWatcher, TaskQueue, TaskSchedule,
};
use ralph_sys::clock;
use ralph_sys::env::Env;

pub(super) enum QueueView<'a> {
    Screen(Box<QueueScreen<'a, TerminalOutput>>),
    Json(Box<QueueJsonLines<'a, TerminalOutput>>),
}

impl<'a> QueueView<'a> {
    pub(super) fn new(
        env: &Env,
        args: &RunArgs,
        (id, queue): (&'a QueueId, &'a TaskQueue),
    ) -> Self {
        if args.json {
            let lines = QueueJsonLines::new(TerminalOutput::default(), (id, queue), clock::now_ms);
            return Self::Json(Box::new(lines));
        }
        let look = QueueScreenOptions {
            signs: if env.supports_utf8() { SignSet::Unicode } else { SignSet::Ascii },
            is_live: term::is_watched(env) && !args.quiet,
            is_quiet: args.quiet,
            now_ms: clock::now_ms,
        };
        Self::Screen(Box::new(QueueScreen::new(TerminalOutput::default(), (id, queue), look)))
    }

    pub(super) fn opened(&mut self, known: &[KnownQueueTask]) {
        match self {
            Self::Screen(screen) => screen.opened(known),
            Self::Json(lines) => lines.opened(known),
        }
    }

    pub(super) fn finish(self, outcome: &QueueOutcome) -> Result<(), CommandFailure> {
        match self {
            Self::Screen(screen) => screen.close(outcome).finish(),
            Self::Json(lines) => lines.close(outcome).finish(),
        }
    }
}

impl QueueWatcher for QueueView<'_> {
    fn started(&mut self, task: usize, how: &QueueTaskOrder) {
        match self {
            Self::Screen(screen) => screen.started(task, how),
            Self::Json(lines) => lines.started(task, how),
        }
    }

    fn output(&mut self, task: usize, heard: &QueueTaskOutput) {
        match self {
            Self::Screen(screen) => screen.on_run_event(task, heard),
            Self::Json(lines) => lines.on_run_event(task, heard),
        }
    }

    fn ended(&mut self, task: usize, end: &QueueTaskEnd) {
        match self {
            Self::Screen(screen) => screen.ended(task, end),
            Self::Json(lines) => lines.ended(task, end),
        }
    }

    fn tick(&mut self, schedule: &TaskSchedule, purse: &QueueBudget) {
        match self {
            Self::Screen(screen) => screen.tick(schedule, purse),
            Self::Json(_) => {}
        }
    }
}
