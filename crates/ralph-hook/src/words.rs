//! Changes a person makes to a run in progress: hints, waivers, limits. An agent is refused, whichever run it names.

use crate::control::{self, Caller, ControlError, phase};
use ralph_core::id::RunId;
use ralph_core::limits::{Bounds, Limits};
use ralph_core::record::{Change, Waiver};
use ralph_core::run::Phase;
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened, Step, Transaction};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::Durability;

/// A run to change, and the caller that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Speech<'a> {
    pub home: &'a Home,
    pub run: &'a RunId,
    pub caller: Caller,
    pub deadline: &'a Deadline,
}

/// Adds a hint, which the agent receives at its next stop.
pub fn tell(speech: &Speech<'_>, text: &str) -> Result<(), ControlError> {
    speech.by_person("send a hint to")?;
    speech.say(|now| {
        // A hook registered twice delivers the same hint twice.
        let is_duplicate = speech.caller == Caller::Session
            && now.state.hints.last().is_some_and(|last| last == text);
        Ok((!is_duplicate).then(|| Change::Told { text: text.to_string() }))
    })
}

/// Waives a requirement until the waiver expires: it is still reported, but no longer holds the agent.
pub fn waive(speech: &Speech<'_>, waiver: &Waiver) -> Result<(), ControlError> {
    speech.by_person("waive a requirement of")?;
    speech.say(|_| Ok(Some(Change::Waived(waiver.clone()))))
}

/// Revokes a waiver, so that the requirement holds the agent again.
pub fn insist(speech: &Speech<'_>, requirement: &str) -> Result<(), ControlError> {
    speech.by_person("change the waivers of")?;
    speech.say(|now| {
        let is_waived = now.state.waivers.iter().any(|one| one.requirement == requirement);
        match (is_waived, speech.caller) {
            (true, _) => Ok(Some(Change::Insisted { requirement: requirement.to_string() })),
            (false, Caller::Session) => Ok(None),
            (false, Caller::Person | Caller::Agent) => Err(ControlError::NotWaived {
                run: speech.run.clone(),
                name: requirement.to_string(),
            }),
        }
    })
}

/// Changes limits, and returns all limits now in force.
pub fn limit(speech: &Speech<'_>, bounds: &Bounds) -> Result<Limits, ControlError> {
    speech.by_person("change the limits of")?;
    let mut limits = None;
    speech.say(|now| {
        let before = now.state.limits(&now.run);
        let then = bounds.on(before);
        then.check()?;
        let is_new = then != *before;
        limits = Some(then.clone());
        Ok(is_new.then_some(Change::Limited(then)))
    })?;
    limits.ok_or(ControlError::Endless)
}

impl Speech<'_> {
    fn by_person(&self, action: &'static str) -> Result<(), ControlError> {
        control::by_person(self.home, self.run, self.caller, action)
    }

    /// Records the change under the run's lock; `None` leaves the run unchanged.
    fn say(
        &self,
        change: impl FnOnce(&Opened) -> Result<Option<Change>, ControlError>,
    ) -> Result<(), ControlError> {
        let Self { home, run, deadline, .. } = *self;
        store::load(home, run)?;
        store::transact(&Transaction { home, run, deadline: *deadline, seen: None }, |now| {
            if let Phase::Ended(status) = phase(home, now) {
                return Step::Leave(Err(ControlError::HasEnded { run: run.clone(), status }));
            }
            match change(now) {
                Ok(Some(change)) => {
                    Step::Write { change, durability: Durability::Synced, answer: Ok(()) }
                }
                Ok(None) => Step::Leave(Ok(())),
                Err(error) => Step::Leave(Err(error)),
            }
        })?
    }
}
