//! Joins the listings of single directories into one sorted list.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{ObjectId, TreeEntry, TreeEntryMode, fingerprint_entries};

/// The listing of one directory.
#[derive(Default)]
pub(super) struct DirectoryListing {
    pub(super) items: Vec<DirectoryItem>,
    /// The commit that is checked out, if the directory is the root of a repository.
    pub(super) head: Option<String>,
}

pub(super) enum DirectoryItem {
    Entry(TreeEntry),
    /// A tracked path that a sparse checkout leaves out.
    Absent(TreeEntry),
    /// A subdirectory, by the slot of its listing.
    Subdirectory(usize),
    Repository {
        path: Vec<u8>,
        slot: usize,
        linked: Option<ObjectId>,
    },
}

/// The entries of all directories, in the order of their paths.
#[derive(Default)]
pub(super) struct AssembledEntries {
    pub(super) on_disk: Vec<TreeEntry>,
    pub(super) absent: Vec<TreeEntry>,
}

/// Joins the directories' entries in the order of their paths. `about` is the expected number of entries.
pub(super) fn assemble_entries(
    slots: &mut [Option<DirectoryListing>],
    about: usize,
) -> AssembledEntries {
    let mut entries = AssembledEntries { on_disk: Vec::with_capacity(about), absent: Vec::new() };
    gather_entries(slots, 0, &mut entries);
    entries
}

fn gather_entries(
    slots: &mut [Option<DirectoryListing>],
    slot: usize,
    entries: &mut AssembledEntries,
) -> Option<String> {
    let listed = slots.get_mut(slot).and_then(Option::take).unwrap_or_default();
    for item in listed.items {
        match item {
            DirectoryItem::Entry(entry) => entries.on_disk.push(entry),
            DirectoryItem::Absent(entry) => entries.absent.push(entry),
            DirectoryItem::Subdirectory(slot) => {
                gather_entries(slots, slot, entries);
            }
            DirectoryItem::Repository { path, slot, linked } => {
                let mut inner = AssembledEntries::default();
                let head = gather_entries(slots, slot, &mut inner);
                let inner = inner.on_disk;
                let id = match linked {
                    // A submodule that is not checked out counts by its id in the index.
                    Some(linked) if head.is_none() && inner.is_empty() => linked,
                    Some(_) | None => repository_id(head.as_deref(), &inner),
                };
                let path = OsString::from_vec(path);
                entries.on_disk.push(TreeEntry { path, mode: TreeEntryMode::Repository, id });
            }
        }
    }
    listed.head
}

fn repository_id(head: Option<&str>, entries: &[TreeEntry]) -> ObjectId {
    let mut hasher = blake3::Hasher::new_derive_key("ralph tree repository");
    hasher.update(head.unwrap_or_default().as_bytes());
    hasher.update(b"\0");
    hasher.update(&fingerprint_entries(entries.iter()));
    ObjectId(hasher.finalize().into())
}
