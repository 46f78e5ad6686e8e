//! Changes to files. Every system call that changes something is one failpoint step, so that tests can interrupt ralph
//! between any two.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::failpoint::failpoint_step;
use super::{FileError, is_missing, open_regular};
use crate::{clock, os};

/// The prefix of temporary file names.
pub(super) const TEMPORARY_PREFIX: &str = ".ralph-tmp-";

/// How many names to try before giving up.
const MAX_NAME_ATTEMPTS: u32 = 100;

/// For files that only ralph reads.
pub(super) const PRIVATE_FILE_MODE: u32 = 0o600;

/// For files of the user, before the umask.
const DEFAULT_FILE_MODE: u32 = 0o666;
const EXECUTABLE_FILE_MODE: u32 = 0o777;

/// What a completed change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process.
    Cached,
    /// A power failure.
    Synced,
}

/// Creates a directory and its parents, accessible only to this user. An existing one is left unchanged.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    failpoint_step(|| DirBuilder::new().recursive(true).mode(0o700).create(path))
        .map_err(FileError::new("create the directory", path))
}

/// Creates a directory and its parents with the user's default permissions.
pub fn create_user_dir(path: &Path) -> Result<(), FileError> {
    failpoint_step(|| DirBuilder::new().recursive(true).create(path))
        .map_err(FileError::new("create the directory", path))
}

/// Atomically replaces the file at `path` with `bytes`, readable only by this user.
///
/// After an error the old bytes are still there, unless the completed rename could not be synced: then the new bytes
/// are there, and a power failure may bring the old ones back.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FileError> {
    let put = || {
        let temporary = TemporaryFile::write(path, bytes, PRIVATE_FILE_MODE)?;
        temporary.sync(durability)?;
        temporary.rename_over(path)?;
        sync_parent(path, durability)
    };
    put().map_err(FileError::new("write", path))
}

/// Permissions of a file that other programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedFileMode {
    Ordinary,
    /// Executable.
    Executable,
}

/// [`replace`] for a file in a scratch directory that other programs read or execute. Not synced.
pub fn replace_with_mode(path: &Path, bytes: &[u8], mode: SharedFileMode) -> Result<(), FileError> {
    let mode = match mode {
        SharedFileMode::Ordinary => DEFAULT_FILE_MODE,
        SharedFileMode::Executable => EXECUTABLE_FILE_MODE,
    };
    let put = || TemporaryFile::write(path, bytes, mode)?.rename_over(path);
    put().map_err(FileError::new("write", path))
}

/// [`replace`] for a file of the user: it keeps its permissions, and its owner if we may set one. A symbolic link stays
/// a link, and the regular file it points to is replaced.
pub fn replace_user_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let put = || {
        let existing = match std::fs::symlink_metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let Some(existing) = existing else {
            let temporary = TemporaryFile::write(path, bytes, DEFAULT_FILE_MODE)?;
            temporary.sync(Durability::Synced)?;
            temporary.rename_over(path)?;
            return sync_parent(path, Durability::Synced);
        };
        let (target, existing) = if existing.is_symlink() {
            let target = std::fs::canonicalize(path)?;
            let metadata = std::fs::symlink_metadata(&target)?;
            (target, metadata)
        } else {
            (path.to_owned(), existing)
        };
        if !existing.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let temporary = TemporaryFile::write(&target, bytes, PRIVATE_FILE_MODE)?;
        let created = temporary.file.metadata()?;
        if (created.uid(), created.gid()) != (existing.uid(), existing.gid()) {
            // Only root may change a file's owner. Without root, a replaced file of another user becomes ours.
            failpoint_step(|| {
                std::os::unix::fs::fchown(
                    &temporary.file,
                    Some(existing.uid()),
                    Some(existing.gid()),
                )
            })
            .ok();
        }
        let mode = Permissions::from_mode(existing.mode() & 0o7777);
        failpoint_step(|| temporary.file.set_permissions(mode))?;
        temporary.sync(Durability::Synced)?;
        temporary.rename_over(&target)?;
        sync_parent(&target, Durability::Synced)
    };
    put().map_err(FileError::new("write", path))
}

/// Atomically makes `path` a symbolic link to `target`: readers find the old link or the new one.
pub fn replace_link(path: &Path, target: &Path) -> Result<(), FileError> {
    let put = || {
        let name = format!("{TEMPORARY_PREFIX}{}-{:016x}", std::process::id(), clock::nonce());
        let temporary = parent_or_current(path).join(name);
        failpoint_step(|| std::os::unix::fs::symlink(target, &temporary))?;
        let renamed = failpoint_step(|| rename(&temporary, path));
        if renamed.is_err() {
            failpoint_step(|| std::fs::remove_file(&temporary)).ok();
        }
        renamed
    };
    put().map_err(FileError::new("link", path))
}

