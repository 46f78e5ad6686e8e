//! Waits for the provider to recover, for a person, or for an event that the agent declared. Every wait is bounded,
//! recorded before it begins, and ends early on a stop request.

use super::report::ResumeAdvice;
use super::{DriveError, NextStep, RunLoop};
use crate::backoff::{self, RemainingWait};
use crate::run_context::HintDelivery;
use crate::run_event::RunEvent;
use crate::session_prompts;
use crate::stop_requests::StopRequest;
use ralph_core::drive::{PlannedWait, RunnerEvent, WaitCause};
use ralph_core::facts::DeclaredPause;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_sys::clock::{self, Stopwatch};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// The agent's process is ended for waits longer than this.
const KEEP_PROCESS_MS: u64 = 60_000;

enum WakeReason {
    Elapsed,
    StopRequested,
    PhaseChanged(RunPhase),
    /// A person sent a hint.
    HintReceived,
    /// A person approved what the run waits for.
    Approved,
}

/// What ends the wait for a person.
#[derive(Clone, Copy)]
struct AwaitedAnswer {
    is_approval: bool,
}

impl RunLoop<'_, '_> {
    pub(super) fn begin_wait(&mut self, wait: &PlannedWait) -> Result<NextStep, DriveError> {
        if wait.until_ms.saturating_sub(clock::now_ms()) > KEEP_PROCESS_MS {
            self.close_conversation()?;
        }
        self.ctx.record(RunnerEvent::Waits(wait.clone()))?;
        self.resume_wait(wait)
    }

    /// Also resumes a wait that a previous runner began.
    pub(super) fn resume_wait(&mut self, wait: &PlannedWait) -> Result<NextStep, DriveError> {
        // The time left is read before the clock: the wait must not end just before the run's time is up.
        let of_the_run = self.time_left()?;
        let now_ms = clock::now_ms();
        let until_ms = match backoff::remaining_wait(wait, now_ms) {
            RemainingWait::DueNow => now_ms,
            RemainingWait::Ms(left) => now_ms.saturating_add(left.min(of_the_run)),
        };
        let event = RunEvent::Waiting { why: wait.why.clone(), until_ms, attempt: wait.attempt };
        self.ctx.emit(&event);
        Ok(match self.wait_until(until_ms, &event, None)? {
            WakeReason::StopRequested => {
                let why = format!("stopped by a person while waiting: {}", wait.why);
                NextStep::Park(RunStatus::Cancelled, why)
            }
            WakeReason::PhaseChanged(RunPhase::Paused { .. }) => {
                self.wait_while_paused(NextStep::ResumeWait(wait.clone()))?
            }
            WakeReason::PhaseChanged(_) => NextStep::Over,
            // The run's time is up: the work is verified as it is, and the agent gets no further message.
            WakeReason::Elapsed | WakeReason::HintReceived | WakeReason::Approved
                if self.time_left()? == 0 =>
            {
                NextStep::Verify
            }
            WakeReason::Elapsed | WakeReason::HintReceived | WakeReason::Approved => {
                // Recorded before the message is sent, so that a crash between the two cannot send it twice.
                self.ctx.record(RunnerEvent::Woke)?;
                self.ctx.emit(&RunEvent::Woke);
                let answer = self.ctx.load()?.state.answer;
                NextStep::Say(match wait.cause {
                    WaitCause::Declared => session_prompts::wait_over_message(&wait.why),
                    WaitCause::RateLimit
                    | WaitCause::Overload
                    | WaitCause::Network
                    | WaitCause::Server => {
                        session_prompts::retry_message(wait.cause, answer.as_deref())
                    }
                })
            }
        })
    }

