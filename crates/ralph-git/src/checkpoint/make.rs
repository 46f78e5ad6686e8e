//! Creates checkpoints: turns a listing of the work tree into a tree and a commit with its own ref.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::examine::{self, Memory, Seen};
use super::message::{self, Remarks};
use super::objects::{self, At, Call, index_line, mode_digits, mode_named, odd};
use super::{Checkpoint, CheckpointError, Purpose, Repository, Why};
use crate::tree::{Listing, Mode, ObjectId};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;

/// A checkpoint's commit is a few lines long, plus one for each filtered file.
const LARGEST_COMMIT: usize = 64 * 1024 * 1024;

/// The state to checkpoint.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    pub listing: &'a Listing,
    /// Directories that the listing leaves out. A restore does not touch them.
    pub excluded: &'a [PathBuf],
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub checkpoint: Checkpoint,
    pub fresh: Fresh,
    /// Paths that changed after the listing. The checkpoint has their later content, so it differs from the listing.
    pub unsettled: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    New,
    /// Nothing has changed since the last checkpoint, which is returned again.
    Same,
}

/// The entries of an index, by path.
pub(super) type Staged = HashMap<OsString, (Mode, ObjectId)>;

/// A tree in the object store, not yet on a ref.
pub(super) struct Stored {
    pub tree: ObjectId,
    pub remarks: Remarks,
    pub unsettled: Vec<OsString>,
}

/// A commit to write for a checkpoint.
pub(super) struct Draft<'a> {
    pub at: At,
    pub of: &'a Checkpoint,
    pub parent: Option<&'a Checkpoint>,
}

impl Repository {
    pub fn make(
        &self,
        snapshot: &Snapshot<'_>,
        deadline: &Deadline,
    ) -> Result<Made, CheckpointError> {
        let _lock = self.lock(deadline)?;
        let last = self.list(deadline)?.pop();
        let stored = self.store(snapshot, deadline)?;
        if let Some(last) = &last
            && last.tree == stored.tree
            && self.remarks(last, deadline)? == stored.remarks
        {
            let checkpoint = last.clone();
            return Ok(Made { checkpoint, fresh: Fresh::Same, unsettled: stored.unsettled });
        }
        let number = last.as_ref().map_or(0, |last| last.number.saturating_add(1));
        let at_ms = clock::now_ms() / 1000 * 1000;
        let (tree, why) = (stored.tree, snapshot.why.clone());
        let mut checkpoint = Checkpoint { number, commit: tree, tree, at_ms, why };
        let draft = Draft { at: At::Shadow, of: &checkpoint, parent: last.as_ref() };
        checkpoint.commit = self.commit(&draft, &stored.remarks, deadline)?;
        let (name, commit) = (self.name(number), self.hex(&checkpoint.commit));
        let zero = self.format.zero();
        let update = ["update-ref", "--no-deref", &name, &commit, &zero];
        self.git(&Call::new(At::Refs, update), deadline)?;
        Ok(Made { checkpoint, fresh: Fresh::New, unsettled: stored.unsettled })
    }

    /// Stores the present state as a checkpoint without a number, for comparison. The next call replaces it.
    pub fn present(
        &self,
        snapshot: &Snapshot<'_>,
        deadline: &Deadline,
    ) -> Result<Checkpoint, CheckpointError> {
        let _lock = self.lock(deadline)?;
        let stored = self.store(snapshot, deadline)?;
        let (at_ms, tree) = (clock::now_ms() / 1000 * 1000, stored.tree);
        let mut now =
            Checkpoint { number: u32::MAX, commit: tree, tree, at_ms, why: snapshot.why.clone() };
        let draft = Draft { at: At::Shadow, of: &now, parent: None };
        now.commit = self.commit(&draft, &stored.remarks, deadline)?;
        if self.purpose == Purpose::Rehearsal {
            // The shadow is never garbage-collected, so no ref is needed.
            return Ok(now);
        }
        let (name, commit) = (self.now(), self.hex(&now.commit));
        self.git(&Call::new(At::Refs, ["update-ref", "--no-deref", &name, &commit]), deadline)?;
        Ok(now)
    }

