//! Checkpoints of the work tree: commits on `refs/ralph/<run>/<number>` that no branch knows of.
//!
//! What is in them are the bytes on disk, never what a filter or an end-of-line conversion made of them, so a restore
//! gives the same bytes back whatever the attributes say by then. The one exception are files that a filter turned
//! into something of another size and that are unchanged since (LFS, git-crypt): they stay what git has of them, and
//! the commit's message names them.
//!
//! The user's repository gives the place for objects and refs. Everything else, configuration, attributes and index,
//! is in a bare repository of our own, so that nothing a project's configuration names is run, and the user's index,
//! `HEAD`, stash and branches play no part. Where there is no repository, ours keeps the objects and refs too.

mod checkout;
mod diff;
mod examine;
mod make;
mod materialise;
mod message;
mod objects;
mod restore;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ralph_core::id::RunId;

use crate::git;
use crate::tree::ObjectId;
use ralph_home::paths::Home;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, Lock, LockError};

pub use checkout::{Checkout, Leftovers, Verification};
pub use diff::{Changed, Lines, Patch, Side, Status};
pub use make::{Fresh, Made, Snapshot};
pub use message::Why;
pub use objects::{Blob, Cut};
pub use restore::{Failed, Plan, Restored};

use objects::{At, Call, Format};

/// A line of `for-each-ref` is short; a run with more checkpoints than fit has other problems.
const LISTED_BYTES: usize = 16 * 1024 * 1024;
const LONGEST_PATH: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("git is not installed, and checkpoints are kept by it")]
    NoGit,
    #[error("cannot find `{}`", .0.display())]
    NoProject(PathBuf),
    #[error("the files are of `{}`, the checkpoints of `{}`", listed.display(), root.display())]
    Elsewhere { listed: PathBuf, root: PathBuf },
    #[error("the repository of `{}` keeps its objects elsewhere than when the run started", .0.display())]
    Moved(PathBuf),
    #[error("`git {what}` {why}")]
    Git { what: String, why: String },
    #[error("`git {what}` did not finish in time")]
    OutOfTime { what: String },
    #[error("run `{run}` has no checkpoint {number}")]
    NoSuch { run: RunId, number: u32 },
    #[error("checkpoint {number} is not the one that the run began with")]
    Replaced { number: u32 },
    #[error("checkpoint {number} names `{path}`, which is no path of a work tree")]
    Forged { number: u32, path: String },
    #[error("`{}` was changed since it was checkpointed", .0.display())]
    Changed(PathBuf),
    #[error("`{}` cannot be linked to from a checkout", .0.display())]
    BadLink(PathBuf),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// One state of the work tree that can be had back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// From 0, the start of the run. Not the iteration: a restore takes a number too.
    pub number: u32,
    pub commit: ObjectId,
    pub tree: ObjectId,
    /// To the second.
    pub at_ms: u64,
    pub why: Why,
}

/// Where the checkpoints of one run are.
#[derive(Debug)]
pub struct Repository {
    run: RunId,
    /// The work tree.
    root: PathBuf,
    shadow: PathBuf,
    checkout: PathBuf,
    keeper: Keeper,
    format: Format,
    purpose: Purpose,
}

/// What a repository is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Keeping,
    /// Whatever is written goes into the shadow, and no ref of the project changes.
    Rehearsal,
}

/// Who keeps objects and refs. Decided when the run's first checkpoint is made, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Keeper {
    Project { objects: PathBuf },
    Shadow,
}

impl Repository {
    /// Looks, and writes nothing yet.
    pub fn open(
        home: &Home,
        run: &RunId,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let found =
            fs::resolve(project).ok_or_else(|| CheckpointError::NoProject(project.to_owned()))?;
        let paths = home.run(run);
        let shadow = paths.shadow();
        let top = found.ancestors().find(|ancestor| git::is_repository(ancestor));
        let mut repository = Self {
            run: run.clone(),
            root: top.unwrap_or(&found).to_owned(),
            shadow,
            checkout: paths.checkout(),
            keeper: Keeper::Shadow,
            format: Format::Sha1,
            purpose: Purpose::Keeping,
        };
        let recorded = fs::read_opt(&repository.shadow.join(KEEPER), LONGEST_PATH)?;
        match (recorded, top) {
            // The project became a repository, or part of one, during the run.
            (Some(recorded), _) if recorded.is_empty() => repository.root = found,
            (recorded, Some(_)) => {
                let (objects, format) = repository.ask(deadline)?;
                if recorded.is_some_and(|recorded| recorded != objects.as_os_str().as_bytes()) {
                    return Err(CheckpointError::Moved(repository.root));
                }
                repository.keeper = Keeper::Project { objects };
                repository.format = format;
            }
            (Some(_), None) => return Err(CheckpointError::Moved(repository.root)),
            (None, None) => {}
        }
        Ok(repository)
    }

    /// For comparing only: nothing is left in the project's repository.
    #[must_use]
    pub fn rehearsing(mut self) -> Self {
        self.purpose = Purpose::Rehearsal;
        self
    }

