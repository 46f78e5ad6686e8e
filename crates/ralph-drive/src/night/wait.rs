//! Waits for the provider to recover, for a person, or for an event that the agent declared. Every wait is bounded,
//! recorded before it begins, and ends early on a stop request.

use super::report::Advice;
use super::{DriveError, Next, Night};
use crate::handoff;
use crate::ride::Word;
use crate::told::Told;
use crate::weather::{self, Left};
use crate::wishes::Wish;
use ralph_core::drive::{Cause, Drove, Wait};
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_sys::clock::{self, Stopwatch};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// The agent's process is ended for waits longer than this.
const PATIENCE_MS: u64 = 60_000;

enum Woken {
    InTime,
    Wished,
    Called(Phase),
    /// A person sent a hint.
    Told,
}

impl Night<'_, '_> {
    pub(super) fn wait(&mut self, wait: &Wait) -> Result<Next, DriveError> {
        if wait.until_ms.saturating_sub(clock::now_ms()) > PATIENCE_MS {
            self.close()?;
        }
        self.ride.record(Drove::Waits(wait.clone()))?;
        self.go_on_waiting(wait)
    }

    /// Also resumes a wait that a previous runner began.
    pub(super) fn go_on_waiting(&mut self, wait: &Wait) -> Result<Next, DriveError> {
        // The time left is read before the clock: the wait must not end just before the run's time is up.
        let of_the_run = self.time_left()?;
        let now_ms = clock::now_ms();
        let until_ms = match weather::resume(wait, now_ms) {
            Left::DueNow => now_ms,
            Left::Ms(left) => now_ms.saturating_add(left.min(of_the_run)),
        };
        let event = Told::Waiting { why: wait.why.clone(), until_ms, attempt: wait.attempt };
        self.ride.tell(&event);
        Ok(match self.until(until_ms, &event, None)? {
            Woken::Wished => {
                let why = format!("stopped by a person while waiting: {}", wait.why);
                Next::Park(Status::Cancelled, why)
            }
            Woken::Called(Phase::Paused { .. }) => self.paused(Next::WaitOn(wait.clone()))?,
            Woken::Called(_) => Next::Over,
            // The run's time is up: the work is verified as it is, and the agent gets no further message.
            Woken::InTime | Woken::Told if self.time_left()? == 0 => Next::Look,
            Woken::InTime | Woken::Told => {
                // Recorded before the message is sent, so that a crash between the two cannot send it twice.
                self.ride.record(Drove::Woke)?;
                self.ride.tell(&Told::Woke);
                let answer = self.ride.load()?.state.answer;
                Next::Say(match wait.cause {
                    Cause::Declared => handoff::after_wait(&wait.why),
                    Cause::RateLimit | Cause::Overload | Cause::Network | Cause::Server => {
                        handoff::after_weather(wait.cause, answer.as_deref())
                    }
                })
            }
        })
    }

    /// R-L5c: only the person may answer. Without an answer in time the run is parked.
    pub(super) fn ask(&mut self, question: String) -> Result<Next, DriveError> {
        let patience = self.ride.settings.question_ms.min(self.time_left()?);
        let until_ms = clock::now_ms().saturating_add(patience);
        let hints = self.ride.load()?.state.hints.len();
        let event = Told::Question { text: question.clone(), until_ms };
        self.ride.tell(&event);
        Ok(match self.until(until_ms, &event, Some(hints))? {
            Woken::InTime => {
                self.advice = Advice::Answer;
                Next::Park(Status::NeedsHuman, question)
            }
            Woken::Wished => Next::Park(
                Status::Cancelled,
                format!("stopped by a person; the agent had asked: {question}"),
            ),
            Woken::Called(Phase::Paused { .. }) => self.paused(Next::Ask(question))?,
            Woken::Called(_) => Next::Over,
            Woken::Told => {
                let said = self.ride.load()?.state.hints;
                let said = said.get(hints..).unwrap_or_default().join("\n");
                self.ride.tell(&Told::Woke);
                self.ride.word = Word::ToBePassedOn;
                Next::Say(handoff::answered(&question, &said))
            }
        })
    }

    /// Milliseconds left of the run's time limit.
    fn time_left(&self) -> Result<u64, DriveError> {
        let opened = self.ride.load()?;
        let most = opened.state.limits(&opened.run).max_duration_ms;
        let elapsed = opened.state.elapsed_ms(clock::now_ms());
        Ok(most.map_or(u64::MAX, |most| most.saturating_sub(elapsed)))
    }

    /// Waits until a person resumes the run, then continues with `then`.
    pub(super) fn paused(&mut self, then: Next) -> Result<Next, DriveError> {
        let run = self.ride.run.clone();
        let how = format!("paused; `ralph resume {run}` continues, `ralph cancel {run}` ends it");
        self.ride.note(&how);
        self.close()?;
        let mut looked = Stopwatch::start();
        loop {
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                let why = "stopped by a person while paused".to_string();
                return Ok(Next::Park(Status::Cancelled, why));
            }
            clock::pause(TICK);
            if looked.elapsed() < SECOND {
                continue;
            }
            looked = Stopwatch::start();
            match self.ride.phase()? {
                Phase::Paused { .. } => {}
                Phase::Active | Phase::Orphaned => return Ok(then),
                Phase::Ended(_) => return Ok(Next::Over),
            }
        }
    }

    fn until(
        &mut self,
        until_ms: u64,
        event: &Told,
        hints: Option<usize>,
    ) -> Result<Woken, DriveError> {
        let mut looked = Stopwatch::start();
        while clock::now_ms() < until_ms {
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                return Ok(Woken::Wished);
            }
            let left = Duration::from_millis(until_ms.saturating_sub(clock::now_ms()));
            clock::pause(TICK.min(left));
            if looked.elapsed() < SECOND {
                continue;
            }
            looked = Stopwatch::start();
            match self.ride.phase()? {
                Phase::Active | Phase::Orphaned => {}
                phase @ (Phase::Paused { .. } | Phase::Ended(_)) => {
                    return Ok(Woken::Called(phase));
                }
            }
            let said = self.ride.load()?.state.hints.len();
            if hints.is_some_and(|hints| said > hints) {
                return Ok(Woken::Told);
            }
            if let Told::Waiting { .. } = event {
                self.ride.tell(event);
            }
        }
        Ok(Woken::InTime)
    }
}
