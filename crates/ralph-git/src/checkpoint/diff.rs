//! Differences between two checkpoints: by path, by number of lines, and as a patch.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use super::objects::{At, Call, Cut, mode_named, odd};
use super::{Checkpoint, CheckpointError, Repository};
use crate::tree::{Mode, ObjectId};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// A path that differs between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: OsString,
    pub status: Status,
    pub before: Option<Side>,
    pub after: Option<Side>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Added,
    Deleted,
    /// The content or the executable bit changed.
    Modified,
    /// A file became a link or a repository, or vice versa.
    TypeChanged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub mode: Mode,
    pub id: ObjectId,
}

/// Added and removed lines of a file; `None` if the file is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    pub path: OsString,
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// A patch for display. Its bytes are untrusted: clean them before printing them to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub bytes: Vec<u8>,
    pub cut: Cut,
}

impl Repository {
    pub fn diff(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<Changed>, CheckpointError> {
        let output = self.compare((before, after), &["--raw", "--no-abbrev", "-z"], deadline)?;
        let mut fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut found = Vec::new();
        while let Some(meta) = fields.next() {
            let changed = fields.next().and_then(|path| self.changed(meta, path));
            found.push(changed.ok_or_else(|| odd("diff-tree"))?);
        }
        if let Some(forged) = found.iter().find(|changed| !fs::is_plain(&changed.path)) {
            let path = ralph_core::text::line(&forged.path.to_string_lossy(), 200);
            return Err(CheckpointError::Forged { number: after.number, path });
        }
        Ok(found)
    }

    /// Parses `:100644 100755 <id> <id> M`.
    fn changed(&self, meta: &[u8], path: &[u8]) -> Option<Changed> {
        let mut fields = meta.strip_prefix(b":")?.split(|byte| *byte == b' ');
        let (before, after) = (mode_named(fields.next()?), mode_named(fields.next()?));
        let (old, new) = (self.format.parse(fields.next()?)?, self.format.parse(fields.next()?)?);
        let status = match fields.next()?.first()? {
            b'A' => Status::Added,
            b'D' => Status::Deleted,
            b'M' => Status::Modified,
            b'T' => Status::TypeChanged,
            _ => return None,
        };
        let before = before.map(|mode| Side { mode, id: old });
        let after = after.map(|mode| Side { mode, id: new });
        Some(Changed { path: OsString::from_vec(path.to_vec()), status, before, after })
    }

    pub fn lines(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Vec<Lines>, CheckpointError> {
        let output = self.compare((before, after), &["--numstat", "-z"], deadline)?;
        let records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        let number = |field: Option<&[u8]>| std::str::from_utf8(field?).ok()?.parse().ok();
        let parse = |record: &[u8]| {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let (added, removed) = (number(fields.next()), number(fields.next()));
            let path = OsString::from_vec(fields.next()?.to_vec());
            Some(Lines { path, added, removed })
        };
        records.map(|record| parse(record).ok_or_else(|| odd("diff-tree"))).collect()
    }

    /// The patch between two checkpoints, truncated to `most` bytes.
    pub fn patch(
        &self,
        between: (&Checkpoint, &Checkpoint),
        most: usize,
        deadline: &Deadline,
    ) -> Result<Patch, CheckpointError> {
        let mut call = self.comparison(between, &["--patch", "--no-color"]);
        call.keep = most;
        let (bytes, cut) = self.git_cut(&call, deadline)?;
        Ok(Patch { bytes, cut })
    }

    fn compare(
        &self,
        between: (&Checkpoint, &Checkpoint),
        options: &[&'static str],
        deadline: &Deadline,
    ) -> Result<Vec<u8>, CheckpointError> {
        self.git(&self.comparison(between, options), deadline)
    }

    fn comparison(
        &self,
        (before, after): (&Checkpoint, &Checkpoint),
        options: &[&'static str],
    ) -> Call<'static> {
        let fixed = ["diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let mut call = Call::new(At::Shadow, fixed);
        call.arguments.extend(options.iter().map(|option| OsStr::new(*option).into()));
        let trees = [&before.tree, &after.tree].map(|tree| OsString::from(self.hex(tree)));
        call.arguments.extend(trees.map(Into::into));
        call
    }
}
