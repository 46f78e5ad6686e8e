//! Reads and updates `progress.txt`: a person's notes with three fields that a loop reads (iteration, maximum, status),
//! two of which it also writes. All other bytes stay as they are.

use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

const MAX_STATUS_CHARS: usize = 80;
const MAX_LINE_CHARS: usize = 400;

/// No entries are appended to a larger file.
const MAX_FILE_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressFile {
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    pub status: Option<String>,
}

/// An entry that is appended below the person's notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressEntry {
    /// A run has at most one entry of each kind.
    pub kind: ProgressEntryKind,
    /// `2026-11-16 02:10 UTC`
    pub at: String,
    pub run: String,
    pub lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressEntryKind {
    Iteration(u32),
    End,
}

impl ProgressEntry {
    fn heading_prefix(&self) -> String {
        match self.kind {
            ProgressEntryKind::Iteration(iteration) => format!("## Iteration {iteration},"),
            ProgressEntryKind::End => "## The end,".to_string(),
        }
    }

    fn heading_suffix(&self) -> String {
        format!("(run {})", self.run)
    }
}

#[derive(Clone, Copy)]
enum ProgressField {
    Iteration,
    MaxIterations,
    Status,
}

pub fn read_progress(bytes: &[u8]) -> ProgressFile {
    let number = |field| find_value(bytes, field).map(|value| parse_saturating(&bytes[value]));
    let status = find_value(bytes, ProgressField::Status)
        .map(|value| String::from_utf8_lossy(&bytes[value]));
    ProgressFile {
        iteration: number(ProgressField::Iteration).unwrap_or(0),
        max_iterations: number(ProgressField::MaxIterations),
        status: status.map(|status| text::clean_line(&status, MAX_STATUS_CHARS)),
    }
}

/// The same bytes with another iteration; `None` if no line has one.
pub fn with_iteration(bytes: &[u8], iteration: u32) -> Option<Vec<u8>> {
    let value = find_value(bytes, ProgressField::Iteration)?;
    Some(replace_range(bytes, value, &iteration.to_string()))
}

/// The same bytes with another status; `None` if no line has one.
pub fn with_status(bytes: &[u8], status: &str) -> Option<Vec<u8>> {
    let value = find_value(bytes, ProgressField::Status)?;
    Some(replace_range(bytes, value, &text::clean_line(status, MAX_STATUS_CHARS)))
}

/// The bytes to append for an entry; empty if the file already has it, is not text, or is too large.
pub fn render_addition(bytes: &[u8], entry: &ProgressEntry) -> Vec<u8> {
    if bytes.len() > MAX_FILE_BYTES || bytes.contains(&0) || contains_entry(bytes, entry) {
        return Vec::new();
    }
    let ending = if uses_crlf(bytes) { "\r\n" } else { "\n" };
    let gap = match bytes {
        [] => 0,
        [.., b'\n'] => 1,
        [..] => 2,
    };
    let mut added = ending.repeat(gap);
    let heading = format!("{} {} {}", entry.heading_prefix(), entry.at, entry.heading_suffix());
    let lines = entry.lines.iter().map(|line| text::clean_line(line, MAX_LINE_CHARS));
    for line in core::iter::once(heading).chain(lines) {
        added.push_str(&line);
        added.push_str(ending);
    }
    added.into_bytes()
}

/// Whether the file already has this entry. Times are ignored: a process that was killed after writing it would write it
/// again later.
fn contains_entry(bytes: &[u8], entry: &ProgressEntry) -> bool {
    let (start, end) = (entry.heading_prefix(), entry.heading_suffix());
    bytes.split(|byte| *byte == b'\n').any(|line| {
        line.starts_with(start.as_bytes()) && line.trim_ascii_end().ends_with(end.as_bytes())
    })
}

fn uses_crlf(bytes: &[u8]) -> bool {
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next();
    first.is_some_and(|line| line.ends_with(b"\r\n"))
}

fn replace_range(bytes: &[u8], value: Range<usize>, with: &str) -> Vec<u8> {
    [&bytes[..value.start], with.as_bytes(), &bytes[value.end..]].concat()
}

/// The range of the value on the first line that has this field with a value.
fn find_value(bytes: &[u8], field: ProgressField) -> Option<Range<usize>> {
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(value) = field_value(line, field) {
            return Some(start + value.start..start + value.end);
        }
        start += line.len();
    }
    None
}