/// Overwrites the bytes at offset `at` of an existing file of the user. Only for a few bytes, so that no reader sees
/// half of them.
pub fn patch(path: &Path, at: u64, bytes: &[u8]) -> Result<(), FileError> {
    let put = || {
        let (file, metadata) = open_regular(OpenOptions::new().write(true), path)?;
        if metadata.len() < at.saturating_add(bytes.len() as u64) {
            return Err(io::Error::other("it was truncated meanwhile"));
        }
        failpoint_step(|| file.write_all_at(bytes, at))
    };
    put().map_err(FileError::new("write", path))
}

/// Overwrites the content of a small file in place. Cheaper than [`replace`], after which ext4 writes the file to disk
/// immediately. A reader may see it half written, so use this only for data that can be lost.
pub fn overwrite(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let put = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(PRIVATE_FILE_MODE);
        let (file, metadata) = failpoint_step(|| open_regular(&mut options, path))?;
        failpoint_step(|| file.write_all_at(bytes, 0))?;
        let length = bytes.len() as u64;
        if metadata.len() > length { failpoint_step(|| file.set_len(length)) } else { Ok(()) }
    };
    put().map_err(FileError::new("write", path))
}

/// Atomically creates a file with `bytes`; `false` if the path already exists. Not synced: a claim that a power failure
/// loses can be made again.
pub fn create_new(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    create_new_with_mode(path, bytes, PRIVATE_FILE_MODE)
}

/// [`create_new`] for a file of the user.
pub fn create_new_user_file(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    create_new_with_mode(path, bytes, DEFAULT_FILE_MODE)
}

fn create_new_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<bool, FileError> {
    let put = || {
        let mut temporary = TemporaryFile::write(path, bytes, mode)?;
        temporary.is_renamed = move_without_replacing(&temporary.path, path)?;
        Ok(temporary.is_renamed)
    };
    put().map_err(FileError::new("create", path))
}

/// Appends `bytes` to a file, which is created if missing, and returns the offset just past them.
///
/// It is one write, so that concurrent appends do not interleave. If the disk fills up, part of the bytes may be
/// written; the holder of the file's lock removes them with [`truncate`].
pub fn append(path: &Path, bytes: &[u8], durability: Durability) -> Result<u64, FileError> {
    let add = || {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(PRIVATE_FILE_MODE);
        let (mut file, before) = failpoint_step(|| open_regular(&mut options, path))?;
        failpoint_step(|| file.write_all(bytes))?;
        match durability {
            Durability::Cached => {}
            Durability::Synced => {
                failpoint_step(|| file.sync_data())?;
                if before.len() == 0 {
                    sync_parent(path, durability)?;
                }
            }
        }
        if bytes.is_empty() {
            return Ok(before.len());
        }
        file.stream_position()
    };
    add().map_err(FileError::new("append to", path))
}

/// Creates or empties a file that will be written piece by piece, such as a program's output. A symbolic link is not
/// followed.
pub fn create_output_file(path: &Path) -> Result<File, FileError> {
    let open = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(PRIVATE_FILE_MODE);
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let file = failpoint_step(|| options.custom_flags(flags.bits().cast_signed()).open(path))?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    };
    open().map_err(FileError::new("write", path))
}

/// Truncates a file to `len` bytes. A shorter file is an error and never extended.
pub fn truncate(path: &Path, len: u64) -> Result<(), FileError> {
    let cut = || {
        let (file, metadata) = open_regular(OpenOptions::new().write(true), path)?;
        if metadata.len() < len {
            return Err(io::Error::other(format!("it is shorter than {len} bytes")));
        }
        failpoint_step(|| file.set_len(len))
    };
    cut().map_err(FileError::new("truncate", path))
}

/// Moves a damaged file to `<name>.quarantined-<stamp>`, unchanged.
pub fn quarantine(path: &Path, stamp: u64) -> Result<PathBuf, FileError> {
    let put_aside = || {
        for attempt in 0..MAX_NAME_ATTEMPTS {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".quarantined-{stamp}"));
            if attempt > 0 {
                name.push(format!("-{attempt}"));
            }
            let aside = PathBuf::from(name);
            if move_without_replacing(path, &aside)? {
                return Ok(aside);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    };
    put_aside().map_err(FileError::new("quarantine", path))
}

