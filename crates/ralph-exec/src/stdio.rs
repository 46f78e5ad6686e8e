//! The three descriptors that every process starts with, unless somebody closed one.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::{stderr, stdin, stdout};
use std::os::fd::IntoRawFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptors {
    Whole,
    /// One was closed. It now leads nowhere, so that no file of ours gets its number and its output.
    Missing,
}

pub fn secure() -> Descriptors {
    let mut polled = [stdin(), stdout(), stderr()]
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut polled, Some(&now)).is_err() {
        return Descriptors::Whole;
    }
    let missing = polled.iter().filter(|one| one.revents().contains(PollFlags::NVAL)).count();
    for _ in 0..missing {
        // The lowest free number is one of the three. It stays open for as long as we run.
        if let Ok(nowhere) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
            let _ = nowhere.into_raw_fd();
        }
    }
    if missing == 0 { Descriptors::Whole } else { Descriptors::Missing }
}
