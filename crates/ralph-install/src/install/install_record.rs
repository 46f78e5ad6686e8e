//! Records of changed files in `install/<hash of the path>/`, kept until the change is undone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::InstallError;
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

/// The record of a file; `None` if ralph has not changed the file.
pub(super) fn load_record(
    home: &RalphHome,
    path: &Path,
) -> Result<Option<InstallRecord>, InstallError> {
    read_record(&home.install_record(path))
}

/// A record that cannot be read is an error. A caller that treated it as missing would replace or remove it, and the
/// original file could no longer be restored.
fn read_record(directory: &Path) -> Result<Option<InstallRecord>, InstallError> {
    let path = directory.join(RECORD_FILE);
    let record: Option<InstallRecord> =
        fs::read_json(&path, MAX_RECORD_BYTES).map_err(InstallError::DamagedRecord)?;
    match record {
        Some(record) if record.v != VERSION => Err(InstallError::OtherRecordVersion(path)),
        record => Ok(record),
    }
}

/// The settings files that have a record of an installation.
pub(super) fn recorded_settings(home: &RalphHome) -> Result<Vec<PathBuf>, InstallError> {
    const MOST: usize = 10_000;
    let records = home.install_records();
    let mut settings = Vec::new();
    for name in fs::list_if_exists(&records, MOST)? {
        let record = read_record(&records.join(name))?;
        settings.extend(record.filter(|record| record.trace.is_some()).map(|it| it.path.into()));
    }
    Ok(settings)
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
    let path = directory.join(RECORD_FILE);
    let mut bytes = serde_json::to_vec_pretty(record)
        .map_err(|error| FileError::not_encodable(&path, error))?;
    bytes.push(b'\n');
    fs::replace(&path, &bytes, Durability::Synced)
}

pub(super) fn remove_record(home: &RalphHome, path: &Path) -> Result<(), FileError> {
    fs::remove_own_dir_tree(&home.install_record(path))
}

fn backup_name(hash: &str) -> String {
    format!("before-{}", hash.get(..16).unwrap_or(hash))
}
