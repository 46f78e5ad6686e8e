//! The command line as people type it.

use crate::report::Failure;
use crate::values::{at_least_one, complexity, count, duration, micro_usd};
use crate::{SUCCESS, cmd};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use ralph_exec::env::Env;
use std::path::PathBuf;

const ABOUT: &str = "Lets a coding agent stop when the work is done";

const LONG_ABOUT: &str = "\
Lets a coding agent stop when the work is done.

A coding agent calls `ralph hook` when it wants to stop. While a run holds its session, ralph
decides: not done yet, and here is what is missing; or done, out of limits, stuck. Every run ends,
and every decision can be explained.";

const EXAMPLES: &str = "\
Examples:
  ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --features csv
  ralph status
  ralph why k7f2
  ralph cancel k7f2

Nobody is held while `RALPH_OFF=1` is set or the file `~/.ralph/off` exists.";

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
    /// Put ralph into the agent's settings and propose gates, after showing all of it
    Init(cmd::init::Init),
    /// Take ralph out of the agent's settings again, without a trace
    Uninstall(cmd::uninstall::Uninstall),
    /// See whether ralph would hold an agent here: settings, hooks, state, gates; repair what is safe
    Doctor(cmd::doctor::Doctor),
    /// Make a loop of another tool's files one of ralph's: what is to be done, checks, limits, notes
    Import(cmd::import::Import),
    /// Hold a session to what is agreed, until it is met, out of limits or stuck
    Start(Start),
    /// Drive the agent itself until the work is done: over as many sessions as it takes, through the night
    Run(Box<cmd::run::args::Run>),
    /// Show the runs there are and how they stand
    Status(Status),
    /// Explain every decision of a run or session, newest first
    Why(Why),
    /// Show the journal of a run
    Log(Log),
    /// Let the agent stop freely until the run is resumed
    Pause(OneRun),
    /// Hold the agent again, after a pause or when the run was orphaned
    Resume(OneRun),
    /// End a run; its session is free at once, until somebody starts another
    Cancel(OneRun),
    /// Say that only a person can go on; the run ends at the next stop (for agents)
    Ask(cmd::declare::Ask),
    /// Say that you wait for something outside; stops are let go until then (for agents)
    Wait(cmd::declare::Wait),
    /// Say that a requirement is wrong; a person settles it, the rest goes on (for agents)
    Dispute(cmd::declare::Disputed),
    /// Tell the agent of a run something; it reads it at its next stop
    Tell(cmd::words::Tell),
    /// Do without a requirement for a while: who, why and until when is told in every report
    Waive(cmd::words::Waive),
    /// Show the limits of a run, or set others while it goes on
    Limits(cmd::words::SetLimits),
    /// Search what is on record: past runs, learnings and memory of this project
    Recall(cmd::recall::Recall),
    /// Write down what was learned, so that `ralph recall` finds it
    Learn(cmd::learn::Learn),
    /// Hold a session through phases: start, show what is missing, say what is done, approve the plan
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::orchestrator::EXAMPLES)]
    Orchestrator(cmd::orchestrator::Orchestrator),
    /// Make loop directories with a feature list, and list them
    #[command(subcommand, arg_required_else_help = true, after_help = LOOP_EXAMPLES)]
    Loop(cmd::loops::LoopCommand),
    /// Work through a feature list: show, add, check and claim features
    #[command(subcommand, arg_required_else_help = true, after_help = FEATURE_EXAMPLES)]
    Feature(cmd::feature::args::Feature),
    /// Run the gates by hand or in CI, list them, explain them, propose them
    #[command(subcommand, arg_required_else_help = true, after_help = GATE_EXAMPLES)]
    Gate(cmd::gate::args::Gate),
    /// Show the pipeline of a run: its chunks, what comes after what, and how far each is
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::pipeline::EXAMPLES)]
    Pipeline(cmd::pipeline::Pipeline),
    /// Show the policy in force, and where each of its values comes from
    Config(Config),
    /// Approve what the project's policy and the checks of its lists run; nothing of it runs before
    Trust(cmd::trust::Trust),
    /// List, compare and bring back the states of the work tree that a run went through
    #[command(subcommand, arg_required_else_help = true, after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(Checkpoint),
    /// Watch ralph hold an agent that would rather be done: offline, in about a second
    Demo(cmd::demo::Demo),
    /// Play a scenario against hooks, offline: the client and its model are simulated, hooks and tools are real
    Simulate(cmd::simulate::args::Simulate),
    /// Send one captured hook payload through the hooks that are configured, and show what the client would do
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
    /// Print the manual page, of ralph or of one of its commands
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

