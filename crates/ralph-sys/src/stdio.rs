//! The standard streams: makes sure that they are open, and measures the terminal behind them.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::{stderr, stdin, stdout};
use std::os::fd::IntoRawFd;

/// Whether the process started with all three standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStreams {
    AllOpen,
    /// At least one was closed and is now `/dev/null`.
    SomeWereClosed,
}

/// The width of the terminal on standard error; `None` if there is none or it does not say.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Opens `/dev/null` in place of every closed standard stream. Otherwise the next file that ralph opens would get that
/// descriptor number, and output meant for the stream would go into the file.
pub fn ensure_streams_open() -> StandardStreams {
    let mut polled = [stdin(), stdout(), stderr()]
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut polled, Some(&now)).is_err() {
        return StandardStreams::AllOpen;
    }
    let missing = polled.iter().filter(|one| one.revents().contains(PollFlags::NVAL)).count();
    for _ in 0..missing {
        // `open` returns the lowest free descriptor, which is one of the three. It stays open until the process exits.
        if let Ok(nowhere) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
            let _ = nowhere.into_raw_fd();
        }
    }
    if missing == 0 { StandardStreams::AllOpen } else { StandardStreams::SomeWereClosed }
}