fn field_value(line: &[u8], field: ProgressField) -> Option<Range<usize>> {
    let rest = strip_bullet(line);
    let rest = strip_stars(rest);
    let (label, rest) = rest.split_at_checked(field.label().len())?;
    if !label.eq_ignore_ascii_case(field.label()) {
        return None;
    }
    let rest = strip_stars(rest).trim_ascii_start().strip_prefix(b":")?;
    let start = line.len() - rest.len();
    let value = match field {
        ProgressField::Iteration | ProgressField::MaxIterations => first_number(rest)?,
        ProgressField::Status => trim_decoration(rest)?,
    };
    Some(start + value.start..start + value.end)
}

fn strip_bullet(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii_start();
    match line {
        [b'-' | b'*' | b'+', rest @ ..] if rest.first().is_some_and(u8::is_ascii_whitespace) => {
            rest.trim_ascii_start()
        }
        _ => line,
    }
}

fn strip_stars(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"**").unwrap_or(bytes)
}

fn first_number(bytes: &[u8]) -> Option<Range<usize>> {
    let start = bytes.iter().position(u8::is_ascii_digit)?;
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(start..start + length)
}

fn trim_decoration(bytes: &[u8]) -> Option<Range<usize>> {
    let is_decoration = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'*';
    let start = bytes.iter().position(|byte| !is_decoration(byte))?;
    let last = bytes.iter().rposition(|byte| !is_decoration(byte))?;
    Some(start..last + 1)
}

fn parse_saturating(digits: &[u8]) -> u32 {
    digits.iter().fold(0_u32, |number, digit| {
        number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    })
}

impl ProgressField {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Iteration => b"iteration",
            Self::MaxIterations => b"max iterations",
            Self::Status => b"status",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed_leniently() {
        for (text, expected) in [
            ("", (0, None, None)),
            ("no such lines\n\n", (0, None, None)),
            (
                "- Iteration: 3\n- Max Iterations: 15\n- Status: RUNNING\n",
                (3, Some(15), Some("RUNNING")),
            ),
            ("- Max Iterations: 15 (hard limit)\n- Iteration: 3", (3, Some(15), None)),
            ("- Iteration: 3\r\n- Status: COMPLETE\r\n", (3, None, Some("COMPLETE"))),
            ("* iteration: 3\n+ STATUS: done", (3, None, Some("done"))),
            ("Iteration: 3\n\tMax iterations : 9", (3, Some(9), None)),
            ("  - **Iteration**: 3\n- **Status:** **DONE**  ", (3, None, Some("DONE"))),
            ("**Max Iterations:** 20", (0, Some(20), None)),
            ("- Iteration: 3 of 15\n- Iteration: 4", (3, None, None)),
            ("- Iteration: none\n- Iteration: 4", (4, None, None)),
            ("- Iteration: about 7/9", (7, None, None)),
            ("- Iteration: 99999999999999999999", (u32::MAX, None, None)),
            ("- Iteration:\n3", (0, None, None)),
            ("- Iterations: 3\nIteration 3\n-Iteration: 3", (0, None, None)),
            ("- Status:\n- Status: late", (0, None, Some("late"))),
            ("- Status: a: b \u{1b}[31mc", (0, None, Some("a: b c"))),
            ("\u{feff}- Iteration: 3", (3, None, None)),
            ("\u{feff}", (0, None, None)),
        ] {
            let found = read_progress(text.as_bytes());
            assert_eq!(
                (found.iteration, found.max_iterations, found.status.as_deref()),
                expected,
                "{text:?}"
            );
        }
        assert_eq!(
            read_progress(b"\xff\xfe\n- Status: \xff!\n").status.as_deref(),
            Some("\u{fffd}!")
        );
    }

    #[test]
    fn only_the_value_changes() {
        for (before, iteration, status) in [
            (
                "- Iteration: 3\n- Status: RUNNING\n",
                "- Iteration: 40\n- Status: RUNNING\n",
                "- Iteration: 3\n- Status: DONE\n",
            ),
            ("- Iteration: 3 (of 15)\r\n", "- Iteration: 40 (of 15)\r\n", ""),
            ("- Iteration:3", "- Iteration:40", ""),
            ("- Iteration: 3\n- Iteration: 4\n", "- Iteration: 40\n- Iteration: 4\n", ""),
            ("- Max Iterations: 3\n", "", ""),
            ("**Status:** **a b** \t\r\nx", "", "**Status:** **DONE** \t\r\nx"),
            ("- Status:\n", "", ""),
            ("", "", ""),
        ] {
            let expected = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
            assert_eq!(with_iteration(before.as_bytes(), 40), expected(iteration), "{before:?}");
            assert_eq!(with_status(before.as_bytes(), "DONE"), expected(status), "{before:?}");
        }
    }

