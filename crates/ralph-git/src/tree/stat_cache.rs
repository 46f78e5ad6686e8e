//! The stat cache: the names, metadata and ids found by the last listing, by directory. An unchanged directory is not
//! listed again, and an unchanged file is not read again.
//!
//! The metadata includes the change time (ctime), which only the kernel sets: restoring a file's size and modification
//! time does not hide an edit. A file that changed just before it was read could change once more within the same clock
//! tick, so it is not cached.

use std::ops::Range;
use std::path::Path;

use super::{ObjectFormat, ObjectId};
use ralph_sys::fs::dir_handle::FileStamp;
use ralph_sys::fs::{self, Durability, FileKind};

/// The coarsest time stamps of a file system in common use (FAT).
const CLOCK_TICK_NS: i64 = 2_000_000_000;
const MAGIC: &[u8; 8] = b"ralphst1";
const CHECKSUM_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + CHECKSUM_BYTES + 8;
const KEY_BYTES: usize = 6 * 8;
/// The end of the path, the directory's key, the end of its contents.
const DIRECTORY_RECORD_BYTES: usize = 4 + KEY_BYTES + 8;
const ID_BYTES: usize = 32;
/// A file's key and id.
pub(super) const FILE_RECORD_BYTES: usize = KEY_BYTES + ID_BYTES;
const MAX_CACHE_BYTES: usize = 1 << 30;
/// The cache file is written again only if enough is new: more records than this plus one in [`MIN_NEW_SHARE`], or
/// [`MIN_NEW_BYTES`]. In tests, one record is enough.
const MIN_NEW_RECORDS: usize = if cfg!(test) { 0 } else { 16 };
const MIN_NEW_SHARE: usize = 64;
const MIN_NEW_BYTES: u64 = 1 << 20;

/// Directories sorted by path: fixed-size records, then their paths, then their contents. Inconsistent records are
/// treated as missing.
#[derive(Debug, Default)]
pub(super) struct StatCache {
    bytes: Vec<u8>,
    count: usize,
}

/// A directory in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedDirectory<'a> {
    pub(super) at: usize,
    key: &'a [u8],
    pub(super) contents: &'a [u8],
}

/// A name in a cached directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CachedName {
    pub(super) kind: FileKind,
    /// Position of the name in the contents; a NUL follows.
    pub(super) name: Range<usize>,
    /// Position of the file's record in the contents.
    pub(super) file_record: Option<usize>,
}

/// A directory for the next cache.
#[derive(Debug)]
pub(super) enum DirectoryVisit {
    /// Unchanged since the last listing, by its position in the old cache.
    Unchanged(usize),
    New(ScannedDirectory),
}

#[derive(Debug)]
pub(super) struct ScannedDirectory {
    pub(super) path: Vec<u8>,
    pub(super) key: StatKey,
    pub(super) contents: Vec<u8>,
}

/// All directories for the next cache.
#[derive(Debug, Default)]
pub(super) struct DirectoryVisits {
    pub(super) all: Vec<DirectoryVisit>,
    /// Number of records that the old cache does not have.
    pub(super) new_records: usize,
    pub(super) new_bytes: u64,
}

/// Whether directories that were not visited no longer exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkExtent {
    Whole,
    /// The walk was cut short.
    Partial,
}

/// Metadata of a file or directory, encoded for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatKey([u8; KEY_BYTES]);

impl StatKey {
    pub(super) fn new(stamp: &FileStamp, format: ObjectFormat) -> Self {
        let kind = [format as u8 + 1, stamp.kind as u8, 0, 0];
        let mut key = [0; KEY_BYTES];
        let words = [
            stamp.device.to_le_bytes(),
            stamp.inode.to_le_bytes(),
            stamp.len.to_le_bytes(),
            stamp.modified_ns.to_le_bytes(),
            stamp.changed_ns.to_le_bytes(),
        ];
        let (flags, numbers) = key.split_at_mut(8);
        let (mode, rest) = flags.split_at_mut(4);
        mode.copy_from_slice(&stamp.mode.to_le_bytes());
        rest.copy_from_slice(&kind);
        numbers.copy_from_slice(words.as_flattened());
        Self(key)
    }

    /// A key that no file has.
    pub(super) fn unmatchable() -> Self {
        Self([0; KEY_BYTES])
    }
}

/// Whether a file with this stamp, read after `taken_ns`, cannot change without getting another stamp.
pub(super) fn is_settled(stamp: &FileStamp, taken_ns: i64) -> bool {
    stamp.changed_ns.max(stamp.modified_ns) < taken_ns.saturating_sub(CLOCK_TICK_NS)
}

