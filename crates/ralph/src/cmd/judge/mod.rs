//! `ralph judge …`: reviewers whose verdict is evidence.

pub(crate) mod bench_args;
mod judge_bench;
pub(crate) mod judge_presets;
mod judge_run;
mod judged_goal;
mod manual_checkouts;

use crate::SUCCESS;
use crate::failure::CommandFailure;
use clap::Subcommand;
use ralph_sys::env::Env;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph judge run review
  ralph judge bench --host claude
  ralph judge presets
  ralph judge presets adversarial > review.md";

#[derive(Subcommand)]
pub(crate) enum JudgeCommand {
    /// Ask the judges of the policy about the change in the work tree
    Run(judge_run::JudgeRunArgs),
    /// Measure a judge: 30 small changes, 20 of them with a defect
    Bench(Box<bench_args::BenchArgs>),
    /// List the instructions that ship with ralph, or print one of them
    Presets(judge_presets::PresetsArgs),
}

pub(crate) fn run(env: &Env, judge: &JudgeCommand) -> Result<u8, CommandFailure> {
    match judge {
        JudgeCommand::Run(args) => judge_run::run(env, args),
        JudgeCommand::Bench(args) => judge_bench::run(env, args),
        JudgeCommand::Presets(args) => judge_presets::run(args).map(|()| SUCCESS),
    }
}
