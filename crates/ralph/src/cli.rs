//! The command line: every command with its options and help texts. Larger commands define theirs in `cmd/`.

use crate::failure::CommandFailure;
use crate::host_arg::host_names;
use crate::limit_args::NewLimitArgs;
use crate::value_parsers::{parse_complexity, parse_count, parse_positive_count};
use crate::{SUCCESS, cmd, version_info};
use clap::builder::PossibleValuesParser;
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
  ralph init
  ralph demo
  ralph run \"make the parser handle nested quotes\"
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
#[command(name = "ralph", version, long_version = version_info::LONG_VERSION.as_str(), about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
pub(crate) struct RalphCli {
    #[command(subcommand)]
    command: RalphCommand,
}

#[derive(Subcommand)]
enum RalphCommand {
    /// Install ralph's hooks and propose gates; shows every change first
    Init(cmd::init::InitArgs),
    /// Remove ralph's hooks and restore the files it changed
    Uninstall(cmd::uninstall::UninstallArgs),
    /// Check that ralph works here; repair what is safe to repair
    Doctor(cmd::doctor::DoctorArgs),
    /// Import the loop files of another tool: tasks, checks, limits, notes
    Import(cmd::import::ImportArgs),
    /// Start a run that holds a session until its requirements are met
    Start(StartArgs),
    /// Drive the agent until the work is done, over as many sessions as needed
    Run(Box<cmd::run::run_args::RunArgs>),
    /// List runs and their state
    Status(StatusArgs),
    /// Explain every decision of a run or session, newest first
    Why(WhyArgs),
    /// Show the journal of a run
    Log(LogArgs),
    /// Pause a run; the agent may stop freely until it is resumed
    Pause(RunNameArgs),
    /// Resume a paused or orphaned run
    Resume(RunNameArgs),
    /// End a run and release its session
    Cancel(RunNameArgs),
    /// Ask a person to decide; the run ends at the next stop (for agents)
    Ask(cmd::declare::AskArgs),
    /// Wait for something external; until then stops are allowed (for agents)
    Wait(cmd::declare::WaitArgs),
    /// Dispute a requirement; a person decides, the rest goes on (for agents)
    Dispute(cmd::declare::DisputeArgs),
    /// Send a message to the agent of a run; it arrives at the next stop
    Tell(cmd::adjust::TellArgs),
    /// Temporarily waive a requirement; every report shows the waiver
    Waive(cmd::adjust::WaiveArgs),
    /// Accept the work of a run that ended `green` or `needs_review`
    Accept(cmd::accept::AcceptArgs),
    /// Show the limits of a run, or change them while it is active
    Limits(cmd::adjust::SetLimitsArgs),
    /// Search past runs, learnings and the memory of this project
    Recall(cmd::recall::RecallArgs),
    /// Record a learning, so that `ralph recall` finds it
    Learn(cmd::learn::LearnArgs),
    /// Run a session in phases, from clarify to retrospect
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::orchestrator::EXAMPLES)]
    Orchestrator(cmd::orchestrator::OrchestratorCommand),
    /// Create and list loop directories with a feature list
    #[command(subcommand, arg_required_else_help = true, after_help = LOOP_EXAMPLES)]
    Loop(cmd::loops::LoopCommand),
    /// Work through a feature list: show, add, check and claim features
    #[command(subcommand, arg_required_else_help = true, after_help = FEATURE_EXAMPLES)]
    Feature(cmd::feature::feature_args::FeatureCommand),
    /// Run gates by hand or in CI; list, explain and propose them
    #[command(subcommand, arg_required_else_help = true, after_help = GATE_EXAMPLES)]
    Gate(cmd::gate::gate_args::GateSubcommand),
    /// Show what the tests of a change prove: old and new tests, old and new code
    Prove(cmd::prove::ProveArgs),
    /// Show the pipeline of a run: its chunks, their order and their progress
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::pipeline::EXAMPLES)]
    Pipeline(cmd::pipeline::PipelineCommand),
    /// Show the policy in force and where each value comes from
    Config(ConfigArgs),
    /// Show whether files count as code, tests, harness or environment
    Explain(cmd::explain_files::ExplainArgs),
    /// Approve the commands of the project's policy and lists; none runs before
    Trust(cmd::trust::TrustArgs),
    /// List, compare and restore checkpoints of the work tree
    #[command(subcommand, arg_required_else_help = true, after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(CheckpointCommand),
    /// Watch ralph hold an agent that stops too early (offline, about 1 s)
    Demo(cmd::demo::DemoArgs),
    /// Play a scenario offline: simulated client and model, real hooks
    Simulate(cmd::simulate::simulate_args::SimulateArgs),
    /// Send a captured hook payload through the configured hooks
    Replay(cmd::replay::replay_args::ReplayArgs),
    Model(cmd::model::ModelArgs),
    Pretend(cmd::pretend::PretendArgs),
    Notify(cmd::notify::NotifyArgs),
    Statusline(cmd::statusline::StatuslineArgs),
    /// Answer one hook event of a coding agent (called by the agent's host)
    Hook(HookArgs),
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
pub(crate) struct StartArgs {
    /// Hold this session [default in an agent's shell: its own]
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
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph status\n  ralph status --all --json | jq '.runs[].status'"
)]
pub(crate) struct StatusArgs {
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
pub(crate) struct WhyArgs {
    /// Show this run or session [default: the most recent decision's]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Show at most this many decisions
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_positive_count)]
    pub last: u32,
    /// Print one JSON object per decision
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph log k7f2\n  ralph log --follow\n  ralph log k7f2 --json | jq .change"
)]
pub(crate) struct LogArgs {
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
pub(crate) struct ConfigArgs {
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
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a run
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
pub(crate) struct CheckpointListArgs {
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
pub(crate) struct CheckpointDiffArgs {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
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
  ralph checkpoint restore k7f2 3 --dry-run
  ralph checkpoint restore k7f2 3

Ignored files, the index, `HEAD` and branches stay as they are. The
state before the restore is saved as a checkpoint too, and can be
restored the same way.")]
pub(crate) struct CheckpointRestoreArgs {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Restore this checkpoint, numbered as in `ralph checkpoint list`
    #[arg(value_parser = parse_count)]
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
pub(crate) struct CheckpointRunArgs {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Exists only for the help and the completions: `hook.rs` parses these arguments before clap is set up.
#[derive(Args)]
struct HookArgs {
    /// Name the calling host
    #[arg(value_name = "HOST", value_parser = PossibleValuesParser::new(host_names()))]
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
pub(crate) struct RunNameArgs {
    /// Name the run, or the session it holds
    #[arg(value_name = "RUN|SESSION")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env) -> u8 {
    let cli = match RalphCli::try_parse_from(std::iter::once("ralph".into()).chain(env.args())) {
        Ok(cli) => cli,
        Err(error) => {
            let typed: Vec<String> =
                env.args().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            return crate::usage_error::report_parse_error(&error, &RalphCli::command(), &typed);
        }
    };
    let done = match cli.command {
        RalphCommand::Gate(gate) => return exit_code(cmd::gate::run(env, &gate)),
        RalphCommand::Prove(args) => return exit_code(cmd::prove::run(env, &args)),
        RalphCommand::Feature(feature) => return exit_code(cmd::feature::run(env, &feature)),
        RalphCommand::Run(run) => return exit_code(cmd::run::run(env, &run)),
        RalphCommand::Demo(demo) => return exit_code(cmd::demo::run(env, &demo)),
        RalphCommand::Simulate(simulate) => return exit_code(cmd::simulate::run(env, &simulate)),
        RalphCommand::Replay(replay) => return exit_code(cmd::replay::run(env, &replay)),
        RalphCommand::Notify(notify) => return exit_code(cmd::notify::run(env, &notify)),
        RalphCommand::Statusline(cmd::statusline::StatuslineArgs {}) => {
            return cmd::statusline::run(env);
        }
        RalphCommand::Pretend(pretend) => return exit_code(cmd::pretend::run(env, &pretend)),
        RalphCommand::Doctor(doctor) => return exit_code(cmd::doctor::run(env, &doctor)),
        RalphCommand::Init(init) => cmd::init::run(env, &init),
        RalphCommand::Import(import) => cmd::import::run(env, &import),
        RalphCommand::Uninstall(uninstall) => cmd::uninstall::run(env, &uninstall),
        RalphCommand::Start(start) => cmd::start::run(env, &start),
        RalphCommand::Status(status) => cmd::status::run(env, &status),
        RalphCommand::Why(why) => cmd::why::run(env, &why),
        RalphCommand::Log(log) => cmd::log::run(env, &log),
        RalphCommand::Pause(run) => cmd::control::pause(env, &run),
        RalphCommand::Resume(run) => cmd::control::resume(env, &run),
        RalphCommand::Cancel(run) => cmd::control::cancel(env, &run),
        RalphCommand::Ask(args) => cmd::declare::ask(env, &args),
        RalphCommand::Wait(args) => cmd::declare::wait(env, &args),
        RalphCommand::Dispute(args) => cmd::declare::dispute(env, &args),
        RalphCommand::Tell(args) => cmd::adjust::tell(env, &args),
        RalphCommand::Waive(args) => cmd::adjust::waive(env, &args),
        RalphCommand::Accept(args) => cmd::accept::run(env, &args),
        RalphCommand::Limits(args) => cmd::adjust::limits(env, &args),
        RalphCommand::Recall(args) => cmd::recall::run(env, &args),
        RalphCommand::Learn(args) => cmd::learn::run(env, &args),
        RalphCommand::Orchestrator(asked) => cmd::orchestrator::run(env, &asked),
        RalphCommand::Loop(asked) => cmd::loops::run(env, &asked),
        RalphCommand::Checkpoint(asked) => cmd::checkpoint::run(env, &asked),
        RalphCommand::Pipeline(asked) => cmd::pipeline::run(env, &asked),
        RalphCommand::Config(config) => cmd::config::run(env, &config),
        RalphCommand::Explain(explain) => cmd::explain_files::run(env, &explain),
        RalphCommand::Trust(trust) => cmd::trust::run(env, &trust),
        RalphCommand::Model(model) => cmd::model::run(env, &model),
        RalphCommand::Completions { shell } => {
            cmd::generate::completions(shell, &mut RalphCli::command())
        }
        RalphCommand::Man { command } => {
            cmd::generate::man(RalphCli::command(), command.as_deref())
        }
        // `main` handles it before clap is set up; clap knows it only for the help.
        RalphCommand::Hook(HookArgs { .. }) => Ok(()),
    };
    exit_code(done.map(|()| SUCCESS))
}

fn exit_code(done: Result<u8, CommandFailure>) -> u8 {
    match done {
        Ok(code) => code,
        Err(failure) => {
            CommandFailure::print(&failure);
            failure.code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_guard::RALPH_SUBCOMMANDS;

    fn add_subcommands(command: &clap::Command, prefix: &str, names: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let name = format!("{prefix}{}", sub.get_name());
            if sub.has_subcommands() {
                add_subcommands(sub, &format!("{name} "), names);
            } else {
                names.push(name);
            }
        }
    }

    /// A new subcommand is denied to agents until the guard's table states who may run it.
    #[test]
    fn the_guard_knows_every_subcommand() {
        let mut names = Vec::new();
        add_subcommands(&RalphCli::command(), "", &mut names);
        names.sort();
        let known: Vec<_> = RALPH_SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, known);
    }
}
