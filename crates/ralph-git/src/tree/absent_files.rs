//! Files that a sparse checkout leaves out. Whether one of them is a deletion depends on an earlier time: what was on
//! disk then and is not any more was deleted, whatever git's index says.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use super::{FingerprintMemo, TreeEntry, WorkTreeListing};

/// More than this cannot be recorded; then nothing that is left out counts as deleted.
const MAX_RECORDED: usize = 5_000;

/// The paths that were left out at some time. Whole directories are named once, with a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentPaths(pub Vec<String>);

impl AbsentPaths {
    /// `None` if there are too many to record.
    pub fn of_listing(listing: &WorkTreeListing) -> Option<Self> {
        let mut directories: BTreeSet<&Path> = BTreeSet::new();
        if !listing.absent.is_empty() {
            for entry in &listing.entries {
                for directory in Path::new(&entry.path).ancestors().skip(1) {
                    // The directories above a known one are known too.
                    if !directories.insert(directory) {
                        break;
                    }
                }
            }
        }
        let mut paths = BTreeSet::new();
        for entry in &listing.absent {
            let path = Path::new(&entry.path);
            let above: Vec<&Path> = path.ancestors().skip(1).collect();
            let outermost = above
                .into_iter()
                .rev()
                .find(|one| !one.as_os_str().is_empty() && !directories.contains(one));
            paths.insert(match outermost {
                Some(directory) => format!("{}/", directory.to_string_lossy()),
                None => path.to_string_lossy().into_owned(),
            });
            if paths.len() > MAX_RECORDED {
                return None;
            }
        }
        Some(Self(paths.into_iter().collect()))
    }

    fn contains(&self, path: &Path) -> bool {
        let path = path.to_string_lossy();
        let is_listed = |name: &str| self.0.binary_search_by(|one| one.as_str().cmp(name)).is_ok();
        let mut directories = path.match_indices('/').map(|(at, _)| path.get(..=at));
        is_listed(&path) || directories.any(|directory| directory.is_some_and(is_listed))
    }
}

impl WorkTreeListing {
    /// Makes deletions of the files that are left out now and were not at an earlier time.
    pub fn delete_newly_absent(&mut self, then: &AbsentPaths) {
        self.absent.retain(|entry| then.contains(Path::new(&entry.path)));
        self.memo = FingerprintMemo::default();
    }

    /// The same listing with the files that are left out among its entries, as in a commit.
    pub(crate) fn with_absent(&self) -> Cow<'_, Self> {
        if self.absent.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut entries: Vec<TreeEntry> =
            self.entries.iter().chain(&self.absent).cloned().collect();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let (root, head) = (self.root.clone(), self.head.clone());
        let memo = FingerprintMemo::default();
        Cow::Owned(Self { root, head, entries, absent: Vec::new(), memo })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ObjectId, TreeEntryMode};

    fn listing(on_disk: &[&str], absent: &[&str]) -> WorkTreeListing {
        let entries = |paths: &[&str]| {
            let entry = |path: &&str| TreeEntry {
                path: path.into(),
                mode: TreeEntryMode::File,
                id: ObjectId([1; 32]),
            };
            paths.iter().map(entry).collect()
        };
        let (entries, absent) = (entries(on_disk), entries(absent));
        let memo = FingerprintMemo::default();
        WorkTreeListing { root: "/".into(), head: None, entries, absent, memo }
    }

    /// R-L10a: directories that are left out as a whole are recorded once.
    #[test]
    fn whole_directories_are_recorded_once() {
        let then = listing(&["a/b/c", "d"], &["a/b/x", "a/e/f", "a/e/g", "h/i/j", "k"]);
        let paths = AbsentPaths::of_listing(&then).unwrap();
        assert_eq!(paths.0, ["a/b/x", "a/e/", "h/", "k"]);
        let mut now = listing(&["d"], &["a/b/c", "a/b/x", "a/e/new", "h/i/j", "kk"]);
        now.delete_newly_absent(&paths);
        let kept: Vec<_> = now.absent.iter().map(|entry| entry.path.to_string_lossy()).collect();
        assert_eq!(kept, ["a/b/x", "a/e/new", "h/i/j"]);
        let many: Vec<String> = (0..=MAX_RECORDED).map(|number| format!("{number:05}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(AbsentPaths::of_listing(&listing(&[], &many)), None);
        assert_eq!(AbsentPaths::of_listing(&listing(&["a"], &[])).unwrap().0, [""; 0]);
    }
}
