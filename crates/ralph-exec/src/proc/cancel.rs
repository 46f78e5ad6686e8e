//! A wish to end, seen at once by whoever waits.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all who work on something and all who may end it. Once wished, it stays so.
pub struct Cancel {
    wished: AtomicBool,
    /// Closed with the wish, which wakes every thread that polls the other end.
    bell: UnixStream,
    heard: UnixStream,
    /// Looked at now and then, for wishes that are left somewhere: a tombstone.
    elsewhere: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Cancel {
    pub fn new() -> io::Result<Self> {
        Self::or_when(|| false)
    }

    /// Also when `elsewhere` says so. It is asked about five times a second while something is at work.
    pub fn or_when(elsewhere: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<Self> {
        let (bell, heard) = UnixStream::pair()?;
        let wished = AtomicBool::new(false);
        Ok(Self { wished, bell, heard, elsewhere: Box::new(elsewhere) })
    }

    pub fn wish(&self) {
        self.wished.store(true, Ordering::SeqCst);
        // It fails when it was done before.
        self.bell.shutdown(Shutdown::Write).ok();
    }

    pub fn is_wished(&self) -> bool {
        if self.wished.load(Ordering::SeqCst) {
            return true;
        }
        let is_wished = (self.elsewhere)();
        if is_wished {
            self.wish();
        }
        is_wished
    }

    /// Readable from the wish on.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("wished", &self.wished).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait;
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_wish_wakes_all_who_wait_and_stays() {
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
    fn a_wish_that_was_left_elsewhere_is_kept_when_it_is_gone_there() {
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
