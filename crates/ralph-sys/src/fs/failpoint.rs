//! Injects failures, for tests that kill ralph or fill the disk between any two file changes.
//!
//! `RALPH_FAILPOINT=kill:N` kills this process at the N-th point; there is one before and one after every step.
//! `RALPH_FAILPOINT=enospc:N` makes the N-th step fail with "no space left" instead of doing its work.
//! `RALPH_FAILPOINT=panic:N` panics at the N-th point, once.
//! Release builds contain none of this.

use std::io;

/// Performs one change to the file system. Every change goes through here.
#[cfg(debug_assertions)]
pub(super) fn step<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    debug::before()?;
    let changed = change();
    debug::after();
    changed
}

#[cfg(not(debug_assertions))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "must cost nothing in a release build")]
pub(super) fn step<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    change()
}

#[cfg(debug_assertions)]
mod debug {
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};

    use crate::env;

    #[derive(Clone, Copy)]
    enum Fault {
        Kill { point: u32 },
        NoSpace { step: u32 },
        Panic { point: u32 },
    }

    static POINTS: AtomicU32 = AtomicU32::new(0);

    fn fault() -> Option<Fault> {
        static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
        *FAULT.get_or_init(|| {
            let text = env::failpoint()?;
            let (kind, number) = text.split_once(':')?;
            let number = number.parse().ok()?;
            match kind {
                "kill" => Some(Fault::Kill { point: number }),
                "enospc" => Some(Fault::NoSpace { step: number }),
                "panic" => Some(Fault::Panic { point: number }),
                _ => None,
            }
        })
    }

    pub(super) fn before() -> io::Result<()> {
        let point = reach();
        match fault() {
            Some(Fault::NoSpace { step }) if step == point.div_ceil(2) => {
                // The step is skipped, but must still count as two points.
                reach();
                Err(Errno::NOSPC.into())
            }
            Some(Fault::NoSpace { .. } | Fault::Kill { .. } | Fault::Panic { .. }) | None => Ok(()),
        }
    }

    pub(super) fn after() {
        reach();
    }

    fn reach() -> u32 {
        let reached = POINTS.fetch_add(1, Ordering::Relaxed) + 1;
        match fault() {
            // If this fails the process simply continues, and the test notices.
            Some(Fault::Kill { point }) if point == reached => {
                kill_process(getpid(), Signal::KILL).ok();
            }
            Some(Fault::Panic { point }) => {
                assert_ne!(point, reached, "a failure injected by a test");
            }
            Some(Fault::Kill { .. } | Fault::NoSpace { .. }) | None => {}
        }
        reached
    }
}
