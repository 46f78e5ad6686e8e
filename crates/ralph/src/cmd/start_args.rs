//! The arguments of `ralph start` and `ralph orchestrator start`.

use crate::limit_args::NewLimitArgs;
use crate::value_parsers::parse_complexity;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph start \"make the parser handle nested quotes\"
  ralph start --goal-file goal.md --checklist --max-iterations 10
  ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --tasks
  echo 'fix the tests' | ralph start --goal-file - --max-duration 2h

Holds a session that is open already; `ralph run` starts one. In an
agent's shell `--session` defaults to its session; elsewhere to the only
session of this project that was active in the last 30 minutes. If the
client has transcripts here, a session without one is refused, because
its id may be misspelt; `--yes` holds it all the same.")]
pub(crate) struct StartArgs {
    /// Describe the goal in a sentence or more
    #[arg(value_name = "GOAL", conflicts_with = "goal_file")]
    pub goal: Option<String>,
    #[command(flatten)]
    pub options: StartOptions,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct StartOptions {
    /// Hold this session [default: the only active one here]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Read the goal from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    pub goal_file: Option<PathBuf>,
    #[command(flatten)]
    pub limits: NewLimitArgs,
    /// End the run when a message closes with `<promise>TEXT</promise>`
    #[arg(long, value_name = "TEXT")]
    pub completion_promise: Option<String>,
    /// Require every feature of `DIR/feature_list.json` (repeatable)
    #[arg(long, value_name = "DIR")]
    pub features: Vec<PathBuf>,
    /// Require every unticked item of this Markdown file (repeatable)
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// Require every item of the conversation's newest task list
    #[arg(long)]
    pub checklist: bool,
    /// Require every task of the client's own task list
    #[arg(long)]
    pub tasks: bool,
    /// Run without the project's policy and gates
    #[arg(long)]
    pub no_gates: bool,
    /// Ignore gates whose `min_complexity` is higher than this (0 to 10)
    #[arg(long, value_name = "N", value_parser = parse_complexity)]
    pub complexity: Option<u8>,
    /// Allow these test files to change, because the goal asks for it
    #[arg(long, value_name = "GLOB")]
    pub may_change: Vec<String>,
    /// Use this project directory [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Hold the session even if no trace of it is found
    #[arg(long, requires = "session")]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
