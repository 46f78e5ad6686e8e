//! Limits memory use: only one connection at a time may hold a large body.

use ralph_sys::clock::Deadline;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bodies up to this size need no permit.
pub(super) const SMALL_BODY_BYTES: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargeBodySlotState {
    Free,
    Taken,
    /// The server is shutting down; no more permits are given.
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct LargeBodySlot(Arc<(Mutex<LargeBodySlotState>, Condvar)>);

/// Holds the slot until it is dropped.
#[derive(Debug)]
pub(super) struct LargeBodyPermit(LargeBodySlot);

impl LargeBodySlot {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(LargeBodySlotState::Free), Condvar::new())))
    }

    /// Waits for the slot. Returns `None` if it does not become free before the deadline, or is closed.
    pub(super) fn acquire(&self, deadline: Deadline) -> Option<LargeBodyPermit> {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |state: &mut LargeBodySlotState| *state == LargeBodySlotState::Taken;
        let waited = changed.wait_timeout_while(state, deadline.remaining(), is_taken);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *state != LargeBodySlotState::Free {
            return None;
        }
        *state = LargeBodySlotState::Taken;
        Some(LargeBodyPermit(self.clone()))
    }

    pub(super) fn close(&self) {
        self.set(LargeBodySlotState::Closed);
    }

    fn set(&self, next: LargeBodySlotState) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != LargeBodySlotState::Closed {
            *state = next;
        }
        changed.notify_all();
    }
}

impl Drop for LargeBodyPermit {
    fn drop(&mut self) {
        self.0.set(LargeBodySlotState::Free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn gives_one_permit_at_a_time_and_none_after_close() {
        let room = LargeBodySlot::new();
        let first = room.acquire(Deadline::after(Duration::ZERO)).unwrap();
        assert!(room.acquire(Deadline::after(Duration::from_millis(1))).is_none());
        let patient = || {
            let room = room.clone();
            thread::spawn(move || room.acquire(Deadline::after(Duration::from_mins(5))))
        };
        let second = patient();
        drop(first);
        let second = second.join().unwrap();
        assert!(second.is_some());
        let third = patient();
        room.close();
        assert!(third.join().unwrap().is_none());
        drop(second);
        assert!(room.acquire(Deadline::after(Duration::ZERO)).is_none());
    }
}
