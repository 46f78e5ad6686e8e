//! The append-only journal of a run, from which all other files of the run can be rebuilt. Each line carries the hash
//! of the line before it, so that an edit in the middle is detected.

use ralph_core::record::{FORMAT_VERSION, JournalEntry};
use ralph_sys::fs::{self, FileError};
use serde::Deserialize;
use std::path::Path;

/// A run's limits bound its journal; ralph did not write a larger one.
pub const MAX_JOURNAL_BYTES: usize = 256 * 1024 * 1024;

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
    /// A newer ralph continued the journal here, so this version may not understand the line. This does not count as
    /// an edit, and the run is left unchanged.
    NewerFormat { line: usize, version: u8 },
}

/// The fields that entries of every version have.
#[derive(Deserialize)]
struct EntryEnvelope {
    v: u8,
    #[serde(default)]
    prev: String,
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
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    for (number, line) in &mut lines {
        if !line.ends_with(b"\n") {
            read.damage = Some(JournalDamage::TornLine);
            break;
        }
        match serde_json::from_slice::<JournalEntry>(line) {
            Ok(entry) if entry.prev == read.head && entry.v <= FORMAT_VERSION => {
                read.entries.push(entry);
            }
            unlinked => {
                read.damage = Some(line_damage(line, number + 1, &read.head));
                read.untrusted.extend(unlinked.ok());
                break;
            }
        }
        read.last_start = read.end;
        read.end += line.len() as u64;
        read.head = hash_bytes(line);
    }
    read.untrusted.extend(lines.filter_map(|(_, line)| serde_json::from_slice(line).ok()));
    read
}

/// The damage in a complete line that cannot be read. `head` is the hash of the line before it.
fn line_damage(line: &[u8], number: usize, head: &str) -> JournalDamage {
    match serde_json::from_slice::<EntryEnvelope>(line) {
        Ok(entry) if entry.v > FORMAT_VERSION && entry.prev == head => {
            JournalDamage::NewerFormat { line: number, version: entry.v }
        }
        Ok(_) | Err(_) => JournalDamage::BrokenChain { line: number },
    }
}

/// Whether every complete line is known and carries the hash of the line before it.
pub fn is_intact(path: &Path) -> Result<bool, FileError> {
    Ok(matches!(read_journal(path)?.damage, None | Some(JournalDamage::TornLine)))
}
