//! `ralph feature` as people and agents type it.

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Feature {
    /// Show every feature: what is claimed, what is open, what has a check
    List(FeatureList),
    /// Add a feature at the end of the list
    Add(FeatureAdd),
    /// Show the first open feature, with its steps and its check
    Next(FeatureList),
    /// Run the checks of features, as a run would
    Verify(FeatureVerify),
    /// Say that a feature is done: sets its `passes`, and nothing else
    Claim(FeatureClaim),
}

#[derive(Args)]
pub(crate) struct Which {
    /// A loop of the project by its name, or a directory with `feature_list.json`; by default that of
    /// the session's run, or the only one, or `current`
    #[arg(long = "loop", value_name = "NAME|DIR")]
    pub of: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph feature list\n  ralph feature next --loop csv\n  ralph feature list --json | jq '.features[] | select(.claimed | not).id'"
)]
pub(crate) struct FeatureList {
    #[command(flatten)]
    pub which: Which,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature add \"Export as CSV\" --step \"Open the menu\" --step \"Click Export\"
  ralph feature add \"Export as CSV\" --id csv-4 --verify -- cargo test csv_export

The list keeps its formatting. With `--verify` only that command's result counts, once a person
approved it with `ralph trust`. A run that is under way counts what is added as a claim.")]
pub(crate) struct FeatureAdd {
    /// What somebody can do once it is done
    #[arg(value_name = "DESCRIPTION")]
    pub description: String,
    /// How one sees that it works; may be given more than once
    #[arg(long = "step", value_name = "TEXT")]
    pub steps: Vec<String>,
    /// What it is called; by default the next number
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The words after `--` are a command whose result alone counts
    #[arg(long, requires = "command")]
    pub verify: bool,
    #[command(flatten)]
    pub which: Which,
    /// The program and its arguments
    #[arg(last = true, value_name = "ARGV", requires = "verify")]
    pub command: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature verify
  ralph feature verify 4 5 --loop csv

Exit codes: 0 every check passed, 1 one failed, 3 nobody approved the checks, 4 one could not be told,
130 interrupted.")]
pub(crate) struct FeatureVerify {
    /// Only these features; by default all that have a check
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub which: Which,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature claim 4
  ralph feature claim 4 --undo

A claim is somebody's word. What counts is the feature's check, or, without one, that every required
gate passes.")]
pub(crate) struct FeatureClaim {
    /// The feature
    #[arg(value_name = "ID")]
    pub id: String,
    /// Take the claim back
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub which: Which,
}
