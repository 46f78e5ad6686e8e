//! Queries on the index.

use super::{RecallQuery, RecallScope};
use crate::query_words::QueryWords;
use crate::recall_context::RecallContext;
use crate::recall_record::RecallKind;
use ralph_core::text::collapse_whitespace;
use rusqlite::{Connection, params};
use std::path::Path;

/// A match in the title weighs more than one in the text.
const RANK: &str = "bm25(words, 3.0, 1.0)";
/// Highlight marks. Indexed text does not contain them, because control characters are removed from it.
const MARK_BEGIN: char = '\u{1}';
const MARK_END: char = '\u{2}';
/// Number of words in a snippet.
const SNIPPET_WORDS: usize = 24;
/// More rows than the limit are fetched, because a run and its hand-over are merged into one hit.
const FETCH_FACTOR: usize = 2;

/// How many words of the query a record matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchExtent {
    EveryWord,
    SomeWords,
}

/// Part of a text, marked if it matches the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPiece {
    Plain(String),
    Found(String),
}

/// A record that matches a query.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallHit {
    pub kind: RecallKind,
    pub run: Option<String>,
    pub project: String,
    pub at_ms: u64,
    pub title: Vec<TextPiece>,
    pub path: String,
    pub line: Option<u32>,
    pub snippet: Vec<TextPiece>,
    pub matched: MatchExtent,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}

/// Number of records that were searched, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchedCounts {
    pub runs: u32,
    pub handovers: u32,
    pub learnings: u32,
    pub lessons: u32,
    pub memory: u32,
}

impl SearchedCounts {
    pub fn all(self) -> u32 {
        let Self { runs, handovers, learnings, lessons, memory } = self;
        [handovers, learnings, lessons, memory].into_iter().fold(runs, u32::saturating_add)
    }
}

/// Restricts a query to a project; `NULL` means all projects.
const IN_PROJECT: &str = "project IN (SELECT id FROM project
    WHERE ?1 IS NULL OR path = ?1 OR substr(path, 1, length(?2)) = ?2)";

/// The project's path, and the prefix of all paths below it.
fn project_bounds(context: &RecallContext, scope: RecallScope) -> (Option<String>, String) {
    match scope {
        RecallScope::Everywhere => (None, String::new()),
        RecallScope::Project => {
            let name = context.project_name();
            let below = format!("{}/", name.trim_end_matches('/'));
            (Some(name), below)
        }
    }
}

pub(super) fn find_hits(
    connection: &Connection,
    context: &RecallContext,
    query: &RecallQuery<'_>,
    words: &QueryWords,
) -> rusqlite::Result<Vec<RecallHit>> {
    let mut hits: Vec<RecallHit> = Vec::new();
    if words.is_empty() {
        return Ok(hits);
    }
    let mut seen = Vec::new();
    let all = (words.all_expression(), MatchExtent::EveryWord);
    let any = (words.len() > 1).then(|| (words.any_expression(), MatchExtent::SomeWords));
    for (expression, matched) in std::iter::once(all).chain(any) {
        for (id, rank) in ranked_records(connection, context, query, &expression)? {
            if hits.len() >= query.limit {
                return Ok(hits);
            }
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let hit = load_hit(connection, id, &expression)?;
            let is_same_run =
                |other: &RecallHit| is_of_run(other) && is_of_run(&hit) && other.run == hit.run;
            if !hits.iter().any(is_same_run) {
                hits.push(RecallHit { matched, score: -rank, ..hit });
            }
        }
    }
    Ok(hits)
}

fn is_of_run(hit: &RecallHit) -> bool {
    match hit.kind {
        RecallKind::Run | RecallKind::Handover => true,
        RecallKind::Learning | RecallKind::Lesson | RecallKind::Memory => false,
    }
}

