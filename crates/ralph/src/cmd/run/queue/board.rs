//! The output of a queue: a screen for a person, or JSON lines for a program.

use super::super::args::Run;
use super::super::screen::Signs;
use super::super::view::Terminal;
use super::json::Lines;
use super::screen::{Look, Screen};
use crate::report::Failure;
use crate::term;
use ralph_drive::queue::{
    Board, End, Heard, Known, Order, Outcome, Purse, Queue, QueueId, Schedule,
};
use ralph_sys::clock;
use ralph_sys::env::Env;

pub(super) enum Shown<'a> {
    Screen(Box<Screen<'a, Terminal>>),
    Json(Box<Lines<'a, Terminal>>),
}

impl<'a> Shown<'a> {
    pub(super) fn new(env: &Env, args: &Run, (id, queue): (&'a QueueId, &'a Queue)) -> Self {
        if args.json {
            let lines = Lines::new(Terminal::default(), (id, queue), clock::now_ms);
            return Self::Json(Box::new(lines));
        }
        let look = Look {
            signs: if env.speaks_utf8() { Signs::Unicode } else { Signs::Ascii },
            is_live: term::is_watched(env) && !args.quiet,
            is_quiet: args.quiet,
            now_ms: clock::now_ms,
        };
        Self::Screen(Box::new(Screen::new(Terminal::default(), (id, queue), look)))
    }

    pub(super) fn opened(&mut self, known: &[Known]) {
        match self {
            Self::Screen(screen) => screen.opened(known),
            Self::Json(lines) => lines.opened(known),
        }
    }

    pub(super) fn finish(self, outcome: &Outcome) -> Result<(), Failure> {
        match self {
            Self::Screen(screen) => screen.close(outcome).finish(),
            Self::Json(lines) => lines.close(outcome).finish(),
        }
    }
}

impl Board for Shown<'_> {
    fn started(&mut self, task: usize, how: &Order) {
        match self {
            Self::Screen(screen) => screen.started(task, how),
            Self::Json(lines) => lines.started(task, how),
        }
    }

    fn heard(&mut self, task: usize, heard: &Heard) {
        match self {
            Self::Screen(screen) => screen.heard(task, heard),
            Self::Json(lines) => lines.heard(task, heard),
        }
    }

    fn ended(&mut self, task: usize, end: &End) {
        match self {
            Self::Screen(screen) => screen.ended(task, end),
            Self::Json(lines) => lines.ended(task, end),
        }
    }

    fn tick(&mut self, schedule: &Schedule, purse: &Purse) {
        match self {
            Self::Screen(screen) => screen.tick(schedule, purse),
            Self::Json(_) => {}
        }
    }
}
