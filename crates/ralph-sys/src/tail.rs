//! Reads lines from a growing file, forwards from an offset or backwards from the end, without reading all of it.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::fs::{FileError, RegularFile};

/// A longer line is an error; its end is not searched for.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// Complete lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineChunk {
    pub bytes: Vec<u8>,
    /// The offset of the next chunk: just past the last complete line.
    pub end: u64,
    /// The file's length. If it is less than the requested offset, the file was rewritten.
    pub len: u64,
}

impl LineChunk {
    /// The lines, without their line feeds.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let at = memchr::memchr(b'\n', rest)?;
            let line = &rest[..at];
            rest = &rest[at + 1..];
            Some(line)
        })
    }
}

/// Reads complete lines from offset `from`, at most `cap` bytes. An incomplete last line is left for the next call.
/// A line of more than `cap` bytes is skipped: its chunk is empty and ends just past it.
pub fn read_lines_from(path: &Path, from: u64, cap: usize) -> Result<LineChunk, FileError> {
    let file = RegularFile::open(path)?;
    let len = file.opened_len();
    let mut bytes = file.read_at(from, cap)?;
    let mut end = from.min(len);
    if let Some(at) = memchr::memrchr(b'\n', &bytes) {
        bytes.truncate(at + 1);
        end = from + bytes.len() as u64;
    } else {
        let is_too_long = !bytes.is_empty() && bytes.len() == cap;
        if is_too_long && let Some(behind) = find_line_end(&file, from, cap)? {
            end = behind;
        }
        bytes.clear();
    }
    Ok(LineChunk { bytes, end, len })
}

/// The offset just past the line that starts at `from`; `None` if its line feed is not written yet.
fn find_line_end(file: &RegularFile<'_>, from: u64, step: usize) -> Result<Option<u64>, FileError> {
    let mut at = from;
    while at - from < MAX_LINE_BYTES {
        let block = file.read_at(at, step)?;
        if let Some(found) = memchr::memchr(b'\n', &block) {
            return Ok(Some(at + found as u64 + 1));
        }
        if block.len() < step {
            return Ok(None);
        }
        at += step as u64;
    }
    Err(file.error(io::ErrorKind::FileTooLarge.into()))
}

/// The part of a file to read backwards.
#[derive(Clone, Copy, Debug)]
pub struct TailWindow {
    /// The offset to start from, usually the file's length.
    pub end: u64,
    /// Bytes to read at a time.
    pub step: usize,
    /// Bytes to read in total.
    pub most: u64,
}

/// Why reading backwards ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardEnd {
    /// The visitor returned `Break`.
    VisitorStopped,
    /// Every complete line was visited.
    FileStart,
    /// The window was exhausted; there may be lines before it.
    WindowLimit,
}

