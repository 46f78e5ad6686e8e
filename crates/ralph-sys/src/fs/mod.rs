//! The only access to files.
//!
//! Reads are bounded and never block: anything but a regular file is an error immediately. Changes are atomic unless
//! their documentation states otherwise: a reader sees the old bytes or the new ones.

mod confined_dir;
pub mod dir_handle;
mod directory_watch;
mod failpoint;
pub mod file_slot;
mod fresh_dir;
mod line_appender;
mod lock_file;
pub mod terminal_bell;
pub mod terminal_question;
mod tree_size;
mod write;

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use confined_dir::is_safe_tree_path;
pub use confined_dir::{ConfinedDir, CopyKind};
pub use directory_watch::{DirectoryWatch, WatchOutcome};
pub use fresh_dir::FreshDir;
pub use line_appender::LineAppender;
pub use lock_file::{FileLock, LockError, acquire_lock};
pub use tree_size::measure_tree;
#[cfg(not(target_os = "linux"))]
pub(crate) use write::create_unnamed_file;
pub use write::{
    Durability, SharedFileMode, append, create_new, create_new_user_file, create_output_file,
    create_private_dir, create_user_dir, make_dir_private, move_own_dir, overwrite, patch,
    quarantine, remove_empty_dir, remove_file, remove_own_dir_tree, replace, replace_link,
    replace_user_file, replace_with_mode, truncate,
};

/// The operation that failed and its path; the source is the reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`", path.display())]
pub struct FileError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// An error for a write that ralph declines, for the given reason.
    pub fn refused(path: &Path, why: &'static str) -> Self {
        Self::new("write", path)(io::Error::other(why))
    }

    /// An error for content that cannot be turned into the bytes of a file.
    pub fn not_encodable(path: &Path, error: serde_json::Error) -> Self {
        Self::new("write", path)(error.into())
    }

    fn new(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { what, path: path.to_owned(), source }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path does not exist.
    pub fn is_missing(&self) -> bool {
        is_missing(&self.source)
    }

    /// The file exceeds the cap of its reader.
    pub fn is_too_large(&self) -> bool {
        self.source.kind() == io::ErrorKind::FileTooLarge
    }

    /// The disk is full or the quota is exhausted.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    pub fn is_read_only(&self) -> bool {
        self.source.kind() == io::ErrorKind::ReadOnlyFilesystem
    }

    /// Permissions or a sandbox deny the operation.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub kind: FileKind,
    pub len: u64,
    pub device: u64,
    pub inode: u64,
    /// Since 1970; 0 for anything earlier.
    pub modified_ns: u64,
    /// When content or metadata changed last, since 1970. Programs cannot set it.
    pub changed_ns: u64,
    /// Permission bits.
    pub mode: u32,
}

impl From<Metadata> for FileStat {
    fn from(metadata: Metadata) -> Self {
        let kind = metadata.file_type();
        let since_1970 = |seconds: i64, nanoseconds: i64| {
            let seconds = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000);
            seconds.saturating_add(u64::try_from(nanoseconds).unwrap_or(0))
        };
        Self {
            kind: if kind.is_file() {
                FileKind::File
            } else if kind.is_dir() {
                FileKind::Directory
            } else if kind.is_symlink() {
                FileKind::Symlink
            } else {
                FileKind::Other
            },
            len: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_ns: since_1970(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: since_1970(metadata.ctime(), metadata.ctime_nsec()),
            mode: metadata.mode() & 0o7777,
        }
    }
}

/// Metadata of a path, following symbolic links; `None` if it is missing or inaccessible.
pub fn stat(path: &Path) -> Option<FileStat> {
    std::fs::metadata(path).ok().map(FileStat::from)
}

/// Like [`stat`], without following a symbolic link.
pub fn stat_no_follow(path: &Path) -> Option<FileStat> {
    std::fs::symlink_metadata(path).ok().map(FileStat::from)
}