/// The best records for an expression; the lower the rank, the better.
fn ranked_records(
    connection: &Connection,
    context: &RecallContext,
    query: &RecallQuery<'_>,
    expression: &str,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    let (project, below) = project_bounds(context, query.scope);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT words.rowid, {RANK} AS rank FROM words JOIN record ON record.id = words.rowid
         WHERE words MATCH ?3 AND {IN_PROJECT} AND (?4 IS NULL OR kind = ?4)
         ORDER BY rank, at_ms DESC, words.rowid LIMIT ?5"
    ))?;
    let most = i64::try_from(query.limit.saturating_mul(FETCH_FACTOR)).unwrap_or(i64::MAX);
    let kind = query.kind.map(RecallKind::name);
    let rows = statement.query_map(params![project, below, expression, kind, most], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    rows.collect()
}

/// A record with the matches of the expression marked.
fn load_hit(connection: &Connection, id: i64, expression: &str) -> rusqlite::Result<RecallHit> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT kind, run, project.path, at_ms, record.path, line,
             highlight(words, 0, ?3, ?4), snippet(words, 1, ?3, ?4, '…', {SNIPPET_WORDS})
         FROM words JOIN record ON record.id = words.rowid
         JOIN project ON project.id = record.project
         WHERE words MATCH ?1 AND words.rowid = ?2"
    ))?;
    let marks = params![expression, id, MARK_BEGIN.to_string(), MARK_END.to_string()];
    statement.query_row(marks, |row| {
        let kind: String = row.get(0)?;
        Ok(RecallHit {
            kind: RecallKind::parse(&kind).unwrap_or(RecallKind::Memory),
            run: row.get(1)?,
            project: row.get(2)?,
            at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
            path: row.get(4)?,
            line: row.get(5)?,
            title: split_pieces(&row.get::<_, String>(6)?),
            snippet: split_pieces(&row.get::<_, String>(7)?),
            matched: MatchExtent::SomeWords,
            score: 0.0,
        })
    })
}

/// Joins a marked text to one line and splits it at the marks.
fn split_pieces(marked: &str) -> Vec<TextPiece> {
    let line = collapse_whitespace(marked);
    let mut pieces = Vec::new();
    for part in line.split(MARK_BEGIN) {
        let (found, plain) =
            part.split_once(MARK_END).map_or(("", part), |(found, rest)| (found, rest));
        if !found.is_empty() {
            pieces.push(TextPiece::Found(found.to_string()));
        }
        if !plain.is_empty() {
            pieces.push(TextPiece::Plain(plain.to_string()));
        }
    }
    pieces
}

pub(super) fn count_searched(
    connection: &Connection,
    context: &RecallContext,
    scope: RecallScope,
) -> rusqlite::Result<SearchedCounts> {
    let (project, below) = project_bounds(context, scope);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT kind, count(*) FROM record WHERE {IN_PROJECT} GROUP BY kind"
    ))?;
    let mut searched = SearchedCounts::default();
    let mut rows = statement.query(params![project, below])?;
    while let Some(row) = rows.next()? {
        let count = row.get(1)?;
        match RecallKind::parse(&row.get::<_, String>(0)?) {
            Some(RecallKind::Run) => searched.runs = count,
            Some(RecallKind::Handover) => searched.handovers = count,
            Some(RecallKind::Learning) => searched.learnings = count,
            Some(RecallKind::Lesson) => searched.lessons = count,
            Some(RecallKind::Memory) => searched.memory = count,
            None => {}
        }
    }
    Ok(searched)
}

/// Whether a search for all these words finds the record at that path.
pub(super) fn finds_path(
    connection: &Connection,
    words: &QueryWords,
    path: &Path,
) -> rusqlite::Result<bool> {
    if words.is_empty() {
        return Ok(false);
    }
    connection.query_row(
        "SELECT count(*) > 0 FROM words JOIN record ON record.id = words.rowid
         WHERE words MATCH ?1 AND record.path = ?2",
        params![words.all_expression(), path.display().to_string()],
        |row| row.get(0),
    )
}
