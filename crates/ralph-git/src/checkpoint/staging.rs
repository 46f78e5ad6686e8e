//! Writes files of a checkpoint to a staging directory in the shadow, from where they are copied.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

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
    directory: PathBuf,
}

impl StagedCopies {
    pub(super) fn staged_path(&self, path: &OsStr) -> PathBuf {
        self.directory.join(path)
    }
}

impl Drop for StagedCopies {
    fn drop(&mut self) {
        // Whatever cannot be removed is removed before the next use.
        fs::remove_own_dir_tree(&self.directory).ok();
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
    /// Writes the given files to the staging directory. The caller must hold the lock.
    pub(super) fn stage_files(
        &self,
        pieces: &[CheckpointFile],
        deadline: &Deadline,
    ) -> Result<StagedCopies, CheckpointError> {
        let stage = StagedCopies { directory: self.shadow.join("stage") };
        let directory = &stage.directory;
        fs::remove_own_dir_tree(directory)?;
        fs::create_private_dir(directory)?;
        if pieces.is_empty() {
            return Ok(stage);
        }
        let index = self.new_index("stage.index")?;
        let mut input = Vec::new();
        for CheckpointFile { path, version: side } in pieces {
            input.extend(index_info_record(mode_digits(side.mode), &self.hex(&side.id), path));
        }
        let feed =
            PlumbingCommand::new(PlumbingContext::Shadow, ["update-index", "-z", "--index-info"]);
        self.run_git(&feed.with_index(&index).with_input(&input), deadline)?;
        let out = ["checkout-index", "--all", "--force", "--quiet"];
        let out = PlumbingCommand::new(PlumbingContext::Shadow, out);
        self.run_git(&out.with_index(&index).with_work_tree(directory), deadline)?;
        fs::remove_file(&index)?;
        self.verify_copies(pieces, directory, deadline)?;
        Ok(stage)
    }

    /// All files of a checkpoint.
    pub fn checkpoint_files(
        &self,
        of: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<CheckpointFile>, CheckpointError> {
        self.tree_files(PlumbingContext::Shadow, &of.tree, deadline)
    }

    /// All files of a tree.
    pub(super) fn tree_files(
        &self,
        at: PlumbingContext,
        tree: &ObjectId,
        deadline: &Deadline,
    ) -> Result<Vec<CheckpointFile>, CheckpointError> {
        let hex = self.hex(tree);
        let call = PlumbingCommand::new(at, ["ls-tree", "-r", "-t", "-z", "--full-tree", &hex]);
        let listed = self.run_git(&call, deadline)?;
        let records = listed.split(|byte| *byte == 0);
        let (mut files, mut trees) = (Vec::new(), vec![*tree]);
        for record in records {
            match directory_id(self.format, record) {
                Some(id) => trees.push(id),
                None => files.extend(self.parse_tree_record(record)),
            }
        }
        self.verify_trees(at, trees, deadline)?;
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