    /// The work tree that is checkpointed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn hex(&self, id: &ObjectId) -> String {
        self.format.hex(id)
    }

    /// What there is, by number.
    pub fn list(&self, deadline: &Deadline) -> Result<Vec<Checkpoint>, CheckpointError> {
        if self.keeper == Keeper::Shadow && !self.is_prepared() {
            return Ok(Vec::new());
        }
        let prefix = self.prefix();
        // One line each: a subject has no line break.
        let format = "--format=%(refname)%09%(objectname)%09%(tree)%09%(committerdate:unix)%09%(contents:subject)";
        let mut call = Call::new(At::Refs, ["for-each-ref", format, prefix.as_str()]);
        call.keep = LISTED_BYTES;
        let listed = self.git(&call, deadline)?;
        let mut found: Vec<_> = listed
            .split(|byte| *byte == b'\n')
            .filter_map(|line| self.listed(&String::from_utf8_lossy(line), &prefix))
            .collect();
        found.sort_by_key(|checkpoint| checkpoint.number);
        Ok(found)
    }

    /// `None` for a ref that is not ours to begin with.
    fn listed(&self, line: &str, prefix: &str) -> Option<Checkpoint> {
        let mut fields = line.splitn(5, '\t');
        let name = fields.next()?.strip_prefix(prefix)?;
        let number: u32 = name.parse().ok()?;
        // `+1` and `01` are other refs.
        (number.to_string() == name).then_some(())?;
        let commit = self.format.parse(fields.next()?.as_bytes())?;
        let tree = self.format.parse(fields.next()?.as_bytes())?;
        let seconds: u64 = fields.next()?.parse().ok()?;
        let why = Why::parse(fields.next()?);
        Some(Checkpoint { number, commit, tree, at_ms: seconds.saturating_mul(1000), why })
    }

    pub fn find(&self, number: u32, deadline: &Deadline) -> Result<Checkpoint, CheckpointError> {
        let found = self.list(deadline)?.into_iter().find(|one| one.number == number);
        found.ok_or_else(|| CheckpointError::NoSuch { run: self.run.clone(), number })
    }

    /// Drops the refs; what only they kept is git's to collect. Returns how many there were.
    pub fn prune(&self, deadline: &Deadline) -> Result<usize, CheckpointError> {
        let _lock = self.lock(deadline)?;
        let found = self.list(deadline)?;
        let mut input = Vec::new();
        for one in &found {
            let name = self.name(one.number);
            input.extend(format!("delete {name}\0{}\0", self.hex(&one.commit)).into_bytes());
        }
        let now = self.now();
        input.extend(format!("delete {now}\0\0").into_bytes());
        if !found.is_empty() {
            let call = Call::new(At::Refs, ["update-ref", "--no-deref", "-z", "--stdin"]);
            self.git(&call.reading(&input), deadline)?;
        }
        Ok(found.len())
    }

    fn prefix(&self) -> String {
        format!("refs/ralph/{}/", self.run)
    }

    fn name(&self, number: u32) -> String {
        format!("{}{number}", self.prefix())
    }

    /// Keeps what a comparison with the present needs.
    fn now(&self) -> String {
        format!("{}now", self.prefix())
    }

    /// Held by whoever changes what is in the shadow, which is there from then on.
    fn lock(&self, deadline: &Deadline) -> Result<Lock, CheckpointError> {
        fs::create_dir(&self.shadow)?;
        let lock = fs::lock(&self.shadow.join("ralph.lock"), deadline)?;
        if !self.is_prepared() {
            self.prepare(deadline)?;
        }
        Ok(lock)
    }

    fn is_prepared(&self) -> bool {
        fs::exists(&self.shadow.join(KEEPER))
    }

    /// Where the project's repository keeps its objects, and how it names them.
    fn ask(&self, deadline: &Deadline) -> Result<(PathBuf, Format), CheckpointError> {
        let arguments =
            ["rev-parse", "--show-object-format", "--path-format=absolute", "--git-common-dir"];
        let told = self.git(&Call::new(At::Project, arguments), deadline)?;
        let told = told.strip_suffix(b"\n").unwrap_or(&told);
        let Some(end) = told.iter().position(|byte| *byte == b'\n') else {
            return Err(objects::odd("rev-parse"));
        };
        let (format, directory) = (told.get(..end), told.get(end + 1..).unwrap_or_default());
        let format = format.and_then(Format::named).ok_or_else(|| objects::odd("rev-parse"))?;
        let directory = PathBuf::from(OsString::from_vec(directory.to_vec()));
        Ok((directory.join("objects"), format))
    }

    fn prepare(&self, deadline: &Deadline) -> Result<(), CheckpointError> {
        let format = format!("--object-format={}", self.format.name());
        let init = ["init", "--bare", "--quiet", "--template="].map(OsStr::new);
        let mut call = Call::new(At::Nowhere, init);
        call.arguments.extend([OsStr::new(&format).into(), self.shadow.as_os_str().into()]);
        self.git(&call, deadline)?;
        for (name, bytes) in [("info/attributes", NO_CONVERSION), ("info/exclude", b"")] {
            let path = self.shadow.join(name);
            fs::create_dir(path.parent().unwrap_or(&self.shadow))?;
            fs::replace(&path, bytes, Durability::Cached)?;
        }
        let kept = match &self.keeper {
            Keeper::Project { objects } => {
                borrow_objects(&self.shadow, objects)?;
                objects.as_os_str().as_bytes()
            }
            Keeper::Shadow => b"",
        };
        Ok(fs::replace(&self.shadow.join(KEEPER), kept, Durability::Cached)?)
    }
}

/// Lets a bare repository read the objects of another one.
pub fn borrow_objects(shadow: &Path, objects: &Path) -> Result<(), FileError> {
    let info = shadow.join("objects/info");
    fs::create_dir(&info)?;
    fs::replace(&info.join("alternates"), &objects::alternate(objects), Durability::Cached)
}

/// Names the objects directory of the project's repository; empty when the shadow keeps everything. Written last: a
/// shadow without it is made again.
pub const KEEPER: &str = "ralph-keeper";

/// Over whatever a tree's own `.gitattributes` say: what comes out is what went in.
const NO_CONVERSION: &[u8] = b"* -text -eol -ident -filter -working-tree-encoding\n";
