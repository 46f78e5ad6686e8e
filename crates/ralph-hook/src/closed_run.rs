//! Closes an ended run that waits for a person, so that no list shows it as waiting any more.

use crate::control::{
    CommandCaller, ControlError, RunOrSession, cancel_run_or_session, require_person_caller,
};
use crate::overview;
use ralph_core::closed_run::closing_entry;
use ralph_core::id::RunId;
use ralph_core::record::RunChange;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunTransaction, TransactionStep};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::Durability;

/// What `ralph cancel` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    Cancelled,
    /// The run had ended with this status and waited for a person. It no longer does.
    Closed(RunStatus),
}

impl CancelOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Closed(_) => "closed",
        }
    }

    /// What is so now, for the person.
    pub fn describe(self) -> String {
        match self {
            Self::Cancelled => "its session is free, and nothing was deleted".to_string(),
            Self::Closed(status) => {
                format!("it stays {} and no longer waits for you", status.name())
            }
        }
    }
}

/// Cancels a run, releases a session, or closes a run that ended and waits for a person.
pub fn cancel_or_close(
    home: &RalphHome,
    name: &RunOrSession,
    caller: CommandCaller,
    by: &str,
    deadline: &Deadline,
) -> Result<CancelOutcome, ControlError> {
    if let RunOrSession::Run(run) = name
        && let RunPhase::Ended(status) = store::load_run(home, run)?.state.phase
        && status.waits_for_person()
    {
        return close_ended_run(home, run, caller, by, deadline).map(CancelOutcome::Closed);
    }
    cancel_run_or_session(home, name, caller, by, deadline)?;
    Ok(CancelOutcome::Cancelled)
}

/// Records that a person has dealt with a run. Its status stays. Fails if the run does not wait for a person.
pub fn close_ended_run(
    home: &RalphHome,
    run: &RunId,
    caller: CommandCaller,
    by: &str,
    deadline: &Deadline,
) -> Result<RunStatus, ControlError> {
    require_person_caller(home, run, caller, "close")?;
    let is_closed = closing_entry(&overview::run_history(home, run)?.entries).is_some();
    let transaction = RunTransaction { home, run, deadline: *deadline, by: Some(by), loaded: None };
    store::transact(&transaction, |now| match now.state.phase {
        RunPhase::Ended(status) if status.waits_for_person() && !is_closed => {
            TransactionStep::Write {
                change: RunChange::Cancelled,
                durability: Durability::Synced,
                answer: Ok(status),
            }
        }
        RunPhase::Ended(status) => {
            TransactionStep::Leave(Err(ControlError::HasEnded { run: run.clone(), status }))
        }
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            TransactionStep::Leave(Err(ControlError::NotEnded { run: run.clone() }))
        }
    })?
}
