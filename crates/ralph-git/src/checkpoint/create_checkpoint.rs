//! Creates checkpoints: turns a listing of the work tree into a tree and a commit with its own ref.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::commit_message::{self, CheckpointRemarks};
use super::plumbing::{
    self, PlumbingCommand, PlumbingContext, index_info_record, mode_digits, mode_from_digits,
    unexpected_git_output,
};
use super::resolve_objects::{self, ConversionCache, ResolveInput};
use super::{
    Checkpoint, CheckpointError, CheckpointReason, CheckpointRepository, RepositoryPurpose,
};
use crate::tree::{ObjectId, TreeEntry, TreeEntryMode, WorkTreeListing};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;

/// A checkpoint's commit is a few lines long, plus one for each filtered file.
const MAX_COMMIT_BYTES: usize = 64 * 1024 * 1024;

/// The state to checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointSnapshot<'a> {
    pub listing: &'a WorkTreeListing,
    /// Directories that the listing leaves out. A restore does not touch them.
    pub excluded: &'a [PathBuf],
    pub reason: CheckpointReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedCheckpoint {
    pub checkpoint: Checkpoint,
    pub novelty: CheckpointNovelty,
    /// Paths that changed after the listing. The checkpoint has their later content, so it differs from the listing.
    pub changed_meanwhile: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointNovelty {
    New,
    /// Nothing has changed since the last checkpoint, which is returned again.
    Unchanged,
}

/// The entries of an index, sorted by path.
#[derive(Default)]
pub(super) struct StagedFiles(Vec<StagedFile>);

struct StagedFile {
    path: OsString,
    mode: TreeEntryMode,
    id: ObjectId,
}

impl StagedFiles {
    pub(super) fn contains(&self, entry: &TreeEntry) -> bool {
        self.has(&entry.path, entry.mode, entry.id)
    }

    fn has(&self, path: &OsStr, mode: TreeEntryMode, id: ObjectId) -> bool {
        let found = self.0.binary_search_by(|staged| staged.path.as_os_str().cmp(path));
        found.is_ok_and(|at| self.0[at].mode == mode && self.0[at].id == id)
    }
}

/// A tree in the object store, not yet on a ref.
pub(super) struct StoredTree {
    pub tree: ObjectId,
    pub remarks: CheckpointRemarks,
    pub changed_meanwhile: Vec<OsString>,
}

/// A commit to write for a checkpoint.
pub(super) struct CommitDraft<'a> {
    pub at: PlumbingContext,
    pub checkpoint: &'a Checkpoint,
    pub parent: Option<&'a Checkpoint>,
}

impl CheckpointRepository {
    pub fn create(
        &self,
        snapshot: &CheckpointSnapshot<'_>,
        deadline: &Deadline,
    ) -> Result<CreatedCheckpoint, CheckpointError> {
        let _lock = self.lock_shadow(deadline)?;
        let last = self.list(deadline)?.pop();
        let stored = self.store_tree(snapshot, deadline)?;
        if let Some(last) = &last
            && last.tree == stored.tree
            && self.read_remarks(last, deadline)? == stored.remarks
        {
            let checkpoint = last.clone();
            return Ok(CreatedCheckpoint {
                checkpoint,
                novelty: CheckpointNovelty::Unchanged,
                changed_meanwhile: stored.changed_meanwhile,
            });
        }
        let number = last.as_ref().map_or(0, |last| last.number.saturating_add(1));
        let at_ms = clock::now_ms() / 1000 * 1000;
        let (tree, why) = (stored.tree, snapshot.reason.clone());
        let mut checkpoint = Checkpoint { number, commit: tree, tree, at_ms, reason: why };
        let draft = CommitDraft {
            at: PlumbingContext::Shadow,
            checkpoint: &checkpoint,
            parent: last.as_ref(),
        };
        checkpoint.commit = self.write_commit(&draft, &stored.remarks, deadline)?;
        let (name, commit) = (self.checkpoint_ref(number), self.hex(&checkpoint.commit));
        let zero = self.format.zero_id();
        let update = ["update-ref", "--no-deref", &name, &commit, &zero];
        self.run_git(&PlumbingCommand::new(PlumbingContext::Refs, update), deadline)?;
        Ok(CreatedCheckpoint {
            checkpoint,
            novelty: CheckpointNovelty::New,
            changed_meanwhile: stored.changed_meanwhile,
        })
    }

