//! Writes files of a checkpoint to a staging directory in the shadow, from where they are copied.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::diff::PathVersion;
use super::plumbing::{
    PlumbingCommand, PlumbingContext, index_info_record, mode_digits, mode_from_digits,
    remove_index_lock,
};
use super::{Checkpoint, CheckpointError, CheckpointRepository};
use crate::object_batch::directory_id;
use crate::tree::{ObjectId, TreeEntryMode};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, CopyKind, FileError};

/// One file of a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointFile {
    pub path: OsString,
    pub version: PathVersion,
}

/// Staged copies of a checkpoint's files. Dropping it removes them.
pub(super) struct StagedCopies {
    raw: PathBuf,
    smudged: PathBuf,
    filtered: BTreeSet<OsString>,
}

impl StagedCopies {
    pub(super) fn staged_path(&self, path: &OsStr) -> PathBuf {
        let directory = if self.filtered.contains(path) { &self.smudged } else { &self.raw };
        directory.join(path)
    }
}

impl Drop for StagedCopies {
    fn drop(&mut self) {
        // Whatever cannot be removed is removed before the next use.
        fs::remove_own_dir_tree(&self.raw).ok();
        fs::remove_own_dir_tree(&self.smudged).ok();
    }
}

pub(super) fn put_kind(mode: TreeEntryMode) -> Option<CopyKind> {
    match mode {
        TreeEntryMode::File => Some(CopyKind::File),
        TreeEntryMode::Executable => Some(CopyKind::Executable),
        TreeEntryMode::Symlink => Some(CopyKind::Symlink),
        TreeEntryMode::Repository => None,
    }
}

impl CheckpointRepository {
    /// Writes the given files to the staging directory. The caller must hold the lock. `filtered` are the filtered
    /// files of the checkpoint `of`.
    pub(super) fn stage_files(
        &self,
        pieces: &[CheckpointFile],
        of: &Checkpoint,
        filtered: &BTreeSet<OsString>,
        deadline: &Deadline,
    ) -> Result<StagedCopies, CheckpointError> {
        let (raw, smudged) = (self.shadow.join("stage"), self.shadow.join("smudged"));
        for directory in [&raw, &smudged] {
            fs::remove_own_dir_tree(directory)?;
            fs::create_private_dir(directory)?;
        }
        let stage = StagedCopies { raw, smudged, filtered: filtered.clone() };
        let (special, plain): (Vec<_>, Vec<_>) =
            pieces.iter().cloned().partition(|piece| filtered.contains(&piece.path));
        self.write_files(&plain, PlumbingContext::Shadow, &stage.raw, deadline)?;
        self.confirm_copies(&plain, &stage.raw, deadline)?;
        if !special.is_empty() {
            // Git finds the filter through the checkpoint's own attribute files.
            let mut needed = self.attribute_files(of, deadline)?;
            needed.extend(special);
            self.write_files(&needed, PlumbingContext::Project, &stage.smudged, deadline)?;
        }
        Ok(stage)
    }

    fn write_files(
        &self,
        pieces: &[CheckpointFile],
        at: PlumbingContext,
        directory: &Path,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let index = self.new_index("stage.index")?;
        let mut input = Vec::new();
        for CheckpointFile { path, version: side } in pieces {
            input.extend(index_info_record(mode_digits(side.mode), &self.hex(&side.id), path));
        }
        let feed =
            PlumbingCommand::new(PlumbingContext::Shadow, ["update-index", "-z", "--index-info"]);
        self.run_git(&feed.with_index(&index).with_input(&input), deadline)?;
        let out = PlumbingCommand::new(at, ["checkout-index", "--all", "--force", "--quiet"]);
        self.run_git(&out.with_index(&index).with_work_tree(directory), deadline)?;
        Ok(fs::remove_file(&index)?)
    }

    fn attribute_files(
        &self,
        of: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<CheckpointFile>, CheckpointError> {
        let mut pieces = self.checkpoint_files(of, deadline)?;
        pieces.retain(|piece| Path::new(&piece.path).ends_with(".gitattributes"));
        Ok(pieces)
    }

    /// All files of a checkpoint.
    pub fn checkpoint_files(
        &self,
        of: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<CheckpointFile>, CheckpointError> {
        let tree = self.hex(&of.tree);
        let call = PlumbingCommand::new(
            PlumbingContext::Shadow,
            ["ls-tree", "-r", "-t", "-z", "--full-tree", &tree],
        );
        let listed = self.run_git(&call, deadline)?;
        let records = listed.split(|byte| *byte == 0);
        let (mut files, mut trees) = (Vec::new(), vec![of.tree]);
        for record in records {
            match directory_id(self.format, record) {
                Some(id) => trees.push(id),
                None => files.extend(self.parse_tree_record(record)),
            }
        }
        self.verify_trees(trees, deadline)?;
        Ok(files)
    }

    /// Parses `100644 blob <id><tab><path>`.
    fn parse_tree_record(&self, record: &[u8]) -> Option<CheckpointFile> {
        let tab = memchr::memchr(b'\t', record)?;
        let mut fields = record.get(..tab)?.split(|byte| *byte == b' ');
        let mode = mode_from_digits(fields.next()?)?;
        let id: ObjectId = self.format.parse(fields.nth(1)?)?;
        let path = OsStr::from_bytes(record.get(tab + 1..)?).to_owned();
        Some(CheckpointFile { path, version: PathVersion { mode, id } })
    }

    /// The path of a new index file in the shadow. An old one is removed.
    pub(super) fn new_index(&self, name: &str) -> Result<PathBuf, FileError> {
        let index = self.shadow.join(name);
        remove_index_lock(&index)?;
        fs::remove_file(&index)?;
        Ok(index)
    }
}
