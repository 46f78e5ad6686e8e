//! What `ralph simulate` is told.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph simulate scenarios/stop/exit-2.toml
  ralph simulate scenarios/stop/exit-2.toml --hook ./my-stop-hook.sh
  ralph simulate scenarios/stop/exit-2.toml --client
  ralph simulate --record ~/.claude/projects/-home-you-app/5999882c-e786-462c-84d4-07d1c65b5e76.jsonl > night.toml
  ralph simulate night.toml --settings ~/.claude/settings.json --json | jq 'select(.kind == \"hook\")'

A scenario runs its commands and its hooks as you, in a scratch directory with a home of its own. The
exit code is 0 when everything that it expects came true.")]
pub(crate) struct Simulate {
    /// The scenario
    #[arg(value_name = "SCENARIO", required_unless_present = "record")]
    pub scenario: Option<PathBuf>,
    /// Print a scenario made from this transcript of a real session, and play nothing
    #[arg(long, value_name = "TRANSCRIPT", conflicts_with_all = ["scenario", "settings", "hook", "client", "keep", "quiet", "json"])]
    pub record: Option<PathBuf>,
    /// Play it through this real client instead, whose model is then scripted; `claude` looks in `PATH`
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "claude")]
    pub client: Option<PathBuf>,
    /// Hooks from this settings file instead of the scenario's own; scripts in `hooks/` beside it come along
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// This command as the stop hook instead of the scenario's own; may be given more than once
    #[arg(long, value_name = "COMMAND")]
    pub hook: Vec<String>,
    /// Leave the scratch directory where it is, and say where
    #[arg(long)]
    pub keep: bool,
    /// Print only how it ended
    #[arg(long, short)]
    pub quiet: bool,
    /// Print one JSON object per line: what happened, and last the summary
    #[arg(long)]
    pub json: bool,
}
