//! Limits memory use: only one connection at a time may hold a large body.

use ralph_sys::clock::Deadline;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bodies up to this size need no permit.
pub(super) const SMALL: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Taken,
    /// The server is shutting down; no more permits are given.
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct Room(Arc<(Mutex<State>, Condvar)>);

/// Holds the slot until it is dropped.
#[derive(Debug)]
pub(super) struct Taken(Room);

impl Room {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(State::Free), Condvar::new())))
    }

    /// Waits for the slot. Returns `None` if it does not become free before the deadline, or is closed.
    pub(super) fn take(&self, deadline: Deadline) -> Option<Taken> {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |state: &mut State| *state == State::Taken;
        let waited = changed.wait_timeout_while(state, deadline.remaining(), is_taken);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *state != State::Free {
            return None;
        }
        *state = State::Taken;
        Some(Taken(self.clone()))
    }

    pub(super) fn close(&self) {
        self.set(State::Closed);
    }

    fn set(&self, next: State) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != State::Closed {
            *state = next;
        }
        changed.notify_all();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.set(State::Free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn gives_one_permit_at_a_time_and_none_after_close() {
        let room = Room::new();
        let first = room.take(Deadline::after(Duration::ZERO)).unwrap();
        assert!(room.take(Deadline::after(Duration::from_millis(1))).is_none());
        let patient = || {
            let room = room.clone();
            thread::spawn(move || room.take(Deadline::after(Duration::from_mins(5))))
        };
        let second = patient();
        drop(first);
        let second = second.join().unwrap();
        assert!(second.is_some());
        let third = patient();
        room.close();
        assert!(third.join().unwrap().is_none());
        drop(second);
        assert!(room.take(Deadline::after(Duration::ZERO)).is_none());
    }
}
