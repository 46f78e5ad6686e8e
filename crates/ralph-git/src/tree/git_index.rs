//! Reads git's index to find out which paths are tracked. Its metadata about files is not used, because the agent can
//! change it with any git command.

use std::ops::Range;

use super::sorted_paths::{PathCursor, SortedPaths};
use super::{ObjectFormat, ObjectId, TreeEntryMode};

/// Size of an entry's stat fields, which precede the id.
const STAT_BYTES: usize = 40;
const MODE_OFFSET: usize = 24;
/// Longer paths cannot be opened. A larger total is rejected, because it could exhaust memory.
const MAX_NAME_BYTES: usize = 4096;
const MAX_TOTAL_NAME_BYTES: usize = 1 << 30;
const EXTENDED_FLAG: u16 = 0x4000;
const STAGE_MASK: u16 = 0x3000;
const NAME_LENGTH_MASK: u16 = 0x0fff;
/// In the extended flags.
const SKIP_WORKTREE_FLAG: u16 = 0x4000;

const DIRECTORY_MODE: u32 = 0o040_000;
const SUBMODULE_MODE: u32 = 0o160_000;

/// Returns the output of `git ls-tree -r -z` for a tree id.
pub(super) type ExpandTree<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

#[derive(Debug, Default)]
pub(super) struct GitIndex {
    names: Vec<u8>,
    entries: Vec<(usize, TrackedEntry)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrackedEntry {
    File,
    /// Left out by a sparse checkout. While it is not on disk, the mode and id in the index count.
    Sparse(Box<(TreeEntryMode, ObjectId)>),
    Submodule(Box<ObjectId>),
}

impl TrackedEntry {
    pub(super) fn is_submodule(&self) -> bool {
        match self {
            Self::File => false,
            Self::Sparse(entry) => entry.0 == TreeEntryMode::Repository,
            Self::Submodule(_) => true,
        }
    }
}

impl SortedPaths for GitIndex {
    fn path(&self, at: usize) -> &[u8] {
        let end_of = |at: usize| self.entries.get(at).map_or(0, |(end, _)| *end);
        let start = at.checked_sub(1).map_or(0, end_of);
        self.names.get(start..end_of(at)).unwrap_or_default()
    }
}

impl GitIndex {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn tracked(&self, at: usize) -> Option<&TrackedEntry> {
        self.entries.get(at).map(|(_, tracked)| tracked)
    }

    /// The position of `path` if it is tracked as a submodule.
    pub(super) fn find_submodule(&self, path: &[u8], within: &Range<usize>) -> Option<usize> {
        let mut cursor = PathCursor::new(self, within.clone());
        cursor.skip_to(path);
        cursor.take(path).filter(|at| self.tracked(*at).is_some_and(TrackedEntry::is_submodule))
    }

    /// Parses an index file. Returns `None` if it is damaged or uses a feature that is left to git.
    pub(super) fn parse(
        bytes: &[u8],
        format: ObjectFormat,
        expand: ExpandTree<'_>,
    ) -> Option<Self> {
        let mut rest = IndexBytes(bytes.get(..bytes.len().checked_sub(format.id_len())?)?);
        if rest.take(4)? != b"DIRC" {
            return None;
        }
        let version = rest.read_u32()?;
        let count = usize::try_from(rest.read_u32()?).ok()?;
        if !(2..=4).contains(&version) || count > rest.0.len() / STAT_BYTES {
            return None;
        }
        let mut index =
            Self { names: Vec::with_capacity(bytes.len()), entries: Vec::with_capacity(count) };
        let mut name = Vec::new();
        for _ in 0..count {
            let (mode, id, is_sparse) = rest.read_entry(version, format, &mut name)?;
            if mode == DIRECTORY_MODE {
                index.add_directory(&name, &ObjectId::from_prefix(id), expand)?;
            } else {
                index.add(&[&name], mode, ObjectId::from_prefix(id), is_sparse)?;
            }
        }
        while !rest.0.is_empty() {
            let name = rest.take(4)?;
            let len = usize::try_from(rest.read_u32()?).ok()?;
            rest.take(len)?;
            // A lower-case name marks an extension that a reader must understand. `sdir` only announces that entries
            // for directories may occur.
            if name != b"sdir" && !name.first()?.is_ascii_uppercase() {
                return None;
            }
        }
        Some(index)
    }

    fn name_start(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |(end, _)| *end)
    }

