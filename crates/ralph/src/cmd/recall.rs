//! `ralph recall`: searches past runs, handoffs, learnings and memory.

use super::open_home;
use crate::describe::{self, safe_line};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::record::RunChange;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_deck::{
    IndexCoverage, IndexStorage, MEMORY_FILES, MatchExtent, RecallAnswer, RecallContext,
    RecallError, RecallHit, RecallKind, RecallQuery, RecallScope, SearchedCounts, TextPiece,
};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;
use std::path::PathBuf;

const MAX_HITS: u16 = 1000;
/// How many characters of a query the journal records.
const MAX_QUERY_CHARS: usize = 200;
/// The width of the column with the kind of a hit.
const KIND_COLUMNS: usize = 10;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph recall nested quotes
  ralph recall \"why did the upload time out\" --kind learning
  ralph recall axum upgrade --everywhere --limit 3 --json | jq '.hits[].title'

Searches goals, ends and obstacles of past runs, handoffs, learnings,
and memory: `MEMORY.md`, `CLAUDE.md`, `AGENTS.md`,
`docs/plans/*/MEMORY.md`, `.claude/memory/*.md`, progress files and the
client's own memory of the project. Hits with every word come first,
then hits with some of them, each by relevance. The last word may be a
prefix.")]
pub(crate) struct RecallArgs {
    /// Search for these words
    #[arg(value_name = "QUERY", required = true)]
    pub query: Vec<String>,
    /// Show at most this many hits
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_HITS)))]
    pub limit: u16,
    /// Search the records of every project
    #[arg(long)]
    pub everywhere: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Search only this kind of record
    #[arg(long, value_name = "KIND", value_parser = ["run", "handoff", "learning", "memory"])]
    pub kind: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &RecallArgs) -> Result<(), CommandFailure> {
    let project = super::config::project_dir(env, args.project.as_deref())?;
    let ground = RecallContext::new(env, open_home(env)?, &project);
    let query = args.query.join(" ");
    let asked = RecallQuery {
        text: &query,
        scope: if args.everywhere { RecallScope::Everywhere } else { RecallScope::Project },
        kind: args.kind.as_deref().and_then(RecallKind::parse),
        limit: usize::from(args.limit),
    };
    let answer = ralph_deck::search(&ground, &asked)?;
    if let Some(run) = super::learn::named_or_own_run(env, &ground.home, None)? {
        let query = Redactor::new(env.secrets()).redact(&text::clean_line(&query, MAX_QUERY_CHARS));
        let found = u32::try_from(answer.hits.len()).unwrap_or(u32::MAX);
        super::declare::record_action(&ground.home, &run, RunChange::Recalled { query, found })?;
    }
    if args.json {
        super::print_json(&recall_json(&ground, &asked, &answer))?;
    } else {
        term::out(&render_answer(&ground, &asked, &answer))?;
    }
    Ok(())
}

fn render_answer(ground: &RecallContext, asked: &RecallQuery<'_>, answer: &RecallAnswer) -> String {
    let mut out = String::new();
    let now_ms = clock::now_ms();
    for hit in &answer.hits {
        out.push_str(&hit_paragraph(hit, asked.scope, now_ms));
    }
    if answer.hits.is_empty() {
        out.push_str(&no_hits_text(ground, asked, answer.searched));
    }
    if answer.coverage == IndexCoverage::Partial {
        let mark = paint(term::WARN, "?");
        out.push_str(&format!("{mark} the index is incomplete; search again to continue\n"));
    }
    out
}

fn hit_paragraph(hit: &RecallHit, scope: RecallScope, now_ms: u64) -> String {
    let mut place = vec![describe::ago(now_ms, hit.at_ms), record_location(hit)];
    if scope == RecallScope::Everywhere && hit.kind != RecallKind::Memory {
        place.push(format!("in `{}`", safe_line(&hit.project)));
    }
    let kind = format!("{:<KIND_COLUMNS$}", hit.kind.name());
    let margin = " ".repeat(KIND_COLUMNS);
    let mut out = format!("{}{}\n", paint(term::DIM, &kind), highlight(&hit.title));
    out.push_str(&format!("{margin}{}\n", paint(term::DIM, &place.join(" · "))));
    if !hit.snippet.is_empty() && plain_text(&hit.snippet) != plain_text(&hit.title) {
        out.push_str(&format!("{margin}{}\n", highlight(&hit.snippet)));
    }
    out
}

