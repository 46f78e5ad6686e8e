//! The append-only journal of a run, from which all other files of the run can be rebuilt. Each line carries the hash
//! of the line before it, so that an edit in the middle is detected.

use ralph_core::record::{FORMAT_VERSION, JournalEntry};
use ralph_sys::fs::{self, FileError};
use ralph_sys::parallel;
use serde::Deserialize;
use std::path::Path;

/// A run's limits bound its journal; ralph did not write a larger one.
pub const MAX_JOURNAL_BYTES: usize = 256 * 1024 * 1024;
/// A shorter journal is parsed by this thread alone.
const PARALLEL_BYTES: usize = 1024 * 1024;
const USUAL_LINE: usize = 512;

/// The intact part of a journal, and what follows it.
#[derive(Debug)]
pub struct JournalContents {
    pub entries: Vec<JournalEntry>,
    /// Offset at which the intact part ends.
    pub end: u64,
    /// Offset of the last intact line.
    pub last_start: u64,
    /// Hash of the last intact line.
    pub head: String,
    pub damage: Option<JournalDamage>,
    /// Entries that parse beyond a broken link. They are not trusted, but the iterations they count still count.
    pub untrusted: Vec<JournalEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalDamage {
    /// An incomplete last line: the process died while writing it. Nothing was ever done because of it.
    TornLine,
    /// A complete line that does not parse, or does not carry the hash of the line before it.
    BrokenChain { line: usize },
    /// The file is gone, although the run's other files are there.
    Missing,
    /// A newer ralph continued the journal here, so this version may not understand the line. This does not count as
    /// an edit, and the run is left unchanged.
    NewerFormat { line: usize, version: u64 },
}

/// The fields that entries of every version have.
#[derive(Deserialize)]
struct EntryEnvelope {
    v: u64,
    #[serde(default)]
    prev: String,
}

impl JournalDamage {
    /// Whether something other than ralph changed the journal, so that the rest of it is not trusted.
    pub fn is_edit(&self) -> bool {
        match self {
            Self::BrokenChain { .. } | Self::Missing => true,
            Self::TornLine | Self::NewerFormat { .. } => false,
        }
    }
}

impl EntryEnvelope {
    /// The version of a line that a newer ralph wrote after the line with hash `head`.
    fn newer_version(line: &[u8], head: &str) -> Option<u64> {
        let entry: Self = serde_json::from_slice(line).ok()?;
        (entry.v > u64::from(FORMAT_VERSION) && entry.prev == head).then_some(entry.v)
    }
}

/// Whether a whole journal can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalIntegrity {
    Intact,
    Edited,
    /// A newer ralph wrote a part of it, so this version cannot tell.
    Newer(u64),
}

pub fn hash_bytes(line: &[u8]) -> String {
    blake3::hash(line).to_hex()[..32].to_string()
}

/// The line for an entry of the journal at `path`.
pub fn encode_entry(path: &Path, entry: &JournalEntry) -> Result<Vec<u8>, FileError> {
    let mut bytes = fs::encode_json(path, entry)?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub fn read_journal(path: &Path) -> Result<JournalContents, FileError> {
    Ok(parse_journal(&fs::read(path, MAX_JOURNAL_BYTES)?, 0, ""))
}

/// Parses `bytes`, which start at `offset` in the journal and follow the line with hash `head`.
pub fn parse_journal(bytes: &[u8], offset: u64, head: &str) -> JournalContents {
    let mut read = JournalContents {
        entries: Vec::new(),
        end: offset,
        last_start: offset,
        head: head.to_string(),
        damage: None,
        untrusted: Vec::new(),
    };
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let (complete, torn) = bytes.split_at(complete);
    let parts = parse_lines(complete);
    read.entries.reserve_exact(parts.iter().map(Vec::len).sum());
    let mut lines = parts.into_iter().flatten().enumerate();
    while let Some((number, line)) = lines.next() {
        match line.entry {
            Some(entry) if entry.prev == read.head && entry.v <= FORMAT_VERSION => {
                read.entries.push(entry);
            }
            unlinked => {
                let mut later: Vec<_> = lines.map(|(_, line)| line).collect();
                later.extend((!torn.is_empty()).then(|| ParsedLine::parse(torn)));
                let texts: Vec<_> = later.iter().map(|line| line.text).collect();
                read.damage = Some(line_damage(number + 1, line.text, &texts, &read.head));
                read.untrusted.extend(unlinked);
                read.untrusted.extend(later.into_iter().filter_map(|line| line.entry));
                return read;
            }
        }
        read.last_start = read.end;
        read.end += line.text.len() as u64;
        read.head = line.hash;
    }
    read.damage = (!torn.is_empty()).then_some(JournalDamage::TornLine);
    read
}

/// A complete line, before its link to the line before it is checked.
struct ParsedLine<'a> {
    text: &'a [u8],
    hash: String,
    entry: Option<JournalEntry>,
}

impl<'a> ParsedLine<'a> {
    fn parse(text: &'a [u8]) -> Self {
        Self { text, hash: hash_bytes(text), entry: serde_json::from_slice(text).ok() }
    }
}

/// Parses each line on its own. A long journal is parsed on all processors; only commands that show a whole run read one.
fn parse_lines(bytes: &[u8]) -> Vec<Vec<ParsedLine<'_>>> {
    if bytes.len() < PARALLEL_BYTES {
        return vec![parse_part(bytes)];
    }
    let parts = split_at_lines(bytes, parallel::processor_count());
    parallel::map_in_parallel(parts, parse_part)
}

fn parse_part(bytes: &[u8]) -> Vec<ParsedLine<'_>> {
    let mut lines = Vec::with_capacity(bytes.len() / USUAL_LINE);
    lines.extend(bytes.split_inclusive(|byte| *byte == b'\n').map(ParsedLine::parse));
    lines
}

