//! Builds a finding from the several lines that describe one failing test or one stack trace.

use super::source_location::{self, RawLocation};
use super::{FindingCollector, FindingDraft, ReportContext, project_file};
use ralph_core::requirement::FindingSeverity;

/// Enough for the message of a finding, which is cut later.
const MAX_MESSAGE_BYTES: usize = 1_200;
/// A longer block is something else, and is closed.
const MAX_BLOCK_LINES: u32 = 2_000;

#[derive(Debug, Default)]
pub(super) struct FailureBlock {
    pub(super) rule: String,
    pub(super) message: String,
    location: Option<BlockLocation>,
    lines: u32,
}

#[derive(Debug)]
struct BlockLocation {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    is_in_project: bool,
}

/// Which location in a trace is that of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocationPreference {
    First,
    Last,
}

impl FailureBlock {
    pub(super) fn new(rule: &str) -> Self {
        Self { rule: rule.trim().to_owned(), ..Self::default() }
    }

    pub(super) fn add_message(&mut self, line: &str) {
        if self.message.len() < MAX_MESSAGE_BYTES {
            if !self.message.is_empty() {
                self.message.push(' ');
            }
            self.message.push_str(line.trim());
        }
    }

    /// Uses the location on a line, if there is one. A location in the project takes precedence over others.
    pub(super) fn find_location(
        &mut self,
        line: &str,
        prefer: LocationPreference,
        context: &ReportContext<'_>,
    ) {
        if let Some(located) = source_location::first_location(line) {
            self.offer_location(located.location, prefer, context);
        }
    }

    pub(super) fn offer_location(
        &mut self,
        spot: RawLocation<'_>,
        prefer: LocationPreference,
        context: &ReportContext<'_>,
    ) {
        let is_own = project_file::is_project_file(spot.file, context);
        let is_better = self.location.as_ref().is_none_or(|seen| match prefer {
            LocationPreference::First => is_own && (!seen.is_in_project || seen.line.is_none()),
            LocationPreference::Last => is_own || !seen.is_in_project,
        });
        if is_better {
            self.location = Some(BlockLocation {
                file: spot.file.to_owned(),
                line: spot.line,
                column: spot.column,
                is_in_project: is_own,
            });
        }
    }

    pub(super) fn has_location(&self) -> bool {
        self.location.is_some()
    }

    /// Counts a line, and returns whether the block has become too long to be a failure.
    pub(super) fn is_too_long(&mut self) -> bool {
        self.lines = self.lines.saturating_add(1);
        self.lines > MAX_BLOCK_LINES
    }

    pub(super) fn emit(self, found: &mut FindingCollector<'_>) {
        found.add(&FindingDraft {
            location: self.location(),
            rule: &self.rule,
            message: &self.message,
            severity: FindingSeverity::Error,
        });
    }

    pub(super) fn location(&self) -> Option<RawLocation<'_>> {
        self.location.as_ref().map(|seen| RawLocation {
            file: &seen.file,
            line: seen.line,
            column: seen.column,
        })
    }
}

/// Whether a reader recognised a line. If so, the other readers do not get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineMatch {
    Recognised,
    Unrecognised,
}
