//! A record of all files of the installed environments, taken when a run starts, so that a later change of them is
//! noticed. Only metadata is read to compare an unchanged environment with its record: programs cannot set the time of
//! a file's last change.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ralph_sys::fs::{self, FileKind, FileStat, RegularFile};
use serde::{Deserialize, Serialize};

use crate::environment_roots::{EnvironmentRoot, OTHER_DIRECTORIES};
use crate::installed_packages::DEPENDENCY_DIRECTORIES;

/// More files than this are not recorded, and those of even larger environments are not looked at.
const MAX_RECORDED_FILES: usize = 150_000;
const MAX_LISTED_FILES: usize = 1_000_000;
/// Larger files, and those after the first of this many bytes, are recorded by their metadata.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
const MAX_HASHED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
const HASH_BLOCK_BYTES: usize = 1024 * 1024;
const MAX_DEPTH: usize = 64;
/// The content of a file that changed between the start of the run and the record. It differs from every content.
const UNKNOWN_CONTENT: &str = "?";
/// What the recorded content of a file begins with. A hash follows: of the bytes, of the target of a link, or of the
/// metadata of a file that is too large to be read.
const PLAIN_FILE: &str = "f";
const EXECUTABLE_FILE: &str = "x";
const LARGE_FILE: &str = "s";
const LINK: &str = "l";
/// A link that leads to a directory of the project itself.
const PROJECT_LINK: &str = "p";

/// What tools keep in `node_modules` besides packages: caches, and the state of package managers.
const NODE_STATE: [&str; 11] = [
    ".cache",
    ".vite",
    ".vitest",
    ".vite-temp",
    ".tmp",
    ".package-lock.json",
    ".yarn-integrity",
    ".yarn-state.yml",
    ".modules.yaml",
    ".pnpm-workspace-state.json",
    ".pnpm-workspace-state-v1.json",
];
/// Compiled code and caches of Python, and lock files of its package managers.
const PYTHON_STATE: [&str; 5] =
    ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".lock"];

/// The files of all roots, grouped by directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    roots: Vec<String>,
    directories: Vec<RecordedDirectory>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedDirectory {
    path: String,
    files: Vec<RecordedFile>,
}

/// A file or a symbolic link: its name, the hash of its metadata and that of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedFile(String, String, String);

/// How large an environment may be to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimits {
    files: usize,
    bytes: u64,
}

impl RecordLimits {
    /// Takes a tenth of a second.
    pub const SMALL: Self = Self { files: 5_000, bytes: 64 * 1024 * 1024 };
    pub const LARGE: Self = Self { files: MAX_RECORDED_FILES, bytes: u64::MAX };
}

/// The environment has too many files or bytes, or cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlistableEnvironment;

/// Records the environments. Files that changed after `since_ms` have an unknown content, because the agent may have
/// changed them before they were recorded.
pub fn record_environment(
    roots: &[EnvironmentRoot],
    project: &Path,
    since_ms: u64,
    limits: &RecordLimits,
) -> Result<EnvironmentRecord, UnlistableEnvironment> {
    let listing = EnvironmentListing::read(roots, project, limits.files)?;
    let bytes = listing.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.stat.len));
    if bytes > limits.bytes {
        return Err(UnlistableEnvironment);
    }
    let is_late = |stat: &FileStat| stat.changed_ns / 1_000_000 >= since_ms;
    let contents = listing.hash_files(&|file| !is_late(&file.stat));
    let content = |at: usize, file: &ListedFile| match contents.get(&at) {
        _ if is_late(&file.stat) => UNKNOWN_CONTENT.to_string(),
        Some(content) => content.clone(),
        None => metadata_content(&file.stat),
    };
    // A directory that was moved here may contain old files. If its own files change, so does its time of modification.
    let is_moved = |stat: &FileStat| is_late(stat) && stat.changed_ns != stat.modified_ns;
    let moved = listing.directories.iter().filter(|(_, stat)| is_moved(stat));
    Ok(listing.to_record(&content, moved.map(|(path, _)| path.as_str())))
}

