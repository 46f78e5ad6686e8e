//! The command line: every command with its options and help texts. Larger commands define theirs in `cmd/`.

use crate::report::Failure;
use crate::values::{at_least_one, complexity, count, duration, micro_usd};
use crate::{SUCCESS, cmd};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use ralph_sys::env::Env;
use std::path::PathBuf;

const ABOUT: &str = "Won't let a coding agent stop until the work is done";

const LONG_ABOUT: &str = "\
Won't let a coding agent stop until the work is done.

A coding agent calls `ralph hook` whenever it wants to stop. While a run
holds its session, ralph decides: the work is not done, and this is what
is missing; or it is done, out of limits, or stuck. Every run ends, and
every decision can be explained.";

const EXAMPLES: &str = "\
Examples:
  ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --features csv
  ralph status
  ralph why k7f2
  ralph cancel k7f2

To turn ralph off, set `RALPH_OFF=1` or create the file `~/.ralph/off`.";

const GATE_EXAMPLES: &str = "\
Examples:
  ralph gate detect --write
  ralph gate run
  ralph gate explain tests";

const LOOP_EXAMPLES: &str = "\
Examples:
  ralph loop new csv --from features.md
  ralph loop list";

const FEATURE_EXAMPLES: &str = "\
Examples:
  ralph feature next
  ralph feature verify 4
  ralph feature claim 4
  ralph feature add \"Export as CSV\" --verify -- cargo test csv_export";

#[derive(Parser)]
#[command(name = "ralph", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install ralph's hooks and propose gates; shows every change first
    Init(cmd::init::Init),
    /// Remove ralph's hooks and restore the files it changed
    Uninstall(cmd::uninstall::Uninstall),
    /// Check that ralph works here; repair what is safe to repair
    Doctor(cmd::doctor::Doctor),
    /// Import the loop files of another tool: tasks, checks, limits, notes
    Import(cmd::import::Import),
    /// Start a run that holds a session until its requirements are met
    Start(Start),
    /// Drive the agent until the work is done, over as many sessions as needed
    Run(Box<cmd::run::args::Run>),
    /// List runs and their state
    Status(Status),
    /// Explain every decision of a run or session, newest first
    Why(Why),
    /// Show the journal of a run
    Log(Log),
    /// Pause a run; the agent may stop freely until it is resumed
    Pause(OneRun),
    /// Resume a paused or orphaned run
    Resume(OneRun),
    /// End a run and release its session
    Cancel(OneRun),
    /// Ask a person to decide; the run ends at the next stop (for agents)
    Ask(cmd::declare::Ask),
    /// Wait for something external; until then stops are allowed (for agents)
    Wait(cmd::declare::Wait),
    /// Dispute a requirement; a person decides, the rest goes on (for agents)
    Dispute(cmd::declare::Disputed),
    /// Send a message to the agent of a run; it arrives at the next stop
    Tell(cmd::words::Tell),
    /// Temporarily waive a requirement; every report shows the waiver
    Waive(cmd::words::Waive),
    /// Show the limits of a run, or change them while it is active
    Limits(cmd::words::SetLimits),
    /// Search past runs, learnings and the memory of this project
    Recall(cmd::recall::Recall),
    /// Record a learning, so that `ralph recall` finds it
    Learn(cmd::learn::Learn),
    /// Run a session in phases, from clarify to retrospect
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::orchestrator::EXAMPLES)]
    Orchestrator(cmd::orchestrator::Orchestrator),
    /// Create and list loop directories with a feature list
    #[command(subcommand, arg_required_else_help = true, after_help = LOOP_EXAMPLES)]
    Loop(cmd::loops::LoopCommand),
    /// Work through a feature list: show, add, check and claim features
    #[command(subcommand, arg_required_else_help = true, after_help = FEATURE_EXAMPLES)]
    Feature(cmd::feature::args::Feature),
    /// Run gates by hand or in CI; list, explain and propose them
    #[command(subcommand, arg_required_else_help = true, after_help = GATE_EXAMPLES)]
    Gate(cmd::gate::args::Gate),
    /// Show the pipeline of a run: its chunks, their order and their progress
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::pipeline::EXAMPLES)]
    Pipeline(cmd::pipeline::Pipeline),
    /// Show the policy in force and where each value comes from
    Config(Config),
    /// Approve the commands of the project's policy and lists; none runs before
    Trust(cmd::trust::Trust),
    /// List, compare and restore checkpoints of the work tree
    #[command(subcommand, arg_required_else_help = true, after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(Checkpoint),
    /// Watch ralph hold an agent that stops too early (offline, about 1 s)
    Demo(cmd::demo::Demo),
    /// Play a scenario offline: simulated client and model, real hooks
    Simulate(cmd::simulate::args::Simulate),
    /// Send a captured hook payload through the configured hooks
    Replay(cmd::replay::args::Replay),
    Model(cmd::model::Model),
    Pretend(cmd::pretend::Pretend),
    Notify(cmd::notify::Notify),
    Statusline(cmd::statusline::Statusline),
    /// Answer one hook event of a coding agent (called by the agent's host)
    Hook(Hook),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  ralph completions bash > ~/.local/share/bash-completion/completions/ralph\n  ralph completions zsh > ~/.zfunc/_ralph"
    )]
    Completions {
        shell: Shell,
    },
    /// Print the manual page of ralph or of one of its commands
    #[command(
        after_help = "Examples:\n  mkdir -p ~/.local/share/man/man1\n  ralph man > ~/.local/share/man/man1/ralph.1\n  ralph man start | man -l -"
    )]
    Man {
        command: Option<String>,
    },
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --features .claude/data/ralph-loops/csv
  echo 'make the parser handle nested quotes' | ralph start --goal-file - --completion-promise DONE
  ralph start --goal-file goal.md --checklist --max-iterations 10 --max-duration 2h
  ralph start --plan PLAN.md --tasks

