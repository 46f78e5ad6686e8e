//! The checkpoints of a run, and what changed between them.

use super::changed_files::{CheckpointDiff, ComparedFile, FileComparison};
use super::changed_settings::ChangedRunFile;
use crate::json_units;
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_git::checkpoint::{ChangedPath, Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::worktree::RunRepository;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_sys::clock::Deadline;
use serde::Serialize;
use std::path::{Path, PathBuf};

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
    /// In the repository.
    project_path: PathBuf,
    deadline: Deadline,
}

impl CheckpointReader {
    pub fn open(
        home: &RalphHome,
        run: &RunId,
        deadline: Deadline,
    ) -> Result<Self, CheckpointReadError> {
        let place = RunRepository::of_project(&store::load_run(home, run)?.run);
        let repository = CheckpointRepository::open(home, run, &place.directory, &deadline)?;
        let project_path = place.path_below(repository.root());
        Ok(Self { repository, project_path, deadline })
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
    ) -> Result<CheckpointDiff, CheckpointReadError> {
        let (from, to) = self.find_compared(from, to)?;
        Ok(CheckpointDiff::load(&self.repository, &from, &to, &self.deadline)?)
    }

    fn find_compared(
        &self,
        from: Option<u32>,
        to: Option<u32>,
    ) -> Result<(Checkpoint, Checkpoint), CheckpointReadError> {
        let all = self.repository.list(&self.deadline)?;
        let find = |number: u32| all.iter().find(|one| one.number == number);
        let from = from.map_or(all.first(), find);
        let to = to.map_or(all.last(), find);
        let (from, to) = from.zip(to).ok_or(CheckpointReadError::NothingToCompare)?;
        Ok((from.clone(), to.clone()))
    }

    /// All files that a run changed until a checkpoint, or until the last one, without their lines.
    pub(super) fn files_changed_until(
        &self,
        last: Option<u32>,
    ) -> Result<Vec<ChangedRunFile>, CheckpointReadError> {
        let (from, to) = self.find_compared(last.map(|_| 0), last)?;
        let changed = self.repository.diff(&from, &to, &self.deadline)?.into_iter();
        let file = |one: ChangedPath| {
            let path = Path::new(&one.path);
            let project_path = path.strip_prefix(&self.project_path).unwrap_or(path);
            ChangedRunFile {
                project_path: project_path.to_string_lossy().into_owned(),
                path: path.to_string_lossy().into_owned(),
                status: one.status,
            }
        };
        Ok(changed.map(file).collect())
    }

    /// What changed from the first checkpoint to the last.
    pub fn changed_since_start(&self) -> Result<CheckpointDiff, CheckpointReadError> {
        match self.repository.list(&self.deadline)?.len() {
            0 | 1 => Err(CheckpointReadError::NothingToCompare),
            _ => self.changed_between(None, None),
        }
    }

    /// What changed between a checkpoint and the one before it.
    pub fn changed_by(&self, number: u32) -> Result<CheckpointDiff, CheckpointReadError> {
        let all = self.repository.list(&self.deadline)?;
        let pair = all.windows(2).find_map(|pair| match pair {
            [before, one] if one.number == number => Some((before, one)),
            _ => None,
        });
        let (before, one) = pair.ok_or(CheckpointReadError::NothingToCompare)?;
        Ok(CheckpointDiff::load(&self.repository, before, one, &self.deadline)?)
    }

    /// Two versions of a file, without secrets. `path` is the name that [`CheckpointDiff`] lists.
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
