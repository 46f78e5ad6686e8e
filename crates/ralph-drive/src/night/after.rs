//! The next step after a turn, depending on how it ended and what was decided about its stop.

use super::report::Advice;
use super::{DriveError, Next, Night, WISHED};
use crate::ending::{self, Class, Ending};
use crate::handoff;
use crate::session::{Conversation, Pause, Turn};
use crate::told::Told;
use crate::weather::{self, Forecast, Happened};
use crate::wishes::Wish;
use ralph_core::decide::Decision;
use ralph_core::drive::{Cause, Drove, How, Wait};
use ralph_core::facts::Declared;
use ralph_core::record::{Outcome, Rule};
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_sys::clock;

/// Maximum consecutive failures of the agent, and of held turns that the host ended.
const MOST_BREAKS: u32 = 3;
/// Maximum consecutive waits that the agent may declare before the work is verified.
const MOST_DECLARED: u32 = 12;

impl Night<'_, '_> {
    pub(super) fn after(&mut self, pause: Pause) -> Result<Next, DriveError> {
        if self.ride.wish() != Wish::None {
            // The decision about the turn is on record and stands.
            if let Phase::Ended(_) = self.ride.phase()? {
                self.cut_off()?;
                return Ok(Next::Over);
            }
            return Ok(Next::Park(Status::Cancelled, WISHED.to_string()));
        }
        Ok(match pause {
            Pause::Turn(turn) => self.after_turn(turn)?,
            Pause::Gone(turn) => {
                self.open = None;
                self.after_turn(turn)?
            }
            Pause::Silent => {
                let decision = self.open.as_mut().and_then(Conversation::decided);
                self.cut_off()?;
                let next = self.broke("the agent stopped responding, even after a nudge")?;
                // A decision stands, whatever trigger to the process.
                decision.and_then(|decision| settled(&decision)).unwrap_or(next)
            }
            Pause::OverTime => {
                self.cut_off()?;
                Next::Look
            }
            Pause::Settled(decision) => {
                self.ride.note("the agent was allowed to stop but goes on: another hook holds it");
                self.cut_off()?;
                self.by_decision(&decision)?
            }
            Pause::Unanswered(question) => {
                self.advice = Advice::Answer;
                Next::Park(Status::NeedsHuman, question)
            }
            Pause::UsedUp(why) => Next::Park(Status::RateLimited, why),
            Pause::Wished => Next::Park(Status::Cancelled, "stopped by a person".to_string()),
            Pause::Paused => {
                self.cut_off()?;
                Next::Paused
            }
            Pause::Cancelled => {
                self.cut_off()?;
                Next::Over
            }
        })
    }

    fn after_turn(&mut self, turn: Turn) -> Result<Next, DriveError> {
        let Turn { ending, decision, stop } = turn;
        self.stop = stop.or(self.stop.take());
        let class = ending::class(&ending);
        if class == Class::Settled {
            self.waits = 0;
        } else {
            let (class, text) = (name(&class), ending::sentence(&ending));
            self.ride.tell(&Told::Trouble { class, text });
        }
        if ending != Ending::Overridden {
            self.overrides = 0;
        }
        match (class, &ending) {
            (_, Ending::Overridden) => self.overridden(decision.as_ref()),
            // The process accepts no more messages; the verification also checks the remaining budget.
            (_, Ending::Budget) => Ok(Next::Look),
            (Class::Settled, _) => match decision {
                Some(decision) => self.by_decision(&decision),
                None => Ok(Next::Decide),
            },
            (Class::Full, _) => {
                self.ride.record(Drove::Broke { how: ending::sentence(&ending) })?;
                self.unless_broken(Next::HandOver(ending::sentence(&ending)))
            }
            (Class::Weather(cause), _) => self.weather(cause, &ending),
            (Class::Fatal { status, why }, ending) => {
                self.advice = Advice::of(ending);
                Ok(Next::Park(status, why))
            }
            (Class::Broken, Ending::NoSession) => {
                self.open = None;
                self.lost(&ending::sentence(&ending))
            }
            (Class::Broken, ending) => {
                let next = self.broke(&ending::sentence(ending))?;
                Ok(decision.and_then(|decision| settled(&decision)).unwrap_or(next))
            }
        }
    }

    /// The next step after a decision about a stop, made in-band or by the runner itself.
    pub(super) fn by_decision(&mut self, decision: &Decision) -> Result<Next, DriveError> {
        if decision.rule != Rule::FinalLook {
            // This run does not land yet, so other runs may.
            self.closing = None;
            self.landing = None;
        }
        Ok(match &decision.outcome {
            Outcome::Ended(_) => Next::Over,
            Outcome::HandedOver => Next::HandOver(decision.because.clone()),
            // The in-band answer had this reason too, but the agent stopped all the same.
            Outcome::Blocked { reason } | Outcome::Awaited { reason } => Next::Say(reason.clone()),
            Outcome::Orphaned => Next::Decide,
            Outcome::Repeated => match self.ride.load()?.state.answer {
                Some(answer) => Next::Say(answer),
                None => Next::Listen,
            },
            Outcome::Allowed => return self.let_go(decision),
        })
    }