pub fn exists(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

/// Whether it is a pipe, a device or a socket, whose content may never end.
pub fn is_special(path: &Path) -> bool {
    stat(path).is_some_and(|stat| stat.kind == FileKind::Other)
}

/// Whether it belongs to the user this process runs as; `None` if it is missing or inaccessible.
pub fn is_owned_by_us(path: &Path) -> Option<bool> {
    let owner = std::fs::metadata(path).ok()?.uid();
    Some(owner == rustix::process::geteuid().as_raw())
}

pub fn is_directory(path: &Path) -> bool {
    stat(path).is_some_and(|stat| stat.kind == FileKind::Directory)
}

/// The target of a symbolic link, unresolved.
pub fn read_link(path: &Path) -> Result<PathBuf, FileError> {
    std::fs::read_link(path).map_err(FileError::new("read the link", path))
}

/// The absolute path without symbolic links; `None` if it is missing or inaccessible.
pub fn resolve(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// Removes `.` and `..` without resolving symbolic links.
pub fn normalize_lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => out.push(part),
        }
    }
    out
}

/// Reads a whole regular file of at most `cap` bytes.
pub fn read(path: &Path, cap: usize) -> Result<Vec<u8>, FileError> {
    let file = RegularFile::open(path)?;
    let is_larger = usize::try_from(file.len).map_or(true, |len| len > cap);
    if !is_larger {
        let bytes = file.read_at(0, cap.saturating_add(1))?;
        if bytes.len() <= cap {
            return Ok(bytes);
        }
    }
    let why = io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {cap} bytes"));
    Err(FileError::new("read", path)(why))
}

