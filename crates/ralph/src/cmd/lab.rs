//! `ralph lab …`: tools to develop hooks and scenarios without an agent.

use super::{model, pretend, replay, simulate};
use crate::SUCCESS;
use crate::failure::CommandFailure;
use clap::{Args, Subcommand};
use ralph_sys::env::Env;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph lab simulate --hook ./my-stop-hook.sh
  ralph lab replay stop.json --hook ./my-stop-hook.sh --expect blocked";

#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Play a scenario offline: simulated client and model, real hooks
    Simulate(simulate::simulate_args::SimulateArgs),
    /// Send a captured hook payload through the configured hooks
    Replay(replay::replay_args::ReplayArgs),
    /// Make a scenario of the transcript of a real session
    Record(RecordArgs),
    Model(model::ModelArgs),
    Pretend(pretend::PretendArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph lab record ~/.claude/projects/-home-you-app/5999882c.jsonl > a.toml

Secrets are redacted. The scenario lacks the files of the session.")]
pub(crate) struct RecordArgs {
    /// Read this transcript
    #[arg(value_name = "TRANSCRIPT")]
    pub transcript: PathBuf,
}

pub(crate) fn run(env: &Env, lab: &LabCommand) -> Result<u8, CommandFailure> {
    match lab {
        LabCommand::Simulate(args) => simulate::run(env, args),
        LabCommand::Replay(args) => replay::run(env, args),
        LabCommand::Record(args) => simulate::record_scenario(&args.transcript),
        LabCommand::Model(args) => model::run(env, args).map(|()| SUCCESS),
        LabCommand::Pretend(args) => pretend::run(env, args),
    }
}
