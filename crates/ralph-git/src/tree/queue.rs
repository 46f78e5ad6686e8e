//! The queue of directories that the threads of one walk share. Each directory adds its subdirectories.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::walk::{Failure, Job};

/// Directories that are not listed yet.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    slots: AtomicUsize,
    files: AtomicUsize,
    /// The device whose directories may be cached: its file system keeps reliable change times.
    pub(super) trusted: Option<u64>,
}

struct State {
    jobs: Vec<Job>,
    busy: usize,
    waiting: usize,
    failure: Option<Failure>,
}

impl Queue {
    pub(super) fn new(job: Job, trusted: Option<u64>) -> Self {
        let state = State { jobs: vec![job], busy: 0, waiting: 0, failure: None };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            slots: AtomicUsize::new(1),
            files: AtomicUsize::new(0),
            trusted,
        }
    }

    /// Allocates the slot for one more directory's listing.
    pub(super) fn slot(&self) -> usize {
        self.slots.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.load(Ordering::Relaxed)
    }

    /// Adds to the number of files found and returns the new total.
    pub(super) fn count(&self, files: usize) -> usize {
        self.files.fetch_add(files, Ordering::Relaxed).saturating_add(files)
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.lock().failure.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next directory. Returns `None` when the walk is complete or has failed.
    pub(super) fn next(&self) -> Option<(Job, Turn<'_>)> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some((job, Turn { queue: self, outcome: Ok(Vec::new()) }));
            }
            if state.busy == 0 {
                return None;
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

/// Held while a thread lists a directory. Dropping it, even in a panic, queues the results, so that the other threads
/// do not wait for ever.
pub(super) struct Turn<'a> {
    queue: &'a Queue,
    pub(super) outcome: Result<Vec<Job>, Failure>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.busy -= 1;
        match std::mem::replace(&mut self.outcome, Ok(Vec::new())) {
            Ok(jobs) => state.jobs.extend(jobs),
            Err(failure) => state.failure = Some(failure),
        }
        // Notifying costs a system call even if no thread waits.
        if state.waiting > 0 {
            self.queue.changed.notify_all();
        }
    }
}
