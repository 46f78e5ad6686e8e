//! Walks a work tree with several threads, one directory at a time each, and computes the id of every listed file.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::assemble::{DirectoryItem, DirectoryListing};
use super::directory_names::{DirectoryNames, NameClass, NamesOrigin, UntrackedPolicy};
use super::git_index::{self, TrackedEntry};
use super::ignore_rules::{IgnoreRules, IgnoreSubject, IgnoreVerdict, ToolOutput};
use super::object_id::{self, BlobReader};
use super::repository::GitRepository;
use super::repository_context::RepositoryContext;
use super::sorted_paths::{PathCursor, SortedPaths};
use super::stat_cache::{
    self, CachedDirectory, DirectoryVisit, DirectoryVisits, ScannedDirectory, StatCache, StatKey,
};
use super::walk_files::{
    is_inaccessible, read_ignore_file, submodule_id, unreadable_file_id, walk_failure,
};
use super::walk_queue::WalkQueue;
use super::{ObjectFormat, ObjectId, TreeEntry, TreeEntryMode};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::FileKind;
use ralph_sys::fs::dir_handle::{DirHandle, FileStamp};

/// More than one, because threads wait for the disk.
const THREADS_PER_PROCESSOR: usize = 2;
const MAX_THREADS: usize = 16;
const MAX_FILES: usize = 10_000_000;
/// `PATH_MAX`: longer paths cannot be opened.
const MAX_PATH_BYTES: usize = 4096;
/// Nesting of repositories. Deeper ones are treated as plain directories.
const MAX_REPOSITORY_DEPTH: usize = 16;
const IGNORE_FILE: &[u8] = b".gitignore";

pub(super) struct WalkPlan<'a> {
    pub(super) root: &'a Path,
    /// Paths below the root to leave out.
    pub(super) excluded: Vec<Vec<u8>>,
    pub(super) cache: &'a StatCache,
    /// When the walk started. Files that changed later are not cached.
    pub(super) started_ns: i64,
    pub(super) deadline: &'a Deadline,
}

#[derive(Debug)]
pub(super) enum WalkFailure {
    TimedOut,
    Other(String),
}

/// A directory to list.
pub(super) struct WalkJob {
    slot: usize,
    parent: Arc<DirHandle>,
    name: CString,
    /// Relative to the root, with a trailing slash unless it is empty.
    path: Vec<u8>,
    repository: Arc<RepositoryContext>,
    tracked: Range<usize>,
    rules: Option<Arc<IgnoreRules>>,
    untracked: UntrackedPolicy,
    tool_output: ToolOutput,
}

#[derive(Default)]
pub(super) struct WalkResult {
    pub(super) slots: Vec<Option<DirectoryListing>>,
    pub(super) files: usize,
    pub(super) visits: DirectoryVisits,
    pub(super) failure: Option<WalkFailure>,
}

pub(super) fn walk_tree(plan: &WalkPlan<'_>, ground: RepositoryContext) -> WalkResult {
    let root = match DirHandle::open(plan.root) {
        Ok(root) => Arc::new(root),
        Err(error) => {
            return WalkResult {
                failure: Some(WalkFailure::Other(error.to_string())),
                ..WalkResult::default()
            };
        }
    };
    let job = WalkJob {
        slot: 0,
        parent: root,
        name: c".".to_owned(),
        path: Vec::new(),
        tracked: 0..ground.index.len(),
        rules: ground.rules.clone(),
        repository: Arc::new(ground),
        untracked: UntrackedPolicy::Open,
        tool_output: ToolOutput::Ignored,
    };
    let trusted = job.parent.stamp().ok().filter(|_| job.parent.has_reliable_dir_times());
    let queue = WalkQueue::new(job, trusted.map(|stamp| stamp.device));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors * THREADS_PER_PROCESSOR).min(MAX_THREADS);
    let (workers, is_whole) = thread::scope(|scope| {
        let work = || WalkWorker::new(plan, &queue).run();
        // If the system refuses to start more threads, the existing ones do all the work.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut workers = vec![work()];
        let mut is_whole = true;
        for other in others {
            match other.join() {
                Ok(worker) => workers.push(worker),
                Err(_) => is_whole = false,
            }
        }
        (workers, is_whole)
    });
    let lost = || (!is_whole).then(|| WalkFailure::Other("a worker thread panicked".to_owned()));
    let mut walked =
        WalkResult { failure: queue.take_failure().or_else(lost), ..WalkResult::default() };
    walked.files = queue.count_files(0);
    walked.slots.resize_with(queue.slot_count(), || None);
    for worker in workers {
        walked.visits.all.extend(worker.visits.all);
        walked.visits.new_records += worker.visits.new_records;
        walked.visits.new_bytes += worker.visits.new_bytes;
        for (slot, listed) in worker.listed {
            if let Some(place) = walked.slots.get_mut(slot) {
                *place = Some(listed);
            }
        }
    }
    walked
}

