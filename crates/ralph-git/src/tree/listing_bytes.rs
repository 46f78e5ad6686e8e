//! A listing as bytes, to hand it to another process: reading them is much cheaper than listing a large tree again.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::{FingerprintMemo, ObjectId, TreeEntry, TreeEntryMode, WorkTreeListing};

const ID_BYTES: usize = 32;
/// An entry without its path: the mode, the id and a zero byte.
const ENTRY_BYTES: usize = ID_BYTES + 2;
/// The root, the commit and the counts are hardly longer.
const MAX_HEADER_BYTES: usize = 8 * 1024;
const MODES: [TreeEntryMode; 4] = [
    TreeEntryMode::File,
    TreeEntryMode::Executable,
    TreeEntryMode::Symlink,
    TreeEntryMode::Repository,
];

impl WorkTreeListing {
    /// The root and the commit, then both lists of entries. A zero byte ends every text, as no path has one.
    pub fn append_bytes(&self, bytes: &mut Vec<u8>) {
        let paths = self.entries.iter().chain(&self.absent).map(|entry| entry.path.len());
        bytes.reserve(paths.map(|length| length + ENTRY_BYTES).sum::<usize>() + MAX_HEADER_BYTES);
        let head = self.head.as_deref().unwrap_or("");
        for text in [self.root.as_os_str().as_bytes(), head.as_bytes()] {
            bytes.extend(text);
            bytes.push(0);
        }
        for list in [&self.entries, &self.absent] {
            bytes.extend((list.len() as u64).to_le_bytes());
            for entry in list {
                bytes.push(entry.mode as u8);
                bytes.extend(entry.id.0);
                bytes.extend(entry.path.as_bytes());
                bytes.push(0);
            }
        }
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (root, rest) = split_text(bytes)?;
        let (head, rest) = split_text(rest)?;
        let head = Some(String::from_utf8(head.to_vec()).ok()?).filter(|head| !head.is_empty());
        let (entries, rest) = split_entries(rest)?;
        let (absent, rest) = split_entries(rest)?;
        let root = OsString::from_vec(root.to_vec()).into();
        let memo = FingerprintMemo::default();
        rest.is_empty().then_some(Self { root, head, entries, absent, memo })
    }
}

fn split_entries(bytes: &[u8]) -> Option<(Vec<TreeEntry>, &[u8])> {
    let (count, mut rest) = bytes.split_first_chunk::<8>()?;
    let count = u64::from_le_bytes(*count);
    let most = rest.len() / ENTRY_BYTES;
    let mut entries =
        Vec::with_capacity(usize::try_from(count).map_or(most, |count| count.min(most)));
    for _ in 0..count {
        let (mode, after) = rest.split_first()?;
        let mode = MODES.into_iter().find(|known| *known as u8 == *mode)?;
        let (id, after) = after.split_first_chunk::<ID_BYTES>()?;
        let (path, after) = split_text(after)?;
        let path = OsString::from_vec(path.to_vec());
        entries.push(TreeEntry { path, mode, id: ObjectId(*id) });
        rest = after;
    }
    Some((entries, rest))
}

fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_the_same_afterwards() {
        let entry = |path: &[u8], mode, id| TreeEntry {
            path: OsString::from_vec(path.to_vec()),
            mode,
            id: ObjectId([id; ID_BYTES]),
        };
        let entries = vec![
            entry(b"a \xff\n", TreeEntryMode::File, 0),
            entry(b"b/run", TreeEntryMode::Executable, 1),
            entry(b"c", TreeEntryMode::Symlink, 2),
            entry(b"d", TreeEntryMode::Repository, 255),
        ];
        for listing in [
            WorkTreeListing {
                root: "/r".into(),
                head: Some("0af".into()),
                entries,
                absent: vec![entry(b"x/y", TreeEntryMode::File, 3)],
                memo: FingerprintMemo::default(),
            },
            WorkTreeListing {
                root: "/".into(),
                head: None,
                entries: Vec::new(),
                absent: Vec::new(),
                memo: FingerprintMemo::default(),
            },
        ] {
            let mut bytes = Vec::new();
            listing.append_bytes(&mut bytes);
            assert_eq!(WorkTreeListing::from_bytes(&bytes), Some(listing));
            assert_eq!(WorkTreeListing::from_bytes(&bytes[..bytes.len() - 1]), None);
        }
    }
}
