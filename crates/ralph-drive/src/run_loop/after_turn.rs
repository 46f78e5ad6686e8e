//! The next step after a turn, depending on how it ended and what was decided about its stop.

use super::report::ResumeAdvice;
use super::{DriveError, NextStep, RunLoop, STOPPED_BY_SIGNAL};
use crate::backoff::{self, RetryPlan, RetryTrigger};
use crate::run_event::RunEvent;
use crate::session::{AgentConversation, FinishedTurn, ListenEnd};
use crate::session_prompts;
use crate::stop_requests::StopRequest;
use crate::turn_ending::{self, EndingClass, TurnEnding};
use ralph_core::decide::StopDecision;
use ralph_core::drive::{PlannedWait, RunnerEvent, SessionOrigin, WaitCause};
use ralph_core::facts::DeclaredPause;
use ralph_core::record::{DecisionRule, StopOutcome};
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_sys::clock;

/// Maximum consecutive failures of the agent, and of held turns that the host ended.
const MOST_FAILURES: u32 = 3;
/// Turns in a row that a provider which never answered may leave without a response.
const MAX_UNREACHED: u32 = 3;
/// Maximum consecutive waits that the agent may declare before the work is verified.
const MOST_DECLARED: u32 = 12;

impl RunLoop<'_, '_> {
    pub(super) fn after_listening(&mut self, pause: ListenEnd) -> Result<NextStep, DriveError> {
        if self.ctx.stop_request() != StopRequest::None {
            // The decision about the turn is on record and stands.
            if let RunPhase::Ended(_) = self.ctx.phase()? {
                self.terminate_conversation()?;
                return Ok(NextStep::Over);
            }
            return Ok(NextStep::Park(RunStatus::Cancelled, STOPPED_BY_SIGNAL.to_string()));
        }
        Ok(match pause {
            ListenEnd::Turn(turn) => self.after_turn(turn)?,
            ListenEnd::Exited(turn) => {
                self.conversation = None;
                self.after_turn(turn)?
            }
            ListenEnd::Silent => {
                let decision =
                    self.conversation.as_mut().and_then(AgentConversation::take_decision);
                self.terminate_conversation()?;
                let next =
                    self.restart_after_failure("the agent stopped responding, even after a nudge")?;
                // A decision stands, whatever trigger to the process.
                decision.and_then(|decision| settled_step(&decision)).unwrap_or(next)
            }
            ListenEnd::TimeLimit => {
                self.terminate_conversation()?;
                NextStep::Verify
            }
            ListenEnd::Settled(decision) => {
                self.ctx.note("the agent was allowed to stop but goes on: another hook holds it");
                self.terminate_conversation()?;
                self.apply_decision(&decision)?
            }
            ListenEnd::Unanswered(question) => {
                self.advice = ResumeAdvice::Answer;
                NextStep::Park(RunStatus::NeedsHuman, question)
            }
            ListenEnd::WindowExhausted(why) => NextStep::Park(RunStatus::RateLimited, why),
            ListenEnd::StopRequested => {
                NextStep::Park(RunStatus::Cancelled, "stopped by a person".to_string())
            }
            ListenEnd::Paused => {
                self.terminate_conversation()?;
                NextStep::Paused
            }
            ListenEnd::Cancelled => {
                self.terminate_conversation()?;
                NextStep::Over
            }
        })
    }

    fn after_turn(&mut self, turn: FinishedTurn) -> Result<NextStep, DriveError> {
        let FinishedTurn { ending, decision, stop } = turn;
        self.last_stop = stop.or(self.last_stop.take());
        let class = turn_ending::ending_class(&ending);
        if class == EndingClass::Settled {
            self.consecutive_waits = 0;
        } else {
            let class = class_name(&class);
            let text = if ending == TurnEnding::Network {
                format!("{} cannot be reached", self.ctx.provider())
            } else {
                turn_ending::describe_ending(&ending)
            };
            self.ctx.emit(&RunEvent::Trouble { class, text });
        }
        if ending != TurnEnding::Overridden {
            self.overrides = 0;
        }
        match (class, &ending) {
            (_, TurnEnding::Overridden) => self.after_override(decision.as_ref()),
            // The process accepts no more messages; the verification also checks the remaining budget.
            (_, TurnEnding::Budget) => Ok(NextStep::Verify),
            (EndingClass::Settled, _) => match decision {
                Some(decision) => self.apply_decision(&decision),
                None => Ok(NextStep::VerifyInPlace),
            },
            (EndingClass::ContextFull, _) => {
                self.ctx
                    .record(RunnerEvent::Broke { how: turn_ending::describe_ending(&ending) })?;
                self.unless_failed_too_often(NextStep::HandOver(turn_ending::describe_ending(
                    &ending,
                )))
            }
            (EndingClass::Transient(cause), _) => self.after_provider_failure(cause, &ending),
            (EndingClass::Fatal { status, why }, ending) => {
                self.advice = ResumeAdvice::for_ending(ending);
                Ok(NextStep::Park(status, why))
            }
            (EndingClass::Broken, TurnEnding::NoSession) => {
                self.conversation = None;
                self.replace_lost_session(&turn_ending::describe_ending(&ending))
            }
            (EndingClass::Broken, ending) => {
                let how = turn_ending::describe_ending(ending);
                let next = self.restart_after_reported_failure(&how)?;
                Ok(decision.and_then(|decision| settled_step(&decision)).unwrap_or(next))
            }
        }
    }