impl StatCache {
    /// A missing or damaged file gives an empty cache.
    pub(super) fn load(path: &Path) -> Self {
        fs::read(path, MAX_CACHE_BYTES).ok().and_then(Self::parse).unwrap_or_default()
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (checksum, rest) = rest.split_first_chunk::<CHECKSUM_BYTES>()?;
        if blake3::hash(rest) != *checksum {
            return None;
        }
        let count = usize::try_from(u64::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let fits = count.checked_mul(DIRECTORY_RECORD_BYTES).is_some_and(|len| len <= rest.len());
        fits.then_some(Self { bytes, count })
    }

    fn record(&self, at: usize) -> Option<&[u8; DIRECTORY_RECORD_BYTES]> {
        self.bytes
            .get(HEADER_BYTES + at * DIRECTORY_RECORD_BYTES..)?
            .first_chunk()
            .filter(|_| at < self.count)
    }

    fn path_end(&self, at: usize) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(*self.record(at)?.first_chunk()?)).ok()
    }

    fn contents_end(&self, at: usize) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(*self.record(at)?.last_chunk()?)).ok()
    }

    fn path(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.path_end(before))?;
        self.bytes
            .get(HEADER_BYTES + self.count * DIRECTORY_RECORD_BYTES..)?
            .get(start..self.path_end(at)?)
    }

    fn directory(&self, at: usize) -> Option<CachedDirectory<'_>> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.contents_end(before))?;
        let paths = self.path_end(self.count.checked_sub(1)?)?;
        let all = self
            .bytes
            .get((HEADER_BYTES + self.count * DIRECTORY_RECORD_BYTES).checked_add(paths)?..)?;
        let contents = all.get(start..self.contents_end(at)?)?;
        let key = self.record(at)?.get(4..4 + KEY_BYTES)?;
        Some(CachedDirectory { at, key, contents })
    }

    pub(super) fn find(&self, path: &[u8]) -> Option<CachedDirectory<'_>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.path(middle)? < path {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.directory(low).filter(|_| self.path(low) == Some(path))
    }
}

impl<'a> CachedDirectory<'a> {
    pub(super) fn has_key(&self, key: &StatKey) -> bool {
        self.key == key.0
    }

    /// The names, sorted by their bytes. Yields `None` at the first one that does not parse, then ends.
    pub(super) fn names(self) -> impl Iterator<Item = Option<CachedName>> + 'a {
        let mut rest = Some(0);
        std::iter::from_fn(move || {
            let from = rest.filter(|from| *from < self.contents.len())?;
            let line = self.parse_name(from);
            rest = line.as_ref().map(|(_, next)| *next);
            Some(line.map(|(line, _)| line))
        })
    }

    fn parse_name(&self, from: usize) -> Option<(CachedName, usize)> {
        let flags = *self.contents.get(from)?;
        let kind = match flags & 3 {
            0 => FileKind::File,
            1 => FileKind::Symlink,
            2 => FileKind::Directory,
            _ => return None,
        };
        let start = from + 1;
        let end = start + memchr::memchr(0, self.contents.get(start..)?)?;
        if flags & 4 == 0 {
            return Some((CachedName { kind, name: start..end, file_record: None }, end + 1));
        }
        let next = end + 1 + FILE_RECORD_BYTES;
        (next <= self.contents.len())
            .then_some((CachedName { kind, name: start..end, file_record: Some(end + 1) }, next))
    }

    /// The id in the file record at `known`, if the file's key has not changed.
    pub(super) fn id_if_unchanged(&self, known: usize, key: &StatKey) -> Option<ObjectId> {
        let rest = self.contents.get(known..)?.strip_prefix(&key.0)?;
        Some(ObjectId(*rest.first_chunk()?))
    }

    /// The encoded file record at `known`.
    pub(super) fn file_record(&self, known: usize) -> Option<&'a [u8]> {
        self.contents.get(known..known + FILE_RECORD_BYTES)
    }
}

/// Adds a name to a directory's contents.
pub(super) fn append_name(
    contents: &mut Vec<u8>,
    kind: FileKind,
    name: &[u8],
    known: Option<&[u8]>,
) {
    let kind = match kind {
        FileKind::File => 0,
        FileKind::Symlink => 1,
        FileKind::Directory => 2,
        FileKind::Other => return,
    };
    contents.push(if known.is_some() { kind | 4 } else { kind });
    contents.extend_from_slice(name);
    contents.push(0);
    contents.extend_from_slice(known.unwrap_or_default());
}

/// Encodes a file record for [`append_name`].
pub(super) fn encode_file_record(key: &StatKey, id: &ObjectId) -> [u8; FILE_RECORD_BYTES] {
    let mut known = [0; FILE_RECORD_BYTES];
    let (first, last) = known.split_at_mut(KEY_BYTES);
    first.copy_from_slice(&key.0);
    last.copy_from_slice(&id.0);
    known
}

