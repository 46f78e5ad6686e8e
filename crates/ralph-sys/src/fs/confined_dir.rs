//! Changes files below one directory that other processes may change at the same time.
//!
//! Each component of a path is opened separately and never through a symbolic link. A directory that is replaced by a
//! link between the check and the write therefore cannot redirect the write.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::dir_handle::FileStamp;
use super::failpoint::failpoint_step;
use super::write::TEMPORARY_PREFIX;
use super::{FileError, FileKind, FileStat, is_missing, open_regular};
use crate::clock;

const OPEN_DIR_NOFOLLOW: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ_BITS: u32 = 0o444;
const EXECUTE_BITS: u32 = 0o111;

/// An open directory whose methods never reach outside it.
#[derive(Debug)]
pub struct ConfinedDir {
    root: OwnedFd,
    path: PathBuf,
}

/// How to copy a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    File,
    Executable,
    /// The original is a symbolic link; the copy has the same target.
    Symlink,
}

/// The opened parent directory of a path, and the path's last component.
struct EntryLocation<'a> {
    directory: ParentDirHandle<'a>,
    name: &'a OsStr,
}

enum ParentDirHandle<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for ParentDirHandle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Below(directory) => directory.as_fd(),
        }
    }
}

/// What to do about missing parent directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingParents {
    Create,
    Fail,
}

impl ConfinedDir {
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let opened = rustix::fs::open(root, OPEN_DIR_NOFOLLOW, Mode::empty());
        let opened = opened.map_err(|errno| FileError::new("open", root)(errno.into()))?;
        Ok(Self { root: opened, path: root.to_owned() })
    }

    /// The metadata of this path, without following links. `None` if it is missing, or if one of its parents is missing
    /// or not a directory.
    pub fn stat(&self, path: &Path) -> Result<Option<FileStat>, FileError> {
        let look = || {
            let place = self.open_parent(path, MissingParents::Fail)?;
            Ok(stat_at(&place)?)
        };
        match look() {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(FileError::new("inspect", &self.path.join(path))(error)),
        }
    }

    /// Atomically puts a copy of `original` at `path`, replacing anything but a non-empty directory. A replaced file's
    /// permissions are kept, except for the execute bits.
    pub fn put_copy(&self, path: &Path, original: &Path, put: CopyKind) -> Result<(), FileError> {
        self.put_entry(path, |place, temporary, kept| match put {
            CopyKind::Symlink => make_link(place, temporary, &std::fs::read_link(original)?),
            CopyKind::File => copy_file(place, temporary, original, 0o666, kept),
            CopyKind::Executable => copy_file(place, temporary, original, 0o777, kept),
        })
    }

    /// Creates an entry under a temporary name with `make` and renames it to `path`. `make` gets the temporary name and
    /// the permissions of the file that it will replace.
    fn put_entry(
        &self,
        path: &Path,
        make: impl FnOnce(&EntryLocation<'_>, &str, Option<u32>) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let write = || {
            let place = self.open_parent(path, MissingParents::Create)?;
            let directory = &place.directory;
            let existing = match stat_at(&place) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error.into()),
            };
            if existing.is_some_and(|stat| stat.kind == FileKind::Directory) {
                failpoint_step(|| Ok(unlinkat(directory, place.name, AtFlags::REMOVEDIR)?))?;
            }
            let kept = existing.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.mode);
            let temporary =
                format!("{TEMPORARY_PREFIX}{}-{:016x}", std::process::id(), clock::nonce());
            let moved = make(&place, &temporary, kept).and_then(|()| {
                failpoint_step(|| Ok(renameat(directory, &*temporary, directory, place.name)?))
            });
            if moved.is_err() {
                // The first error is the one to report.
                failpoint_step(|| Ok(unlinkat(directory, &*temporary, AtFlags::empty())?)).ok();
            }
            moved
        };
        write().map_err(FileError::new("write", &self.path.join(path)))
    }

    /// Puts a symbolic link to `target` at `path`, replacing anything but a non-empty directory.
    pub fn put_link(&self, path: &Path, target: &Path) -> Result<(), FileError> {
        self.put_entry(path, |place, temporary, _| make_link(place, temporary, target))
    }

    /// Creates a directory and its parents. One that exists is not an error.
    pub fn create_dir(&self, path: &Path) -> Result<(), FileError> {
        let create = || {
            let place = self.open_parent(path, MissingParents::Create)?;
            let mode = Mode::from_raw_mode(0o777);
            match failpoint_step(|| Ok(mkdirat(&place.directory, place.name, mode)?)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                created => created,
            }
        };
        create().map_err(FileError::new("create", &self.path.join(path)))
    }

    /// Removes a file or a link, then every parent directory that this leaves empty. A missing file is not an error.
    pub fn remove(&self, path: &Path) -> Result<(), FileError> {
        let remove = || {
            let place = self.open_parent(path, MissingParents::Fail)?;
            failpoint_step(|| Ok(unlinkat(&place.directory, place.name, AtFlags::empty())?))
        };
        match remove() {
            Err(error) if !is_absent(&error) => {
                return Err(FileError::new("remove", &self.path.join(path))(error));
            }
            Ok(()) | Err(_) => {}
        }
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            let emptied = || {
                let place = self.open_parent(parent, MissingParents::Fail)?;
                failpoint_step(|| Ok(unlinkat(&place.directory, place.name, AtFlags::REMOVEDIR)?))
            };
            if emptied().is_err() {
                break;
            }
        }
        Ok(())
    }

    fn open_parent<'a>(
        &'a self,
        path: &'a Path,
        missing: MissingParents,
    ) -> io::Result<EntryLocation<'a>> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::Prefix(_)
                | Component::RootDir
                | Component::CurDir
                | Component::ParentDir => return Err(outside_error()),
            }
        }
        let name = names.pop().ok_or_else(outside_error)?;
        let mut directory = ParentDirHandle::Root(self.root.as_fd());
        for name in names {
            let below = match openat(&directory, name, OPEN_DIR_NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) if missing == MissingParents::Create => {
                    failpoint_step(|| Ok(mkdirat(&directory, name, Mode::from_raw_mode(0o777))?))?;
                    openat(&directory, name, OPEN_DIR_NOFOLLOW, Mode::empty())?
                }
                opened => opened?,
            };
            directory = ParentDirHandle::Below(below);
        }
        Ok(EntryLocation { directory, name })
    }
}

