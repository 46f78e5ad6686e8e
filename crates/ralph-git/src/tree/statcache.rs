//! The stat cache: the names, metadata and ids found by the last listing, by directory. An unchanged directory is not
//! listed again, and an unchanged file is not read again.
//!
//! The metadata includes the change time (ctime), which only the kernel sets: restoring a file's size and modification
//! time does not hide an edit. A file that changed just before it was read could change once more within the same clock
//! tick, so it is not cached.

use std::ops::Range;
use std::path::Path;

use super::{Format, ObjectId};
use ralph_sys::fs::at::Stamp;
use ralph_sys::fs::{self, Durability, Kind};

/// The coarsest time stamps of a file system in common use (FAT).
const TICK_NS: i64 = 2_000_000_000;
const MAGIC: &[u8; 8] = b"ralphst1";
const CHECKSUM: usize = 32;
const HEADER: usize = MAGIC.len() + CHECKSUM + 8;
const KEY: usize = 6 * 8;
/// The end of the path, the directory's key, the end of its contents.
const RECORD: usize = 4 + KEY + 8;
const ID: usize = 32;
/// A file's key and id.
pub(super) const KNOWN: usize = KEY + ID;
const CAP: usize = 1 << 30;
/// The cache file is written again only if enough is new: more records than this plus one in [`MIN_NEW_SHARE`], or
/// [`MIN_NEW_BYTES`]. In tests, one record is enough.
const WORTH: usize = if cfg!(test) { 0 } else { 16 };
const WORTH_SHARE: usize = 64;
const WORTH_BYTES: u64 = 1 << 20;

/// Directories sorted by path: fixed-size records, then their paths, then their contents. Inconsistent records are
/// treated as missing.
#[derive(Debug, Default)]
pub(super) struct Cache {
    bytes: Vec<u8>,
    count: usize,
}

/// A directory in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered<'a> {
    pub(super) at: usize,
    key: &'a [u8],
    pub(super) contents: &'a [u8],
}

/// A name in a cached directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: Kind,
    /// Position of the name in the contents; a NUL follows.
    pub(super) name: Range<usize>,
    /// Position of the file's record in the contents.
    pub(super) known: Option<usize>,
}

/// A directory for the next cache.
#[derive(Debug)]
pub(super) enum Visit {
    /// Unchanged since the last listing, by its position in the old cache.
    Same(usize),
    New(NewDirectory),
}

#[derive(Debug)]
pub(super) struct NewDirectory {
    pub(super) path: Vec<u8>,
    pub(super) key: Key,
    pub(super) contents: Vec<u8>,
}

/// All directories for the next cache.
#[derive(Debug, Default)]
pub(super) struct Visits {
    pub(super) all: Vec<Visit>,
    /// Number of records that the old cache does not have.
    pub(super) news: usize,
    pub(super) new_bytes: u64,
}

/// Whether directories that were not visited no longer exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// The walk was cut short.
    Part,
}

/// Metadata of a file or directory, encoded for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u8; KEY]);

impl Key {
    pub(super) fn new(stamp: &Stamp, format: Format) -> Self {
        let kind = [format as u8 + 1, stamp.kind as u8, 0, 0];
        let mut key = [0; KEY];
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
    pub(super) fn never() -> Self {
        Self([0; KEY])
    }
}

/// Whether a file with this stamp, read after `taken_ns`, cannot change without getting another stamp.
pub(super) fn is_settled(stamp: &Stamp, taken_ns: i64) -> bool {
    stamp.changed_ns.max(stamp.modified_ns) < taken_ns.saturating_sub(TICK_NS)
}

impl Cache {
    /// A missing or damaged file gives an empty cache.
    pub(super) fn load(path: &Path) -> Self {
        fs::read(path, CAP).ok().and_then(Self::parse).unwrap_or_default()
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (checksum, rest) = rest.split_first_chunk::<CHECKSUM>()?;
        if blake3::hash(rest) != *checksum {
            return None;
        }
        let count = usize::try_from(u64::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let fits = count.checked_mul(RECORD).is_some_and(|len| len <= rest.len());
        fits.then_some(Self { bytes, count })
    }

    fn record(&self, at: usize) -> Option<&[u8; RECORD]> {
        self.bytes.get(HEADER + at * RECORD..)?.first_chunk().filter(|_| at < self.count)
    }

    fn path_end(&self, at: usize) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(*self.record(at)?.first_chunk()?)).ok()
    }

    fn contents_end(&self, at: usize) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(*self.record(at)?.last_chunk()?)).ok()
    }

    fn path(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.path_end(before))?;
        self.bytes.get(HEADER + self.count * RECORD..)?.get(start..self.path_end(at)?)
    }

    fn directory(&self, at: usize) -> Option<Remembered<'_>> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.contents_end(before))?;
        let paths = self.path_end(self.count.checked_sub(1)?)?;
        let all = self.bytes.get((HEADER + self.count * RECORD).checked_add(paths)?..)?;
        let contents = all.get(start..self.contents_end(at)?)?;
        let key = self.record(at)?.get(4..4 + KEY)?;
        Some(Remembered { at, key, contents })
    }

    pub(super) fn find(&self, path: &[u8]) -> Option<Remembered<'_>> {
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

