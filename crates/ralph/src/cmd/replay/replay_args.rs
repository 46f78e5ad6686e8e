//! The arguments of `ralph lab replay`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph lab replay stop.json
  ralph lab replay stop.json --hook ./my-stop-hook.sh --expect blocked
  ralph lab replay - --project ~/site --json < stop.json | jq .reads

The hooks really run, with your permissions and all their effects;
processes that they leave running are killed. Only ralph's own hooks
decide about a copy of the run: nothing is charged, and neither the run
nor the project changes.

A payload is what a hook reads on stdin. The exit code is 0 if it could
be replayed and, with `--expect`, if the client would do that; 1 if not.")]
pub(crate) struct ReplayArgs {
    /// Read this payload, a JSON file; `-` is stdin
    #[arg(value_name = "PAYLOAD")]
    pub payload: PathBuf,
    /// Use the hooks of this file instead of yours and the project's
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Use this command as the hook instead (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub hook: Vec<String>,
    /// Use the settings of this project [default: the payload's `cwd`]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Fail unless the client would do this
    #[arg(long, value_name = "DECISION", value_enum)]
    pub expect: Option<ExpectedDecision>,
    /// Let ralph's own hooks decide about the real run, which is charged
    #[arg(long)]
    pub live: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpectedDecision {
    /// The agent has to continue, or its action is denied
    Blocked,
    /// The client continues as without hooks
    Allowed,
    /// The turn ends because of `continue: false`
    Stopped,
}

impl ExpectedDecision {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Allowed => "allowed",
            Self::Stopped => "stopped",
        }
    }
}
