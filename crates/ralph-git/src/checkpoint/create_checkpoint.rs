//! Creates checkpoints: turns a listing of the work tree into a tree and a commit with its own ref.

use std::ffi::OsString;
use std::path::PathBuf;

use super::commit_message::{self, CheckpointRemarks};
use super::directory_trees::DirectoryTrees;
use super::plumbing::{PlumbingCommand, PlumbingContext, unexpected_git_output};
use super::resolve_objects::ObjectResolver;
use super::{
    Checkpoint, CheckpointError, CheckpointReason, CheckpointRepository, RepositoryPurpose,
};
use crate::tree::{ObjectId, WorkTreeListing};
use ralph_sys::clock::{self, Deadline};

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
    /// The earliest checkpoint of the run, which may be this one.
    pub first: Checkpoint,
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

/// A tree in the object store, not yet on a ref.
pub(super) struct StoredTree {
    pub trees: DirectoryTrees,
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
        let mut known = self.list(deadline)?;
        let first = known.first().cloned();
        let last = known.pop();
        let stored = self.store_tree(snapshot, last.as_ref(), deadline)?;
        if let Some(last) = &last
            && last.tree == stored.trees.root
            && self.read_remarks(last, deadline)? == stored.remarks
        {
            self.verify_commit(last, deadline)?;
            let checkpoint = last.clone();
            return Ok(CreatedCheckpoint {
                first: first.unwrap_or_else(|| checkpoint.clone()),
                checkpoint,
                novelty: CheckpointNovelty::Unchanged,
                changed_meanwhile: stored.changed_meanwhile,
            });
        }
        let number = last.as_ref().map_or(0, |last| last.number.saturating_add(1));
        let at_ms = clock::now_ms() / 1000 * 1000;
        let (tree, why) = (stored.trees.root, snapshot.reason.clone());
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
        self.save_known_trees(&stored.trees)?;
        Ok(CreatedCheckpoint {
            first: first.unwrap_or_else(|| checkpoint.clone()),
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
        let last = self.list(deadline)?.pop();
        let stored = self.store_tree(snapshot, last.as_ref(), deadline)?;
        let (at_ms, tree) = (clock::now_ms() / 1000 * 1000, stored.trees.root);
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
        Ok(commit_message::parse_remarks(&self.read_commit(&checkpoint.commit, deadline)?))
    }

    /// Stores the files of the listing and their directories, except for those that the last checkpoint has. The caller
    /// must hold the lock.
    fn store_tree(
        &self,
        snapshot: &CheckpointSnapshot<'_>,
        last: Option<&Checkpoint>,
        deadline: &Deadline,
    ) -> Result<StoredTree, CheckpointError> {
        let listing = &*snapshot.listing.with_absent();
        if listing.root != self.root {
            let (listed, root) = (listing.root.clone(), self.root.clone());
            return Err(CheckpointError::WrongRoot { listed, root });
        }
        let (entries, known) = (&*listing.entries, self.load_known_trees(last));
        let mut resolver = ObjectResolver::new(self, entries, deadline);
        let build = |ids: &[_]| DirectoryTrees::build(self.format, entries, ids, &known);
        let listed = build(&resolver.found.ids);
        let new = self.find_new_files(&listed, entries, &known, deadline)?;
        let trees = if resolver.resolve(new)? { build(&resolver.found.ids) } else { listed };
        self.write_trees(&trees, deadline)?;
        let found = resolver.found;
        let remarks = CheckpointRemarks { excluded: snapshot.excluded.to_vec() };
        Ok(StoredTree { trees, remarks, changed_meanwhile: found.changed_meanwhile })
    }
}
