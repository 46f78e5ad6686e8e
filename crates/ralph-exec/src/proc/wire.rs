//! What a job and its supervisor say to each other, over one socket. Both are the same program, so there is no version.
//!
//! There: one frame with the order, then perhaps a [`CANCEL`]. Back: the frames of the answer, once all is over, or once
//! all but the spared are; then an [`OVER`] when those are gone. The end of the stream means that the other one is gone,
//! or wants nothing more.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{Captured, Keep, Logged};

/// Asks for an end with grace. The end of the stream asks for one without.
pub(super) const CANCEL: u8 = b'c';
/// Nobody is left of those who were spared.
pub(super) const OVER: u8 = b'o';
/// More than the arguments of any process.
const LARGEST_ORDER: usize = 16 * 1024 * 1024;
const LARGEST_ANSWER: usize = 64 * 1024;
const LENGTH: usize = size_of::<u64>();
/// The answer itself, then both ends of both outputs.
const FRAMES: usize = 5;

/// Where standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errors {
    #[default]
    WithOutput,
    Apart,
}

/// What becomes of the processes that a command leaves behind when it ends of its own accord.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leftovers {
    /// Who does not end by itself, soon, is ended.
    #[default]
    End,
    /// The command's end is answered at once; the others live on for as long as somebody wants them to.
    Spare,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: OsString,
    pub(super) log: Option<OsString>,
    pub(super) keep: Keep,
    /// What is left of the deadline.
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
    /// Of standard output and of standard error.
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

pub(super) fn answer(answer: &Answer, captured: &[Captured; 2]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    frame(&mut bytes, &serde_json::to_vec(answer)?);
    for Captured { head, tail, .. } in captured {
        frame(&mut bytes, head);
        frame(&mut bytes, tail);
    }
    Ok(bytes)
}

/// The most bytes an answer can have.
pub(super) fn longest_answer(keep: Keep) -> usize {
    let output = keep.head.saturating_add(keep.tail);
    LARGEST_ANSWER.saturating_add(output.saturating_mul(2)).saturating_add(FRAMES * LENGTH)
}

/// Whether nothing of the answer is missing.
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
    fn orders_and_answers_arrive_as_they_were_sent() {
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
    fn half_an_answer_or_one_too_large_is_none() {
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
