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

use super::plumbing::{PlumbingCommand, PlumbingContext, quote_path, unexpected_git_output};
use super::{CheckpointError, CheckpointRepository, CheckpointStore};
use crate::tree::{ObjectId, TreeEntry, TreeEntryMode};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError, FileKind, FileStat};

const MAX_CACHE_BYTES: usize = 256 * 1024 * 1024;
/// A file that changed this recently may change again without a new modification time.
const SETTLED_NS: u64 = 2_000_000_000;

pub(super) struct ResolvedObjects {
    /// The object with the bytes of each entry; `None` for an entry that is not stored.
    pub ids: Vec<Option<ObjectId>>,
    pub filtered: BTreeSet<OsString>,
    pub changed_meanwhile: Vec<OsString>,
    pub cache: ConversionCache,
}

/// Cache of the files whose bytes on disk differ from the listed id.
#[derive(Default)]
pub(super) struct ConversionCache(HashMap<OsString, ConversionRecord>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct ConversionRecord {
    listed: ObjectId,
    form: StoredForm,
    stat: ConvertedFileStat,
}

/// Shows whether a file has changed since its conversion was recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ConvertedFileStat {
    len: u64,
    modified_ns: u64,
    inode: u64,
}

impl From<FileStat> for ConvertedFileStat {
    fn from(FileStat { len, modified_ns, inode, .. }: FileStat) -> Self {
        Self { len, modified_ns, inode }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredForm {
    /// The object with the bytes on disk.
    Raw(ObjectId),
    /// Git's filtered content.
    Filtered,
}

impl ResolvedObjects {
    fn set(&mut self, at: usize, id: Option<ObjectId>) {
        if let Some(slot) = self.ids.get_mut(at) {
            *slot = id;
        }
    }

    fn use_record(&mut self, at: usize, entry: &TreeEntry, remembered: ConversionRecord) {
        match remembered.form {
            StoredForm::Raw(id) => self.set(at, Some(id)),
            StoredForm::Filtered => {
                self.set(at, Some(entry.id));
                self.filtered.insert(entry.path.clone());
            }
        }
        self.cache.0.insert(entry.path.clone(), remembered);
    }
}

pub(super) struct ObjectResolver<'a> {
    repository: &'a CheckpointRepository,
    entries: &'a [TreeEntry],
    deadline: &'a Deadline,
    pub found: ResolvedObjects,
    /// Files that have changed since their conversion was recorded.
    changed: BTreeSet<usize>,
}

/// A file whose bytes have to be read.
struct FileToHash {
    at: usize,
    path: PathBuf,
    /// `None` for a symbolic link.
    stat: Option<FileStat>,
    is_stored: bool,
}

impl<'a> ObjectResolver<'a> {
    /// Assumes that the object of each entry has its listed id, except where another one is recorded.
    pub(super) fn new(
        repository: &'a CheckpointRepository,
        entries: &'a [TreeEntry],
        recorded: &ConversionCache,
        deadline: &'a Deadline,
    ) -> Self {
        let mut found = ResolvedObjects {
            ids: Vec::with_capacity(entries.len()),
            filtered: BTreeSet::new(),
            changed_meanwhile: Vec::new(),
            cache: ConversionCache::default(),
        };
        let mut changed = BTreeSet::new();
        for (at, entry) in entries.iter().enumerate() {
            let is_stored = entry.mode != TreeEntryMode::Repository || entry.id.0 != [0; 32];
            found.ids.push(is_stored.then_some(entry.id));
            if let Some(record) = recorded.0.get(&entry.path) {
                let stat = fs::stat_no_follow(&repository.root.join(&entry.path)).map(Into::into);
                if record.listed == entry.id && stat == Some(record.stat) {
                    found.use_record(at, entry, *record);
                } else {
                    changed.insert(at);
                }
            }
        }
        Self { repository, entries, deadline, found, changed }
    }

    /// Finds the objects of files that the last checkpoint does not have, or not with their listed id, and stores them.
    /// Returns whether any id differs from the assumed one.
    pub(super) fn resolve(&mut self, new: Vec<usize>) -> Result<bool, CheckpointError> {
        let mut unknown: BTreeSet<_> =
            new.into_iter().chain(self.changed.iter().copied()).collect();
        unknown.retain(|at| {
            let entry = self.entries.get(*at);
            let is_file = entry.is_some_and(|entry| entry.mode != TreeEntryMode::Repository);
            // A conversion that is still recorded gave the entry its id.
            let is_recorded =
                entry.is_some_and(|entry| self.found.cache.0.contains_key(&entry.path));
            is_file && !is_recorded
        });
        let assumed: Vec<_> =
            unknown.iter().map(|at| (*at, self.found.ids.get(*at).copied())).collect();
        for at in &unknown {
            self.found.set(*at, None);
        }
        let unknown: Vec<_> = unknown.into_iter().collect();
        self.resolve_unknown(&unknown)?;
        Ok(assumed.iter().any(|(at, id)| self.found.ids.get(*at).copied() != *id))
    }

