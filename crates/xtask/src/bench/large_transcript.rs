//! Generates large transcripts from recorded lines with new ids.

use super::hook_racers::TranscriptSize;
use super::hook_stage::{HookStage, client_fixtures};
use crate::disk;
use anyhow::{Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};

const ID_LABELS: [&[u8]; 3] = [br#""uuid": ""#, br#""parentUuid": ""#, br#""promptId": ""#];
const ID_DIGITS: usize = 8;
/// Lines that an agent adds between two stops when it only answers.
const LINES_PER_TURN: usize = 4;

/// All recorded sessions, concatenated, and the offsets of the ids in them.
pub(crate) struct RecordedTranscript {
    bytes: Vec<u8>,
    ids: Vec<usize>,
}

impl RecordedTranscript {
    pub(crate) fn read() -> Result<Self> {
        let mut bytes = Vec::new();
        for path in disk::list(&client_fixtures().join("transcripts"))? {
            bytes.extend(disk::read(&path)?);
            ensure!(bytes.ends_with(b"\n"), "`{}` does not end with a newline", path.display());
        }
        let starts_id = |at: &usize| ID_LABELS.iter().any(|label| bytes[..*at].ends_with(label));
        let ids = (0..bytes.len() - ID_DIGITS).filter(starts_id).collect();
        Ok(Self { bytes, ids })
    }

    pub(crate) fn last_turn(&self) -> Vec<u8> {
        let lines: Vec<_> = self.bytes.split_inclusive(|byte| *byte == b'\n').collect();
        lines[lines.len().saturating_sub(LINES_PER_TURN)..].concat()
    }

    pub(crate) fn write(&self, stage: &HookStage, size: &TranscriptSize) -> Result<PathBuf> {
        let path =
            stage.host_directory().join("projects/bench").join(format!("{}.jsonl", size.bytes));
        let mut file = disk::create(&path)?;
        let mut bytes = self.bytes.clone();
        let length = u64::try_from(bytes.len())?;
        for round in 0..size.bytes.div_ceil(length) {
            let digits = format!("{round:0ID_DIGITS$x}");
            for id in &self.ids {
                bytes[*id..*id + ID_DIGITS].copy_from_slice(digits.as_bytes());
            }
            file.write_all(&bytes)?;
        }
        file.flush()?;
        Ok(path)
    }
}

pub(crate) fn free_bytes(directory: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