    /// Stores the present state as a checkpoint without a number, for comparison. The next call replaces it.
    pub fn capture_present(
        &self,
        snapshot: &CheckpointSnapshot<'_>,
        deadline: &Deadline,
    ) -> Result<Checkpoint, CheckpointError> {
        let _lock = self.lock_shadow(deadline)?;
        let stored = self.store_tree(snapshot, deadline)?;
        let (at_ms, tree) = (clock::now_ms() / 1000 * 1000, stored.tree);
        let mut now = Checkpoint {
            number: u32::MAX,
            commit: tree,
            tree,
            at_ms,
            reason: snapshot.reason.clone(),
        };
        let draft = CommitDraft { at: PlumbingContext::Shadow, checkpoint: &now, parent: None };
        now.commit = self.write_commit(&draft, &stored.remarks, deadline)?;
        if self.purpose == RepositoryPurpose::Comparison {
            // The shadow is never garbage-collected, so no ref is needed.
            return Ok(now);
        }
        let (name, commit) = (self.present_ref(), self.hex(&now.commit));
        self.run_git(
            &PlumbingCommand::new(
                PlumbingContext::Refs,
                ["update-ref", "--no-deref", &name, &commit],
            ),
            deadline,
        )?;
        Ok(now)
    }

    pub(super) fn write_commit(
        &self,
        draft: &CommitDraft<'_>,
        remarks: &CheckpointRemarks,
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        let message = commit_message::write_message(&draft.checkpoint.reason, remarks);
        let tree = self.hex(&draft.checkpoint.tree);
        let parent = draft.parent.map(|one| self.hex(&one.commit));
        let date = format!("@{} +0000", draft.checkpoint.at_ms / 1000);
        let mut arguments = vec!["commit-tree", "--no-gpg-sign", &tree];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent]);
        }
        let mut call = PlumbingCommand::new(draft.at, arguments).with_input(&message);
        call.env.extend(
            [
                ("GIT_AUTHOR_NAME", "ralph"),
                ("GIT_AUTHOR_EMAIL", "ralph@localhost"),
                ("GIT_AUTHOR_DATE", &date),
                ("GIT_COMMITTER_NAME", "ralph"),
                ("GIT_COMMITTER_EMAIL", "ralph@localhost"),
                ("GIT_COMMITTER_DATE", &date),
            ]
            .map(|(name, value)| (name, OsString::from(value).into())),
        );
        let output = self.run_git(&call, deadline)?;
        self.format
            .parse(output.trim_ascii_end())
            .ok_or_else(|| unexpected_git_output("commit-tree"))
    }

    pub(super) fn read_remarks(
        &self,
        checkpoint: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<CheckpointRemarks, CheckpointError> {
        let commit = self.hex(&checkpoint.commit);
        let mut call =
            PlumbingCommand::new(PlumbingContext::Shadow, ["cat-file", "commit", &commit]);
        call.max_output = MAX_COMMIT_BYTES;
        Ok(commit_message::parse_remarks(&self.run_git(&call, deadline)?))
    }

    /// Updates the shadow's index to the listing and writes it as a tree. The caller must hold the lock.
    fn store_tree(
        &self,
        snapshot: &CheckpointSnapshot<'_>,
        deadline: &Deadline,
    ) -> Result<StoredTree, CheckpointError> {
        let listing = &*snapshot.listing.with_absent();
        if listing.root != self.root {
            let (listed, root) = (listing.root.clone(), self.root.clone());
            return Err(CheckpointError::WrongRoot { listed, root });
        }
        let index = self.shadow.join("index");
        plumbing::remove_index_lock(&index)?;
        let previous = if let Some(previous) = self.read_shadow_index(deadline)? {
            previous
        } else {
            fs::remove_file(&index)?;
            StagedFiles::default()
        };
        let memory = ConversionCache::load(self);
        let found = resolve_objects::resolve_objects(
            self,
            &ResolveInput { listing, previous: &previous, cache: memory },
            deadline,
        )?;
        let is_wanted = |path: &OsStr| {
            let at = listing.entries.binary_search_by(|entry| entry.path.as_os_str().cmp(path));
            at.is_ok_and(|at| found.ids[at].is_some())
        };
        let zero = self.format.zero_id();
        let mut input = Vec::new();
        // Deletions come first, because a directory may replace a file, or a file a directory.
        for staged in previous.0.iter().filter(|staged| !is_wanted(&staged.path)) {
            input.extend(index_info_record("0", &zero, &staged.path));
        }
        for (entry, id) in listing.entries.iter().zip(&found.ids) {
            let Some(id) = id else { continue };
            if !previous.has(&entry.path, entry.mode, *id) {
                input.extend(index_info_record(
                    mode_digits(entry.mode),
                    &self.hex(id),
                    &entry.path,
                ));
            }
        }
        if !input.is_empty() {
            let call = PlumbingCommand::new(
                PlumbingContext::Shadow,
                ["update-index", "-z", "--index-info"],
            );
            self.run_git(&call.with_input(&input), deadline)?;
        }
        // An object that is not in the store is one that a sparse checkout leaves out.
        let output = self.run_git(
            &PlumbingCommand::new(PlumbingContext::Shadow, ["write-tree", "--missing-ok"]),
            deadline,
        )?;
        let tree = self
            .format
            .parse(output.trim_ascii_end())
            .ok_or_else(|| unexpected_git_output("write-tree"))?;
        found.cache.save(self)?;
        let remarks =
            CheckpointRemarks { filtered: found.filtered, excluded: snapshot.excluded.to_vec() };
        Ok(StoredTree { tree, remarks, changed_meanwhile: found.changed_meanwhile })
    }

    /// The entries of the shadow's index, or `None` if it cannot be used. Without a ref, its objects may have been
    /// garbage-collected.
    fn read_shadow_index(
        &self,
        deadline: &Deadline,
    ) -> Result<Option<StagedFiles>, CheckpointError> {
        let prefix = self.ref_prefix();
        let call = PlumbingCommand::new(
            PlumbingContext::Refs,
            ["for-each-ref", "--count=1", "--format=x", &prefix],
        );
        if self.run_git(&call, deadline)?.is_empty() {
            return Ok(None);
        }
        let listed = match self.run_git(
            &PlumbingCommand::new(PlumbingContext::Shadow, ["ls-files", "-s", "-z"]),
            deadline,
        ) {
            Ok(listed) => listed,
            Err(CheckpointError::Git { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let records = listed.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        // Git sorts paths by their bytes, as the standard library does.
        let files = records.map(|record| self.parse_staged_record(record));
        Ok(files.collect::<Option<Vec<_>>>().map(StagedFiles))
    }

    /// Parses `100644 <id> 0<tab><path>`.
    fn parse_staged_record(&self, record: &[u8]) -> Option<StagedFile> {
        let tab = memchr::memchr(b'\t', record)?;
        let mut fields = record.get(..tab)?.split(|byte| *byte == b' ');
        let mode = mode_from_digits(fields.next()?)?;
        let id = self.format.parse(fields.next()?)?;
        let path = OsString::from_vec(record.get(tab + 1..)?.to_vec());
        Some(StagedFile { path, mode, id })
    }
}
