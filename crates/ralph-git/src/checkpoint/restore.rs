//! Restores the work tree to a checkpoint. The current state is checkpointed first, and only files that are in that
//! checkpoint are changed or removed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::create_checkpoint::{CheckpointSnapshot, CreatedCheckpoint};
use super::diff::{ChangedPath, PathVersion};
use super::plumbing::{PlumbingCommand, PlumbingContext, quote_path, unexpected_git_output};
use super::staging::{CheckpointFile, StagedCopies, put_kind};
use super::{Checkpoint, CheckpointError, CheckpointRepository};
use crate::tree::TreeEntryMode;
use ralph_home::faults;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{ConfinedDir, FileKind, FileStat};

/// The changes that a restore makes, or would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// From the current state to the checkpoint.
    pub changes: Vec<ChangedPath>,
    /// Nested repositories. Checkpoints do not hold their content, so a restore does not touch them.
    pub uncovered: Vec<ChangedPath>,
}

#[derive(Debug)]
pub struct RestoreResult {
    /// Checkpoint of the state before the restore.
    pub before: CreatedCheckpoint,
    pub plan: RestorePlan,
    /// Paths that could not be restored. All others were.
    pub failed: Vec<RestoreFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFailure {
    pub path: OsString,
    pub why: String,
}

impl CheckpointRepository {
    /// Computes the changes that restoring `target` makes to the state `now`.
    pub fn plan_restore(
        &self,
        now: &Checkpoint,
        target: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<RestorePlan, CheckpointError> {
        let (before, after) =
            (self.read_remarks(now, deadline)?, self.read_remarks(target, deadline)?);
        let mut changes = self.diff(now, target, deadline)?;
        let excluded = |changed: &ChangedPath| {
            let path = self.root.join(&changed.path);
            let mut all = before.excluded.iter().chain(&after.excluded);
            all.any(|directory| path.starts_with(directory))
        };
        changes.retain(|changed| !excluded(changed));
        let is_repository =
            |side: Option<PathVersion>| side.is_some_and(|s| s.mode == TreeEntryMode::Repository);
        let (uncovered, changes) = changes
            .into_iter()
            .partition(|changed| is_repository(changed.before) || is_repository(changed.after));
        Ok(RestorePlan { changes, uncovered })
    }

    /// Checkpoints the current state, then makes the work tree equal to the checkpoint `number`.
    pub fn restore(
        &self,
        number: u32,
        now: &CheckpointSnapshot<'_>,
        deadline: &Deadline,
    ) -> Result<RestoreResult, CheckpointError> {
        let target = self.find(number, deadline)?;
        let before = self.create(now, deadline)?;
        let plan = self.plan_restore(&before.checkpoint, &target, deadline)?;
        let _lock = self.lock_shadow(deadline)?;
        let pieces: Vec<_> = plan
            .changes
            .iter()
            .filter_map(|one| Some(CheckpointFile { path: one.path.clone(), version: one.after? }))
            .collect();
        let stage = self.stage_files(&pieces, deadline)?;
        let work = RestoreWork {
            inside: ConfinedDir::open(&self.root)?,
            checked: self.check_unchanged(&plan.changes, deadline)?,
            stage,
        };
        let mut failed = Vec::new();
        let (gone, put): (Vec<_>, Vec<_>) =
            plan.changes.iter().partition(|changed| changed.after.is_none());
        // Deletions come first, because a file may replace a directory, or a directory a file.
        for changed in gone.into_iter().chain(put) {
            if let Err(why) = work.restore_path(changed) {
                failed.push(RestoreFailure { path: changed.path.clone(), why });
            }
        }
        Ok(RestoreResult { before, plan, failed })
    }

    /// Checks that every file about to be replaced still has the content in the checkpoint, and returns its metadata.
    fn check_unchanged(
        &self,
        changes: &[ChangedPath],
        deadline: &Deadline,
    ) -> Result<HashMap<OsString, Option<FileStat>>, CheckpointError> {
        let inside = ConfinedDir::open(&self.root)?;
        let mut seen = HashMap::new();
        let (mut input, mut hashed) = (Vec::new(), Vec::new());
        for changed in changes {
            let stat = inside.stat(Path::new(&changed.path))?;
            seen.insert(changed.path.clone(), stat);
            let (Some(stat), Some(before)) = (stat, changed.before) else { continue };
            let expected = match before.mode {
                TreeEntryMode::File | TreeEntryMode::Executable => FileKind::File,
                TreeEntryMode::Symlink => FileKind::Symlink,
                TreeEntryMode::Repository => FileKind::Directory,
            };
            if stat.kind != expected {
                return Err(CheckpointError::FileChanged(self.root.join(&changed.path)));
            }
            if stat.kind == FileKind::File {
                input.extend(quote_path(self.root.join(&changed.path).as_os_str().as_bytes()));
                input.push(b'\n');
                hashed.push((&changed.path, before.id));
            }
        }
        if hashed.is_empty() {
            return Ok(seen);
        }
        let call = PlumbingCommand::new(
            PlumbingContext::Shadow,
            ["hash-object", "--no-filters", "--stdin-paths"],
        );
        let output = self.run_git(&call.with_input(&input), deadline)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for (path, expected) in hashed {
            let id = ids.next().and_then(|hex| self.format.parse(hex));
            if id.ok_or_else(|| unexpected_git_output("hash-object"))? != expected {
                return Err(CheckpointError::FileChanged(self.root.join(path)));
            }
        }
        Ok(seen)
    }
}

struct RestoreWork {
    inside: ConfinedDir,
    checked: HashMap<OsString, Option<FileStat>>,
    stage: StagedCopies,
}

impl RestoreWork {
    fn restore_path(&self, changed: &ChangedPath) -> Result<(), String> {
        let path = Path::new(&changed.path);
        let stat = self.inside.stat(path).map_err(|error| faults::describe_error(&error))?;
        let is_in_the_way =
            changed.before.is_none() && stat.is_some_and(|stat| stat.kind != FileKind::Directory);
        if is_in_the_way {
            return Err("a file that is not in any checkpoint is in its place".to_owned());
        }
        let seen = self.checked.get(&changed.path).copied().flatten();
        if changed.before.is_some() && stat != seen {
            return Err("it changed during the restore".to_owned());
        }
        match changed.after.and_then(|side| put_kind(side.mode)) {
            Some(put) => self.inside.put_copy(path, &self.staged_path(&changed.path), put),
            None => self.inside.remove(path),
        }
        .map_err(|error| faults::describe_error(&error))
    }

    fn staged_path(&self, path: &OsStr) -> PathBuf {
        self.stage.staged_path(path)
    }
}