    fn add(&mut self, path: &[&[u8]], mode: u32, id: ObjectId, is_sparse: bool) -> Option<()> {
        let start = self.names.len();
        for part in path {
            self.names.extend_from_slice(part);
        }
        let end = self.names.len();
        if end - start > MAX_NAME_BYTES || end > MAX_TOTAL_NAME_BYTES {
            return None;
        }
        let (before, name) = self.names.split_at_checked(start)?;
        if let Some(last) = self.entries.len().checked_sub(1) {
            let last = before.get(self.name_start(last)..)?;
            if last > name {
                return None;
            }
            // The stages of a merge conflict are one path.
            if last == name {
                self.names.truncate(start);
                return Some(());
            }
        }
        let mode = match mode >> 12 {
            0o10 if mode & 0o100 != 0 => TreeEntryMode::Executable,
            0o10 => TreeEntryMode::File,
            0o12 => TreeEntryMode::Symlink,
            0o16 => TreeEntryMode::Repository,
            _ => return None,
        };
        let tracked = match mode {
            _ if is_sparse => TrackedEntry::Sparse(Box::new((mode, id))),
            TreeEntryMode::Repository => TrackedEntry::Submodule(Box::new(id)),
            TreeEntryMode::File | TreeEntryMode::Executable | TreeEntryMode::Symlink => {
                TrackedEntry::File
            }
        };
        self.entries.push((end, tracked));
        Some(())
    }

    /// Adds the files of a directory that a sparse index stores as a single entry.
    fn add_directory(&mut self, path: &[u8], id: &ObjectId, expand: ExpandTree<'_>) -> Option<()> {
        let Some(tree) = expand(&id.hex()) else {
            // Without the tree, its files cannot be listed; keep the directory as one entry.
            let path = path.strip_suffix(b"/")?;
            return self.add(&[path], SUBMODULE_MODE, *id, true);
        };
        for (fields, below) in split_listing(&tree) {
            let [mode, _, id] = *fields?.as_slice() else { return None };
            let mode = u32::from_str_radix(mode, 8).ok()?;
            self.add(&[path, below], mode, ObjectId::from_hex(id)?, true)?;
        }
        Some(())
    }

    /// Parses the output of `git ls-files -t --stage -z`: `H 100644 <id> 0<tab><path>`.
    pub(super) fn from_listing(output: &[u8], expand: ExpandTree<'_>) -> Option<Self> {
        let mut index = Self::default();
        for (fields, path) in split_listing(output) {
            let [tag, mode, id, _] = *fields?.as_slice() else { return None };
            let mode = u32::from_str_radix(mode, 8).ok()?;
            let id = ObjectId::from_hex(id)?;
            if mode == DIRECTORY_MODE {
                index.add_directory(path, &id, expand)?;
            } else {
                index.add(&[path], mode, id, tag == "S")?;
            }
        }
        Some(index)
    }
}

/// Splits NUL-terminated records into space-separated fields and the path that follows a tab.
fn split_listing(output: &[u8]) -> impl Iterator<Item = (Option<Vec<&str>>, &[u8])> {
    let records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records.map(|record| {
        let (fields, path) = record.split_at(memchr::memchr(b'\t', record).unwrap_or(0));
        let fields = std::str::from_utf8(fields).ok().map(|fields| fields.split(' ').collect());
        (fields, path.get(1..).unwrap_or_default())
    })
}

/// Whether the path cannot lead out of the work tree or into `.git`.
pub(super) fn is_safe_path(path: &[u8]) -> bool {
    let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b".." | b".git");
    !path.contains(&0) && path.split(|byte| *byte == b'/').all(is_plain)
}

/// The bytes of an index file that are not parsed yet.
struct IndexBytes<'a>(&'a [u8]);

