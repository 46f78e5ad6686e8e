//! The append-only journal of a run, from which all other files of the run can be rebuilt. Each line carries the hash
//! of the line before it, so that an edit in the middle is detected.

use ralph_core::record::Entry;
use ralph_sys::fs::{self, FileError};
use std::path::Path;

/// A run's limits bound its journal; ralph did not write a larger one.
pub const LARGEST: usize = 256 * 1024 * 1024;

/// The intact part of a journal, and what follows it.
#[derive(Debug)]
pub struct Read {
    pub entries: Vec<Entry>,
    /// Offset at which the intact part ends.
    pub end: u64,
    /// Offset of the last intact line.
    pub last_start: u64,
    /// Hash of the last intact line.
    pub head: String,
    pub broken: Option<Break>,
    /// Entries that parse beyond a broken link. They are not trusted, but the iterations they count still count.
    pub beyond: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Break {
    /// An incomplete last line: the process died while writing it. Nothing was ever done because of it.
    Torn,
    /// A complete line that does not parse, or does not carry the hash of the line before it.
    Chain { line: usize },
}

pub fn hash(line: &[u8]) -> String {
    blake3::hash(line).to_hex()[..32].to_string()
}

pub fn line(entry: &Entry) -> Vec<u8> {
    // Entries are strings, numbers and lists of them; serialising one cannot fail.
    let mut bytes = serde_json::to_vec(entry).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

pub fn read(path: &Path) -> Result<Read, FileError> {
    Ok(parse(&fs::read(path, LARGEST)?, 0, ""))
}

/// Parses `bytes`, which start at `offset` in the journal and follow the line with hash `head`.
pub fn parse(bytes: &[u8], offset: u64, head: &str) -> Read {
    let mut read = Read {
        entries: Vec::new(),
        end: offset,
        last_start: offset,
        head: head.to_string(),
        broken: None,
        beyond: Vec::new(),
    };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    for (number, line) in &mut lines {
        if !line.ends_with(b"\n") {
            read.broken = Some(Break::Torn);
            break;
        }
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if entry.prev == read.head => read.entries.push(entry),
            unlinked => {
                read.broken = Some(Break::Chain { line: number + 1 });
                read.beyond.extend(unlinked.ok());
                break;
            }
        }
        read.last_start = read.end;
        read.end += line.len() as u64;
        read.head = hash(line);
    }
    read.beyond.extend(lines.filter_map(|(_, line)| serde_json::from_slice(line).ok()));
    read
}

/// Whether every complete line carries the hash of the line before it.
pub fn is_intact(path: &Path) -> Result<bool, FileError> {
    Ok(!matches!(read(path)?.broken, Some(Break::Chain { .. })))
}
