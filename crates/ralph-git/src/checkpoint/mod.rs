//! Checkpoints of the work tree: commits on `refs/ralph/<run>/<number>`, which are on no branch.
//!
//! A checkpoint holds the bytes on disk, not the result of filters or end-of-line conversion, so a restore writes the
//! same bytes even if the attributes have changed since.
//!
//! Objects and refs are stored in the user's repository. Configuration, attributes and the indexes of checkouts are in a separate bare
//! repository, the shadow. Thus no program that the project's configuration names is run, and the user's index, `HEAD`,
//! stash and branches are not involved. For a project without a repository, the shadow stores objects and refs too.

mod checkout;
mod commit_message;
mod create_checkpoint;
mod diff;
mod directory_trees;
mod plumbing;
mod resolve_objects;
mod restore;
mod staging;
mod verified_objects;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ralph_core::id::RunId;

use crate::git;
use crate::object_batch::tree_of_commit;
use crate::tree::{self, ListingError, ObjectFormat, ObjectId};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, FileLock, LockError};

pub use checkout::{CheckoutRequest, OverlayFile, VerificationCheckout};
pub use commit_message::CheckpointReason;
pub use create_checkpoint::{CheckpointNovelty, CheckpointSnapshot, CreatedCheckpoint};
pub(crate) use directory_trees::split_tree;

pub use diff::{ChangeStatus, ChangedPath, CheckpointPatch, LineCounts, PathVersion};
pub use plumbing::BlobContent;
pub use restore::{RestoreFailure, RestorePlan, RestoreResult};
pub use staging::CheckpointFile;

use commit_message::CheckpointRemarks;
use create_checkpoint::CommitDraft;
use plumbing::{PlumbingCommand, PlumbingContext};
use verified_objects::VerifiedObjects;

/// Limit for the output of `for-each-ref`, far more than the checkpoints of any run need.
const MAX_LISTING_BYTES: usize = 16 * 1024 * 1024;
const MAX_PATH_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("git is not installed, and checkpoints need it")]
    GitMissing,
    #[error("cannot find `{}`", .0.display())]
    NoProject(PathBuf),
    #[error("the listed files are in `{}`, but the checkpoints belong to `{}`", listed.display(), root.display())]
    WrongRoot { listed: PathBuf, root: PathBuf },
    #[error("the repository of `{}` has moved its objects since the run started", .0.display())]
    ObjectsMoved(PathBuf),
    #[error("`git {what}` {why}")]
    Git { what: String, why: String },
    #[error("`git {what}` timed out")]
    TimedOut { what: String },
    #[error("run `{run}` has no checkpoint {number}")]
    NotFound { run: RunId, number: u32 },
    #[error("checkpoint {number} is not the one that the run started with")]
    Replaced { number: u32 },
    #[error("git no longer knows commit `{0}` of the target branch")]
    CommitMissing(String),
    #[error("the content of git object `{id}` does not match its id")]
    WrongContent { id: String },
    #[error("checkpoint {number} contains `{path}`, which is not a valid path in a work tree")]
    InvalidPath { number: u32, path: String },
    #[error("`{}` has changed since it was checkpointed", .0.display())]
    FileChanged(PathBuf),
    #[error("cannot write `{}` in a checkout", .0.display())]
    BadPath(PathBuf),
    #[error(transparent)]
    Listing(#[from] ListingError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// A state of the work tree that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts from 0, the start of the run. It is not the iteration, because a restore creates a checkpoint too.
    pub number: u32,
    pub commit: ObjectId,
    pub tree: ObjectId,
    /// Rounded to the second.
    pub at_ms: u64,
    pub reason: CheckpointReason,
}

/// The checkpoints of one run.
#[derive(Clone, Debug)]
pub struct CheckpointRepository {
    run: RunId,
    /// The work tree.
    root: PathBuf,
    /// Ralph's bare repository.
    shadow: PathBuf,
    checkout: PathBuf,
    /// Names the checkout's files in the shadow.
    checkout_label: &'static str,
    store: CheckpointStore,
    format: ObjectFormat,
    purpose: RepositoryPurpose,
    verified: VerifiedObjects,
}

