//! The queue of directories that the threads of one walk share. Each directory adds its subdirectories.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::walk::{WalkFailure, WalkJob};

/// Directories that are not listed yet.
pub(super) struct WalkQueue {
    state: Mutex<WalkQueueState>,
    changed: Condvar,
    slots: AtomicUsize,
    files: AtomicUsize,
    /// The device whose directories may be cached: its file system keeps reliable change times.
    pub(super) cacheable_device: Option<u64>,
}

struct WalkQueueState {
    jobs: Vec<WalkJob>,
    busy: usize,
    waiting: usize,
    failure: Option<WalkFailure>,
}

impl WalkQueue {
    pub(super) fn new(job: WalkJob, trusted: Option<u64>) -> Self {
        let state = WalkQueueState { jobs: vec![job], busy: 0, waiting: 0, failure: None };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            slots: AtomicUsize::new(1),
            files: AtomicUsize::new(0),
            cacheable_device: trusted,
        }
    }

    /// Allocates the slot for one more directory's listing.
    pub(super) fn allocate_slot(&self) -> usize {
        self.slots.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.load(Ordering::Relaxed)
    }

    /// Adds to the number of files found and returns the new total.
    pub(super) fn count_files(&self, files: usize) -> usize {
        self.files.fetch_add(files, Ordering::Relaxed).saturating_add(files)
    }

    pub(super) fn take_failure(&self) -> Option<WalkFailure> {
        self.lock().failure.take()
    }

    fn lock(&self) -> MutexGuard<'_, WalkQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next directory. Returns `None` when the walk is complete or has failed.
    pub(super) fn next_job(&self) -> Option<(WalkJob, WalkJobGuard<'_>)> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some((job, WalkJobGuard { queue: self, outcome: Ok(Vec::new()) }));
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
pub(super) struct WalkJobGuard<'a> {
    queue: &'a WalkQueue,
    pub(super) outcome: Result<Vec<WalkJob>, WalkFailure>,
}

impl Drop for WalkJobGuard<'_> {
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
