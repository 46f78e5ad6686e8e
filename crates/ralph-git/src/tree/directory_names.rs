//! The names in one directory, from the directory itself or from the stat cache.

use std::borrow::Cow;
use std::ffi::CStr;
use std::io;
use std::ops::Range;

use super::stat_cache::{CachedDirectory, StatKey};
use ralph_sys::fs::FileKind;
use ralph_sys::fs::dir_handle::DirHandle;

/// How the untracked files of a directory are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UntrackedPolicy {
    /// They are listed unless they are ignored themselves.
    Open,
    /// The directory is ignored, so only its tracked files are listed.
    Ignored,
    /// The directory is the root of another repository, which has its own rules.
    Repository,
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct DirectoryName {
    /// Position of the name in the bytes; a NUL follows.
    pub(super) at: Range<usize>,
    pub(super) kind: FileKind,
    pub(super) class: NameClass,
    /// Position of the file's record in the cached directory.
    pub(super) file_record: Option<usize>,
}

/// How a name is treated by the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameClass {
    Skipped,
    File,
    Directory(UntrackedPolicy),
    /// A submodule, with its position in the index, or a nested repository.
    Repository(Option<usize>),
}

impl From<FileKind> for NameClass {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::File | FileKind::Symlink => Self::File,
            FileKind::Directory => Self::Directory(UntrackedPolicy::Open),
            FileKind::Other => Self::Skipped,
        }
    }
}

#[derive(Debug)]
pub(super) struct DirectoryNames<'a> {
    bytes: Cow<'a, [u8]>,
    pub(super) all: Vec<DirectoryName>,
    pub(super) origin: NamesOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamesOrigin {
    Disk,
    Cache,
}

impl<'a> DirectoryNames<'a> {
    /// Reads the names, without `.git` and without anything that is neither file, link nor directory. If the cached
    /// directory is unchanged, its names are used instead.
    pub(super) fn read(
        directory: &DirHandle,
        key: &StatKey,
        old: Option<&CachedDirectory<'a>>,
    ) -> io::Result<Self> {
        let same = old
            .filter(|old| *key != StatKey::unmatchable() && old.has_key(key))
            .and_then(Self::from_cache);
        if let Some(names) = same {
            return Ok(names);
        }
        let mut names = Self::from_disk(directory)?;
        if let Some(old) = old {
            names.attach_file_records(old);
        }
        Ok(names)
    }

    fn from_cache(old: &CachedDirectory<'a>) -> Option<Self> {
        let name = |line: Option<super::stat_cache::CachedName>| {
            let line = line?;
            Some(DirectoryName {
                at: line.name,
                kind: line.kind,
                class: line.kind.into(),
                file_record: line.file_record,
            })
        };
        let all = old.names().map(name).collect::<Option<_>>()?;
        Some(Self { bytes: Cow::Borrowed(old.contents), all, origin: NamesOrigin::Cache })
    }

    fn from_disk(directory: &DirHandle) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut all = Vec::new();
        directory.for_each_name(|name, kind| {
            let text = name.to_bytes();
            let stated = || Some(directory.stat(name).ok()?.kind);
            let Some(kind) = kind.or_else(stated).filter(|kind| *kind != FileKind::Other) else {
                return;
            };
            if text != b".git" {
                let start = bytes.len();
                bytes.extend_from_slice(name.to_bytes_with_nul());
                let at = start..start + text.len();
                all.push(DirectoryName { at, kind, class: kind.into(), file_record: None });
            }
        })?;
        let mut names = Self { bytes: Cow::Owned(bytes), all, origin: NamesOrigin::Disk };
        let bytes = &names.bytes;
        names
            .all
            .sort_unstable_by(|one, other| name_bytes(bytes, one).cmp(name_bytes(bytes, other)));
        Ok(names)
    }

    /// Attaches cached file records to the names of a directory that changed.
    fn attach_file_records(&mut self, old: &CachedDirectory<'_>) {
        let mut lines = old.names().map_while(|line| line).peekable();
        for name in &mut self.all {
            let text = name_bytes(&self.bytes, name);
            let old_text = |line: &super::stat_cache::CachedName| {
                old.contents.get(line.name.clone()).unwrap_or_default()
            };
            while lines.next_if(|line| old_text(line) < text).is_some() {}
            if let Some(line) = lines.next_if(|line| old_text(line) == text) {
                name.file_record = line.file_record;
            }
        }
    }

    pub(super) fn text(&self, name: &DirectoryName) -> &[u8] {
        name_bytes(&self.bytes, name)
    }

    pub(super) fn c_text(&self, name: &DirectoryName) -> &CStr {
        let bytes = self.bytes.get(name.at.start..=name.at.end).unwrap_or_default();
        CStr::from_bytes_with_nul(bytes).unwrap_or_default()
    }

    /// Whether there is a file of this name.
    pub(super) fn has_file(&self, text: &[u8]) -> bool {
        let found = self.all.binary_search_by(|name| self.text(name).cmp(text));
        found.is_ok_and(|at| self.all.get(at).is_some_and(|name| name.kind == FileKind::File))
    }

    /// Sets the class of every name.
    pub(super) fn classify(&mut self, mut tell: impl FnMut(&[u8], &DirectoryName) -> NameClass) {
        for name in &mut self.all {
            name.class = tell(name_bytes(&self.bytes, name), name);
        }
    }

    /// Sorts the names as git sorts paths: a directory compares as if its name ended in a slash.
    pub(super) fn sort_as_paths(&mut self) {
        let bytes = &self.bytes;
        let byte = |name: &DirectoryName, at: usize| {
            let text = name_bytes(bytes, name);
            let slash = matches!(name.class, NameClass::Directory(_)).then_some(b'/');
            text.get(at).copied().or(slash.filter(|_| at == text.len()))
        };
        self.all.sort_by(|one, other| {
            let shared = one.at.len().min(other.at.len());
            let start = |name| name_bytes(bytes, name).get(..shared);
            start(one).cmp(&start(other)).then_with(|| byte(one, shared).cmp(&byte(other, shared)))
        });
    }
}

fn name_bytes<'a>(bytes: &'a [u8], name: &DirectoryName) -> &'a [u8] {
    bytes.get(name.at.clone()).unwrap_or_default()
}