    fn resolve_unknown(&mut self, unknown: &[usize]) -> Result<(), CheckpointError> {
        let entries = || unknown.iter().filter_map(|at| Some((*at, self.entries.get(*at)?)));
        let ids: Vec<_> = entries().map(|(_, entry)| entry.id).collect();
        let sizes = self.repository.blob_sizes(&ids, self.deadline)?;
        let files = entries().filter(|(_, entry)| {
            matches!(entry.mode, TreeEntryMode::File | TreeEntryMode::Executable)
                && sizes.contains_key(&entry.id)
        });
        let attributes = self.converting_attributes(files.map(|(_, entry)| &*entry.path))?;
        let mut reading = Vec::new();
        let mut missing = Vec::new();
        for (at, entry) in entries().collect::<Vec<_>>() {
            let path = self.repository.root.join(&entry.path);
            let stat = fs::stat_no_follow(&path);
            let size = sizes.get(&entry.id).copied();
            let listed = match entry.mode {
                TreeEntryMode::Symlink => FileKind::Symlink,
                TreeEntryMode::File | TreeEntryMode::Executable | TreeEntryMode::Repository => {
                    FileKind::File
                }
            };
            match (stat, size) {
                (Some(stat), None) if stat.kind == listed => {
                    let stat = (listed == FileKind::File).then_some(stat);
                    reading.push(FileToHash { at, path, stat, is_stored: false });
                }
                (Some(stat), Some(size))
                    if stat.kind == FileKind::File && listed == FileKind::File =>
                {
                    let attribute = attributes.get(entry.path.as_bytes()).copied();
                    match (stat.len == size, attribute) {
                        (true, None) => self.found.set(at, Some(entry.id)),
                        (false, Some(ConvertingAttribute::Filter)) => {
                            let (listed, kept) = (entry.id, StoredForm::Filtered);
                            let stat = stat.into();
                            self.found.use_record(
                                at,
                                entry,
                                ConversionRecord { listed, form: kept, stat },
                            );
                        }
                        (true | false, _) => {
                            reading.push(FileToHash {
                                at,
                                path,
                                stat: Some(stat),
                                is_stored: true,
                            });
                        }
                    }
                }
                // A link's id is always that of its target. A file that is not on disk may be left out by a sparse
                // checkout.
                (Some(_) | None, Some(_)) => self.found.set(at, Some(entry.id)),
                (Some(_) | None, None) => missing.push(at),
            }
        }
        self.hash_and_store(&reading)?;
        self.resolve_missing(&missing)
    }

