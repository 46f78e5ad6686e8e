//! Commits, trees and checkouts whose content is compared with its ids, because an agent can write git's objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plumbing::{PlumbingCommand, PlumbingContext, quote_path, unexpected_git_output};
use super::{
    ChangedPath, Checkpoint, CheckpointError, CheckpointFile, CheckpointRepository, PathVersion,
};
use crate::object_batch::{
    BATCH_COMMAND, MAX_COMMIT_BYTES, batch_input, check_trees, parse_batch, tree_of_commit,
};
use crate::tree::{self, ObjectId, TreeEntryMode, WorkTreeListing, hash_object};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};

/// Blobs are read in batches of about this size.
const BLOB_BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// The objects that were already verified, so that a stop reads each of them once.
#[derive(Clone, Debug, Default)]
pub(super) struct VerifiedObjects(Arc<Mutex<VerifiedIds>>);

#[derive(Debug, Default)]
struct VerifiedIds {
    trees: BTreeSet<ObjectId>,
    /// Commits with their trees.
    commits: BTreeSet<(ObjectId, ObjectId)>,
}

impl VerifiedObjects {
    fn lock(&self) -> MutexGuard<'_, VerifiedIds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointRepository {
    /// The content of a commit.
    pub(super) fn read_commit(
        &self,
        id: &ObjectId,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, CheckpointError> {
        let input = batch_input(self.format, [id]);
        let mut call =
            PlumbingCommand::new(PlumbingContext::Shadow, BATCH_COMMAND).with_input(&input);
        call.max_output = MAX_COMMIT_BYTES;
        let output = self.run_git(&call, deadline)?;
        let objects = parse_batch(self.format, &output)?;
        let commit = objects.first().filter(|object| object.kind == "commit");
        commit
            .map(|object| object.content.to_vec())
            .ok_or_else(|| CheckpointError::CommitMissing(self.hex(id)))
    }

    /// Fails if the commit of a checkpoint has another tree.
    pub fn verify_commit(
        &self,
        checkpoint: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let both = (checkpoint.commit, checkpoint.tree);
        if self.verified.lock().commits.contains(&both) {
            return Ok(());
        }
        let content = self.read_commit(&checkpoint.commit, deadline)?;
        if tree_of_commit(self.format, &content) != Some(checkpoint.tree) {
            return Err(CheckpointError::Replaced { number: checkpoint.number });
        }
        self.verified.lock().commits.insert(both);
        Ok(())
    }

    /// Fails if the content of one of the trees does not have its id.
    pub(super) fn verify_trees(
        &self,
        at: PlumbingContext,
        ids: impl IntoIterator<Item = ObjectId>,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let mut unverified: BTreeSet<_> = ids.into_iter().collect();
        {
            let known = self.verified.lock();
            unverified.retain(|id| !known.trees.contains(id));
        }
        if unverified.is_empty() {
            return Ok(());
        }
        let input = batch_input(self.format, &unverified);
        let call = PlumbingCommand::new(at, BATCH_COMMAND).with_input(&input);
        let output = self.run_git(&call, deadline)?;
        check_trees(self.format, &output, unverified.len())?;
        self.verified.lock().trees.extend(unverified);
        Ok(())
    }

    /// Fails if the content of one of the changed files does not have its id.
    pub(super) fn verify_changed_blobs(
        &self,
        changed: &[ChangedPath],
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let versions = changed.iter().flat_map(|one| [one.before, one.after]).flatten();
        let files = versions.filter(|side| side.mode != TreeEntryMode::Repository);
        let ids: Vec<_> = files.map(|side| side.id).collect();
        let sizes: Vec<_> = self.blob_sizes(&ids, deadline)?.into_iter().collect();
        let mut from = 0;
        while from < sizes.len() {
            let (mut to, mut bytes) = (from, 0);
            while to < sizes.len() && (to == from || bytes + sizes[to].1 <= BLOB_BATCH_BYTES) {
                bytes += sizes[to].1;
                to += 1;
            }
            let input = batch_input(self.format, sizes[from..to].iter().map(|(id, _)| id));
            let call =
                PlumbingCommand::new(PlumbingContext::Shadow, BATCH_COMMAND).with_input(&input);
            parse_batch(self.format, &self.run_git(&call, deadline)?)?;
            from = to;
        }
        Ok(())
    }

    /// The files of a checkpoint with some changes.
    pub(super) fn files_with_changes(
        &self,
        checkpoint: &Checkpoint,
        changes: &[ChangedPath],
        deadline: &Deadline,
    ) -> Result<BTreeMap<OsString, PathVersion>, CheckpointError> {
        let files = self.checkpoint_files(checkpoint, deadline)?;
        let mut files: BTreeMap<_, _> =
            files.into_iter().map(|CheckpointFile { path, version }| (path, version)).collect();
        for changed in changes.iter().filter(|changed| changed.after.is_none()) {
            files.remove(&changed.path);
        }
        for changed in changes {
            if let Some(after) = changed.after {
                // A file that takes the place of a directory, or the other way round.
                remove_conflicts(&mut files, &changed.path);
                files.insert(changed.path.clone(), after);
            }
        }
        Ok(files)
    }

    /// Fails if a tree is not that of these files.
    pub(super) fn verify_tree_of_files(
        &self,
        tree: &ObjectId,
        files: &BTreeMap<OsString, PathVersion>,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        // The composed tree is in the shadow only.
        let found = self.tree_files(PlumbingContext::ShadowOnly, tree, deadline)?;
        let is_same = found.len() == files.len()
            && found.iter().all(|file| files.get(&file.path) == Some(&file.version));
        if is_same { Ok(()) } else { Err(self.wrong_content(tree)) }
    }

    /// Fails if a checkout does not have exactly these files.
    pub(super) fn verify_checkout(
        &self,
        listing: &WorkTreeListing,
        mut files: BTreeMap<OsString, PathVersion>,
        tree: &ObjectId,
    ) -> Result<(), CheckpointError> {
        let is_file = |mode| mode != TreeEntryMode::Repository;
        for entry in listing.entries.iter().filter(|entry| is_file(entry.mode)) {
            let is_same = match files.remove(&entry.path) {
                Some(version) if version.id != entry.id => {
                    return Err(self.wrong_content(&version.id));
                }
                Some(version) => version.mode == entry.mode,
                None => false,
            };
            if !is_same {
                return Err(self.wrong_content(tree));
            }
        }
        // No listing has the host's local settings.
        files.retain(|path, version| {
            is_file(version.mode) && !tree::is_local_settings(Path::new(path), Path::new(""))
        });
        if files.is_empty() { Ok(()) } else { Err(self.wrong_content(tree)) }
    }

    /// Fails if a file in `directory` does not have the id of its version.
    pub(super) fn verify_copies(
        &self,
        pieces: &[CheckpointFile],
        directory: &Path,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let mut input = Vec::new();
        let mut hashed = Vec::new();
        for CheckpointFile { path, version } in pieces {
            let copy = directory.join(path);
            match fs::stat_no_follow(&copy).map(|stat| stat.kind) {
                Some(FileKind::File) => {
                    input.extend(quote_path(copy.as_os_str().as_bytes()));
                    input.push(b'\n');
                    hashed.push(version.id);
                }
                Some(FileKind::Symlink) => {
                    let target = fs::read_link(&copy)?;
                    let target = target.as_os_str().as_bytes();
                    if hash_object(self.format, "blob", target) != version.id {
                        return Err(self.wrong_content(&version.id));
                    }
                }
                Some(FileKind::Directory | FileKind::Other) | None => {}
            }
        }
        if hashed.is_empty() {
            return Ok(());
        }
        let arguments = ["hash-object", "--no-filters", "--stdin-paths"];
        let call = PlumbingCommand::new(PlumbingContext::Shadow, arguments).with_input(&input);
        let output = self.run_git(&call, deadline)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for expected in hashed {
            let id = ids.next().and_then(|hex| self.format.parse(hex));
            if id.ok_or_else(|| unexpected_git_output("hash-object"))? != expected {
                return Err(self.wrong_content(&expected));
            }
        }
        Ok(())
    }

    fn wrong_content(&self, id: &ObjectId) -> CheckpointError {
        CheckpointError::WrongContent { id: self.hex(id) }
    }
}

/// Removes what cannot exist beside a file at this path.
fn remove_conflicts(files: &mut BTreeMap<OsString, PathVersion>, path: &OsStr) {
    for above in Path::new(path).ancestors().skip(1) {
        files.remove(above.as_os_str());
    }
    let mut below = path.to_owned();
    below.push("/");
    let inside: Vec<_> = files
        .range(below.clone()..)
        .map(|(inner, _)| inner)
        .take_while(|inner| inner.as_bytes().starts_with(below.as_bytes()))
        .cloned()
        .collect();
    for inner in inside {
        files.remove(&inner);
    }
}
