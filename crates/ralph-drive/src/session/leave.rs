//! The last words of a process, and its end.

use super::{Conversation, Event, FAREWELL, LAST_WORDS, Manner, NOTES, SessionError, TICK};
use crate::ending::{self, Ending};
use crate::ride::Ride;
use crate::wire;
use crate::wishes::Wish;
use ralph_exec::clock::Deadline;
use ralph_exec::contract::work;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

impl Conversation {
    /// What the agent has to say to whoever goes on with its work, within a bound of time.
    pub(crate) fn notes(&mut self, ride: &mut Ride<'_>) -> Result<Option<String>, SessionError> {
        self.manner = Manner::Quiet;
        self.said = None;
        self.activity.has_result = false;
        self.facts = self.facts.next();
        self.send(&wire::user(crate::handoff::request(), None));
        let deadline = Deadline::after(NOTES);
        while !self.is_over() && !deadline.is_over() && ride.wish() == Wish::None {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Line(line)) => self.hear(ride, &line)?,
                Ok(Event::Answered(answer)) => self.answered(ride, *answer)?,
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => ride.watcher.tick(),
            }
        }
        self.manner = Manner::Usual;
        let is_good = self.activity.has_result && ending::of(&self.facts) == Ending::Done;
        Ok(self.said.take().filter(|_| is_good))
    }

    /// Lets the process end by itself: it was told everything, and nothing is in the background.
    pub(crate) fn leave(mut self, ride: &mut Ride<'_>) -> Result<(), SessionError> {
        self.talk.hang_up();
        if !self.ends_within(FAREWELL) {
            self.talk.ask_to_end();
            self.ends_within(LAST_WORDS);
        }
        self.close(ride)
    }

    /// Ends the process at once, with all that it started.
    pub(crate) fn end(mut self, ride: &mut Ride<'_>) -> Result<(), SessionError> {
        drop(work::call_off(ride.home, &ride.run));
        self.talk.ask_to_end();
        self.ends_within(LAST_WORDS);
        let metered = self.tally.broken_off();
        self.meter(ride, metered)?;
        self.close(ride)
    }

    fn close(self, ride: &mut Ride<'_>) -> Result<(), SessionError> {
        drop(self.talk);
        ride.stands(None)?;
        Ok(())
    }

    fn ends_within(&mut self, wait: Duration) -> bool {
        let deadline = Deadline::after(wait);
        while !deadline.is_over() {
            match self.events.recv_timeout(deadline.remaining()) {
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return true,
                // Nobody is held any more.
                Ok(Event::Line(_) | Event::Answered(_)) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        false
    }
}
