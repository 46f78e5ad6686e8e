//! Finds, for each listed file, the object with its bytes on disk, and stores it if it is missing.
//!
//! A listed id is git's id of the bytes on disk or, for a file that is unchanged since it was added, the id in the
//! user's index, which is of the bytes after filters and end-of-line conversion. A checkpoint needs the former. For
//! most files the two are equal. The others are cheap to recognise: their size differs from the blob's, or they have
//! an attribute that can change bytes without changing the size.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::make::Staged;
use super::objects::{At, Call, odd, quoted};
use super::{CheckpointError, Keeper, Repository};
use crate::tree::{Entry, Listing, Mode, ObjectId};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError, Kind, Stat};

const LARGEST_MEMORY: usize = 256 * 1024 * 1024;
/// A file that changed this recently may change again without a new modification time.
const SETTLED_NS: u64 = 2_000_000_000;

pub(super) struct Seen<'a> {
    pub listing: &'a Listing,
    /// The entries of the shadow's index.
    pub previous: &'a Staged,
    pub memory: Memory,
}

pub(super) struct Found {
    /// The object with the bytes of each entry; `None` for an entry that is not stored.
    pub ids: Vec<Option<ObjectId>>,
    pub filtered: BTreeSet<OsString>,
    pub unsettled: Vec<OsString>,
    pub memory: Memory,
}

/// Cache of the files whose bytes on disk differ from the listed id.
#[derive(Default)]
pub(super) struct Memory(HashMap<OsString, Remembered>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Remembered {
    listed: ObjectId,
    kept: Kept,
    /// Length, time and inode.
    stat: [u64; 3],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The object with the bytes on disk.
    Raw(ObjectId),
    /// Git's filtered content.
    Filtered,
}

pub(super) fn examine(
    repository: &Repository,
    seen: &Seen<'_>,
    deadline: &Deadline,
) -> Result<Found, CheckpointError> {
    let entries = &seen.listing.entries;
    let mut found = Found {
        ids: vec![None; entries.len()],
        filtered: BTreeSet::new(),
        unsettled: Vec::new(),
        memory: Memory::default(),
    };
    let mut unknown = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let same = seen.previous.get(&entry.path) == Some(&(entry.mode, entry.id));
        if let Some(remembered) = seen.memory.0.get(&entry.path) {
            let stat = fs::stat_link(&repository.root.join(&entry.path)).map(|stat| brief(&stat));
            if remembered.listed == entry.id && stat == Some(remembered.stat) {
                found.take(at, entry, *remembered);
            } else {
                unknown.push(at);
            }
        } else if entry.mode == Mode::Repository || same {
            found.set(at, (entry.id.0 != [0; 32]).then_some(entry.id));
        } else {
            unknown.push(at);
        }
    }
    let mut inquiry = Inquiry { repository, entries, deadline, found };
    inquiry.look_into(&unknown)?;
    Ok(inquiry.found)
}

impl Found {
    fn set(&mut self, at: usize, id: Option<ObjectId>) {
        if let Some(slot) = self.ids.get_mut(at) {
            *slot = id;
        }
    }

    fn take(&mut self, at: usize, entry: &Entry, remembered: Remembered) {
        match remembered.kept {
            Kept::Raw(id) => self.set(at, Some(id)),
            Kept::Filtered => {
                self.set(at, Some(entry.id));
                self.filtered.insert(entry.path.clone());
            }
        }
        self.memory.0.insert(entry.path.clone(), remembered);
    }
}

struct Inquiry<'a> {
    repository: &'a Repository,
    entries: &'a [Entry],
    deadline: &'a Deadline,
    found: Found,
}

/// A file whose bytes have to be read.
struct Reading {
    at: usize,
    path: PathBuf,
    /// `None` for a symbolic link.
    stat: Option<Stat>,
    is_stored: bool,
}