/// Like [`read`], with `None` for a missing file.
pub fn read_if_exists(path: &Path, cap: usize) -> Result<Option<Vec<u8>>, FileError> {
    match read(path, cap) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Like [`read_if_exists`], for a file that holds JSON.
pub fn read_json<T: DeserializeOwned>(path: &Path, cap: usize) -> Result<Option<T>, FileError> {
    let parse = |bytes: Vec<u8>| {
        serde_json::from_slice(&bytes).map_err(|error| FileError::new("read", path)(error.into()))
    };
    read_if_exists(path, cap)?.map(parse).transpose()
}

/// The JSON bytes for the file at `path`.
pub fn encode_json(path: &Path, content: &impl Serialize) -> Result<Vec<u8>, FileError> {
    serde_json::to_vec(content).map_err(|error| FileError::not_encodable(path, error))
}

/// The bytes of a JSON file that people and other tools read, with a final line feed.
pub fn encode_pretty_json(path: &Path, content: &impl Serialize) -> Result<Vec<u8>, FileError> {
    let mut bytes = serde_json::to_vec_pretty(content)
        .map_err(|error| FileError::not_encodable(path, error))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Like [`list`], with no names for a missing directory.
pub fn list_if_exists(directory: &Path, cap: usize) -> Result<Vec<OsString>, FileError> {
    match list(directory, cap) {
        Err(error) if error.is_missing() => Ok(Vec::new()),
        listed => listed,
    }
}

/// Reads at most `cap` bytes from offset `from`; fewer, or none, if the file ends.
pub fn read_range(path: &Path, from: u64, cap: usize) -> Result<Vec<u8>, FileError> {
    RegularFile::open(path)?.read_at(from, cap)
}

/// The names in a directory, sorted, without ralph's temporary files. More than `cap` names are an error.
pub fn list(directory: &Path, cap: usize) -> Result<Vec<OsString>, FileError> {
    let listed = || -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            if name.as_bytes().starts_with(write::TEMPORARY_PREFIX.as_bytes()) {
                continue;
            }
            if names.len() == cap {
                return Err(io::Error::other(format!("it has more than {cap} entries")));
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    };
    listed().map_err(FileError::new("list", directory))
}

/// A regular file open for reading.
#[derive(Debug)]
pub struct RegularFile<'a> {
    file: File,
    path: &'a Path,
    len: u64,
}

impl<'a> RegularFile<'a> {
    pub fn open(path: &'a Path) -> Result<Self, FileError> {
        let (file, metadata) = open_regular(OpenOptions::new().read(true), path)
            .map_err(FileError::new("read", path))?;
        Ok(Self { file, path, len: metadata.len() })
    }

    /// The length when it was opened.
    pub fn opened_len(&self) -> u64 {
        self.len
    }

    pub(crate) fn error(&self, source: io::Error) -> FileError {
        FileError::new("read", self.path)(source)
    }

    pub fn read_at(&self, from: u64, most: usize) -> Result<Vec<u8>, FileError> {
        let expected = usize::try_from(self.len.saturating_sub(from)).unwrap_or(most);
        let mut bytes = Vec::with_capacity(expected.min(most));
        self.append_range(from, most, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends at most `most` bytes from offset `from` to a buffer that is used for many files. Returns how many.
    pub fn append_range(
        &self,
        from: u64,
        most: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<usize, FileError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(buffer))
            .map_err(FileError::new("read", self.path))
    }

    /// Its metadata now.
    pub fn stat(&self) -> Result<FileStat, FileError> {
        self.file.metadata().map(FileStat::from).map_err(FileError::new("read", self.path))
    }
}

/// Opens a regular file. Opening never waits for the other end of a pipe, a lease or a terminal; those are rejected.
fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::proc;

    fn why(error: &FileError) -> String {
        format!("{}: {}", error.what, error.source().unwrap())
    }

    #[test]
    fn read_returns_whole_files_up_to_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"12345", Durability::Cached).unwrap();
        for (cap, expected) in [
            (4, Err("read: it is larger than 4 bytes")),
            (5, Ok(&b"12345"[..])),
            (usize::MAX, Ok(b"12345")),
        ] {
            let found = read(&path, cap).map_err(|error| why(&error));
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{cap}");
        }
        for (from, cap, expected) in [(0, 2, &b"12"[..]), (3, 9, b"45"), (5, 9, b""), (99, 9, b"")]
        {
            assert_eq!(read_range(&path, from, cap).unwrap(), expected, "{from}");
        }
    }

    #[test]
    fn anything_but_a_regular_file_is_rejected_immediately() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let socket = dir.path().join("socket");
        proc::testing::run_successfully(dir.path(), &["mkfifo", "fifo"]);
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&fifo, &socket, dir.path(), Path::new("/dev/zero")] {
            assert!(read(path, 10).is_err(), "{}", path.display());
            assert!(read_if_exists(path, 10).is_err(), "{}", path.display());
            assert!(read_range(path, 0, 10).is_err(), "{}", path.display());
            assert!(append(path, b"x", Durability::Cached).is_err(), "{}", path.display());
            assert!(truncate(path, 0).is_err(), "{}", path.display());
        }
        let error = read(&fifo, 10).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read `{}`", fifo.display()));
        assert_eq!(why(&error), "read: it is not a regular file");
    }

    #[test]
    fn missing_files_are_distinguished_from_unreadable_ones() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        replace(&file, b"x", Durability::Cached).unwrap();
        for path in [dir.path().join("none"), file.join("below")] {
            assert_eq!(read_if_exists(&path, 10).unwrap(), None);
            assert!(read(&path, 10).unwrap_err().is_missing());
            assert_eq!(stat(&path), None);
            assert!(!exists(&path));
        }
        let error = read_if_exists(dir.path(), 10).unwrap_err();
        assert!(!error.is_missing() && !error.is_disk_full() && !error.is_read_only());
    }

    #[test]
    fn stat_returns_kinds_and_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let link = dir.path().join("link");
        replace(&file, b"12345", Durability::Cached).unwrap();
        symlink("file", &link).unwrap();
        let found = stat(&file).unwrap();
        assert_eq!((found.kind, found.len, found.mode), (FileKind::File, 5, 0o600));
        assert!(found.modified_ns > 1_700_000_000_000_000_000);
        assert_eq!(stat(&link), Some(found));
        assert_eq!(stat_no_follow(&link).unwrap().kind, FileKind::Symlink);
        assert_eq!(stat(dir.path()).unwrap().kind, FileKind::Directory);
        assert_eq!(read_link(&link).unwrap(), Path::new("file"));
    }

    #[test]
    fn list_is_sorted_bounded_and_without_temporary_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c", ".ralph-tmp-1-2"] {
            append(&dir.path().join(name), b"", Durability::Cached).unwrap();
        }
        assert_eq!(list(dir.path(), 3).unwrap(), ["a", "b", "c"]);
        let error = list(dir.path(), 2).unwrap_err();
        assert_eq!(why(&error), "list: it has more than 2 entries");
        assert!(list(&dir.path().join("none"), 2).unwrap_err().is_missing());
    }
}
