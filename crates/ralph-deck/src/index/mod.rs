//! The index: opens, refreshes and searches it.
//!
//! The index is a cache. A damaged index, or one of another version, is rebuilt. If it cannot be written, or another
//! process holds it for too long, a copy in memory is refreshed and searched instead. Only one process uses it at a
//! time: two that replace a damaged file could otherwise undo each other's changes.

mod queries;
mod refresh;
mod schema;

use crate::index_file::{IndexFile, IndexStorage, IndexedWork};
use crate::learning;
use crate::query_words::QueryWords;
use crate::recall_context::RecallContext;
use crate::recall_record::RecallKind;
use ralph_sys::clock::Deadline;
use std::time::Duration;

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
    let IndexedWork { done, storage, .. } = recall_index(context).with_index(|connection| {
        let deadline = Deadline::after(REFRESH_TIMEOUT);
        let coverage = refresh::refresh_index(connection, context, (query.scope, &deadline))?;
        let hits = queries::find_hits(connection, context, query, &words)?;
        let searched = queries::count_searched(connection, context, query.scope)?;
        Ok((hits, searched, coverage))
    })?;
    let (hits, searched, coverage) = done;
    Ok(RecallAnswer { hits, searched, coverage, storage })
}

fn recall_index(context: &RecallContext) -> IndexFile {
    let (path, lock) = (context.home.recall_index(), context.home.recall_lock());
    IndexFile { path, lock, layout: &schema::RECALL_LAYOUT }
}

/// Whether a learning of the project exists and a search for the words of its title finds it.
pub fn finds_learning(context: &RecallContext, id: &str) -> Result<bool, RecallError> {
    let Some(learning) = learning::learning_path(context, id)
        .and_then(|path| learning::read_learning(context, &path))
    else {
        return Ok(false);
    };
    let words = QueryWords::from_query(&learning.title);
    let found = recall_index(context).with_index(|connection| {
        let deadline = Deadline::after(REFRESH_TIMEOUT);
        refresh::refresh_index(connection, context, (RecallScope::Project, &deadline))?;
        queries::finds_path(connection, &words, &learning.path)
    })?;
    Ok(found.done)
}

#[cfg(test)]
mod tests;