struct WalkWorker<'a> {
    plan: &'a WalkPlan<'a>,
    queue: &'a WalkQueue,
    reader: BlobReader,
    listed: Vec<(usize, DirectoryListing)>,
    visits: DirectoryVisits,
}

impl<'a> WalkWorker<'a> {
    fn new(plan: &'a WalkPlan<'a>, queue: &'a WalkQueue) -> Self {
        let visits = DirectoryVisits::default();
        Self { plan, queue, reader: BlobReader::new(), listed: Vec::new(), visits }
    }

    fn run(mut self) -> Self {
        while let Some((mut job, mut turn)) = self.queue.next_job() {
            turn.outcome = self.list_directory(&mut job);
        }
        self
    }

    fn list_directory(&mut self, job: &mut WalkJob) -> Result<Vec<WalkJob>, WalkFailure> {
        if self.plan.deadline.has_passed() {
            return Err(WalkFailure::TimedOut);
        }
        if job.path.len() > MAX_PATH_BYTES {
            return Err(WalkFailure::Other(format!(
                "a path is longer than {MAX_PATH_BYTES} bytes"
            )));
        }
        let opened = job.parent.open_directory(&job.name);
        let opened = opened.and_then(|directory| Ok((directory.stamp()?, Arc::new(directory))));
        let (stamp, directory) = match opened {
            Ok(opened) => opened,
            Err(error) if is_inaccessible(&error) => return Ok(Vec::new()),
            Err(error) => return Err(walk_failure(&job.path, &error)),
        };
        let mut listed = DirectoryListing::default();
        if job.untracked == UntrackedPolicy::Repository {
            listed.head = self.enter_repository(job);
        }
        let old = self.plan.cache.find(&job.path);
        let key = self.directory_key(&stamp, job.repository.format);
        let names = DirectoryNames::read(&directory, &key, old.as_ref());
        let mut names = names.map_err(|error| walk_failure(&job.path, &error))?;
        if names.has_file(IGNORE_FILE) && job.untracked == UntrackedPolicy::Open {
            let text = read_ignore_file(&directory);
            job.rules = IgnoreRules::new(&text, job.path.len(), job.rules.take());
        }
        self.classify_names(&directory, job, &mut names);
        names.sort_as_paths();
        let mut place = OpenDirectory {
            directory: &directory,
            stamp,
            cached: old,
            names,
            new_records: Vec::new(),
        };
        let jobs = self.merge_with_index(&mut place, job, &mut listed)?;
        self.record_visit(&place, job);
        if self.queue.count_files(listed.items.len()) > MAX_FILES {
            return Err(WalkFailure::Other(format!("there are more than {MAX_FILES} files")));
        }
        self.listed.push((job.slot, listed));
        Ok(jobs)
    }

    fn enter_repository(&self, job: &mut WalkJob) -> Option<String> {
        // Without a readable repository, all its files count as untracked, so none is left out.
        let repository = GitRepository::open(&self.absolute_path(&job.path)).ok().flatten();
        let depth = job.repository.depth + 1;
        let deadline = self.plan.deadline;
        let ground =
            RepositoryContext::nested(repository.as_ref(), job.path.clone(), depth, deadline);
        job.tracked = 0..ground.index.len();
        job.rules.clone_from(&ground.rules);
        job.untracked = UntrackedPolicy::Open;
        job.tool_output = ToolOutput::Ignored;
        job.repository = Arc::new(ground);
        repository?.read_head(deadline)
    }

    fn absolute_path(&self, path: &[u8]) -> PathBuf {
        self.plan.root.join(OsStr::from_bytes(path))
    }

