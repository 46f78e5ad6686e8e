//! Checks out a checkpoint into a separate directory, in which it is verified while the agent's work tree stays
//! untouched.
//!
//! Git's bookkeeping for the checkout is in the shadow, where programs that run in the checkout cannot change it. The
//! checkout's own `.git` is recreated each time, for programs that call git: it has one commit, no history and no
//! access to the user's refs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::commit_message::CheckpointRemarks;
use super::create_checkpoint::CommitDraft;
use super::diff::{ChangeStatus, ChangedPath, PathVersion};
use super::plumbing::{
    self, PlumbingCommand, PlumbingContext, index_info_record, mode_digits, unexpected_git_output,
};
use super::{
    Checkpoint, CheckpointError, CheckpointReason, CheckpointRepository, CheckpointStore,
    NO_CONVERSION,
};
use crate::tree::{self, ListingRequest, ObjectId, TreeEntryMode, WorkTreeListing};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileLock};

const MAX_INDEX_BYTES: usize = 1024 * 1024 * 1024;

/// What to check out.
pub struct CheckoutRequest<'a> {
    pub candidate: &'a Checkpoint,
    /// The source of protected files. A protected file that it does not have is left out.
    pub base: &'a Checkpoint,
    pub is_protected: &'a dyn Fn(&OsStr) -> bool,
    /// Files that neither of them has in this form.
    pub overlay: &'a [OverlayFile],
}

impl<'a> CheckoutRequest<'a> {
    /// A checkpoint with all of its own files.
    pub fn whole(checkpoint: &'a Checkpoint) -> Self {
        Self { candidate: checkpoint, base: checkpoint, is_protected: &|_| false, overlay: &[] }
    }
}

/// A file to add to a checkout, or to put in place of the one that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayFile {
    pub path: OsString,
    pub content: Vec<u8>,
}

/// A checkout. It stays locked against other verifications until it is dropped.
#[derive(Debug)]
pub struct VerificationCheckout {
    pub dir: PathBuf,
    pub tree: ObjectId,
    /// The files that were written.
    pub files: WorkTreeListing,
    /// Protected files that differ from the candidate; `before` is the candidate's version.
    pub restored: Vec<ChangedPath>,
    _lock: FileLock,
}

struct ComposedTree {
    tree: ObjectId,
    files: BTreeMap<OsString, PathVersion>,
    restored: Vec<ChangedPath>,
}

impl fmt::Debug for CheckoutRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, base, overlay, is_protected: _ } = self;
        f.debug_struct("CheckoutRequest")
            .field("candidate", candidate)
            .field("base", base)
            .field("overlay", overlay)
            .finish_non_exhaustive()
    }
}

impl CheckpointRepository {
    pub fn checkout(
        &self,
        what: &CheckoutRequest<'_>,
        deadline: &Deadline,
    ) -> Result<VerificationCheckout, CheckpointError> {
        let alone = fs::acquire_lock(&self.checkout_file("lock"), deadline)?;
        let _lock = self.lock_shadow(deadline)?;
        let ComposedTree { tree, files, restored } = self.compose_tree(what, deadline)?;
        let index = self.checkout_file("index");
        plumbing::remove_index_lock(&index)?;
        // Files that an earlier gate compiled from other sources would count as part of the tree.
        fs::remove_own_dir_tree(&self.checkout)?;
        fs::remove_file(&index)?;
        fs::create_private_dir(&self.checkout)?;
        let hex = self.hex(&tree);
        let arguments = ["read-tree", "--reset", "-u", &hex];
        self.run_git(&self.checkout_command(&index, &arguments), deadline)?;
        self.create_git_dir(&tree, deadline)?;
        let written = tree::list_work_tree(&ListingRequest {
            project: &self.checkout,
            exclude: &[],
            cache: None,
            deadline,
        })?;
        self.verify_checkout(&written, files, &tree)?;
        let dir = self.checkout.clone();
        Ok(VerificationCheckout { dir, tree, files: written, restored, _lock: alone })
    }

    /// The tree that a checkout would have, without writing its files.
    pub fn checkout_tree(
        &self,
        what: &CheckoutRequest<'_>,
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        let _lock = self.lock_shadow(deadline)?;
        Ok(self.compose_tree(what, deadline)?.tree)
    }

    fn compose_tree(
        &self,
        what: &CheckoutRequest<'_>,
        deadline: &Deadline,
    ) -> Result<ComposedTree, CheckpointError> {
        let mut restored = self.diff(what.candidate, what.base, deadline)?;
        let overlay = self.store_overlay(what.overlay, &restored, deadline)?;
        restored.retain(|changed| (what.is_protected)(&changed.path));
        let mut changes = restored.clone();
        changes.extend(overlay);
        let tree = self.tree_with_changes(what.candidate, &changes, deadline)?;
        let files = self.files_with_changes(what.candidate, &changes, deadline)?;
        if !changes.is_empty() {
            self.verify_tree_of_files(&tree, &files, deadline)?;
        }
        Ok(ComposedTree { tree, files, restored })
    }

