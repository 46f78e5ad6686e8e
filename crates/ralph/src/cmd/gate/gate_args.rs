//! The arguments of `ralph gate`.

use crate::cmd::project_args::ProjectOutputArgs;
use crate::value_parsers::parse_duration;
use clap::{Args, Subcommand, ValueEnum};
use ralph_core::gate::GateTrigger;
use ralph_core::requirement::RequirementStage;
use ralph_hook::contract::gate_worker::GateSite;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum GateSubcommand {
    /// Run gates; results for the same content are reused
    Run(GateRunArgs),
    /// List the gates of the policy
    #[command(hide = true)]
    List(GateListArgs),
    /// Explain what a gate's result depends on, and show the last result
    Explain(GateExplainArgs),
    /// Add a command to `ralph.toml` as a gate, and approve it
    Add(super::add::GateAddArgs),
    /// Detect the toolchain of a project and propose gates
    Detect(super::detect::GateDetectArgs),
    /// Run gates ahead of the next stop, without output
    Warm(GateWarmArgs),
    /// Wait for gates that a stop left running in the background
    #[command(hide = true)]
    Wait(GateWaitArgs),
}

#[derive(Args, Default)]
#[command(after_help = "\
Examples:
  ralph gate run
  ralph gate run tests types --no-cache
  ralph gate run --stage security --all
  ralph gate run --changed --format sarif > findings.sarif
  ralph gate run --trust-hash 3f9a1c07d2e4 --format github
  ralph gate run --all --summary gates.md

Exit codes: 0 every required gate passed, 1 a gate failed, 3 the policy
is not approved, 4 a gate gave no result, 130 interrupted.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct GateRunArgs {
    /// Run only these gates [default: all that run at a stop]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Run only gates of this stage
    #[arg(long, value_name = "STAGE", value_parser = parse_stage, conflicts_with = "names")]
    pub stage: Option<RequirementStage>,
    /// Run gates for stop, subagent, task or teammate [default: stop]
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment, conflicts_with = "names")]
    pub on: Option<GateTrigger>,
    /// Run every stage, even after a failed one
    #[arg(long)]
    pub all: bool,
    /// Run gates again even if their results are cached
    #[arg(long)]
    pub no_cache: bool,
    /// Run only gates that read files changed since the last commit
    #[arg(long, conflicts_with = "names")]
    pub changed: bool,
    /// Choose the output format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<GateFormat>,
    /// Print one JSON object: `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Add the results as Markdown to this file, besides the output
    ///
    /// In GitHub Actions they are added to the summary of the job anyway (`$GITHUB_STEP_SUMMARY`).
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Run the policy with this hash without an approval (for CI)
    #[arg(long, value_name = "HASH")]
    pub trust_hash: Option<String>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GateFormat {
    /// For people; in GitHub Actions with annotations
    Human,
    Json,
    Junit,
    Sarif,
    /// GitHub Actions annotations
    Github,
    Markdown,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph list gates\n  ralph list gates --json | jq '.gates[].name'"
)]
pub(crate) struct GateListArgs {
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph gate explain tests")]
pub(crate) struct GateExplainArgs {
    /// Name the gate
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub output: ProjectOutputArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate warm
  ralph gate warm types

Meant for an asynchronous hook after edits: the next stop reuses the
results. If another `ralph gate warm` is running in the project, exits
at once.")]
pub(crate) struct GateWarmArgs {
    /// Run only these gates [default: all that run at a stop]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Run as the worker of a stop of this run
    #[arg(long, value_name = "RUN", hide = true)]
    pub run: Option<String>,
    /// Choose where the worker runs the gates
    #[arg(long, hide = true, requires = "run", value_parser = parse_site)]
    pub site: Option<GateSite>,
    /// Exit when the task of the run no longer has this mark
    #[arg(long, hide = true, requires = "run", value_name = "MARK")]
    pub mark: Option<String>,
    /// Exit when the parent process exits
    #[arg(long, hide = true, requires = "run")]
    pub leashed: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph wait --run k7f2\n  ralph wait --timeout 30m")]
pub(crate) struct GateWaitArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", default_value = "9m", value_parser = parse_duration)]
    pub timeout: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(super) fn parse_stage(text: &str) -> Result<RequirementStage, String> {
    let names = || RequirementStage::GATE_STAGES.map(RequirementStage::name).join(", ");
    let found = RequirementStage::GATE_STAGES.into_iter().find(|stage| stage.name() == text);
    found.ok_or_else(|| format!("the stages are {}", names()))
}

fn parse_site(text: &str) -> Result<GateSite, String> {
    let found = GateSite::ALL.into_iter().find(|site| site.name() == text);
    found.ok_or_else(|| "no such place".to_string())
}

fn parse_moment(text: &str) -> Result<GateTrigger, String> {
    let names = || GateTrigger::ALL.map(GateTrigger::name).join(", ");
    let found = GateTrigger::ALL.into_iter().find(|moment| moment.name() == text);
    found.ok_or_else(|| format!("the moments are {}", names()))
}
