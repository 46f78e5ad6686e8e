//! Captures a command's output: its head and tail in memory and all of it in a log, both with secrets redacted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::stream_redactor::StreamRedactor;
use crate::fs;

/// Longer logs are truncated, because they would only fill the disk.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// How many bytes of the head and of the tail to keep in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureLimits {
    pub head: usize,
    pub tail: usize,
}

/// The output of a command, in the order it was written, with secrets redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    pub head: Vec<u8>,
    /// The end of the output after `head`. Nothing is missing in between if the two lengths add up to `total`.
    pub tail: Vec<u8>,
    pub total: u64,
}

/// How the log was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogOutcome {
    Complete,
    /// It was truncated, as its last line states.
    Truncated,
    /// It could not be written, or only in part.
    Failed,
    /// No log was requested.
    NotRequested,
}

pub(super) struct OutputCapture {
    sieve: StreamRedactor,
    keep: CaptureLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl OutputCapture {
    pub(super) fn new(keep: CaptureLimits, secrets: &[String]) -> Self {
        Self {
            sieve: StreamRedactor::new(secrets),
            keep,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8], log: &mut OutputLog) {
        let shown = self.sieve.push(piece);
        self.record(&shown, log);
    }

    pub(super) fn finish(mut self, log: &mut OutputLog) -> CapturedOutput {
        let shown = self.sieve.finish();
        self.record(&shown, log);
        CapturedOutput { head: self.head, tail: self.tail.into(), total: self.total }
    }

    fn record(&mut self, shown: &[u8], log: &mut OutputLog) {
        self.total += shown.len() as u64;
        log.write(shown);
        let room = self.keep.head - self.head.len();
        let (head, after) = shown.split_at(room.min(shown.len()));
        self.head.extend_from_slice(head);
        let last = after.len().saturating_sub(self.keep.tail);
        let after = after.get(last..).unwrap_or_default();
        let surplus = (self.tail.len() + after.len()).saturating_sub(self.keep.tail);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(after);
    }
}

/// A log file, shared by standard output and standard error of one command.
pub(super) struct OutputLog {
    to: LogTarget,
    room: u64,
    dropped: u64,
}

enum LogTarget {
    File(File),
    /// The file could not be created, or a write failed.
    Failed,
    Discard,
}

impl OutputLog {
    pub(super) fn new(path: Option<&Path>) -> Self {
        let to = path.map_or(LogTarget::Discard, |path| {
            fs::create_output_file(path).map_or(LogTarget::Failed, LogTarget::File)
        });
        Self { to, room: MAX_LOG_BYTES, dropped: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        let (kept, dropped) = bytes.split_at(fits);
        self.room -= kept.len() as u64;
        self.dropped += dropped.len() as u64;
        self.write_to_target(kept);
    }

    /// Errors are only recorded: a gate whose log cannot be written has still passed or failed.
    fn write_to_target(&mut self, bytes: &[u8]) {
        if let LogTarget::File(file) = &mut self.to
            && file.write_all(bytes).is_err()
        {
            self.to = LogTarget::Failed;
        }
    }

    /// Ends the log. Later writes are ignored.
    pub(super) fn finish(&mut self) -> LogOutcome {
        if self.dropped > 0 {
            self.write_to_target(
                format!("\n[ralph: log truncated, bytes dropped: {}]\n", self.dropped).as_bytes(),
            );
        }
        match std::mem::replace(&mut self.to, LogTarget::Discard) {
            LogTarget::Discard => LogOutcome::NotRequested,
            LogTarget::Failed => LogOutcome::Failed,
            LogTarget::File(_) if self.dropped > 0 => LogOutcome::Truncated,
            LogTarget::File(_) => LogOutcome::Complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_all_bytes_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for (pieces, head, tail, total) in [
            (&["ab\n"][..], "ab\n", "", 3),
            (&["abcd\n", "ef\n"], "abcd", "\nef\n", 8),
            (&["abcd\n", "efghij\n"], "abcd", "ghij\n", 12),
            (&["abcdefghijklmn\n", "o\n", "p"], "abcd", "n\no\np", 18),
            (&[], "", "", 0),
        ] {
            let expected = CapturedOutput { head: head.into(), tail: tail.into(), total };
            for (wanted, logged) in
                [(Some(&*path), LogOutcome::Complete), (None, LogOutcome::NotRequested)]
            {
                let mut log = OutputLog::new(wanted);
                let mut capture = OutputCapture::new(CaptureLimits { head: 4, tail: 5 }, &[]);
                for piece in pieces {
                    capture.push(piece.as_bytes(), &mut log);
                }
                assert_eq!(capture.finish(&mut log), expected, "{pieces:?}");
                assert_eq!(log.finish(), logged);
                assert_eq!(fs::read(&path, 100).unwrap(), pieces.concat().as_bytes());
            }
        }
    }

    #[test]
    fn a_truncated_log_is_marked_and_an_unwritable_one_does_not_affect_the_capture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OutputLog { room: 6, ..OutputLog::new(Some(&path)) };
        for piece in ["four", "five", "six"] {
            log.write(piece.as_bytes());
        }
        assert_eq!(log.finish(), LogOutcome::Truncated);
        let text = String::from_utf8(fs::read(&path, 100).unwrap()).unwrap();
        assert_eq!(text, "fourfi\n[ralph: log truncated, bytes dropped: 5]\n");

        let mut log = OutputLog::new(Some(dir.path()));
        let mut capture = OutputCapture::new(CaptureLimits { head: 9, tail: 0 }, &[]);
        capture.push(b"seen\n", &mut log);
        let seen = CapturedOutput { head: b"seen\n".to_vec(), tail: Vec::new(), total: 5 };
        assert_eq!((capture.finish(&mut log), log.finish()), (seen, LogOutcome::Failed));
    }

    #[test]
    fn two_captures_share_a_log_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OutputLog::new(Some(&path));
        let [mut out, mut err] =
            [(); 2].map(|()| OutputCapture::new(CaptureLimits { head: 99, tail: 0 }, &[]));
        out.push(b"one\ntw", &mut log);
        err.push(b"three\nfo", &mut log);
        out.push(b"o\n", &mut log);
        let [out, err] = [out, err].map(|capture| capture.finish(&mut log).head);
        assert_eq!((&*out, &*err), (&b"one\ntwo\n"[..], &b"three\nfo"[..]));
        assert_eq!(log.finish(), LogOutcome::Complete);
        assert_eq!(fs::read(&path, 100).unwrap(), b"one\nthree\ntwo\nfo");
    }
}
