//! The protocol between a job and its supervisor, over one socket. Both are the same executable, so it has no version.
//!
//! The job sends one frame with the order, then possibly a [`CANCEL`] byte. The supervisor sends the frames of the
//! answer once all processes but the spared ones have ended, then an [`OVER`] byte when those have ended too. The end
//! of the stream means that the peer has exited or needs nothing more.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{CaptureLimits, CapturedOutput, LogOutcome};
use super::private_mounts::PrivateMounts;

/// Asks to terminate the command with a grace period. The end of the stream asks to kill it at once.
pub(super) const CANCEL: u8 = b'c';
/// Reports that all spared processes have ended.
pub(super) const OVER: u8 = b'o';
/// More than the arguments of any process.
const MAX_ORDER_BYTES: usize = 16 * 1024 * 1024;
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const LENGTH_BYTES: usize = size_of::<u64>();
/// The answer itself, then head and tail of standard output and of standard error.
const ANSWER_FRAMES: usize = 5;

/// Where standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StderrCapture {
    #[default]
    Merged,
    Separate,
}

/// What to do with processes that are still running after the command has exited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftoverPolicy {
    /// Leftover processes are killed after a short wait.
    #[default]
    Kill,
    /// The result is returned at once, and leftover processes run until their [`SparedProcesses`] are dropped.
    ///
    /// [`SparedProcesses`]: super::job::SparedProcesses
    Spare,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobOrderWire {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: OsString,
    pub(super) log: Option<OsString>,
    pub(super) keep: CaptureLimits,
    /// The time left until the deadline.
    pub(super) left: Duration,
    pub(super) grace: Duration,
    pub(super) secrets: Vec<String>,
    pub(super) errors: StderrCapture,
    pub(super) leftovers: LeftoverPolicy,
    pub(super) mounts: Option<PrivateMounts>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobAnswerWire {
    pub(super) how: JobEndWire,
    pub(super) leftover: u32,
    pub(super) took: Duration,
    /// Bytes of standard output and of standard error.
    pub(super) totals: [u64; 2],
    pub(super) logged: LogOutcome,
    /// Processes are left running on purpose.
    pub(super) spared: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum JobEndWire {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    /// With the `errno`, as for `NoProgram`.
    NoDirectory(i32),
    NoMounts(i32),
    NoProgram(i32),
}

pub(super) fn encode_order(order: &JobOrderWire) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, &serde_json::to_vec(order)?);
    Ok(bytes)
}

pub(super) fn read_order(from: impl Read) -> io::Result<JobOrderWire> {
    Ok(serde_json::from_slice(&read_frame(from, MAX_ORDER_BYTES)?)?)
}

pub(super) fn encode_answer(
    answer: &JobAnswerWire,
    captured: &[CapturedOutput; 2],
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, &serde_json::to_vec(answer)?);
    for CapturedOutput { head, tail, .. } in captured {
        write_frame(&mut bytes, head);
        write_frame(&mut bytes, tail);
    }
    Ok(bytes)
}

/// The maximum size of an answer in bytes.
pub(super) fn max_answer_bytes(keep: CaptureLimits) -> usize {
    let output = keep.head.saturating_add(keep.tail);
    MAX_ANSWER_BYTES
        .saturating_add(output.saturating_mul(2))
        .saturating_add(ANSWER_FRAMES * LENGTH_BYTES)
}

/// Whether the answer is complete.
pub(super) fn is_complete_answer(mut bytes: &[u8]) -> bool {
    (0..ANSWER_FRAMES).all(|_| match skip_frame(bytes) {
        Some(rest) => {
            bytes = rest;
            true
        }
        None => false,
    })
}

pub(super) fn decode_answer(
    mut bytes: &[u8],
    keep: CaptureLimits,
) -> io::Result<(JobAnswerWire, [CapturedOutput; 2])> {
    let answer: JobAnswerWire = serde_json::from_slice(&read_frame(&mut bytes, MAX_ANSWER_BYTES)?)?;
    let mut captured = |total| -> io::Result<CapturedOutput> {
        let head = read_frame(&mut bytes, keep.head)?;
        let tail = read_frame(&mut bytes, keep.tail)?;
        Ok(CapturedOutput { head, tail, total })
    };
    let [output, errors] = answer.totals;
    let captured = [captured(output)?, captured(errors)?];
    Ok((answer, captured))
}

fn write_frame(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn read_frame(mut from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip_frame(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(usize::try_from(u64::from_le_bytes(*length)).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn orders_and_answers_round_trip() {
        let sent = JobOrderWire {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'\n'])],
            cwd: "/".into(),
            log: Some(OsString::from_vec(b"/logs/\xfe".to_vec())),
            keep: CaptureLimits { head: 3, tail: 4 },
            left: Duration::from_nanos(1_000_000_001),
            grace: Duration::ZERO,
            secrets: vec!["correct horse".to_string()],
            errors: StderrCapture::Separate,
            leftovers: LeftoverPolicy::Spare,
            mounts: Some(PrivateMounts::default()),
        };
        let mut stream: &[u8] = &[encode_order(&sent).unwrap(), vec![CANCEL]].concat();
        assert_eq!(read_order(&mut stream).unwrap(), sent);
        assert_eq!(stream, [CANCEL]);

        let (sent, captured) = sample();
        let bytes = encode_answer(&sent, &captured).unwrap();
        assert_eq!(decode_answer(&bytes, KEEP).unwrap(), (sent, captured));
    }

    const KEEP: CaptureLimits = CaptureLimits { head: 3, tail: 4 };

    fn sample() -> (JobAnswerWire, [CapturedOutput; 2]) {
        let answer = JobAnswerWire {
            how: JobEndWire::Signalled(9),
            leftover: 2,
            took: Duration::from_millis(5),
            totals: [99, 2],
            logged: LogOutcome::Truncated,
            spared: true,
        };
        let output = CapturedOutput { head: b"abc".to_vec(), tail: b"wxyz".to_vec(), total: 99 };
        let errors = CapturedOutput { head: b"de".to_vec(), tail: Vec::new(), total: 2 };
        (answer, [output, errors])
    }

    #[test]
    fn a_truncated_or_oversized_answer_is_rejected() {
        let (sent, captured) = sample();
        let bytes = encode_answer(&sent, &captured).unwrap();
        assert!(bytes.len() <= max_answer_bytes(KEEP));
        for length in 0..bytes.len() {
            assert!(!is_complete_answer(&bytes[..length]), "{length}");
            assert!(decode_answer(&bytes[..length], KEEP).is_err(), "{length}");
        }
        assert!(is_complete_answer(&bytes));
        assert!(is_complete_answer(&[&*bytes, &[OVER]].concat()));
        for (head, tail) in [(2, 4), (3, 3)] {
            assert!(decode_answer(&bytes, CaptureLimits { head, tail }).is_err());
        }
        assert!(decode_answer(&[0xff; 64], KEEP).is_err());
        assert!(!is_complete_answer(&[0xff; 64]));
    }
}
