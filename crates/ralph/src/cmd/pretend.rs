//! `ralph lab pretend`: a simulated client without a model, to test programs that drive a client.

use super::simulate::scenario_failure;
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_sim::fake_client::{
    ExitSignal, FakeClient, FakeClientExit, FakeClientFlags, FakeClientOptions,
};
use ralph_sim::scenario;
use ralph_sys::clock;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::signals::{self, ForwardedSignal};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Simulate Claude Code over stream-json, from a scenario
#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph lab pretend --scenario a.toml -- -p --input-format stream-json \\
    --output-format stream-json --verbose
  printf '#!/bin/sh\\nexec ralph lab pretend --scenario a.toml -- \"$@\"\\n' > agent

Plays the agent's turns of the scenario in order, whatever the prompts
are. With `--position`, all processes share one script: a resumed or
fresh session continues where the last one stopped. After the last turn,
the agent answers \"done\" forever. Tools really run, and the session is
stored below `~/.claude/projects`.")]
pub(crate) struct PretendArgs {
    /// Read this scenario file
    #[arg(long, value_name = "FILE")]
    pub scenario: PathBuf,
    /// Keep the position in the script in this file
    #[arg(long, value_name = "FILE")]
    pub position: Option<PathBuf>,
    /// Give the client's own command line; unknown flags are ignored
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
}

pub(crate) fn run(env: &Env, args: &PretendArgs) -> Result<u8, CommandFailure> {
    let scenario = scenario::read_for_fake_client(&args.scenario)
        .map_err(|mistakes| scenario_failure(&mistakes))?;
    let project = env.current_dir().ok_or_else(|| {
        CommandFailure::new("there is no current directory", "start it in the project")
    })?;
    let home = env.home().ok_or_else(|| {
        CommandFailure::new("there is no home directory", "set `HOME`: the session is stored there")
    })?;
    let flags = FakeClientFlags::parse(&args.args)
        .map_err(|error| CommandFailure::new(&error.to_string(), "correct the client's flags"))?;
    let options = FakeClientOptions {
        program: env::own_executable(),
        pid: std::process::id(),
        project,
        home,
        env: env.variables(),
        position: args.position.clone(),
        flags,
    };
    let mut say = |line: &[u8]| term::write_bytes(&[], line);
    let client = FakeClient::new(&scenario, options, &mut say);
    let bell = client.event_sender();
    signals::forward_signals(move |received| {
        bell.send_signal(match received {
            ForwardedSignal::Interrupt => ExitSignal::Interrupt,
            ForwardedSignal::Terminate => ExitSignal::Terminate,
        });
    })
    .map_err(|error| CommandFailure::caused_by("cannot watch for signals", &error))?;
    let exit = client.run(std::io::stdin()).map_err(|error| {
        CommandFailure::caused_by("the simulated client cannot continue", &error)
    })?;
    match exit {
        FakeClientExit::Code { code, stderr } => {
            term::err(&stderr.unwrap_or_default());
            Ok(code)
        }
        FakeClientExit::Killed => {
            signals::kill_this_process().map_err(|error| {
                CommandFailure::caused_by("the simulated client cannot be killed", &error)
            })?;
            Ok(1)
        }
        FakeClientExit::Never => loop {
            clock::sleep(HOUR);
        },
    }
}
