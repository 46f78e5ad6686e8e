//! The output of a run: a checkpoint of the current tree, the files changed since the start, and the commits made
//! since.

use crate::contract;
use ralph_core::record::RunRecord;
use ralph_core::text;
use ralph_git::checkpoint::{
    Checkpoint, CheckpointError, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::git::{self, CommitsSince, GitState, RepositoryStatus};
use ralph_git::tree::{self, ListingError, ListingRequest};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_lists::run_lists;
use ralph_sys::clock::Deadline;
use std::path::Path;
use std::time::Duration;

/// A checkpoint of a large tree takes a while.
const CAPTURE_TIMEOUT: Duration = Duration::from_mins(5);
const MAX_OUTPUT_FILES: usize = 2_000;
const MAX_SHOWN_PATH_CHARS: usize = 300;
const SHORT_COMMIT_CHARS: usize = 10;

/// Everything a run has produced up to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutput {
    /// Paths that changed since the start of the run.
    pub files: Vec<String>,
    /// `id subject`, oldest first.
    pub commits: Vec<String>,
    /// Uncommitted changes; `None` if git cannot report them.
    pub work: Option<RepositoryStatus>,
    /// The number of the last checkpoint.
    pub checkpoint: Option<u32>,
    pub is_committed: IsCommitted,
    /// Why the checkpoint or the list of files is missing.
    pub trouble: Option<String>,
}

/// Whether the checkpoint equals the last commit byte for byte, whatever git's index flags (`assume-unchanged`,
/// `skip-worktree`) hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsCommitted {
    Yes,
    #[default]
    No,
}

#[derive(Debug, thiserror::Error)]
pub enum RunOutputError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Tree(#[from] ListingError),
}

/// Checkpoints the current tree and collects the changes and commits since the start. Errors become part of the result.
pub fn capture_output(home: &RalphHome, run: &RunRecord, why: &str) -> RunOutput {
    let deadline = Deadline::after(CAPTURE_TIMEOUT);
    let project = Path::new(&run.project);
    let base = run.drive.as_ref().and_then(|settings| settings.base());
    let since = base.map_or(CommitsSince::Ms(run.started_ms), CommitsSince::Commit);
    let (commits, trouble) = match git::commits_since(project, since, &deadline) {
        Ok(commits) => (commits, None),
        Err(error) => (Vec::new(), Some(describe_error(&error))),
    };
    let trail = RunOutput {
        commits,
        trouble,
        work: match git::repository_status(project, &[], &deadline) {
            GitState::Known(work) => Some(work),
            GitState::NotARepository | GitState::Unavailable(_) => None,
        },
        ..RunOutput::default()
    };
    match checkpoint_output(home, run, why, &deadline) {
        Ok((now, files)) => {
            let is_same = git::head_tree(project, &deadline) == Some(now.tree.hex());
            let is_committed = if is_same { IsCommitted::Yes } else { IsCommitted::No };
            RunOutput { files, checkpoint: Some(now.number), is_committed, ..trail }
        }
        Err(error) => RunOutput { trouble: Some(describe_error(&error)), ..trail },
    }
}

impl RunOutput {
    /// The abbreviated id of the last commit, if the work tree is exactly that commit.
    pub fn commit(&self) -> Option<String> {
        let is_it = |work: &&RepositoryStatus| {
            work.changed_count == 0 && self.is_committed == IsCommitted::Yes
        };
        let head = self.work.as_ref().filter(is_it)?.head.as_deref()?;
        let last = self.commits.last().and_then(|commit| commit.split(' ').next());
        let shown = last.filter(|last| head.starts_with(last));
        Some(shown.or(head.get(..SHORT_COMMIT_CHARS)).unwrap_or(head).to_string())
    }
}

fn checkpoint_output(
    home: &RalphHome,
    run: &RunRecord,
    why: &str,
    deadline: &Deadline,
) -> Result<(Checkpoint, Vec<String>), RunOutputError> {
    let (repository, now) = checkpoint_work_tree(home, run, why, deadline)?;
    let first = repository.list(deadline)?.into_iter().next();
    let changed = match first {
        Some(first) => repository.diff(&first, &now, deadline)?,
        None => Vec::new(),
    };
    let paths = changed.iter().take(MAX_OUTPUT_FILES).map(|one| one.path.to_string_lossy());
    Ok((now, paths.map(|path| text::clean_line(&path, MAX_SHOWN_PATH_CHARS)).collect()))
}

/// Checkpoints the work tree of a run as it is now.
pub(crate) fn checkpoint_work_tree(
    home: &RalphHome,
    run: &RunRecord,
    why: &str,
    deadline: &Deadline,
) -> Result<(CheckpointRepository, Checkpoint), RunOutputError> {
    let project = Path::new(&run.project);
    let repository = CheckpointRepository::open(home, &run.id, project, deadline)?;
    let exclude = run_lists::excluded_paths(home, run);
    let cache = tree::stat_cache_path(home, repository.root());
    let survey = ListingRequest {
        project: repository.root(),
        exclude: &exclude,
        cache: Some(&cache),
        deadline,
    };
    let listing = tree::list_work_tree(&survey)?;
    let listing = contract::delete_newly_absent(run, &listing);
    let why = CheckpointReason::Other(why.to_string());
    let snapshot = CheckpointSnapshot { listing: &listing, excluded: &exclude, reason: why };
    let now = repository.create(&snapshot, deadline)?.checkpoint;
    Ok((repository, now))
}
