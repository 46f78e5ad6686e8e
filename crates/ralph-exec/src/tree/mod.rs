//! The content of a work tree: every tracked file and every untracked one that is not ignored, as it is on disk.
//!
//! What git calls them does not matter: staged or not, marked `assume-unchanged` or not, the bytes on disk count.
//! Identities are git's own object ids of those bytes, so that committing a file does not change them. The user's
//! index, `HEAD`, stash and branches are never touched.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::clock::Deadline;
use crate::fs::{self, Kind};
use crate::proc::{self, Ended, Limits, Spec};

const OUTPUT_CAP: usize = 256 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("the files of `{}` could not be listed: {why}", root.display())]
    Failed { root: PathBuf, why: String },
    #[error("the files of `{}` could not be listed in time", .0.display())]
    OutOfTime(PathBuf),
}

/// A work tree at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The repository's work tree, or the project itself where there is no repository.
    pub root: PathBuf,
    /// The commit; `None` before the first one and without git.
    pub head: Option<String>,
    /// By path, each once.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root, as on disk.
    pub path: OsString,
    pub mode: Mode,
    /// Git's id of the bytes on disk, unfiltered, or as the index has it where the file is unchanged since.
    pub id: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    File,
    Executable,
    Symlink,
    /// A submodule or nested repository; the id tells its own content.
    Repository,
}

/// SHA-1 in the first twenty bytes, or SHA-256 where the repository uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 32]);

impl Listing {
    /// Equal for equal paths, modes and contents, whatever is committed.
    pub fn identity(&self) -> [u8; 32] {
        identity(self.entries.iter())
    }
}

/// The identity of some entries.
pub fn identity<'a>(entries: impl Iterator<Item = &'a Entry>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for entry in entries {
        let path = entry.path.as_bytes();
        hasher.update(&(path.len() as u64).to_le_bytes());
        hasher.update(path);
        hasher.update(&[entry.mode as u8]);
        hasher.update(&entry.id.0);
    }
    hasher.finalize().into()
}

/// Everything in the work tree that `project` is in, without what is under the absolute directories `exclude`.
pub fn list(
    project: &Path,
    exclude: &[PathBuf],
    deadline: &Deadline,
) -> Result<Listing, TreeError> {
    let project =
        fs::resolve(project).ok_or_else(|| TreeError::NoSuchProject(project.to_path_buf()))?;
    let top = git(&project, &["rev-parse", "--show-toplevel"], deadline)?;
    let root = PathBuf::from(OsStr::from_bytes(top.trim_ascii_end()));
    let head = git(&root, &["rev-parse", "--verify", "--quiet", "HEAD"], deadline)
        .ok()
        .map(|bytes| String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned());
    let names = git(
        &root,
        &["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        deadline,
    )?;
    let mut entries = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let path = OsString::from_vec(name.to_vec());
        let full = root.join(&path);
        if exclude.iter().any(|excluded| full.starts_with(excluded)) {
            continue;
        }
        let Some(stat) = fs::stat_link(&full) else { continue };
        let mode = match stat.kind {
            Kind::File if stat.mode & 0o100 != 0 => Mode::Executable,
            Kind::File => Mode::File,
            Kind::Symlink | Kind::Directory | Kind::Other => continue,
        };
        let hashed =
            git(&root, &["hash-object", "--no-filters", "--", &path.to_string_lossy()], deadline)?;
        let mut id = [0; 32];
        for (at, pair) in hashed.trim_ascii_end().chunks(2).enumerate() {
            let digits = std::str::from_utf8(pair).unwrap_or_default();
            id[at] = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        entries.push(Entry { path, mode, id: ObjectId(id) });
    }
    entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(Listing { root, head, entries })
}

fn git(root: &Path, arguments: &[&str], deadline: &Deadline) -> Result<Vec<u8>, TreeError> {
    let mut argv = vec![OsStr::new("git"), OsStr::new("-C"), root.as_os_str()];
    argv.extend(arguments.iter().map(OsStr::new));
    let spec = Spec { argv: &argv, cwd: None, env: &[] };
    match proc::run(&spec, &Limits { deadline: *deadline, keep: OUTPUT_CAP }) {
        Ended::Exited { code: 0, stdout, truncated: false } => Ok(stdout),
        Ended::TimedOut => Err(TreeError::OutOfTime(root.to_path_buf())),
        ended @ (Ended::Exited { .. } | Ended::Signalled | Ended::CouldNotStart(_)) => {
            Err(TreeError::Failed { root: root.to_path_buf(), why: format!("{ended:?}") })
        }
    }
}
