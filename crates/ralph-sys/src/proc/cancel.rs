//! A cancellation token that wakes waiting threads at once.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared between the code that does some work and the code that may cancel it. Cancellation is permanent.
pub struct Cancel {
    wished: AtomicBool,
    /// Shut down on cancellation, which wakes every thread that polls the other end.
    bell: UnixStream,
    heard: UnixStream,
    /// Checked periodically, for cancellation recorded elsewhere, such as in a tombstone file.
    elsewhere: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Cancel {
    pub fn new() -> io::Result<Self> {
        Self::or_when(|| false)
    }

    /// A token that is also cancelled once `elsewhere` returns true, which is checked about five times a second during
    /// a job.
    pub fn or_when(elsewhere: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<Self> {
        let (bell, heard) = UnixStream::pair()?;
        let wished = AtomicBool::new(false);
        Ok(Self { wished, bell, heard, elsewhere: Box::new(elsewhere) })
    }

    pub fn wish(&self) {
        self.wished.store(true, Ordering::SeqCst);
        // Fails if the token was cancelled before.
        self.bell.shutdown(Shutdown::Write).ok();
    }

    pub fn is_wished(&self) -> bool {
        if self.wished.load(Ordering::SeqCst) {
            return true;
        }
        let is_cancelled = (self.elsewhere)();
        if is_cancelled {
            self.wish();
        }
        is_cancelled
    }

    /// A descriptor that becomes readable on cancellation.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.wished).finish_non_exhaustive()
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
        let cancel = Arc::new(Cancel::new().unwrap());
        assert!(!cancel.is_wished());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let cancel = Arc::clone(&cancel);
                std::thread::spawn(move || {
                    wait::readable([Some(cancel.bell())], Duration::from_mins(1))
                })
            })
            .collect();
        cancel.wish();
        cancel.wish();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), [true]);
        }
        assert!(cancel.is_wished());
    }

    #[test]
    fn an_external_cancellation_is_remembered_when_its_source_disappears() {
        let tombstone = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&tombstone);
        let cancel = Cancel::or_when(move || seen.load(Ordering::SeqCst)).unwrap();
        assert!(!cancel.is_wished());
        tombstone.store(true, Ordering::SeqCst);
        assert!(cancel.is_wished());
        tombstone.store(false, Ordering::SeqCst);
        assert!(cancel.is_wished());
        assert_eq!(wait::readable([Some(cancel.bell())], Duration::ZERO), [true]);
    }
}
