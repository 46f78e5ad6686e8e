//! The command line: every command, and the call that carries it out. The commands define their options in `cmd/`.

use crate::command_groups::{self, HelpExtent};
use crate::failure::CommandFailure;
use crate::host_arg::host_names;
use crate::term::ColorWhen;
use crate::{SUCCESS, cmd, term, usage_error, version_info};
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use ralph_sys::env::Env;
use std::ffi::OsString;

const ABOUT: &str = "Won't let a coding agent stop until the work is done";

const LONG_ABOUT: &str = "\
Won't let a coding agent stop until the work is done.

A coding agent calls `ralph hook` whenever it wants to stop. While a run
holds its session, ralph decides: the work is not done, and this is what
is missing; or it is done, out of limits, or stuck. Every run ends, and
every decision can be explained.";

const GATE_EXAMPLES: &str = "\
Examples:
  ralph gate detect --write
  ralph gate run
  ralph gate explain tests";

const LOOP_EXAMPLES: &str = "\
Examples:
  ralph loop new csv --from features.md
  ralph list loops";

const FEATURE_EXAMPLES: &str = "\
Examples:
  ralph feature next
  ralph feature verify 4
  ralph feature claim 4
  ralph feature add \"Export as CSV\" --verify -- cargo test csv_export";

/// The help of the whole program is written by [`command_groups`], because clap cannot show commands in groups.
#[derive(Parser)]
#[command(name = "ralph", version, long_version = version_info::LONG_VERSION.as_str(), about = ABOUT, long_about = LONG_ABOUT, after_help = command_groups::EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 80)]
pub(crate) struct RalphCli {
    /// Color the output
    #[arg(long, global = true, hide = true, value_name = "WHEN", value_enum, default_value_t)]
    color: ColorWhen,
    #[command(subcommand)]
    command: Option<RalphCommand>,
}

