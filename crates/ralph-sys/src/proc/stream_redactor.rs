//! Redacts secrets in output that arrives in pieces.
//!
//! A secret may be split across pieces, so only complete lines are passed on. Bytes that can still become a secret are
//! held back: the last line, a private key whose end has not arrived yet, and the beginning of a known multi-line
//! secret.

use memchr::{memmem, memrchr};
use ralph_core::redact::{PRIVATE_KEY_MARKS, Redactor};

/// Longer lines are passed on in parts.
const MAX_HELD_LINE_BYTES: usize = 64 * 1024;
/// How much of a long line is held back: longer than any token.
const HELD_BACK_BYTES: usize = 8 * 1024;
/// Longer text is not a key, even if it begins like one.
const MAX_KEY_BYTES: usize = 64 * 1024;
const KEY_START: &[u8] = b"-----BEGIN ";
/// One of [`PRIVATE_KEY_MARKS`] must appear within this many bytes after [`KEY_START`].
const KEY_LABEL_WINDOW: usize = 64;
const KEY_END: &[u8] = b"-----END ";

#[derive(Debug)]
pub(super) struct StreamRedactor {
    redactor: Redactor,
    secrets: Vec<Vec<u8>>,
    pending: Vec<u8>,
}

impl StreamRedactor {
    pub(super) fn new(secrets: &[String]) -> Self {
        let redactor = Redactor::new(secrets.to_vec());
        let secrets = secrets
            .iter()
            .map(|secret| secret.as_bytes().to_vec())
            .filter(|secret| secret.len() <= HELD_BACK_BYTES)
            .collect();
        Self { redactor, secrets, pending: Vec::new() }
    }

    /// Adds a piece and returns the redacted output that is ready.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        let safe = self.safe_len();
        let rest = self.pending.split_off(safe);
        let out = self.redact(&self.pending);
        self.pending = rest;
        out
    }

    /// Returns the redacted rest at the end of the output.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let pending = std::mem::take(&mut self.pending);
        self.redact(&pending)
    }

    fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            out.extend_from_slice(self.redactor.redact(chunk.valid()).as_bytes());
            out.extend_from_slice(chunk.invalid());
        }
        out
    }

    /// The length of the pending bytes that can be passed on.
    fn safe_len(&self) -> usize {
        let cut = match memrchr(b'\n', &self.pending) {
            Some(at) => at + 1,
            None if self.pending.len() > MAX_HELD_LINE_BYTES => cut_between_words(&self.pending),
            None => return 0,
        };
        let mut cut = cut_before_open_key(&self.pending, cut);
        // Moving the cut out of one secret may move it into another.
        loop {
            let secrets = self.secrets.iter();
            let moved = secrets
                .fold(cut, |cut, secret| cut_before_split_secret(&self.pending, cut, secret));
            if moved == cut {
                return cut;
            }
            cut = moved;
        }
    }
}

/// Where to cut a long line: far enough from its end, and not within a possible token.
fn cut_between_words(pending: &[u8]) -> usize {
    let last = pending.len().saturating_sub(HELD_BACK_BYTES);
    let first = last.saturating_sub(HELD_BACK_BYTES);
    let window = pending.get(first..last).unwrap_or_default();
    let gap = window.iter().rposition(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b',' | b'"'));
    gap.map_or(last, |at| first + at + 1)
}

fn cut_before_open_key(pending: &[u8], cut: usize) -> usize {
    let out = pending.get(..cut).unwrap_or_default();
    let Some(begin) = memmem::rfind(out, KEY_START) else {
        return cut;
    };
    let body = out.get(begin + KEY_START.len()..).unwrap_or_default();
    let words = body.get(..KEY_LABEL_WINDOW).unwrap_or(body);
    let is_key =
        PRIVATE_KEY_MARKS.iter().any(|mark| memmem::find(words, mark.as_bytes()).is_some());
    let is_open = memmem::find(body, KEY_END).is_none();
    let is_short = pending.len() - begin <= MAX_KEY_BYTES;
    if is_key && is_open && is_short { begin } else { cut }
}

/// Moves the cut before a secret that spans it, even if only the beginning of the secret has arrived.
fn cut_before_split_secret(pending: &[u8], cut: usize, secret: &[u8]) -> usize {
    let first = (cut + 1).saturating_sub(secret.len());
    let starts = |start: &usize| {
        let there = pending.get(*start..).unwrap_or_default();
        let there = there.get(..secret.len()).unwrap_or(there);
        secret.starts_with(there)
    };
    (first..cut).find(starts).unwrap_or(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn redact_pieces(secrets: &[&str], pieces: &[&[u8]]) -> String {
        let secrets: Vec<_> = secrets.iter().map(ToString::to_string).collect();
        let mut sieve = StreamRedactor::new(&secrets);
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| sieve.push(piece)).collect();
        out.extend(sieve.finish());
        out.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{}", byte.escape_ascii()).unwrap();
            text
        })
    }

    /// R-S7a: no part of a secret is passed on, wherever the output is split.
    #[test]
    fn a_secret_is_redacted_wherever_it_is_split() {
        let secrets = ["two\nlines of it", "hunter2hunter2"];
        let text = b"a\nx hunter2hunter2 \xff\nsk-ant-0123456789abcdef0\n-----BEGIN RSA PRIVATE KEY-----\n\
            MIIE\nabcd\n-----END RSA PRIVATE KEY-----\ntwo\nlines of it\ntwo\nbirds\nend";
        let shown = r"a\nx [redacted] \xff\n[redacted]\n[redacted]\n[redacted]\ntwo\nbirds\nend";
        for first in 0..text.len() {
            for second in first..text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(redact_pieces(&secrets, &pieces), shown, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_very_long_line_is_passed_on_in_parts_with_secrets_redacted() {
        for offset in 0..40 {
            let mut line = b"word ".repeat(20_000);
            line.splice(MAX_HELD_LINE_BYTES - HELD_BACK_BYTES - offset.., []);
            line.extend_from_slice(b"hunter2 hunter2");
            line.extend_from_slice(&b" word".repeat(30_000));
            let mut sieve = StreamRedactor::new(&["hunter2 hunter2".to_string()]);
            let mut out = Vec::new();
            for piece in line.chunks(4096) {
                out.extend(sieve.push(piece));
                assert!(sieve.pending.len() <= MAX_HELD_LINE_BYTES + 4096);
            }
            out.extend(sieve.finish());
            let shown = String::from_utf8(line).unwrap().replace("hunter2 hunter2", "[redacted]");
            assert!(out == shown.as_bytes(), "{offset}");
        }
    }

    #[test]
    fn text_that_only_begins_like_a_key_is_held_back_up_to_the_key_limit() {
        let mut sieve = StreamRedactor::new(&[]);
        let begin = b"before\n-----BEGIN PRIVATE KEY-----\n";
        assert_eq!(sieve.push(begin), b"before\n");
        let line = [b'a'; 100];
        let mut out = Vec::new();
        for _ in 0..MAX_KEY_BYTES / line.len() + 10 {
            out.extend(sieve.push(&line));
            out.extend(sieve.push(b"\n"));
        }
        assert!(out.starts_with(b"[redacted]"));
        assert!(out.ends_with(b"aaaa\n"));
        assert_eq!(sieve.pending, b"");
    }
}
