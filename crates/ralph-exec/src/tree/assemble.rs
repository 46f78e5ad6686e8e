//! What was found directory by directory, put together.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{Entry, Mode, ObjectId, identity};

/// What was found in one directory.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) items: Vec<Item>,
    /// Of the repository whose root it is.
    pub(super) head: Option<String>,
}

pub(super) enum Item {
    Entry(Entry),
    Below(usize),
    Repository { path: Vec<u8>, slot: usize, linked: Option<ObjectId> },
}

/// Puts the directories' entries together, in the order of their paths.
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
                    // A submodule that is not checked out is what the index says.
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
