//! Listing and fingerprint of a work tree: every tracked file and every untracked file that is not ignored, with its
//! content on disk.
//!
//! Only the bytes on disk count, whether a file is staged, marked `assume-unchanged` or neither. Ids are git's object
//! ids of those bytes, so committing a file does not change its id. Nothing here writes to the user's index, `HEAD`,
//! stash or branches.
//!
//! Git's index is used only to find out which paths are tracked. Its ids are those of *filtered* content: with a
//! `clean` filter, which an agent can configure, it can report any file as unchanged, and with legitimate filters
//! (line ends, LFS) an id would depend on whether the file was touched. Therefore each file is read once, unfiltered,
//! and a cache of its metadata shows later that it did not change. Where a filter applies, an id differs from the one
//! in the commit, but it is always the same for the same bytes.

mod absent_files;
mod assemble;
mod directory_names;
mod git_index;
mod glob;
mod ignore_rules;
mod listing_bytes;
mod object_id;
mod repository;
mod repository_context;
mod sorted_paths;
mod stat_cache;
mod walk;
mod walk_files;
mod walk_queue;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use crate::git;
use ralph_home::faults;
use ralph_home::paths::RalphHome;
use ralph_host::HOSTS;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use repository::GitRepository;
use repository_context::RepositoryContext;
use stat_cache::{StatCache, WalkExtent};
use walk::{WalkFailure, WalkPlan};

pub use absent_files::AbsentPaths;
pub(crate) use object_id::hash_object;
pub(crate) use repository::{find_object_store, may_configure_filters};

const HASH_BATCH_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("cannot list the files in `{}`: {why}", root.display())]
    Failed { root: PathBuf, why: String },
    #[error("timed out listing the files in `{}`", .0.display())]
    TimedOut(PathBuf),
}

/// Which work tree to list, and how.
#[derive(Clone, Copy, Debug)]
pub struct ListingRequest<'a> {
    /// Any directory in the work tree.
    pub project: &'a Path,
    /// Absolute paths of directories to leave out.
    pub exclude: &'a [PathBuf],
    /// Path of the work tree's stat cache. Without it, every file is read every time.
    pub cache: Option<&'a Path>,
    pub deadline: &'a Deadline,
}

/// The files of a work tree at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkTreeListing {
    /// Root of the repository's work tree, or the project itself if there is no repository.
    pub root: PathBuf,
    /// The commit that is checked out; `None` before the first commit and without git.
    pub head: Option<String>,
    /// The files on disk, sorted by path, without duplicates.
    pub entries: Vec<TreeEntry>,
    /// Tracked files that a sparse checkout leaves out, with their ids in the index, sorted by path.
    pub absent: Vec<TreeEntry>,
    /// One stop asks for the fingerprint many times.
    pub memo: FingerprintMemo,
}

/// The fingerprint of a listing, once it was computed. A copy of the listing may be changed, so it starts without one.
#[derive(Debug, Default)]
pub struct FingerprintMemo(OnceLock<[u8; 32]>);

impl Clone for FingerprintMemo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for FingerprintMemo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FingerprintMemo {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Relative to the root, as on disk.
    pub path: OsString,
    pub mode: TreeEntryMode,
    /// Git's id of the unfiltered bytes on disk. For a file that a sparse checkout leaves out, the id in the index.
    pub id: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeEntryMode {
    File,
    Executable,
    Symlink,
    /// A submodule or nested repository. The id covers its commit and its files.
    Repository,
}

/// A SHA-1 in the first twenty bytes, or a SHA-256 if the repository uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 32]);

/// The hash function of a repository's object ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Sha1, Self::Sha256].into_iter().find(|format| format.name().as_bytes() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Length of an id in bytes.
    pub(crate) fn id_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    pub(crate) fn hex(self, id: &ObjectId) -> String {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
        let bytes = id.0.iter().take(self.id_len());
        bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// The all-zero id, which no object has.
    pub(crate) fn zero_id(self) -> String {
        "0".repeat(2 * self.id_len())
    }

    pub(crate) fn parse(self, hex: &[u8]) -> Option<ObjectId> {
        let mut id = [0; 32];
        if hex.len() != 2 * self.id_len() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(hex.chunks(2)) {
            let [high, low] = pair else { return None };
            let high = char::from(*high).to_digit(16)?;
            let low = char::from(*low).to_digit(16)?;
            *byte = u8::try_from(16 * high + low).ok()?;
        }
        Some(ObjectId(id))
    }
}

impl ObjectId {
    /// Formats the id as git does: 40 hex digits, or 64 for SHA-256.
    pub fn hex(&self) -> String {
        let is_short = self.0.iter().skip(ObjectFormat::Sha1.id_len()).all(|byte| *byte == 0);
        if is_short { ObjectFormat::Sha1 } else { ObjectFormat::Sha256 }.hex(self)
    }

    pub(crate) fn from_prefix(bytes: &[u8]) -> Self {
        let mut id = [0; 32];
        for (to, from) in id.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self(id)
    }

    pub(crate) fn from_hex(digits: &str) -> Option<Self> {
        let formats = [ObjectFormat::Sha1, ObjectFormat::Sha256];
        formats.into_iter().find_map(|format| format.parse(digits.as_bytes()))
    }
}

impl WorkTreeListing {
    /// Depends on paths, modes and contents only, not on commits. A file that is left out counts differently from the same
    /// file on disk, because gates cannot read it.
    pub fn fingerprint(&self) -> [u8; 32] {
        *self.memo.0.get_or_init(|| self.compute_fingerprint())
    }

