//! The output of `ralph run`: a screen for a person, JSON lines for a program, or only the result.

use super::run_args::RunArgs;
use super::run_json::RunJsonLines;
use super::run_screen::{RunScreen, RunScreenOptions, SignSet};
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader, TextWidth};
use ralph_core::status::RunStatus;
use ralph_deck::wording;
use ralph_drive::run_event::{DriveReport, RunEvent, RunWatcher};
use ralph_sys::clock;
use ralph_sys::env::Env;

/// Where the view prints. A run continues when its output is closed.
pub(super) trait DriveOutput {
    fn print(&mut self, text: &str);

    /// Redraws the last `lines` lines.
    fn redraw(&mut self, lines: usize, text: &str);

    fn columns(&self) -> usize;

    /// The width for text that is wrapped, at most `most`.
    fn text_width(&self, most: usize) -> TextWidth;
}

/// Prints to stdout, and draws what is redrawn on stderr.
#[derive(Default)]
pub(super) struct TerminalOutput {
    reader: Option<OutputReader>,
    failure: Option<CommandFailure>,
}

impl TerminalOutput {
    /// Returns a failed write as an error, after the run has ended.
    pub(super) fn finish(self) -> Result<(), CommandFailure> {
        self.failure.map_or(Ok(()), Err)
    }
}

impl DriveOutput for TerminalOutput {
    fn print(&mut self, text: &str) {
        if self.reader == Some(OutputReader::Closed) || self.failure.is_some() {
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

    fn text_width(&self, most: usize) -> TextWidth {
        TextWidth::of_stdout(most)
    }
}

pub(crate) struct DriveView {
    kind: DriveViewKind,
    ended: Option<RunStatus>,
    gates: Vec<String>,
    report: Option<DriveReport>,
}

/// How a run ended.
pub(super) struct RunResult {
    pub report: DriveReport,
    /// The names of its gates.
    pub gates: Vec<String>,
}

enum DriveViewKind {
    Screen(Box<RunScreen<TerminalOutput>>),
    Json(RunJsonLines<TerminalOutput>),
}

impl DriveView {
    pub(super) fn new(env: &Env, args: &RunArgs) -> Self {
        let kind = if args.json {
            DriveViewKind::Json(RunJsonLines::new(TerminalOutput::default(), clock::now_ms))
        } else {
            let look = RunScreenOptions {
                signs: if env.supports_utf8() { SignSet::Unicode } else { SignSet::Ascii },
                has_bar: term::is_watched(env) && !args.quiet,
                is_quiet: args.quiet,
                now_ms: clock::now_ms,
                format_time: wording::local_time,
            };
            DriveViewKind::Screen(Box::new(RunScreen::new(TerminalOutput::default(), look)))
        };
        Self { kind, ended: None, gates: Vec::new(), report: None }
    }

    /// The report of the run, if it has ended.
    pub(super) fn take_result(&mut self) -> Option<RunResult> {
        let report = self.report.take()?;
        Some(RunResult { report, gates: std::mem::take(&mut self.gates) })
    }

    /// Prints the rest, and returns the exit code of the run's status.
    pub(super) fn finish(self) -> Result<u8, CommandFailure> {
        let output = match self.kind {
            DriveViewKind::Screen(screen) => screen.close(),
            DriveViewKind::Json(lines) => lines.close(),
        };
        output.finish()?;
        let hint = "`ralph status` shows its state, `ralph run --resume RUN` continues it";
        let broken = || CommandFailure::new("the run stopped before it had a result", hint);
        self.ended.map(RunStatus::exit_code).ok_or_else(broken)
    }
}

impl RunWatcher for DriveView {
    fn on_event(&mut self, event: &RunEvent) {
        if let RunEvent::Ended(report) = event {
            self.ended = Some(report.status);
            self.report = Some(DriveReport::clone(report));
        }
        if let RunEvent::Prepared { gates, .. } = event {
            self.gates.clone_from(gates);
        }
        match &mut self.kind {
            DriveViewKind::Screen(screen) => screen.on_event(event),
            DriveViewKind::Json(lines) => lines.on_event(event),
        }
    }

    fn tick(&mut self) {
        if let DriveViewKind::Screen(screen) = &mut self.kind {
            screen.tick();
        }
    }
}
