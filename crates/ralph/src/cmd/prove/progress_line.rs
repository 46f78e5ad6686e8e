//! Shows how far a proof is.

use super::hunk_lines;
use crate::term::{self, paint};
use ralph_proof::{HunkProgress, ProofProgress, TestProgress};
use std::sync::{Mutex, PoisonError};

/// A line when a step starts, for people only. On a terminal, one more line counts the tests of the step that is ahead.
pub(super) struct ProgressLine {
    is_json: bool,
    is_watched: bool,
    /// Whether the last line shows the count.
    shows_count: Mutex<bool>,
}

impl ProgressLine {
    pub(super) fn new(is_json: bool, is_watched: bool) -> Self {
        Self { is_json, is_watched, shows_count: Mutex::new(false) }
    }

    pub(super) fn show(&self, progress: ProofProgress) {
        if self.is_json || progress.has_ended || progress.tests.is_some() && !self.is_watched {
            return;
        }
        match progress.tests {
            None => self.print(progress.step.describe(), false),
            Some(TestProgress { done, of }) => {
                self.print(&progress.step.describe_progress(Some(done), of), true);
            }
        }
    }

    pub(super) fn show_hunk(&self, HunkProgress { number, of, hunk }: HunkProgress<'_>) {
        if !self.is_json {
            let at = hunk_lines::hunk_location(hunk);
            self.print(&format!("without hunk {number} of {of}: {at}"), self.is_watched);
        }
    }

    /// The next line replaces one that is only temporary.
    fn print(&self, text: &str, is_temporary: bool) {
        let mut shows_count = self.shows_count.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{} {text}\n", paint(term::DIM, "▸"));
        if *shows_count {
            term::redraw(1, &line);
        } else {
            term::err(&line);
        }
        *shows_count = is_temporary;
    }

    pub(super) fn clear(&self) {
        let mut shows_count = self.shows_count.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shows_count) {
            term::redraw(1, "");
        }
    }
}
