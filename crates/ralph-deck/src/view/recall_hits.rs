//! The hits of a search in past runs, hand-overs, learnings, lessons and memory.

use crate::record_sources::lesson_records::LESSON_ID_MARK;
use crate::wording::safe_line;
use crate::{
    IndexCoverage, IndexStorage, MEMORY_FILES, MatchExtent, RecallAnswer, RecallContext, RecallHit,
    RecallKind, RecallQuery, RecallScope, SearchedCounts, TextPiece,
};
use ralph_core::text;
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct RecallView<'a> {
    pub v: u8,
    pub query: &'a str,
    /// `null` when all projects were searched.
    pub project: Option<String>,
    pub hits: Vec<RecallHitView<'a>>,
    pub searched: RecallSearchedView,
    pub complete: bool,
    pub index: &'static str,
}

#[derive(Debug, Serialize)]
pub struct RecallHitView<'a> {
    pub kind: &'static str,
    pub run: Option<&'a str>,
    pub project: &'a str,
    pub at: String,
    pub title: String,
    pub path: &'a str,
    pub line: Option<u32>,
    pub snippet: String,
    /// The words of the title and snippet that match the query.
    pub found: Vec<&'a str>,
    pub every_word: bool,
    pub score: f64,
}

#[derive(Debug, Serialize)]
pub struct RecallSearchedView {
    pub runs: u32,
    pub handoffs: u32,
    pub learnings: u32,
    pub lessons: u32,
    pub memory: u32,
}

pub fn recall_view<'a>(
    context: &RecallContext,
    asked: &RecallQuery<'a>,
    answer: &'a RecallAnswer,
) -> RecallView<'a> {
    let SearchedCounts { runs, handovers, learnings, lessons, memory } = answer.searched;
    RecallView {
        v: 1,
        query: asked.text,
        project: (asked.scope == RecallScope::Project).then(|| context.project_name()),
        hits: answer.hits.iter().map(hit_view).collect(),
        searched: RecallSearchedView { runs, handoffs: handovers, learnings, lessons, memory },
        complete: answer.coverage == IndexCoverage::Whole,
        index: match answer.storage {
            IndexStorage::OnDisk => "kept",
            IndexStorage::InMemory => "in_memory",
        },
    }
}

fn hit_view(hit: &RecallHit) -> RecallHitView<'_> {
    let mut found = Vec::new();
    for piece in hit.title.iter().chain(&hit.snippet) {
        match piece {
            TextPiece::Found(word) if !found.contains(&word.as_str()) => found.push(word.as_str()),
            TextPiece::Found(_) | TextPiece::Plain(_) => {}
        }
    }
    RecallHitView {
        kind: hit.kind.name(),
        run: hit.run.as_deref(),
        project: &hit.project,
        at: clock::format_rfc3339(hit.at_ms),
        title: plain_text(&hit.title),
        path: &hit.path,
        line: hit.line,
        snippet: plain_text(&hit.snippet),
        found,
        every_word: hit.matched == MatchExtent::EveryWord,
        // Four digits distinguish the hits, and are the same on every machine.
        score: (hit.score * 1e4).round() / 1e4,
    }
}

/// Where the whole record is.
pub fn record_location(hit: &RecallHit) -> String {
    let file = || match hit.line {
        Some(line) => format!("`{}:{line}`", safe_line(&hit.path)),
        None => format!("`{}`", safe_line(&hit.path)),
    };
    match (hit.kind, &hit.run) {
        (RecallKind::Lesson, _) => match hit.path.rsplit_once(LESSON_ID_MARK) {
            Some((_, id)) => format!("`ralph memory show {}`", safe_line(id)),
            None => file(),
        },
        (RecallKind::Run, Some(run)) => format!("`ralph why {}`", safe_line(run)),
        (RecallKind::Handover | RecallKind::Learning | RecallKind::Memory, Some(run)) => {
            format!("run {} · {}", safe_line(run), file())
        }
        (
            RecallKind::Run | RecallKind::Handover | RecallKind::Learning | RecallKind::Memory,
            None,
        ) => file(),
    }
}

/// The text without the marks of found words.
pub fn plain_text(pieces: &[TextPiece]) -> String {
    let piece = |piece: &TextPiece| match piece {
        TextPiece::Plain(text) | TextPiece::Found(text) => text.clone(),
    };
    pieces.iter().map(piece).collect()
}

/// What was searched, when nothing was found.
pub fn no_hits_text(
    context: &RecallContext,
    asked: &RecallQuery<'_>,
    searched: SearchedCounts,
) -> String {
    let whose = match asked.scope {
        RecallScope::Everywhere => "all projects".to_string(),
        RecallScope::Project => format!("`{}`", safe_line(&context.project_name())),
    };
    if searched.all() == 0 {
        return format!(
            "no records of {whose} yet\n  \
             runs       from `ralph start`\n  \
             notes      from `ralph learn \"…\"`\n  \
             lessons    from runs that were held\n  \
             memory     from {MEMORY_FILES}\n"
        );
    }
    let SearchedCounts { runs, handovers, learnings, lessons, memory } = searched;
    let counts = [
        (runs, "run", "runs"),
        (handovers, "hand-over", "hand-overs"),
        (learnings, "note", "notes"),
        (lessons, "lesson", "lessons"),
        (memory, "section of memory", "sections of memory"),
    ];
    let counts = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }));
    let only = asked.kind.map_or(String::new(), |kind| format!(" of kind `{}`", kind.name()));
    let query = text::clean_line(asked.text, 100);
    let mut out = format!("no record{only} has any word of `{query}`\n");
    let counts = counts.collect::<Vec<_>>().join(", ");
    out.push_str(&format!("searched: {counts} of {whose}\n"));
    if asked.scope == RecallScope::Project {
        out.push_str("`--everywhere` searches all projects\n");
    }
    out
}
