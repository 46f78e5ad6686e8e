//! The checkpoints of a run, and what changed between them.

use super::changed_files::{ChangedFiles, ComparedFile, FileComparison};
use crate::json_units;
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository};
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_sys::clock::Deadline;
use serde::Serialize;
use std::path::Path;

const LONGEST_REASON: usize = 300;

/// A checkpoint of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointRow {
    pub number: u32,
    #[serde(rename = "at", serialize_with = "json_units::time")]
    pub at_ms: u64,
    /// Why it was made.
    pub why: String,
}

/// Why the checkpoints of a run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("there are no two checkpoints to compare")]
    NothingToCompare,
    #[error("the file does not differ between the checkpoints")]
    NoDifference,
}

/// Reads the checkpoints of one run.
#[derive(Debug)]
pub struct CheckpointReader {
    repository: CheckpointRepository,
    deadline: Deadline,
}

impl CheckpointReader {
    pub fn open(
        home: &RalphHome,
        run: &RunId,
        deadline: Deadline,
    ) -> Result<Self, CheckpointReadError> {
        let project = store::load_run(home, run)?.run.project;
        let repository = CheckpointRepository::open(home, run, Path::new(&project), &deadline)?;
        Ok(Self { repository, deadline })
    }

    /// Oldest first.
    pub fn list(&self) -> Result<Vec<CheckpointRow>, CheckpointReadError> {
        let row = |one: &Checkpoint| CheckpointRow {
            number: one.number,
            at_ms: one.at_ms,
            why: text::clean_line(&one.reason.to_string(), LONGEST_REASON),
        };
        Ok(self.repository.list(&self.deadline)?.iter().map(row).collect())
    }

    /// What changed between two checkpoints: the first and the last unless others are named.
    pub fn changed_between(
        &self,
        from: Option<u32>,
        to: Option<u32>,
    ) -> Result<ChangedFiles, CheckpointReadError> {
        let all = self.repository.list(&self.deadline)?;
        let find = |number: u32| all.iter().find(|one| one.number == number);
        let from = from.map_or(all.first(), find);
        let to = to.map_or(all.last(), find);
        let (from, to) = from.zip(to).ok_or(CheckpointReadError::NothingToCompare)?;
        Ok(ChangedFiles::load(&self.repository, from, to, &self.deadline)?)
    }

    /// What changed from the first checkpoint to the last.
    pub fn changed_since_start(&self) -> Result<ChangedFiles, CheckpointReadError> {
        match self.repository.list(&self.deadline)?.len() {
            0 | 1 => Err(CheckpointReadError::NothingToCompare),
            _ => self.changed_between(None, None),
        }
    }

    /// What changed between a checkpoint and the one before it.
    pub fn changed_by(&self, number: u32) -> Result<ChangedFiles, CheckpointReadError> {
        let all = self.repository.list(&self.deadline)?;
        let pair = all.windows(2).find_map(|pair| match pair {
            [before, one] if one.number == number => Some((before, one)),
            _ => None,
        });
        let (before, one) = pair.ok_or(CheckpointReadError::NothingToCompare)?;
        Ok(ChangedFiles::load(&self.repository, before, one, &self.deadline)?)
    }

    /// Two versions of a file, without secrets. `path` is the name that [`ChangedFiles`] lists.
    pub fn compare_file(
        &self,
        from: u32,
        to: u32,
        path: &str,
        redactor: &Redactor,
    ) -> Result<FileComparison, CheckpointReadError> {
        let from = self.repository.find(from, &self.deadline)?;
        let to = self.repository.find(to, &self.deadline)?;
        let found =
            ComparedFile { path, redactor }.load(&self.repository, &from, &to, &self.deadline)?;
        found.ok_or(CheckpointReadError::NoDifference)
    }
}
