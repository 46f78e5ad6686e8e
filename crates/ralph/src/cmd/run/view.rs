//! The output of `ralph run`: a screen for a person, JSON lines for a program, or only the result.

use super::args::Run;
use super::json::Lines;
use super::report::First;
use super::screen::{Look, Screen, Signs};
use crate::report::Failure;
use crate::term::{self, Reader};
use crate::wording;
use ralph_core::status::Status;
use ralph_drive::told::{Told, Watcher};
use ralph_sys::clock;
use ralph_sys::env::Env;

/// Where the view prints. A run continues when its output is closed.
pub(super) trait Output {
    fn print(&mut self, text: &str);

    /// Redraws the last `lines` lines.
    fn redraw(&mut self, lines: usize, text: &str);

    fn columns(&self) -> usize;
}

/// Prints to stdout, and draws what is redrawn on stderr.
#[derive(Default)]
pub(super) struct Terminal {
    reader: Option<Reader>,
    failure: Option<Failure>,
}

impl Terminal {
    /// Returns a failed write as an error, after the run has ended.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}

impl Output for Terminal {
    fn print(&mut self, text: &str) {
        if self.reader == Some(Reader::Gone) || self.failure.is_some() {
            return;
        }
        match term::out(text) {
            Ok(reader) => self.reader = Some(reader),
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn redraw(&mut self, lines: usize, text: &str) {
        term::redraw(lines, text);
    }

    fn columns(&self) -> usize {
        term::columns()
    }
}

pub(crate) struct View {
    kind: Kind,
    ended: Option<Status>,
}

enum Kind {
    Screen(Box<Screen<Terminal>>),
    Json(Lines<Terminal>),
}

impl View {
    pub(super) fn new(env: &Env, args: &Run) -> Self {
        let kind = if args.json {
            Kind::Json(Lines::new(Terminal::default(), clock::now_ms))
        } else {
            let look = Look {
                signs: if env.speaks_utf8() { Signs::Unicode } else { Signs::Ascii },
                has_bar: term::is_watched(env) && !args.quiet,
                is_quiet: args.quiet,
                first_line: if term::is_terminal() { First::Wrapped } else { First::Whole },
                now_ms: clock::now_ms,
                when: wording::when,
            };
            Kind::Screen(Box::new(Screen::new(Terminal::default(), look)))
        };
        Self { kind, ended: None }
    }

    /// Prints the rest, and returns the exit code of the run's status.
    pub(super) fn finish(self) -> Result<u8, Failure> {
        let output = match self.kind {
            Kind::Screen(screen) => screen.close(),
            Kind::Json(lines) => lines.close(),
        };
        output.finish()?;
        let hint = "`ralph status` shows its state, `ralph run --resume RUN` continues it";
        let broken = || Failure::new("the run stopped before it had a result", hint);
        self.ended.map(Status::exit_code).ok_or_else(broken)
    }
}

impl Watcher for View {
    fn tell(&mut self, event: &Told) {
        if let Told::Ended(report) = event {
            self.ended = Some(report.status);
        }
        match &mut self.kind {
            Kind::Screen(screen) => screen.tell(event),
            Kind::Json(lines) => lines.tell(event),
        }
    }

    fn tick(&mut self) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.tick();
        }
    }
}
