//! Joins the listings of single directories into one sorted list.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{Entry, Mode, ObjectId, identity};

/// The listing of one directory.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) items: Vec<Item>,
    /// The commit that is checked out, if the directory is the root of a repository.
    pub(super) head: Option<String>,
}

pub(super) enum Item {
    Entry(Entry),
    /// A subdirectory, by the slot of its listing.
    Below(usize),
    Repository {
        path: Vec<u8>,
        slot: usize,
        linked: Option<ObjectId>,
    },
}

/// Joins the directories' entries in the order of their paths. `about` is the expected number of entries.
pub(super) fn assemble(slots: &mut [Option<Listed>], about: usize) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(about);
    gather(slots, 0, &mut entries);
    entries
}

fn gather(slots: &mut [Option<Listed>], slot: usize, entries: &mut Vec<Entry>) -> Option<String> {
    let listed = slots.get_mut(slot).and_then(Option::take).unwrap_or_default();
    for item in listed.items {
        match item {
            Item::Entry(entry) => entries.push(entry),
            Item::Below(slot) => {
                gather(slots, slot, entries);
            }
            Item::Repository { path, slot, linked } => {
                let mut inner = Vec::new();
                let head = gather(slots, slot, &mut inner);
                let id = match linked {
                    // A submodule that is not checked out counts by its id in the index.
                    Some(linked) if head.is_none() && inner.is_empty() => linked,
                    Some(_) | None => repository_id(head.as_deref(), &inner),
                };
                let path = OsString::from_vec(path);
                entries.push(Entry { path, mode: Mode::Repository, id });
            }
        }
    }
    listed.head
}

fn repository_id(head: Option<&str>, entries: &[Entry]) -> ObjectId {
    let mut hasher = blake3::Hasher::new_derive_key("ralph tree repository");
    hasher.update(head.unwrap_or_default().as_bytes());
    hasher.update(b"\0");
    hasher.update(&identity(entries.iter()));
    ObjectId(hasher.finalize().into())
}