    pub(super) fn commit(
        &self,
        draft: &Draft<'_>,
        remarks: &Remarks,
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        let message = message::write(&draft.of.why, remarks);
        let tree = self.hex(&draft.of.tree);
        let parent = draft.parent.map(|one| self.hex(&one.commit));
        let date = format!("@{} +0000", draft.of.at_ms / 1000);
        let mut arguments = vec!["commit-tree", "--no-gpg-sign", &tree];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent]);
        }
        let mut call = Call::new(draft.at, arguments).reading(&message);
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
        let output = self.git(&call, deadline)?;
        self.format.parse(output.trim_ascii_end()).ok_or_else(|| odd("commit-tree"))
    }

    pub(super) fn remarks(
        &self,
        checkpoint: &Checkpoint,
        deadline: &Deadline,
    ) -> Result<Remarks, CheckpointError> {
        let commit = self.hex(&checkpoint.commit);
        let mut call = Call::new(At::Shadow, ["cat-file", "commit", &commit]);
        call.keep = LARGEST_COMMIT;
        Ok(message::remarks(&self.git(&call, deadline)?))
    }

    /// Updates the shadow's index to the listing and writes it as a tree. The caller must hold the lock.
    fn store(
        &self,
        snapshot: &Snapshot<'_>,
        deadline: &Deadline,
    ) -> Result<Stored, CheckpointError> {
        let listing = snapshot.listing;
        if listing.root != self.root {
            let (listed, root) = (listing.root.clone(), self.root.clone());
            return Err(CheckpointError::Elsewhere { listed, root });
        }
        let index = self.shadow.join("index");
        objects::unlock(&index)?;
        let previous = if let Some(previous) = self.previous(deadline)? {
            previous
        } else {
            fs::remove_file(&index)?;
            Staged::new()
        };
        let memory = Memory::load(self);
        let found =
            examine::examine(self, &Seen { listing, previous: &previous, memory }, deadline)?;
        let mut wanted: HashMap<&[u8], (Mode, ObjectId)> = HashMap::new();
        for (entry, id) in listing.entries.iter().zip(&found.ids) {
            if let Some(id) = id {
                wanted.insert(entry.path.as_bytes(), (entry.mode, *id));
            }
        }
        let zero = self.format.zero();
        let mut input = Vec::new();
        // Deletions come first, because a directory may replace a file, or a file a directory.
        for path in previous.keys().filter(|path| !wanted.contains_key(path.as_bytes())) {
            input.extend(index_line("0", &zero, path));
        }
        for (entry, id) in listing.entries.iter().zip(&found.ids) {
            let Some(id) = id else { continue };
            if previous.get(&entry.path) != Some(&(entry.mode, *id)) {
                input.extend(index_line(mode_digits(entry.mode), &self.hex(id), &entry.path));
            }
        }
        if !input.is_empty() {
            let call = Call::new(At::Shadow, ["update-index", "-z", "--index-info"]);
            self.git(&call.reading(&input), deadline)?;
        }
        // An object that is not in the store is one that a sparse checkout leaves out.
        let output = self.git(&Call::new(At::Shadow, ["write-tree", "--missing-ok"]), deadline)?;
        let tree = self.format.parse(output.trim_ascii_end()).ok_or_else(|| odd("write-tree"))?;
        found.memory.save(self)?;
        let remarks = Remarks { filtered: found.filtered, excluded: snapshot.excluded.to_vec() };
        Ok(Stored { tree, remarks, unsettled: found.unsettled })
    }

    /// The entries of the shadow's index, or `None` if it cannot be used. Without a ref, its objects may have been
    /// garbage-collected.
    fn previous(&self, deadline: &Deadline) -> Result<Option<Staged>, CheckpointError> {
        let prefix = self.prefix();
        let call = Call::new(At::Refs, ["for-each-ref", "--count=1", "--format=x", &prefix]);
        if self.git(&call, deadline)?.is_empty() {
            return Ok(None);
        }
        let listed = match self.git(&Call::new(At::Shadow, ["ls-files", "-s", "-z"]), deadline) {
            Ok(listed) => listed,
            Err(CheckpointError::Git { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut previous = Staged::new();
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let Some((path, mode, id)) = self.staged(record) else { return Ok(None) };
            previous.insert(path, (mode, id));
        }
        Ok(Some(previous))
    }

    /// Parses `100644 <id> 0<tab><path>`.
    fn staged(&self, record: &[u8]) -> Option<(OsString, Mode, ObjectId)> {
        let tab = memchr::memchr(b'\t', record)?;
        let mut fields = record.get(..tab)?.split(|byte| *byte == b' ');
        let mode = mode_named(fields.next()?)?;
        let id = self.format.parse(fields.next()?)?;
        let path = OsString::from_vec(record.get(tab + 1..)?.to_vec());
        Some((path, mode, id))
    }
}
