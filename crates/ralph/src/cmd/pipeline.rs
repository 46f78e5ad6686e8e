//! `ralph pipeline`: draws the chunks of a pipeline, their order, and the state of each.

use super::open_home;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::{Args, Subcommand};
use ralph_core::id::SessionId;
use ralph_core::pipeline::{self, ChunkStatus, PipelineHistory, PipelineNode};
use ralph_core::text;
use ralph_deck::view::pipeline_chunks::{self, pipeline_nodes, sealed_chunks, state_text};
use ralph_deck::wording::{self, count_noun, safe_line};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::overview::{self, RunView};
use ralph_policy::config;
use ralph_sys::env::Env;
use std::path::Path;

const LONGEST_NAME: usize = 24;
/// The minimum number of columns for the state of a chunk, even on a narrow terminal.
const MIN_STATE_COLUMNS: usize = 24;
const MAX_STATE_CHARS: usize = 160;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph pipeline show
  ralph pipeline show k7f2
  ralph pipeline show --json | jq '.chunks[] | select(.state == \"failing\").name'";

#[derive(Subcommand)]
pub(crate) enum PipelineCommand {
    /// Draw the chunks, layer by layer, with the state of each; runs nothing
    Show(PipelineShowArgs),
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PipelineShowArgs {
    /// Show this run or session [default: this session's, or the latest here]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, asked: &PipelineCommand) -> Result<(), CommandFailure> {
    let PipelineCommand::Show(args) = asked;
    let home = open_home(env)?;
    let view = match &args.name {
        Some(name) => Some(named_pipeline_run(&home, name)?),
        None => default_pipeline_run(env, &home)?,
    };
    if let Some(view) = view {
        let nodes = pipeline_nodes(&home, &view.opened, sealed_chunks(&view.opened));
        return show(env, args, (&nodes, Some(&view)));
    }
    let config = config::load(&super::config::project_dir(env, None)?, &home)?;
    if config.policy.pipeline.is_empty() {
        let hint = "define one with `[[pipeline.chunk]]` in `ralph.toml`; `ralph config` checks it";
        return Err(CommandFailure::new("there is no pipeline here", hint));
    }
    show(
        env,
        args,
        (&pipeline::pipeline_nodes(&config.policy.pipeline, &PipelineHistory::default()), None),
    )
}

fn named_pipeline_run(home: &RalphHome, name: &str) -> Result<RunView, CommandFailure> {
    let run = super::run_choice::find_run(home, name, |_| {
        let what = format!("no run owns session `{}`", safe_line(name));
        CommandFailure::new(&what, "`ralph status --all` lists all runs")
    })?;
    let opened = store::load_run(home, &run)?;
    if sealed_chunks(&opened).is_empty() {
        let hint = "a run keeps the pipeline that the policy had at its start: `ralph config`";
        return Err(CommandFailure::new(&format!("run `{run}` has no pipeline"), hint));
    }
    Ok(RunView::new(home, opened))
}

/// The run of the calling session, or the last run of this project.
fn default_pipeline_run(env: &Env, home: &RalphHome) -> Result<Option<RunView>, CommandFailure> {
    let session = host_env::host_session(env);
    let project = super::config::project_dir(env, None)?;
    let is_own = |view: &RunView| {
        let owner = view.opened.state.owner(&view.opened.run);
        owner.is_some() && owner.map(SessionId::as_str) == session.as_deref()
    };
    let is_here = |view: &RunView| {
        let seal = view.opened.run.seal.as_ref();
        seal.is_some_and(|seal| Path::new(&seal.project) == project)
    };
    let mut runs = overview::list_run_views(home)?.0;
    runs.retain(|view| !sealed_chunks(&view.opened).is_empty());
    let at = runs.iter().position(is_own).or_else(|| runs.iter().position(is_here));
    Ok(at.map(|at| runs.swap_remove(at)))
}

fn show(
    env: &Env,
    args: &PipelineShowArgs,
    (nodes, view): (&[PipelineNode<'_>], Option<&RunView>),
) -> Result<(), CommandFailure> {
    if args.json {
        super::print_json(&pipeline_chunks::pipeline_view(nodes, view))?;
    } else {
        let signs = if env.supports_utf8() { &UNICODE } else { &ASCII };
        let columns = term::columns();
        let head = match view {
            Some(view) => heading(nodes, view, columns),
            None => format!("pipeline of {}; no run has it yet", count_noun(nodes.len(), "chunk")),
        };
        let drawn = format!("{head}\n\n{}", draw(nodes, signs, columns));
        // The ellipsis of cut text is the only other non-ASCII sign.
        let is_plain = signs.first == ASCII.first;
        term::out(&if is_plain { drawn.replace('…', "~") } else { drawn })?;
    }
    Ok(())
}

fn heading(nodes: &[PipelineNode<'_>], view: &RunView, columns: usize) -> String {
    let id = view.opened.run.id.as_str();
    let standing = wording::standing(&view.opened.state, view.phase);
    let words = format!("{standing}  pipeline {}", pipeline::summarize_nodes(nodes));
    let room = columns.saturating_sub(id.len() + 2).max(MIN_STATE_COLUMNS);
    format!("{}  {}", paint(term::BOLD, id), text::truncate(&words, room))
}

/// The signs of the drawing.
struct PipelineSigns {
    first: &'static str,
    middle: &'static str,
    last: &'static str,
    down: &'static str,
    from: &'static str,
    done: &'static str,
    failing: &'static str,
    waits: &'static str,
}

const UNICODE: PipelineSigns = PipelineSigns {
    first: "┌",
    middle: "├",
    last: "└",
    down: "│",
    from: "←",
    done: "✓",
    failing: "✗",
    waits: "·",
};

const ASCII: PipelineSigns = PipelineSigns {
    first: "+",
    middle: "+",
    last: "+",
    down: "|",
    from: "<-",
    done: "v",
    failing: "x",
    waits: ".",
};

fn draw(nodes: &[PipelineNode<'_>], signs: &PipelineSigns, columns: usize) -> String {
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
        let name = text::truncate(&node.chunk.name, width);
        let from = predecessors(node, signs);
        let room = columns.saturating_sub(width + from.chars().count() + 6).max(MIN_STATE_COLUMNS);
        let words = text::truncate(&safe_line(&state_text(node)), room.min(MAX_STATE_CHARS));
        let line = format!(
            "{} {} {name:<width$}  {words}{}",
            paint(term::DIM, branch),
            state_mark(node.status, signs),
            paint(term::DIM, &from),
        );
        out.push_str(&term::fit(&line, columns));
        out.push('\n');
    }
    out
}

/// The chunks it comes after, unless it still waits for all of them: then its state names them.
fn predecessors(node: &PipelineNode<'_>, signs: &PipelineSigns) -> String {
    const LONGEST: usize = 30;
    if node.chunk.after.is_empty() || node.waits_for.len() == node.chunk.after.len() {
        return String::new();
    }
    format!("  {} {}", signs.from, text::truncate(&node.chunk.after.join(", "), LONGEST))
}

fn state_mark(at: ChunkStatus, signs: &PipelineSigns) -> String {
    match at {
        ChunkStatus::Done | ChunkStatus::Claimed => paint(term::GOOD, signs.done),
        ChunkStatus::Failing => paint(term::BAD, signs.failing),
        ChunkStatus::Waits | ChunkStatus::Waived | ChunkStatus::Running => {
            paint(term::DIM, signs.waits)
        }
        ChunkStatus::Unknown | ChunkStatus::AwaitsPerson => paint(term::WARN, "?"),
    }
}