    /// The next step after a decision about a stop, made in-band or by the runner itself.
    pub(super) fn apply_decision(
        &mut self,
        decision: &StopDecision,
    ) -> Result<NextStep, DriveError> {
        if decision.rule != DecisionRule::FinalLook {
            self.is_work_verified = false;
            // This run does not land yet, so other runs may.
            self.landing_commit = None;
            self.landing_lock = None;
        }
        Ok(match &decision.outcome {
            StopOutcome::Ended(_) => NextStep::Over,
            StopOutcome::HandedOver => NextStep::HandOver(decision.because.clone()),
            // The in-band answer had this reason too, but the agent stopped all the same.
            StopOutcome::Blocked { reason } | StopOutcome::Awaited { reason } => {
                NextStep::Say(reason.clone())
            }
            StopOutcome::Orphaned => NextStep::VerifyInPlace,
            StopOutcome::Repeated => match self.ctx.load()?.state.answer {
                Some(answer) => NextStep::Say(answer),
                None => NextStep::Listen,
            },
            StopOutcome::Allowed => return self.after_allowed_stop(decision),
        })
    }

    fn after_allowed_stop(&mut self, decision: &StopDecision) -> Result<NextStep, DriveError> {
        let because = decision.because.clone();
        Ok(match decision.rule {
            DecisionRule::FinalLook => {
                self.landing_commit.take().map_or(NextStep::Verify, NextStep::Land)
            }
            DecisionRule::NeedsHuman => NextStep::Ask(because),
            DecisionRule::Untrusted => {
                self.advice = ResumeAdvice::Trust;
                NextStep::Park(RunStatus::NeedsHuman, because)
            }
            DecisionRule::Waiting => match self.ctx.load()?.state.declared {
                Some(DeclaredPause::Waiting { until_ms, why }) => {
                    if self.ctx.load()?.state.driving.declared >= MOST_DECLARED {
                        // Waiting is not charged as an iteration, so it needs a bound of its own.
                        self.ctx.record(RunnerEvent::WaitedEnough { why })?;
                        return Ok(NextStep::VerifyInPlace);
                    }
                    let (since_ms, cause) = (clock::now_ms(), WaitCause::Declared);
                    NextStep::Wait(PlannedWait {
                        cause,
                        since_ms,
                        until_ms,
                        attempt: 1,
                        why,
                        window: None,
                    })
                }
                Some(DeclaredPause::NeedsHuman(question) | DeclaredPause::Approval(question)) => {
                    NextStep::Ask(question)
                }
                None => NextStep::Listen,
            },
            DecisionRule::Off => match self.ctx.phase()? {
                RunPhase::Paused { .. } => NextStep::Paused,
                RunPhase::Ended(_) | RunPhase::Orphaned | RunPhase::Active => NextStep::Over,
            },
            DecisionRule::HostTrouble | DecisionRule::OddStop => {
                return self.restart_after_failure(&because);
            }
            DecisionRule::NotMine
            | DecisionRule::Repeat
            | DecisionRule::Verified
            | DecisionRule::Proof
            | DecisionRule::Claimed
            | DecisionRule::Tampered
            | DecisionRule::GateBroken
            | DecisionRule::Limit
            | DecisionRule::Stuck
            | DecisionRule::Remedy
            | DecisionRule::HandOver
            | DecisionRule::HoldOnce
            | DecisionRule::Passed
            | DecisionRule::Block => NextStep::Over,
        })
    }

    /// Restarts an agent that failed in the middle of a turn, a limited number of times.
    pub(super) fn restart_after_failure(&mut self, how: &str) -> Result<NextStep, DriveError> {
        self.ctx.note(how);
        self.restart_after_reported_failure(how)
    }

    /// Like [`Self::restart_after_failure`], for a failure that an event has already shown.
    fn restart_after_reported_failure(&mut self, how: &str) -> Result<NextStep, DriveError> {
        let complaint =
            AgentConversation::stderr_excerpt(self.ctx).filter(|_| self.conversation.is_none());
        let how = match &complaint {
            Some(said) => format!("{how}; stderr: {said}"),
            None => how.to_string(),
        };
        self.ctx.record(RunnerEvent::Broke { how })?;
        if let Some(said) = complaint {
            self.ctx.note(&format!("stderr: {said}"));
        }
        let message = self.continuation_message()?;
        self.unless_failed_too_often(NextStep::Say(message))
    }

