//! End of an agent's process: its notes for the next session, its final cost and its exit.

use super::{
    COST, Conversation, Event, FAREWELL, LAST_WORDS, Manner, NOTES, SHOWN_ERRORS, SessionError,
    TICK,
};
use crate::ending::{self, Ending};
use crate::ride::Ride;
use crate::wire::{self, Line};
use crate::wishes::Wish;
use ralph_core::text;
use ralph_hook::contract::work;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Short, because a client that hangs does not answer.
const LAST_BILL: Duration = Duration::from_secs(1);

impl Conversation {
    /// Asks the agent for notes for the next session, within a time limit.
    pub(crate) fn notes(&mut self, ctx: &mut Ride<'_>) -> Result<Option<String>, SessionError> {
        self.manner = Manner::Quiet;
        self.said = None;
        self.activity.has_result = false;
        self.facts = self.facts.next();
        self.send(&wire::user(crate::handoff::request(), None));
        let deadline = Deadline::after(NOTES);
        while !self.is_over() && !deadline.is_over() && ctx.wish() == Wish::None {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Line(line)) => self.hear(ctx, &line)?,
                Ok(Event::Answered(answer)) => self.answered(ctx, *answer)?,
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => ctx.watcher.tick(),
            }
        }
        self.manner = Manner::Usual;
        let is_good = self.activity.has_result && ending::of(&self.facts) == Ending::Done;
        Ok(self.said.take().filter(|_| is_good))
    }

    /// Lets the process exit by itself, and terminates it if it does not.
    pub(crate) fn leave(mut self, ctx: &mut Ride<'_>) -> Result<(), SessionError> {
        self.talk.hang_up();
        if !self.ends_within(FAREWELL) {
            self.talk.ask_to_end();
            self.ends_within(LAST_WORDS);
        }
        self.close(ctx)
    }

    /// Terminates the process and everything that it started.
    pub(crate) fn end(mut self, ctx: &mut Ride<'_>) -> Result<(), SessionError> {
        drop(work::call_off(ctx.home, &ctx.run));
        self.last_bill();
        self.talk.ask_to_end();
        self.ends_within(LAST_WORDS);
        let metered = self.tally.broken_off();
        self.meter(ctx, metered)?;
        self.close(ctx)
    }

    /// Queries the cost once more, because a process that is terminated in the middle of a turn sends no result.
    fn last_bill(&mut self) {
        if self.has_ended() {
            return;
        }
        let cost = self.request(COST);
        self.send(&wire::session_cost(&cost));
        let deadline = Deadline::after(LAST_BILL);
        while let Ok(event) = self.events.recv_timeout(deadline.remaining()) {
            let Event::Line(line) = event else { continue };
            let Line::Answered { request, answer } = wire::read(&line) else { continue };
            if request == cost {
                if let Some(micro_usd) = answer.ok().as_deref().and_then(wire::cost) {
                    self.tally.told(micro_usd);
                }
                return;
            }
        }
    }

    fn close(self, ctx: &mut Ride<'_>) -> Result<(), SessionError> {
        drop(self.talk);
        ctx.stands(None)?;
        Ok(())
    }

    /// Asks the process itself: the end-of-stream event may already have been consumed.
    fn has_ended(&mut self) -> bool {
        matches!(self.talk.wait(Deadline::after(Duration::ZERO)), Ok(Some(_)))
    }

    fn ends_within(&mut self, wait: Duration) -> bool {
        if self.has_ended() {
            return true;
        }
        let deadline = Deadline::after(wait);
        while !deadline.is_over() {
            match self.events.recv_timeout(deadline.remaining()) {
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return true,
                // Output and answers no longer matter.
                Ok(Event::Line(_) | Event::Answered(_)) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        false
    }

    /// The process's stderr as one line, for people.
    pub(crate) fn complaint(ctx: &Ride<'_>) -> Option<String> {
        let bytes = fs::read(&ctx.home.run(&ctx.run).agent_errors(), 64 * 1024).ok()?;
        let said = ctx.redactor.redact(&String::from_utf8_lossy(&bytes));
        let said = text::line(said.trim(), SHOWN_ERRORS);
        (!said.is_empty()).then_some(said)
    }
}
