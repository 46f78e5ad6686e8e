//! The arguments of `ralph feature`.

use clap::{Args, Subcommand};
use ralph_core::source::item_check::ItemCheck;

#[derive(Subcommand)]
pub(crate) enum FeatureCommand {
    /// List every feature: claimed or open, and its check
    #[command(hide = true)]
    List(FeatureListArgs),
    /// Add a feature at the end of the list
    Add(FeatureAddArgs),
    /// Show the first open feature, with its steps and its check
    Next(FeatureListArgs),
    /// Run the checks of features, as a run would
    Verify(FeatureVerifyArgs),
    /// Claim that a feature is done; sets its `passes` and nothing else
    Claim(FeatureClaimArgs),
}

#[derive(Args)]
pub(crate) struct LoopArgs {
    /// Use this loop [default: the session's, the only one, or `current`]
    #[arg(long = "loop", value_name = "NAME|DIR")]
    pub loop_name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph list features\n  ralph feature next --loop csv\n  ralph list features --json | jq '.features[] | select(.claimed | not).id'"
)]
pub(crate) struct FeatureListArgs {
    #[command(flatten)]
    pub which: LoopArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature add \"Export as CSV\" --step \"Open the menu\" --step \"Click Export\"
  ralph feature add \"Export as CSV\" --id csv-4 --verify -- cargo test csv_export
  ralph feature add \"Export as CSV\" --verify-shell 'make && ./smoke.sh'

The list keeps its formatting. With `--verify`, only the result of that
command counts, once a person approves it with `ralph trust`. A run that
is already in progress treats the new feature as a claim.")]
pub(crate) struct FeatureAddArgs {
    /// Describe what a user can do once it is done
    #[arg(value_name = "DESCRIPTION")]
    pub description: String,
    /// Add a step that shows that it works (repeatable)
    #[arg(long = "step", value_name = "TEXT")]
    pub steps: Vec<String>,
    /// Set the id [default: the next number]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Use the command after `--` as the check; only its result counts
    #[arg(long, requires = "command")]
    pub verify: bool,
    /// Use this line for `/bin/sh -c` as the check
    #[arg(long, value_name = "LINE", conflicts_with = "verify")]
    pub verify_shell: Option<String>,
    #[command(flatten)]
    pub which: LoopArgs,
    /// Give the program of the check and its arguments
    #[arg(last = true, value_name = "ARGV", requires = "verify")]
    pub command: Vec<String>,
}

impl FeatureAddArgs {
    pub(crate) fn check(&self) -> Option<ItemCheck> {
        let argv = self.verify.then(|| ItemCheck::Argv(self.command.clone()));
        argv.or_else(|| Some(ItemCheck::Shell { shell: self.verify_shell.clone()? }))
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature verify
  ralph feature verify 4 5 --loop csv

Exit codes: 0 every check passed, 1 a check failed, 3 the checks are not
approved, 4 a check gave no result, 130 interrupted.")]
pub(crate) struct FeatureVerifyArgs {
    /// Check only these features [default: all that have a check]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub which: LoopArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph feature claim 4
  ralph feature claim 4 --undo

A claim is not evidence. What counts is the feature's check, or, without
one, that every required gate passes.")]
pub(crate) struct FeatureClaimArgs {
    /// Name the feature
    #[arg(value_name = "ID")]
    pub id: String,
    /// Withdraw the claim
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub which: LoopArgs,
}