    /// Replaces a session that the client does not have, because its agent died before anything was saved. The failure
    /// is already recorded and counted; the next session starts from the journal.
    fn replace_lost_session(&mut self, how: &str) -> Result<NextStep, DriveError> {
        let driving = self.ctx.load()?.state.driving;
        let is_copy = driving
            .latest_session()
            .is_some_and(|driven| driven.session.how == SessionOrigin::Forked);
        if let Some(from) = self.ctx.settings.from.as_ref().filter(|_| is_copy) {
            self.advice = ResumeAdvice::ForkAnother;
            let why = format!("the agent has no session `{}` to fork", from.as_str());
            return Ok(NextStep::Park(RunStatus::NeedsHuman, why));
        }
        Ok(match driving.count {
            0 | 1 => NextStep::First(self.first_prompt()?),
            _ => NextStep::HandOver(how.to_string()),
        })
    }

    fn unless_failed_too_often(&mut self, next: NextStep) -> Result<NextStep, DriveError> {
        let broken = self.ctx.load()?.state.driving.broken;
        if broken <= MOST_FAILURES {
            return Ok(next);
        }
        let why = format!("the agent failed {broken} times in a row");
        let said = AgentConversation::stderr_excerpt(self.ctx);
        let why = said.map_or(why.clone(), |said| format!("{why}; last stderr: {said}"));
        Ok(NextStep::Park(RunStatus::Crashed, why))
    }

    /// R-L9a: the host ended a held turn and reported success. The last answer is sent again, uncharged.
    fn after_override(&mut self, decision: Option<&StopDecision>) -> Result<NextStep, DriveError> {
        self.overrides = self.overrides.saturating_add(1);
        if self.overrides > MOST_FAILURES {
            let why = format!("the host ended {} held turns in a row", self.overrides);
            return Ok(NextStep::Park(RunStatus::Overridden, why));
        }
        match (decision, self.ctx.load()?.state.answer) {
            (Some(decision), _) => self.apply_decision(decision),
            (None, Some(answer)) => Ok(NextStep::Say(answer)),
            (None, None) => Ok(NextStep::VerifyInPlace),
        }
    }

    fn after_provider_failure(
        &mut self,
        cause: WaitCause,
        ending: &TurnEnding,
    ) -> Result<NextStep, DriveError> {
        let in_a_row = self.consecutive_waits;
        self.consecutive_waits = self.consecutive_waits.saturating_add(1);
        let (mut resets_at_ms, mut window) = (None, None);
        if let TurnEnding::RateLimited { resets_at_ms: reset, window: named } = ending {
            (resets_at_ms, window) = (*reset, named.clone());
        }
        let opened = self.ctx.load()?;
        // A wait helps with an outage, but not with a wrong address.
        let has_answered = opened.state.driving.spent().tokens > 0;
        if cause == WaitCause::Network && !has_answered && self.consecutive_waits >= MAX_UNREACHED {
            let (provider, variable) =
                (self.ctx.provider(), self.ctx.host().command_line.provider_variable);
            return Ok(NextStep::Park(
                RunStatus::NeedsHuman,
                format!(
                    "{provider} cannot be reached: check the network, proxies and `{variable}`"
                ),
            ));
        }
        let trigger = RetryTrigger { cause, resets_at_ms, in_a_row };
        Ok(match backoff::plan_retry(trigger, &self.ctx.retry_context(&opened.state.driving)) {
            RetryPlan::Wait(wait) => NextStep::Wait(PlannedWait { window, ..wait }),
            RetryPlan::Park { status, why } => NextStep::Park(status, why),
        })
    }

    /// The message after an interruption. It repeats the last answer, which may not have arrived.
    pub(super) fn continuation_message(&self) -> Result<String, DriveError> {
        let opened = self.ctx.load()?;
        Ok(session_prompts::resume_message(opened.state.answer.as_deref()))
    }
}

/// The next step after a decision that still holds although the agent failed afterwards. `None` if the agent has to go
/// on.
fn settled_step(decision: &StopDecision) -> Option<NextStep> {
    match (&decision.outcome, decision.rule) {
        (StopOutcome::Ended(_), _) => Some(NextStep::Over),
        (StopOutcome::HandedOver, _) => Some(NextStep::HandOver(decision.because.clone())),
        (StopOutcome::Allowed, DecisionRule::FinalLook) => Some(NextStep::Verify),
        (
            StopOutcome::Allowed
            | StopOutcome::Blocked { .. }
            | StopOutcome::Awaited { .. }
            | StopOutcome::Repeated
            | StopOutcome::Orphaned,
            _,
        ) => None,
    }
}

fn class_name(class: &EndingClass) -> String {
    match class {
        EndingClass::Settled => "settled",
        EndingClass::ContextFull => "full context",
        EndingClass::Transient(cause) => cause.name(),
        EndingClass::Fatal { status, .. } => status.name(),
        EndingClass::Broken => "broken",
    }
    .to_string()
}