/// Makes a directory accessible only to its owner.
pub fn make_dir_private(path: &Path) -> Result<(), FileError> {
    failpoint_step(|| std::fs::set_permissions(path, Permissions::from_mode(0o700)))
        .map_err(FileError::new("change the mode of", path))
}

/// Removes a file. A missing file is not an error.
pub fn remove_file(path: &Path) -> Result<(), FileError> {
    match failpoint_step(|| std::fs::remove_file(path)) {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed.map_err(FileError::new("remove", path)),
    }
}

/// Removes an empty directory. One that is missing or not empty is not an error.
pub fn remove_empty_dir(path: &Path) -> Result<(), FileError> {
    match failpoint_step(|| std::fs::remove_dir(path)) {
        Err(error) if is_missing(&error) || error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Ok(())
        }
        removed => removed.map_err(FileError::new("remove", path)),
    }
}

/// Removes a directory that ralph created below its home, with everything in it. A symbolic link in its place is
/// removed, not followed. A missing directory is not an error.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn remove_own_dir_tree(path: &Path) -> Result<(), FileError> {
    let remove = || match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => failpoint_step(|| std::fs::remove_dir_all(path)),
        Ok(_) => failpoint_step(|| std::fs::remove_file(path)),
        Err(error) => Err(error),
    };
    let mut removed = remove();
    if removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        make_dirs_accessible(path);
        removed = remove();
    }
    match removed {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed.map_err(FileError::new("remove", path)),
    }
}

/// Moves a directory that ralph created to a name that is free, on the same file system, so that it is gone from its old
/// place at once, however long its removal takes. A missing directory is not an error; returns whether there was one.
pub fn move_own_dir(from: &Path, to: &Path) -> Result<bool, FileError> {
    let moved = match failpoint_step(|| Ok(os::rename_without_replacing(from, to)?)) {
        Err(error) if is_unsupported(&error) && std::fs::symlink_metadata(to).is_err() => {
            failpoint_step(|| rename(from, to))
        }
        moved => moved,
    };
    match moved {
        Ok(()) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(FileError::new("move", from)(error)),
    }
}

/// Makes every directory of a tree accessible, because some tools create read-only ones. Errors are ignored: the
/// caller's next attempt reports them.
fn make_dirs_accessible(path: &Path) {
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        if os::make_dir_accessible(&directory).is_err() {
            continue;
        }
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(inner.map(|entry| entry.path()));
    }
}

/// An unnamed file with `bytes`, open for reading from the start. `directory` determines the file system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn create_unnamed_file(directory: &Path, bytes: &[u8]) -> Result<File, FileError> {
    let make = || {
        let temporary = TemporaryFile::write(&directory.join("scratch"), bytes, PRIVATE_FILE_MODE)?;
        OpenOptions::new().read(true).open(&temporary.path)
    };
    make().map_err(FileError::new("write to", directory))
}

/// A temporary file in the directory of its target; removed on drop unless it was renamed.
struct TemporaryFile {
    file: File,
    path: PathBuf,
    is_renamed: bool,
}

impl TemporaryFile {
    fn write(target: &Path, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let mut temporary = Self::create(parent_or_current(target), mode)?;
        failpoint_step(|| temporary.file.write_all(bytes))?;
        Ok(temporary)
    }