impl<'a> IndexBytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns the mode, the id and whether the entry is sparse. `name` holds the previous entry's name and receives
    /// this one's: version 4 stores names as differences.
    fn read_entry(
        &mut self,
        version: u32,
        format: ObjectFormat,
        name: &mut Vec<u8>,
    ) -> Option<(u32, &'a [u8], bool)> {
        let before = self.0.len();
        let mode = IndexBytes(self.take(STAT_BYTES)?.get(MODE_OFFSET..)?).read_u32()?;
        let id = self.take(format.id_len())?;
        let flags = self.read_u16()?;
        let extended = if flags & EXTENDED_FLAG != 0 && version > 2 { self.read_u16()? } else { 0 };
        if version == 4 {
            name.truncate(name.len().checked_sub(self.read_varint()?)?);
            name.extend_from_slice(self.read_until_nul()?);
        } else {
            name.clear();
            if flags & NAME_LENGTH_MASK == NAME_LENGTH_MASK {
                name.extend_from_slice(self.read_until_nul()?);
            } else {
                name.extend_from_slice(self.take(usize::from(flags & NAME_LENGTH_MASK))?);
                (self.take(1)? == b"\0").then_some(())?;
            }
            // Entries are padded with NULs to a multiple of eight bytes.
            let used = before - self.0.len();
            self.take(used.next_multiple_of(8) - used)?;
        }
        Some((mode, id, extended & SKIP_WORKTREE_FLAG != 0 && flags & STAGE_MASK == 0))
    }

    fn read_u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn read_u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn read_until_nul(&mut self) -> Option<&'a [u8]> {
        let taken = self.take(memchr::memchr(0, self.0)?)?;
        self.take(1)?;
        Some(taken)
    }

    /// Reads git's offset encoding: seven bits per byte, most significant first, with one added for each further byte.
    fn read_varint(&mut self) -> Option<usize> {
        let mut value = 0usize;
        for place in 0..5 {
            let byte = *self.take(1)?.first()?;
            value = (value + usize::from(place > 0)) << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds an index file of the given version with these names.
    fn encode_index(version: u32, names: &[&str]) -> Vec<u8> {
        let mut bytes = [&b"DIRC"[..], &version.to_be_bytes()].concat();
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut last = "";
        for name in names {
            let start = bytes.len();
            bytes.extend([0; MODE_OFFSET]);
            bytes.extend(0o100_644u32.to_be_bytes());
            bytes.extend([0; STAT_BYTES - MODE_OFFSET - 4]);
            bytes.extend([7; 20]);
            bytes.extend(u16::try_from(name.len()).unwrap().min(NAME_LENGTH_MASK).to_be_bytes());
            if version == 4 {
                bytes.push(u8::try_from(last.len()).unwrap());
                bytes.extend(name.as_bytes());
                bytes.push(0);
            } else {
                bytes.extend(name.as_bytes());
                bytes.push(0);
                let used = bytes.len() - start;
                bytes.resize(start + used.next_multiple_of(8), 0);
            }
            last = name;
        }
        bytes.extend(b"TREE\0\0\0\x02xx");
        bytes.extend([0; 20]);
        bytes
    }

    fn parse_sha1_index(bytes: &[u8]) -> Option<GitIndex> {
        GitIndex::parse(bytes, ObjectFormat::Sha1, &|_| None)
    }

    fn index_paths(index: &GitIndex) -> Vec<String> {
        (0..index.len()).map(|at| index.path(at).escape_ascii().to_string()).collect()
    }

    #[test]
    fn damaged_or_unknown_files_are_rejected() {
        let long = "x".repeat(4090);
        for version in 2..=4 {
            let good = encode_index(version, &["a", "b/c", "b/d", "e"]);
            let index = parse_sha1_index(&good).unwrap();
            assert_eq!(index_paths(&index), ["a", "b/c", "b/d", "e"], "version {version}");
            for len in 0..good.len() {
                // Without its last extension, the file is still complete.
                let cut = parse_sha1_index(&good[..len]).map(|index| index_paths(&index));
                assert!(cut.is_none_or(|names| names.len() == 4), "{len} bytes");
            }
            let unsorted = encode_index(version, &["b", "a"]);
            assert!(parse_sha1_index(&unsorted).is_none());
        }
        let index = parse_sha1_index(&encode_index(2, &["a", &long])).unwrap();
        assert_eq!(index_paths(&index), ["a", &long]);
        let twice = parse_sha1_index(&encode_index(3, &["a", "b", "b", "c"])).unwrap();
        assert_eq!(index_paths(&twice), ["a", "b", "c"]);
        assert!(parse_sha1_index(&encode_index(5, &[])).is_none());
        let mut required = encode_index(2, &["a"]);
        let at = required.len() - 30;
        required[at..at + 4].copy_from_slice(b"link");
        assert!(parse_sha1_index(&required).is_none());
    }

    #[test]
    fn a_sparse_directory_is_expanded() {
        let id = "1234567890123456789012345678901234567890";
        let listing = format!("H 100644 {id} 0\ta\0S 040000 {id} 0\tdir/\0S 100755 {id} 0\te\0");
        let tree = format!("100644 blob {id}\tb\x00160000 commit {id}\tc/d\0");
        let index = GitIndex::from_listing(listing.as_bytes(), &|asked| {
            (asked == id).then(|| tree.clone().into_bytes())
        });
        let index = index.unwrap();
        assert_eq!(index_paths(&index), ["a", "dir/b", "dir/c/d", "e"]);
        let sparse = |mode| TrackedEntry::Sparse(Box::new((mode, ObjectId::from_hex(id).unwrap())));
        let found: Vec<_> = (0..4).filter_map(|at| index.tracked(at).cloned()).collect();
        let expected = [
            TrackedEntry::File,
            sparse(TreeEntryMode::File),
            sparse(TreeEntryMode::Repository),
            sparse(TreeEntryMode::Executable),
        ];
        assert_eq!(found, expected);
        let unknown = GitIndex::from_listing(listing.as_bytes(), &|_| None).unwrap();
        assert_eq!(index_paths(&unknown), ["a", "dir", "e"]);
        assert!(GitIndex::from_listing(b"nonsense\0", &|_| None).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            version in 2..5u32,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = encode_index(version, &["a", "b/c", "b/cd", "e"]);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.extend(&rest);
            for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
                if let Some(index) = GitIndex::parse(&bytes, format, &|_| None) {
                    prop_assert!(index_paths(&index).len() == index.len());
                }
                drop(GitIndex::parse(&rest, format, &|_| None));
            }
            drop(GitIndex::from_listing(&bytes, &|_| None));
            drop(GitIndex::from_listing(&rest, &|_| Some(rest.clone())));
        }
    }
}
