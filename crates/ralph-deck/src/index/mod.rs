//! The index: opens, refreshes and searches it.
//!
//! The index is a cache. A damaged index, or one of another version, is rebuilt. If it cannot be written, or another
//! process holds it for too long, a copy in memory is refreshed and searched instead. Only one process uses it at a
//! time: two that replace a damaged file could otherwise undo each other's changes.

mod find;
mod open;
mod refresh;
mod schema;

use crate::ground::Ground;
use crate::learning;
use crate::record::Kind;
use crate::words::Words;
use ralph_sys::clock::Deadline;
use std::time::Duration;

pub use find::{Hit, Match, Piece, Searched};
pub use open::Kept;
pub use refresh::Coverage;

/// Time limit for refreshing the index; the next search continues where this one stopped.
const READING: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The project and everything below its directory.
    Project,
    Everywhere,
}

/// A query and its filters.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub query: &'a str,
    pub scope: Scope,
    /// Any kind if absent.
    pub kind: Option<Kind>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Best first.
    pub hits: Vec<Hit>,
    pub searched: Searched,
    pub coverage: Coverage,
    pub kept: Kept,
}

/// Not even an index in memory could be searched.
#[derive(Debug, thiserror::Error)]
#[error("cannot search the index")]
pub struct RecallError(#[from] rusqlite::Error);

/// Searches the records.
pub fn search(context: &Ground, query: &Asked<'_>) -> Result<Answer, RecallError> {
    let words = Words::of(query.query);
    let (answer, kept) = open::with(context, |connection| {
        let deadline = Deadline::after(READING);
        let coverage = refresh::refresh(connection, context, (query.scope, &deadline))?;
        let hits = find::hits(connection, context, query, &words)?;
        let searched = find::searched(connection, context, query.scope)?;
        Ok((hits, searched, coverage))
    })?;
    let (hits, searched, coverage) = answer;
    Ok(Answer { hits, searched, coverage, kept })
}

/// Whether a learning of the project exists and a search for the words of its title finds it.
pub fn finds(context: &Ground, id: &str) -> Result<bool, RecallError> {
    let Some(learning) =
        learning::path_of(context, id).and_then(|path| learning::read(context, &path))
    else {
        return Ok(false);
    };
    let words = Words::of(&learning.title);
    let (found, _) = open::with(context, |connection| {
        let deadline = Deadline::after(READING);
        refresh::refresh(connection, context, (Scope::Project, &deadline))?;
        find::leads_to(connection, &words, &learning.path)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
