//! Captures a command's output: its head and tail in memory and all of it in a log, both with secrets redacted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sieve::Sieve;
use crate::fs;

/// Longer logs are truncated, because they would only fill the disk.
const LONGEST_LOG: u64 = 64 * 1024 * 1024;

/// How many bytes of the head and of the tail to keep in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    pub head: usize,
    pub tail: usize,
}

/// The output of a command, in the order it was written, with secrets redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub head: Vec<u8>,
    /// The end of the output after `head`. Nothing is missing in between if the two lengths add up to `total`.
    pub tail: Vec<u8>,
    pub total: u64,
}

/// How the log was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Logged {
    Whole,
    /// It was truncated, as its last line states.
    Cut,
    /// It could not be written, or only in part.
    Failed,
    /// No log was requested.
    NotKept,
}

pub(super) struct Capture {
    sieve: Sieve,
    keep: Keep,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    pub(super) fn new(keep: Keep, secrets: &[String]) -> Self {
        Self { sieve: Sieve::new(secrets), keep, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(super) fn take(&mut self, piece: &[u8], log: &mut Log) {
        let shown = self.sieve.pass(piece);
        self.put(&shown, log);
    }

    pub(super) fn finish(mut self, log: &mut Log) -> Captured {
        let shown = self.sieve.rest();
        self.put(&shown, log);
        Captured { head: self.head, tail: self.tail.into(), total: self.total }
    }

    fn put(&mut self, shown: &[u8], log: &mut Log) {
        self.total += length(shown);
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
pub(super) struct Log {
    to: To,
    room: u64,
    dropped: u64,
}

enum To {
    File(File),
    /// The file could not be created, or a write failed.
    Failed,
    Nowhere,
}

impl Log {
    pub(super) fn new(path: Option<&Path>) -> Self {
        let to = path.map_or(To::Nowhere, |path| fs::stream(path).map_or(To::Failed, To::File));
        Self { to, room: LONGEST_LOG, dropped: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        let (kept, dropped) = bytes.split_at(fits);
        self.room -= length(kept);
        self.dropped += length(dropped);
        self.put(kept);
    }

    /// Errors are only recorded: a gate whose log cannot be written has still passed or failed.
    fn put(&mut self, bytes: &[u8]) {
        if let To::File(file) = &mut self.to
            && file.write_all(bytes).is_err()
        {
            self.to = To::Failed;
        }
    }

    /// Ends the log. Later writes are ignored.
    pub(super) fn finish(&mut self) -> Logged {
        if self.dropped > 0 {
            self.put(
                format!("\n[ralph: log truncated, bytes dropped: {}]\n", self.dropped).as_bytes(),
            );
        }
        match std::mem::replace(&mut self.to, To::Nowhere) {
            To::Nowhere => Logged::NotKept,
            To::Failed => Logged::Failed,
            To::File(_) if self.dropped > 0 => Logged::Cut,
            To::File(_) => Logged::Whole,
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
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
            let expected = Captured { head: head.into(), tail: tail.into(), total };
            for (wanted, logged) in [(Some(&*path), Logged::Whole), (None, Logged::NotKept)] {
                let mut log = Log::new(wanted);
                let mut capture = Capture::new(Keep { head: 4, tail: 5 }, &[]);
                for piece in pieces {
                    capture.take(piece.as_bytes(), &mut log);
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
        let mut log = Log { room: 6, ..Log::new(Some(&path)) };
        for piece in ["four", "five", "six"] {
            log.write(piece.as_bytes());
        }
        assert_eq!(log.finish(), Logged::Cut);
        let text = String::from_utf8(fs::read(&path, 100).unwrap()).unwrap();
        assert_eq!(text, "fourfi\n[ralph: log truncated, bytes dropped: 5]\n");

        let mut log = Log::new(Some(dir.path()));
        let mut capture = Capture::new(Keep { head: 9, tail: 0 }, &[]);
        capture.take(b"seen\n", &mut log);
        let seen = Captured { head: b"seen\n".to_vec(), tail: Vec::new(), total: 5 };
        assert_eq!((capture.finish(&mut log), log.finish()), (seen, Logged::Failed));
    }

    #[test]
    fn two_captures_share_a_log_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::new(Some(&path));
        let [mut out, mut err] = [(); 2].map(|()| Capture::new(Keep { head: 99, tail: 0 }, &[]));
        out.take(b"one\ntw", &mut log);
        err.take(b"three\nfo", &mut log);
        out.take(b"o\n", &mut log);
        let [out, err] = [out, err].map(|capture| capture.finish(&mut log).head);
        assert_eq!((&*out, &*err), (&b"one\ntwo\n"[..], &b"three\nfo"[..]));
        assert_eq!(log.finish(), Logged::Whole);
        assert_eq!(fs::read(&path, 100).unwrap(), b"one\nthree\ntwo\nfo");
    }
}
