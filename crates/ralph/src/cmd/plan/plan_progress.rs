//! One line on the terminal that says how far the agent or the checks are. It is replaced as the work goes on.

use super::PlanContext;
use crate::term::{self, paint};
use std::sync::{Mutex, PoisonError};

pub(super) struct PlanProgress {
    is_watched: bool,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    count: u32,
    is_shown: bool,
}

impl PlanProgress {
    pub(super) fn new(context: &PlanContext<'_>) -> Self {
        let is_watched = !context.args.json && term::is_watched(context.env);
        Self { is_watched, state: Mutex::default() }
    }

    /// Counts one more and shows the text for the new count.
    pub(super) fn count(&self, describe: impl FnOnce(u32) -> String) {
        if !self.is_watched {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count = state.count.saturating_add(1);
        let line = format!("{} {}\n", paint(term::DIM, "▸"), describe(state.count));
        term::redraw(usize::from(state.is_shown), &line);
        state.is_shown = true;
    }
}

impl Drop for PlanProgress {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.is_shown {
            term::redraw(1, "");
        }
    }
}
