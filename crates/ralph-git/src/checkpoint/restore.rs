//! The work tree as it was. Only files that are in a checkpoint made a moment ago are changed or removed.

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

/// What a restore does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From what is to what will be.
    pub changes: Vec<Changed>,
    /// Repositories inside this one: their content is not in a checkpoint, and they are left as they are.
    pub uncovered: Vec<Changed>,
}

#[derive(Debug)]
pub struct Restored {
    /// How it was before.
    pub before: Made,
    pub plan: Plan,
    /// What could not be brought back; everything else was.
    pub failed: Vec<Failed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub path: OsString,
    pub why: String,
}

impl Repository {
    /// What lies between two checkpoints for a restore of the second.
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

    /// Files that are the same to git, and on disk are filtered in one and not in the other.
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

    /// Checkpoints what is there, then makes the work tree equal to the checkpoint `number`.
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
        // A directory may have to go before a file can take its place, and a file before a directory.
        for changed in gone.into_iter().chain(put) {
            if let Err(why) = work.bring_back(changed) {
                failed.push(Failed { path: changed.path.clone(), why });
            }
        }
        Ok(Restored { before, plan, failed })
    }

    /// How each file looks that is about to go, once its bytes are known to be those in the checkpoint.
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
        let told = self.git(&call.reading(&input), deadline)?;
        let mut ids = told.split(|byte| *byte == b'\n');
        for (path, expected) in hashed {
            let id = ids.next().and_then(|hex| self.format.parse(hex));
            if id.ok_or_else(|| odd("hash-object"))? != expected {
                return Err(CheckpointError::Changed(self.root.join(path)));
            }
        }
        Ok(seen)
    }
}

/// Two checkpoints and what they say about themselves.
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
            return Err("something that is in no checkpoint is in its place".to_owned());
        }
        let seen = self.seen.get(&changed.path).copied().flatten();
        if changed.before.is_some() && stat != seen {
            return Err("it was changed just now".to_owned());
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