/// Writes the next cache if enough is new. Errors are ignored: without the cache, listing is only slower.
pub(super) fn save_cache(
    path: &Path,
    old: &StatCache,
    visits: &DirectoryVisits,
    extent: WalkExtent,
) {
    let is_new = visits.new_records > MIN_NEW_RECORDS + visits.all.len() / MIN_NEW_SHARE;
    let is_stale =
        extent == WalkExtent::Whole && old.count / 2 > visits.all.len() + MIN_NEW_RECORDS;
    if !is_new && !is_stale && visits.new_bytes < MIN_NEW_BYTES {
        return;
    }
    let Some(bytes) = merge_visits(old, visits, extent) else { return };
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_private_dir)
        .and_then(|()| fs::replace(path, &bytes, Durability::Cached));
    written.ok();
}

fn merge_visits(old: &StatCache, visits: &DirectoryVisits, extent: WalkExtent) -> Option<Vec<u8>> {
    let mut is_kept = vec![extent == WalkExtent::Partial; old.count];
    let mut new = Vec::new();
    for visit in &visits.all {
        match visit {
            DirectoryVisit::Unchanged(at) => *is_kept.get_mut(*at)? = true,
            DirectoryVisit::New(directory) => new.push(directory),
        }
    }
    new.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut new = new.into_iter().peekable();
    let mut next = StatCacheWriter::default();
    for (at, _) in is_kept.iter().enumerate().filter(|(_, is_kept)| **is_kept) {
        let path = old.path(at)?;
        while let Some(directory) = new.next_if(|directory| *directory.path < *path) {
            next.add(&directory.path, &directory.key.0, &directory.contents)?;
        }
        if new.peek().is_none_or(|directory| directory.path != path) {
            let directory = old.directory(at)?;
            next.add(path, directory.key, directory.contents)?;
        }
    }
    for directory in new {
        next.add(&directory.path, &directory.key.0, &directory.contents)?;
    }
    next.finish()
}

#[derive(Default)]
struct StatCacheWriter {
    records: Vec<u8>,
    paths: Vec<u8>,
    contents: Vec<u8>,
    count: u64,
}

impl StatCacheWriter {
    fn add(&mut self, path: &[u8], key: &[u8], contents: &[u8]) -> Option<()> {
        self.paths.extend_from_slice(path);
        self.contents.extend_from_slice(contents);
        let end = u32::try_from(self.paths.len()).ok()?;
        self.records.extend_from_slice(&end.to_le_bytes());
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(&(self.contents.len() as u64).to_le_bytes());
        self.count += 1;
        Some(())
    }

