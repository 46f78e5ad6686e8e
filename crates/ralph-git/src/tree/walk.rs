//! Walks a work tree with several threads, one directory at a time each, and computes the id of every listed file.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::assemble::{Item, Listed};
use super::ground::Ground;
use super::ignores::{Rules, Subject, Verdict};
use super::index::{self, Tracked};
use super::names::{Names, Origin, Standing, What};
use super::object::{self, Reader};
use super::order::{Cursor, Ordered};
use super::queue::Queue;
use super::repository::Repository;
use super::statcache::{self, Cache, Key, NewDirectory, Remembered, Visit, Visits};
use super::{Entry, Format, Mode, ObjectId};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::Kind;
use ralph_sys::fs::at::{Directory, Stamp};

/// More than one, because threads wait for the disk.
const THREADS_PER_PROCESSOR: usize = 2;
const MOST_THREADS: usize = 16;
const MOST_FILES: usize = 10_000_000;
/// `PATH_MAX`: longer paths cannot be opened.
const LONGEST_PATH: usize = 4096;
/// Nesting of repositories. Deeper ones are treated as plain directories.
const DEEPEST_REPOSITORY: usize = 16;
const IGNORE_FILE: &[u8] = b".gitignore";
const IGNORE_CAP: u64 = 4 * 1024 * 1024;

pub(super) struct Plan<'a> {
    pub(super) root: &'a Path,
    /// Paths below the root to leave out.
    pub(super) excluded: Vec<Vec<u8>>,
    pub(super) cache: &'a Cache,
    /// When the walk started. Files that changed later are not cached.
    pub(super) taken_ns: i64,
    pub(super) deadline: &'a Deadline,
}

#[derive(Debug)]
pub(super) enum Failure {
    OutOfTime,
    Other(String),
}

/// A directory to list.
pub(super) struct Job {
    slot: usize,
    parent: Arc<Directory>,
    name: CString,
    /// Relative to the root, with a trailing slash unless it is empty.
    path: Vec<u8>,
    ground: Arc<Ground>,
    tracked: Range<usize>,
    rules: Option<Arc<Rules>>,
    standing: Standing,
}

#[derive(Default)]
pub(super) struct Walked {
    pub(super) slots: Vec<Option<Listed>>,
    pub(super) files: usize,
    pub(super) visits: Visits,
    pub(super) failure: Option<Failure>,
}

