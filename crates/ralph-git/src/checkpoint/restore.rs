//! Restores the work tree to a checkpoint. The current state is checkpointed first, and only files that are in that
//! checkpoint are changed or removed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::diff::{Changed, Side, Status};
use super::make::{Made, Snapshot};
use super::materialise::{Piece, Stage, put_for};
use super::message::Remarks;
use super::objects::{At, Call, odd, quoted};
use super::{Checkpoint, CheckpointError, Repository};
use crate::tree::Mode;
use ralph_home::faults;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{Inside, Kind, Stat};

/// The changes that a restore makes, or would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From the current state to the checkpoint.
    pub changes: Vec<Changed>,
    /// Nested repositories. Checkpoints do not hold their content, so a restore does not touch them.
    pub uncovered: Vec<Changed>,
}

#[derive(Debug)]
pub struct Restored {
    /// Checkpoint of the state before the restore.
    pub before: Made,
    pub plan: Plan,
    /// Paths that could not be restored. All others were.
    pub failed: Vec<Failed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub path: OsString,
    pub why: String,
}

impl Repository {
    /// Computes the changes that restoring `target` makes to the state `now`.
    pub fn plan(
        &self,
        now: &Checkpoint,
        target: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Plan, CheckpointError> {
        let (before, after) = (self.remarks(now, deadline)?, self.remarks(target, deadline)?);
        let between = Between { now, target, before: &before, after: &after };
        let mut changes = self.diff(now, target, deadline)?;
        changes.extend(self.filtered_anew(&changes, &between, deadline)?);
        let excluded = |changed: &Changed| {
            let path = self.root.join(&changed.path);
            let mut all = before.excluded.iter().chain(&after.excluded);
            all.any(|directory| path.starts_with(directory))
        };
        changes.retain(|changed| !excluded(changed));
        let is_repository = |side: Option<Side>| side.is_some_and(|s| s.mode == Mode::Repository);
        let (uncovered, changes) = changes
            .into_iter()
            .partition(|changed| is_repository(changed.before) || is_repository(changed.after));
        Ok(Plan { changes, uncovered })
    }

    /// Files that git considers equal, but that are stored filtered in only one of the checkpoints.
    fn filtered_anew(
        &self,
        known: &[Changed],
        between: &Between<'_>,
        deadline: &Deadline,
    ) -> Result<Vec<Changed>, CheckpointError> {
        let (before, after) = (&between.before.filtered, &between.after.filtered);
        let differ: Vec<_> = before.symmetric_difference(after).collect();
        if differ.is_empty() {
            return Ok(Vec::new());
        }
        let sides = |of| -> Result<HashMap<OsString, Side>, CheckpointError> {
            let pieces = self.pieces(of, deadline)?;
            Ok(pieces.into_iter().map(|piece| (piece.path, piece.side)).collect())
        };
        let (before, after) = (sides(between.now)?, sides(between.target)?);
        let unknown = differ.into_iter().filter(|path| !known.iter().any(|one| one.path == **path));
        Ok(unknown
            .filter_map(|path| {
                let (before, after) = (before.get(path).copied(), after.get(path).copied());
                before.and(after)?;
                let (path, status) = (path.clone(), Status::Modified);
                Some(Changed { path, status, before, after })
            })
            .collect())
    }

    /// Checkpoints the current state, then makes the work tree equal to the checkpoint `number`.
    pub fn restore(
        &self,
        number: u32,
        now: &Snapshot<'_>,
        deadline: &Deadline,
    ) -> Result<Restored, CheckpointError> {
        let target = self.find(number, deadline)?;
        let before = self.make(now, deadline)?;
        let plan = self.plan(&before.checkpoint, &target, deadline)?;
        let _lock = self.lock(deadline)?;
        let filtered = self.remarks(&target, deadline)?.filtered;
        let pieces: Vec<_> = plan
            .changes
            .iter()
            .filter_map(|one| Some(Piece { path: one.path.clone(), side: one.after? }))
            .collect();
        let stage = self.materialise(&pieces, (&target, &filtered), deadline)?;
        let work = Work {
            inside: Inside::open(&self.root)?,
            seen: self.unchanged(&before.checkpoint, &plan.changes, deadline)?,
            stage,
        };
        let mut failed = Vec::new();
        let (gone, put): (Vec<_>, Vec<_>) =
            plan.changes.iter().partition(|changed| changed.after.is_none());
        // Deletions come first, because a file may replace a directory, or a directory a file.
        for changed in gone.into_iter().chain(put) {
            if let Err(why) = work.bring_back(changed) {
                failed.push(Failed { path: changed.path.clone(), why });
            }
        }
        Ok(Restored { before, plan, failed })
    }

    /// Checks that every file about to be replaced still has the content in the checkpoint, and returns its metadata.
    fn unchanged(
        &self,
        now: &Checkpoint,
        changes: &[Changed],
        deadline: &Deadline,
    ) -> Result<HashMap<OsString, Option<Stat>>, CheckpointError> {
        let inside = Inside::open(&self.root)?;
        let filtered = self.remarks(now, deadline)?.filtered;
        let mut seen = HashMap::new();
        let (mut input, mut hashed) = (Vec::new(), Vec::new());
        for changed in changes {
            let stat = inside.stat(Path::new(&changed.path))?;
            seen.insert(changed.path.clone(), stat);
            let (Some(stat), Some(before)) = (stat, changed.before) else { continue };
            let expected = match before.mode {
                Mode::File | Mode::Executable => Kind::File,
                Mode::Symlink => Kind::Symlink,
                Mode::Repository => Kind::Directory,
            };
            if stat.kind != expected {
                return Err(CheckpointError::Changed(self.root.join(&changed.path)));
            }
            if stat.kind == Kind::File && !filtered.contains(&changed.path) {
                input.extend(quoted(self.root.join(&changed.path).as_os_str().as_bytes()));
                input.push(b'\n');
                hashed.push((&changed.path, before.id));
            }
        }
        if hashed.is_empty() {
            return Ok(seen);
        }
        let call = Call::new(At::Shadow, ["hash-object", "--no-filters", "--stdin-paths"]);
        let output = self.git(&call.reading(&input), deadline)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for (path, expected) in hashed {
            let id = ids.next().and_then(|hex| self.format.parse(hex));
            if id.ok_or_else(|| odd("hash-object"))? != expected {
                return Err(CheckpointError::Changed(self.root.join(path)));
            }
        }
        Ok(seen)
    }
}

/// Two checkpoints and their remarks.
struct Between<'a> {
    now: &'a Checkpoint,
    target: &'a Checkpoint,
    before: &'a Remarks,
    after: &'a Remarks,
}

struct Work {
    inside: Inside,
    seen: HashMap<OsString, Option<Stat>>,
    stage: Stage,
}

impl Work {
    fn bring_back(&self, changed: &Changed) -> Result<(), String> {
        let path = Path::new(&changed.path);
        let stat = self.inside.stat(path).map_err(|error| faults::describe(&error))?;
        let is_in_the_way =
            changed.before.is_none() && stat.is_some_and(|stat| stat.kind != Kind::Directory);
        if is_in_the_way {
            return Err("a file that is not in any checkpoint is in its place".to_owned());
        }
        let seen = self.seen.get(&changed.path).copied().flatten();
        if changed.before.is_some() && stat != seen {
            return Err("it changed during the restore".to_owned());
        }
        match changed.after.and_then(|side| put_for(side.mode)) {
            Some(put) => self.inside.put(path, &self.original(&changed.path), put),
            None => self.inside.remove(path),
        }
        .map_err(|error| faults::describe(&error))
    }

    fn original(&self, path: &OsStr) -> PathBuf {
        self.stage.original(path)
    }
}