#[derive(Subcommand)]
enum RalphCommand {
    /// Install ralph's hooks and propose gates; shows every change first
    Init(cmd::init::InitArgs),
    /// Remove ralph's hooks and restore the files it changed
    Uninstall(cmd::uninstall::UninstallArgs),
    /// Show what ralph keeps, and remove what is no longer needed
    Clean(cmd::clean::CleanArgs),
    /// Check that ralph works here; repair what is safe to repair
    Doctor(cmd::doctor::DoctorArgs),
    /// Import the loop files of another tool: tasks, checks, limits
    Import(cmd::import::ImportArgs),
    /// Hold an open session until the work is done
    Start(Box<cmd::start_args::StartArgs>),
    /// Drive the agent until the work is done, over several sessions
    Run(Box<cmd::run::run_args::RunArgs>),
    /// Agree on steps with a check each, and try the checks, before a run
    Plan(Box<cmd::plan::PlanArgs>),
    /// Show the runs of this project and their state
    Status(cmd::status::StatusArgs),
    /// Explain every decision of a run or session, newest first
    Why(cmd::why::WhyArgs),
    /// Show the journal of a run
    Log(cmd::log::LogArgs),
    /// Watch all runs on a board: answer, pause, waive, filter
    Watch(cmd::watch::WatchArgs),
    /// Write the report of a run, or a signed statement about it
    Report(cmd::report::ReportArgs),
    /// Check a signed statement about a run against a repository
    VerifyReport(cmd::verify_report::VerifyReportArgs),
    /// Serve the board on a web page, by default to this machine only
    Serve(cmd::serve::ServeArgs),
    /// Show what runs cost, what holds agents, and what to change
    Stats(cmd::stats::StatsArgs),
    /// List runs, queues, gates, features, loops, checkpoints and more
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::list_commands::EXAMPLES)]
    List(cmd::list_commands::ListCommand),
    /// Pause a run; the agent may stop freely until it is resumed
    #[command(after_help = cmd::control::PAUSE_EXAMPLES)]
    Pause(cmd::control::RunNameArgs),
    /// Resume a paused, parked or orphaned run
    #[command(after_help = cmd::control::RESUME_EXAMPLES)]
    Resume(cmd::control::RunNameArgs),
    /// End a run and release its session
    #[command(after_help = cmd::control::CANCEL_EXAMPLES)]
    Cancel(cmd::control::RunNameArgs),
    /// Ask a person to decide; the run ends at the next stop
    Ask(cmd::declare::AskArgs),
    /// Wait for gates that still run, or for something external
    Wait(cmd::wait::WaitArgs),
    /// Dispute a requirement; a person decides, the rest goes on
    Dispute(cmd::declare::DisputeArgs),
    /// Serve status, verify, ask and more to an agent, as an MCP server
    Mcp(cmd::mcp::McpArgs),
    /// Send a message to the agent; it arrives at the next stop
    Tell(cmd::tell::TellArgs),
    /// Waive a requirement for a while; every report shows it
    Waive(cmd::adjust::WaiveArgs),
    /// Approve a chunk, a phase or a plan that waits for a person
    Approve(cmd::approve::ApproveArgs),
    /// Accept the work of a run that ended `green` or `needs_review`
    Accept(cmd::accept::AcceptArgs),
    /// Show the limits of a run, or change them while it is active
    Limits(cmd::adjust::SetLimitsArgs),
    /// Search past runs, learnings and the memory of this project
    Recall(cmd::recall::RecallArgs),
    /// Run a read-only SQL query over all runs
    Sql(cmd::sql::SqlArgs),
    /// Record a learning, so that `ralph recall` finds it
    Learn(cmd::learn::LearnArgs),
    /// Show, add, forget and export what ralph learned in this project
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::memory_args::EXAMPLES)]
    Memory(cmd::memory_args::MemoryCommand),
    /// Run a session in phases, from clarify to retrospect
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::orchestrator::EXAMPLES)]
    Orchestrator(cmd::orchestrator::OrchestratorCommand),
    /// Create loop directories with a feature list
    #[command(subcommand, arg_required_else_help = true, after_help = LOOP_EXAMPLES)]
    Loop(cmd::loops::LoopCommand),
    /// Work through a feature list: show, add, check and claim features
    #[command(subcommand, arg_required_else_help = true, after_help = FEATURE_EXAMPLES)]
    Feature(cmd::feature::feature_args::FeatureCommand),
    /// Check now what the next stop would check; decides nothing
    Verify(cmd::verify::VerifyArgs),
    /// Run gates by hand or in CI; explain and propose them
    #[command(subcommand, arg_required_else_help = true, after_help = GATE_EXAMPLES)]
    Gate(cmd::gate::gate_args::GateSubcommand),
    /// Ask judges about a change, measure them, print their instructions
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::judge::EXAMPLES)]
    Judge(cmd::judge::JudgeCommand),
    /// Make the workflow that runs the gates in CI
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::ci::EXAMPLES)]
    Ci(cmd::ci::CiCommand),
    /// Show what the tests of a change prove, on old and new code
    Prove(cmd::prove::ProveArgs),
    /// Show the pipeline of a run: its chunks and their progress
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::pipeline::EXAMPLES)]
    Pipeline(cmd::pipeline::PipelineCommand),
    /// Show the policy in force and where each value comes from
    Config(cmd::config::ConfigArgs),
    /// Show whether files count as code, tests, harness or environment
    Explain(cmd::explain_files::ExplainArgs),
    /// Approve the commands of gates and checks; nothing runs until then
    Trust(cmd::trust::TrustArgs),
    /// Compare, restore and create checkpoints of the work tree
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::checkpoint_args::EXAMPLES)]
    Checkpoint(cmd::checkpoint_args::CheckpointCommand),
    /// Watch ralph hold an agent that stops too early (offline, about 1 s)
    Demo(cmd::demo::DemoArgs),
    /// Try hooks without an agent: simulate, replay, record, model, pretend
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::lab::EXAMPLES)]
    Lab(cmd::lab::LabCommand),
    /// Play a scenario offline: simulated client and model, real hooks
    #[command(hide = true)]
    Simulate(cmd::simulate::simulate_args::SimulateArgs),
    /// Send a captured hook payload through the configured hooks
    #[command(hide = true)]
    Replay(cmd::replay::replay_args::ReplayArgs),
    #[command(hide = true)]
    Model(cmd::model::ModelArgs),
    #[command(hide = true)]
    Pretend(cmd::pretend::PretendArgs),
    Notify(cmd::notify::NotifyArgs),
    /// Export runs as metrics or traces
    #[command(subcommand, arg_required_else_help = true, after_help = cmd::export::EXAMPLES)]
    Export(cmd::export::ExportCommand),
    Statusline(cmd::statusline::StatuslineArgs),
    /// Answer one hook event of a coding agent
    Hook(HookArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  ralph completions bash > ~/.local/share/bash-completion/completions/ralph
  ralph completions zsh > ~/.zfunc/_ralph

In bash, zsh and fish, the names of runs, gates and requirements are
completed too.")]
    Completions {
        shell: Shell,
    },
    /// Print the completions of a command line
    #[command(hide = true)]
    CompleteWords(cmd::complete_words::CompleteWordsArgs),
    /// Print the manual page of ralph or of one of its commands
    #[command(after_help = "\
Examples:
  mkdir -p ~/.local/share/man/man1
  ralph man > ~/.local/share/man/man1/ralph.1
  ralph man start | man -l -")]
    Man {
        command: Option<String>,
    },
    /// Show the common commands, all commands, or the help of one
    Help(HelpArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph help --all
  ralph help gate run")]
struct HelpArgs {
    /// Show the help of this command
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    command: Vec<String>,
    /// Show every command
    #[arg(long)]
    all: bool,
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

/// The definition of the command line, whose help shows the common commands or all of them.
fn command_line(extent: HelpExtent) -> clap::Command {
    let command = RalphCli::command();
    let help = command_groups::render_help(&command, extent);
    command.override_help(help)
}

pub(crate) fn run(env: &Env) -> u8 {
    run_words(env, &env.args())
}

fn run_words(env: &Env, words: &[OsString]) -> u8 {
    term::choose_color(ColorWhen::find(words));
    let extent = command_groups::requested_extent(words);
    let mut command = command_line(extent);
    let words = expand_group_help(&command, words);
    let parsed = command
        .try_get_matches_from_mut(std::iter::once(OsString::from("ralph")).chain(words.clone()))
        .and_then(|matches| RalphCli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let typed: Vec<String> = ColorWhen::without_option(&words)
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            return usage_error::report_parse_error(&error, &command, &typed);
        }
    };
    term::choose_color(cli.color);
    match cli.command {
        None => exit_code(cmd::project_summary::run(env).map(|()| SUCCESS)),
        Some(RalphCommand::Help(help)) => show_help(env, &help),
        Some(command) => exit_code(carry_out(env, command)),
    }
}

/// `ralph GROUP help NAME` is `ralph GROUP NAME --help`. clap's own `help` is off in the whole command line, because at
/// its top it would hide the one that knows `--all`.
fn expand_group_help(command: &clap::Command, words: &[OsString]) -> Vec<OsString> {
    match words {
        [group, help, rest @ ..] if help == "help" && is_group(command, group) => {
            let words = std::iter::once(group).chain(rest).cloned();
            words.chain([OsString::from("--help")]).collect()
        }
        _ => words.to_vec(),
    }
}

fn is_group(command: &clap::Command, word: &OsString) -> bool {
    command.find_subcommand(word).is_some_and(clap::Command::has_subcommands)
}

/// `ralph help COMMAND` is `ralph COMMAND --help`.
fn show_help(env: &Env, help: &HelpArgs) -> u8 {
    if help.all {
        return run_words(env, &["--help".into()]);
    }
    let last = if help.command.is_empty() { "-h" } else { "--help" };
    let words: Vec<_> =
        help.command.iter().map(String::as_str).chain([last]).map(Into::into).collect();
    run_words(env, &words)
}

fn carry_out(env: &Env, command: RalphCommand) -> Result<u8, CommandFailure> {
    let done = match command {
        RalphCommand::Gate(gate) => return cmd::gate::run(env, &gate),
        RalphCommand::Judge(judge) => return cmd::judge::run(env, &judge),
        RalphCommand::Plan(args) => return cmd::plan::run(env, &args),
        RalphCommand::Prove(args) => return cmd::prove::run(env, &args),
        RalphCommand::Feature(feature) => return cmd::feature::run(env, &feature),
        RalphCommand::VerifyReport(args) => return cmd::verify_report::run(env, &args),
        RalphCommand::Run(run) => return cmd::run::run(env, &run),
        RalphCommand::Demo(demo) => return cmd::demo::run(env, &demo),
        RalphCommand::Lab(lab) => return cmd::lab::run(env, &lab),
        RalphCommand::Simulate(simulate) => return cmd::simulate::run(env, &simulate),
        RalphCommand::Replay(replay) => return cmd::replay::run(env, &replay),
        RalphCommand::Notify(notify) => return cmd::notify::run(env, &notify),
        RalphCommand::Statusline(cmd::statusline::StatuslineArgs {}) => {
            return Ok(cmd::statusline::run(env));
        }
        RalphCommand::Pretend(pretend) => return cmd::pretend::run(env, &pretend),
        RalphCommand::Doctor(doctor) => return cmd::doctor::run(env, &doctor),
        RalphCommand::Wait(args) => return cmd::wait::run(env, &args),
        RalphCommand::Verify(verify) => return cmd::verify::run(env, &verify),
        RalphCommand::Resume(run) => return cmd::control::resume(env, &run),
        RalphCommand::Stats(args) => cmd::stats::run(env, &args),
        RalphCommand::Export(asked) => cmd::export::run(env, &asked),
        RalphCommand::List(list) => cmd::list_commands::run(env, &list),
        RalphCommand::Init(init) => cmd::init::run(env, &init),
        RalphCommand::Import(import) => cmd::import::run(env, &import),
        RalphCommand::Clean(args) => cmd::clean::run(env, &args),
        RalphCommand::Uninstall(uninstall) => cmd::uninstall::run(env, &uninstall),
        RalphCommand::Start(start) => cmd::start::run(env, &start),
        RalphCommand::Status(status) => cmd::status::run(env, &status),
        RalphCommand::Why(why) => cmd::why::run(env, &why),
        RalphCommand::Report(report) => cmd::report::run(env, &report),
        RalphCommand::Log(log) => cmd::log::run(env, &log),
        RalphCommand::Watch(watch) => cmd::watch::run(env, &watch),
        RalphCommand::Serve(serve) => cmd::serve::run(env, &serve),
        RalphCommand::Pause(run) => cmd::control::pause(env, &run),
        RalphCommand::Cancel(run) => cmd::control::cancel(env, &run),
        RalphCommand::Ask(args) => cmd::declare::ask(env, &args),
        RalphCommand::Dispute(args) => cmd::declare::dispute(env, &args),
        RalphCommand::Mcp(cmd::mcp::McpArgs {}) => cmd::mcp::run(env),
        RalphCommand::Tell(args) => cmd::tell::run(env, &args),
        RalphCommand::Waive(args) => cmd::adjust::waive(env, &args),
        RalphCommand::Approve(args) => cmd::approve::run(env, &args),
        RalphCommand::Accept(args) => cmd::accept::run(env, &args),
        RalphCommand::Limits(args) => cmd::adjust::limits(env, &args),
        RalphCommand::Recall(args) => cmd::recall::run(env, &args),
        RalphCommand::Sql(args) => cmd::sql::run(env, &args),
        RalphCommand::Learn(args) => cmd::learn::run(env, &args),
        RalphCommand::Memory(asked) => cmd::memory::run(env, &asked),
        RalphCommand::Orchestrator(asked) => cmd::orchestrator::run(env, &asked),
        RalphCommand::Loop(asked) => cmd::loops::run(env, &asked),
        RalphCommand::Checkpoint(asked) => cmd::checkpoint::run(env, &asked),
        RalphCommand::Pipeline(asked) => cmd::pipeline::run(env, &asked),
        RalphCommand::Config(config) => cmd::config::run(env, &config),
        RalphCommand::Ci(asked) => cmd::ci::run(env, &asked),
        RalphCommand::Explain(explain) => cmd::explain_files::run(env, &explain),
        RalphCommand::Trust(trust) => cmd::trust::run(env, &trust),
        RalphCommand::Model(model) => cmd::model::run(env, &model),
        RalphCommand::Completions { shell } => {
            cmd::generate::completions(shell, &mut RalphCli::command())
        }
        RalphCommand::CompleteWords(args) => {
            cmd::complete_words::run(env, &args, &RalphCli::command())
        }
        RalphCommand::Man { command } => {
            cmd::generate::man(RalphCli::command(), command.as_deref())
        }
        // `main` handles the hook before clap is set up, and `run_words` the help.
        RalphCommand::Hook(HookArgs { .. }) | RalphCommand::Help(_) => Ok(()),
    };
    done.map(|()| SUCCESS)
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
#[path = "cli_tests.rs"]
mod tests;