pub(super) fn walk(plan: &Plan<'_>, ground: Ground) -> Walked {
    let root = match Directory::open(plan.root) {
        Ok(root) => Arc::new(root),
        Err(error) => {
            return Walked {
                failure: Some(Failure::Other(error.to_string())),
                ..Walked::default()
            };
        }
    };
    let job = Job {
        slot: 0,
        parent: root,
        name: c".".to_owned(),
        path: Vec::new(),
        tracked: 0..ground.index.len(),
        rules: ground.rules.clone(),
        ground: Arc::new(ground),
        standing: Standing::Open,
    };
    let trusted = job.parent.stamp().ok().filter(|_| job.parent.keeps_times());
    let queue = Queue::new(job, trusted.map(|stamp| stamp.device));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors * THREADS_PER_PROCESSOR).min(MOST_THREADS);
    let (workers, is_whole) = thread::scope(|scope| {
        let work = || Worker::new(plan, &queue).work();
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
    let lost = || (!is_whole).then(|| Failure::Other("a worker thread panicked".to_owned()));
    let mut walked = Walked { failure: queue.failure().or_else(lost), ..Walked::default() };
    walked.files = queue.count(0);
    walked.slots.resize_with(queue.slots(), || None);
    for worker in workers {
        walked.visits.all.extend(worker.visits.all);
        walked.visits.news += worker.visits.news;
        walked.visits.new_bytes += worker.visits.new_bytes;
        for (slot, listed) in worker.listed {
            if let Some(place) = walked.slots.get_mut(slot) {
                *place = Some(listed);
            }
        }
    }
    walked
}

struct Worker<'a> {
    plan: &'a Plan<'a>,
    queue: &'a Queue,
    reader: Reader,
    listed: Vec<(usize, Listed)>,
    visits: Visits,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan<'a>, queue: &'a Queue) -> Self {
        let visits = Visits::default();
        Self { plan, queue, reader: Reader::new(), listed: Vec::new(), visits }
    }

    fn work(mut self) -> Self {
        while let Some((mut job, mut turn)) = self.queue.next() {
            turn.outcome = self.directory(&mut job);
        }
        self
    }

    fn directory(&mut self, job: &mut Job) -> Result<Vec<Job>, Failure> {
        if self.plan.deadline.is_over() {
            return Err(Failure::OutOfTime);
        }
        if job.path.len() > LONGEST_PATH {
            return Err(Failure::Other(format!("a path is longer than {LONGEST_PATH} bytes")));
        }
        let opened = job.parent.open_directory(&job.name);
        let opened = opened.and_then(|directory| Ok((directory.stamp()?, Arc::new(directory))));
        let (stamp, directory) = match opened {
            Ok(opened) => opened,
            Err(error) if is_out_of_reach(&error) => return Ok(Vec::new()),
            Err(error) => return Err(trouble(&job.path, &error)),
        };
        let mut listed = Listed::default();
        if job.standing == Standing::Repository {
            listed.head = self.enter_repository(job);
        }
        let old = self.plan.cache.find(&job.path);
        let key = self.directory_key(&stamp, job.ground.format);
        let names = Names::of(&directory, &key, old.as_ref());
        let mut names = names.map_err(|error| trouble(&job.path, &error))?;
        if names.has(IGNORE_FILE) && job.standing == Standing::Open {
            let text = rules_in(&directory);
            job.rules = Rules::new(&text, job.path.len(), job.rules.take());
        }
        self.tell(&directory, job, &mut names);
        names.sort_as_paths();
        let mut place = Place { directory: &directory, stamp, old, names, fresh: Vec::new() };
        let jobs = self.merge(&mut place, job, &mut listed)?;
        self.visit(&place, job);
        if self.queue.count(listed.items.len()) > MOST_FILES {
            return Err(Failure::Other(format!("there are more than {MOST_FILES} files")));
        }
        self.listed.push((job.slot, listed));
        Ok(jobs)
    }

    fn enter_repository(&self, job: &mut Job) -> Option<String> {
        let repository = Repository::open(&self.absolute(&job.path));
        let depth = job.ground.depth + 1;
        let deadline = self.plan.deadline;
        let ground = Ground::below(repository.as_ref(), job.path.clone(), (depth, deadline));
        job.tracked = 0..ground.index.len();
        job.rules.clone_from(&ground.rules);
        job.standing = Standing::Open;
        job.ground = Arc::new(ground);
        repository?.head(deadline)
    }

    fn absolute(&self, path: &[u8]) -> PathBuf {
        self.plan.root.join(OsStr::from_bytes(path))
    }

    fn is_excluded(&self, path: &[u8]) -> bool {
        self.plan.excluded.iter().any(|excluded| {
            path.strip_prefix(&**excluded)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// Determines which directories are ignored and which are repositories of their own.
    fn tell(&self, directory: &Directory, job: &Job, names: &mut Names<'_>) {
        let mut path = job.path.clone();
        names.tell(|text, name| {
            if name.kind != Kind::Directory && self.plan.excluded.is_empty() {
                return name.what;
            }
            path.truncate(job.path.len());
            path.extend_from_slice(text);
            if self.is_excluded(&path) {
                What::Nothing
            } else if name.kind == Kind::Directory {
                self.tell_directory(directory, job, &path)
            } else {
                name.what
            }
        });
    }

    fn tell_directory(&self, directory: &Directory, job: &Job, path: &[u8]) -> What {
        let ground = &*job.ground;
        let own = path.get(ground.base.len()..).unwrap_or_default();
        let can_nest = ground.depth < DEEPEST_REPOSITORY;
        let linked = ground.index.submodule(own, &job.tracked);
        if linked.is_some() && can_nest {
            return What::Repository(linked);
        }
        let standing = standing(job, path, Subject::Directory);
        let mut tracked = Cursor::new(&ground.index, job.tracked.clone());
        let below = [own, b"/"].concat();
        tracked.pass(&below);
        if !tracked.take_below(&below).is_empty() || linked.is_some() {
            return What::Directory(standing);
        }
        if standing == Standing::Ignored {
            return What::Nothing;
        }
        let text = path.get(job.path.len()..).unwrap_or_default();
        let git = CString::new([text, b"/.git"].concat()).unwrap_or_default();
        let has_git = can_nest && directory.stat(&git).is_ok();
        if has_git && Repository::open(&self.absolute(path)).is_some() {
            return What::Repository(None);
        }
        What::Directory(standing)
    }

    /// Merges the names on disk with the tracked paths. Both are sorted the same way.
    fn merge(
        &mut self,
        place: &mut Place<'_>,
        job: &Job,
        listed: &mut Listed,
    ) -> Result<Vec<Job>, Failure> {
        let ground = &*job.ground;
        let mut tracked = Cursor::new(&ground.index, job.tracked.clone());
        let mut jobs = Vec::new();
        let mut path = job.path.clone();
        listed.items.reserve(place.names.all.len());
        for at in 0..place.names.all.len() {
            let Some(name) = place.names.all.get(at) else { break };
            path.truncate(job.path.len());
            path.extend_from_slice(place.names.text(name));
            let what = name.what;
            if matches!(what, What::Directory(_)) {
                path.push(b'/');
            }
            let own = path.get(ground.base.len()..).unwrap_or_default();
            self.missing(ground, tracked.pass(own), listed);
            let (slot, standing, below) = match what {
                What::Nothing => continue,
                What::File => {
                    let is_tracked = tracked.take(own).is_some();
                    if is_tracked || standing(job, &path, Subject::File) == Standing::Open {
                        let entry = self.file(place, at, (&path, ground))?;
                        listed.items.extend(entry.map(Item::Entry));
                    }
                    continue;
                }
                What::Directory(standing) => {
                    let slot = self.queue.slot();
                    listed.items.push(Item::Below(slot));
                    (slot, standing, tracked.take_below(own))
                }
                What::Repository(linked) => {
                    tracked.take(own);
                    let slot = self.queue.slot();
                    let linked = linked.and_then(|at| linked_id(ground.index.tracked(at)?));
                    listed.items.push(Item::Repository { path: own.to_vec(), slot, linked });
                    path.push(b'/');
                    (slot, Standing::Repository, 0..0)
                }
            };
            jobs.push(Job {
                slot,
                parent: Arc::clone(place.directory),
                name: place.names.c_text(name).to_owned(),
                path: path.clone(),
                ground: Arc::clone(&job.ground),
                tracked: below,
                rules: job.rules.clone(),
                standing,
            });
        }
        self.missing(ground, tracked.rest(), listed);
        Ok(jobs)
    }

    /// Handles tracked paths that are not on disk: they were deleted, unless a sparse checkout leaves them out.
    fn missing(&self, ground: &Ground, passed: Range<usize>, listed: &mut Listed) {
        for at in passed {
            let Some(Tracked::Sparse(sparse)) = ground.index.tracked(at) else { continue };
            let path = ground.index.path(at);
            if index::is_plain(path) && !self.is_excluded(&[&ground.base, path].concat()) {
                let (mode, id) = **sparse;
                let path = OsString::from_vec(path.to_vec());
                listed.items.push(Item::Entry(Entry { path, mode, id }));
            }
        }
    }

    fn file(
        &mut self,
        place: &mut Place<'_>,
        at: usize,
        (path, ground): (&[u8], &Ground),
    ) -> Result<Option<Entry>, Failure> {
        let Some(name) = place.names.all.get(at) else { return Ok(None) };
        let text = place.names.c_text(name);
        let stamp = match place.directory.stat(text) {
            Ok(stamp) => stamp,
            Err(error) if is_out_of_reach(&error) => return Ok(None),
            Err(error) => return Err(trouble(path, &error)),
        };
        let mode = match stamp.kind {
            Kind::Symlink => Mode::Symlink,
            Kind::File if stamp.mode & 0o100 != 0 => Mode::Executable,
            Kind::File => Mode::File,
            Kind::Directory | Kind::Other => return Ok(None),
        };
        let key = Key::new(&stamp, ground.format);
        let remembered = || place.old?.id(name.known?, &key);
        let id = if mode == Mode::Symlink {
            let target = place.directory.read_link(text);
            target.map(|target| object::of_bytes(ground.format, target.as_os_str().as_bytes()))
        } else if let Some(id) = remembered() {
            Ok(id)
        } else {
            self.read(place, at, ground.format)
        };
        let id = match id {
            Ok(id) => id,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Failure::OutOfTime);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) => unreadable(&stamp),
        };
        let own = path.get(ground.base.len()..).unwrap_or_default();
        Ok(Some(Entry { path: OsString::from_vec(own.to_vec()), mode, id }))
    }

    fn read(&mut self, place: &mut Place<'_>, at: usize, format: Format) -> io::Result<ObjectId> {
        let name = place.names.all.get(at).ok_or(io::ErrorKind::NotFound)?;
        let (mut file, stamp) = place.directory.open_file(place.names.c_text(name))?;
        let id = self.reader.id(&mut file, (format, stamp.len), self.plan.deadline)?;
        if statcache::is_settled(&stamp, self.plan.taken_ns) {
            place.fresh.push((at, statcache::known(&Key::new(&stamp, format), &id)));
            self.visits.new_bytes += stamp.len;
        }
        Ok(id)
    }

    fn directory_key(&self, stamp: &Stamp, format: Format) -> Key {
        if self.queue.trusted == Some(stamp.device) {
            Key::new(stamp, format)
        } else {
            Key::never()
        }
    }

    /// Records a directory for the next cache.
    fn visit(&mut self, place: &Place<'_>, job: &Job) {
        let key = self.directory_key(&place.stamp, job.ground.format);
        let is_settled =
            key != Key::never() && statcache::is_settled(&place.stamp, self.plan.taken_ns);
        let is_listed = place.names.origin == Origin::Listed;
        self.visits.news += place.fresh.len() + usize::from(is_listed && is_settled);
        let visit = match place.old {
            Some(old) if !is_listed && place.fresh.is_empty() => Visit::Same(old.at),
            Some(_) | None => {
                let key = if is_settled { key } else { Key::never() };
                Visit::New(NewDirectory { path: job.path.clone(), key, contents: place.contents() })
            }
        };
        self.visits.all.push(visit);
    }
}

