//! Asks a question at the terminal that controls this process, whatever the standard streams are.

use crate::clock::Deadline;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush, tcgetattr, tcgetpgrp};

/// The longest line that a terminal delivers.
const MAX_ANSWER_BYTES: usize = 4096;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("there is no terminal")]
    NoTerminal,
    /// Reading would stop the process.
    #[error("this is a background job of its terminal")]
    InBackground,
    #[error("the terminal gave no answer in time")]
    TimedOut,
}

/// Writes the question and reads one line. Input from before the question is discarded: it cannot be an answer to it.
pub fn ask_at_terminal(question: &str, deadline: &Deadline) -> Result<String, NoAnswer> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = open("/dev/tty", flags, Mode::empty()).map_err(|_| NoAnswer::NoTerminal)?;
    tcgetattr(&terminal).map_err(|_| NoAnswer::NoTerminal)?;
    if tcgetpgrp(&terminal) != Ok(rustix::process::getpgrp()) {
        return Err(NoAnswer::InBackground);
    }
    tcflush(&terminal, QueueSelector::IFlush).map_err(|_| NoAnswer::NoTerminal)?;
    let mut rest = question.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(&terminal, rest) {
            Ok(0) => return Err(NoAnswer::NoTerminal),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return Err(NoAnswer::NoTerminal),
        }
    }
    loop {
        let left = Timespec::try_from(deadline.remaining()).map_err(|_| NoAnswer::TimedOut)?;
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut polled, Some(&left)) {
            Ok(0) => return Err(NoAnswer::TimedOut),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return Err(NoAnswer::NoTerminal),
        }
    }
    let mut line = [0; MAX_ANSWER_BYTES];
    let count = rustix::io::read(&terminal, &mut line).map_err(|_| NoAnswer::NoTerminal)?;
    Ok(String::from_utf8_lossy(line.get(..count).unwrap_or_default()).trim().to_string())
}