/// Where the whole record is.
fn record_location(hit: &RecallHit) -> String {
    let file = || match hit.line {
        Some(line) => format!("`{}:{line}`", safe_line(&hit.path)),
        None => format!("`{}`", safe_line(&hit.path)),
    };
    match (&hit.run, hit.kind) {
        (Some(run), RecallKind::Run) => format!("`ralph why {}`", safe_line(run)),
        (Some(run), RecallKind::Handoff | RecallKind::Learning | RecallKind::Memory) => {
            format!("run {} · {}", safe_line(run), file())
        }
        (
            None,
            RecallKind::Run | RecallKind::Handoff | RecallKind::Learning | RecallKind::Memory,
        ) => file(),
    }
}

fn highlight(pieces: &[TextPiece]) -> String {
    let piece = |piece: &TextPiece| match piece {
        TextPiece::Plain(text) => text.clone(),
        TextPiece::Found(text) => paint(term::BOLD, text),
    };
    pieces.iter().map(piece).collect()
}

fn plain_text(pieces: &[TextPiece]) -> String {
    let piece = |piece: &TextPiece| match piece {
        TextPiece::Plain(text) | TextPiece::Found(text) => text.clone(),
    };
    pieces.iter().map(piece).collect()
}

fn no_hits_text(
    ground: &RecallContext,
    asked: &RecallQuery<'_>,
    searched: SearchedCounts,
) -> String {
    let whose = match asked.scope {
        RecallScope::Everywhere => "all projects".to_string(),
        RecallScope::Project => format!("`{}`", safe_line(&ground.project_name())),
    };
    if searched.all() == 0 {
        return format!(
            "no records of {whose} yet\n  \
             runs       from `ralph start`\n  \
             learnings  from `ralph learn \"…\"`\n  \
             memory     from {MEMORY_FILES}\n"
        );
    }
    let SearchedCounts { runs, handoffs, learnings, memory } = searched;
    let counts = [
        (runs, "run", "runs"),
        (handoffs, "handoff", "handoffs"),
        (learnings, "learning", "learnings"),
        (memory, "section of memory", "sections of memory"),
    ];
    let counts = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }));
    let only = asked.kind.map_or(String::new(), |kind| format!(" of kind `{}`", kind.name()));
    let query = ralph_core::text::clean_line(asked.text, 100);
    let mut out = format!("no record{only} has any word of `{query}`\n");
    let counts = counts.collect::<Vec<_>>().join(", ");
    out.push_str(&format!("searched: {counts} of {whose}\n"));
    if asked.scope == RecallScope::Project {
        out.push_str("`--everywhere` searches all projects\n");
    }
    out
}

#[derive(Serialize)]
struct RecallJson<'a> {
    v: u8,
    query: &'a str,
    /// `null` when all projects were searched.
    project: Option<String>,
    hits: Vec<RecallHitJson<'a>>,
    searched: RecallSearchedJson,
    complete: bool,
    index: &'static str,
}

#[derive(Serialize)]
struct RecallHitJson<'a> {
    kind: &'static str,
    run: Option<&'a str>,
    project: &'a str,
    at: String,
    title: String,
    path: &'a str,
    line: Option<u32>,
    snippet: String,
    /// The words of the title and snippet that match the query.
    found: Vec<&'a str>,
    every_word: bool,
    score: f64,
}

#[derive(Serialize)]
struct RecallSearchedJson {
    runs: u32,
    handoffs: u32,
    learnings: u32,
    memory: u32,
}

fn recall_json<'a>(
    ground: &RecallContext,
    asked: &RecallQuery<'a>,
    answer: &'a RecallAnswer,
) -> RecallJson<'a> {
    let SearchedCounts { runs, handoffs, learnings, memory } = answer.searched;
    RecallJson {
        v: 1,
        query: asked.text,
        project: (asked.scope == RecallScope::Project).then(|| ground.project_name()),
        hits: answer.hits.iter().map(hit_json).collect(),
        searched: RecallSearchedJson { runs, handoffs, learnings, memory },
        complete: answer.coverage == IndexCoverage::Whole,
        index: match answer.storage {
            IndexStorage::OnDisk => "kept",
            IndexStorage::InMemory => "in_memory",
        },
    }
}

fn hit_json(hit: &RecallHit) -> RecallHitJson<'_> {
    let mut found = Vec::new();
    for piece in hit.title.iter().chain(&hit.snippet) {
        match piece {
            TextPiece::Found(word) if !found.contains(&word.as_str()) => found.push(word.as_str()),
            TextPiece::Found(_) | TextPiece::Plain(_) => {}
        }
    }
    RecallHitJson {
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

impl From<RecallError> for CommandFailure {
    fn from(error: RecallError) -> Self {
        Self::caused_by("cannot search the records", &error)
            .with_hint("delete `index` in ralph's home; it is rebuilt")
    }
}