    #[test]
    fn a_status_cannot_add_lines() {
        assert_eq!(
            with_status(b"- Status: a\n", "b\n- Iteration: 0").unwrap(),
            b"- Status: b - Iteration: 0\n"
        );
    }

    #[test]
    fn every_other_byte_stays_identical() {
        let noise = [
            &b""[..],
            b"\n",
            b"\r\n",
            b"\xff\xfe\x00",
            b"# Title\r\n\n",
            b"\t* x: 1\n",
            b"- Max Iterations: 9\n",
        ];
        let endings =
            [&b""[..], b"\n", b"\r\n", b" (hard limit)\r\n", b" \n\n- Iteration: 8\n\xc3"];
        let prefixes = [&b"- Iteration: "[..], b"  * **iteration:** ", b"ITERATION:\t\t"];
        for before in noise {
            for prefix in prefixes {
                for ending in endings {
                    for number in [0, 7, 10, 4_294_967_295_u32] {
                        let start =
                            [before, if before.ends_with(b"\n") { b"" } else { b"\n" }, prefix]
                                .concat();
                        let file = |number: u32| {
                            [&start[..], format!("{number}").as_bytes(), ending].concat()
                        };
                        assert_eq!(with_iteration(&file(number), 12).unwrap(), file(12));
                        assert_eq!(with_iteration(&file(12), number).unwrap(), file(number));
                        assert_eq!(read_progress(&file(number)).iteration, number);
                    }
                }
            }
        }
    }

    fn entry(about: ProgressEntryKind) -> ProgressEntry {
        ProgressEntry {
            kind: about,
            at: "2026-11-16 02:10 UTC".to_string(),
            run: "k7f2".to_string(),
            lines: alloc::vec![
                "3 of 15 requirements are met".to_string(),
                "next: feature 4: \"Export\u{1b}[1m\n- Status: DONE\" does not pass yet"
                    .to_string(),
            ],
        }
    }

    #[test]
    fn an_entry_is_appended() {
        let added = |bytes: &[u8]| {
            String::from_utf8(render_addition(bytes, &entry(ProgressEntryKind::Iteration(4))))
                .unwrap()
        };
        let expected = "## Iteration 4, 2026-11-16 02:10 UTC (run k7f2)\n3 of 15 requirements are met\nnext: feature 4: \"Export - Status: DONE\" does not pass yet\n";
        assert_eq!(added(b""), expected);
        assert_eq!(added(b"- Iteration: 3\n"), format!("\n{expected}"));
        assert_eq!(added(b"- Iteration: 3"), format!("\n\n{expected}"));
        assert_eq!(added(b"a\r\nb\n"), format!("\n{expected}").replace('\n', "\r\n"));
        assert_eq!(added(b"a\nb\r\n"), format!("\n{expected}"));
        for nothing in [&b"a\0b"[..], &alloc::vec![b'x'; MAX_FILE_BYTES + 1]] {
            assert_eq!(added(nothing), "");
        }
    }

    /// For any file, an entry is appended once, leaves all existing bytes unchanged, and does not change the fields.
    #[test]
    fn entries_are_appended_once_and_do_not_change_the_fields() {
        let parts = [
            &b""[..],
            b"\n",
            b"\r\n",
            b"- Iteration:",
            b"- Status:",
            b"- Iteration: 3\n- Status: RUNNING\n",
            b"\xff\xfe",
            b"## Iteration 4, yesterday (run aaaa)\n",
            b"## The end, (run k7f2) or so\n",
        ];
        for first in parts {
            for second in parts {
                let mut file = [first, second].concat();
                for about in [
                    ProgressEntryKind::Iteration(4),
                    ProgressEntryKind::Iteration(40),
                    ProgressEntryKind::End,
                ] {
                    let before = read_progress(&file);
                    let added = render_addition(&file, &entry(about));
                    assert!(!added.is_empty(), "{:?}", file.escape_ascii().to_string());
                    file.extend(added);
                    assert_eq!(
                        read_progress(&file),
                        before,
                        "{:?}",
                        file.escape_ascii().to_string()
                    );
                    let again = ProgressEntry { at: "later".to_string(), ..entry(about) };
                    assert_eq!(render_addition(&file, &again), b"");
                    let other = ProgressEntry { run: "9qd1".to_string(), ..entry(about) };
                    assert_ne!(render_addition(&file, &other), b"");
                }
            }
        }
    }
}