impl Inquiry<'_> {
    fn look_into(&mut self, unknown: &[usize]) -> Result<(), CheckpointError> {
        let entries = || unknown.iter().filter_map(|at| Some((*at, self.entries.get(*at)?)));
        let ids: Vec<_> = entries().map(|(_, entry)| entry.id).collect();
        let sizes = self.repository.sizes(&ids, self.deadline)?;
        let files = entries().filter(|(_, entry)| {
            matches!(entry.mode, Mode::File | Mode::Executable) && sizes.contains_key(&entry.id)
        });
        let attributes = self.attributes(files.map(|(_, entry)| &*entry.path))?;
        let mut reading = Vec::new();
        let mut missing = Vec::new();
        for (at, entry) in entries().collect::<Vec<_>>() {
            let path = self.repository.root.join(&entry.path);
            let stat = fs::stat_link(&path);
            let size = sizes.get(&entry.id).copied();
            let listed = match entry.mode {
                Mode::Symlink => Kind::Symlink,
                Mode::File | Mode::Executable | Mode::Repository => Kind::File,
            };
            match (stat, size) {
                (Some(stat), None) if stat.kind == listed => {
                    let stat = (listed == Kind::File).then_some(stat);
                    reading.push(Reading { at, path, stat, is_stored: false });
                }
                (Some(stat), Some(size)) if stat.kind == Kind::File && listed == Kind::File => {
                    let attribute = attributes.get(entry.path.as_bytes()).copied();
                    match (stat.len == size, attribute) {
                        (true, None) => self.found.set(at, Some(entry.id)),
                        (false, Some(Attribute::Filter)) => {
                            let (listed, kept) = (entry.id, Kept::Filtered);
                            let stat = brief(&stat);
                            self.found.take(at, entry, Remembered { listed, kept, stat });
                        }
                        (true | false, _) => {
                            reading.push(Reading { at, path, stat: Some(stat), is_stored: true });
                        }
                    }
                }
                // A link's id is always that of its target. A file that is not on disk may be left out by a sparse
                // checkout.
                (Some(_) | None, Some(_)) => self.found.set(at, Some(entry.id)),
                (Some(_) | None, None) => missing.push(at),
            }
        }
        self.read(&reading)?;
        self.without(&missing)
    }

    /// Stores the unconverted bytes of files and links.
    fn read(&mut self, reading: &[Reading]) -> Result<(), CheckpointError> {
        if reading.is_empty() {
            return Ok(());
        }
        let links = self.repository.shadow.join("links");
        fs::remove_made_dir(&links)?;
        fs::create_dir(&links)?;
        let mut input = Vec::new();
        for one in reading {
            let path = if one.stat.is_some() {
                Path::new(one.path.as_os_str()).to_owned()
            } else {
                // `hash-object` would follow the link.
                let written = links.join(one.at.to_string());
                let target = fs::read_link(&one.path)?;
                fs::replace(&written, target.as_os_str().as_bytes(), Durability::Cached)?;
                written
            };
            input.extend(quoted(path.as_os_str().as_bytes()));
            input.push(b'\n');
        }
        let call = Call::new(At::Shadow, ["hash-object", "-w", "--no-filters", "--stdin-paths"]);
        let output = match self.repository.git(&call.reading(&input), self.deadline) {
            Err(error @ CheckpointError::Git { .. }) => {
                return Err(unreadable(reading).map_or(error, CheckpointError::File));
            }
            output => output?,
        };
        fs::remove_made_dir(&links)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for one in reading {
            let id = ids.next().and_then(|hex| self.repository.format.parse(hex));
            let id = id.ok_or_else(|| odd("hash-object"))?;
            let Some(entry) = self.entries.get(one.at) else { continue };
            match one.stat {
                Some(stat) if one.is_stored && id != entry.id => {
                    let (listed, kept, stat) = (entry.id, Kept::Raw(id), brief(&stat));
                    self.found.take(one.at, entry, Remembered { listed, kept, stat });
                }
                Some(_) | None => {
                    self.found.set(one.at, Some(id));
                    if id != entry.id {
                        self.found.unsettled.push(entry.path.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles entries that are neither on disk nor in the store: they were never checked out and fetched, or were
    /// deleted after the listing.
    fn without(&mut self, missing: &[usize]) -> Result<(), CheckpointError> {
        if missing.is_empty() {
            return Ok(());
        }
        let left_out = match self.repository.keeper {
            Keeper::Shadow => HashSet::new(),
            Keeper::Project { .. } => {
                let call = Call::new(At::Project, ["ls-files", "-t", "-z"]);
                let listed = self.repository.git(&call, self.deadline)?;
                let paths = listed.split(|byte| *byte == 0);
                let skipped = paths.filter_map(|record| record.strip_prefix(b"S "));
                skipped.map(|path| OsString::from_vec(path.to_vec())).collect()
            }
        };
        for at in missing {
            let Some(entry) = self.entries.get(*at) else { continue };
            if left_out.contains(&entry.path) {
                self.found.set(*at, Some(entry.id));
            } else {
                self.found.unsettled.push(entry.path.clone());
            }
        }
        Ok(())
    }

    /// Files with attributes that let git change their bytes without changing the size. End-of-line conversion and
    /// keyword expansion always change it.
    fn attributes<'b>(
        &self,
        paths: impl Iterator<Item = &'b OsStr>,
    ) -> Result<HashMap<Vec<u8>, Attribute>, CheckpointError> {
        let mut input = Vec::new();
        for path in paths {
            input.extend(path.as_bytes());
            input.push(0);
        }
        let mut found = HashMap::new();
        if input.is_empty() || self.repository.keeper == Keeper::Shadow {
            return Ok(found);
        }
        let arguments = ["check-attr", "-z", "--stdin", "filter", "working-tree-encoding"];
        let call = Call::new(At::Project, arguments).reading(&input);
        let output = self.repository.git(&call, self.deadline)?;
        let mut fields = output.split(|byte| *byte == 0);
        while let (Some(path), Some(name), Some(value)) =
            (fields.next(), fields.next(), fields.next())
        {
            if matches!(value, b"unspecified" | b"unset") {
                continue;
            }
            let attribute = if name == b"filter" { Attribute::Filter } else { Attribute::Encoding };
            found.entry(path.to_vec()).or_insert(attribute);
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Filter,
    Encoding,
}

fn brief(stat: &Stat) -> [u64; 3] {
    [stat.len, stat.modified_ns, stat.inode]
}

fn unreadable(reading: &[Reading]) -> Option<FileError> {
    let mut files = reading.iter().filter(|one| one.stat.is_some());
    files.find_map(|one| fs::read_range(&one.path, 0, 1).err())
}

impl Memory {
    fn path(repository: &Repository) -> PathBuf {
        repository.shadow.join("ralph-converted")
    }

    /// Records that do not parse are skipped and determined again.
    pub(super) fn load(repository: &Repository) -> Self {
        let bytes = fs::read(&Self::path(repository), LARGEST_MEMORY).unwrap_or_default();
        let records = bytes.split(|byte| *byte == 0);
        Self(records.filter_map(|record| Remembered::parse(repository, record)).collect())
    }

    pub(super) fn save(&self, repository: &Repository) -> Result<(), FileError> {
        let path = Self::path(repository);
        if self.0.is_empty() {
            return fs::remove_file(&path);
        }
        let now = clock::now_ms().saturating_mul(1_000_000);
        let mut bytes = Vec::new();
        for (path, remembered) in &self.0 {
            let [len, modified, inode] = remembered.stat;
            let is_settled = modified.saturating_add(SETTLED_NS) < now;
            let modified = if is_settled { modified } else { 0 };
            let listed = repository.hex(&remembered.listed);
            let kept = match remembered.kept {
                Kept::Raw(id) => repository.hex(&id),
                Kept::Filtered => "filtered".to_owned(),
            };
            bytes.extend(format!("{listed} {kept} {len} {modified} {inode}\t").bytes());
            bytes.extend(path.as_bytes());
            bytes.push(0);
        }
        fs::replace(&path, &bytes, Durability::Cached)
    }
}

impl Remembered {
    fn parse(repository: &Repository, record: &[u8]) -> Option<(OsString, Self)> {
        let tab = memchr::memchr(b'\t', record)?;
        let path = OsString::from_vec(record.get(tab + 1..)?.to_vec());
        let mut fields = std::str::from_utf8(record.get(..tab)?).ok()?.split(' ');
        let listed = repository.format.parse(fields.next()?.as_bytes())?;
        let kept = match fields.next()? {
            "filtered" => Kept::Filtered,
            id => Kept::Raw(repository.format.parse(id.as_bytes())?),
        };
        let mut stat = [0; 3];
        for number in &mut stat {
            *number = fields.next()?.parse().ok()?;
        }
        Some((path, Self { listed, kept, stat }))
    }
}