    /// R-L5c: only the person may answer. Without an answer in time the run is parked.
    pub(super) fn ask_person(&mut self, question: String) -> Result<NextStep, DriveError> {
        let patience = self.ctx.settings.question_ms.min(self.time_left()?);
        let until_ms = clock::now_ms().saturating_add(patience);
        let state = self.ctx.load()?.state;
        let is_approval = matches!(state.declared, Some(DeclaredPause::Approval(_)));
        if state.declared.as_ref().and_then(DeclaredPause::question).is_none() {
            self.ctx.record_question_again(&question)?;
        }
        self.ctx.record_question(&question, until_ms)?;
        let event = RunEvent::Question { text: question.clone(), until_ms };
        self.ctx.emit(&event);
        Ok(match self.wait_until(until_ms, &event, Some(AwaitedAnswer { is_approval }))? {
            WakeReason::Elapsed => {
                self.advice = ResumeAdvice::Answer;
                NextStep::Park(RunStatus::NeedsHuman, question)
            }
            WakeReason::StopRequested => NextStep::Park(
                RunStatus::Cancelled,
                format!("stopped by a person; the agent had asked: {question}"),
            ),
            // The approval may have been given meanwhile.
            WakeReason::PhaseChanged(RunPhase::Paused { .. }) if is_approval => {
                self.wait_while_paused(NextStep::VerifyInPlace)?
            }
            WakeReason::PhaseChanged(RunPhase::Paused { .. }) => {
                self.wait_while_paused(NextStep::Ask(question))?
            }
            WakeReason::PhaseChanged(_) => NextStep::Over,
            WakeReason::Approved => {
                self.ctx.emit(&RunEvent::Woke);
                NextStep::VerifyInPlace
            }
            WakeReason::HintReceived => {
                let said = self.ctx.load()?.state.hints;
                self.ctx.emit(&RunEvent::Woke);
                self.ctx.hint_delivery = HintDelivery::Pending;
                NextStep::Say(session_prompts::answer_message(&question, &said.join("\n")))
            }
        })
    }

    /// Milliseconds left of the run's time limit.
    fn time_left(&self) -> Result<u64, DriveError> {
        let opened = self.ctx.load()?;
        let most = opened.state.limits(&opened.run).max_duration_ms;
        let elapsed = opened.state.elapsed_ms(clock::now_ms());
        Ok(most.map_or(u64::MAX, |most| most.saturating_sub(elapsed)))
    }

    /// Waits until a person resumes the run, then continues with `then`.
    pub(super) fn wait_while_paused(&mut self, then: NextStep) -> Result<NextStep, DriveError> {
        let run = self.ctx.run.clone();
        let how = format!("paused; `ralph resume {run}` continues, `ralph cancel {run}` ends it");
        self.ctx.note(&how);
        self.close_conversation()?;
        let mut looked = Stopwatch::start();
        loop {
            self.ctx.watcher.tick();
            if self.ctx.stop_request() != StopRequest::None {
                let why = "stopped by a person while paused".to_string();
                return Ok(NextStep::Park(RunStatus::Cancelled, why));
            }
            clock::sleep(TICK);
            if looked.elapsed() < SECOND {
                continue;
            }
            looked = Stopwatch::start();
            match self.ctx.phase()? {
                RunPhase::Paused { .. } => {}
                RunPhase::Active | RunPhase::Orphaned => return Ok(then),
                RunPhase::Ended(_) => return Ok(NextStep::Over),
            }
        }
    }

    fn wait_until(
        &mut self,
        until_ms: u64,
        event: &RunEvent,
        awaited: Option<AwaitedAnswer>,
    ) -> Result<WakeReason, DriveError> {
        let mut looked = Stopwatch::start();
        while clock::now_ms() < until_ms {
            self.ctx.watcher.tick();
            if self.ctx.stop_request() != StopRequest::None {
                return Ok(WakeReason::StopRequested);
            }
            let left = Duration::from_millis(until_ms.saturating_sub(clock::now_ms()));
            clock::sleep(TICK.min(left));
            if looked.elapsed() < SECOND {
                continue;
            }
            looked = Stopwatch::start();
            match self.ctx.phase()? {
                RunPhase::Active | RunPhase::Orphaned => {}
                phase @ (RunPhase::Paused { .. } | RunPhase::Ended(_)) => {
                    return Ok(WakeReason::PhaseChanged(phase));
                }
            }
            let state = self.ctx.load()?.state;
            // Also a message that was sent before the wait: the agent has not seen it.
            if awaited.is_some() && !state.hints.is_empty() {
                return Ok(WakeReason::HintReceived);
            }
            let is_waiting = matches!(state.declared, Some(DeclaredPause::Approval(_)));
            if awaited.is_some_and(|awaited| awaited.is_approval) && !is_waiting {
                return Ok(WakeReason::Approved);
            }
            if let RunEvent::Waiting { .. } = event {
                self.ctx.emit(event);
            }
        }
        Ok(WakeReason::Elapsed)
    }
}
