//! `ralph list …`: everything that can be listed, under one name.

use super::checkpoint_args::CheckpointListArgs;
use super::feature::feature_args::FeatureListArgs;
use super::gate::gate_args::GateListArgs;
use super::loops::LoopListArgs;
use super::run::queue::queue_status::queue_paragraph;
use super::{adjust, checkpoint, feature, gate, learn, loops, open_home, run_choice, status};
use crate::failure::CommandFailure;
use crate::term;
use clap::{Args, Subcommand};
use ralph_deck::view::queue_status::{self, QueueStatus, QueueStatusView};
use ralph_sys::env::Env;
use serde::Serialize;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph list runs --all
  ralph list gates
  ralph list checkpoints k7f2";

#[derive(Subcommand)]
pub(crate) enum ListCommand {
    /// List the runs of this project, also old ones
    Runs(ListRunsArgs),
    /// List the queues of this project and their progress
    Queues(ListQueuesArgs),
    /// List the gates of the policy
    Gates(GateListArgs),
    /// List every feature: claimed or open, and its check
    Features(FeatureListArgs),
    /// List the loops of the project and the runs that work on them
    Loops(LoopListArgs),
    /// List the checkpoints of a run
    Checkpoints(CheckpointListArgs),
    /// List the waivers of the runs in progress
    Waivers(ListWaiversArgs),
    /// List the learnings of this project, newest first
    Learnings(ListLearningsArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph list runs\n  ralph list runs --all --json")]
pub(crate) struct ListRunsArgs {
    /// List the runs of all projects
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph list queues\n  ralph list queues --all --json")]
pub(crate) struct ListQueuesArgs {
    /// List the queues of all projects
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph list waivers\n  ralph list waivers --run k7f2")]
pub(crate) struct ListWaiversArgs {
    /// List only the waivers of this run, or of the session it holds
    #[arg(long, value_name = "RUN|SESSION", conflicts_with = "all")]
    pub run: Option<String>,
    /// List the waivers of all projects
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph list learnings\n  ralph list learnings --json")]
pub(crate) struct ListLearningsArgs {
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct QueueListJson<'a> {
    v: u8,
    queues: Vec<QueueStatusView<'a>>,
}

pub(crate) fn run(env: &Env, list: &ListCommand) -> Result<(), CommandFailure> {
    match list {
        ListCommand::Runs(args) => status::list_runs(env, args),
        ListCommand::Queues(args) => list_queues(env, args),
        ListCommand::Gates(args) => gate::list::run(env, args),
        ListCommand::Features(args) => feature::list(env, args),
        ListCommand::Loops(args) => loops::list_loops(env, args),
        ListCommand::Checkpoints(args) => checkpoint::list(env, args),
        ListCommand::Waivers(args) => {
            let choice = adjust::WaiverListChoice {
                run: args.run.as_deref(),
                all: args.all,
                json: args.json,
            };
            adjust::list_waivers(env, &choice)
        }
        ListCommand::Learnings(args) => learn::list_project_learnings(env, args),
    }
}

fn list_queues(env: &Env, args: &ListQueuesArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let (mut queues, unreadable) = queue_status::all_queues(&home);
    if let Some(error) = unreadable.into_iter().next() {
        return Err(CommandFailure::caused_by("cannot read the queues", &error));
    }
    if !args.all {
        let scope = run_choice::current_scope(env)?;
        queues.retain(|queue| scope.contains_directory(&queue.project));
    }
    if args.json {
        let queues = queues.iter().map(QueueStatus::view).collect();
        super::print_json(&QueueListJson { v: 1, queues })?;
        return Ok(());
    }
    let lines: String = queues.iter().map(queue_paragraph).collect();
    let nothing = "no queues; `ralph run --queue FILE` works through one\n";
    term::out(if lines.is_empty() { nothing } else { &lines })?;
    Ok(())
}