/// A directory that is being listed.
struct Place<'a> {
    directory: &'a Arc<Directory>,
    stamp: Stamp,
    old: Option<Remembered<'a>>,
    names: Names<'a>,
    /// Records of the files that were read, by the position of the name.
    fresh: Vec<(usize, [u8; statcache::KNOWN])>,
}

impl Place<'_> {
    fn contents(&self) -> Vec<u8> {
        let mut lines: Vec<_> = self
            .names
            .all
            .iter()
            .map(|name| {
                let known = || self.old?.known(name.known?);
                (self.names.text(name), name.kind, known())
            })
            .collect();
        for (at, known) in &self.fresh {
            if let Some(line) = lines.get_mut(*at) {
                line.2 = Some(known);
            }
        }
        lines.sort_unstable_by_key(|line| line.0);
        let mut contents = Vec::new();
        for (name, kind, known) in lines {
            statcache::add_line(&mut contents, (kind, name), known);
        }
        contents
    }
}

fn standing(job: &Job, path: &[u8], subject: Subject) -> Standing {
    let is_ignored = || {
        let rules = job.rules.as_ref();
        rules.is_some_and(|rules| rules.verdict(path, subject) == Verdict::Ignored)
    };
    if job.standing == Standing::Ignored || is_ignored() {
        Standing::Ignored
    } else {
        Standing::Open
    }
}

fn linked_id(tracked: &Tracked) -> Option<ObjectId> {
    match tracked {
        Tracked::File => None,
        Tracked::Sparse(entry) => Some(entry.1),
        Tracked::Submodule(id) => Some(**id),
    }
}

/// An id for a file that cannot be read. It changes when the file's metadata changes.
fn unreadable(stamp: &Stamp) -> ObjectId {
    let mut hasher = blake3::Hasher::new_derive_key("ralph tree unreadable");
    hasher.update(format!("{stamp:?}").as_bytes());
    ObjectId(hasher.finalize().into())
}

fn rules_in(directory: &Directory) -> Vec<u8> {
    let mut text = Vec::new();
    let read = directory
        .open_file(c".gitignore")
        .and_then(|(file, _)| file.take(IGNORE_CAP).read_to_end(&mut text));
    if read.is_ok() { text } else { Vec::new() }
}

/// Whether the file was deleted meanwhile or may not be accessed. A gate, which runs as the same user, cannot access it
/// either.
fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

fn trouble(path: &[u8], error: &io::Error) -> Failure {
    Failure::Other(format!("`{}`: {error}", String::from_utf8_lossy(path)))
}
