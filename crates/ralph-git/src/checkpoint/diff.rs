//! Differences between two checkpoints: by path, by number of lines, and as a patch.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use super::plumbing::{PlumbingCommand, PlumbingContext, mode_from_digits, unexpected_git_output};
use super::{Checkpoint, CheckpointError, CheckpointRepository};
use crate::tree::{ObjectId, TreeEntryMode};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// The mode of a directory, as git prints it.
const DIRECTORY_DIGITS: &[u8] = b"040000";

/// A path that differs between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPath {
    pub path: OsString,
    pub status: ChangeStatus,
    pub before: Option<PathVersion>,
    pub after: Option<PathVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStatus {
    Added,
    Deleted,
    /// The content or the executable bit changed.
    Modified,
    /// A file became a link or a repository, or vice versa.
    TypeChanged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathVersion {
    pub mode: TreeEntryMode,
    pub id: ObjectId,
}

/// Added and removed lines of a file; `None` if the file is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCounts {
    pub path: OsString,
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// A patch for display. Its bytes are untrusted: clean them before printing them to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPatch {
    pub bytes: Vec<u8>,
    pub truncated: bool,
}

impl CheckpointRepository {
    pub fn diff(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<ChangedPath>, CheckpointError> {
        let output =
            self.run_diff_tree(before, after, &["--raw", "--no-abbrev", "-t", "-z"], deadline)?;
        let mut fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut found = Vec::new();
        // Of these trees git has compared the content. A wrong one could hide a change.
        let mut trees = vec![before.tree, after.tree];
        while let Some(meta) = fields.next() {
            let unexpected = || unexpected_git_output("diff-tree");
            let path = fields.next().ok_or_else(unexpected)?;
            match self.parse_changed_trees(meta) {
                Some(changed) => trees.extend(changed),
                None => found.push(self.parse_changed_path(meta, path).ok_or_else(unexpected)?),
            }
        }
        if before.tree != after.tree {
            self.verify_trees(PlumbingContext::Shadow, trees, deadline)?;
        }
        if let Some(forged) = found.iter().find(|changed| !fs::is_safe_tree_path(&changed.path)) {
            let path = ralph_core::text::clean_line(&forged.path.to_string_lossy(), 200);
            return Err(CheckpointError::InvalidPath { number: after.number, path });
        }
        Ok(found)
    }

    /// Parses `:040000 040000 <id> <id> M`, or one side of it. `None` if it is not about directories.
    fn parse_changed_trees(&self, meta: &[u8]) -> Option<Vec<ObjectId>> {
        let fields: Vec<_> = meta.strip_prefix(b":")?.split(|byte| *byte == b' ').collect();
        let [before, after, old, new, _] = *fields else { return None };
        let sides = [(before, old), (after, new)].into_iter();
        let ids = sides.filter(|(mode, _)| *mode == DIRECTORY_DIGITS);
        let ids: Vec<_> = ids.map(|(_, id)| self.format.parse(id)).collect::<Option<_>>()?;
        (!ids.is_empty()).then_some(ids)
    }

    /// Parses `:100644 100755 <id> <id> M`.
    fn parse_changed_path(&self, meta: &[u8], path: &[u8]) -> Option<ChangedPath> {
        let mut fields = meta.strip_prefix(b":")?.split(|byte| *byte == b' ');
        let (before, after) = (mode_from_digits(fields.next()?), mode_from_digits(fields.next()?));
        let (old, new) = (self.format.parse(fields.next()?)?, self.format.parse(fields.next()?)?);
        let status = match fields.next()?.first()? {
            b'A' => ChangeStatus::Added,
            b'D' => ChangeStatus::Deleted,
            b'M' => ChangeStatus::Modified,
            b'T' => ChangeStatus::TypeChanged,
            _ => return None,
        };
        let before = before.map(|mode| PathVersion { mode, id: old });
        let after = after.map(|mode| PathVersion { mode, id: new });
        Some(ChangedPath { path: OsString::from_vec(path.to_vec()), status, before, after })
    }

    pub fn line_counts(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<LineCounts>, CheckpointError> {
        self.verify_changed_blobs(&self.diff(before, after, deadline)?, deadline)?;
        let output = self.run_diff_tree(before, after, &["--numstat", "-z"], deadline)?;
        let records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        let number = |field: Option<&[u8]>| std::str::from_utf8(field?).ok()?.parse().ok();
        let parse = |record: &[u8]| {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let (added, removed) = (number(fields.next()), number(fields.next()));
            let path = OsString::from_vec(fields.next()?.to_vec());
            Some(LineCounts { path, added, removed })
        };
        records
            .map(|record| parse(record).ok_or_else(|| unexpected_git_output("diff-tree")))
            .collect()
    }

    /// The patch between two checkpoints, truncated to `most` bytes.
    pub fn patch(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        most: usize,
        deadline: &Deadline,
    ) -> Result<CheckpointPatch, CheckpointError> {
        self.run_patch(before, after, &["--patch", "--no-color"], most, deadline)
    }

    /// Like [`Self::patch`], but git treats every file as text: neither an attribute nor a byte decides what is shown.
    pub fn text_patch(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        most: usize,
        deadline: &Deadline,
    ) -> Result<CheckpointPatch, CheckpointError> {
        self.run_patch(before, after, &["--patch", "--no-color", "--text"], most, deadline)
    }

    fn run_patch(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        options: &[&'static str],
        most: usize,
        deadline: &Deadline,
    ) -> Result<CheckpointPatch, CheckpointError> {
        self.verify_changed_blobs(&self.diff(before, after, deadline)?, deadline)?;
        let mut call = self.diff_tree_command(before, after, options);
        call.max_output = most;
        let output = self.run_git_truncated(&call, deadline)?;
        Ok(CheckpointPatch { bytes: output.stdout, truncated: output.truncated })
    }

    fn run_diff_tree(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        options: &[&'static str],
        deadline: &Deadline,
    ) -> Result<Vec<u8>, CheckpointError> {
        self.run_git(&self.diff_tree_command(before, after, options), deadline)
    }

    fn diff_tree_command(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        options: &[&'static str],
    ) -> PlumbingCommand<'static> {
        let fixed = ["diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let mut call = PlumbingCommand::new(PlumbingContext::Shadow, fixed);
        call.arguments.extend(options.iter().map(|option| OsStr::new(*option).into()));
        let trees = [&before.tree, &after.tree].map(|tree| OsString::from(self.hex(tree)));
        call.arguments.extend(trees.map(Into::into));
        call
    }
}
