//! The index: opened, brought up to date, searched.
//!
//! It is a cache. What is damaged or of another version is made anew; what cannot be written, or is in somebody
//! else's hands for too long, is copied into memory and brought up to date there. One process has it at a time: two
//! that replace a damaged file would otherwise roll back each other's changes.

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

/// What takes longer to read than this is read on at the next question.
const READING: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The project, and what is below its directory.
    Project,
    Everywhere,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub query: &'a str,
    pub scope: Scope,
    /// Any, when absent.
    pub kind: Option<Kind>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The best first.
    pub hits: Vec<Hit>,
    pub searched: Searched,
    pub coverage: Coverage,
    pub kept: Kept,
}

/// Not even memory could hold it.
#[derive(Debug, thiserror::Error)]
#[error("cannot search what is on record")]
pub struct RecallError(#[from] rusqlite::Error);

/// What is on record about a question.
pub fn search(ground: &Ground, asked: &Asked<'_>) -> Result<Answer, RecallError> {
    let words = Words::of(asked.query);
    let (answer, kept) = open::with(ground, |connection| {
        let deadline = Deadline::after(READING);
        let coverage = refresh::refresh(connection, ground, (asked.scope, &deadline))?;
        let hits = find::hits(connection, ground, asked, &words)?;
        let searched = find::searched(connection, ground, asked.scope)?;
        Ok((hits, searched, coverage))
    })?;
    let (hits, searched, coverage) = answer;
    Ok(Answer { hits, searched, coverage, kept })
}

/// Whether a learning of the project is there, and a question with the words of its title leads to it.
pub fn finds(ground: &Ground, id: &str) -> Result<bool, RecallError> {
    let Some(learning) =
        learning::path_of(ground, id).and_then(|path| learning::read(ground, &path))
    else {
        return Ok(false);
    };
    let words = Words::of(&learning.title);
    let (found, _) = open::with(ground, |connection| {
        let deadline = Deadline::after(READING);
        refresh::refresh(connection, ground, (Scope::Project, &deadline))?;
        find::leads_to(connection, &words, &learning.path)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
