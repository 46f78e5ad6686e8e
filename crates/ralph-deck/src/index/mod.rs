//! The index: opens, refreshes and searches it.
//!
//! The index is a cache. A damaged index, or one of another version, is rebuilt. If it cannot be written, or another
//! process holds it for too long, a copy in memory is refreshed and searched instead. Only one process uses it at a
//! time: two that replace a damaged file could otherwise undo each other's changes.

mod index_file;
mod queries;
mod refresh;
mod schema;

use crate::learning;
use crate::query_words::QueryWords;
use crate::recall_context::RecallContext;
use crate::recall_record::RecallKind;
use ralph_sys::clock::Deadline;
use std::time::Duration;

pub use index_file::IndexStorage;
pub use queries::{MatchExtent, RecallHit, SearchedCounts, TextPiece};
pub use refresh::IndexCoverage;

/// Time limit for refreshing the index; the next search continues where this one stopped.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallScope {
    /// The project and everything below its directory.
    Project,
    Everywhere,
}

/// A query and its filters.
#[derive(Clone, Debug)]
pub struct RecallQuery<'a> {
    pub text: &'a str,
    pub scope: RecallScope,
    /// Any kind if absent.
    pub kind: Option<RecallKind>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecallAnswer {
    /// Best first.
    pub hits: Vec<RecallHit>,
    pub searched: SearchedCounts,
    pub coverage: IndexCoverage,
    pub storage: IndexStorage,
}

/// Not even an index in memory could be searched.
#[derive(Debug, thiserror::Error)]
#[error("cannot search the index")]
pub struct RecallError(#[from] rusqlite::Error);

/// Searches the records.
pub fn search(
    context: &RecallContext,
    query: &RecallQuery<'_>,
) -> Result<RecallAnswer, RecallError> {
    let words = QueryWords::from_query(query.text);
    let (answer, kept) = index_file::with_index(context, |connection| {
        let deadline = Deadline::after(REFRESH_TIMEOUT);
        let coverage = refresh::refresh_index(connection, context, (query.scope, &deadline))?;
        let hits = queries::find_hits(connection, context, query, &words)?;
        let searched = queries::count_searched(connection, context, query.scope)?;
        Ok((hits, searched, coverage))
    })?;
    let (hits, searched, coverage) = answer;
    Ok(RecallAnswer { hits, searched, coverage, storage: kept })
}

/// Whether a learning of the project exists and a search for the words of its title finds it.
pub fn finds_learning(context: &RecallContext, id: &str) -> Result<bool, RecallError> {
    let Some(learning) = learning::learning_path(context, id)
        .and_then(|path| learning::read_learning(context, &path))
    else {
        return Ok(false);
    };
    let words = QueryWords::from_query(&learning.title);
    let (found, _) = index_file::with_index(context, |connection| {
        let deadline = Deadline::after(REFRESH_TIMEOUT);
        refresh::refresh_index(connection, context, (RecallScope::Project, &deadline))?;
        queries::finds_path(connection, &words, &learning.path)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
