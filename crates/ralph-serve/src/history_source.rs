//! Reads the history from the index of runs.

use crate::server_state::ServerState;
use ralph_deck::page::{HISTORY_PAGE_RUNS, HistoryError, HistoryPage};
use ralph_deck::run_index::{FilterError, RunIndex};
use ralph_sys::clock::{self, Deadline};
use std::time::Duration;

/// How long a page waits for new journal lines to be indexed. What is missing then comes with the next page.
pub(crate) const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST_FILTER: usize = 300;

/// What a filter finds.
#[derive(Debug)]
pub(crate) enum HistoryAnswer {
    Found(Box<HistoryPage>),
    /// A part of the filter has no meaning.
    Mistake {
        filter: String,
        error: FilterError,
    },
}

/// The index with everything that was appended until now.
pub(crate) fn open_index(state: &ServerState) -> Option<RunIndex> {
    let opened = RunIndex::open_refreshed(&state.home, &Deadline::after(REFRESH_TIMEOUT));
    opened.ok().map(|(index, _)| index)
}

/// The runs of a filter, latest first. `None` if the index or the key of the page cannot be read.
pub(crate) fn load_history(
    state: &ServerState,
    filter: &str,
    before: Option<&str>,
) -> Option<HistoryAnswer> {
    let filter = ralph_core::text::clean_line(filter, LONGEST_FILTER);
    let index = open_index(state)?;
    let page = HistoryPage::load(&index, &filter, before, HISTORY_PAGE_RUNS, clock::now_ms());
    match page {
        Ok(page) => Some(HistoryAnswer::Found(Box::new(page))),
        Err(HistoryError::Filter(error)) => Some(HistoryAnswer::Mistake { filter, error }),
        Err(HistoryError::Index(_) | HistoryError::Key(_)) => None,
    }
}
