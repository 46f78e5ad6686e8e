//! Files that changed in the work tree while gates ran there: lock files, compiled files, snapshots. They are not the
//! agent's work, so a tree that differs from the base only by them has no change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

use super::ContractContext;
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_git::tree::{self, ObjectId, TreeEntry, TreeEntryMode, WorkTreeListing};

/// If gates write more files than this, all of them count as the agent's change.
const MAX_WRITTEN: usize = 5_000;

/// The state of a file; `None` if it does not exist.
type FileState = Option<(u8, [u8; 32])>;

/// The states of one file around the gates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WrittenFile {
    path: Vec<u8>,
    before: FileState,
    after: FileState,
}

/// Adds the differences of two listings, one from before the gates and one from after them.
pub(super) fn record_writes(
    contract: &ContractContext<'_>,
    cache: &ResultCache,
    before: &WorkTreeListing,
    after: &WorkTreeListing,
) {
    let key = note_key(contract);
    let known = read_writes(cache, &key);
    let written = merge_writes(known, &file_states(before), &file_states(after));
    // Without the note the files count as a change of the agent.
    if written.len() <= MAX_WRITTEN
        && let Ok(bytes) = serde_json::to_vec(&written)
    {
        drop(cache.write_note(&key, &bytes));
    }
}

/// The paths that differ from the base only because gates wrote them; `None` if there is any other difference.
pub(super) fn only_gates_changed(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
    base: &str,
) -> Option<Vec<String>> {
    let cache = ResultCache::open(&contract.world.home).ok()?;
    let written = read_writes(&cache, &note_key(contract));
    if written.is_empty() {
        return None;
    }
    let identity = blake3::Hash::from_bytes(fingerprint_without_gate_writes(listing, &written));
    let names = || written.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned());
    (identity.to_hex().as_str() == base).then(|| names().collect())
}

/// The mark of the tree as if the gates had written nothing. Without the note it is that of the tree itself.
pub(super) fn mark_without_gate_writes(
    contract: &ContractContext<'_>,
    listing: &WorkTreeListing,
) -> u64 {
    let cache = ResultCache::open(&contract.world.home);
    match cache.map(|cache| read_writes(&cache, &note_key(contract))) {
        Ok(written) if !written.is_empty() => {
            listing.mark_with_content(fingerprint_without_gate_writes(listing, &written))
        }
        Ok(_) | Err(_) => listing.content_and_commit_mark(),
    }
}

fn fingerprint_without_gate_writes(listing: &WorkTreeListing, written: &[WrittenFile]) -> [u8; 32] {
    let undone = undo_writes(listing, written);
    tree::fingerprint_entries(undone.iter().map(Cow::as_ref))
}

/// The files that gates wrote in the work tree since the run began, relative to it.
pub(super) fn written_paths(contract: &ContractContext<'_>) -> Vec<String> {
    let Ok(cache) = ResultCache::open(&contract.world.home) else { return Vec::new() };
    let written = read_writes(&cache, &note_key(contract));
    written.into_iter().filter_map(|file| String::from_utf8(file.path).ok()).collect()
}

fn note_key(contract: &ContractContext<'_>) -> ResultKey {
    contract.run_note_key("files that gates wrote")
}

