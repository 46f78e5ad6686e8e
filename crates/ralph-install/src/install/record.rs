//! Records of changed files in `install/<hash of the path>/`, kept until the change is undone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::edit::Trace;
use super::layers::LARGEST;
use ralph_home::paths::Home;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};

const VERSION: u8 = 1;
/// A trace contains the lists of a file at most twice.
const LARGEST_RECORD: usize = 4 * LARGEST;
const NAME: &str = "record.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    v: u8,
    /// For people; the directory name identifies the file.
    path: String,
    /// RFC 3339, in UTC.
    written_at: String,
    /// The hash of the file without ralph; `None` if the file did not exist.
    pub(super) before: Option<String>,
    /// The hash of the file as it was written.
    pub(super) after: String,
    /// The number of parent directories that were created for it.
    pub(super) made_directories: usize,
    /// For settings files: how to remove ralph from a file that was edited since.
    pub(super) trace: Option<Trace>,
}

/// The state of a file compared with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// Unchanged since ralph wrote it.
    No,
    /// As it was before: the installation was interrupted or undone by hand.
    NotWritten,
    /// Edited since ralph wrote it.
    Since,
}

pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl Record {
    pub(super) fn new(path: &Path, before: Option<&[u8]>, after: &[u8]) -> Self {
        Self {
            v: VERSION,
            path: path.to_string_lossy().into_owned(),
            written_at: clock::rfc3339(clock::now_ms()),
            before: before.map(hash),
            after: hash(after),
            made_directories: 0,
            trace: None,
        }
    }

    pub(super) fn touched(&self, now: Option<&[u8]>) -> Touched {
        let now = now.map(hash);
        if now.as_ref() == Some(&self.after) {
            Touched::No
        } else if now == self.before {
            Touched::NotWritten
        } else {
            Touched::Since
        }
    }
}

/// The record of a file. An unreadable record, or one of a newer version, counts as missing.
pub(super) fn load(home: &Home, path: &Path) -> Option<Record> {
    let bytes = fs::read(&home.installed(path).join(NAME), LARGEST_RECORD).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|record: &Record| record.v == VERSION)
}

/// The settings files that have a record of an installation.
pub(super) fn settings(home: &Home) -> Vec<PathBuf> {
    const MOST: usize = 10_000;
    let names = fs::list(&home.install(), MOST).unwrap_or_default();
    let records = names.iter().filter_map(|name| {
        let bytes = fs::read(&home.install().join(name).join(NAME), LARGEST_RECORD).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok()
    });
    records.filter(|record| record.trace.is_some()).map(|record| record.path.into()).collect()
}

/// The original bytes of the file, if the backup still exists and is intact.
pub(super) fn before(home: &Home, path: &Path, record: &Record) -> Option<Vec<u8>> {
    let expected = record.before.as_ref()?;
    let bytes = fs::read(&home.installed(path).join(backup(expected)), LARGEST).ok()?;
    (hash(&bytes) == *expected).then_some(bytes)
}

/// Saves the record and the original bytes. The bytes are written first, under a name with their hash, so a record
/// never refers to other bytes.
pub(super) fn keep(
    home: &Home,
    path: &Path,
    record: &Record,
    before: Option<&[u8]>,
) -> Result<(), FileError> {
    let directory = home.installed(path);
    fs::create_dir(&directory)?;
    if let (Some(bytes), Some(hash)) = (before, &record.before) {
        fs::replace(&directory.join(backup(hash)), bytes, Durability::Synced)?;
    }
    let mut bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
    bytes.push(b'\n');
    fs::replace(&directory.join(NAME), &bytes, Durability::Synced)
}

pub(super) fn forget(home: &Home, path: &Path) -> Result<(), FileError> {
    fs::remove_made_dir(&home.installed(path))
}

fn backup(hash: &str) -> String {
    format!("before-{}", hash.get(..16).unwrap_or(hash))
}
