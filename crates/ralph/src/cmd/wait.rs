//! `ralph wait`: waits for the gates that a stop left running, or declares a wait for something external.

use super::declare;
use super::gate::gate_args::GateWaitArgs;
use super::gate::warm;
use crate::SUCCESS;
use crate::failure::CommandFailure;
use crate::value_parsers::parse_duration;
use clap::Args;
use ralph_sys::env::Env;

/// How long a wait for gates takes at most.
const GATES_TIMEOUT_MS: u64 = 9 * 60 * 1000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph wait
  ralph wait --timeout 30m --run k7f2
  ralph wait \"the deployment is under way\" --for 20m

Without a reason, waits until no gate of the run is running: exit code 0,
or 1 after the timeout. With a reason, declares a wait: until then stops
are allowed and not counted; the run's time limit keeps counting. At most
12 hours.")]
pub(crate) struct WaitArgs {
    /// Describe what you are waiting for
    #[arg(value_name = "WHY", requires = "duration")]
    pub why: Vec<String>,
    /// Declare a wait of at most this long, such as `20m`
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, requires = "why")]
    pub duration: Option<u64>,
    /// Wait at most this long for gates [default: 9m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "why")]
    pub timeout: Option<u64>,
    /// Name the run or its session [default in an agent's shell: its own]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &WaitArgs) -> Result<u8, CommandFailure> {
    let Some(duration_ms) = args.duration else {
        let timeout = args.timeout.unwrap_or(GATES_TIMEOUT_MS);
        let wait = GateWaitArgs { name: args.run.clone(), timeout, json: args.json };
        return warm::wait_for_gates(env, &wait);
    };
    let wait = declare::DeclaredWait {
        run: args.run.as_deref(),
        why: &args.why.join(" "),
        duration_ms,
        json: args.json,
    };
    declare::declare_wait(env, &wait).map(|()| SUCCESS)
}