/// The environments now. Only the files whose metadata differs from the record are read.
pub fn list_environment(
    roots: &[EnvironmentRoot],
    project: &Path,
    known: &EnvironmentRecord,
) -> Result<EnvironmentRecord, UnlistableEnvironment> {
    let listing = EnvironmentListing::read(roots, project, MAX_RECORDED_FILES)?;
    let recorded = known.files();
    let same = |file: &ListedFile| {
        let RecordedFile(_, metadata, content) = recorded.get(&file.path)?;
        (*metadata == metadata_hash(&file.stat)).then_some(content)
    };
    let is_recorded_root =
        |file: &ListedFile| known.roots.iter().any(|root| Path::new(&file.path).starts_with(root));
    let contents =
        listing.hash_files(&|file: &ListedFile| is_recorded_root(file) && same(file).is_none());
    let content = |at: usize, file: &ListedFile| match (same(file), contents.get(&at)) {
        (Some(content), _) | (None, Some(content)) => content.clone(),
        (None, None) => metadata_content(&file.stat),
    };
    Ok(listing.to_record(&content, std::iter::empty()))
}

/// The files and directories that changed after `since_ms`, at most `most` of them.
pub fn changed_since(
    roots: &[EnvironmentRoot],
    project: &Path,
    since_ms: u64,
    most: usize,
) -> Result<Vec<String>, UnlistableEnvironment> {
    let listing = EnvironmentListing::read(roots, project, MAX_LISTED_FILES)?;
    let files = listing.files.iter().map(|file| (&file.path, &file.stat));
    let all = files.chain(listing.directories.iter().map(|(path, stat)| (path, stat)));
    let late = all.filter(|(_, stat)| stat.changed_ns / 1_000_000 >= since_ms);
    Ok(late.map(|(path, _)| path.clone()).take(most).collect())
}

/// Hashes of the metadata of all files and directories, by path. Every change shows in them, also one that is undone.
pub(crate) fn list_metadata(
    roots: &[EnvironmentRoot],
    project: &Path,
) -> Result<BTreeMap<String, String>, UnlistableEnvironment> {
    let listing = EnvironmentListing::read(roots, project, MAX_LISTED_FILES)?;
    let files = listing.files.into_iter().map(|file| (file.path, file.stat));
    let mut marks: BTreeMap<String, String> =
        files.chain(listing.directories).map(|(path, stat)| (path, metadata_hash(&stat))).collect();
    for root in roots {
        // Also of a link in its place.
        let stats = [fs::stat_no_follow(&root.path), fs::stat(&root.path)];
        let hashes: Vec<String> = stats.iter().flatten().map(metadata_hash).collect();
        marks.insert(root.name.clone(), hashes.concat());
    }
    Ok(marks)
}