Inside an agent's shell `--session` is known; elsewhere it has to be given.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Start {
    /// The session to hold; inside an agent's shell, its own
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Read the goal from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    pub goal_file: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The agent ends the run by closing a message with `<promise>TEXT</promise>`
    #[arg(long, value_name = "TEXT")]
    pub completion_promise: Option<String>,
    /// A directory with `feature_list.json` (and `progress.txt`); may be given more than once
    #[arg(long, value_name = "DIR")]
    pub features: Vec<PathBuf>,
    /// A Markdown file whose unticked items are to be done; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// Every item of the conversation's newest task list must be ticked
    #[arg(long)]
    pub checklist: bool,
    /// Every task of the client's own task list must be completed
    #[arg(long)]
    pub tasks: bool,
    /// Leave the project's policy and its gates out of this run
    #[arg(long)]
    pub no_gates: bool,
    /// How complex the work is, from 0 to 10: gates with a higher `min_complexity` do not count
    #[arg(long, value_name = "N", value_parser = complexity)]
    pub complexity: Option<u8>,
    /// The project; by default the current directory
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What makes a run finite, whoever drives it.
#[derive(Args, Clone, Default)]
pub(crate) struct LimitArgs {
    /// How often the agent may be held; 0 is without limit [default: the policy's, or 25]
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_iterations: Option<u32>,
    /// Hold the agent at least this often, to polish, even when everything is met
    #[arg(long, value_name = "N", value_parser = count)]
    pub min_iterations: Option<u32>,
    /// How long the run may take, such as `90m`; `0s` is without limit [default: the policy's, or 8h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub max_duration: Option<u64>,
    /// How much may be spent from now on, in USD; 0 is without limit [default: the policy's, or 20]
    #[arg(
        long,
        visible_alias = "max-cost",
        value_name = "USD",
        allow_negative_numbers = true,
        value_parser = micro_usd
    )]
    pub max_cost_usd: Option<u64>,
    /// End the run when this many stops in a row brought nothing new [default: the policy's, or 3]
    #[arg(long, value_name = "N", value_parser = count)]
    pub stuck_after: Option<u32>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph status\n  ralph status --all --json | jq '.runs[].status'"
)]
pub(crate) struct Status {
    /// Only this run, the run of this session, or this queue with its tasks
    #[arg(value_name = "RUN|SESSION|QUEUE")]
    pub name: Option<String>,
    /// Also queues that are over, and runs that ended more than a day ago
    #[arg(long)]
    pub all: bool,
    /// Forget the trouble that was listed so far
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
    /// A run or a session; without one, whatever was decided about last
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Only this many decisions
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
    /// A run or a session; without one, whatever was decided about last
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Go on printing what is added, until interrupted or the run ends
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
    /// One line for every value, with the file and line that says it
    #[arg(long, conflicts_with_all = ["json", "schema"])]
    pub explain: bool,
    /// Print the JSON schema of `ralph.toml`
    #[arg(long, conflicts_with = "json")]
    pub schema: bool,
    /// The project; by default the nearest directory upwards that has a policy
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Checkpoint {
    /// Show the checkpoints of a run
    List(CheckpointList),
    /// Show what changed from one checkpoint to another, or to now
    Diff(CheckpointDiff),
    /// Make the files what they were, after a checkpoint of what they are
    Restore(CheckpointRestore),
    /// Make a checkpoint now
    Make(CheckpointOf),
    /// Forget the checkpoints of a run that has ended
    Prune(CheckpointOf),
}

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  ralph checkpoint list k7f2
  ralph checkpoint diff k7f2 3
  ralph checkpoint restore k7f2 3 --dry-run

A checkpoint has every file that git tracks or would, as it was on disk. It is a commit on a ref of
its own, `refs/ralph/RUN/NUMBER`; the index, `HEAD`, branches and stash are never touched.";

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph checkpoint list\n  ralph checkpoint list k7f2 --json | jq '.checkpoints[].why'"
)]
pub(crate) struct CheckpointList {
    /// A run, or the session that it holds; without one, the run active last
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
    /// A run, or the session that it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// The checkpoint to start from; by default the first
    #[arg(value_parser = count)]
    pub from: Option<u32>,
    /// The checkpoint to end at; by default what is there now
    #[arg(value_parser = count)]
    pub to: Option<u32>,
    /// Only count lines
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

Ignored files, the index, `HEAD` and branches stay as they are. What was there before is a checkpoint
too, and can be restored the same way.")]
pub(crate) struct CheckpointRestore {
    /// A run, or the session that it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// The checkpoint, as `ralph checkpoint list` shows it
    #[arg(value_parser = count)]
    pub number: u32,
    /// Only say what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph checkpoint make k7f2\n  ralph checkpoint prune k7f2")]
pub(crate) struct CheckpointOf {
    /// A run, or the session that it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Read in `hook.rs`, before this is: here for the help and the completions.
#[derive(Args)]
struct Hook {
    /// The agent that calls
    #[arg(value_name = "HOST", value_parser = ["claude"])]
    host: String,
    /// How a block is said
    #[arg(long, value_name = "STYLE", value_parser = ["exit2", "context", "json"])]
    style: Option<String>,
    /// Answer within this time, whatever happens
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph pause k7f2\n  ralph resume k7f2\n  ralph cancel 5999882c"
)]
pub(crate) struct OneRun {
    /// A run, or the session that it holds
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
        // Taken before the command line is parsed; clap knows it for the sake of the help.
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
