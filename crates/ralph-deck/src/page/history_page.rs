//! A page of the history: runs that match a filter, latest first.

use super::board_row::BoardRow;
use crate::json_units;
use crate::run_index::{FilterError, PageKey, RunFilter, RunIndex, RunIndexError};
use serde::Serialize;

/// How many runs a page lists.
pub const HISTORY_PAGE_RUNS: usize = 50;

/// A page of the history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryPage {
    pub v: u8,
    #[serde(rename = "now", serialize_with = "json_units::time")]
    pub now_ms: u64,
    /// The filter as the person typed it.
    pub filter: String,
    pub rows: Vec<BoardRow>,
    /// How many runs match the filter.
    pub total: u64,
    /// The key of the next page; `None` on the last one.
    pub next: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Index(#[from] RunIndexError),
    #[error("`{0}` is not the key of a page")]
    Key(String),
}

impl HistoryPage {
    /// Reads the page after the key, or the first one, from the index as it is.
    pub fn load(
        index: &RunIndex,
        filter: &str,
        before: Option<&str>,
        limit: usize,
        now_ms: u64,
    ) -> Result<Self, HistoryError> {
        Self::load_within(index, None, filter, before, limit, now_ms)
    }

    /// As [`Self::load`], limited to these project directories.
    pub fn load_within(
        index: &RunIndex,
        projects: Option<&[String]>,
        filter: &str,
        before: Option<&str>,
        limit: usize,
        now_ms: u64,
    ) -> Result<Self, HistoryError> {
        let parsed = RunFilter::parse(filter, now_ms)?.within(projects);
        let unknown = |key: &str| HistoryError::Key(ralph_core::text::clean_line(key, 60));
        let key = before.map(|key| PageKey::parse(key).ok_or_else(|| unknown(key))).transpose()?;
        let page = index.ended_page(&parsed, key.as_ref(), limit)?;
        Ok(Self {
            v: 1,
            now_ms,
            filter: ralph_core::text::clean_line(filter, 200),
            rows: page.runs.iter().filter_map(BoardRow::from_index).collect(),
            total: index.count(&parsed)?,
            next: page.next.map(|key| key.to_string()),
        })
    }
}
