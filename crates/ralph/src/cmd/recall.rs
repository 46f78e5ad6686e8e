//! `ralph recall`: searches past runs, hand-overs, learnings, lessons and memory.

use super::open_home;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::record::RunChange;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_deck::view::recall_hits::{no_hits_text, plain_text, recall_view, record_location};
use ralph_deck::wording::{self, safe_line};
use ralph_deck::{
    IndexCoverage, RecallAnswer, RecallContext, RecallError, RecallHit, RecallKind, RecallQuery,
    RecallScope, TextPiece,
};
use ralph_sys::clock;
use ralph_sys::env::Env;
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

Searches goals, ends and obstacles of past runs, hand-overs, learnings,
lessons (`ralph memory`), and memory files: `MEMORY.md`, `CLAUDE.md`,
`AGENTS.md`, `docs/plans/*/MEMORY.md`, `.claude/memory/*.md`, progress
files and the client's own memory of the project. Hits with every word
come first, then hits with some of them, each by relevance. The last
word may be a prefix.")]
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
    #[arg(long, value_name = "KIND", value_parser = ["run", "handoff", "learning", "lesson", "memory"])]
    pub kind: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &RecallArgs) -> Result<(), CommandFailure> {
    let project = super::config::project_dir(env, args.project.as_deref())?;
    let context = RecallContext::new(env, open_home(env)?, &project);
    let query = args.query.join(" ");
    let asked = RecallQuery {
        text: &query,
        scope: if args.everywhere { RecallScope::Everywhere } else { RecallScope::Project },
        kind: args.kind.as_deref().and_then(RecallKind::parse),
        limit: usize::from(args.limit),
    };
    let answer = search_and_record(env, &context, &asked)?;
    if args.json {
        super::print_json(&recall_view(&context, &asked, &answer))?;
    } else {
        term::out(&render_answer(&context, &asked, &answer))?;
    }
    Ok(())
}

/// Searches, and records the query in the journal of the agent's own run.
pub(super) fn search_and_record(
    env: &Env,
    context: &RecallContext,
    asked: &RecallQuery<'_>,
) -> Result<RecallAnswer, CommandFailure> {
    let answer = ralph_deck::search(context, asked)?;
    if let Some(run) = super::learn::named_or_own_run(env, &context.home, None)? {
        let query = text::clean_line(asked.text, MAX_QUERY_CHARS);
        let query = Redactor::new(env.secrets()).redact(&query);
        let found = u32::try_from(answer.hits.len()).unwrap_or(u32::MAX);
        super::declare::record_action(&context.home, &run, RunChange::Recalled { query, found })?;
    }
    Ok(answer)
}

pub(super) fn render_answer(
    context: &RecallContext,
    asked: &RecallQuery<'_>,
    answer: &RecallAnswer,
) -> String {
    let mut out = String::new();
    let now_ms = clock::now_ms();
    for hit in &answer.hits {
        out.push_str(&hit_paragraph(hit, asked.scope, now_ms));
    }
    if answer.hits.is_empty() {
        out.push_str(&no_hits_text(context, asked, answer.searched));
    }
    if answer.coverage == IndexCoverage::Partial {
        let mark = paint(term::WARN, "?");
        out.push_str(&format!("{mark} the index is incomplete; search again to continue\n"));
    }
    out
}

fn hit_paragraph(hit: &RecallHit, scope: RecallScope, now_ms: u64) -> String {
    let mut place = vec![wording::ago(now_ms, hit.at_ms), record_location(hit)];
    if scope == RecallScope::Everywhere && hit.kind != RecallKind::Memory {
        place.push(format!("in `{}`", safe_line(&hit.project)));
    }
    let kind = format!("{:<KIND_COLUMNS$}", hit.kind.label());
    let margin = " ".repeat(KIND_COLUMNS);
    let mut out = format!("{}{}\n", paint(term::DIM, &kind), highlight(&hit.title));
    out.push_str(&format!("{margin}{}\n", paint(term::DIM, &place.join(" · "))));
    if !hit.snippet.is_empty() && plain_text(&hit.snippet) != plain_text(&hit.title) {
        out.push_str(&format!("{margin}{}\n", highlight(&hit.snippet)));
    }
    out
}

fn highlight(pieces: &[TextPiece]) -> String {
    let piece = |piece: &TextPiece| match piece {
        TextPiece::Plain(text) => text.clone(),
        TextPiece::Found(text) => paint(term::BOLD, text),
    };
    pieces.iter().map(piece).collect()
}

impl From<RecallError> for CommandFailure {
    fn from(error: RecallError) -> Self {
        Self::caused_by("cannot search the records", &error)
            .with_hint("delete `index` in ralph's home; it is rebuilt")
    }
}