    fn create(directory: &Path, mode: u32) -> io::Result<Self> {
        for _ in 0..MAX_NAME_ATTEMPTS {
            let name = format!("{TEMPORARY_PREFIX}{}-{:016x}", std::process::id(), clock::nonce());
            let path = directory.join(name);
            let opened = failpoint_step(|| {
                OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)
            });
            match opened {
                Ok(file) => {
                    return Ok(Self { file, path, is_renamed: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn sync(&self, durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Cached => Ok(()),
            Durability::Synced => failpoint_step(|| self.file.sync_all()),
        }
    }

    fn rename_over(mut self, target: &Path) -> io::Result<()> {
        failpoint_step(|| rename(&self.path, target))?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The first error is the one to report.
            failpoint_step(|| std::fs::remove_file(&self.path)).ok();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Moves `from` to `to`; `false` if `to` already exists.
fn move_without_replacing(from: &Path, to: &Path) -> io::Result<bool> {
    match failpoint_step(|| Ok(os::rename_without_replacing(from, to)?)) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) if !is_unsupported(&error) => return Err(error),
        Err(_) => {}
    }
    match failpoint_step(|| std::fs::hard_link(from, to)) {
        Ok(()) => failpoint_step(|| std::fs::remove_file(from)).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// File systems without this rename fail with `EINVAL` or `ENOTSUP`, old kernels and sandboxes with `ENOSYS` or
/// `EPERM`.
fn is_unsupported(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOTSUP, Errno::NOSYS, Errno::PERM]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

fn sync_parent(path: &Path, durability: Durability) -> io::Result<()> {
    match durability {
        Durability::Cached => Ok(()),
        Durability::Synced => {
            let directory = OpenOptions::new().read(true).open(parent_or_current(path))?;
            match failpoint_step(|| directory.sync_all()) {
                // Some network and FUSE file systems cannot sync a directory, and do not need it.
                Err(error) if is_unsupported(&error) => Ok(()),
                synced => synced,
            }
        }
    }
}

fn parent_or_current(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs::{list, read, stat};

    /// All names in a directory, including temporary files.
    pub(super) fn all_names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        stat(path).unwrap().mode
    }

    /// Only root can list or empty a directory without permissions, so this tests more as an ordinary user.
    #[test]
    fn a_directory_tree_is_removed_with_its_read_only_directories() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("made");
        let elsewhere = directory.path().join("elsewhere");
        std::fs::create_dir_all(made.join("a/b/c")).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        replace(&made.join("a/b/file"), b"x", Durability::Cached).unwrap();
        std::os::unix::fs::symlink(&elsewhere, made.join("a/link")).unwrap();
        let lock = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        lock(&elsewhere, 0o555);
        lock(&made.join("a/b"), 0o555);
        lock(&made.join("a"), 0o000);
        remove_own_dir_tree(&made).unwrap();
        assert!(!made.exists());
        assert_eq!(elsewhere.metadata().unwrap().mode() & 0o777, 0o555);
    }

    #[test]
    fn an_output_file_starts_empty_and_never_follows_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("log"), dir.path().join("link"));
        for text in ["longer", "short"] {
            create_output_file(&path).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(read(&path, 100).unwrap(), text.as_bytes());
        }
        assert_eq!(stat(&path).unwrap().mode, 0o600);
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(create_output_file(&link).is_err());
        assert!(create_output_file(Path::new("/dev/null")).is_err());
        assert_eq!(read(&path, 100).unwrap(), b"short");
    }

    #[test]
    fn replace_creates_a_private_file_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (bytes, durability) in [
            (&b"one"[..], Durability::Cached),
            (b"", Durability::Synced),
            (b"three", Durability::Synced),
        ] {
            replace(&path, bytes, durability).unwrap();
            assert_eq!(read(&path, 10).unwrap(), bytes);
        }
        assert_eq!(mode(&path), 0o600);
        assert_eq!(all_names(dir.path()), ["file"]);
    }

    #[test]
    fn a_failed_replace_leaves_the_target_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directory");
        create_private_dir(&path.join("deep")).unwrap();
        assert_eq!(mode(&path), 0o700);
        for durability in [Durability::Cached, Durability::Synced] {
            replace(&path, b"new", durability).unwrap_err();
            assert_eq!(all_names(dir.path()), ["directory"]);
        }
        let below_nothing = dir.path().join("none/file");
        assert!(replace(&below_nothing, b"new", Durability::Cached).unwrap_err().is_missing());
    }

    #[test]
    fn a_user_file_keeps_its_mode_and_a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let link = dir.path().join("link");
        replace(&file, b"old", Durability::Cached).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();

        replace_user_file(&link, b"new").unwrap();
        assert_eq!(read(&file, 10).unwrap(), b"new");
        assert_eq!(mode(&file), 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());

        replace_user_file(&file, b"newer").unwrap();
        assert_eq!((read(&link, 10).unwrap(), mode(&file)), (b"newer".to_vec(), 0o640));