    fn let_go(&mut self, decision: &Decision) -> Result<Next, DriveError> {
        let because = decision.because.clone();
        Ok(match decision.rule {
            Rule::FinalLook => self.closing.take().map_or(Next::Look, Next::Land),
            Rule::NeedsHuman => Next::Ask(because),
            Rule::Untrusted => {
                self.advice = Advice::Trust;
                Next::Park(Status::NeedsHuman, because)
            }
            Rule::Waiting => match self.ride.load()?.state.declared {
                Some(Declared::Waiting { until_ms, why }) => {
                    if self.ride.load()?.state.driving.declared >= MOST_DECLARED {
                        // Waiting is not charged as an iteration, so it needs a bound of its own.
                        self.ride.record(Drove::WaitedEnough { why })?;
                        return Ok(Next::Decide);
                    }
                    let (since_ms, cause) = (clock::now_ms(), Cause::Declared);
                    Next::Wait(Wait { cause, since_ms, until_ms, attempt: 1, why, window: None })
                }
                Some(Declared::NeedsHuman(question)) => Next::Ask(question),
                None => Next::Listen,
            },
            Rule::Off => match self.ride.phase()? {
                Phase::Paused { .. } => Next::Paused,
                Phase::Ended(_) | Phase::Orphaned | Phase::Active => Next::Over,
            },
            Rule::HostTrouble | Rule::OddStop => return self.broke(&because),
            Rule::NotMine
            | Rule::Repeat
            | Rule::Verified
            | Rule::Claimed
            | Rule::Tampered
            | Rule::GateBroken
            | Rule::Limit
            | Rule::Stuck
            | Rule::Remedy
            | Rule::HandOver
            | Rule::HoldOnce
            | Rule::Block => Next::Over,
        })
    }

    /// Restarts an agent that failed in the middle of a turn, a limited number of times.
    pub(super) fn broke(&mut self, how: &str) -> Result<Next, DriveError> {
        let complaint = Conversation::complaint(self.ride).filter(|_| self.open.is_none());
        let how = match complaint {
            Some(said) => format!("{how}; stderr: {said}"),
            None => how.to_string(),
        };
        self.ride.record(Drove::Broke { how: how.clone() })?;
        self.ride.note(&how);
        let message = self.continuation()?;
        self.unless_broken(Next::Say(message))
    }

    /// Replaces a session that the client does not have, because its agent died before anything was saved. The failure
    /// is already recorded and counted; the next session starts from the journal.
    fn lost(&mut self, how: &str) -> Result<Next, DriveError> {
        let driving = self.ride.load()?.state.driving;
        let is_copy = driving.latest().is_some_and(|driven| driven.session.how == How::Forked);
        if let Some(from) = self.ride.settings.from.as_ref().filter(|_| is_copy) {
            self.advice = Advice::CopyAnother;
            let why = format!("the agent has no session `{}` to fork", from.as_str());
            return Ok(Next::Park(Status::NeedsHuman, why));
        }
        Ok(match driving.count {
            0 | 1 => Next::First(self.prompt()?),
            _ => Next::HandOver(how.to_string()),
        })
    }

    fn unless_broken(&mut self, next: Next) -> Result<Next, DriveError> {
        let broken = self.ride.load()?.state.driving.broken;
        if broken <= MOST_BREAKS {
            return Ok(next);
        }
        let why = format!("the agent failed {broken} times in a row");
        let said = Conversation::complaint(self.ride);
        let why = said.map_or(why.clone(), |said| format!("{why}; last stderr: {said}"));
        Ok(Next::Park(Status::Crashed, why))
    }

    /// R-L9a: the host ended a held turn and reported success. The last answer is sent again, uncharged.
    fn overridden(&mut self, decision: Option<&Decision>) -> Result<Next, DriveError> {
        self.overrides = self.overrides.saturating_add(1);
        if self.overrides > MOST_BREAKS {
            let why = format!("the host ended {} held turns in a row", self.overrides);
            return Ok(Next::Park(Status::Overridden, why));
        }
        match (decision, self.ride.load()?.state.answer) {
            (Some(decision), _) => self.by_decision(decision),
            (None, Some(answer)) => Ok(Next::Say(answer)),
            (None, None) => Ok(Next::Decide),
        }
    }

    fn weather(&mut self, cause: Cause, ending: &Ending) -> Result<Next, DriveError> {
        let in_a_row = self.waits;
        self.waits = self.waits.saturating_add(1);
        let (mut resets_at_ms, mut window) = (None, None);
        if let Ending::RateLimited { resets_at_ms: reset, window: named } = ending {
            (resets_at_ms, window) = (*reset, named.clone());
        }
        let opened = self.ride.load()?;
        let trigger = Happened { cause, resets_at_ms, in_a_row };
        Ok(match weather::next(trigger, &self.ride.sky(&opened.state.driving)) {
            Forecast::Wait(wait) => Next::Wait(Wait { window, ..wait }),
            Forecast::Park { status, why } => Next::Park(status, why),
        })
    }

    /// The message after an interruption. It repeats the last answer, which may not have arrived.
    pub(super) fn continuation(&self) -> Result<String, DriveError> {
        let opened = self.ride.load()?;
        Ok(handoff::after_break(opened.state.answer.as_deref()))
    }
}

/// The next step after a decision that still holds although the agent failed afterwards. `None` if the agent has to go
/// on.
fn settled(decision: &Decision) -> Option<Next> {
    match (&decision.outcome, decision.rule) {
        (Outcome::Ended(_), _) => Some(Next::Over),
        (Outcome::HandedOver, _) => Some(Next::HandOver(decision.because.clone())),
        (Outcome::Allowed, Rule::FinalLook) => Some(Next::Look),
        (
            Outcome::Allowed
            | Outcome::Blocked { .. }
            | Outcome::Awaited { .. }
            | Outcome::Repeated
            | Outcome::Orphaned,
            _,
        ) => None,
    }
}

fn name(class: &Class) -> String {
    match class {
        Class::Settled => "settled",
        Class::Full => "full context",
        Class::Weather(cause) => cause.name(),
        Class::Fatal { status, .. } => status.name(),
        Class::Broken => "broken",
    }
    .to_string()
}