/// Splits lines into about equally long parts.
fn split_at_lines(mut bytes: &[u8], parts: usize) -> Vec<&[u8]> {
    let length = bytes.len().div_ceil(parts.max(1));
    let mut split = Vec::new();
    while bytes.len() > length {
        let end = bytes[length..].iter().position(|byte| *byte == b'\n');
        let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| length + end + 1));
        split.push(part);
        bytes = rest;
    }
    split.push(bytes);
    split
}

/// The damage in a complete line that cannot be read. `head` is the hash of the line before it.
///
/// The versions of the lines after it count too: a newer ralph checks the journal before it writes, so it understood
/// what this version does not.
fn line_damage(number: usize, line: &[u8], later: &[&[u8]], head: &str) -> JournalDamage {
    let mut head = head.to_string();
    for line in std::iter::once(line).chain(later.iter().copied()) {
        if let Some(version) = EntryEnvelope::newer_version(line, &head) {
            return JournalDamage::NewerFormat { line: number, version };
        }
        head = hash_bytes(line);
    }
    JournalDamage::BrokenChain { line: number }
}

/// Whether every complete line is known and carries the hash of the line before it.
pub fn check_integrity(path: &Path) -> Result<JournalIntegrity, FileError> {
    Ok(match read_journal(path)?.damage {
        None | Some(JournalDamage::TornLine) => JournalIntegrity::Intact,
        Some(JournalDamage::BrokenChain { .. } | JournalDamage::Missing) => {
            JournalIntegrity::Edited
        }
        Some(JournalDamage::NewerFormat { version, .. }) => JournalIntegrity::Newer(version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal whose lines are chained, with `change` in each.
    fn chain(lines: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut prev = String::new();
        for (seq, (version, change)) in lines.iter().enumerate() {
            let line = format!(
                "{{\"v\":{version},\"seq\":{seq},\"at_ms\":1,\"prev\":\"{prev}\",\"iteration\":0,\"after\":\"\",\"change\":{change}}}\n"
            );
            prev = hash_bytes(line.as_bytes());
            bytes.extend(line.into_bytes());
        }
        bytes
    }

    /// The version of every line is read. A line that only a newer ralph understands is not damage, whatever its number
    /// looks like; nor is one that a newer ralph accepted and wrote on after.
    #[test]
    fn lines_of_a_newer_ralph_are_not_damage() {
        const KNOWN: (&str, &str) = ("1", "\"paused\"");
        const OWN: (&str, &str) = ("2", "\"resumed\"");
        const STRANGE: (&str, &str) = ("2", "{\"teleported\":{}}");
        let shown = [
            &[KNOWN, OWN, KNOWN][..],
            &[KNOWN, ("3", "\"paused\"")],
            &[KNOWN, ("300", "{\"teleported\":{}}"), OWN],
            &[KNOWN, STRANGE, OWN],
            &[KNOWN, STRANGE, OWN, ("3", "\"paused\"")],
        ]
        .map(|lines| parse_journal(&chain(lines), 0, "").damage);
        assert_eq!(
            shown,
            [
                None,
                Some(JournalDamage::NewerFormat { line: 2, version: 3 }),
                Some(JournalDamage::NewerFormat { line: 2, version: 300 }),
                Some(JournalDamage::BrokenChain { line: 2 }),
                Some(JournalDamage::NewerFormat { line: 2, version: 3 }),
            ]
        );
        // Without the hash of the line before it, a newer line proves nothing.
        let mut forged = chain(&[KNOWN, STRANGE]);
        forged.extend(b"{\"v\":3,\"prev\":\"\"}\n");
        assert_eq!(
            parse_journal(&forged, 0, "").damage,
            Some(JournalDamage::BrokenChain { line: 2 })
        );
    }

    /// A journal that is long enough for several threads is read like a short one, whole or damaged.
    #[test]
    fn a_long_journal_is_read_like_a_short_one() {
        let lines = vec![("1", "\"paused\""); PARALLEL_BYTES / 100];
        let mut bytes = chain(&lines);
        assert!(bytes.len() > PARALLEL_BYTES);
        let whole = parse_journal(&bytes, 0, "");
        let seqs = |entries: &[JournalEntry]| -> Vec<_> {
            let seqs = entries.iter().map(|entry| usize::try_from(entry.seq).unwrap());
            seqs.collect()
        };
        assert_eq!(seqs(&whole.entries), (0..lines.len()).collect::<Vec<_>>());
        assert_eq!((whole.end, whole.damage), (bytes.len() as u64, None));

        let middle = lines.len() / 2;
        let start = bytes.split_inclusive(|byte| *byte == b'\n').take(middle).map(<[u8]>::len);
        let start: usize = start.sum();
        // A space is valid JSON, but changes the hash that the next line carries.
        bytes.insert(start + 1, b' ');
        let edited = parse_journal(&bytes, 0, "");
        assert_eq!(seqs(&edited.entries), (0..=middle).collect::<Vec<_>>());
        assert_eq!(seqs(&edited.untrusted), (middle + 1..lines.len()).collect::<Vec<_>>());
        assert_eq!(edited.damage, Some(JournalDamage::BrokenChain { line: middle + 2 }));
    }

    #[test]
    fn parts_end_with_a_line() {
        let split = |text: &'static str, parts| split_at_lines(text.as_bytes(), parts);
        assert_eq!(split("a\nb\n", 1), [b"a\nb\n"]);
        assert_eq!(split("a\nb\nc\nd\n", 2), [&b"a\nb\nc\n"[..], b"d\n"]);
        assert_eq!(split("long line\na\n", 3), [&b"long line\n"[..], b"a\n"]);
        assert_eq!(split("", 2), [b""]);
    }
}