    fn finish(self) -> Option<Vec<u8>> {
        let count = self.count.to_le_bytes();
        let parts = [&count[..], &self.records, &self.paths, &self.contents];
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        let bytes = [&[MAGIC, &hasher.finalize().as_bytes()[..]][..], &parts].concat().concat();
        (bytes.len() <= MAX_CACHE_BYTES).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: FileStamp = FileStamp {
        kind: FileKind::File,
        mode: 0o644,
        device: 1,
        inode: 2,
        len: 3,
        modified_ns: 4,
        changed_ns: 5,
    };

    fn new(path: &str, names: &[(FileKind, &str)], id: u8) -> ScannedDirectory {
        let mut contents = Vec::new();
        let known =
            encode_file_record(&StatKey::new(&STAMP, ObjectFormat::Sha1), &ObjectId([id; 32]));
        for (kind, name) in names {
            let known = (*kind == FileKind::File).then_some(&known[..]);
            append_name(&mut contents, *kind, name.as_bytes(), known);
        }
        let key = StatKey::new(&FileStamp { inode: id.into(), ..STAMP }, ObjectFormat::Sha1);
        ScannedDirectory { path: path.into(), key, contents }
    }

    fn all_new(all: Vec<DirectoryVisit>) -> DirectoryVisits {
        DirectoryVisits { all, new_records: usize::MAX, new_bytes: 0 }
    }

    fn cache_lines(cache: &StatCache) -> Vec<String> {
        let one = |at| {
            let directory = cache.directory(at).unwrap();
            let names = directory.names().map(|line| {
                let line = line.unwrap();
                let name = directory.contents[line.name].escape_ascii().to_string();
                let key = StatKey::new(&STAMP, ObjectFormat::Sha1);
                let id = line
                    .file_record
                    .map(|known| directory.id_if_unchanged(known, &key).unwrap().0[0]);
                format!("{name}:{id:?}")
            });
            let names = names.collect::<Vec<_>>().join(" ");
            format!("{}{names}", cache.path(at).unwrap().escape_ascii())
        };
        (0..cache.count).map(one).collect()
    }

    #[test]
    fn directories_are_kept_replaced_and_dropped() {
        let names = [(FileKind::Directory, "d"), (FileKind::File, "f"), (FileKind::Symlink, "l")];
        let first = ["", "a/", "b/"].map(|path| DirectoryVisit::New(new(path, &names, 1)));
        let bytes =
            merge_visits(&StatCache::default(), &all_new(first.into()), WalkExtent::Whole).unwrap();
        let old = StatCache::parse(bytes).unwrap();
        let whole = "d:None f:Some(1) l:None";
        assert_eq!(cache_lines(&old), [whole, &format!("a/{whole}"), &format!("b/{whole}")]);

        let again =
            || vec![DirectoryVisit::New(new("ab/", &names[1..2], 2)), DirectoryVisit::Unchanged(0)];
        let replaced = DirectoryVisit::New(new("b/", &names[1..2], 3));
        for (extent, more, expected) in [
            (WalkExtent::Whole, None, &[whole, "ab/f:Some(2)"][..]),
            (
                WalkExtent::Partial,
                None,
                &[whole, "a/d:None f:Some(1) l:None", "ab/f:Some(2)", "b/d:None f:Some(1) l:None"],
            ),
            (
                WalkExtent::Partial,
                Some(replaced),
                &[whole, "a/d:None f:Some(1) l:None", "ab/f:Some(2)", "b/f:Some(3)"],
            ),
        ] {
            let all = again().into_iter().chain(more).collect();
            let bytes = merge_visits(&old, &all_new(all), extent).unwrap();
            assert_eq!(cache_lines(&StatCache::parse(bytes).unwrap()), expected);
        }
        assert!(
            old.find(b"a/")
                .unwrap()
                .has_key(&StatKey::new(&FileStamp { inode: 1, ..STAMP }, ObjectFormat::Sha1))
        );
        assert!(old.find(b"aa/").is_none() && old.find(b"z").is_none());
    }

    #[test]
    fn any_difference_in_metadata_invalidates_a_record() {
        let directory = new("", &[(FileKind::File, "f")], 1);
        let bytes = merge_visits(
            &StatCache::default(),
            &all_new(vec![DirectoryVisit::New(directory)]),
            WalkExtent::Whole,
        );
        let cache = StatCache::parse(bytes.unwrap()).unwrap();
        let found = cache.find(b"").unwrap();
        let known = found.names().next().flatten().unwrap().file_record.unwrap();
        let id = |stamp, format| found.id_if_unchanged(known, &StatKey::new(&stamp, format));
        assert_eq!(id(STAMP, ObjectFormat::Sha1), Some(ObjectId([1; 32])));
        assert_eq!(id(STAMP, ObjectFormat::Sha256), None);
        for other in [
            FileStamp { mode: 0o755, ..STAMP },
            FileStamp { device: 9, ..STAMP },
            FileStamp { inode: 9, ..STAMP },
            FileStamp { len: 9, ..STAMP },
            FileStamp { modified_ns: 9, ..STAMP },
            FileStamp { changed_ns: 9, ..STAMP },
            FileStamp { kind: FileKind::Directory, ..STAMP },
        ] {
            assert_eq!(id(other, ObjectFormat::Sha1), None, "{other:?}");
        }
    }

    #[test]
    fn a_change_within_a_tick_is_not_settled() {
        for (changed_ns, modified_ns, expected) in [
            (0, 0, true),
            (CLOCK_TICK_NS - 1, 0, true),
            (CLOCK_TICK_NS, 0, false),
            (0, CLOCK_TICK_NS, false),
            (i64::MAX, 0, false),
        ] {
            let stamp = FileStamp { modified_ns, changed_ns, ..STAMP };
            assert_eq!(is_settled(&stamp, 2 * CLOCK_TICK_NS), expected, "{stamp:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            count in 0..4u64,
            rest in prop::collection::vec(prop_oneof![4 => 0..8u8, 1 => any::<u8>()], 0..400),
        ) {
            let body = [&count.to_le_bytes()[..], &rest].concat();
            let checksum = blake3::hash(&body);
            let bytes = [MAGIC, &checksum.as_bytes()[..], &body].concat();
            if let Some(cache) = StatCache::parse(bytes) {
                for at in 0..cache.count {
                    let Some(directory) = cache.directory(at) else { continue };
                    for line in directory.names().flatten() {
                        let known = line.file_record.unwrap_or(usize::MAX / 2);
                        prop_assert_eq!(directory.file_record(known).is_some(), line.file_record.is_some());
                    }
                }
                prop_assert!(cache.find(b"a/").is_none_or(|found| found.at < cache.count));
                drop(merge_visits(&cache, &all_new(vec![DirectoryVisit::Unchanged(0)]), WalkExtent::Partial));
            }
        }
    }
}
