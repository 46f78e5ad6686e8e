//! The command line of `ralph replay`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph replay stop.json
  ralph replay stop.json --hook ./my-stop-hook.sh --expect blocked
  ralph replay - --project ~/site --json < stop.json | jq .reads

The hooks really run, as you, with all that they do; what they leave running is ended. Only ralph's
own decide about a copy of the run: nothing is charged, and no file of run or project changes.

A payload is what a hook reads on stdin. The exit code is 0 when it could be replayed, or, with
`--expect`, when that is what the client would do; 1 if not.")]
pub(crate) struct Replay {
    /// The payload, a JSON file; `-` is stdin
    #[arg(value_name = "PAYLOAD")]
    pub payload: PathBuf,
    /// Hooks from this settings file instead of the person's and the project's
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// This command as the hook of the payload's event instead; may be given more than once
    #[arg(long, value_name = "COMMAND")]
    pub hook: Vec<String>,
    /// Whose settings count; by default the payload's `cwd`, or the current directory if that is not here
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Fail unless this is what the client would do
    #[arg(long, value_name = "DECISION", value_enum)]
    pub expect: Option<Expected>,
    /// Let ralph's own hooks decide about the real run: it is charged
    #[arg(long)]
    pub live: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    /// The agent has to go on, or may not do what it wants
    Blocked,
    /// The client goes on as if there were no hooks
    Allowed,
    /// The turn ends by `continue: false`
    Stopped,
}

impl Expected {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Allowed => "allowed",
            Self::Stopped => "stopped",
        }
    }
}