impl EnvironmentRecord {
    /// Identifies the content of all files.
    pub fn content_mark(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (path, RecordedFile(_, _, content)) in self.files() {
            for part in [path.as_bytes(), content.as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hasher.finalize().into()
    }

    pub(crate) fn roots(&self) -> &[String] {
        &self.roots
    }

    /// The environments of `now` that the record does not have, because they did not exist when it was taken.
    pub fn roots_created(&self, now: &Self) -> Vec<String> {
        now.roots.iter().filter(|root| !self.roots.contains(root)).cloned().collect()
    }

    pub(crate) fn files(&self) -> BTreeMap<String, &RecordedFile> {
        let join = |directory: &RecordedDirectory, name: &str| match name {
            "" => directory.path.clone(),
            name => format!("{}/{name}", directory.path),
        };
        let files = self.directories.iter().flat_map(|directory| {
            directory.files.iter().map(move |file| (join(directory, &file.0), file))
        });
        files.collect()
    }

    #[cfg(test)]
    pub(crate) fn sample(roots: &[&str], files: &[(&str, &str)]) -> Self {
        let directory = |(path, content): &(&str, &str)| {
            let (path, name) = path.rsplit_once('/').unwrap();
            let file = RecordedFile(name.to_string(), String::new(), content.to_string());
            RecordedDirectory { path: path.to_string(), files: vec![file] }
        };
        Self {
            roots: roots.iter().map(ToString::to_string).collect(),
            directories: files.iter().map(directory).collect(),
        }
    }
}

impl RecordedFile {
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        self.2 == other.2 && !self.is_unknown()
    }

    /// Whether it changed after the start of the run and before it was recorded.
    pub(crate) fn is_unknown(&self) -> bool {
        self.2 == UNKNOWN_CONTENT
    }

    /// Whether it links to a directory of the project itself, as the packages of a workspace do.
    pub(crate) fn is_project_link(&self) -> bool {
        self.2.starts_with(PROJECT_LINK)
    }
}

struct EnvironmentListing {
    roots: Vec<String>,
    files: Vec<ListedFile>,
    directories: Vec<(String, FileStat)>,
    /// How many of both there may be.
    most: usize,
    /// The project without symbolic links.
    project: PathBuf,
}

struct ListedFile {
    path: String,
    on_disk: PathBuf,
    stat: FileStat,
}

impl EnvironmentListing {
    fn read(
        roots: &[EnvironmentRoot],
        project: &Path,
        most: usize,
    ) -> Result<Self, UnlistableEnvironment> {
        let mut listing = Self {
            roots: roots.iter().map(|root| root.name.clone()).collect(),
            files: Vec::new(),
            directories: Vec::new(),
            most,
            project: fs::resolve(project).unwrap_or_else(|| project.to_owned()),
        };
        for root in roots {
            // The directory itself may be a link, as in a separate work tree.
            listing.walk(&root.name, &root.path, 0)?;
        }
        Ok(listing)
    }

    fn walk(
        &mut self,
        name: &str,
        directory: &Path,
        depth: usize,
    ) -> Result<(), UnlistableEnvironment> {
        let names = fs::list_if_exists(directory, self.most);
        let names = names.map_err(|_| UnlistableEnvironment)?;
        for child in names.into_iter().filter(|child| !is_tool_state(directory, child)) {
            let on_disk = directory.join(&child);
            let Some(stat) = fs::stat_no_follow(&on_disk) else { continue };
            let path = format!("{name}/{}", printable_name(&child));
            if stat.kind == FileKind::Directory && depth < MAX_DEPTH {
                self.walk(&path, &on_disk, depth + 1)?;
                self.directories.push((path, stat));
            } else {
                self.files.push(ListedFile { path, on_disk, stat });
            }
            if self.files.len() + self.directories.len() > self.most {
                return Err(UnlistableEnvironment);
            }
        }
        Ok(())
    }

    /// The contents of the chosen files, by their position.
    fn hash_files(
        &self,
        is_chosen: &(dyn Fn(&ListedFile) -> bool + '_),
    ) -> BTreeMap<usize, String> {
        let mut left = MAX_HASHED_BYTES;
        let mut chosen = Vec::new();
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| is_chosen(file)) {
            let is_small = file.stat.len <= left.min(MAX_FILE_BYTES);
            if is_small {
                left -= file.stat.len;
                chosen.push(at);
            }
        }
        let (next, contents) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let work = || {
            while let Some(at) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let content = self.files[*at].content(&self.project);
                if let (Some(content), Ok(mut contents)) = (content, contents.lock()) {
                    contents.insert(*at, content);
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            // If the system refuses to start more threads, the existing ones do all the work.
            for _ in 1..threads {
                drop(std::thread::Builder::new().spawn_scoped(scope, work));
            }
            work();
        });
        contents.into_inner().unwrap_or_default()
    }

