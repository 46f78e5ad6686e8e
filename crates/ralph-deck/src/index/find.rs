//! Queries on the index.

use super::{Asked, Scope};
use crate::ground::Ground;
use crate::record::Kind;
use crate::words::Words;
use rusqlite::{Connection, params};
use std::path::Path;

/// A match in the title weighs more than one in the text.
const RANK: &str = "bm25(words, 3.0, 1.0)";
/// Highlight marks. Indexed text does not contain them, because control characters are removed from it.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
/// Number of words in a snippet.
const AROUND: usize = 24;
/// More rows than the limit are fetched, because a run and its handoff are merged into one hit.
const SPARE: usize = 2;

/// How many words of the query a record matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    EveryWord,
    SomeWords,
}

/// Part of a text, marked if it matches the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Plain(String),
    Found(String),
}

/// A record that matches a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub kind: Kind,
    pub run: Option<String>,
    pub project: String,
    pub at_ms: u64,
    pub title: Vec<Piece>,
    pub path: String,
    pub line: Option<u32>,
    pub snippet: Vec<Piece>,
    pub matched: Match,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}

/// Number of records that were searched, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    pub runs: u32,
    pub handoffs: u32,
    pub learnings: u32,
    pub memory: u32,
}

impl Searched {
    pub fn all(self) -> u32 {
        let Self { runs, handoffs, learnings, memory } = self;
        [handoffs, learnings, memory].into_iter().fold(runs, u32::saturating_add)
    }
}

/// Restricts a query to a project; `NULL` means all projects.
const OF_PROJECT: &str = "project IN (SELECT id FROM project
    WHERE ?1 IS NULL OR path = ?1 OR substr(path, 1, length(?2)) = ?2)";

/// The project's path, and the prefix of all paths below it.
fn bounds(context: &Ground, scope: Scope) -> (Option<String>, String) {
    match scope {
        Scope::Everywhere => (None, String::new()),
        Scope::Project => {
            let name = context.project_name();
            let below = format!("{}/", name.trim_end_matches('/'));
            (Some(name), below)
        }
    }
}

pub(super) fn hits(
    connection: &Connection,
    context: &Ground,
    query: &Asked<'_>,
    words: &Words,
) -> rusqlite::Result<Vec<Hit>> {
    let mut hits: Vec<Hit> = Vec::new();
    if words.is_empty() {
        return Ok(hits);
    }
    let mut seen = Vec::new();
    let all = (words.all(), Match::EveryWord);
    let any = (words.len() > 1).then(|| (words.any(), Match::SomeWords));
    for (expression, matched) in std::iter::once(all).chain(any) {
        for (id, rank) in ranked(connection, context, query, &expression)? {
            if hits.len() >= query.limit {
                return Ok(hits);
            }
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let hit = hit(connection, id, &expression)?;
            let is_same_run =
                |other: &Hit| is_of_run(other) && is_of_run(&hit) && other.run == hit.run;
            if !hits.iter().any(is_same_run) {
                hits.push(Hit { matched, score: -rank, ..hit });
            }
        }
    }
    Ok(hits)
}

fn is_of_run(hit: &Hit) -> bool {
    match hit.kind {
        Kind::Run | Kind::Handoff => true,
        Kind::Learning | Kind::Memory => false,
    }
}

/// The best records for an expression; the lower the rank, the better.
fn ranked(
    connection: &Connection,
    context: &Ground,
    query: &Asked<'_>,
    expression: &str,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    let (project, below) = bounds(context, query.scope);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT words.rowid, {RANK} AS rank FROM words JOIN record ON record.id = words.rowid
         WHERE words MATCH ?3 AND {OF_PROJECT} AND (?4 IS NULL OR kind = ?4)
         ORDER BY rank, at_ms DESC, words.rowid LIMIT ?5"
    ))?;
    let most = i64::try_from(query.limit.saturating_mul(SPARE)).unwrap_or(i64::MAX);
    let kind = query.kind.map(Kind::name);
    let rows = statement.query_map(params![project, below, expression, kind, most], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    rows.collect()
}

/// A record with the matches of the expression marked.
fn hit(connection: &Connection, id: i64, expression: &str) -> rusqlite::Result<Hit> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT kind, run, project.path, at_ms, record.path, line,
             highlight(words, 0, ?3, ?4), snippet(words, 1, ?3, ?4, '…', {AROUND})
         FROM words JOIN record ON record.id = words.rowid
         JOIN project ON project.id = record.project
         WHERE words MATCH ?1 AND words.rowid = ?2"
    ))?;
    let marks = params![expression, id, BEGIN.to_string(), END.to_string()];
    statement.query_row(marks, |row| {
        let kind: String = row.get(0)?;
        Ok(Hit {
            kind: Kind::parse(&kind).unwrap_or(Kind::Memory),
            run: row.get(1)?,
            project: row.get(2)?,
            at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
            path: row.get(4)?,
            line: row.get(5)?,
            title: pieces(&row.get::<_, String>(6)?),
            snippet: pieces(&row.get::<_, String>(7)?),
            matched: Match::SomeWords,
            score: 0.0,
        })
    })
}

/// Joins a marked text to one line and splits it at the marks.
fn pieces(marked: &str) -> Vec<Piece> {
    let line = marked.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut pieces = Vec::new();
    for part in line.split(BEGIN) {
        let (found, plain) = part.split_once(END).map_or(("", part), |(found, rest)| (found, rest));
        if !found.is_empty() {
            pieces.push(Piece::Found(found.to_string()));
        }
        if !plain.is_empty() {
            pieces.push(Piece::Plain(plain.to_string()));
        }
    }
    pieces
}

pub(super) fn searched(
    connection: &Connection,
    context: &Ground,
    scope: Scope,
) -> rusqlite::Result<Searched> {
    let (project, below) = bounds(context, scope);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT kind, count(*) FROM record WHERE {OF_PROJECT} GROUP BY kind"
    ))?;
    let mut searched = Searched::default();
    let mut rows = statement.query(params![project, below])?;
    while let Some(row) = rows.next()? {
        let count = row.get(1)?;
        match Kind::parse(&row.get::<_, String>(0)?) {
            Some(Kind::Run) => searched.runs = count,
            Some(Kind::Handoff) => searched.handoffs = count,
            Some(Kind::Learning) => searched.learnings = count,
            Some(Kind::Memory) => searched.memory = count,
            None => {}
        }
    }
    Ok(searched)
}

/// Whether a search for all these words finds the record at that path.
pub(super) fn leads_to(
    connection: &Connection,
    words: &Words,
    path: &Path,
) -> rusqlite::Result<bool> {
    if words.is_empty() {
        return Ok(false);
    }
    connection.query_row(
        "SELECT count(*) > 0 FROM words JOIN record ON record.id = words.rowid
         WHERE words MATCH ?1 AND record.path = ?2",
        params![words.all(), path.display().to_string()],
        |row| row.get(0),
    )
}
