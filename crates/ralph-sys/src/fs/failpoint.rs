//! Injects failures, for tests that kill ralph or fill the disk between any two file changes.
//!
//! `RALPH_FAILPOINT=kill:N` kills this process at the N-th point; there is one before and one after every step.
//! `RALPH_FAILPOINT=enospc:N` makes the N-th step fail with "no space left" instead of doing its work.
//! `RALPH_FAILPOINT=panic:N` panics at the N-th point, once.
//! Release builds contain none of this.

use std::io;

/// Performs one change to the file system. Every change goes through here.
#[cfg(debug_assertions)]
pub(super) fn failpoint_step<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    debug::before_step()?;
    let changed = change();
    debug::after_step();
    changed
}

#[cfg(not(debug_assertions))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "must cost nothing in a release build")]
pub(super) fn failpoint_step<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
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
    enum InjectedFailure {
        Kill { point: u32 },
        NoSpace { step: u32 },
        Panic { point: u32 },
    }

    static POINTS: AtomicU32 = AtomicU32::new(0);

    fn injected_failure() -> Option<InjectedFailure> {
        static FAULT: OnceLock<Option<InjectedFailure>> = OnceLock::new();
        *FAULT.get_or_init(|| {
            let text = env::failpoint_setting()?;
            let (kind, number) = text.split_once(':')?;
            let number = number.parse().ok()?;
            match kind {
                "kill" => Some(InjectedFailure::Kill { point: number }),
                "enospc" => Some(InjectedFailure::NoSpace { step: number }),
                "panic" => Some(InjectedFailure::Panic { point: number }),
                _ => None,
            }
        })
    }

    pub(super) fn before_step() -> io::Result<()> {
        let point = reach_point();
        match injected_failure() {
            Some(InjectedFailure::NoSpace { step }) if step == point.div_ceil(2) => {
                // The step is skipped, but must still count as two points.
                reach_point();
                Err(Errno::NOSPC.into())
            }
            Some(
                InjectedFailure::NoSpace { .. }
                | InjectedFailure::Kill { .. }
                | InjectedFailure::Panic { .. },
            )
            | None => Ok(()),
        }
    }

    pub(super) fn after_step() {
        reach_point();
    }

    fn reach_point() -> u32 {
        let reached = POINTS.fetch_add(1, Ordering::Relaxed) + 1;
        match injected_failure() {
            // If this fails the process simply continues, and the test notices.
            Some(InjectedFailure::Kill { point }) if point == reached => {
                kill_process(getpid(), Signal::KILL).ok();
            }
            Some(InjectedFailure::Panic { point }) => {
                assert_ne!(point, reached, "a failure injected by a test");
            }
            Some(InjectedFailure::Kill { .. } | InjectedFailure::NoSpace { .. }) | None => {}
        }
        reached
    }
}