/// Whether a repository may write to the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepositoryPurpose {
    Recording,
    /// Objects are written to the shadow only, and no ref of the project changes.
    Comparison,
}

/// Where objects and refs are stored. Fixed when the run's first checkpoint is created.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckpointStore {
    Project { objects: PathBuf },
    Shadow,
}

impl CheckpointRepository {
    /// Opens the checkpoints of a run without writing anything.
    pub fn open(
        home: &RalphHome,
        run: &RunId,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        Self::open_in(run, home.run(run).shadow_repository(), project, deadline)
    }

    /// Opens a repository for comparisons only, whose files are all in `directory`. `name` is unique, like that of a
    /// run.
    pub fn open_temporary(
        name: &RunId,
        directory: &Path,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let shadow = directory.join("shadow.git");
        Ok(Self::open_in(name, shadow, project, deadline)?.for_comparison())
    }

    fn open_in(
        run: &RunId,
        shadow: PathBuf,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let found =
            fs::resolve(project).ok_or_else(|| CheckpointError::NoProject(project.to_owned()))?;
        let top = git::work_tree_root(&found);
        let mut repository = Self {
            run: run.clone(),
            root: top.unwrap_or(&found).to_owned(),
            checkout: shadow.join("checkout"),
            shadow,
            checkout_label: "checkout",
            store: CheckpointStore::Shadow,
            format: ObjectFormat::Sha1,
            purpose: RepositoryPurpose::Recording,
            verified: VerifiedObjects::default(),
        };
        let recorded = fs::read_if_exists(&repository.shadow.join(STORE_FILE), MAX_PATH_BYTES)?;
        match (recorded, top) {
            // The project became a repository, or part of one, during the run; the shadow keeps the checkpoints.
            (Some(recorded), _) if recorded.is_empty() => repository.root = found,
            (recorded, Some(_)) => {
                // Git is asked only if the repository is not the recorded one at first sight.
                let known = tree::find_object_store(&repository.root).filter(|(objects, _)| {
                    recorded.as_deref() == Some(objects.as_os_str().as_bytes())
                });
                let (objects, format) = match known {
                    Some(known) => known,
                    None => repository.read_object_store(deadline)?,
                };
                if recorded.is_some_and(|recorded| recorded != objects.as_os_str().as_bytes()) {
                    return Err(CheckpointError::ObjectsMoved(repository.root));
                }
                repository.store = CheckpointStore::Project { objects };
                repository.format = format;
            }
            (Some(_), None) => return Err(CheckpointError::ObjectsMoved(repository.root)),
            (None, None) => {}
        }
        Ok(repository)
    }

    /// Makes the repository write nothing to the project, for comparisons only.
    #[must_use]
    pub fn for_comparison(mut self) -> Self {
        self.purpose = RepositoryPurpose::Comparison;
        self
    }

    /// The same checkpoints, checked out to another directory. Checkouts with different labels can be used at the same
    /// time.
    #[must_use]
    pub fn with_checkout_dir(&self, directory: PathBuf, label: &'static str) -> Self {
        Self { checkout: directory, checkout_label: label, ..self.clone() }
    }

