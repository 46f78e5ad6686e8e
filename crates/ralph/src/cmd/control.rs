//! `ralph pause`, `ralph resume` and `ralph cancel`.

use super::{identify_caller, open_home};
use crate::cli::RunNameArgs;
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::{self, RunOrSession};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// How long a command waits for the lock of a run.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct ControlJson<'a> {
    v: u8,
    name: &'a str,
    status: &'static str,
}

pub(crate) fn pause(env: &Env, args: &RunNameArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = require_run(&home, &args.name, "paused")?;
    let done =
        control::pause_run(&home, &run, identify_caller(env), &Deadline::after(LOCK_TIMEOUT));
    done.map_err(|error| driven_status::control_failure(&home, error))?;
    print_result(args, run.as_str(), "paused", &format!("`ralph resume {run}` resumes it"))
}

pub(crate) fn resume(env: &Env, args: &RunNameArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = require_run(&home, &args.name, "resumed")?;
    let opened = store::load_run(&home, &run)?;
    let is_paused = matches!(control::effective_phase(&home, &opened), RunPhase::Paused { .. });
    if let Some(parked) = opened.state.driving.parked.as_ref().filter(|_| is_paused) {
        let what = format!("no runner drives run `{run}`: {}", safe_line(&parked.why));
        return Err(CommandFailure::new(
            &what,
            &format!("`ralph run --resume {run}` continues it"),
        ));
    }
    let done =
        control::resume_held_run(&home, &run, identify_caller(env), &Deadline::after(LOCK_TIMEOUT));
    done.map_err(|error| driven_status::control_failure(&home, error))?;
    let next = match opened.run.drive {
        None => "its session is held at the next stop".to_string(),
        Some(_) => {
            format!("its runner continues; `ralph run --resume {run}` starts one if there is none")
        }
    };
    print_result(args, run.as_str(), "active", &next)
}

pub(crate) fn cancel(env: &Env, args: &RunNameArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let named = super::find_named(&home, &args.name)?;
    control::cancel_run_or_session(
        &home,
        &named,
        identify_caller(env),
        &Deadline::after(LOCK_TIMEOUT),
    )?;
    let name = match &named {
        RunOrSession::Run(run) => run.as_str(),
        RunOrSession::Session(session) => session.as_str(),
    };
    print_result(args, name, "cancelled", "its session is free; nothing was deleted")
}

fn require_run(home: &RalphHome, name: &str, done: &'static str) -> Result<RunId, CommandFailure> {
    super::find_run(home, name, |session| {
        CommandFailure::new(
            &format!("no run owns session `{session}`, so nothing was {done}"),
            &format!("only files of other tools hold it; `ralph cancel {session}` releases it"),
        )
    })
}

fn print_result(
    args: &RunNameArgs,
    name: &str,
    status: &'static str,
    next: &str,
) -> Result<(), CommandFailure> {
    if args.json {
        super::print_json(&ControlJson { v: 1, name, status })?;
    } else {
        term::out(&format!("{}  {status}; {next}\n", term::paint(term::BOLD, name)))?;
    }
    Ok(())
}
