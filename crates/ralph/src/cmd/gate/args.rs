//! `ralph gate` as people type it.

use crate::values::duration;
use clap::{Args, Subcommand, ValueEnum};
use ralph_core::gate::Moment;
use ralph_core::requirement::Stage;
use ralph_hook::contract::work::Where;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum Gate {
    /// Run gates; what is known for the same content is not run again
    Run(GateRun),
    /// List the gates of the policy
    List(GateList),
    /// Say what a gate's answer depends on, and what is known of it
    Explain(GateExplain),
    /// Look at a project and propose gates for it
    Detect(super::detect::Detect),
    /// Run gates quietly, so that their results are there when somebody asks
    Warm(GateWarm),
    /// Wait for gates that a stop left running in the background
    Wait(GateWait),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate run
  ralph gate run tests types --no-cache
  ralph gate run --stage security --all
  ralph gate run --changed --format sarif > findings.sarif
  ralph gate run --trust-hash 3f9a1c07d2e4 --format github

Exit codes: 0 every required gate passed, 1 one failed, 3 the policy is not approved, 4 one could not
be told, 130 interrupted.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct GateRun {
    /// Only these gates; by default all that run at a stop
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only gates of this stage
    #[arg(long, value_name = "STAGE", value_parser = stage, conflicts_with = "names")]
    pub stage: Option<Stage>,
    /// Only gates of this moment: stop, subagent, task or teammate [default: stop]
    #[arg(long, value_name = "MOMENT", value_parser = moment, conflicts_with = "names")]
    pub on: Option<Moment>,
    /// Run every stage, whatever the one before it says
    #[arg(long)]
    pub all: bool,
    /// Run even what is known for this content
    #[arg(long)]
    pub no_cache: bool,
    /// Only gates that read something which differs from the last commit
    #[arg(long, conflicts_with = "names")]
    pub changed: bool,
    /// How to tell the result
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<GateFormat>,
    /// Print one JSON object: `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Run the policy with this hash without an approval on this machine, as CI does
    #[arg(long, value_name = "HASH")]
    pub trust_hash: Option<String>,
    /// The project; by default the nearest directory upwards that has a policy
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
    /// Annotations of GitHub Actions
    Github,
    Markdown,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph gate list\n  ralph gate list --json | jq '.gates[].name'"
)]
pub(crate) struct GateList {
    /// The project; by default the nearest directory upwards that has a policy
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph gate explain tests")]
pub(crate) struct GateExplain {
    /// The gate
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The project; by default the nearest directory upwards that has a policy
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate warm
  ralph gate warm types

Meant for an asynchronous hook after edits: the next stop finds the results. While one is at work in a
project, another one has nothing to do and ends at once.")]
pub(crate) struct GateWarm {
    /// Only these gates; by default all that run at a stop
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The project; by default the nearest directory upwards that has a policy
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// As the worker of a run's stop
    #[arg(long, value_name = "RUN", hide = true)]
    pub run: Option<String>,
    /// Where the worker runs them
    #[arg(long, hide = true, requires = "run", value_parser = site)]
    pub site: Option<Where>,
    /// What is asked for; when it is something else, this ends
    #[arg(long, hide = true, requires = "run", value_name = "MARK")]
    pub mark: Option<String>,
    /// End when whoever started this ends
    #[arg(long, hide = true, requires = "run")]
    pub leashed: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  ralph gate wait k7f2\n  ralph gate wait --timeout 30m")]
pub(crate) struct GateWait {
    /// A run, or the session that it holds; inside an agent's shell, its own
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "9m", value_parser = duration)]
    pub timeout: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn stage(text: &str) -> Result<Stage, String> {
    let names = || Stage::OF_GATES.map(Stage::name).join(", ");
    let found = Stage::OF_GATES.into_iter().find(|stage| stage.name() == text);
    found.ok_or_else(|| format!("the stages are {}", names()))
}

fn site(text: &str) -> Result<Where, String> {
    let found = Where::ALL.into_iter().find(|site| site.name() == text);
    found.ok_or_else(|| "no such place".to_string())
}

fn moment(text: &str) -> Result<Moment, String> {
    let names = || Moment::ALL.map(Moment::name).join(", ");
    let found = Moment::ALL.into_iter().find(|moment| moment.name() == text);
    found.ok_or_else(|| format!("the moments are {}", names()))
}
