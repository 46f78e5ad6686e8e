//! `ralph pretend`: a simulated client without a model, to test programs that drive a client.

use super::simulate::failure;
use crate::report::Failure;
use crate::term;
use clap::Args;
use ralph_sim::pretend::{Exit, Flags, Options, Pretended, Signal};
use ralph_sim::scenario;
use ralph_sys::clock;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::signals::{self, Told};
use rustix::process::{Signal as Kill, getpid, kill_process};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Simulate Claude Code over stream-json, from a scenario
#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph pretend --scenario scenario.toml -- -p --input-format stream-json --output-format stream-json --verbose
  printf '#!/bin/sh\\nexec ralph pretend --scenario scenario.toml --position at.json -- \"$@\"\\n' > agent

Plays the agent's turns of the scenario in order, whatever the prompts
are. With `--position`, all processes share one script: a resumed or
fresh session continues where the last one stopped. After the last turn,
the agent answers \"done\" forever. Tools really run, and the session is
stored below `~/.claude/projects`.")]
pub(crate) struct Pretend {
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

pub(crate) fn run(env: &Env, args: &Pretend) -> Result<u8, Failure> {
    let scenario =
        scenario::read_to_pretend(&args.scenario).map_err(|mistakes| failure(&mistakes))?;
    let project = env
        .current_dir()
        .ok_or_else(|| Failure::new("there is no current directory", "start it in the project"))?;
    let home = env.home().ok_or_else(|| {
        Failure::new("there is no home directory", "set `HOME`: the session is stored there")
    })?;
    let options = Options {
        program: env::this_program(),
        pid: std::process::id(),
        project,
        home,
        env: env.variables(),
        position: args.position.clone(),
        flags: Flags::read(&args.args),
    };
    let mut say = |line: &[u8]| term::bytes(&[], line);
    let client = Pretended::new(&scenario, options, &mut say);
    let bell = client.bell();
    signals::pass_on(move |received| {
        bell.signal(match received {
            Told::Interrupt => Signal::Interrupt,
            Told::Terminate => Signal::Terminate,
        });
    })
    .map_err(|error| Failure::because("cannot watch for signals", &error))?;
    let exit = client
        .run(std::io::stdin())
        .map_err(|error| Failure::because("the simulated client cannot continue", &error))?;
    match exit {
        Exit::Code { code, said } => {
            term::err(&said.unwrap_or_default());
            Ok(code)
        }
        Exit::Killed => {
            kill_process(getpid(), Kill::KILL).map_err(|error| {
                Failure::because("the simulated client cannot be killed", &error)
            })?;
            Ok(1)
        }
        Exit::Never => loop {
            clock::pause(HOUR);
        },
    }
}
