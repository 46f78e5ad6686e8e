//! `ralph accept`: a person takes responsibility for work that ralph could not prove.

use super::{declare, identify_caller, open_home, run_choice};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::record::Acceptance;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_deck::person_action::LONGEST_ACCEPT_REASON;
use ralph_deck::view::acceptance::{AcceptanceView, AcceptedRunView};
use ralph_deck::view::driven_run;
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::adjustments::{self, RunAdjustment};
use ralph_hook::control::{self, ControlError};
use ralph_hook::overview;
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph accept\n  ralph accept k7f2 --why \"the old format was meant to go\"\n\nReview the change first: `ralph checkpoint diff RUN`, `ralph why RUN`.\nThe run then counts as `verified`, and every report shows your name and\nreason. Asks you to type a word; agents cannot accept."
)]
pub(crate) struct AcceptArgs {
    /// Name the run or its session [default: the last one of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Give the reason
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &AcceptArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = match &args.name {
        Some(name) => run_choice::find_run(&home, name, run_choice::unowned_session)?,
        None => run_choice::project_run(env, &home, RunPurpose::Accept)?,
    };
    let why = args.why.as_deref().unwrap_or_default();
    let AcceptedWork { acceptance, next } = accept_work(env, &home, &run, why)?;
    if args.json {
        super::print_json(&AcceptedRunView {
            v: 1,
            run: run.as_str(),
            status: RunStatus::Verified,
            accepted: AcceptanceView::from_acceptance(&acceptance),
            next: next.as_deref(),
        })?;
    } else {
        let id = paint(term::BOLD, run.as_str());
        let mut out = format!("{id}  {}\n", safe_line(&acceptance.describe_status()));
        if let Some(next) = next {
            out.push_str(&format!("      {next}\n"));
        }
        term::out(&out)?;
    }
    Ok(())
}

/// What a person accepted, and how to land it.
pub(crate) struct AcceptedWork {
    pub(crate) acceptance: Acceptance,
    pub(crate) next: Option<String>,
}

/// Accepts the work of a run, after asking for a word at the terminal.
pub(crate) fn accept_work(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    why: &str,
) -> Result<AcceptedWork, CommandFailure> {
    let caller = identify_caller(env);
    control::require_person_caller(home, run, caller, "accept")?;
    let opened = store::load_run(home, run)?;
    let status = acceptable_status(home, &opened)?;
    let why = declare::clean_text(env, why, LONGEST_ACCEPT_REASON);
    typed_consent::require_always(
        &format!("run `{run}` (“{}”) ended {}", safe_line(&opened.run.title), status.name()),
        "accept its work as verified",
    )?;
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let adjustment = RunAdjustment { home, run, caller, by: None, deadline: &deadline };
    let acceptance = adjustments::accept_run(&adjustment, adjustments::person_name(env), why)
        .map_err(|error| driven_status::control_failure(home, error))?;
    let accepted = store::load_run(home, run)?;
    if accepted.run.drive.is_some() {
        // The reports from the end of the run would still call it unproved. That they cannot be written changes nothing.
        super::report::write_reports(env, run);
    }
    let next = landing_advice(home, &accepted);
    Ok(AcceptedWork { acceptance, next })
}

/// Checked before the question, so that a person types no word for nothing.
fn acceptable_status(home: &RalphHome, opened: &LoadedRun) -> Result<RunStatus, ControlError> {
    let run = opened.run.id.clone();
    match control::effective_phase(home, opened) {
        RunPhase::Ended(status) if status.is_acceptable() => Ok(status),
        RunPhase::Ended(status) => Err(ControlError::NotAcceptable { run, status }),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            Err(ControlError::NotEnded { run })
        }
    }
}

/// How to land work that is still in a work tree of its own.
fn landing_advice(home: &RalphHome, opened: &LoadedRun) -> Option<String> {
    let LoadedRun { run, state, .. } = opened;
    run.worktree()?;
    let history = overview::run_history(home, &run.id).ok()?;
    let outcome = driven_run::worktree_outcome(&history.entries);
    driven_run::unmerged_text(run, state, state.phase, outcome.as_deref())
}
