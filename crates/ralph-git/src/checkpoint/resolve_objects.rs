//! Finds, for each listed file, the object with its bytes on disk, and stores it if it is missing.
//!
//! A listed id is git's id of the bytes on disk, so an object with this id is the right one. It is compared with the id
//! when it is read.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::plumbing::{PlumbingCommand, PlumbingContext, quote_path, unexpected_git_output};
use super::{CheckpointError, CheckpointRepository, CheckpointStore};
use crate::tree::{ObjectId, TreeEntry, TreeEntryMode};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, FileKind};

pub(super) struct ResolvedObjects {
    /// The object with the bytes of each entry; `None` for an entry that is not stored.
    pub ids: Vec<Option<ObjectId>>,
    pub changed_meanwhile: Vec<OsString>,
}

impl ResolvedObjects {
    fn set(&mut self, at: usize, id: Option<ObjectId>) {
        if let Some(slot) = self.ids.get_mut(at) {
            *slot = id;
        }
    }
}

pub(super) struct ObjectResolver<'a> {
    repository: &'a CheckpointRepository,
    entries: &'a [TreeEntry],
    deadline: &'a Deadline,
    pub found: ResolvedObjects,
}

/// A file whose bytes have to be read.
struct FileToHash {
    at: usize,
    path: PathBuf,
    is_link: bool,
}

impl<'a> ObjectResolver<'a> {
    /// Assumes that the object of each entry has its listed id.
    pub(super) fn new(
        repository: &'a CheckpointRepository,
        entries: &'a [TreeEntry],
        deadline: &'a Deadline,
    ) -> Self {
        let is_stored =
            |entry: &TreeEntry| entry.mode != TreeEntryMode::Repository || entry.id.0 != [0; 32];
        let ids = entries.iter().map(|entry| is_stored(entry).then_some(entry.id)).collect();
        let found = ResolvedObjects { ids, changed_meanwhile: Vec::new() };
        Self { repository, entries, deadline, found }
    }

    /// Stores the files that the last checkpoint does not have, or not with their listed id. Returns whether any id
    /// differs from the assumed one, because its file changed after the listing.
    pub(super) fn resolve(&mut self, new: Vec<usize>) -> Result<bool, CheckpointError> {
        let entries: Vec<_> = new
            .into_iter()
            .filter_map(|at| Some((at, self.entries.get(at)?)))
            .filter(|(_, entry)| entry.mode != TreeEntryMode::Repository)
            .collect();
        let ids: Vec<_> = entries.iter().map(|(_, entry)| entry.id).collect();
        let stored = self.repository.blob_sizes(&ids, self.deadline)?;
        let (mut reading, mut missing) = (Vec::new(), Vec::new());
        for (at, entry) in entries {
            if stored.contains_key(&entry.id) {
                continue;
            }
            let path = self.repository.root.join(&entry.path);
            let is_link = entry.mode == TreeEntryMode::Symlink;
            let listed = if is_link { FileKind::Symlink } else { FileKind::File };
            self.found.set(at, None);
            if fs::stat_no_follow(&path).is_some_and(|stat| stat.kind == listed) {
                reading.push(FileToHash { at, path, is_link });
            } else {
                missing.push(at);
            }
        }
        let changed = [reading.iter().map(|one| one.at).collect(), missing.clone()].concat();
        self.hash_and_store(&reading)?;
        self.resolve_missing(&missing)?;
        let differs = |at: &usize| {
            let listed = self.entries.get(*at).map(|entry| entry.id);
            self.found.ids.get(*at).copied().flatten() != listed
        };
        Ok(changed.iter().any(differs))
    }

    /// Stores the unconverted bytes of files and links.
    fn hash_and_store(&mut self, reading: &[FileToHash]) -> Result<(), CheckpointError> {
        if reading.is_empty() {
            return Ok(());
        }
        let links = self.repository.shadow.join("links");
        fs::remove_own_dir_tree(&links)?;
        fs::create_private_dir(&links)?;
        let mut input = Vec::new();
        for one in reading {
            let path = if one.is_link {
                // `hash-object` would follow the link.
                let written = links.join(one.at.to_string());
                let target = fs::read_link(&one.path)?;
                fs::replace(&written, target.as_os_str().as_bytes(), Durability::Cached)?;
                written
            } else {
                one.path.clone()
            };
            input.extend(quote_path(path.as_os_str().as_bytes()));
            input.push(b'\n');
        }
        let call = PlumbingCommand::new(
            PlumbingContext::Shadow,
            ["hash-object", "-w", "--no-filters", "--stdin-paths"],
        );
        let output = match self.repository.run_git(&call.with_input(&input), self.deadline) {
            Err(error @ CheckpointError::Git { .. }) => {
                return Err(first_unreadable(reading).map_or(error, CheckpointError::File));
            }
            output => output?,
        };
        fs::remove_own_dir_tree(&links)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for one in reading {
            let id = ids.next().and_then(|hex| self.repository.format.parse(hex));
            let id = id.ok_or_else(|| unexpected_git_output("hash-object"))?;
            let Some(entry) = self.entries.get(one.at) else { continue };
            self.found.set(one.at, Some(id));
            if id != entry.id {
                self.found.changed_meanwhile.push(entry.path.clone());
            }
        }
        Ok(())
    }

    /// Handles entries that are neither on disk nor in the store: they were never checked out and fetched, or were
    /// deleted after the listing.
    fn resolve_missing(&mut self, missing: &[usize]) -> Result<(), CheckpointError> {
        if missing.is_empty() {
            return Ok(());
        }
        let left_out = match self.repository.store {
            CheckpointStore::Shadow => HashSet::new(),
            CheckpointStore::Project { .. } => {
                let call = PlumbingCommand::new(PlumbingContext::Project, ["ls-files", "-t", "-z"]);
                let listed = self.repository.run_git(&call, self.deadline)?;
                let paths = listed.split(|byte| *byte == 0);
                let skipped = paths.filter_map(|record| record.strip_prefix(b"S "));
                skipped.map(|path| OsString::from_vec(path.to_vec())).collect()
            }
        };
        for at in missing {
            let Some(entry) = self.entries.get(*at) else { continue };
            if left_out.contains(&entry.path) {
                self.found.set(*at, Some(entry.id));
            } else {
                self.found.changed_meanwhile.push(entry.path.clone());
            }
        }
        Ok(())
    }
}

fn first_unreadable(reading: &[FileToHash]) -> Option<FileError> {
    let mut files = reading.iter().filter(|one| !one.is_link);
    files.find_map(|one| fs::read_range(&one.path, 0, 1).err())
}
