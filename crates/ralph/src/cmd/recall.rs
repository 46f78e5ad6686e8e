//! `ralph recall`: searches past runs, handoffs, learnings and memory.

use super::home;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use clap::Args;
use ralph_core::record::Change;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_deck::{
    Answer, Asked, Coverage, Ground, Hit, Kept, Kind, MEMORY_FILES, Match, Piece, RecallError,
    Scope, Searched,
};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;
use std::path::PathBuf;

const MOST_HITS: u16 = 1000;
/// How many characters of a query the journal records.
const LONGEST_QUERY: usize = 200;
/// The width of the column with the kind of a hit.
const MARGIN: usize = 10;

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
pub(crate) struct Recall {
    /// Search for these words
    #[arg(value_name = "QUERY", required = true)]
    pub query: Vec<String>,
    /// Show at most this many hits
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_HITS)))]
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

pub(crate) fn run(env: &Env, args: &Recall) -> Result<(), Failure> {
    let project = super::config::project(env, args.project.as_deref())?;
    let ground = Ground::new(env, home(env)?, &project);
    let query = args.query.join(" ");
    let asked = Asked {
        query: &query,
        scope: if args.everywhere { Scope::Everywhere } else { Scope::Project },
        kind: args.kind.as_deref().and_then(Kind::parse),
        limit: usize::from(args.limit),
    };
    let answer = ralph_deck::search(&ground, &asked)?;
    if let Some(run) = super::learn::run_of(env, &ground.home, None)? {
        let query = Redactor::new(env.secrets()).redact(&text::line(&query, LONGEST_QUERY));
        let found = u32::try_from(answer.hits.len()).unwrap_or(u32::MAX);
        super::declare::on_record(&ground.home, &run, Change::Recalled { query, found })?;
    }
    if args.json {
        super::print_json(&json(&ground, &asked, &answer))?;
    } else {
        term::out(&shown(&ground, &asked, &answer))?;
    }
    Ok(())
}

fn shown(ground: &Ground, asked: &Asked<'_>, answer: &Answer) -> String {
    let mut out = String::new();
    let now_ms = clock::now_ms();
    for hit in &answer.hits {
        out.push_str(&paragraph(hit, asked.scope, now_ms));
    }
    if answer.hits.is_empty() {
        out.push_str(&nothing(ground, asked, answer.searched));
    }
    if answer.coverage == Coverage::Partial {
        let mark = paint(term::ODD, "?");
        out.push_str(&format!("{mark} the index is incomplete; search again to continue\n"));
    }
    out
}

fn paragraph(hit: &Hit, scope: Scope, now_ms: u64) -> String {
    let mut place = vec![wording::ago(now_ms, hit.at_ms), place(hit)];
    if scope == Scope::Everywhere && hit.kind != Kind::Memory {
        place.push(format!("in `{}`", safe(&hit.project)));
    }
    let kind = format!("{:<MARGIN$}", hit.kind.name());
    let margin = " ".repeat(MARGIN);
    let mut out = format!("{}{}\n", paint(term::DIM, &kind), painted(&hit.title));
    out.push_str(&format!("{margin}{}\n", paint(term::DIM, &place.join(" · "))));
    if !hit.snippet.is_empty() && plain(&hit.snippet) != plain(&hit.title) {
        out.push_str(&format!("{margin}{}\n", painted(&hit.snippet)));
    }
    out
}

/// Where the whole record is.
fn place(hit: &Hit) -> String {
    let file = || match hit.line {
        Some(line) => format!("`{}:{line}`", safe(&hit.path)),
        None => format!("`{}`", safe(&hit.path)),
    };
    match (&hit.run, hit.kind) {
        (Some(run), Kind::Run) => format!("`ralph why {}`", safe(run)),
        (Some(run), Kind::Handoff | Kind::Learning | Kind::Memory) => {
            format!("run {} · {}", safe(run), file())
        }
        (None, Kind::Run | Kind::Handoff | Kind::Learning | Kind::Memory) => file(),
    }
}

fn painted(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Plain(text) => text.clone(),
        Piece::Found(text) => paint(term::BOLD, text),
    };
    pieces.iter().map(piece).collect()
}

fn plain(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Plain(text) | Piece::Found(text) => text.clone(),
    };
    pieces.iter().map(piece).collect()
}

fn nothing(ground: &Ground, asked: &Asked<'_>, searched: Searched) -> String {
    let whose = match asked.scope {
        Scope::Everywhere => "all projects".to_string(),
        Scope::Project => format!("`{}`", safe(&ground.project_name())),
    };
    if searched.all() == 0 {
        return format!(
            "no records of {whose} yet\n  \
             runs       from `ralph start`\n  \
             learnings  from `ralph learn \"…\"`\n  \
             memory     from {MEMORY_FILES}\n"
        );
    }
    let Searched { runs, handoffs, learnings, memory } = searched;
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
    let query = ralph_core::text::line(asked.query, 100);
    let mut out = format!("no record{only} has any word of `{query}`\n");
    let counts = counts.collect::<Vec<_>>().join(", ");
    out.push_str(&format!("searched: {counts} of {whose}\n"));
    if asked.scope == Scope::Project {
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
    hits: Vec<HitJson<'a>>,
    searched: SearchedJson,
    complete: bool,
    index: &'static str,
}

#[derive(Serialize)]
struct HitJson<'a> {
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
struct SearchedJson {
    runs: u32,
    handoffs: u32,
    learnings: u32,
    memory: u32,
}

fn json<'a>(ground: &Ground, asked: &Asked<'a>, answer: &'a Answer) -> RecallJson<'a> {
    let Searched { runs, handoffs, learnings, memory } = answer.searched;
    RecallJson {
        v: 1,
        query: asked.query,
        project: (asked.scope == Scope::Project).then(|| ground.project_name()),
        hits: answer.hits.iter().map(hit_json).collect(),
        searched: SearchedJson { runs, handoffs, learnings, memory },
        complete: answer.coverage == Coverage::Whole,
        index: match answer.kept {
            Kept::OnDisk => "kept",
            Kept::InMemory => "in_memory",
        },
    }
}

fn hit_json(hit: &Hit) -> HitJson<'_> {
    let mut found = Vec::new();
    for piece in hit.title.iter().chain(&hit.snippet) {
        match piece {
            Piece::Found(word) if !found.contains(&word.as_str()) => found.push(word.as_str()),
            Piece::Found(_) | Piece::Plain(_) => {}
        }
    }
    HitJson {
        kind: hit.kind.name(),
        run: hit.run.as_deref(),
        project: &hit.project,
        at: clock::rfc3339(hit.at_ms),
        title: plain(&hit.title),
        path: &hit.path,
        line: hit.line,
        snippet: plain(&hit.snippet),
        found,
        every_word: hit.matched == Match::EveryWord,
        // Four digits distinguish the hits, and are the same on every machine.
        score: (hit.score * 1e4).round() / 1e4,
    }
}

impl From<RecallError> for Failure {
    fn from(error: RecallError) -> Self {
        Self::because("cannot search the records", &error)
            .with_hint("delete `index` in ralph's home; it is rebuilt")
    }
}
