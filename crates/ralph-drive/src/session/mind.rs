//! Periodic checks while the agent works: stop requests, answers of a person, time limits, and silence.

use super::{Conversation, LOOK, Nudge, Pause, Question, SessionError, answer::What};
use crate::ride::Ride;
use crate::told::Told;
use crate::weather;
use crate::wire;
use crate::wishes::Wish;
use ralph_core::drive::{Drove, Silence};
use ralph_core::run::Phase;
use ralph_sys::clock::{self, Deadline, Stopwatch};
use std::time::Duration;

/// An agent that is allowed to stop sends its result within moments.
const LET_GO: Duration = Duration::from_secs(10);
/// Time to read the rest of the output after the process has exited.
const LAST_LINES: Duration = Duration::from_secs(2);

impl Conversation {
    pub(super) fn asked_person(
        &mut self,
        ctx: &mut Ride<'_>,
        asked: wire::Permission,
    ) -> Result<(), SessionError> {
        let what = wire::what(&asked.gist, &ctx.client.project, &ctx.redactor);
        let text =
            asked.question.unwrap_or_else(|| format!("may the agent use {}: {what}", asked.tool));
        let text = ctx.redactor.redact(&text);
        let until_ms = clock::now_ms().saturating_add(ctx.settings.question_ms);
        let hints = ctx.load()?.state.hints.len();
        ctx.tell(&Told::Question { text: text.clone(), until_ms });
        self.question = Some(Question { request: asked.request, text, until_ms, hints });
        Ok(())
    }

    pub(super) fn tick(&mut self, ctx: &mut Ride<'_>) -> Result<Option<Pause>, SessionError> {
        ctx.watcher.tick();
        ctx.acknowledge();
        if ctx.wish() == Wish::Now {
            return Ok(Some(Pause::Wished));
        }
        if self.settled.as_ref().is_some_and(|since| since.elapsed() > LET_GO)
            && let Some(decision) = self.decision.take()
        {
            return Ok(Some(Pause::Settled(Box::new(decision))));
        }
        if self.answering.values().any(|what| *what == What::Stop) {
            self.watch_gates(ctx);
            // A stop request does not wait for gates.
            if ctx.wish() == Wish::AfterTheTurn {
                return Ok(Some(Pause::Wished));
            }
        }
        if self.looked.elapsed() < LOOK {
            return Ok(None);
        }
        self.looked = Stopwatch::start();
        if self.is_dead() {
            return self.gone(ctx).map(Some);
        }
        if self.answering.is_empty() && is_over_time(ctx)? {
            return Ok(Some(Pause::OverTime));
        }
        if let Some(why) = self.used_up(ctx)? {
            return Ok(Some(Pause::UsedUp(why)));
        }
        match ctx.phase()? {
            Phase::Active | Phase::Orphaned => self.paused = None,
            // The agent's next stop is allowed.
            Phase::Paused { .. } => {
                if self.outlasts_pause(ctx) {
                    return Ok(Some(Pause::Paused));
                }
            }
            // A decision that was just made is reported at the end of the turn.
            Phase::Ended(_) if self.settled.is_some() || !self.answering.is_empty() => {}
            Phase::Ended(_) => return Ok(Some(Pause::Cancelled)),
        }
        if self.question.is_some() {
            return self.heed(ctx);
        }
        self.mind_silence(ctx)
    }

    /// Whether the turn lasts too long after a pause. The run's clock stands still then, so the turn needs its own limit.
    fn outlasts_pause(&mut self, ctx: &mut Ride<'_>) -> bool {
        if self.paused.is_none() {
            ctx.note("pausing after this turn");
        }
        let since = self.paused.get_or_insert_with(Stopwatch::start);
        since.elapsed() > Duration::from_millis(ctx.settings.idle_ms)
    }

    fn used_up(&self, ctx: &Ride<'_>) -> Result<Option<String>, SessionError> {
        if self.used.is_empty() {
            return Ok(None);
        }
        let driving = ctx.load()?.state.driving;
        Ok(weather::used_up(&self.used, &ctx.sky(&driving)))
    }

    /// Whether the process has exited. Another process may still hold its stdout open, so that no end of file is read.
    fn is_dead(&mut self) -> bool {
        match self.talk.wait(Deadline::after(Duration::ZERO)) {
            Ok(Some(_)) => self.died.get_or_insert_with(Stopwatch::start).elapsed() > LAST_LINES,
            Ok(None) | Err(_) => false,
        }
    }

    /// Passes on a person's answer, given with `ralph tell`, or ends the wait when its time is up.
    fn heed(&mut self, ctx: &mut Ride<'_>) -> Result<Option<Pause>, SessionError> {
        let Some(question) = self.question.take() else { return Ok(None) };
        let hints = ctx.load()?.state.hints;
        if let Some(said) = hints.get(question.hints..).filter(|said| !said.is_empty()) {
            let message = format!("A person answered: {}", said.join("\n"));
            let permit = wire::Permit::Deny { message: &message };
            self.send(&wire::permission(&question.request, permit));
            self.heard = Stopwatch::start();
            return Ok(None);
        }
        if clock::now_ms() < question.until_ms {
            self.question = Some(question);
            return Ok(None);
        }
        Ok(Some(Pause::Unanswered(question.text)))
    }

    fn mind_silence(&mut self, ctx: &mut Ride<'_>) -> Result<Option<Pause>, SessionError> {
        let after = Duration::from_millis(ctx.settings.idle_ms);
        if self.heard.elapsed() < after || !self.answering.is_empty() || self.asking.is_some() {
            return Ok(None);
        }
        let after_ms = ctx.settings.idle_ms;
        let done = match self.nudge {
            Nudge::No => Silence::Nudged,
            Nudge::Given => Silence::Restarted,
        };
        ctx.record(Drove::Silent { after_ms, done })?;
        ctx.tell(&Told::Silent { after_ms, done });
        if self.nudge == Nudge::Given {
            return Ok(Some(Pause::Silent));
        }
        self.nudge = Nudge::Given;
        self.heard = Stopwatch::start();
        self.activity.background = 0;
        self.send(&wire::user(crate::handoff::nudge(), None));
        Ok(None)
    }
}

/// Whether the run's time limit is reached, so that even a turn that never ends is bounded.
fn is_over_time(ctx: &Ride<'_>) -> Result<bool, SessionError> {
    let opened = ctx.load()?;
    let most = opened.state.limits(&opened.run).max_duration_ms;
    Ok(most.is_some_and(|most| opened.state.elapsed_ms(clock::now_ms()) >= most))
}
