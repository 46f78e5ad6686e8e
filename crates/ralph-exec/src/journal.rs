//! The append-only truth of a run. Each line names the hash of the line before it, so that a change in the
//! middle is seen.

use crate::fs::{self, FileError};
use ralph_core::record::Entry;
use std::path::Path;

/// A run has finitely many entries; a journal past this is not one that ralph wrote.
pub const LARGEST: usize = 256 * 1024 * 1024;

/// A journal as far as its chain holds.
#[derive(Debug)]
pub struct Read {
    pub entries: Vec<Entry>,
    /// Where the intact part ends.
    pub end: u64,
    pub last_start: u64,
    pub head: String,
    pub broken: Option<Break>,
    /// What can be read beyond a broken link: not believed, but not forgotten either.
    pub beyond: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Break {
    /// A line that was being written when the process died: nothing that was ever acted on.
    Torn,
    /// A whole line that is not JSON, or does not follow from the one before it.
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

/// Reads the lines of `bytes`, which stand at `offset` in the journal and follow the line with hash `head`.
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

/// Whether every line still follows from the one before it.
pub fn is_intact(path: &Path) -> Result<bool, FileError> {
    Ok(!matches!(read(path)?.broken, Some(Break::Chain { .. })))
}
