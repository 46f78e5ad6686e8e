//! What `ralph simulate` is told.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph simulate scenarios/stop/exit-2.toml
  ralph simulate scenarios/try --hook ./my-stop-hook.sh
  ralph simulate scenarios/try/too-early.toml --project ~/my-app
  ralph simulate scenarios/try/edits-and-stops.toml --hook PreToolUse=./my-guard.sh
  ralph simulate scenarios/stop/exit-2.toml --client
  ralph simulate --record ~/.claude/projects/-home-you-app/5999882c.jsonl > night.toml
  ralph simulate night.toml --settings .claude/settings.json --json \\
    | jq 'select(.kind == \"hook\")'

A scenario runs its commands and its hooks as you, in a scratch directory. `~` and `$HOME` are a
scratch home there, in hooks too: yours is not seen. The exit code is 0 when everything that the
scenarios expect came true.")]
pub(crate) struct Simulate {
    /// Scenarios, and directories with scenarios (`*.toml`, at any depth); `-` reads one from stdin
    #[arg(value_name = "SCENARIO", required_unless_present = "record")]
    pub scenarios: Vec<PathBuf>,
    /// Print a scenario made from this transcript of a real session, and play nothing
    #[arg(long, value_name = "TRANSCRIPT", conflicts_with_all = ["scenarios", "settings", "hook", "project", "client", "keep", "quiet", "json"])]
    pub record: Option<PathBuf>,
    /// Play it through the real client instead, whose model is then scripted: `claude` in `PATH`, or this program
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "claude"
    )]
    pub client: Option<PathBuf>,
    /// Replace all hooks and plugins of the scenario, and its project settings, by this settings file; scripts in
    /// `hooks/` beside it come along
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Replace all hooks and plugins of the scenario by this command, at `Stop` or at the event that is named; may be
    /// given more than once
    #[arg(long, value_name = "[EVENT=]COMMAND")]
    pub hook: Vec<String>,
    /// Play in a copy of this project, without `.git` and links, and replace all hooks and plugins of the scenario by
    /// the project's own in `.claude`; the scenario's files are put over it
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Leave the scratch directory where it is, and say where
    #[arg(long)]
    pub keep: bool,
    /// Print only how it ended; of several, only those that did not come true
    #[arg(long, short)]
    pub quiet: bool,
    /// Print one JSON object per line: what happened, and last the summary; of several, their summaries
    #[arg(long)]
    pub json: bool,
}
