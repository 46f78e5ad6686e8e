//! The protocol between a job and its supervisor, over one socket. Both are the same executable, so it has no version.
//!
//! The job sends one frame with the order, then possibly a [`CANCEL`] byte. The supervisor sends the frames of the
//! answer once all processes but the spared ones have ended, then an [`OVER`] byte when those have ended too. The end
//! of the stream means that the peer has exited or needs nothing more.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{Captured, Keep, Logged};

/// Asks to terminate the command with a grace period. The end of the stream asks to kill it at once.
pub(super) const CANCEL: u8 = b'c';
/// Reports that all spared processes have ended.
pub(super) const OVER: u8 = b'o';
/// More than the arguments of any process.
const LARGEST_ORDER: usize = 16 * 1024 * 1024;
const LARGEST_ANSWER: usize = 64 * 1024;
const LENGTH: usize = size_of::<u64>();
/// The answer itself, then head and tail of standard output and of standard error.
const FRAMES: usize = 5;

/// Where standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errors {
    #[default]
    WithOutput,
    Apart,
}

/// What to do with processes that are still running after the command has exited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leftovers {
    /// Leftover processes are killed after a short wait.
    #[default]
    End,
    /// The result is returned at once, and leftover processes run until their [`SparedProcesses`] are dropped.
    ///
    /// [`SparedProcesses`]: super::job::SparedProcesses
    Spare,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: OsString,
    pub(super) log: Option<OsString>,
    pub(super) keep: Keep,
    /// The time left until the deadline.
    pub(super) left: Duration,
    pub(super) grace: Duration,
    pub(super) secrets: Vec<String>,
    pub(super) errors: Errors,
    pub(super) leftovers: Leftovers,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) how: Ended,
    pub(super) leftover: u32,
    pub(super) took: Duration,
    /// Bytes of standard output and of standard error.
    pub(super) totals: [u64; 2],
    pub(super) logged: Logged,
    pub(super) spared: Spared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Spared {
    Nobody,
    Somebody,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    /// With the `errno`, as for `NoProgram`.
    NoDirectory(i32),
    NoProgram(i32),
}

pub(super) fn order(order: &Order) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    frame(&mut bytes, &serde_json::to_vec(order)?);
    Ok(bytes)
}

pub(super) fn read_order(from: impl Read) -> io::Result<Order> {
    Ok(serde_json::from_slice(&unframe(from, LARGEST_ORDER)?)?)
}

pub(super) fn answer(answer: &Answer, captured: &[Captured; 2]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    frame(&mut bytes, &serde_json::to_vec(answer)?);
    for Captured { head, tail, .. } in captured {
        frame(&mut bytes, head);
        frame(&mut bytes, tail);
    }
    Ok(bytes)
}

/// The maximum size of an answer in bytes.
pub(super) fn longest_answer(keep: Keep) -> usize {
    let output = keep.head.saturating_add(keep.tail);
    LARGEST_ANSWER.saturating_add(output.saturating_mul(2)).saturating_add(FRAMES * LENGTH)
}

/// Whether the answer is complete.
pub(super) fn is_whole(mut bytes: &[u8]) -> bool {
    (0..FRAMES).all(|_| match after_frame(bytes) {
        Some(rest) => {
            bytes = rest;
            true
        }
        None => false,
    })
}

pub(super) fn read_answer(mut bytes: &[u8], keep: Keep) -> io::Result<(Answer, [Captured; 2])> {
    let answer: Answer = serde_json::from_slice(&unframe(&mut bytes, LARGEST_ANSWER)?)?;
    let mut captured = |total| -> io::Result<Captured> {
        let head = unframe(&mut bytes, keep.head)?;
        let tail = unframe(&mut bytes, keep.tail)?;
        Ok(Captured { head, tail, total })
    };
    let [output, errors] = answer.totals;
    let captured = [captured(output)?, captured(errors)?];
    Ok((answer, captured))
}

fn frame(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn unframe(mut from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn after_frame(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(usize::try_from(u64::from_le_bytes(*length)).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn orders_and_answers_round_trip() {
        let sent = Order {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'\n'])],
            cwd: "/".into(),
            log: Some(OsString::from_vec(b"/logs/\xfe".to_vec())),
            keep: Keep { head: 3, tail: 4 },
            left: Duration::from_nanos(1_000_000_001),
            grace: Duration::ZERO,
            secrets: vec!["correct horse".to_string()],
            errors: Errors::Apart,
            leftovers: Leftovers::Spare,
        };
        let mut stream: &[u8] = &[order(&sent).unwrap(), vec![CANCEL]].concat();
        assert_eq!(read_order(&mut stream).unwrap(), sent);
        assert_eq!(stream, [CANCEL]);

        let (sent, captured) = sample();
        let bytes = answer(&sent, &captured).unwrap();
        assert_eq!(read_answer(&bytes, KEEP).unwrap(), (sent, captured));
    }

    const KEEP: Keep = Keep { head: 3, tail: 4 };

    fn sample() -> (Answer, [Captured; 2]) {
        let answer = Answer {
            how: Ended::Signalled(9),
            leftover: 2,
            took: Duration::from_millis(5),
            totals: [99, 2],
            logged: Logged::Cut,
            spared: Spared::Somebody,
        };
        let output = Captured { head: b"abc".to_vec(), tail: b"wxyz".to_vec(), total: 99 };
        let errors = Captured { head: b"de".to_vec(), tail: Vec::new(), total: 2 };
        (answer, [output, errors])
    }

    #[test]
    fn a_truncated_or_oversized_answer_is_rejected() {
        let (sent, captured) = sample();
        let bytes = answer(&sent, &captured).unwrap();
        assert!(bytes.len() <= longest_answer(KEEP));
        for length in 0..bytes.len() {
            assert!(!is_whole(&bytes[..length]), "{length}");
            assert!(read_answer(&bytes[..length], KEEP).is_err(), "{length}");
        }
        assert!(is_whole(&bytes));
        assert!(is_whole(&[&*bytes, &[OVER]].concat()));
        for (head, tail) in [(2, 4), (3, 3)] {
            assert!(read_answer(&bytes, Keep { head, tail }).is_err());
        }
        assert!(read_answer(&[0xff; 64], KEEP).is_err());
        assert!(!is_whole(&[0xff; 64]));
    }
}
