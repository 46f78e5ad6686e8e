//! Arguments of commands that print something about a project.

use clap::Args;
use std::path::PathBuf;

// A doc comment would replace the description of the command.
#[derive(Args)]
pub(crate) struct ProjectOutputArgs {
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
