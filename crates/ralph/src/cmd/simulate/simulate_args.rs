//! The arguments of `ralph lab simulate`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph lab simulate --hook ./my-stop-hook.sh
  ralph lab simulate --hook PreToolUse=./my-guard.sh
  ralph lab simulate try/too-early.toml --project ~/my-app
  ralph lab simulate scenario.toml
  ralph lab simulate scenario.toml --client
  ralph lab simulate scenario.toml --settings .claude/settings.json --json \\
    | jq 'select(.kind == \"hook\")'

A scenario runs its commands and hooks with your permissions, in a
scratch directory. `~` and `$HOME` are a scratch home there, in hooks
too: yours is not visible. The exit code is 0 if all expectations are
met.")]
pub(crate) struct SimulateArgs {
    /// Play these scenarios, or all `*.toml` in a directory; `-` is stdin
    ///
    /// With `--hook`, `--settings` or `--project`, the default is four built-in scenarios: `try/edits-and-stops.toml`,
    /// `try/never-done.toml`, `try/tests-first.toml` and `try/too-early.toml`. Each can also be named.
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["record", "hook", "settings", "project"])]
    pub scenarios: Vec<PathBuf>,
    /// Print a scenario made from this transcript, and play nothing
    #[arg(long, value_name = "TRANSCRIPT", conflicts_with_all = ["scenarios", "settings", "hook", "project", "client", "keep", "quiet", "json"])]
    pub record: Option<PathBuf>,
    /// Use the real client with a scripted model [default: `claude` on PATH]
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "claude"
    )]
    pub client: Option<PathBuf>,
    /// Replace the scenario's hooks by those of this settings file
    ///
    /// Its plugins and project settings are replaced too. Scripts in `hooks/` next to the file are copied.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Replace the scenario's hooks by this command, for `Stop` (repeatable)
    ///
    /// Its plugins are replaced too. `EVENT=COMMAND` is a hook for another event.
    #[arg(long, value_name = "[EVENT=]COMMAND")]
    pub hook: Vec<String>,
    /// Play in a copy of this project, with its hooks
    ///
    /// The copy has no `.git` and no links. The project's hooks in `.claude` replace the hooks and plugins of the
    /// scenario, and the scenario's files are added to the copy.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Keep the scratch directory, and print its path
    #[arg(long)]
    pub keep: bool,
    /// Print only the result; of several scenarios, only the failed ones
    #[arg(long, short)]
    pub quiet: bool,
    /// Print one JSON object per line; of several scenarios, the summaries
    #[arg(long)]
    pub json: bool,
}
