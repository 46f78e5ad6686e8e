//! Reads standard input: a hook event from a host that may write nothing, write too much or never close the pipe, or
//! whatever a person or a script pipes in.

use crate::clock::Deadline;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::de::IgnoredAny;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

/// More than any real event. Beyond this, input is read and dropped so that the host can finish writing.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// How long to wait for more input after a complete event when the host keeps the pipe open.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// Size of the buffer on the stack. Most events fit, and touching more pages would slow down every stop.
const READ_BUFFER_BYTES: usize = 4 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum StdinError {
    #[error("it is larger than {} MiB", most / (1024 * 1024))]
    TooLarge { most: usize },
    #[error("timed out before the input was complete")]
    TimedOut,
    #[error("{0}")]
    Failed(std::io::Error),
}

/// Reads one event: until the end of the input, or until the bytes are a complete JSON value and no more arrive.
pub fn read_event(input: impl AsFd, deadline: &Deadline) -> Result<Vec<u8>, StdinError> {
    let mut bytes = Vec::new();
    let mut dropped = false;
    let mut block = [0; READ_BUFFER_BYTES];
    loop {
        match wait_for_input(&input, &bytes, deadline)? {
            StdinWait::Readable => {}
            StdinWait::EventComplete => return Ok(bytes),
        }
        match rustix::io::read(&input, &mut block) {
            Ok(0) if dropped => return Err(StdinError::TooLarge { most: MAX_EVENT_BYTES }),
            Ok(0) => return Ok(bytes),
            Ok(count) if dropped || bytes.len() + count > MAX_EVENT_BYTES => {
                dropped = true;
                bytes = Vec::new();
            }
            Ok(count) => bytes.extend_from_slice(&block[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(StdinError::Failed(errno.into())),
        }
    }
}

/// Reads to the end of the input, at most `most` bytes. There is no deadline, because a person may still be typing.
pub fn read_all(input: impl Read, most: usize) -> Result<Vec<u8>, StdinError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    input.take(limit).read_to_end(&mut bytes).map_err(StdinError::Failed)?;
    if bytes.len() > most { Err(StdinError::TooLarge { most }) } else { Ok(bytes) }
}

enum StdinWait {
    Readable,
    EventComplete,
}

fn wait_for_input(
    input: &impl AsFd,
    so_far: &[u8],
    deadline: &Deadline,
) -> Result<StdinWait, StdinError> {
    loop {
        let remaining = deadline.remaining();
        if remaining.is_zero() {
            return Err(StdinError::TimedOut);
        }
        let may_be_whole = so_far.trim_ascii_end().ends_with(b"}");
        let patience = if may_be_whole { remaining.min(IDLE_TIMEOUT) } else { remaining };
        let timeout = Timespec::try_from(patience).ok();
        match poll(&mut [PollFd::new(input, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) if may_be_whole && serde_json::from_slice::<IgnoredAny>(so_far).is_ok() => {
                return Ok(StdinWait::EventComplete);
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(StdinWait::Readable),
            Err(errno) => return Err(StdinError::Failed(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// R-H1d: an event is accepted once it is complete, whether or not the host closes the pipe.
    #[test]
    fn a_complete_event_is_returned_while_the_pipe_stays_open() {
        let deadline = Deadline::after(Duration::from_mins(1));
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"{\"a\":1}\n").unwrap();
        assert_eq!(read_event(&reader, &deadline).unwrap(), b"{\"a\":1}\n");
        assert!(!deadline.has_passed());
        drop(writer);
    }

    #[test]
    fn a_partial_event_times_out_at_the_deadline() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"{\"a\":{}").unwrap();
        let ended = read_event(&reader, &Deadline::after(Duration::from_millis(150)));
        assert!(matches!(ended, Err(StdinError::TimedOut)), "{ended:?}");
        drop(writer);
    }

    #[test]
    fn an_empty_pipe_reads_as_no_bytes() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert_eq!(read_event(&reader, &Deadline::after(Duration::from_mins(1))).unwrap(), b"");
    }
}
