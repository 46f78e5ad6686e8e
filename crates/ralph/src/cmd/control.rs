//! `ralph pause`, `ralph resume` and `ralph cancel`.

use super::{caller, home};
use crate::cli::OneRun;
use crate::driven;
use crate::report::Failure;
use crate::term;
use crate::wording::safe;
use ralph_core::id::RunId;
use ralph_core::run::Phase;
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::{self, Named};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// How long a command waits for the lock of a run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Done<'a> {
    v: u8,
    name: &'a str,
    status: &'static str,
}

pub(crate) fn pause(env: &Env, args: &OneRun) -> Result<(), Failure> {
    let home = home(env)?;
    let run = run_named(&home, &args.name, "paused")?;
    let done = control::pause(&home, &run, caller(env), &Deadline::after(PATIENCE));
    done.map_err(|error| driven::failed(&home, error))?;
    say(args, run.as_str(), "paused", &format!("`ralph resume {run}` resumes it"))
}

pub(crate) fn resume(env: &Env, args: &OneRun) -> Result<(), Failure> {
    let home = home(env)?;
    let run = run_named(&home, &args.name, "resumed")?;
    let opened = store::load(&home, &run)?;
    let is_paused = matches!(control::phase(&home, &opened), Phase::Paused { .. });
    if let Some(parked) = opened.state.driving.parked.as_ref().filter(|_| is_paused) {
        let what = format!("no runner drives run `{run}`: {}", safe(&parked.why));
        return Err(Failure::new(&what, &format!("`ralph run --resume {run}` continues it")));
    }
    let done = control::resume(&home, &run, caller(env), &Deadline::after(PATIENCE));
    done.map_err(|error| driven::failed(&home, error))?;
    let next = match opened.run.drive {
        None => "its session is held at the next stop".to_string(),
        Some(_) => {
            format!("its runner continues; `ralph run --resume {run}` starts one if there is none")
        }
    };
    say(args, run.as_str(), "active", &next)
}

pub(crate) fn cancel(env: &Env, args: &OneRun) -> Result<(), Failure> {
    let home = home(env)?;
    let named = super::named(&home, &args.name)?;
    control::cancel(&home, &named, caller(env), &Deadline::after(PATIENCE))?;
    let name = match &named {
        Named::Run(run) => run.as_str(),
        Named::Session(session) => session.as_str(),
    };
    say(args, name, "cancelled", "its session is free; nothing was deleted")
}

fn run_named(home: &Home, name: &str, done: &'static str) -> Result<RunId, Failure> {
    match super::named(home, name)? {
        Named::Run(run) => Ok(run),
        Named::Session(session) => Err(Failure::new(
            &format!("no run owns session `{session}`, so nothing was {done}"),
            &format!("only files of other tools hold it; `ralph cancel {session}` releases it"),
        )),
    }
}

fn say(args: &OneRun, name: &str, status: &'static str, next: &str) -> Result<(), Failure> {
    if args.json {
        super::print_json(&Done { v: 1, name, status })?;
    } else {
        term::out(&format!("{}  {status}; {next}\n", term::paint(term::BOLD, name)))?;
    }
    Ok(())
}
