//! The content of a work tree: every tracked file and every untracked one that is not ignored, as it is on disk.
//!
//! What git calls them does not matter: staged or not, marked `assume-unchanged` or not, the bytes on disk count.
//! Ids are git's own object ids of those bytes, so that committing a file does not change them. The user's
//! index, `HEAD`, stash and branches are never touched.
//!
//! The index tells which paths are tracked and nothing else. Its ids are those of *filtered* content: a `clean` filter,
//! which an agent can configure, makes it say about any file that it is what it was, and with honest ones (line ends,
//! LFS) an id would depend on whether the file was touched. So each file is read once, raw, and from then on
//! a cache of ours tells by what the system says about it that it did not change. An id is therefore not
//! the one in a commit where a filter is at work, but always the same for the same bytes.

mod assemble;
mod glob;
mod ground;
mod ignores;
mod index;
mod names;
mod object;
mod order;
mod queue;
mod repository;
mod statcache;
mod walk;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use crate::clock::{self, Deadline};
use crate::paths::Home;
use crate::{fs, git};
use ground::Ground;
use repository::Repository;
use statcache::{Cache, Extent};
use walk::{Failure, Plan};

const HASHED_AT_ONCE: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("the files of `{}` could not be listed: {why}", root.display())]
    Failed { root: PathBuf, why: String },
    #[error("the files of `{}` could not be listed in time", .0.display())]
    OutOfTime(PathBuf),
}

/// What to list, and with what means.
#[derive(Clone, Copy, Debug)]
pub struct Survey<'a> {
    /// Anywhere in the work tree.
    pub project: &'a Path,
    /// Absolute directories that do not count.
    pub exclude: &'a [PathBuf],
    /// The file that remembers what was read; one for each work tree. Without it every file is read every time.
    pub cache: Option<&'a Path>,
    pub deadline: &'a Deadline,
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
    /// Git's id of the bytes on disk, unfiltered. Of a file that a sparse checkout leaves out, what the index says.
    pub id: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    File,
    Executable,
    Symlink,
    /// A submodule or nested repository; the id tells its commit and its own content.
    Repository,
}

/// SHA-1 in the first twenty bytes, or SHA-256 where the repository uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 32]);

/// Which hash a repository's object ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Sha1,
    Sha256,
}

impl Format {
    /// In bytes.
    fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

impl ObjectId {
    /// As git writes it: forty digits, or sixty-four of SHA-256.
    pub fn hex(&self) -> String {
        let is_short = self.0.iter().skip(Format::Sha1.len()).all(|byte| *byte == 0);
        let len = if is_short { Format::Sha1 } else { Format::Sha256 }.len();
        self.0.iter().take(len).fold(String::with_capacity(2 * len), |mut hex, byte| {
            hex.push_str(&format!("{byte:02x}"));
            hex
        })
    }

    fn from_prefix(bytes: &[u8]) -> Self {
        let mut id = [0; 32];
        for (to, from) in id.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self(id)
    }

    fn from_hex(digits: &str) -> Option<Self> {
        let is_id = [40, 64].contains(&digits.len()) && digits.is_ascii();
        let pairs = digits.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Vec<u8> = pairs.collect::<Option<_>>()?;
        is_id.then(|| Self::from_prefix(&bytes))
    }
}

impl Listing {
    /// Equal for equal paths, modes and contents, whatever is committed.
    pub fn identity(&self) -> [u8; 32] {
        identity(self.entries.iter())
    }
}

/// Where what was read of a project's work tree is remembered.
pub fn cache(home: &Home, project: &Path) -> PathBuf {
    home.stat_cache(git::root(project).unwrap_or(project))
}

impl Listing {
    /// One number for the content and the commit: committing what is there already is something new.
    pub fn mark(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.identity());
        hasher.update(self.head.as_deref().unwrap_or_default().as_bytes());
        hasher.finalize().as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

/// The identity of some entries.
pub fn identity<'a>(entries: impl Iterator<Item = &'a Entry>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    // Many blocks at once are hashed side by side, which is several times as fast.
    let mut gathered = Vec::with_capacity(2 * HASHED_AT_ONCE);
    for entry in entries {
        let path = entry.path.as_bytes();
        gathered.extend_from_slice(&(path.len() as u64).to_le_bytes());
        gathered.extend_from_slice(path);
        gathered.push(entry.mode as u8);
        gathered.extend_from_slice(&entry.id.0);
        if gathered.len() >= HASHED_AT_ONCE {
            hasher.update(&gathered);
            gathered.clear();
        }
    }
    hasher.update(&gathered);
    hasher.finalize().into()
}

/// Everything in the work tree that the project is in.
pub fn list(survey: &Survey<'_>) -> Result<Listing, TreeError> {
    // Before anything is looked at: what changes from here on is not remembered.
    let now_ns = i64::try_from(clock::now_ms()).unwrap_or(0).saturating_mul(1_000_000);
    list_at(survey, now_ns)
}

fn list_at(survey: &Survey<'_>, taken_ns: i64) -> Result<Listing, TreeError> {
    let project = fs::resolve(survey.project)
        .ok_or_else(|| TreeError::NoSuchProject(survey.project.to_path_buf()))?;
    let root = repository::root_of(&project);
    let repository = Repository::open(root);
    let (cache, ground) = thread::scope(|scope| {
        let load = || survey.cache.map(Cache::load).unwrap_or_default();
        let loading = thread::Builder::new().spawn_scoped(scope, load);
        let ground = Ground::new(repository.as_ref(), survey.deadline);
        (loading.map_or_else(|_| load(), |cache| cache.join().unwrap_or_default()), ground)
    });
    let plan = Plan {
        root,
        excluded: excluded(survey.exclude, root, &project),
        cache: &cache,
        taken_ns,
        deadline: survey.deadline,
    };
    let mut walked = walk::walk(&plan, ground);
    if let Some(path) = survey.cache {
        let extent = if walked.failure.is_some() { Extent::Part } else { Extent::Whole };
        statcache::save(path, &cache, &walked.visits, extent);
    }
    match walked.failure {
        Some(Failure::OutOfTime) => Err(TreeError::OutOfTime(root.to_path_buf())),
        Some(Failure::Other(why)) => Err(TreeError::Failed { root: root.to_path_buf(), why }),
        None => {
            let entries = assemble::assemble(&mut walked.slots, walked.files);
            let head = repository.and_then(|repository| repository.head(survey.deadline));
            Ok(Listing { root: root.to_path_buf(), head, entries })
        }
    }
}

/// The agent's client writes it while it runs, and lets git ignore it from then on: what changes there is nobody's work.
const OF_THE_CLIENT: &str = ".claude/settings.local.json";

/// What is excluded, as paths below the root.
fn excluded(exclude: &[PathBuf], root: &Path, project: &Path) -> Vec<Vec<u8>> {
    let canonical = exclude.iter().filter_map(|path| fs::resolve(path));
    let all = exclude.iter().cloned().chain(canonical);
    let all = all.chain([root, project].map(|place| place.join(OF_THE_CLIENT)));
    all.filter_map(|path| Some(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests;