Inside an agent's shell `--session` defaults to its session; elsewhere
it is required.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Start {
    /// Hold this session [default in an agent's shell: its own]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Read the goal from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    pub goal_file: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// End the run when a message closes with `<promise>TEXT</promise>`
    #[arg(long, value_name = "TEXT")]
    pub completion_promise: Option<String>,
    /// Require every feature of DIR/feature_list.json (repeatable)
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
    #[arg(long, value_name = "N", value_parser = complexity)]
    pub complexity: Option<u8>,
    /// Use this project directory [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The limits of a run, for both `ralph start` and `ralph run`.
#[derive(Args, Clone, Default)]
pub(crate) struct LimitArgs {
    /// Hold the agent at most N times; 0: no limit [default: policy, or 25]
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_iterations: Option<u32>,
    /// Hold the agent at least N times, even when everything is met
    #[arg(long, value_name = "N", value_parser = count)]
    pub min_iterations: Option<u32>,
    /// End after a time such as `90m`; 0: no limit [default: policy, or 8h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub max_duration: Option<u64>,
    /// Spend at most this from now on; 0: no limit [default: policy, or 20]
    #[arg(
        long,
        visible_alias = "max-cost",
        value_name = "USD",
        allow_negative_numbers = true,
        value_parser = micro_usd
    )]
    pub max_cost_usd: Option<u64>,
    /// End after N stops in a row without progress [default: policy, or 3]
    #[arg(long, value_name = "N", value_parser = count)]
    pub stuck_after: Option<u32>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph status\n  ralph status --all --json | jq '.runs[].status'"
)]
pub(crate) struct Status {
    /// Show only this run, session or queue
    #[arg(value_name = "RUN|SESSION|QUEUE")]
    pub name: Option<String>,
    /// Include finished queues and runs that ended over a day ago
    #[arg(long)]
    pub all: bool,
    /// Clear the faults listed so far
    #[arg(long)]
    pub clear_trouble: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph why\n  ralph why k7f2 --last 1\n  ralph why 5999882c-e786-462c-84d4-07d1c65b5e76 --json"
)]
pub(crate) struct Why {
    /// Show this run or session [default: the most recent decision's]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Show at most this many decisions
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub last: u32,
    /// Print one JSON object per decision
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph log k7f2\n  ralph log --follow\n  ralph log k7f2 --json | jq .change"
)]
pub(crate) struct Log {
    /// Show this run or session [default: the most recent decision's]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Keep printing new lines until interrupted or the run ends
    #[arg(long, short)]
    pub follow: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph config
  ralph config --explain | grep timeout
  ralph config --schema > ralph.schema.json")]
pub(crate) struct Config {
    /// Print each value with the file and line that set it
    #[arg(long, conflicts_with_all = ["json", "schema"])]
    pub explain: bool,
    /// Print the JSON schema of `ralph.toml`
    #[arg(long, conflicts_with = "json")]
    pub schema: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Checkpoint {
    /// List the checkpoints of a run
    List(CheckpointList),
    /// Show what changed between two checkpoints, or since one
    Diff(CheckpointDiff),
    /// Restore files to a checkpoint (the current state is saved first)
    Restore(CheckpointRestore),
    /// Create a checkpoint now
    Make(CheckpointOf),
    /// Delete the checkpoints of a run that has ended
    Prune(CheckpointOf),
}

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  ralph checkpoint list k7f2
  ralph checkpoint diff k7f2 3
  ralph checkpoint restore k7f2 3 --dry-run

A checkpoint holds every file that git tracks or would track, as it was
on disk. It is a commit on a ref of its own, `refs/ralph/RUN/NUMBER`;
the index, `HEAD`, branches and stash are never touched.";

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph checkpoint list\n  ralph checkpoint list k7f2 --json | jq '.checkpoints[].why'"
)]
pub(crate) struct CheckpointList {
    /// Show this run or session [default: the run active last]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph checkpoint diff k7f2\n  ralph checkpoint diff k7f2 3 4 --stat\n  ralph checkpoint diff k7f2 3 --json | jq '.files[].path'"
)]
pub(crate) struct CheckpointDiff {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Compare from this checkpoint [default: the first]
    #[arg(value_parser = count)]
    pub from: Option<u32>,
    /// Compare to this checkpoint [default: the current files]
    #[arg(value_parser = count)]
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
  ralph checkpoint restore k7f2 3 --dry-run
  ralph checkpoint restore k7f2 3

Ignored files, the index, `HEAD` and branches stay as they are. The
state before the restore is saved as a checkpoint too, and can be
restored the same way.")]
pub(crate) struct CheckpointRestore {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Restore this checkpoint, numbered as in `ralph checkpoint list`
    #[arg(value_parser = count)]
    pub number: u32,
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
pub(crate) struct CheckpointOf {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Exists only for the help and the completions: `hook.rs` parses these arguments before clap is set up.
#[derive(Args)]
struct Hook {
    /// Name the host that calls
    #[arg(value_name = "HOST", value_parser = ["claude"])]
    host: String,
    /// Choose how a block is reported
    #[arg(long, value_name = "STYLE", value_parser = ["exit2", "context", "json"])]
    style: Option<String>,
    /// Answer within this time in any case
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph pause k7f2\n  ralph resume k7f2\n  ralph cancel 5999882c"
)]
pub(crate) struct OneRun {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env) -> u8 {
    let cli = match Cli::try_parse_from(std::iter::once("ralph".into()).chain(env.args())) {
        Ok(cli) => cli,
        Err(error) => {
            let first = env.args().first().map(|first| first.to_string_lossy().into_owned());
            return crate::usage::answer(&error, &Cli::command(), first.as_deref());
        }
    };
    let done = match cli.command {
        Command::Gate(gate) => return ended(cmd::gate::run(env, &gate)),
        Command::Feature(feature) => return ended(cmd::feature::run(env, &feature)),
        Command::Run(run) => return ended(cmd::run::run(env, &run)),
        Command::Demo(demo) => return ended(cmd::demo::run(env, &demo)),
        Command::Simulate(simulate) => return ended(cmd::simulate::run(env, &simulate)),
        Command::Replay(replay) => return ended(cmd::replay::run(env, &replay)),
        Command::Notify(notify) => return ended(cmd::notify::run(env, &notify)),
        Command::Statusline(cmd::statusline::Statusline {}) => return cmd::statusline::run(env),
        Command::Pretend(pretend) => return ended(cmd::pretend::run(env, &pretend)),
        Command::Doctor(doctor) => return ended(cmd::doctor::run(env, &doctor)),
        Command::Init(init) => cmd::init::run(env, &init),
        Command::Import(import) => cmd::import::run(env, &import),
        Command::Uninstall(uninstall) => cmd::uninstall::run(env, &uninstall),
        Command::Start(start) => cmd::start::run(env, &start),
        Command::Status(status) => cmd::status::run(env, &status),
        Command::Why(why) => cmd::why::run(env, &why),
        Command::Log(log) => cmd::log::run(env, &log),
        Command::Pause(run) => cmd::control::pause(env, &run),
        Command::Resume(run) => cmd::control::resume(env, &run),
        Command::Cancel(run) => cmd::control::cancel(env, &run),
        Command::Ask(args) => cmd::declare::ask(env, &args),
        Command::Wait(args) => cmd::declare::wait(env, &args),
        Command::Dispute(args) => cmd::declare::dispute(env, &args),
        Command::Tell(args) => cmd::words::tell(env, &args),
        Command::Waive(args) => cmd::words::waive(env, &args),
        Command::Limits(args) => cmd::words::limits(env, &args),
        Command::Recall(args) => cmd::recall::run(env, &args),
        Command::Learn(args) => cmd::learn::run(env, &args),
        Command::Orchestrator(asked) => cmd::orchestrator::run(env, &asked),
        Command::Loop(asked) => cmd::loops::run(env, &asked),
        Command::Checkpoint(asked) => cmd::checkpoint::run(env, &asked),
        Command::Pipeline(asked) => cmd::pipeline::run(env, &asked),
        Command::Config(config) => cmd::config::run(env, &config),
        Command::Trust(trust) => cmd::trust::run(env, &trust),
        Command::Model(model) => cmd::model::run(env, &model),
        Command::Completions { shell } => cmd::generate::completions(shell, &mut Cli::command()),
        Command::Man { command } => cmd::generate::man(Cli::command(), command.as_deref()),
        // `main` handles it before clap is set up; clap knows it only for the help.
        Command::Hook(Hook { .. }) => Ok(()),
    };
    ended(done.map(|()| SUCCESS))
}

fn ended(done: Result<u8, Failure>) -> u8 {
    match done {
        Ok(code) => code,
        Err(failure) => {
            Failure::print(&failure);
            failure.code()
        }
    }
}
