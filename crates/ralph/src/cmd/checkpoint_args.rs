//! The arguments of `ralph checkpoint`.

use crate::value_parsers::parse_count;
use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a run
    #[command(hide = true)]
    List(CheckpointListArgs),
    /// Show what changed between two checkpoints, or since one
    Diff(CheckpointDiffArgs),
    /// Restore files to a checkpoint (the current state is saved first)
    Restore(CheckpointRestoreArgs),
    /// Create a checkpoint now
    Make(CheckpointRunArgs),
    /// Delete the checkpoints of a run that has ended
    Prune(CheckpointRunArgs),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph list checkpoints
  ralph checkpoint diff 3
  ralph checkpoint restore k7f2 3 --dry-run

A checkpoint holds every file that git tracks or would track, as it was
on disk. It is a commit on a ref of its own, `refs/ralph/RUN/NUMBER`;
the index, `HEAD`, branches and stash are never touched.";

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph list checkpoints\n  ralph list checkpoints k7f2 --json | jq '.checkpoints[].why'"
)]
pub(crate) struct CheckpointListArgs {
    /// Show this run or session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph checkpoint diff\n  ralph checkpoint diff 3 4 --stat\n  ralph checkpoint diff k7f2 3 --json | jq '.files[].path'"
)]
pub(crate) struct CheckpointDiffArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Compare from this checkpoint [default: the first]
    #[arg(value_parser = parse_count)]
    pub from: Option<u32>,
    /// Compare to this checkpoint [default: the current files; for a run
    /// that has ended, its last checkpoint]
    #[arg(value_parser = parse_count)]
    pub to: Option<u32>,
    /// Show only the number of changed lines
    #[arg(long)]
    pub stat: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "stat")]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph checkpoint restore 3 --dry-run
  ralph checkpoint restore k7f2 3

Ignored files, the index, `HEAD` and branches stay as they are. The
state before the restore is saved as a checkpoint too, and can be
restored the same way.")]
pub(crate) struct CheckpointRestoreArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION", required_unless_present = "number")]
    pub name: Option<String>,
    /// Restore this checkpoint, numbered as in `ralph list checkpoints`
    #[arg(value_parser = parse_count)]
    pub number: Option<u32>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph checkpoint make k7f2\n  ralph checkpoint prune k7f2")]
pub(crate) struct CheckpointRunArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