impl<'a> Remembered<'a> {
    pub(super) fn is(&self, key: &Key) -> bool {
        self.key == key.0
    }

    /// The names, sorted by their bytes. Yields `None` at the first one that does not parse, then ends.
    pub(super) fn lines(self) -> impl Iterator<Item = Option<Line>> + 'a {
        let mut rest = Some(0);
        std::iter::from_fn(move || {
            let from = rest.filter(|from| *from < self.contents.len())?;
            let line = self.line(from);
            rest = line.as_ref().map(|(_, next)| *next);
            Some(line.map(|(line, _)| line))
        })
    }

    fn line(&self, from: usize) -> Option<(Line, usize)> {
        let flags = *self.contents.get(from)?;
        let kind = match flags & 3 {
            0 => Kind::File,
            1 => Kind::Symlink,
            2 => Kind::Directory,
            _ => return None,
        };
        let start = from + 1;
        let end = start + memchr::memchr(0, self.contents.get(start..)?)?;
        if flags & 4 == 0 {
            return Some((Line { kind, name: start..end, known: None }, end + 1));
        }
        let next = end + 1 + KNOWN;
        (next <= self.contents.len())
            .then_some((Line { kind, name: start..end, known: Some(end + 1) }, next))
    }

    /// The id in the file record at `known`, if the file's key has not changed.
    pub(super) fn id(&self, known: usize, key: &Key) -> Option<ObjectId> {
        let rest = self.contents.get(known..)?.strip_prefix(&key.0)?;
        Some(ObjectId(*rest.first_chunk()?))
    }

    /// The encoded file record at `known`.
    pub(super) fn known(&self, known: usize) -> Option<&'a [u8]> {
        self.contents.get(known..known + KNOWN)
    }
}

/// Adds a name to a directory's contents.
pub(super) fn add_line(contents: &mut Vec<u8>, (kind, name): (Kind, &[u8]), known: Option<&[u8]>) {
    let kind = match kind {
        Kind::File => 0,
        Kind::Symlink => 1,
        Kind::Directory => 2,
        Kind::Other => return,
    };
    contents.push(if known.is_some() { kind | 4 } else { kind });
    contents.extend_from_slice(name);
    contents.push(0);
    contents.extend_from_slice(known.unwrap_or_default());
}

/// Encodes a file record for [`append_name`].
pub(super) fn known(key: &Key, id: &ObjectId) -> [u8; KNOWN] {
    let mut known = [0; KNOWN];
    let (first, last) = known.split_at_mut(KEY);
    first.copy_from_slice(&key.0);
    last.copy_from_slice(&id.0);
    known
}

/// Writes the next cache if enough is new. Errors are ignored: without the cache, listing is only slower.
pub(super) fn save(path: &Path, old: &Cache, visits: &Visits, extent: Extent) {
    let is_new = visits.news > WORTH + visits.all.len() / WORTH_SHARE;
    let is_stale = extent == Extent::Whole && old.count / 2 > visits.all.len() + WORTH;
    if !is_new && !is_stale && visits.new_bytes < WORTH_BYTES {
        return;
    }
    let Some(bytes) = merge(old, visits, extent) else { return };
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir)
        .and_then(|()| fs::replace(path, &bytes, Durability::Cached));
    written.ok();
}

