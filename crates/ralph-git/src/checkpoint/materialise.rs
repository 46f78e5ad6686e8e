//! Writes files of a checkpoint to a staging directory in the shadow, from where they are copied.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::diff::Side;
use super::objects::{At, Call, index_line, mode_digits, mode_named, unlock};
use super::{Checkpoint, CheckpointError, Repository};
use crate::tree::{Mode, ObjectId};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, Put};

/// One file of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub path: OsString,
    pub side: Side,
}

/// Staged copies of a checkpoint's files. Dropping it removes them.
pub(super) struct Stage {
    raw: PathBuf,
    smudged: PathBuf,
    filtered: BTreeSet<OsString>,
}

impl Stage {
    pub(super) fn original(&self, path: &OsStr) -> PathBuf {
        let directory = if self.filtered.contains(path) { &self.smudged } else { &self.raw };
        directory.join(path)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Whatever cannot be removed is removed before the next use.
        fs::remove_made_dir(&self.raw).ok();
        fs::remove_made_dir(&self.smudged).ok();
    }
}

pub(super) fn put_for(mode: Mode) -> Option<Put> {
    match mode {
        Mode::File => Some(Put::File),
        Mode::Executable => Some(Put::Executable),
        Mode::Symlink => Some(Put::Symlink),
        Mode::Repository => None,
    }
}

impl Repository {
    /// Writes the given files to the staging directory. The caller must hold the lock. `filtered` are the filtered
    /// files of the checkpoint `of`.
    pub(super) fn materialise(
        &self,
        pieces: &[Piece],
        (of, filtered): (&Checkpoint, &BTreeSet<OsString>),
        deadline: &Deadline,
    ) -> Result<Stage, CheckpointError> {
        let (raw, smudged) = (self.shadow.join("stage"), self.shadow.join("smudged"));
        for directory in [&raw, &smudged] {
            fs::remove_made_dir(directory)?;
            fs::create_dir(directory)?;
        }
        let stage = Stage { raw, smudged, filtered: filtered.clone() };
        let (special, plain): (Vec<_>, Vec<_>) =
            pieces.iter().cloned().partition(|piece| filtered.contains(&piece.path));
        self.write_out(&plain, (At::Shadow, &stage.raw), deadline)?;
        if !special.is_empty() {
            // Git finds the filter through the checkpoint's own attribute files.
            let mut needed = self.attribute_files(of, deadline)?;
            needed.extend(special);
            self.write_out(&needed, (At::Project, &stage.smudged), deadline)?;
        }
        Ok(stage)
    }

    fn write_out(
        &self,
        pieces: &[Piece],
        (at, directory): (At, &Path),
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let index = self.fresh_index("stage.index")?;
        let mut input = Vec::new();
        for Piece { path, side } in pieces {
            input.extend(index_line(mode_digits(side.mode), &self.hex(&side.id), path));
        }
        let feed = Call::new(At::Shadow, ["update-index", "-z", "--index-info"]);
        self.git(&feed.on_index(&index).reading(&input), deadline)?;
        let out = Call::new(at, ["checkout-index", "--all", "--force", "--quiet"]);
        self.git(&out.on_index(&index).in_work_tree(directory), deadline)?;
        Ok(fs::remove_file(&index)?)
    }

    fn attribute_files(
        &self,
        of: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<Piece>, CheckpointError> {
        let mut pieces = self.pieces(of, deadline)?;
        pieces.retain(|piece| Path::new(&piece.path).ends_with(".gitattributes"));
        Ok(pieces)
    }

    /// All files of a checkpoint.
    pub(super) fn pieces(
        &self,
        of: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<Piece>, CheckpointError> {
        let tree = self.hex(&of.tree);
        let call = Call::new(At::Shadow, ["ls-tree", "-r", "-z", "--full-tree", &tree]);
        let listed = self.git(&call, deadline)?;
        let records = listed.split(|byte| *byte == 0);
        Ok(records.filter_map(|record| self.in_tree(record)).collect())
    }

    /// Parses `100644 blob <id><tab><path>`.
    fn in_tree(&self, record: &[u8]) -> Option<Piece> {
        let tab = memchr::memchr(b'\t', record)?;
        let mut fields = record.get(..tab)?.split(|byte| *byte == b' ');
        let mode = mode_named(fields.next()?)?;
        let id: ObjectId = self.format.parse(fields.nth(1)?)?;
        let path = OsStr::from_bytes(record.get(tab + 1..)?).to_owned();
        Some(Piece { path, side: Side { mode, id } })
    }

    /// The path of a new index file in the shadow. An old one is removed.
    pub(super) fn fresh_index(&self, name: &str) -> Result<PathBuf, FileError> {
        let index = self.shadow.join(name);
        unlock(&index)?;
        fs::remove_file(&index)?;
        Ok(index)
    }
}