fn outside_error() -> io::Error {
    io::Error::other("it is outside the directory")
}

/// A path that leads through a symbolic link counts as missing.
fn is_absent(error: &io::Error) -> bool {
    is_missing(error) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn stat_at(place: &EntryLocation<'_>) -> rustix::io::Result<FileStat> {
    let found = statat(&place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileStamp::from(found).into())
}

fn make_link(place: &EntryLocation<'_>, temporary: &str, target: &Path) -> io::Result<()> {
    failpoint_step(|| Ok(symlinkat(target, &place.directory, temporary)?))
}

/// `ordinary` is the mode of a new file, before the umask, and `kept` that of the file that is replaced, if any.
fn copy_file(
    place: &EntryLocation<'_>,
    temporary: &str,
    original: &Path,
    ordinary: u32,
    kept: Option<u32>,
) -> io::Result<()> {
    let (mut from, _) = open_regular(std::fs::OpenOptions::new().read(true), original)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let opened = failpoint_step(|| {
        Ok(openat(&place.directory, temporary, flags, Mode::from_raw_mode(ordinary))?)
    })?;
    let mut file = File::from(opened);
    failpoint_step(|| io::copy(&mut from, &mut file))?;
    if let Some(kept) = kept {
        let mode = if ordinary & EXECUTE_BITS == 0 {
            kept & !EXECUTE_BITS
        } else {
            kept | ((kept & READ_BITS) >> 2) | 0o100
        };
        failpoint_step(|| file.set_permissions(Permissions::from_mode(mode)))?;
    }
    Ok(())
}

/// Whether a path from a git tree may be written: it has no empty, `.`, `..` or `.git` component. Git never lists such
/// a path itself.
pub fn is_safe_tree_path(path: &OsStr) -> bool {
    let is_part =
        |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git");
    path.as_bytes().split(|byte| *byte == b'/').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs::{self, Durability};

    struct ConfinedDirFixture {
        dir: tempfile::TempDir,
    }

    impl ConfinedDirFixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["root/a/b", "outside"] {
                std::fs::create_dir_all(dir.path().join(name)).unwrap();
            }
            let scene = Self { dir };
            fs::replace(&scene.at("original"), b"new", Durability::Cached).unwrap();
            fs::replace(&scene.at("outside/file"), b"theirs", Durability::Cached).unwrap();
            scene
        }

        fn at(&self, path: &str) -> PathBuf {
            self.dir.path().join(path)
        }

        fn inside(&self) -> ConfinedDir {
            ConfinedDir::open(&self.at("root")).unwrap()
        }

        fn put(&self, path: &str, put: CopyKind) -> Result<(), FileError> {
            self.inside().put_copy(Path::new(path), &self.at("original"), put)
        }
    }

    #[test]
    fn no_write_or_removal_follows_a_link() {
        let scene = ConfinedDirFixture::new();
        symlink(scene.at("outside"), scene.at("root/a/out")).unwrap();
        symlink("/", scene.at("root/slash")).unwrap();
        for path in ["a/out/file", "a/out/new", "slash/tmp/x", "../outside/file", "/tmp/x", "", "."]
        {
            assert!(scene.put(path, CopyKind::File).is_err(), "{path}");
            scene.inside().remove(Path::new(path)).ok();
        }
        assert_eq!(std::fs::read_dir(scene.at("outside")).unwrap().count(), 1);
        assert_eq!(fs::read(&scene.at("outside/file"), 9).unwrap(), b"theirs");
        assert_eq!(scene.inside().stat(Path::new("a/out/file")).unwrap(), None);
    }

    #[test]
    fn a_link_as_the_last_component_is_replaced_itself() {
        let scene = ConfinedDirFixture::new();
        symlink(scene.at("outside/file"), scene.at("root/link")).unwrap();
        scene.put("link", CopyKind::File).unwrap();
        assert_eq!(fs::stat_no_follow(&scene.at("root/link")).unwrap().kind, FileKind::File);
        assert_eq!(fs::read(&scene.at("outside/file"), 9).unwrap(), b"theirs");
    }

    #[test]
    fn permissions_are_kept_except_for_execute_bits() {
        let scene = ConfinedDirFixture::new();
        let path = scene.at("root/file");
        for (before, put, after) in [
            (0o640, CopyKind::Executable, 0o750),
            (0o700, CopyKind::File, 0o600),
            (0o444, CopyKind::File, 0o444),
        ] {
            fs::replace(&path, b"old", Durability::Cached).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            scene.put("file", put).unwrap();
            assert_eq!(fs::stat(&path).unwrap().mode, after, "{before:o}");
            assert_eq!(fs::read(&path, 9).unwrap(), b"new");
        }
    }

    #[test]
    fn parent_directories_are_created_with_files_and_removed_when_empty() {
        let scene = ConfinedDirFixture::new();
        scene.put("x/y/z", CopyKind::File).unwrap();
        scene.put("x/kept", CopyKind::File).unwrap();
        scene.inside().remove(Path::new("x/y/z")).unwrap();
        scene.inside().remove(Path::new("x/y/z")).unwrap();
        assert!(!scene.at("root/x/y").exists() && scene.at("root/x/kept").exists());
        scene.put("a/b", CopyKind::File).unwrap();
        assert!(scene.put("x", CopyKind::File).is_err());
        assert!(scene.put("a/b/c", CopyKind::File).is_err());
        let names = fs::list(&scene.at("root"), 9).unwrap();
        assert_eq!(names, ["a", "x"], "no temporary file is left");
    }

    #[test]
    fn paths_that_git_never_lists_are_rejected() {
        for (path, expected) in [
            ("a", true),
            ("a/.gitignore", true),
            ("a\nb/ c", true),
            ("", false),
            ("/a", false),
            ("a//b", false),
            ("a/", false),
            ("../a", false),
            ("a/./b", false),
            (".git/config", false),
            ("a/.GIT/hooks/x", false),
        ] {
            assert_eq!(is_safe_tree_path(OsStr::new(path)), expected, "{path}");
        }
    }
}
