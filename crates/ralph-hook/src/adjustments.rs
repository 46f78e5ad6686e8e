//! Changes a person makes to a run: hints, waivers and limits while it is active, and acceptance after its end. An agent
//! is refused, whichever run it names.

use crate::control::{self, CommandCaller, ControlError, effective_phase};
use ralph_core::id::RunId;
use ralph_core::limits::{LimitOverrides, RunLimits};
use ralph_core::record::{Acceptance, RunChange, Waiver};
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, RunTransaction, TransactionStep};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::Durability;

const MAX_AUTHOR_CHARS: usize = 60;

/// A run to change, and the caller that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct RunAdjustment<'a> {
    pub home: &'a RalphHome,
    pub run: &'a RunId,
    pub caller: CommandCaller,
    /// The person, for the journal; `None` if a program of ralph acts for them.
    pub by: Option<&'a str>,
    pub deadline: &'a Deadline,
}

/// The person whose name an action is recorded with.
pub fn person_name(env: &Env) -> String {
    let name = env.user_name().map(|name| text::clean_line(&name, MAX_AUTHOR_CHARS));
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "a person".to_string())
}

/// A message of a person.
#[derive(Clone, Copy, Debug)]
pub struct PersonHint<'a> {
    pub text: &'a str,
    pub by: &'a str,
    /// The journal line of the question that it answers.
    pub answers: Option<u64>,
}

/// Adds a hint, which the agent receives at its next stop.
pub fn add_hint(adjustment: &RunAdjustment<'_>, hint: &PersonHint<'_>) -> Result<(), ControlError> {
    let PersonHint { text, by, answers } = *hint;
    adjustment.require_person("send a hint to")?;
    // The change names the person itself.
    RunAdjustment { by: None, ..*adjustment }.apply(|now| {
        // A hook registered twice delivers the same hint twice.
        let is_duplicate = adjustment.caller == CommandCaller::Session
            && now.state.hints.last().is_some_and(|last| last == text);
        Ok((!is_duplicate).then(|| RunChange::HintGiven {
            text: text.to_string(),
            by: Some(by.to_string()),
            answers,
        }))
    })
}

/// Waives a requirement until the waiver expires: it is still reported, but no longer holds the agent.
pub fn add_waiver(adjustment: &RunAdjustment<'_>, waiver: &Waiver) -> Result<(), ControlError> {
    adjustment.require_person("waive a requirement of")?;
    let unnamed = RunAdjustment { by: None, ..*adjustment };
    unnamed.apply(|_| Ok(Some(RunChange::Waived(waiver.clone()))))
}

/// Revokes a waiver, so that the requirement holds the agent again.
pub fn revoke_waiver(
    adjustment: &RunAdjustment<'_>,
    requirement: &str,
) -> Result<(), ControlError> {
    adjustment.require_person("change the waivers of")?;
    adjustment.apply(|now| {
        let is_waived = now.state.waivers.iter().any(|one| one.requirement == requirement);
        match (is_waived, adjustment.caller) {
            (true, _) => {
                Ok(Some(RunChange::WaiverRevoked { requirement: requirement.to_string() }))
            }
            (false, CommandCaller::Session) => Ok(None),
            (false, _) => Err(ControlError::NotWaived {
                run: adjustment.run.clone(),
                name: requirement.to_string(),
            }),
        }
    })
}

/// Changes limits, and returns all limits now in force.
pub fn set_run_limits(
    adjustment: &RunAdjustment<'_>,
    overrides: &LimitOverrides,
) -> Result<RunLimits, ControlError> {
    adjustment.require_person("change the limits of")?;
    let mut limits = None;
    adjustment.apply(|now| {
        if now.run.drive.is_none() {
            control::reject_runner_limits(overrides)?;
        }
        let before = now.state.limits(&now.run);
        let then = overrides.apply_to(before);
        then.validate()?;
        let is_new = then != *before;
        limits = Some(then.clone());
        Ok(is_new.then_some(RunChange::Limited(then)))
    })?;
    limits.ok_or(ControlError::NoLimit)
}

/// Makes a run that ended without proof count as verified, on a person's responsibility. Returns the acceptance.
pub fn accept_run(
    adjustment: &RunAdjustment<'_>,
    by: String,
    why: String,
) -> Result<Acceptance, ControlError> {
    adjustment.require_person("accept")?;
    let RunAdjustment { home, run, deadline, .. } = *adjustment;
    let transaction = RunTransaction { home, run, deadline: *deadline, by: None, loaded: None };
    store::transact(&transaction, |now| match effective_phase(home, now) {
        RunPhase::Ended(was) if was.is_acceptable() => {
            let acceptance = Acceptance { by, why, at_ms: clock::now_ms(), was };
            TransactionStep::Write {
                change: RunChange::Accepted(acceptance.clone()),
                durability: Durability::Synced,
                answer: Ok(acceptance),
            }
        }
        RunPhase::Ended(status) => {
            TransactionStep::Leave(Err(ControlError::NotAcceptable { run: run.clone(), status }))
        }
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            TransactionStep::Leave(Err(ControlError::NotEnded { run: run.clone() }))
        }
    })?
}

impl RunAdjustment<'_> {
    fn require_person(&self, action: &'static str) -> Result<(), ControlError> {
        control::require_person_caller(self.home, self.run, self.caller, action)
    }

    /// Records the change under the run's lock; `None` leaves the run unchanged.
    fn apply(
        &self,
        change: impl FnOnce(&LoadedRun) -> Result<Option<RunChange>, ControlError>,
    ) -> Result<(), ControlError> {
        let Self { home, run, deadline, by, .. } = *self;
        store::load_run(home, run)?;
        let transaction = RunTransaction { home, run, deadline: *deadline, by, loaded: None };
        store::transact(&transaction, |now| {
            if let RunPhase::Ended(status) = effective_phase(home, now) {
                return TransactionStep::Leave(Err(ControlError::HasEnded {
                    run: run.clone(),
                    status,
                }));
            }
            match change(now) {
                Ok(Some(change)) => TransactionStep::Write {
                    change,
                    durability: Durability::Synced,
                    answer: Ok(()),
                },
                Ok(None) => TransactionStep::Leave(Ok(())),
                Err(error) => TransactionStep::Leave(Err(error)),
            }
        })?
    }
}