    /// A file in the shadow that belongs to this checkout: the index of the files that ralph wrote there, or the lock.
    fn checkout_file(&self, extension: &str) -> PathBuf {
        self.shadow.join(format!("{}.{extension}", self.checkout_label))
    }

    /// A file that takes the place of an executable one is executable too. `changed` has the candidate's versions in
    /// `before`.
    fn store_overlay(
        &self,
        overlay: &[OverlayFile],
        changed: &[ChangedPath],
        deadline: &Deadline,
    ) -> Result<Vec<ChangedPath>, CheckpointError> {
        let mut stored = Vec::new();
        for OverlayFile { path, content } in overlay {
            if !fs::is_safe_tree_path(path) {
                return Err(CheckpointError::BadPath(path.into()));
            }
            let hash = ["hash-object", "-w", "--no-filters", "--stdin"];
            let call = PlumbingCommand::new(PlumbingContext::ShadowOnly, hash).with_input(content);
            let output = self.run_git(&call, deadline)?;
            let id = self
                .format
                .parse(output.trim_ascii_end())
                .ok_or_else(|| unexpected_git_output("hash-object"))?;
            let replaced = changed.iter().find(|one| one.path == *path).and_then(|one| one.before);
            let mode = match replaced.map(|version| version.mode) {
                Some(TreeEntryMode::Executable) => TreeEntryMode::Executable,
                Some(TreeEntryMode::File | TreeEntryMode::Symlink | TreeEntryMode::Repository)
                | None => TreeEntryMode::File,
            };
            let after = Some(PathVersion { mode, id });
            let (path, status) = (path.clone(), ChangeStatus::Modified);
            stored.push(ChangedPath { path, status, before: None, after });
        }
        Ok(stored)
    }

    fn checkout_command<'a>(
        &'a self,
        index: &'a Path,
        arguments: &[&'a str],
    ) -> PlumbingCommand<'a> {
        let call = PlumbingCommand::new(PlumbingContext::ShadowOnly, arguments.iter().copied());
        call.with_index(index).with_work_tree(&self.checkout)
    }

    /// The candidate's tree after applying `changes`.
    fn tree_with_changes(
        &self,
        candidate: &Checkpoint,
        changes: &[ChangedPath],
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        if changes.is_empty() {
            return Ok(candidate.tree);
        }
        let index = self.new_index("mixed.index")?;
        let hex = self.hex(&candidate.tree);
        let read = PlumbingCommand::new(PlumbingContext::ShadowOnly, ["read-tree", &hex])
            .with_index(&index);
        self.run_git(&read, deadline)?;
        let (mut input, zero) = (Vec::new(), self.format.zero_id());
        for changed in changes.iter().filter(|changed| changed.after.is_none()) {
            input.extend(index_info_record("0", &zero, &changed.path));
        }
        for changed in changes {
            if let Some(side) = changed.after {
                let id = self.hex(&side.id);
                input.extend(index_info_record(mode_digits(side.mode), &id, &changed.path));
            }
        }
        let feed = PlumbingCommand::new(
            PlumbingContext::ShadowOnly,
            ["update-index", "-z", "--index-info"],
        );
        self.run_git(&feed.with_index(&index).with_input(&input), deadline)?;
        let write =
            PlumbingCommand::new(PlumbingContext::ShadowOnly, ["write-tree", "--missing-ok"])
                .with_index(&index);
        let output = self.run_git(&write, deadline)?;
        fs::remove_file(&index)?;
        self.format
            .parse(output.trim_ascii_end())
            .ok_or_else(|| unexpected_git_output("write-tree"))
    }

    fn create_git_dir(&self, tree: &ObjectId, deadline: &Deadline) -> Result<(), CheckpointError> {
        let why = CheckpointReason::Other("the tree that is verified".to_owned());
        let (number, tree, at_ms) = (0, *tree, 0);
        let checkpoint = Checkpoint { number, commit: tree, tree, at_ms, reason: why };
        let draft =
            CommitDraft { at: PlumbingContext::ShadowOnly, checkpoint: &checkpoint, parent: None };
        let commit = self.write_commit(&draft, &CheckpointRemarks::default(), deadline)?;
        let git = self.checkout.join(".git");
        let mut alternates = plumbing::alternates_line(&self.shadow.join("objects"));
        if let CheckpointStore::Project { objects } = &self.store {
            alternates.extend(plumbing::alternates_line(objects));
        }
        let config = format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tautocrlf = false\n[extensions]\n\tobjectformat = {}\n",
            self.format.name()
        );
        let head = format!("{}\n", self.hex(&commit));
        let index = fs::read(&self.checkout_file("index"), MAX_INDEX_BYTES)?;
        for (name, bytes) in [
            ("config", config.as_bytes()),
            ("info/attributes", NO_CONVERSION),
            ("objects/info/alternates", &alternates),
            ("refs/heads/main", head.as_bytes()),
            ("index", &index),
            ("HEAD", b"ref: refs/heads/main\n"),
        ] {
            let path = git.join(name);
            fs::create_private_dir(path.parent().unwrap_or(&git))?;
            fs::replace(&path, bytes, Durability::Cached)?;
        }
        Ok(())
    }
}
