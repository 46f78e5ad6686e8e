//! Builds a finding from the several lines that describe one failing test or one stack trace.

use super::locate::{self, Spot};
use super::{Context, Draft, Found, place};
use ralph_core::requirement::Severity;

/// Enough for the message of a finding, which is cut later.
const ENOUGH: usize = 1_200;
/// A longer block is something else, and is closed.
const MOST_LINES: u32 = 2_000;

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) rule: String,
    pub(super) message: String,
    place: Option<Seen>,
    lines: u32,
}

#[derive(Debug)]
struct Seen {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    is_own: bool,
}

/// Which location in a trace is that of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefer {
    First,
    Last,
}

impl Block {
    pub(super) fn open(rule: &str) -> Self {
        Self { rule: rule.trim().to_owned(), ..Self::default() }
    }

    pub(super) fn say(&mut self, line: &str) {
        if self.message.len() < ENOUGH {
            if !self.message.is_empty() {
                self.message.push(' ');
            }
            self.message.push_str(line.trim());
        }
    }

    /// Uses the location on a line, if there is one. A location in the project takes precedence over others.
    pub(super) fn look(&mut self, line: &str, prefer: Prefer, context: &Context<'_>) {
        if let Some(located) = locate::first(line) {
            self.see(located.spot, prefer, context);
        }
    }

    pub(super) fn see(&mut self, spot: Spot<'_>, prefer: Prefer, context: &Context<'_>) {
        let is_own = place::is_own(spot.file, context);
        let is_better = self.place.as_ref().is_none_or(|seen| match prefer {
            Prefer::First => is_own && (!seen.is_own || seen.line.is_none()),
            Prefer::Last => is_own || !seen.is_own,
        });
        if is_better {
            self.place = Some(Seen {
                file: spot.file.to_owned(),
                line: spot.line,
                column: spot.column,
                is_own,
            });
        }
    }

    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// Counts a line, and returns whether the block has become too long to be a failure.
    pub(super) fn is_endless(&mut self) -> bool {
        self.lines = self.lines.saturating_add(1);
        self.lines > MOST_LINES
    }

    pub(super) fn close(self, found: &mut Found<'_>) {
        found.add(&Draft {
            spot: self.spot(),
            rule: &self.rule,
            message: &self.message,
            severity: Severity::Error,
        });
    }

    pub(super) fn spot(&self) -> Option<Spot<'_>> {
        self.place.as_ref().map(|seen| Spot {
            file: &seen.file,
            line: seen.line,
            column: seen.column,
        })
    }
}

/// Whether a reader recognised a line. If so, the other readers do not get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Mine,
    Other,
}