fn merge(old: &Cache, visits: &Visits, extent: Extent) -> Option<Vec<u8>> {
    let mut is_kept = vec![extent == Extent::Part; old.count];
    let mut new = Vec::new();
    for visit in &visits.all {
        match visit {
            Visit::Same(at) => *is_kept.get_mut(*at)? = true,
            Visit::New(directory) => new.push(directory),
        }
    }
    new.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut new = new.into_iter().peekable();
    let mut next = Next::default();
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
struct Next {
    records: Vec<u8>,
    paths: Vec<u8>,
    contents: Vec<u8>,
    count: u64,
}

impl Next {
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
        (bytes.len() <= CAP).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: Stamp = Stamp {
        kind: Kind::File,
        mode: 0o644,
        device: 1,
        inode: 2,
        len: 3,
        modified_ns: 4,
        changed_ns: 5,
    };

    fn new(path: &str, names: &[(Kind, &str)], id: u8) -> NewDirectory {
        let mut contents = Vec::new();
        let known = known(&Key::new(&STAMP, Format::Sha1), &ObjectId([id; 32]));
        for (kind, name) in names {
            let known = (*kind == Kind::File).then_some(&known[..]);
            add_line(&mut contents, (*kind, name.as_bytes()), known);
        }
        let key = Key::new(&Stamp { inode: id.into(), ..STAMP }, Format::Sha1);
        NewDirectory { path: path.into(), key, contents }
    }

    fn visits(all: Vec<Visit>) -> Visits {
        Visits { all, news: usize::MAX, new_bytes: 0 }
    }

    fn shown(cache: &Cache) -> Vec<String> {
        let one = |at| {
            let directory = cache.directory(at).unwrap();
            let names = directory.lines().map(|line| {
                let line = line.unwrap();
                let name = directory.contents[line.name].escape_ascii().to_string();
                let key = Key::new(&STAMP, Format::Sha1);
                let id = line.known.map(|known| directory.id(known, &key).unwrap().0[0]);
                format!("{name}:{id:?}")
            });
            let names = names.collect::<Vec<_>>().join(" ");
            format!("{}{names}", cache.path(at).unwrap().escape_ascii())
        };
        (0..cache.count).map(one).collect()
    }

    #[test]
    fn directories_are_kept_replaced_and_dropped() {
        let names = [(Kind::Directory, "d"), (Kind::File, "f"), (Kind::Symlink, "l")];
        let first = ["", "a/", "b/"].map(|path| Visit::New(new(path, &names, 1)));
        let bytes = merge(&Cache::default(), &visits(first.into()), Extent::Whole).unwrap();
        let old = Cache::parse(bytes).unwrap();
        let whole = "d:None f:Some(1) l:None";
        assert_eq!(shown(&old), [whole, &format!("a/{whole}"), &format!("b/{whole}")]);

        let again = || vec![Visit::New(new("ab/", &names[1..2], 2)), Visit::Same(0)];
        let replaced = Visit::New(new("b/", &names[1..2], 3));
        for (extent, more, expected) in [
            (Extent::Whole, None, &[whole, "ab/f:Some(2)"][..]),
            (
                Extent::Part,
                None,
                &[whole, "a/d:None f:Some(1) l:None", "ab/f:Some(2)", "b/d:None f:Some(1) l:None"],
            ),
            (
                Extent::Part,
                Some(replaced),
                &[whole, "a/d:None f:Some(1) l:None", "ab/f:Some(2)", "b/f:Some(3)"],
            ),
        ] {
            let all = again().into_iter().chain(more).collect();
            let bytes = merge(&old, &visits(all), extent).unwrap();
            assert_eq!(shown(&Cache::parse(bytes).unwrap()), expected);
        }
        assert!(old.find(b"a/").unwrap().is(&Key::new(&Stamp { inode: 1, ..STAMP }, Format::Sha1)));
        assert!(old.find(b"aa/").is_none() && old.find(b"z").is_none());
    }

    #[test]
    fn any_difference_in_metadata_invalidates_a_record() {
        let directory = new("", &[(Kind::File, "f")], 1);
        let bytes = merge(&Cache::default(), &visits(vec![Visit::New(directory)]), Extent::Whole);
        let cache = Cache::parse(bytes.unwrap()).unwrap();
        let found = cache.find(b"").unwrap();
        let known = found.lines().next().flatten().unwrap().known.unwrap();
        let id = |stamp, format| found.id(known, &Key::new(&stamp, format));
        assert_eq!(id(STAMP, Format::Sha1), Some(ObjectId([1; 32])));
        assert_eq!(id(STAMP, Format::Sha256), None);
        for other in [
            Stamp { mode: 0o755, ..STAMP },
            Stamp { device: 9, ..STAMP },
            Stamp { inode: 9, ..STAMP },
            Stamp { len: 9, ..STAMP },
            Stamp { modified_ns: 9, ..STAMP },
            Stamp { changed_ns: 9, ..STAMP },
            Stamp { kind: Kind::Directory, ..STAMP },
        ] {
            assert_eq!(id(other, Format::Sha1), None, "{other:?}");
        }
    }

    #[test]
    fn a_change_within_a_tick_is_not_settled() {
        for (changed_ns, modified_ns, expected) in [
            (0, 0, true),
            (TICK_NS - 1, 0, true),
            (TICK_NS, 0, false),
            (0, TICK_NS, false),
            (i64::MAX, 0, false),
        ] {
            let stamp = Stamp { modified_ns, changed_ns, ..STAMP };
            assert_eq!(is_settled(&stamp, 2 * TICK_NS), expected, "{stamp:?}");
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
            if let Some(cache) = Cache::parse(bytes) {
                for at in 0..cache.count {
                    let Some(directory) = cache.directory(at) else { continue };
                    for line in directory.lines().flatten() {
                        let known = line.known.unwrap_or(usize::MAX / 2);
                        prop_assert_eq!(directory.known(known).is_some(), line.known.is_some());
                    }
                }
                prop_assert!(cache.find(b"a/").is_none_or(|found| found.at < cache.count));
                drop(merge(&cache, &visits(vec![Visit::Same(0)]), Extent::Part));
            }
        }
    }
}