        replace_user_file(&dir.path().join("fresh"), b"x").unwrap();
        assert_eq!(all_names(dir.path()), ["file", "fresh", "link"]);
    }

    #[test]
    fn a_dangling_link_or_a_link_to_a_directory_or_device_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for (name, target) in [("dangling", "none"), ("directory", "."), ("device", "/dev/null")] {
            let link = dir.path().join(name);
            symlink(target, &link).unwrap();
            replace_user_file(&link, b"x").unwrap_err();
            assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        replace_user_file(dir.path(), b"x").unwrap_err();
        assert_eq!(all_names(dir.path()), ["dangling", "device", "directory"]);
    }

    #[test]
    fn create_new_never_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(create_new(&path, b"first").unwrap());
        assert!(!create_new(&path, b"second").unwrap());
        assert_eq!((read(&path, 10).unwrap(), mode(&path)), (b"first".to_vec(), 0o600));
        let dangling = dir.path().join("dangling");
        symlink("none", &dangling).unwrap();
        assert!(!create_new(&dangling, b"x").unwrap());
        assert_eq!(all_names(dir.path()), ["dangling", "file"]);
    }

    #[test]
    fn append_returns_the_end_offset_and_truncate_never_extends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for (bytes, durability, offset) in [
            (&b"one\n"[..], Durability::Synced, 4),
            (b"", Durability::Cached, 4),
            (b"three\n", Durability::Cached, 10),
        ] {
            assert_eq!(append(&path, bytes, durability).unwrap(), offset);
        }
        assert_eq!(mode(&path), 0o600);
        truncate(&path, 4).unwrap();
        truncate(&path, 4).unwrap();
        truncate(&path, 5).unwrap_err();
        assert_eq!(read(&path, 99).unwrap(), b"one\n");
        assert!(truncate(&dir.path().join("none"), 0).unwrap_err().is_missing());
    }

    #[test]
    fn quarantine_keeps_every_damaged_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (bytes, name) in [
            (b"1", "file.quarantined-7"),
            (b"2", "file.quarantined-7-1"),
            (b"3", "file.quarantined-7-2"),
        ] {
            replace(&path, bytes, Durability::Cached).unwrap();
            let aside = quarantine(&path, 7).unwrap();
            assert_eq!(aside, dir.path().join(name));
            assert_eq!(read(&aside, 10).unwrap(), bytes);
        }
        assert!(quarantine(&path, 7).unwrap_err().is_missing());
        remove_file(&dir.path().join("file.quarantined-7")).unwrap();
        remove_file(&dir.path().join("file.quarantined-7")).unwrap();
        assert_eq!(list(dir.path(), 9).unwrap().len(), 2);
    }
}

/// Failpoints exist in debug builds only.
#[cfg(all(test, debug_assertions))]
mod fault_tests {
    use super::tests::all_names;
    use super::*;
    use crate::env;
    use crate::fs::{list, read};
    use crate::proc::{ProgramEnd, testing};

    /// Create, write, sync, rename, sync the directory.
    const STEPS: u32 = 5;

    #[test]
    #[ignore = "the fault tests run it in a separate process"]
    fn victim_replaces() {
        let Some(directory) = env::testing::variable("TEST_DIRECTORY") else {
            return;
        };
        replace(&PathBuf::from(directory).join("file"), b"new", Durability::Synced).unwrap();
    }

    fn run_victim(directory: &Path, fault: &str) -> ProgramEnd {
        testing::rerun_test(
            "fs::write::fault_tests::victim_replaces",
            &[
                ("TEST_DIRECTORY".as_ref(), directory.as_os_str()),
                ("RALPH_FAILPOINT".as_ref(), fault.as_ref()),
            ],
        )
    }

    #[test]
    fn a_full_disk_at_any_step_leaves_old_or_new_bytes_and_no_temporary_file() {
        for step in 1..=STEPS + 1 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            replace(&path, b"old", Durability::Cached).unwrap();
            let succeeded =
                testing::exit_code(&run_victim(dir.path(), &format!("enospc:{step}"))) == 0;
            assert_eq!(succeeded, step > STEPS, "step {step}");
            let expected = if step < STEPS { b"old" } else { b"new" };
            assert_eq!(read(&path, 10).unwrap(), expected, "step {step}");
            assert_eq!(all_names(dir.path()), ["file"], "step {step}");
        }
    }

    #[test]
    fn a_kill_at_any_point_leaves_the_old_or_the_new_bytes() {
        let renamed = 2 * (STEPS - 1);
        for point in 1..=2 * STEPS + 1 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            replace(&path, b"old", Durability::Cached).unwrap();
            let ended = run_victim(dir.path(), &format!("kill:{point}"));
            let was_killed = matches!(ended, ProgramEnd::Signalled);
            assert_eq!(was_killed, point <= 2 * STEPS, "point {point}: {ended:?}");
            let expected = if point < renamed { b"old" } else { b"new" };
            assert_eq!(read(&path, 10).unwrap(), expected, "point {point}");
            assert_eq!(list(dir.path(), 9).unwrap(), ["file"], "point {point}");
        }
    }
}
