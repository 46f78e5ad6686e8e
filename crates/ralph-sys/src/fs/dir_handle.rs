//! Reads entries by name through an open directory. No path is resolved twice, and no symbolic link is ever followed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use super::FileKind;

/// Size of the buffer for the entries that one system call returns.
#[cfg(target_os = "linux")]
const DIR_BUFFER_BYTES: usize = 32 * 1024;

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
        let moment = |seconds: i64, nanoseconds: u64| {
            let nanoseconds = i64::try_from(nanoseconds).unwrap_or(0);
            seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
        };
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            mode: stat.st_mode & 0o7777,
            device: stat.st_dev,
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: moment(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: moment(stat.st_ctime, stat.st_ctime_nsec),
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

/// File systems known to update a directory's times whenever a name in it is added, removed or renamed: ext, XFS,
/// Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs.
#[cfg(target_os = "linux")]
const FILESYSTEMS_WITH_RELIABLE_DIR_TIMES: [i64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
];

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
    #[cfg(target_os = "linux")]
    pub fn for_each_name(&self, mut each: impl FnMut(&CStr, Option<FileKind>)) -> io::Result<()> {
        let mut room = Vec::with_capacity(DIR_BUFFER_BYTES);
        let mut entries = rustix::fs::RawDir::new(&self.0, room.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            visit_entry(entry.file_name(), entry.file_type(), &mut each);
        }
        Ok(())
    }

    /// Calls `each` with every name but `.` and `..`, and with its kind if the directory listing includes it.
    #[cfg(not(target_os = "linux"))]
    pub fn for_each_name(&self, mut each: impl FnMut(&CStr, Option<FileKind>)) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            visit_entry(entry.file_name(), entry.file_type(), &mut each);
        }
        Ok(())
    }

    pub fn stamp(&self) -> io::Result<FileStamp> {
        Ok(fstat(&self.0)?.into())
    }

    /// Whether this file system updates a directory's times with every change to its names, so that unchanged times
    /// prove unchanged names.
    #[cfg(target_os = "linux")]
    pub fn has_reliable_dir_times(&self) -> bool {
        rustix::fs::fstatfs(&self.0)
            .is_ok_and(|found| FILESYSTEMS_WITH_RELIABLE_DIR_TIMES.contains(&found.f_type))
    }

    /// Whether this file system updates a directory's times with every change to its names, so that unchanged times
    /// prove unchanged names.
    #[cfg(not(target_os = "linux"))]
    pub fn has_reliable_dir_times(&self) -> bool {
        false
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

fn visit_entry(name: &CStr, kind: FileType, each: &mut impl FnMut(&CStr, Option<FileKind>)) {
    if name != c"." && name != c".." {
        each(name, (kind != FileType::Unknown).then(|| kind.into()));
    }
}
