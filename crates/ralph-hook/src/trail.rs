//! The output of a run: a checkpoint of the current tree, the files changed since the start, and the commits made
//! since.

use ralph_core::record::Run;
use ralph_core::text;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, Repository, Snapshot, Why};
use ralph_git::git::{self, GitState, Since, Work};
use ralph_git::tree::{self, Survey, TreeError};
use ralph_home::faults::describe;
use ralph_home::paths::Home;
use ralph_lists::lists;
use ralph_sys::clock::Deadline;
use std::path::Path;
use std::time::Duration;

/// A checkpoint of a large tree takes a while.
const PATIENCE: Duration = Duration::from_mins(5);
const MOST_FILES: usize = 2_000;
const LONGEST_PATH: usize = 300;
const SHOWN_ID: usize = 10;

/// Everything a run has produced up to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Paths that changed since the start of the run.
    pub files: Vec<String>,
    /// `id subject`, oldest first.
    pub commits: Vec<String>,
    /// Uncommitted changes; `None` if git cannot report them.
    pub work: Option<Work>,
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
pub enum TrailError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Checkpoints the current tree and collects the changes and commits since the start. Errors become part of the result.
pub fn keep(home: &Home, run: &Run, why: &str) -> Trail {
    let deadline = Deadline::after(PATIENCE);
    let project = Path::new(&run.project);
    let base = run.drive.as_ref().and_then(|settings| settings.base());
    let since = base.map_or(Since::Ms(run.started_ms), Since::Commit);
    let trail = Trail {
        commits: git::commits_since(project, since, &deadline),
        work: match git::status(project, &[], &deadline) {
            GitState::Known(work) => Some(work),
            GitState::NotARepository | GitState::Unavailable(_) => None,
        },
        ..Trail::default()
    };
    match kept(home, run, why, &deadline) {
        Ok((now, files)) => {
            let is_same = git::head_tree(project, &deadline) == Some(now.tree.hex());
            let is_committed = if is_same { IsCommitted::Yes } else { IsCommitted::No };
            Trail { files, checkpoint: Some(now.number), is_committed, ..trail }
        }
        Err(error) => Trail { trouble: Some(describe(&error)), ..trail },
    }
}

impl Trail {
    /// The abbreviated id of the last commit, if the work tree is exactly that commit.
    pub fn commit(&self) -> Option<String> {
        let is_it = |work: &&Work| work.changed_count == 0 && self.is_committed == IsCommitted::Yes;
        let head = self.work.as_ref().filter(is_it)?.head.as_deref()?;
        let last = self.commits.last().and_then(|commit| commit.split(' ').next());
        let shown = last.filter(|last| head.starts_with(last));
        Some(shown.or(head.get(..SHOWN_ID)).unwrap_or(head).to_string())
    }
}

fn kept(
    home: &Home,
    run: &Run,
    why: &str,
    deadline: &Deadline,
) -> Result<(Checkpoint, Vec<String>), TrailError> {
    let project = Path::new(&run.project);
    let repository = Repository::open(home, &run.id, project, deadline)?;
    let exclude = lists::excluded(home, run);
    let cache = tree::cache(home, repository.root());
    let survey =
        Survey { project: repository.root(), exclude: &exclude, cache: Some(&cache), deadline };
    let listing = tree::list(&survey)?;
    let why = Why::Other(why.to_string());
    let snapshot = Snapshot { listing: &listing, excluded: &exclude, why };
    let now = repository.make(&snapshot, deadline)?.checkpoint;
    let first = repository.list(deadline)?.into_iter().next();
    let changed = match first {
        Some(first) => repository.diff(&first, &now, deadline)?,
        None => Vec::new(),
    };
    let paths = changed.iter().take(MOST_FILES).map(|one| one.path.to_string_lossy());
    Ok((now, paths.map(|path| text::line(&path, LONGEST_PATH)).collect()))
}