fn read_writes(cache: &ResultCache, key: &ResultKey) -> Vec<WrittenFile> {
    let note = cache.read_note(key);
    note.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn file_states(listing: &WorkTreeListing) -> BTreeMap<&[u8], FileState> {
    let state = |entry: &TreeEntry| Some((entry.mode as u8, entry.id.0));
    listing.entries.iter().map(|entry| (entry.path.as_bytes(), state(entry))).collect()
}

/// A file that gates wrote again keeps its first state, unless it was changed in between.
fn merge_writes(
    known: Vec<WrittenFile>,
    before: &BTreeMap<&[u8], FileState>,
    after: &BTreeMap<&[u8], FileState>,
) -> Vec<WrittenFile> {
    let state = |side: &BTreeMap<&[u8], FileState>, path: &[u8]| side.get(path).copied().flatten();
    let mut written: BTreeMap<Vec<u8>, WrittenFile> =
        known.into_iter().map(|file| (file.path.clone(), file)).collect();
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    for path in paths {
        let (was, is) = (state(before, path), state(after, path));
        if was == is {
            continue;
        }
        let first = written.get(*path).filter(|file| file.after == was).map(|file| file.before);
        let file = WrittenFile { path: path.to_vec(), before: first.unwrap_or(was), after: is };
        written.insert(path.to_vec(), file);
    }
    written.into_values().filter(|file| file.before != file.after).collect()
}

/// The entries of the tree as if the gates had written nothing.
fn undo_writes<'a>(
    listing: &'a WorkTreeListing,
    written: &[WrittenFile],
) -> Vec<Cow<'a, TreeEntry>> {
    let by_path: BTreeMap<&[u8], &WrittenFile> =
        written.iter().map(|file| (file.path.as_slice(), file)).collect();
    let present = file_states(listing);
    let mut entries: Vec<Cow<'a, TreeEntry>> = Vec::with_capacity(listing.entries.len());
    for entry in &listing.entries {
        let state = Some((entry.mode as u8, entry.id.0));
        match by_path.get(entry.path.as_bytes()).filter(|file| file.after == state) {
            Some(file) => entries.extend(file.entry_before().map(Cow::Owned)),
            None => entries.push(Cow::Borrowed(entry)),
        }
    }
    let deleted = written.iter().filter(|file| file.after.is_none());
    let still_deleted = deleted.filter(|file| !present.contains_key(file.path.as_slice()));
    entries.extend(still_deleted.filter_map(WrittenFile::entry_before).map(Cow::Owned));
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    entries
}

impl WrittenFile {
    fn entry_before(&self) -> Option<TreeEntry> {
        let (mode, id) = self.before?;
        let modes = [
            TreeEntryMode::File,
            TreeEntryMode::Executable,
            TreeEntryMode::Symlink,
            TreeEntryMode::Repository,
        ];
        let mode = modes.into_iter().find(|known| *known as u8 == mode)?;
        let path = OsString::from_vec(self.path.clone());
        Some(TreeEntry { path, mode, id: ObjectId(id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_git::tree::FingerprintMemo;

    /// The trees before and after each run of gates.
    type GateRuns<'a> = &'a [(&'a str, &'a str)];

    /// `a1 b2` is a tree with the files `a` and `b` and their contents.
    fn tree(text: &str) -> WorkTreeListing {
        let entry = |word: &str| TreeEntry {
            path: OsString::from(&word[..1]),
            mode: TreeEntryMode::File,
            id: ObjectId([word.as_bytes()[1]; 32]),
        };
        let entries = text.split_whitespace().map(entry).collect();
        let (absent, memo) = (Vec::new(), FingerprintMemo::default());
        WorkTreeListing { root: "/".into(), head: None, entries, absent, memo }
    }

    /// R-V1e: what gates wrote is undone, in one or several runs of gates, and nothing else is.
    #[test]
    fn only_what_gates_wrote_is_undone() {
        let rows: [(&str, GateRuns<'_>, &str, &str); 7] = [
            ("edited", &[("a1 b1", "a2 b1")], "a2 b1", "a1 b1"),
            ("added", &[("a1", "a1 b1")], "a1 b1", "a1"),
            ("deleted", &[("a1 b1", "a1")], "a1", "a1 b1"),
            ("edited twice", &[("a1", "a2"), ("a2", "a3")], "a3", "a1"),
            ("restored", &[("a1", "a2"), ("a2", "a1")], "a1", "a1"),
            ("edited by the agent afterwards", &[("a1", "a2")], "a3", "a3"),
            ("edited by the agent in between", &[("a1", "a2"), ("a3", "a4")], "a4", "a3"),
        ];
        for (name, runs, now, expected) in rows {
            let mut written = Vec::new();
            for (before, after) in runs {
                let (before, after) = (tree(before), tree(after));
                written = merge_writes(written, &file_states(&before), &file_states(&after));
            }
            let (now, expected) = (tree(now), tree(expected));
            let undone: Vec<TreeEntry> =
                undo_writes(&now, &written).into_iter().map(Cow::into_owned).collect();
            assert_eq!(undone, expected.entries, "{name}");
        }
    }
}
