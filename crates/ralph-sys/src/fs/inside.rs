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

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::failpoint::step;
use super::write::TEMPORARY;
use super::{FileError, Kind, Stat, is_missing, open_regular};
use crate::clock;

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ_BITS: u32 = 0o444;
const EXECUTE_BITS: u32 = 0o111;

/// An open directory whose methods never reach outside it.
#[derive(Debug)]
pub struct Inside {
    root: OwnedFd,
    path: PathBuf,
}

/// How to copy a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    File,
    Executable,
    /// The original is a symbolic link; the copy has the same target.
    Symlink,
}

/// The opened parent directory of a path, and the path's last component.
struct Place<'a> {
    directory: Directory<'a>,
    name: &'a OsStr,
}

enum Directory<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Below(directory) => directory.as_fd(),
        }
    }
}

/// What to do about missing parent directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Fail,
}

impl Inside {
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let opened = rustix::fs::open(root, DIRECTORY, Mode::empty());
        let opened = opened.map_err(|errno| FileError::new("open", root)(errno.into()))?;
        Ok(Self { root: opened, path: root.to_owned() })
    }

    /// The metadata of this path, without following links. `None` if it is missing, or if one of its parents is missing
    /// or not a directory.
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, FileError> {
        let look = || {
            let place = self.place(path, Missing::Fail)?;
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
    pub fn put(&self, path: &Path, original: &Path, put: Put) -> Result<(), FileError> {
        self.place_new(path, |place, temporary, kept| match put {
            Put::Symlink => link(place, temporary, &std::fs::read_link(original)?),
            Put::File => copy(place, temporary, original, (0o666, kept)),
            Put::Executable => copy(place, temporary, original, (0o777, kept)),
        })
    }

    /// Creates an entry under a temporary name with `make` and renames it to `path`. `make` gets the temporary name and
    /// the permissions of the file that it will replace.
    fn place_new(
        &self,
        path: &Path,
        make: impl FnOnce(&Place<'_>, &str, Option<u32>) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let write = || {
            let place = self.place(path, Missing::Make)?;
            let directory = &place.directory;
            let existing = stat_at(&place).ok();
            if existing.is_some_and(|stat| stat.kind == Kind::Directory) {
                step(|| Ok(unlinkat(directory, place.name, AtFlags::REMOVEDIR)?))?;
            }
            let kept = existing.filter(|stat| stat.kind == Kind::File).map(|stat| stat.mode);
            let temporary = format!("{TEMPORARY}{}-{:016x}", std::process::id(), clock::nonce());
            let moved = make(&place, &temporary, kept).and_then(|()| {
                step(|| Ok(renameat(directory, &*temporary, directory, place.name)?))
            });
            if moved.is_err() {
                // The first error is the one to report.
                step(|| Ok(unlinkat(directory, &*temporary, AtFlags::empty())?)).ok();
            }
            moved
        };
        write().map_err(FileError::new("write", &self.path.join(path)))
    }

    /// Puts a symbolic link to `target` at `path`, replacing anything but a non-empty directory.
    pub fn link(&self, path: &Path, target: &Path) -> Result<(), FileError> {
        self.place_new(path, |place, temporary, _| link(place, temporary, target))
    }

    /// Removes a file or a link, then every parent directory that this leaves empty. A missing file is not an error.
    pub fn remove(&self, path: &Path) -> Result<(), FileError> {
        let remove = || {
            let place = self.place(path, Missing::Fail)?;
            step(|| Ok(unlinkat(&place.directory, place.name, AtFlags::empty())?))
        };
        match remove() {
            Err(error) if !is_absent(&error) => {
                return Err(FileError::new("remove", &self.path.join(path))(error));
            }
            Ok(()) | Err(_) => {}
        }
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            let emptied = || {
                let place = self.place(parent, Missing::Fail)?;
                step(|| Ok(unlinkat(&place.directory, place.name, AtFlags::REMOVEDIR)?))
            };
            if emptied().is_err() {
                break;
            }
        }
        Ok(())
    }

    fn place<'a>(&'a self, path: &'a Path, missing: Missing) -> io::Result<Place<'a>> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::Prefix(_)
                | Component::RootDir
                | Component::CurDir
                | Component::ParentDir => return Err(outside()),
            }
        }
        let name = names.pop().ok_or_else(outside)?;
        let mut directory = Directory::Root(self.root.as_fd());
        for name in names {
            let below = match openat(&directory, name, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) if missing == Missing::Make => {
                    step(|| Ok(mkdirat(&directory, name, Mode::from_raw_mode(0o777))?))?;
                    openat(&directory, name, DIRECTORY, Mode::empty())?
                }
                opened => opened?,
            };
            directory = Directory::Below(below);
        }
        Ok(Place { directory, name })
    }
}

fn outside() -> io::Error {
    io::Error::other("it is outside the directory")
}

