//! `ralph pipeline`: draws the chunks of a pipeline, their order, and the state of each.

use super::home;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use clap::{Args, Subcommand};
use ralph_core::id::SessionId;
use ralph_core::pipeline::{self, History, Node, Where};
use ralph_core::policy::Chunk;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened};
use ralph_hook::control::{self, Named};
use ralph_hook::overview::{self, RunView};
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;
use std::path::Path;

const LONGEST_NAME: usize = 24;
/// The minimum number of columns for the state of a chunk, even on a narrow terminal.
const LEAST: usize = 24;
const LONGEST_WORDS: usize = 160;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph pipeline show
  ralph pipeline show k7f2
  ralph pipeline show --json | jq '.chunks[] | select(.state == \"failing\").name'";

#[derive(Subcommand)]
pub(crate) enum Pipeline {
    /// Draw the chunks, layer by layer, with the state of each; runs nothing
    Show(Show),
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Show this run or session [default: this session's, or the latest here]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct PipelineJson<'a> {
    v: u8,
    /// Absent if the pipeline comes from the policy and no run has it yet.
    run: Option<&'a str>,
    status: Option<&'static str>,
    done: usize,
    total: usize,
    next: &'a [&'a str],
    chunks: Vec<ChunkJson<'a>>,
}

#[derive(Serialize)]
struct ChunkJson<'a> {
    name: &'a str,
    /// From 1. A chunk comes after chunks of earlier layers only.
    layer: usize,
    state: Where,
    note: &'a str,
    after: &'a [String],
    waits_for: &'a [&'a str],
    r#match: &'a str,
    gates: &'a [String],
    outputs: &'a [String],
    agents: AgentsJson,
}

#[derive(Serialize)]
struct AgentsJson {
    verified: usize,
    total: usize,
    /// Agents that were held and are still working.
    running: usize,
}

pub(crate) fn run(env: &Env, asked: &Pipeline) -> Result<(), Failure> {
    let Pipeline::Show(args) = asked;
    let home = home(env)?;
    let view = match &args.name {
        Some(name) => Some(named(&home, name)?),
        None => usual(env, &home)?,
    };
    if let Some(view) = view {
        let nodes = known(&home, &view.opened, chunks(&view.opened));
        return show(env, args, (&nodes, Some(&view)));
    }
    let config = config::load(&super::config::project(env, None)?, &home)?;
    if config.policy.pipeline.is_empty() {
        let hint = "define one with `[[pipeline.chunk]]` in `ralph.toml`: see docs/agents.md";
        return Err(Failure::new("there is no pipeline here", hint));
    }
    show(env, args, (&pipeline::nodes(&config.policy.pipeline, &History::default()), None))
}

/// The progress of a run's pipeline on one line; `None` if it has none.
pub(super) fn line(home: &Home, opened: &Opened) -> Option<String> {
    let chunks = chunks(opened);
    if chunks.is_empty() {
        return None;
    }
    Some(format!("pipeline {}", pipeline::summary(&known(home, opened, chunks))))
}

fn chunks(opened: &Opened) -> &[Chunk] {
    opened.run.seal.as_ref().map_or(&[], |seal| &seal.policy.pipeline)
}

fn known<'a>(home: &Home, opened: &Opened, chunks: &'a [Chunk]) -> Vec<Node<'a>> {
    // An unreadable journal counts as empty; `ralph status` and `ralph why` report it.
    let entries = overview::of_run(home, &opened.run.id).map(|read| read.entries);
    let entries = entries.unwrap_or_default();
    let now_ms = clock::now_ms();
    pipeline::nodes(chunks, &History { entries: &entries, parts: &opened.state.parts, now_ms })
}

fn named(home: &Home, name: &str) -> Result<RunView, Failure> {
    let Named::Run(run) = super::named(home, name)? else {
        let hint = "`ralph status --all` lists all runs";
        return Err(Failure::new(&format!("no run owns session `{}`", safe(name)), hint));
    };
    let opened = store::load(home, &run)?;
    if chunks(&opened).is_empty() {
        let hint = "a run keeps the pipeline that the policy had at its start: `ralph config`";
        return Err(Failure::new(&format!("run `{run}` has no pipeline"), hint));
    }
    Ok(RunView { phase: control::phase(home, &opened), opened })
}

/// The run of the calling session, or the last run of this project.
fn usual(env: &Env, home: &Home) -> Result<Option<RunView>, Failure> {
    let session = env.claude_session();
    let project = super::config::project(env, None)?;
    let is_own = |view: &RunView| {
        let owner = view.opened.state.owner(&view.opened.run);
        owner.is_some() && owner.map(SessionId::as_str) == session.as_deref()
    };
    let is_here = |view: &RunView| {
        let seal = view.opened.run.seal.as_ref();
        seal.is_some_and(|seal| Path::new(&seal.project) == project)
    };
    let mut runs = overview::runs(home)?.0;
    runs.retain(|view| !chunks(&view.opened).is_empty());
    let at = runs.iter().position(is_own).or_else(|| runs.iter().position(is_here));
    Ok(at.map(|at| runs.swap_remove(at)))
}

