//! Reads entries by name through an open directory. No path is resolved twice, and no symbolic link is ever followed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use super::{FileKind, FileStat};
use crate::os;

/// Metadata that shows whether a file has changed. Programs cannot set the change time (`changed_ns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    pub device: u64,
    pub inode: u64,
    pub len: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
}

impl From<rustix::fs::Stat> for FileStamp {
    fn from(stat: rustix::fs::Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: permission_bits(stat.st_mode),
            device: to_unsigned(stat.st_dev),
            inode: to_unsigned(stat.st_ino),
            len: to_unsigned(stat.st_size),
            modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

// Systems differ in the types of these fields.

fn nanoseconds(seconds: impl Into<i64>, nanoseconds: impl TryInto<i64>) -> i64 {
    let nanoseconds = nanoseconds.try_into().unwrap_or(0);
    seconds.into().saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

fn to_unsigned(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

fn permission_bits(mode: impl Into<u32>) -> u32 {
    mode.into() & 0o7777
}

impl From<FileStamp> for FileStat {
    fn from(stamp: FileStamp) -> Self {
        Self {
            kind: stamp.kind,
            len: stamp.len,
            device: stamp.device,
            inode: stamp.inode,
            modified_ns: to_unsigned(stamp.modified_ns),
            changed_ns: to_unsigned(stamp.changed_ns),
            mode: stamp.mode,
        }
    }
}

impl From<FileType> for FileKind {
    fn from(found: FileType) -> Self {
        if found.is_file() {
            Self::File
        } else if found.is_dir() {
            Self::Directory
        } else if found.is_symlink() {
            Self::Symlink
        } else {
            Self::Other
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub struct DirHandle(OwnedFd);

const OPEN_DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opening neither waits for the other end of a pipe nor acquires a controlling terminal.
const OPEN_FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl DirHandle {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, OPEN_DIR_FLAGS, Mode::empty())?))
    }

    pub fn open_directory(&self, name: &CStr) -> io::Result<Self> {
        Ok(Self(openat(&self.0, name, OPEN_DIR_FLAGS, Mode::empty())?))
    }

    /// Calls `each` with every name but `.` and `..`, and with its kind if the directory listing includes it.
    pub fn for_each_name(&self, mut each: impl FnMut(&CStr, Option<FileKind>)) -> io::Result<()> {
        os::visit_dir_entries(&self.0, |name, kind| {
            if name != c"." && name != c".." {
                each(name, (kind != FileType::Unknown).then(|| kind.into()));
            }
        })
    }

    pub fn stamp(&self) -> io::Result<FileStamp> {
        Ok(fstat(&self.0)?.into())
    }

    /// Whether this file system updates a directory's times with every change to its names, so that unchanged times
    /// prove unchanged names.
    pub fn has_reliable_dir_times(&self) -> bool {
        os::has_reliable_dir_times(&self.0)
    }

    pub fn stat(&self, name: &CStr) -> io::Result<FileStamp> {
        Ok(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?.into())
    }

    /// Opens a regular file and returns its metadata at that time.
    pub fn open_file(&self, name: &CStr) -> io::Result<(File, FileStamp)> {
        let file = openat(&self.0, name, OPEN_FILE_FLAGS, Mode::empty())?;
        let stamp = FileStamp::from(fstat(&file)?);
        match stamp.kind {
            FileKind::File => Ok((file.into(), stamp)),
            FileKind::Directory | FileKind::Symlink | FileKind::Other => {
                Err(io::Error::other("it is not a regular file"))
            }
        }
    }

    /// The target of a symbolic link, unresolved.
    pub fn read_link(&self, name: &CStr) -> io::Result<PathBuf> {
        let target = readlinkat(&self.0, name, Vec::new())?;
        Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
    }
}
