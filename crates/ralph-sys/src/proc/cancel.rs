//! A cancellation token that wakes waiting threads at once.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared between the code that does some work and the code that may cancel it. Cancellation is permanent.
pub struct CancelToken {
    cancelled: AtomicBool,
    /// Shut down on cancellation, which wakes every thread that polls the other end.
    wake_sender: UnixStream,
    wake_receiver: UnixStream,
    /// Checked periodically, for cancellation recorded elsewhere, such as in a tombstone file.
    is_cancelled_externally: Box<dyn Fn() -> bool + Send + Sync>,
}

impl CancelToken {
    pub fn new() -> io::Result<Self> {
        Self::with_external_check(|| false)
    }

    /// A token that is also cancelled once `elsewhere` returns true, which is checked about five times a second during
    /// a job.
    pub fn with_external_check(
        elsewhere: impl Fn() -> bool + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (bell, heard) = UnixStream::pair()?;
        let wished = AtomicBool::new(false);
        Ok(Self {
            cancelled: wished,
            wake_sender: bell,
            wake_receiver: heard,
            is_cancelled_externally: Box::new(elsewhere),
        })
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        // Fails if the token was cancelled before.
        self.wake_sender.shutdown(Shutdown::Write).ok();
    }

    pub fn is_cancelled(&self) -> bool {
        if self.cancelled.load(Ordering::SeqCst) {
            return true;
        }
        let is_cancelled = (self.is_cancelled_externally)();
        if is_cancelled {
            self.cancel();
        }
        is_cancelled
    }

    /// A descriptor that becomes readable on cancellation.
    pub(crate) fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.wake_receiver.as_fd()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait;
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn cancelling_wakes_all_waiting_threads_and_is_permanent() {
        let cancel = Arc::new(CancelToken::new().unwrap());
        assert!(!cancel.is_cancelled());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let cancel = Arc::clone(&cancel);
                std::thread::spawn(move || {
                    wait::wait_readable([Some(cancel.wake_descriptor())], Duration::from_mins(1))
                })
            })
            .collect();
        cancel.cancel();
        cancel.cancel();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), [true]);
        }
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn an_external_cancellation_is_remembered_when_its_source_disappears() {
        let tombstone = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&tombstone);
        let cancel = CancelToken::with_external_check(move || seen.load(Ordering::SeqCst)).unwrap();
        assert!(!cancel.is_cancelled());
        tombstone.store(true, Ordering::SeqCst);
        assert!(cancel.is_cancelled());
        tombstone.store(false, Ordering::SeqCst);
        assert!(cancel.is_cancelled());
        assert_eq!(wait::wait_readable([Some(cancel.wake_descriptor())], Duration::ZERO), [true]);
    }
}