fn show(
    env: &Env,
    args: &Show,
    (nodes, view): (&[Node<'_>], Option<&RunView>),
) -> Result<(), Failure> {
    if args.json {
        let summary = pipeline::summary(nodes);
        super::print_json(&PipelineJson {
            v: 1,
            run: view.map(|view| view.opened.run.id.as_str()),
            status: view.map(|view| wording::standing(&view.opened.state, view.phase)),
            done: summary.done,
            total: summary.total,
            next: &summary.next,
            chunks: nodes.iter().map(chunk_json).collect(),
        })?;
    } else {
        let signs = if env.speaks_utf8() { &UNICODE } else { &ASCII };
        let columns = term::columns();
        let head = match view {
            Some(view) => headed(nodes, view, columns),
            None => format!("pipeline of {}; no run has it yet", counted(nodes.len())),
        };
        let drawn = format!("{head}\n\n{}", drawn(nodes, signs, columns));
        // The ellipsis of cut text is the only other non-ASCII sign.
        let is_plain = signs.first == ASCII.first;
        term::out(&if is_plain { drawn.replace('…', "~") } else { drawn })?;
    }
    Ok(())
}

fn headed(nodes: &[Node<'_>], view: &RunView, columns: usize) -> String {
    let id = view.opened.run.id.as_str();
    let standing = wording::standing(&view.opened.state, view.phase);
    let words = format!("{standing}  pipeline {}", pipeline::summary(nodes));
    let room = columns.saturating_sub(id.len() + 2).max(LEAST);
    format!("{}  {}", paint(term::BOLD, id), text::cut(&words, room))
}

fn counted(count: usize) -> String {
    if count == 1 { "1 chunk".to_string() } else { format!("{count} chunks") }
}

/// The signs of the drawing.
struct Signs {
    first: &'static str,
    middle: &'static str,
    last: &'static str,
    down: &'static str,
    from: &'static str,
    done: &'static str,
    failing: &'static str,
    waits: &'static str,
}

const UNICODE: Signs = Signs {
    first: "┌",
    middle: "├",
    last: "└",
    down: "│",
    from: "←",
    done: "✓",
    failing: "✗",
    waits: "·",
};

const ASCII: Signs = Signs {
    first: "+",
    middle: "+",
    last: "+",
    down: "|",
    from: "<-",
    done: "v",
    failing: "x",
    waits: ".",
};

fn drawn(nodes: &[Node<'_>], signs: &Signs, columns: usize) -> String {
    let longest = nodes.iter().map(|node| node.chunk.name.len()).max().unwrap_or(0);
    let width = longest.min(LONGEST_NAME);
    let mut out = String::new();
    for (at, node) in nodes.iter().enumerate() {
        let is_first = at == 0;
        let is_last = at + 1 == nodes.len();
        let branch = match (is_first, is_last) {
            (true, true) => " ",
            (true, false) => signs.first,
            (false, true) => signs.last,
            (false, false) => signs.middle,
        };
        if nodes.get(at.wrapping_sub(1)).is_some_and(|before| before.layer != node.layer) {
            out.push_str(&format!("{}\n", paint(term::DIM, signs.down)));
        }
        let name = text::cut(&node.chunk.name, width);
        let from = from(node, signs);
        let room = columns.saturating_sub(width + from.chars().count() + 6).max(LEAST);
        let words = text::cut(&safe(&words(node)), room.min(LONGEST_WORDS));
        let line = format!(
            "{} {} {name:<width$}  {words}{}",
            paint(term::DIM, branch),
            mark(node.at, signs),
            paint(term::DIM, &from),
        );
        out.push_str(&term::fit(&line, columns));
        out.push('\n');
    }
    out
}

/// The chunks it comes after, unless it still waits for all of them: then its state names them.
fn from(node: &Node<'_>, signs: &Signs) -> String {
    const LONGEST: usize = 30;
    if node.chunk.after.is_empty() || node.waits_for.len() == node.chunk.after.len() {
        return String::new();
    }
    format!("  {} {}", signs.from, text::cut(&node.chunk.after.join(", "), LONGEST))
}

fn mark(at: Where, signs: &Signs) -> String {
    match at {
        Where::Done | Where::Claimed => paint(term::GOOD, signs.done),
        Where::Failing => paint(term::BAD, signs.failing),
        Where::Waits | Where::Waived | Where::Running => paint(term::DIM, signs.waits),
        Where::Unknown => paint(term::ODD, "?"),
    }
}

fn words(node: &Node<'_>) -> String {
    let with = |word: &str| match &*node.note {
        "" => word.to_string(),
        why => format!("{word} ({why})"),
    };
    let state = match node.at {
        Where::Done => "done".to_string(),
        Where::Claimed => "done, claimed by its agent".to_string(),
        Where::Waived => "waived by a person".to_string(),
        Where::Failing => with("failing"),
        Where::Running => with("running"),
        Where::Unknown => with("unknown"),
        Where::Waits => format!("waits for {}", node.note),
    };
    match node.working {
        0 => state,
        1 => format!("running: 1 agent; {state}"),
        several => format!("running: {several} agents; {state}"),
    }
}

fn chunk_json<'a>(node: &'a Node<'_>) -> ChunkJson<'a> {
    let Node { chunk, layer, at, note, waits_for, agents, working } = node;
    ChunkJson {
        name: &chunk.name,
        layer: layer + 1,
        state: *at,
        note: if *at == Where::Waits { "" } else { note },
        after: &chunk.after,
        waits_for,
        r#match: &chunk.r#match,
        gates: &chunk.gates,
        outputs: &chunk.outputs,
        agents: AgentsJson { verified: agents.verified, total: agents.all, running: *working },
    }
}