    fn is_excluded(&self, path: &[u8]) -> bool {
        self.plan.excluded.iter().any(|excluded| {
            path.strip_prefix(&**excluded)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// Determines which directories are ignored and which are repositories of their own.
    fn classify_names(&self, directory: &DirHandle, job: &WalkJob, names: &mut DirectoryNames<'_>) {
        let mut path = job.path.clone();
        names.classify(|text, name| {
            if name.kind != FileKind::Directory && self.plan.excluded.is_empty() {
                return name.class;
            }
            path.truncate(job.path.len());
            path.extend_from_slice(text);
            if self.is_excluded(&path) {
                NameClass::Skipped
            } else if name.kind == FileKind::Directory {
                self.classify_directory(directory, job, &path)
            } else {
                name.class
            }
        });
    }

    fn classify_directory(&self, directory: &DirHandle, job: &WalkJob, path: &[u8]) -> NameClass {
        let ground = &*job.repository;
        let own = path.get(ground.base.len()..).unwrap_or_default();
        let can_nest = ground.depth < MAX_REPOSITORY_DEPTH;
        let linked = ground.index.find_submodule(own, &job.tracked);
        if linked.is_some() && can_nest {
            return NameClass::Repository(linked);
        }
        let standing = untracked_policy(job, path, IgnoreSubject::Directory);
        let mut tracked = PathCursor::new(&ground.index, job.tracked.clone());
        let below = [own, b"/"].concat();
        tracked.skip_to(&below);
        if !tracked.take_directory(&below).is_empty() || linked.is_some() {
            return NameClass::Directory(standing);
        }
        if standing == UntrackedPolicy::Ignored {
            return NameClass::Skipped;
        }
        let text = path.get(job.path.len()..).unwrap_or_default();
        let git = CString::new([text, b"/.git"].concat()).unwrap_or_default();
        let has_git = can_nest && directory.stat(&git).is_ok();
        if has_git && !matches!(GitRepository::open(&self.absolute_path(path)), Ok(None)) {
            return NameClass::Repository(None);
        }
        NameClass::Directory(standing)
    }

    /// Merges the names on disk with the tracked paths. Both are sorted the same way.
    fn merge_with_index(
        &mut self,
        place: &mut OpenDirectory<'_>,
        job: &WalkJob,
        listed: &mut DirectoryListing,
    ) -> Result<Vec<WalkJob>, WalkFailure> {
        let ground = &*job.repository;
        let mut tracked = PathCursor::new(&ground.index, job.tracked.clone());
        let mut jobs = Vec::new();
        let mut path = job.path.clone();
        listed.items.reserve(place.names.all.len());
        for at in 0..place.names.all.len() {
            let Some(name) = place.names.all.get(at) else { break };
            path.truncate(job.path.len());
            path.extend_from_slice(place.names.text(name));
            let what = name.class;
            if matches!(what, NameClass::Directory(_)) {
                path.push(b'/');
            }
            let own = path.get(ground.base.len()..).unwrap_or_default();
            self.add_sparse_entries(ground, tracked.skip_to(own), listed);
            let (slot, standing, below) = match what {
                NameClass::Skipped => continue,
                NameClass::File => {
                    let is_tracked = tracked.take(own).is_some();
                    if is_tracked
                        || untracked_policy(job, &path, IgnoreSubject::File)
                            == UntrackedPolicy::Open
                    {
                        let entry = self.file_entry(place, at, &path, ground)?;
                        listed.items.extend(entry.map(DirectoryItem::Entry));
                    }
                    continue;
                }
                NameClass::Directory(standing) => {
                    let slot = self.queue.allocate_slot();
                    listed.items.push(DirectoryItem::Subdirectory(slot));
                    (slot, standing, tracked.take_directory(own))
                }
                NameClass::Repository(linked) => {
                    tracked.take(own);
                    let slot = self.queue.allocate_slot();
                    let linked = linked.and_then(|at| submodule_id(ground.index.tracked(at)?));
                    listed.items.push(DirectoryItem::Repository {
                        path: own.to_vec(),
                        slot,
                        linked,
                    });
                    path.push(b'/');
                    (slot, UntrackedPolicy::Repository, 0..0)
                }
            };
            jobs.push(WalkJob {
                slot,
                parent: Arc::clone(place.directory),
                name: place.names.c_text(name).to_owned(),
                path: path.clone(),
                repository: Arc::clone(&job.repository),
                tracked: below,
                rules: job.rules.clone(),
                untracked: standing,
                tool_output: job.tool_output.below(&path, job.rules.as_deref()),
            });
        }
        self.add_sparse_entries(ground, tracked.rest(), listed);
        Ok(jobs)
    }

    /// Handles tracked paths that are not on disk: they were deleted, unless a sparse checkout leaves them out.
    fn add_sparse_entries(
        &self,
        ground: &RepositoryContext,
        passed: Range<usize>,
        listed: &mut DirectoryListing,
    ) {
        for at in passed {
            let Some(TrackedEntry::Sparse(sparse)) = ground.index.tracked(at) else { continue };
            let path = ground.index.path(at);
            if git_index::is_safe_path(path) && !self.is_excluded(&[&ground.base, path].concat()) {
                let (mode, id) = **sparse;
                let path = OsString::from_vec(path.to_vec());
                listed.items.push(DirectoryItem::Absent(TreeEntry { path, mode, id }));
            }
        }
    }

    fn file_entry(
        &mut self,
        place: &mut OpenDirectory<'_>,
        at: usize,
        path: &[u8],
        ground: &RepositoryContext,
    ) -> Result<Option<TreeEntry>, WalkFailure> {
        let Some(name) = place.names.all.get(at) else { return Ok(None) };
        let text = place.names.c_text(name);
        let stamp = match place.directory.stat(text) {
            Ok(stamp) => stamp,
            Err(error) if is_inaccessible(&error) => return Ok(None),
            Err(error) => return Err(walk_failure(path, &error)),
        };
        let mode = match stamp.kind {
            FileKind::Symlink => TreeEntryMode::Symlink,
            FileKind::File if stamp.mode & 0o100 != 0 => TreeEntryMode::Executable,
            FileKind::File => TreeEntryMode::File,
            FileKind::Directory | FileKind::Other => return Ok(None),
        };
        let key = StatKey::new(&stamp, ground.format);
        let remembered = || place.cached?.id_if_unchanged(name.file_record?, &key);
        let id = if mode == TreeEntryMode::Symlink {
            let target = place.directory.read_link(text);
            target.map(|target| object_id::hash_blob(ground.format, target.as_os_str().as_bytes()))
        } else if let Some(id) = remembered() {
            Ok(id)
        } else {
            self.hash_file(place, at, ground.format)
        };
        let id = match id {
            Ok(id) => id,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(WalkFailure::TimedOut);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) => unreadable_file_id(&stamp),
        };
        let own = path.get(ground.base.len()..).unwrap_or_default();
        Ok(Some(TreeEntry { path: OsString::from_vec(own.to_vec()), mode, id }))
    }

    fn hash_file(
        &mut self,
        place: &mut OpenDirectory<'_>,
        at: usize,
        format: ObjectFormat,
    ) -> io::Result<ObjectId> {
        let name = place.names.all.get(at).ok_or(io::ErrorKind::NotFound)?;
        let (mut file, stamp) = place.directory.open_file(place.names.c_text(name))?;
        let id = self.reader.hash_file(&mut file, format, stamp.len, self.plan.deadline)?;
        if stat_cache::is_settled(&stamp, self.plan.started_ns) {
            place
                .new_records
                .push((at, stat_cache::encode_file_record(&StatKey::new(&stamp, format), &id)));
            self.visits.new_bytes += stamp.len;
        }
        Ok(id)
    }

    fn directory_key(&self, stamp: &FileStamp, format: ObjectFormat) -> StatKey {
        if self.queue.cacheable_device == Some(stamp.device) {
            StatKey::new(stamp, format)
        } else {
            StatKey::unmatchable()
        }
    }

    /// Records a directory for the next cache.
    fn record_visit(&mut self, place: &OpenDirectory<'_>, job: &WalkJob) {
        let key = self.directory_key(&place.stamp, job.repository.format);
        let is_settled = key != StatKey::unmatchable()
            && stat_cache::is_settled(&place.stamp, self.plan.started_ns);
        let is_listed = place.names.origin == NamesOrigin::Disk;
        self.visits.new_records += place.new_records.len() + usize::from(is_listed && is_settled);
        let visit = match place.cached {
            Some(old) if !is_listed && place.new_records.is_empty() => {
                DirectoryVisit::Unchanged(old.at)
            }
            Some(_) | None => {
                let key = if is_settled { key } else { StatKey::unmatchable() };
                DirectoryVisit::New(ScannedDirectory {
                    path: job.path.clone(),
                    key,
                    contents: place.encode_contents(),
                })
            }
        };
        self.visits.all.push(visit);
    }
}

/// A directory that is being listed.
struct OpenDirectory<'a> {
    directory: &'a Arc<DirHandle>,
    stamp: FileStamp,
    cached: Option<CachedDirectory<'a>>,
    names: DirectoryNames<'a>,
    /// Records of the files that were read, by the position of the name.
    new_records: Vec<(usize, [u8; stat_cache::FILE_RECORD_BYTES])>,
}

impl OpenDirectory<'_> {
    fn encode_contents(&self) -> Vec<u8> {
        let mut lines: Vec<_> = self
            .names
            .all
            .iter()
            .map(|name| {
                let known = || self.cached?.file_record(name.file_record?);
                (self.names.text(name), name.kind, known())
            })
            .collect();
        for (at, known) in &self.new_records {
            if let Some(line) = lines.get_mut(*at) {
                line.2 = Some(known);
            }
        }
        lines.sort_unstable_by_key(|line| line.0);
        let mut contents = Vec::new();
        for (name, kind, known) in lines {
            stat_cache::append_name(&mut contents, kind, name, known);
        }
        contents
    }
}

fn untracked_policy(job: &WalkJob, path: &[u8], subject: IgnoreSubject) -> UntrackedPolicy {
    let verdict = |rules: &Arc<IgnoreRules>| rules.verdict(path, subject, job.tool_output);
    let is_ignored = || job.rules.as_ref().map(verdict) == Some(IgnoreVerdict::Ignored);
    if job.untracked == UntrackedPolicy::Ignored || is_ignored() {
        UntrackedPolicy::Ignored
    } else {
        UntrackedPolicy::Open
    }
}
