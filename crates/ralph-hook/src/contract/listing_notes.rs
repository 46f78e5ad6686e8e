//! Listings of a large work tree that a hook and its worker take over from each other. Each would otherwise list the tree
//! for itself, which is most of the cost of a stop. Notes are sealed, so no other process can write them.

use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_git::tree::WorkTreeListing;

use super::ContractContext;

/// A smaller tree is listed faster than a note is written.
const MIN_ENTRIES: usize = 2_000;

/// One task of a worker, and where its notes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingNotes<'a> {
    pub contract: &'a ContractContext<'a>,
    pub cache: &'a ResultCache,
    /// Identifies the task.
    pub mark: &'a str,
}

impl ListingNotes<'_> {
    /// Writes the listing that the worker starts with. Without it, the worker lists the tree itself.
    pub(super) fn give(&self, listing: &WorkTreeListing) {
        if listing.entries.len() >= MIN_ENTRIES {
            self.write(&self.given_key(), |note| listing.append_bytes(note));
        }
    }

    /// The listing that the hook wrote for this task.
    pub(super) fn take(&self) -> Option<WorkTreeListing> {
        self.read(&self.given_key(), WorkTreeListing::from_bytes)
    }

    /// Records the tree after the gates ran.
    pub(super) fn record_end(&self, listing: &WorkTreeListing) {
        self.write(&self.end_key(), |note| note.extend(listing.fingerprint()));
    }

    /// Whether the tree after the gates was the one in this listing. If nothing was recorded, it is not known.
    pub(super) fn has_ended_with(&self, listing: &WorkTreeListing) -> bool {
        let is_same = |tree: &[u8]| (tree == listing.fingerprint()).then_some(());
        self.read(&self.end_key(), is_same).is_some()
    }

    fn given_key(&self) -> ResultKey {
        self.contract.run_note_key("tree before gates")
    }

    fn end_key(&self) -> ResultKey {
        self.contract.run_note_key("tree after gates")
    }

    fn write(&self, key: &ResultKey, append_content: impl FnOnce(&mut Vec<u8>)) {
        let mut note = self.mark.as_bytes().to_vec();
        note.push(b'\n');
        append_content(&mut note);
        // A note that cannot be written costs time, nothing else.
        drop(self.cache.write_note(key, &note));
    }

    fn read<T>(&self, key: &ResultKey, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let note = self.cache.read_note(key)?;
        parse(note.strip_prefix(self.mark.as_bytes())?.strip_prefix(b"\n")?)
    }
}