/// Visits complete lines, without their line feeds, from the end towards the start. Bytes after the last line feed are
/// not a line yet, and a line that begins before the window is not visited.
pub fn visit_lines_backward(
    path: &Path,
    window: &TailWindow,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<BackwardEnd, FileError> {
    let file = RegularFile::open(path)?;
    let mut position = window.end.min(file.opened_len());
    let floor = position.saturating_sub(window.most);
    let mut line = PartialLine::Unterminated;
    while position > floor {
        let step =
            usize::try_from(position - floor).map_or(window.step, |left| left.min(window.step));
        let step = step.max(1);
        let block = file.read_at(position - step as u64, step)?;
        if block.len() < step {
            return Err(file.error(io::ErrorKind::UnexpectedEof.into()));
        }
        position -= step as u64;
        let mut rest = &block[..];
        while let Some(at) = memchr::memrchr(b'\n', rest) {
            if line.visit_complete(&rest[at + 1..], &mut visit).is_break() {
                return Ok(BackwardEnd::VisitorStopped);
            }
            line = PartialLine::Terminated(Vec::new());
            rest = &rest[..at];
        }
        line.prepend(rest);
    }
    if position > 0 {
        return Ok(BackwardEnd::WindowLimit);
    }
    match line.visit_complete(&[], &mut visit) {
        ControlFlow::Break(()) => Ok(BackwardEnd::VisitorStopped),
        ControlFlow::Continue(()) => Ok(BackwardEnd::FileStart),
    }
}

/// The line whose start has not been reached yet.
enum PartialLine {
    Unterminated,
    /// Its pieces so far, the last one first. A line can span many blocks, and joining them once keeps that linear.
    Terminated(Vec<Vec<u8>>),
}

impl PartialLine {
    fn prepend(&mut self, piece: &[u8]) {
        match self {
            Self::Terminated(pieces) if !piece.is_empty() => pieces.push(piece.to_vec()),
            Self::Terminated(_) | Self::Unterminated => {}
        }
    }

    fn visit_complete(
        &self,
        first: &[u8],
        visit: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Unterminated => ControlFlow::Continue(()),
            Self::Terminated(pieces) if pieces.is_empty() => visit(first),
            Self::Terminated(pieces) => {
                let mut whole = first.to_vec();
                pieces.iter().rev().for_each(|piece| whole.extend_from_slice(piece));
                visit(&whole)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::fs;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        fs::append(&path, bytes, fs::Durability::Cached).unwrap();
        (dir, path)
    }

    #[test]
    fn forward_reading_returns_complete_lines_and_leaves_the_incomplete_one() {
        for (bytes, from, cap, expected, end) in [
            (&b""[..], 0, 99, &b""[..], 0),
            (b"one\ntwo\nhal", 0, 99, b"one\ntwo\n", 8),
            (b"one\ntwo\nhal", 4, 99, b"two\n", 8),
            (b"one\ntwo\nhal", 8, 99, b"", 8),
            (b"one\ntwo\n", 0, 6, b"one\n", 4),
            (b"one\ntwo\n", 0, 4, b"one\n", 4),
            (b"too long\ntwo\n", 0, 4, b"", 9),
            (b"too long\ntwo\n", 9, 4, b"two\n", 13),
            (b"too long still", 0, 4, b"", 0),
            (b"half", 0, 4, b"", 0),
            (b"one\n", 9, 99, b"", 4),
            (b"\n\n", 0, 99, b"\n\n", 2),
        ] {
            let (_dir, path) = file(bytes);
            let chunk = read_lines_from(&path, from, cap).unwrap();
            let len = bytes.len() as u64;
            let expected = LineChunk { bytes: expected.to_vec(), end, len };
            assert_eq!(chunk, expected, "{:?} from {from}", bytes.escape_ascii());
        }
        assert!(read_lines_from(Path::new("/no/such/file"), 0, 9).unwrap_err().is_missing());
    }

    #[test]
    fn a_chunk_splits_into_its_lines() {
        let (_dir, path) = file(b"one\n\nthree\nhal");
        let chunk = read_lines_from(&path, 0, 99).unwrap();
        assert_eq!(chunk.lines().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
    }

    fn visited(bytes: &[u8], window: &TailWindow) -> (String, BackwardEnd) {
        let (_dir, path) = file(bytes);
        let mut lines = Vec::new();
        let reached = visit_lines_backward(&path, window, |line| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            match line {
                b"stop" => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .unwrap();
        (lines.join("|"), reached)
    }

    #[test]
    fn backward_reading_visits_the_same_lines_for_any_block_size() {
        for (bytes, expected, reached) in [
            (&b""[..], "", BackwardEnd::FileStart),
            (b"half", "", BackwardEnd::FileStart),
            (b"one\n", "one", BackwardEnd::FileStart),
            (b"one\ntwo\nhalf", "two|one", BackwardEnd::FileStart),
            (b"\n\none\n", "one||", BackwardEnd::FileStart),
            (b"a line of many blocks\nx\n", "x|a line of many blocks", BackwardEnd::FileStart),
            (b"one\nstop\nthree\n", "three|stop", BackwardEnd::VisitorStopped),
            (b"stop\n", "stop", BackwardEnd::VisitorStopped),
        ] {
            for step in 0..=bytes.len() + 1 {
                let window = TailWindow { end: u64::MAX, step, most: u64::MAX };
                let expected = (expected.to_owned(), reached);
                assert_eq!(
                    visited(bytes, &window),
                    expected,
                    "{:?} by {step}",
                    bytes.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn backward_reading_stays_in_its_window() {
        let bytes = b"one\ntwo\nthree\n";
        for (end, most, expected, reached) in [
            (14, 14, "three|two|one", BackwardEnd::FileStart),
            (14, 13, "three|two", BackwardEnd::WindowLimit),
            (14, 7, "three", BackwardEnd::WindowLimit),
            (14, 6, "", BackwardEnd::WindowLimit),
            (14, 0, "", BackwardEnd::WindowLimit),
            (13, 14, "two|one", BackwardEnd::FileStart),
            (8, 99, "two|one", BackwardEnd::FileStart),
            (0, 99, "", BackwardEnd::FileStart),
        ] {
            for step in 1..=bytes.len() {
                let window = TailWindow { end, step, most };
                let expected = (expected.to_owned(), reached);
                assert_eq!(visited(bytes, &window), expected, "{window:?}");
            }
        }
    }
}