/// A path that leads through a symbolic link counts as missing.
fn is_absent(error: &io::Error) -> bool {
    is_missing(error) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn stat_at(place: &Place<'_>) -> rustix::io::Result<Stat> {
    let found = statat(&place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (seconds, nanoseconds) = (at_least_0(found.st_mtime), at_least_0(found.st_mtime_nsec));
    Ok(Stat {
        kind: match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Kind::Other,
        },
        len: at_least_0(found.st_size),
        device: at_least_0(found.st_dev),
        inode: at_least_0(found.st_ino),
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
        mode: found.st_mode & 0o7777,
    })
}

/// Systems differ in which of these fields are signed.
fn at_least_0(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

fn link(place: &Place<'_>, temporary: &str, target: &Path) -> io::Result<()> {
    step(|| Ok(symlinkat(target, &place.directory, temporary)?))
}

/// `modes` is the mode of a new file, before the umask, and the mode of the file that is replaced, if any.
fn copy(
    place: &Place<'_>,
    temporary: &str,
    original: &Path,
    modes: (u32, Option<u32>),
) -> io::Result<()> {
    let (mut from, _) = open_regular(std::fs::OpenOptions::new().read(true), original)?;
    let (ordinary, kept) = modes;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let opened =
        step(|| Ok(openat(&place.directory, temporary, flags, Mode::from_raw_mode(ordinary))?))?;
    let mut file = File::from(opened);
    step(|| io::copy(&mut from, &mut file))?;
    if let Some(kept) = kept {
        let mode = if ordinary & EXECUTE_BITS == 0 {
            kept & !EXECUTE_BITS
        } else {
            kept | ((kept & READ_BITS) >> 2) | 0o100
        };
        step(|| file.set_permissions(Permissions::from_mode(mode)))?;
    }
    Ok(())
}

/// Whether a path from a git tree may be written: it has no empty, `.`, `..` or `.git` component. Git never lists such
/// a path itself.
pub fn is_plain(path: &OsStr) -> bool {
    let is_part =
        |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git");
    path.as_bytes().split(|byte| *byte == b'/').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs::{self, Durability};

    struct Scene {
        dir: tempfile::TempDir,
    }

    impl Scene {
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

        fn inside(&self) -> Inside {
            Inside::open(&self.at("root")).unwrap()
        }

        fn put(&self, path: &str, put: Put) -> Result<(), FileError> {
            self.inside().put(Path::new(path), &self.at("original"), put)
        }
    }

    #[test]
    fn no_write_or_removal_follows_a_link() {
        let scene = Scene::new();
        symlink(scene.at("outside"), scene.at("root/a/out")).unwrap();
        symlink("/", scene.at("root/slash")).unwrap();
        for path in ["a/out/file", "a/out/new", "slash/tmp/x", "../outside/file", "/tmp/x", "", "."]
        {
            assert!(scene.put(path, Put::File).is_err(), "{path}");
            scene.inside().remove(Path::new(path)).ok();
        }
        assert_eq!(std::fs::read_dir(scene.at("outside")).unwrap().count(), 1);
        assert_eq!(fs::read(&scene.at("outside/file"), 9).unwrap(), b"theirs");
        assert_eq!(scene.inside().stat(Path::new("a/out/file")).unwrap(), None);
    }

    #[test]
    fn a_link_as_the_last_component_is_replaced_itself() {
        let scene = Scene::new();
        symlink(scene.at("outside/file"), scene.at("root/link")).unwrap();
        scene.put("link", Put::File).unwrap();
        assert_eq!(fs::stat_link(&scene.at("root/link")).unwrap().kind, Kind::File);
        assert_eq!(fs::read(&scene.at("outside/file"), 9).unwrap(), b"theirs");
    }

    #[test]
    fn permissions_are_kept_except_for_execute_bits() {
        let scene = Scene::new();
        let path = scene.at("root/file");
        for (before, put, after) in
            [(0o640, Put::Executable, 0o750), (0o700, Put::File, 0o600), (0o444, Put::File, 0o444)]
        {
            fs::replace(&path, b"old", Durability::Cached).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            scene.put("file", put).unwrap();
            assert_eq!(fs::stat(&path).unwrap().mode, after, "{before:o}");
            assert_eq!(fs::read(&path, 9).unwrap(), b"new");
        }
    }

    #[test]
    fn parent_directories_are_created_with_files_and_removed_when_empty() {
        let scene = Scene::new();
        scene.put("x/y/z", Put::File).unwrap();
        scene.put("x/kept", Put::File).unwrap();
        scene.inside().remove(Path::new("x/y/z")).unwrap();
        scene.inside().remove(Path::new("x/y/z")).unwrap();
        assert!(!scene.at("root/x/y").exists() && scene.at("root/x/kept").exists());
        scene.put("a/b", Put::File).unwrap();
        assert!(scene.put("x", Put::File).is_err());
        assert!(scene.put("a/b/c", Put::File).is_err());
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
            assert_eq!(is_plain(OsStr::new(path)), expected, "{path}");
        }
    }
}