    /// The tree of any commit of the project, as a checkpoint without a number. `None` if git knows no such commit.
    pub fn find_commit(
        &self,
        name: &str,
        deadline: &Deadline,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let wanted = format!("{name}^{{commit}}");
        let question = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let call = PlumbingCommand::new(PlumbingContext::Project, question);
        let commit = match self.run_git(&call, deadline) {
            Ok(output) => self.format.parse(output.trim_ascii_end()),
            Err(CheckpointError::Git { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(commit) = commit else { return Ok(None) };
        let content = self.read_commit(&commit, deadline)?;
        let tree = tree_of_commit(self.format, &content)
            .ok_or_else(|| plumbing::unexpected_git_output("cat-file"))?;
        // A commit of our own: the message of a foreign one could pretend to be that of a checkpoint.
        let reason = CheckpointReason::Other(format!("the tree of {name}"));
        let mut checkpoint = Checkpoint { number: u32::MAX, commit: tree, tree, at_ms: 0, reason };
        let draft =
            CommitDraft { at: PlumbingContext::Shadow, checkpoint: &checkpoint, parent: None };
        checkpoint.commit = self.write_commit(&draft, &CheckpointRemarks::default(), deadline)?;
        Ok(Some(checkpoint))
    }

    /// The last commit that two commits have in common, as a name for [`Self::find_commit`].
    pub fn find_merge_base(
        &self,
        first: &str,
        second: &str,
        deadline: &Deadline,
    ) -> Result<Option<String>, CheckpointError> {
        let question = ["merge-base", "--end-of-options", first, second];
        match self.run_git(&PlumbingCommand::new(PlumbingContext::Project, question), deadline) {
            Ok(output) => Ok(Some(String::from_utf8_lossy(output.trim_ascii_end()).into_owned())),
            Err(CheckpointError::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the history of the project is incomplete.
    pub fn is_shallow(&self, deadline: &Deadline) -> bool {
        let question = ["rev-parse", "--is-shallow-repository"];
        let call = PlumbingCommand::new(PlumbingContext::Project, question);
        self.run_git(&call, deadline).is_ok_and(|answer| answer.trim_ascii() == b"true")
    }

    /// The work tree that is checkpointed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn hex(&self, id: &ObjectId) -> String {
        self.format.hex(id)
    }

    /// All checkpoints, sorted by number.
    pub fn list(&self, deadline: &Deadline) -> Result<Vec<Checkpoint>, CheckpointError> {
        if self.store == CheckpointStore::Shadow && !self.has_shadow() {
            return Ok(Vec::new());
        }
        let prefix = self.ref_prefix();
        // One line per ref, because a subject has no line break.
        let format = "--format=%(refname)%09%(objectname)%09%(tree)%09%(committerdate:unix)%09%(contents:subject)";
        let mut call =
            PlumbingCommand::new(PlumbingContext::Refs, ["for-each-ref", format, prefix.as_str()]);
        call.max_output = MAX_LISTING_BYTES;
        let listed = self.run_git(&call, deadline)?;
        let mut found: Vec<_> = listed
            .split(|byte| *byte == b'\n')
            .filter_map(|line| self.parse_checkpoint_line(&String::from_utf8_lossy(line), &prefix))
            .collect();
        found.sort_by_key(|checkpoint| checkpoint.number);
        Ok(found)
    }

    /// Returns `None` for a ref that ralph did not create.
    fn parse_checkpoint_line(&self, line: &str, prefix: &str) -> Option<Checkpoint> {
        let mut fields = line.splitn(5, '\t');
        let name = fields.next()?.strip_prefix(prefix)?;
        let number: u32 = name.parse().ok()?;
        // `+1` and `01` are other refs.
        (number.to_string() == name).then_some(())?;
        let commit = self.format.parse(fields.next()?.as_bytes())?;
        let tree = self.format.parse(fields.next()?.as_bytes())?;
        let seconds: u64 = fields.next()?.parse().ok()?;
        let why = CheckpointReason::parse(fields.next()?);
        Some(Checkpoint { number, commit, tree, at_ms: seconds.saturating_mul(1000), reason: why })
    }

    pub fn find(&self, number: u32, deadline: &Deadline) -> Result<Checkpoint, CheckpointError> {
        let found = self.list(deadline)?.into_iter().find(|one| one.number == number);
        let found =
            found.ok_or_else(|| CheckpointError::NotFound { run: self.run.clone(), number })?;
        self.verify_commit(&found, deadline)?;
        Ok(found)
    }

    /// Deletes the refs and leaves their objects to git's garbage collection. Returns how many there were.
    pub fn prune(&self, deadline: &Deadline) -> Result<usize, CheckpointError> {
        let _lock = self.lock_shadow(deadline)?;
        let found = self.list(deadline)?;
        let mut input = Vec::new();
        for one in &found {
            let name = self.checkpoint_ref(one.number);
            input.extend(format!("delete {name}\0{}\0", self.hex(&one.commit)).into_bytes());
        }
        let now = self.present_ref();
        input.extend(format!("delete {now}\0\0").into_bytes());
        if !found.is_empty() {
            let call = PlumbingCommand::new(
                PlumbingContext::Refs,
                ["update-ref", "--no-deref", "-z", "--stdin"],
            );
            self.run_git(&call.with_input(&input), deadline)?;
        }
        Ok(found.len())
    }

    fn ref_prefix(&self) -> String {
        format!("refs/ralph/{}/", self.run)
    }

    fn checkpoint_ref(&self, number: u32) -> String {
        format!("{}{number}", self.ref_prefix())
    }

    /// The ref that keeps the present state from garbage collection while it is compared.
    fn present_ref(&self) -> String {
        format!("{}now", self.ref_prefix())
    }

    /// Must be held while changing the shadow. Creates the shadow if necessary.
    fn lock_shadow(&self, deadline: &Deadline) -> Result<FileLock, CheckpointError> {
        fs::create_private_dir(&self.shadow)?;
        let lock = fs::acquire_lock(&self.shadow.join("ralph.lock"), deadline)?;
        if !self.has_shadow() {
            self.create_shadow(deadline)?;
        }
        Ok(lock)
    }

    fn has_shadow(&self) -> bool {
        fs::exists(&self.shadow.join(STORE_FILE))
    }

    /// The object directory and object format of the project's repository.
    fn read_object_store(
        &self,
        deadline: &Deadline,
    ) -> Result<(PathBuf, ObjectFormat), CheckpointError> {
        let arguments =
            ["rev-parse", "--show-object-format", "--path-format=absolute", "--git-common-dir"];
        let output =
            self.run_git(&PlumbingCommand::new(PlumbingContext::Project, arguments), deadline)?;
        let output = output.strip_suffix(b"\n").unwrap_or(&output);
        let Some(end) = output.iter().position(|byte| *byte == b'\n') else {
            return Err(plumbing::unexpected_git_output("rev-parse"));
        };
        let (format, directory) = (output.get(..end), output.get(end + 1..).unwrap_or_default());
        let format = format
            .and_then(ObjectFormat::from_name)
            .ok_or_else(|| plumbing::unexpected_git_output("rev-parse"))?;
        let directory = PathBuf::from(OsString::from_vec(directory.to_vec()));
        Ok((directory.join("objects"), format))
    }

    fn create_shadow(&self, deadline: &Deadline) -> Result<(), CheckpointError> {
        let format = format!("--object-format={}", self.format.name());
        let init = ["init", "--bare", "--quiet", "--template="].map(OsStr::new);
        let mut call = PlumbingCommand::new(PlumbingContext::NoRepository, init);
        call.arguments.extend([OsStr::new(&format).into(), self.shadow.as_os_str().into()]);
        self.run_git(&call, deadline)?;
        for (name, bytes) in [("info/attributes", NO_CONVERSION), ("info/exclude", b"")] {
            let path = self.shadow.join(name);
            fs::create_private_dir(path.parent().unwrap_or(&self.shadow))?;
            fs::replace(&path, bytes, Durability::Cached)?;
        }
        let kept = match &self.store {
            CheckpointStore::Project { objects } => {
                borrow_objects(&self.shadow, objects)?;
                objects.as_os_str().as_bytes()
            }
            CheckpointStore::Shadow => b"",
        };
        Ok(fs::replace(&self.shadow.join(STORE_FILE), kept, Durability::Cached)?)
    }
}

/// Lets a bare repository read the objects of another repository.
pub fn borrow_objects(shadow: &Path, objects: &Path) -> Result<(), FileError> {
    let info = shadow.join("objects/info");
    fs::create_private_dir(&info)?;
    fs::replace(&info.join("alternates"), &plumbing::alternates_line(objects), Durability::Cached)
}

/// File in the shadow with the object directory of the project's repository; empty if the shadow stores everything. It
/// is written last: a shadow without it is incomplete and is created again.
pub const STORE_FILE: &str = "ralph-keeper";

/// Overrides the `.gitattributes` of the tree, so that git never converts content.
const NO_CONVERSION: &[u8] = b"* -text -eol -ident -filter -working-tree-encoding\n";
