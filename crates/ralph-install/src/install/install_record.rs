//! Records of changed files in `install/<hash of the path>/`, kept until the change is undone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings_edit::EditTrace;
use super::settings_layers::MAX_SETTINGS_BYTES;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};

const VERSION: u8 = 1;
/// A trace contains the lists of a file at most twice.
const MAX_RECORD_BYTES: usize = 4 * MAX_SETTINGS_BYTES;
const RECORD_FILE: &str = "record.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstallRecord {
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
    pub(super) trace: Option<EditTrace>,
}

/// The state of a file compared with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedFileState {
    /// Unchanged since ralph wrote it.
    Unchanged,
    /// As it was before: the installation was interrupted or undone by hand.
    AsBefore,
    /// Edited since ralph wrote it.
    Edited,
}

pub(super) fn hash_file_content(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl InstallRecord {
    pub(super) fn new(path: &Path, before: Option<&[u8]>, after: &[u8]) -> Self {
        Self {
            v: VERSION,
            path: path.to_string_lossy().into_owned(),
            written_at: clock::format_rfc3339(clock::now_ms()),
            before: before.map(hash_file_content),
            after: hash_file_content(after),
            made_directories: 0,
            trace: None,
        }
    }

    pub(super) fn file_state(&self, now: Option<&[u8]>) -> RecordedFileState {
        let now = now.map(hash_file_content);
        if now.as_ref() == Some(&self.after) {
            RecordedFileState::Unchanged
        } else if now == self.before {
            RecordedFileState::AsBefore
        } else {
            RecordedFileState::Edited
        }
    }
}

/// The record of a file. An unreadable record, or one of a newer version, counts as missing.
pub(super) fn load_record(home: &RalphHome, path: &Path) -> Option<InstallRecord> {
    let bytes = fs::read(&home.install_record(path).join(RECORD_FILE), MAX_RECORD_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|record: &InstallRecord| record.v == VERSION)
}

/// The settings files that have a record of an installation.
pub(super) fn recorded_settings(home: &RalphHome) -> Vec<PathBuf> {
    const MOST: usize = 10_000;
    let names = fs::list(&home.install_records(), MOST).unwrap_or_default();
    let records = names.iter().filter_map(|name| {
        let bytes =
            fs::read(&home.install_records().join(name).join(RECORD_FILE), MAX_RECORD_BYTES)
                .ok()?;
        serde_json::from_slice::<InstallRecord>(&bytes).ok()
    });
    records.filter(|record| record.trace.is_some()).map(|record| record.path.into()).collect()
}

/// The original bytes of the file, if the backup still exists and is intact.
pub(super) fn original_bytes(
    home: &RalphHome,
    path: &Path,
    record: &InstallRecord,
) -> Option<Vec<u8>> {
    let expected = record.before.as_ref()?;
    let bytes =
        fs::read(&home.install_record(path).join(backup_name(expected)), MAX_SETTINGS_BYTES)
            .ok()?;
    (hash_file_content(&bytes) == *expected).then_some(bytes)
}

/// Saves the record and the original bytes. The bytes are written first, under a name with their hash, so a record
/// never refers to other bytes.
pub(super) fn save_record(
    home: &RalphHome,
    path: &Path,
    record: &InstallRecord,
    before: Option<&[u8]>,
) -> Result<(), FileError> {
    let directory = home.install_record(path);
    fs::create_private_dir(&directory)?;
    if let (Some(bytes), Some(hash)) = (before, &record.before) {
        fs::replace(&directory.join(backup_name(hash)), bytes, Durability::Synced)?;
    }
    let mut bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
    bytes.push(b'\n');
    fs::replace(&directory.join(RECORD_FILE), &bytes, Durability::Synced)
}

pub(super) fn remove_record(home: &RalphHome, path: &Path) -> Result<(), FileError> {
    fs::remove_own_dir_tree(&home.install_record(path))
}

fn backup_name(hash: &str) -> String {
    format!("before-{}", hash.get(..16).unwrap_or(hash))
}
