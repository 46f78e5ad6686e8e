//! What a job and its supervisor say to each other, over one socket. Both are the same program, so there is no version.
//!
//! There: one frame with the order, then perhaps a [`CANCEL`]. Back: three frames, once all is over. The end of the
//! stream means that the other one is gone.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{Captured, Keep, Logged};

/// Asks for an end with grace. The end of the stream asks for one without.
pub(super) const CANCEL: u8 = b'c';
/// More than the arguments of any process.
const LARGEST_ORDER: usize = 16 * 1024 * 1024;
const LARGEST_ANSWER: usize = 64 * 1024;
const LENGTH: usize = size_of::<u64>();

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: OsString,
    pub(super) log: OsString,
    pub(super) keep: Keep,
    /// What is left of the deadline.
    pub(super) left: Duration,
    pub(super) grace: Duration,
    pub(super) secrets: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) how: Ended,
    pub(super) leftover: u32,
    pub(super) took: Duration,
    pub(super) total: u64,
    pub(super) logged: Logged,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    /// The system's error number.
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

pub(super) fn answer(answer: &Answer, captured: &Captured) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    frame(&mut bytes, &serde_json::to_vec(answer)?);
    frame(&mut bytes, &captured.head);
    frame(&mut bytes, &captured.tail);
    Ok(bytes)
}

/// The most bytes an answer can have.
pub(super) fn longest_answer(keep: Keep) -> usize {
    LARGEST_ANSWER.saturating_add(keep.head).saturating_add(keep.tail).saturating_add(3 * LENGTH)
}

pub(super) fn read_answer(mut bytes: &[u8], keep: Keep) -> io::Result<(Answer, Captured)> {
    let answer: Answer = serde_json::from_slice(&unframe(&mut bytes, LARGEST_ANSWER)?)?;
    let head = unframe(&mut bytes, keep.head)?;
    let tail = unframe(&mut bytes, keep.tail)?;
    let total = answer.total;
    Ok((answer, Captured { head, tail, total }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn orders_and_answers_arrive_as_they_were_sent() {
        let sent = Order {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'\n'])],
            cwd: "/".into(),
            log: OsString::from_vec(b"/logs/\xfe".to_vec()),
            keep: Keep { head: 3, tail: 4 },
            left: Duration::from_nanos(1_000_000_001),
            grace: Duration::ZERO,
            secrets: vec!["correct horse".to_string()],
        };
        let mut stream: &[u8] = &[order(&sent).unwrap(), vec![CANCEL]].concat();
        assert_eq!(read_order(&mut stream).unwrap(), sent);
        assert_eq!(stream, [CANCEL]);

        let captured = Captured { head: b"abc".to_vec(), tail: b"wxyz".to_vec(), total: 99 };
        let sent = Answer {
            how: Ended::Signalled(9),
            leftover: 2,
            took: Duration::from_millis(5),
            total: 99,
            logged: Logged::Cut,
        };
        let bytes = answer(&sent, &captured).unwrap();
        assert_eq!(read_answer(&bytes, Keep { head: 3, tail: 4 }).unwrap(), (sent, captured));
    }

    #[test]
    fn half_an_answer_or_one_too_large_is_none() {
        let captured = Captured { head: b"abc".to_vec(), tail: Vec::new(), total: 3 };
        let sent = Answer {
            how: Ended::Exited(0),
            leftover: 0,
            took: Duration::ZERO,
            total: 3,
            logged: Logged::Whole,
        };
        let bytes = answer(&sent, &captured).unwrap();
        for length in 0..bytes.len() {
            assert!(read_answer(&bytes[..length], Keep { head: 3, tail: 0 }).is_err(), "{length}");
        }
        assert!(read_answer(&bytes, Keep { head: 2, tail: 0 }).is_err());
        assert!(read_answer(&[0xff; 64], Keep { head: 2, tail: 0 }).is_err());
    }
}