    /// The fingerprint as text.
    pub fn identity(&self) -> String {
        blake3::Hash::from_bytes(self.fingerprint()).to_hex().to_string()
    }

    fn compute_fingerprint(&self) -> [u8; 32] {
        let on_disk = fingerprint_entries(self.entries.iter());
        if self.absent.is_empty() {
            return on_disk;
        }
        let mut hasher = blake3::Hasher::new_derive_key("ralph tree absent");
        hasher.update(&on_disk);
        hasher.update(&fingerprint_entries(self.absent.iter()));
        hasher.finalize().into()
    }
}

/// Path of the stat cache for a project's work tree.
pub fn stat_cache_path(home: &RalphHome, project: &Path) -> PathBuf {
    home.stat_cache(git::work_tree_root(project).unwrap_or(project))
}

impl WorkTreeListing {
    /// A number that identifies content and commit together, so that committing existing content counts as a change.
    pub fn content_and_commit_mark(&self) -> u64 {
        self.mark_with_content(self.fingerprint())
    }

    /// The mark of other content, by its fingerprint, at the same commit.
    pub fn mark_with_content(&self, fingerprint: [u8; 32]) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&fingerprint);
        hasher.update(self.head.as_deref().unwrap_or_default().as_bytes());
        hasher.finalize().as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

/// The fingerprint of the given entries.
pub fn fingerprint_entries<'a>(entries: impl Iterator<Item = &'a TreeEntry>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    // BLAKE3 hashes large inputs in parallel, which is several times as fast as many small updates.
    let mut gathered = Vec::with_capacity(2 * HASH_BATCH_BYTES);
    for entry in entries {
        let path = entry.path.as_bytes();
        gathered.extend_from_slice(&(path.len() as u64).to_le_bytes());
        gathered.extend_from_slice(path);
        gathered.push(entry.mode as u8);
        gathered.extend_from_slice(&entry.id.0);
        if gathered.len() >= HASH_BATCH_BYTES {
            hasher.update(&gathered);
            gathered.clear();
        }
    }
    hasher.update(&gathered);
    hasher.finalize().into()
}

/// Lists the work tree that contains the project.
pub fn list_work_tree(survey: &ListingRequest<'_>) -> Result<WorkTreeListing, ListingError> {
    // Taken before anything is read: files that change from here on are not cached.
    let now_ns = i64::try_from(clock::now_ms()).unwrap_or(0).saturating_mul(1_000_000);
    list_work_tree_at(survey, now_ns)
}

fn list_work_tree_at(
    survey: &ListingRequest<'_>,
    taken_ns: i64,
) -> Result<WorkTreeListing, ListingError> {
    let project = fs::resolve(survey.project)
        .ok_or_else(|| ListingError::NoSuchProject(survey.project.to_path_buf()))?;
    let root = repository::nearest_work_tree(&project);
    let repository = GitRepository::open(root).map_err(|error| ListingError::Failed {
        root: root.to_path_buf(),
        why: faults::describe_error(&error),
    })?;
    let (cache, ground) = thread::scope(|scope| {
        let load = || survey.cache.map(StatCache::load).unwrap_or_default();
        let loading = thread::Builder::new().spawn_scoped(scope, load);
        let ground = RepositoryContext::new(repository.as_ref(), survey.deadline);
        (loading.map_or_else(|_| load(), |cache| cache.join().unwrap_or_default()), ground)
    });
    let plan = WalkPlan {
        root,
        excluded: excluded_below_root(survey.exclude, root, &project),
        cache: &cache,
        started_ns: taken_ns,
        deadline: survey.deadline,
    };
    let mut walked = walk::walk_tree(&plan, ground);
    if let Some(path) = survey.cache {
        let extent = if walked.failure.is_some() { WalkExtent::Partial } else { WalkExtent::Whole };
        stat_cache::save_cache(path, &cache, &walked.visits, extent);
    }
    match walked.failure {
        Some(WalkFailure::TimedOut) => Err(ListingError::TimedOut(root.to_path_buf())),
        Some(WalkFailure::Other(why)) => {
            Err(ListingError::Failed { root: root.to_path_buf(), why })
        }
        None => {
            let found = assemble::assemble_entries(&mut walked.slots, walked.files);
            let head = repository.and_then(|repository| repository.read_head(survey.deadline));
            let (entries, absent) = (found.on_disk, found.absent);
            let (root, memo) = (root.to_path_buf(), FingerprintMemo::default());
            Ok(WorkTreeListing { root, head, entries, absent, memo })
        }
    }
}

/// The excluded paths, relative to the root.
fn excluded_below_root(exclude: &[PathBuf], root: &Path, project: &Path) -> Vec<Vec<u8>> {
    let canonical = exclude.iter().filter_map(|path| fs::resolve(path));
    let all = exclude.iter().cloned().chain(canonical);
    // A host writes its local settings while it runs, and makes git ignore them from then on. Their changes are not the
    // agent's work.
    let local = HOSTS.iter().map(|host| host.files.local_settings);
    let all = all.chain(local.flat_map(|file| [root, project].map(|place| place.join(file))));
    all.filter_map(|path| Some(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec()))
        .collect()
}

/// Whether a path, relative to the root, is one of the host's local settings, which are in no listing. `project` is
/// relative to the root too.
pub fn is_local_settings(path: &Path, project: &Path) -> bool {
    HOSTS.iter().any(|host| {
        let file = host.files.local_settings;
        path == Path::new(file) || path == project.join(file)
    })
}

#[cfg(test)]
mod tests;
