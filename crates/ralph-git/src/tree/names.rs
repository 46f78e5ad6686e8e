//! The names in one directory, from the directory itself or from the stat cache.

use std::borrow::Cow;
use std::ffi::CStr;
use std::io;
use std::ops::Range;

use super::statcache::{Key, Remembered};
use ralph_sys::fs::Kind;
use ralph_sys::fs::at::Directory;

/// How the untracked files of a directory are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are listed unless they are ignored themselves.
    Open,
    /// The directory is ignored, so only its tracked files are listed.
    Ignored,
    /// The directory is the root of another repository, which has its own rules.
    Repository,
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Name {
    /// Position of the name in the bytes; a NUL follows.
    pub(super) at: Range<usize>,
    pub(super) kind: Kind,
    pub(super) what: What,
    /// Position of the file's record in the cached directory.
    pub(super) known: Option<usize>,
}

/// How a name is treated by the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Nothing,
    File,
    Directory(Standing),
    /// A submodule, with its position in the index, or a nested repository.
    Repository(Option<usize>),
}

impl From<Kind> for What {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File | Kind::Symlink => Self::File,
            Kind::Directory => Self::Directory(Standing::Open),
            Kind::Other => Self::Nothing,
        }
    }
}

#[derive(Debug)]
pub(super) struct Names<'a> {
    bytes: Cow<'a, [u8]>,
    pub(super) all: Vec<Name>,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Listed,
    Remembered,
}

impl<'a> Names<'a> {
    /// Reads the names, without `.git` and without anything that is neither file, link nor directory. If the cached
    /// directory is unchanged, its names are used instead.
    pub(super) fn of(
        directory: &Directory,
        key: &Key,
        old: Option<&Remembered<'a>>,
    ) -> io::Result<Self> {
        let same = old.filter(|old| *key != Key::never() && old.is(key)).and_then(Self::remembered);
        if let Some(names) = same {
            return Ok(names);
        }
        let mut names = Self::listed(directory)?;
        if let Some(old) = old {
            names.recognise(old);
        }
        Ok(names)
    }

    fn remembered(old: &Remembered<'a>) -> Option<Self> {
        let name = |line: Option<super::statcache::Line>| {
            let line = line?;
            Some(Name { at: line.name, kind: line.kind, what: line.kind.into(), known: line.known })
        };
        let all = old.lines().map(name).collect::<Option<_>>()?;
        Some(Self { bytes: Cow::Borrowed(old.contents), all, origin: Origin::Remembered })
    }

    fn listed(directory: &Directory) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut all = Vec::new();
        directory.each_name(|name, kind| {
            let text = name.to_bytes();
            let stated = || Some(directory.stat(name).ok()?.kind);
            let Some(kind) = kind.or_else(stated).filter(|kind| *kind != Kind::Other) else {
                return;
            };
            if text != b".git" {
                let start = bytes.len();
                bytes.extend_from_slice(name.to_bytes_with_nul());
                let at = start..start + text.len();
                all.push(Name { at, kind, what: kind.into(), known: None });
            }
        })?;
        let mut names = Self { bytes: Cow::Owned(bytes), all, origin: Origin::Listed };
        let bytes = &names.bytes;
        names.all.sort_unstable_by(|one, other| text(bytes, one).cmp(text(bytes, other)));
        Ok(names)
    }

    /// Attaches cached file records to the names of a directory that changed.
    fn recognise(&mut self, old: &Remembered<'_>) {
        let mut lines = old.lines().map_while(|line| line).peekable();
        for name in &mut self.all {
            let text = text(&self.bytes, name);
            let old_text = |line: &super::statcache::Line| {
                old.contents.get(line.name.clone()).unwrap_or_default()
            };
            while lines.next_if(|line| old_text(line) < text).is_some() {}
            if let Some(line) = lines.next_if(|line| old_text(line) == text) {
                name.known = line.known;
            }
        }
    }

    pub(super) fn text(&self, name: &Name) -> &[u8] {
        text(&self.bytes, name)
    }

    pub(super) fn c_text(&self, name: &Name) -> &CStr {
        let bytes = self.bytes.get(name.at.start..=name.at.end).unwrap_or_default();
        CStr::from_bytes_with_nul(bytes).unwrap_or_default()
    }

    /// Whether there is a file of this name.
    pub(super) fn has(&self, text: &[u8]) -> bool {
        let found = self.all.binary_search_by(|name| self.text(name).cmp(text));
        found.is_ok_and(|at| self.all.get(at).is_some_and(|name| name.kind == Kind::File))
    }

    /// Sets the class of every name.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(&[u8], &Name) -> What) {
        for name in &mut self.all {
            name.what = tell(text(&self.bytes, name), name);
        }
    }

    /// Sorts the names as git sorts paths: a directory compares as if its name ended in a slash.
    pub(super) fn sort_as_paths(&mut self) {
        let bytes = &self.bytes;
        let byte = |name: &Name, at: usize| {
            let text = text(bytes, name);
            let slash = matches!(name.what, What::Directory(_)).then_some(b'/');
            text.get(at).copied().or(slash.filter(|_| at == text.len()))
        };
        self.all.sort_by(|one, other| {
            let shared = one.at.len().min(other.at.len());
            let start = |name| text(bytes, name).get(..shared);
            start(one).cmp(&start(other)).then_with(|| byte(one, shared).cmp(&byte(other, shared)))
        });
    }
}

fn text<'a>(bytes: &'a [u8], name: &Name) -> &'a [u8] {
    bytes.get(name.at.clone()).unwrap_or_default()
}
