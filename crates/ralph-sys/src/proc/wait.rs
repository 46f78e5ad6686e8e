//! Waits for descriptors and for child processes, always with a time limit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::clock::{self, Deadline};
use crate::os;

/// How long to wait for a killed child to exit. One that hangs in the kernel is abandoned.
pub(super) const REAP_TIMEOUT: Duration = Duration::from_millis(500);
/// The most bytes a pipe can still hold when its writers have exited.
pub(super) const MAX_PIPE_BYTES: usize = 1024 * 1024;
/// Size of a buffer on the heap that output is read into.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Polling interval where the system offers nothing to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits at most `wait` until one of the files is readable or closed at the other end. Returns for each whether it is.
pub(crate) fn wait_readable<const N: usize>(
    files: [Option<BorrowedFd<'_>>; N],
    wait: Duration,
) -> [bool; N] {
    let mut polled: Vec<_> =
        files.iter().flatten().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    if polled.is_empty() {
        clock::sleep(wait);
        return [false; N];
    }
    match poll(&mut polled, Some(&timespec(wait))) {
        Ok(_) => {
            let mut polled = polled.iter();
            files.map(|file| {
                file.is_some() && polled.next().is_some_and(|one| !one.revents().is_empty())
            })
        }
        Err(Errno::INTR) => [false; N],
        // The caller's read reports the error.
        Err(_) => {
            clock::sleep(POLL_INTERVAL.min(wait));
            files.map(|file| file.is_some())
        }
    }
}

/// Sends all bytes. A peer that has exited is an error rather than a SIGPIPE.
pub(super) fn send_all(socket: impl AsFd, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
    let socket = socket.as_fd();
    while !bytes.is_empty() {
        match os::send_now(socket, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = deadline.remaining();
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
                match poll(&mut polled, Some(&timespec(left))) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The exit status of the child, or `None` if it is still running at the deadline.
pub(super) fn wait_for_child(
    child: &mut Child,
    deadline: Deadline,
) -> io::Result<Option<ExitStatus>> {
    let end = os::exit_descriptor(Pid::from_child(child));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.remaining();
        if left.is_zero() {
            return Ok(None);
        }
        let wait = if end.is_some() { left } else { left.min(POLL_INTERVAL) };
        wait_readable([end.as_ref().map(AsFd::as_fd)], wait);
    }
}

pub(super) fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}
