//! `ralph pause`, `ralph resume` and `ralph cancel`.

use super::run::run_args::RunArgs;
use super::{identify_caller, open_home, run_choice};
use crate::SUCCESS;
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store;
use ralph_hook::adjustments::{RunAdjustment, person_name};
use ralph_hook::closed_run;
use ralph_hook::control::{self, RunOrSession};
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// How long a command waits for the lock of a run.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) const PAUSE_EXAMPLES: &str = "Examples:\n  ralph pause\n  ralph pause k7f2";
pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  ralph resume
  ralph resume k7f2

A run that ralph drives continues here if no runner drives it, as with
`ralph run --resume`. A session that was held is held again at its next
stop.";
pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  ralph cancel
  ralph cancel 5999882c

A run that ended and waits for you is closed: it keeps its status, and
is no longer listed as waiting.";

#[derive(Args)]
pub(crate) struct RunNameArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ControlJson<'a> {
    v: u8,
    name: &'a str,
    status: &'static str,
}

pub(crate) fn pause(env: &Env, args: &RunNameArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = require_run(env, &home, args, RunPurpose::Steer)?;
    let (caller, by) = (identify_caller(env), person_name(env));
    let deadline = &Deadline::after(LOCK_TIMEOUT);
    let (home, run) = (&home, &run);
    let done = control::pause_run(&RunAdjustment { home, run, caller, by: Some(&by), deadline });
    done.map_err(|error| driven_status::control_failure(home, error))?;
    print_result(args, run.as_str(), "paused", &format!("`ralph resume {run}` resumes it"))
}

/// Resumes a held session, or continues a driven run here if no runner drives it.
pub(crate) fn resume(env: &Env, args: &RunNameArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let run = require_run(env, &home, args, RunPurpose::Resume)?;
    let opened = store::load_run(&home, &run)?;
    let phase = control::effective_phase(&home, &opened);
    let waits = matches!(phase, RunPhase::Paused { .. } | RunPhase::Orphaned);
    if opened.run.drive.is_some() && waits && !run_process::may_be_driven(&home, &run) {
        control::require_person_caller(&home, &run, identify_caller(env), "resume")?;
        let drive =
            RunArgs { resume: Some(run.to_string()), json: args.json, ..RunArgs::default() };
        return super::run::run(env, &drive);
    }
    let (caller, by) = (identify_caller(env), person_name(env));
    let (deadline, by) = (&Deadline::after(LOCK_TIMEOUT), Some(by.as_str()));
    let (home, run) = (&home, &run);
    let done = control::resume_held_run(&RunAdjustment { home, run, caller, by, deadline });
    done.map_err(|error| driven_status::control_failure(home, error))?;
    let next = match opened.run.drive {
        None => "its session is held at the next stop".to_string(),
        Some(_) => "its runner continues".to_string(),
    };
    print_result(args, run.as_str(), "active", &next).map(|()| SUCCESS)
}

pub(crate) fn cancel(env: &Env, args: &RunNameArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let named = match &args.name {
        Some(name) => release_target(&home, run_choice::find_named(&home, name)?)?,
        None => RunOrSession::Run(run_choice::project_run(env, &home, RunPurpose::Steer)?),
    };
    let (caller, by) = (identify_caller(env), person_name(env));
    let deadline = Deadline::after(LOCK_TIMEOUT);
    let done = closed_run::cancel_or_close(&home, &named, caller, &by, &deadline)
        .map_err(|error| driven_status::control_failure(&home, error))?;
    let name = match &named {
        RunOrSession::Run(run) => run.as_str(),
        RunOrSession::Session(session) => session.as_str(),
    };
    print_result(args, name, done.name(), &done.describe())
}

/// What a cancel releases: for the record of a session without a run, the session, as `/ralph:off` does.
fn release_target(home: &RalphHome, named: RunOrSession) -> Result<RunOrSession, CommandFailure> {
    let RunOrSession::Run(record) = &named else { return Ok(named) };
    if !record.is_of_session() {
        return Ok(named);
    }
    let opened = store::load_run(home, record)?;
    let owner = opened.state.owner(&opened.run).cloned();
    Ok(owner.map_or(named, RunOrSession::Session))
}

fn require_run(
    env: &Env,
    home: &RalphHome,
    args: &RunNameArgs,
    purpose: RunPurpose,
) -> Result<RunId, CommandFailure> {
    let Some(name) = &args.name else { return run_choice::project_run(env, home, purpose) };
    let done = if purpose == RunPurpose::Resume { "resumed" } else { "paused" };
    run_choice::find_run(home, name, |session| {
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