    /// Directories with unknown content are recorded like files without a name.
    fn to_record<'a>(
        &'a self,
        content: &dyn Fn(usize, &ListedFile) -> String,
        unknown: impl Iterator<Item = &'a str>,
    ) -> EnvironmentRecord {
        let mut directories: BTreeMap<&str, Vec<RecordedFile>> = BTreeMap::new();
        for path in unknown {
            let file = RecordedFile(String::new(), String::new(), UNKNOWN_CONTENT.to_string());
            directories.entry(path).or_default().push(file);
        }
        for (at, file) in self.files.iter().enumerate() {
            let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            let recorded =
                RecordedFile(name.to_string(), metadata_hash(&file.stat), content(at, file));
            directories.entry(directory).or_default().push(recorded);
        }
        let directory =
            |(path, files): (&str, _)| RecordedDirectory { path: path.to_string(), files };
        EnvironmentRecord {
            roots: self.roots.clone(),
            directories: directories.into_iter().map(directory).collect(),
        }
    }
}

impl ListedFile {
    /// `None` if it cannot be read, or changes while it is read.
    fn content(&self, project: &Path) -> Option<String> {
        let content = match self.stat.kind {
            FileKind::File => {
                let is_plain = self.stat.mode & 0o111 == 0;
                let kind = if is_plain { PLAIN_FILE } else { EXECUTABLE_FILE };
                format!("{kind}{}", hash_file(&self.on_disk)?)
            }
            FileKind::Symlink => {
                let target = fs::read_link(&self.on_disk).ok()?;
                let is_own = fs::resolve(&self.on_disk)
                    .is_some_and(|target| is_project_directory(&target, project));
                let kind = if is_own { PROJECT_LINK } else { LINK };
                format!("{kind}{}", short_hash(target.as_os_str().as_encoded_bytes()))
            }
            FileKind::Directory | FileKind::Other => return None,
        };
        (fs::stat_no_follow(&self.on_disk) == Some(self.stat)).then_some(content)
    }
}

/// Whether it is a directory of the project that contains no installed packages.
fn is_project_directory(path: &Path, project: &Path) -> bool {
    let is_installed = |part: &OsStr| {
        DEPENDENCY_DIRECTORIES.iter().chain(&OTHER_DIRECTORIES).any(|name| part == *name)
    };
    path.strip_prefix(project).is_ok_and(|below| !below.iter().any(is_installed))
        && fs::is_directory(path)
}

/// Files that tools write whenever they run. They are not recorded.
fn is_tool_state(directory: &Path, name: &OsStr) -> bool {
    let is_in_modules = directory.file_name() == Some(OsStr::new("node_modules"));
    PYTHON_STATE.iter().any(|known| name == *known)
        || is_in_modules && NODE_STATE.iter().any(|known| name == *known)
}

/// Different names stay different.
fn printable_name(name: &OsStr) -> String {
    match name.to_str() {
        Some(name) if !name.starts_with("bytes:") => name.to_string(),
        _ => format!("bytes:{}", name.as_encoded_bytes().escape_ascii()),
    }
}

fn metadata_hash(stat: &FileStat) -> String {
    let FileStat { kind: _, len, device, inode, modified_ns, changed_ns, mode } = stat;
    let text = format!("{len} {device} {inode} {modified_ns} {changed_ns} {mode}");
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

/// Stands for the content of a file that is too large to be read.
fn metadata_content(stat: &FileStat) -> String {
    format!("{LARGE_FILE}{}", metadata_hash(stat))
}

fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_string()
}

fn hash_file(path: &Path) -> Option<String> {
    let file = RegularFile::open(path).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    loop {
        let block = file.read_at(at, HASH_BLOCK_BYTES).ok()?;
        hasher.update(&block);
        at += u64::try_from(block.len()).unwrap_or(u64::MAX);
        if block.len() < HASH_BLOCK_BYTES || at > MAX_FILE_BYTES {
            return Some(hasher.finalize().to_hex()[..32].to_string());
        }
    }
}

#[cfg(test)]
mod tests;