    /// Stores the unconverted bytes of files and links.
    fn hash_and_store(&mut self, reading: &[FileToHash]) -> Result<(), CheckpointError> {
        if reading.is_empty() {
            return Ok(());
        }
        let links = self.repository.shadow.join("links");
        fs::remove_own_dir_tree(&links)?;
        fs::create_private_dir(&links)?;
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
            input.extend(quote_path(path.as_os_str().as_bytes()));
            input.push(b'\n');
        }
        let call = PlumbingCommand::new(
            PlumbingContext::Shadow,
            ["hash-object", "-w", "--no-filters", "--stdin-paths"],
        );
        let output = match self.repository.run_git(&call.with_input(&input), self.deadline) {
            Err(error @ CheckpointError::Git { .. }) => {
                return Err(first_unreadable(reading).map_or(error, CheckpointError::File));
            }
            output => output?,
        };
        fs::remove_own_dir_tree(&links)?;
        let mut ids = output.split(|byte| *byte == b'\n');
        for one in reading {
            let id = ids.next().and_then(|hex| self.repository.format.parse(hex));
            let id = id.ok_or_else(|| unexpected_git_output("hash-object"))?;
            let Some(entry) = self.entries.get(one.at) else { continue };
            match one.stat {
                Some(stat) if one.is_stored && id != entry.id => {
                    let (listed, kept, stat) = (entry.id, StoredForm::Raw(id), stat.into());
                    self.found.use_record(
                        one.at,
                        entry,
                        ConversionRecord { listed, form: kept, stat },
                    );
                }
                Some(_) | None => {
                    self.found.set(one.at, Some(id));
                    if id != entry.id {
                        self.found.changed_meanwhile.push(entry.path.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles entries that are neither on disk nor in the store: they were never checked out and fetched, or were
    /// deleted after the listing.
    fn resolve_missing(&mut self, missing: &[usize]) -> Result<(), CheckpointError> {
        if missing.is_empty() {
            return Ok(());
        }
        let left_out = match self.repository.store {
            CheckpointStore::Shadow => HashSet::new(),
            CheckpointStore::Project { .. } => {
                let call = PlumbingCommand::new(PlumbingContext::Project, ["ls-files", "-t", "-z"]);
                let listed = self.repository.run_git(&call, self.deadline)?;
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
                self.found.changed_meanwhile.push(entry.path.clone());
            }
        }
        Ok(())
    }

    /// Files with attributes that let git change their bytes without changing the size. End-of-line conversion and
    /// keyword expansion always change it.
    fn converting_attributes<'b>(
        &self,
        paths: impl Iterator<Item = &'b OsStr>,
    ) -> Result<HashMap<Vec<u8>, ConvertingAttribute>, CheckpointError> {
        let mut input = Vec::new();
        for path in paths {
            input.extend(path.as_bytes());
            input.push(0);
        }
        let mut found = HashMap::new();
        if input.is_empty() || self.repository.store == CheckpointStore::Shadow {
            return Ok(found);
        }
        let arguments = ["check-attr", "-z", "--stdin", "filter", "working-tree-encoding"];
        let call = PlumbingCommand::new(PlumbingContext::Project, arguments).with_input(&input);
        let output = self.repository.run_git(&call, self.deadline)?;
        let mut fields = output.split(|byte| *byte == 0);
        while let (Some(path), Some(name), Some(value)) =
            (fields.next(), fields.next(), fields.next())
        {
            if matches!(value, b"unspecified" | b"unset") {
                continue;
            }
            let attribute = if name == b"filter" {
                ConvertingAttribute::Filter
            } else {
                ConvertingAttribute::Encoding
            };
            found.entry(path.to_vec()).or_insert(attribute);
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConvertingAttribute {
    Filter,
    Encoding,
}

fn first_unreadable(reading: &[FileToHash]) -> Option<FileError> {
    let mut files = reading.iter().filter(|one| one.stat.is_some());
    files.find_map(|one| fs::read_range(&one.path, 0, 1).err())
}

impl ConversionCache {
    fn path(repository: &CheckpointRepository) -> PathBuf {
        repository.shadow.join("ralph-converted")
    }

    /// Records that do not parse, or cannot be read, are determined again.
    pub(super) fn load(repository: &CheckpointRepository) -> Self {
        let bytes = fs::read(&Self::path(repository), MAX_CACHE_BYTES).unwrap_or_default();
        let records = bytes.split(|byte| *byte == 0);
        Self(records.filter_map(|record| ConversionRecord::parse(repository, record)).collect())
    }

    pub(super) fn save(&self, repository: &CheckpointRepository) -> Result<(), FileError> {
        let path = Self::path(repository);
        if self.0.is_empty() {
            return fs::remove_file(&path);
        }
        let now = clock::now_ms().saturating_mul(1_000_000);
        let mut bytes = Vec::new();
        for (path, remembered) in &self.0 {
            let ConvertedFileStat { len, modified_ns, inode } = remembered.stat;
            let is_settled = modified_ns.saturating_add(SETTLED_NS) < now;
            let modified = if is_settled { modified_ns } else { 0 };
            let listed = repository.hex(&remembered.listed);
            let kept = match remembered.form {
                StoredForm::Raw(id) => repository.hex(&id),
                StoredForm::Filtered => "filtered".to_owned(),
            };
            bytes.extend(format!("{listed} {kept} {len} {modified} {inode}\t").bytes());
            bytes.extend(path.as_bytes());
            bytes.push(0);
        }
        fs::replace(&path, &bytes, Durability::Cached)
    }
}

impl ConversionRecord {
    fn parse(repository: &CheckpointRepository, record: &[u8]) -> Option<(OsString, Self)> {
        let tab = memchr::memchr(b'\t', record)?;
        let path = OsString::from_vec(record.get(tab + 1..)?.to_vec());
        let mut fields = std::str::from_utf8(record.get(..tab)?).ok()?.split(' ');
        let listed = repository.format.parse(fields.next()?.as_bytes())?;
        let kept = match fields.next()? {
            "filtered" => StoredForm::Filtered,
            id => StoredForm::Raw(repository.format.parse(id.as_bytes())?),
        };
        let mut number = || fields.next()?.parse().ok();
        let stat = ConvertedFileStat { len: number()?, modified_ns: number()?, inode: number()? };
        Some((path, Self { listed, form: kept, stat }))
    }
}
