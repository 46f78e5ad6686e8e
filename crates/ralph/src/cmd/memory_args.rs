//! The command line of `ralph memory`.

use super::project_args::ProjectOutputArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph memory list
  ralph memory add 'the integration tests need redis; run `make redis`'
  ralph memory learn
  ralph memory export

When a run ends, ralph derives lessons from its journal: which finding
held it, which files fixed it, what did not help. The next run of the
project gets those that match its goal, as data, in at most 2,000
characters. `[memory]` in `ralph.toml` sets that.";

#[derive(Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the lessons and notes of this project, most useful first
    List(MemoryListArgs),
    /// Show a lesson with its runs, or a note
    Show(MemoryShowArgs),
    /// Save a note for later sessions, as `ralph learn` does
    Add(MemoryAddArgs),
    /// Forget lessons or notes
    Forget(MemoryForgetArgs),
    /// Print the memory as Markdown, or write it to a `MEMORY.md`
    Export(MemoryExportArgs),
    /// Learn from a run, or from every ended run of this project
    Learn(MemoryLearnArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory list
  ralph memory list --json | jq '.lessons[].finding'")]
pub(crate) struct MemoryListArgs {
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory show acece2bd
  ralph memory show acece2bd --json")]
pub(crate) struct MemoryShowArgs {
    /// The id of a lesson or a note
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory add 'the integration tests need redis; run `make redis`'
  ralph memory add - --title \"How releases are cut\" < notes.md")]
pub(crate) struct MemoryAddArgs {
    /// Save this text; `-` reads it from stdin
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
    /// Set the title [default: the first line]
    #[arg(long, value_name = "TITLE")]
    pub title: Option<String>,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory forget acece2bd
  ralph memory forget --all

The beginning of an id is enough if no other id begins with it. `--all`
asks, then forgets every lesson of the project and keeps the notes. A
forgotten lesson comes back if its finding holds a run that begins
later; `ralph memory learn` does not bring it back. Only a person can
forget.")]
pub(crate) struct MemoryForgetArgs {
    /// The ids of lessons or notes
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    /// Forget every lesson of this project
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Don't ask for confirmation
    #[arg(long, requires = "all")]
    pub yes: bool,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory export
  ralph memory export --to docs/plans/parser/MEMORY.md

`--to` writes between two marks of its own and leaves the rest of the
file as it is. Only a person can use it.")]
pub(crate) struct MemoryExportArgs {
    /// Write to this Markdown file inside the project
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph memory learn
  ralph memory learn k7f2

ralph learns from every run when it ends. This command does it again,
for runs of an earlier version or after a crash; a run counts once,
however often it is learned. An agent learns from its own run only.")]
pub(crate) struct MemoryLearnArgs {
    /// The run [default: every ended run of this project]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
    /// Record failures instead of printing them
    #[arg(long, hide = true, requires = "run")]
    pub in_background: bool,
}
