//! Opens the work tree of a run, after checking that it is the one that ralph created.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ralph_core::drive::RunWorktree;
use ralph_core::id::RunId;
use ralph_core::text;

use super::git_command::{GitCommand, GitCommandError, GitLocation};
use super::{WorktreeError, join_names};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};

const MAX_LINKED: usize = 100_000;
const MAX_LINE_BYTES: usize = 64 * 1024;
const MAX_SHOWN_CHARS: usize = 400;
pub(super) const BRANCH_PREFIX: &str = "ralph/";

#[derive(Debug)]
pub(crate) struct OpenWorktree<'a> {
    pub(crate) worktree: &'a RunWorktree,
    /// Root of the run's work tree. `worktree.path` may be a directory below it.
    pub(crate) root: PathBuf,
    pub(crate) run_location: GitLocation,
    /// The repository that the work tree was created from.
    pub(crate) source_location: GitLocation,
}

impl<'a> OpenWorktree<'a> {
    /// Accepts a work tree only in ralph's own directory for work trees, and only if the repository it was created from
    /// lists it at this path. An agent that edits the `.git` file in its work tree cannot redirect git.
    pub(crate) fn open(
        home: &RalphHome,
        worktree: &'a RunWorktree,
        deadline: &Deadline,
    ) -> Result<Self, WorktreeError> {
        let not_ours = || WorktreeError::NotRunWorktree(PathBuf::from(&worktree.path));
        let run = worktree.branch.strip_prefix(BRANCH_PREFIX).and_then(RunId::parse);
        let run = run.ok_or_else(not_ours)?;
        let path = fs::resolve(Path::new(&worktree.path)).ok_or_else(not_ours)?;
        let places = [home.worktree(&run), home.hidden_worktree(&run)];
        let root = places.into_iter().find_map(|place| {
            let place = fs::resolve(&place)?;
            let name = path.strip_prefix(&place).ok()?.components().next()?;
            Some(place.join(name))
        });
        let root = root.ok_or_else(not_ours)?;
        let theirs = GitLocation::UserRepository(PathBuf::from(&worktree.from));
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = parse_path_line(&GitCommand::new(&theirs, deadline).run_checked(&common)?);
        let git_dir = find_git_dir(&common, &root)?.ok_or_else(not_ours)?;
        let ours = GitLocation::RunWorktree { git_dir, root: root.clone() };
        Ok(Self { worktree, root, run_location: ours, source_location: theirs })
    }

    pub(crate) fn run_git<'c>(&'c self, deadline: &'c Deadline) -> GitCommand<'c> {
        GitCommand::new(&self.run_location, deadline)
    }

    pub(crate) fn source_git<'c>(&'c self, deadline: &'c Deadline) -> GitCommand<'c> {
        GitCommand::new(&self.source_location, deadline)
    }

    pub(super) fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.worktree.branch)
    }

    pub(super) fn target_ref(&self) -> Result<String, WorktreeError> {
        let into = self.worktree.into.as_ref().ok_or(WorktreeError::NoTargetBranch)?;
        Ok(format!("refs/heads/{into}"))
    }

    /// The last commit of the run's branch.
    pub(crate) fn tip(&self, deadline: &Deadline) -> Result<String, WorktreeError> {
        let tip = resolve_commit(&self.source_git(deadline), &self.branch_ref())?;
        tip.ok_or_else(|| WorktreeError::NotRunWorktree(self.root.clone()))
    }

    /// The last commit of the branch that the work returns to.
    pub(super) fn target_tip(&self, deadline: &Deadline) -> Result<String, WorktreeError> {
        let target = resolve_commit(&self.source_git(deadline), &self.target_ref()?)?;
        let into = self.worktree.into.clone().unwrap_or_default();
        target.ok_or(WorktreeError::TargetBranchMissing(into))
    }

    /// Paths that are neither committed nor ignored, cleaned for display.
    pub(super) fn uncommitted_paths(
        &self,
        deadline: &Deadline,
    ) -> Result<Vec<String>, WorktreeError> {
        let arguments = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
        let output = self.run_git(deadline).run_checked(&arguments)?;
        Ok(nul_records(&output)
            .map(|record| display_name(record.get(3..).unwrap_or_default()))
            .collect())
    }

    pub(super) fn unmerged_paths(&self, deadline: &Deadline) -> Result<Vec<String>, WorktreeError> {
        let arguments = ["diff", "--name-only", "--diff-filter=U", "-z"];
        let output = self.run_git(deadline).run_checked(&arguments)?;
        Ok(nul_records(&output).map(display_name).collect())
    }
}

/// The administrative directory that the repository has for the work tree at `root`.
fn find_git_dir(common: &Path, root: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let mut unreadable = None;
    for directory in linked_git_dirs(common)? {
        let place = match fs::read_if_exists(&directory.join("gitdir"), MAX_LINE_BYTES) {
            Ok(line) => parse_path_line(&line.unwrap_or_default()),
            Err(error) => {
                unreadable = Some(error);
                continue;
            }
        };
        if place.parent().and_then(fs::resolve).as_deref() == Some(root) {
            return Ok(Some(directory));
        }
    }
    // One of the unreadable ones may have been it.
    unreadable.map_or(Ok(None), |error| Err(error.into()))
}

/// The administrative directories of all work trees that are linked to a repository.
pub(super) fn linked_git_dirs(common: &Path) -> Result<Vec<PathBuf>, FileError> {
    let all = common.join("worktrees");
    let names = fs::list_if_exists(&all, MAX_LINKED)?;
    Ok(names.into_iter().map(|name| all.join(name)).collect())
}

/// The commit that a ref names; `None` if there is no such ref.
pub(crate) fn resolve_commit(
    call: &GitCommand<'_>,
    name: &str,
) -> Result<Option<String>, GitCommandError> {
    let wanted = format!("{name}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", wanted.as_str()];
    match call.run_line(&arguments)? {
        Some(commit) if is_commit_id(&commit) => Ok(Some(commit)),
        Some(_) => Err(GitCommandError::unexpected_output("rev-parse")),
        None => Ok(None),
    }
}

pub(crate) fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `first` is an ancestor of `second`, or equal to it.
pub(super) fn is_ancestor(
    call: &GitCommand<'_>,
    first: &str,
    second: &str,
) -> Result<bool, GitCommandError> {
    call.run_yes_no(&["merge-base", "--is-ancestor", first, second])
}

pub(super) fn nul_records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|record| !record.is_empty())
}

pub(super) fn display_name(name: &[u8]) -> String {
    text::clean_line(&String::from_utf8_lossy(name), MAX_SHOWN_CHARS)
}

pub(super) fn parse_path_line(line: &[u8]) -> PathBuf {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    PathBuf::from(OsString::from_vec(line.to_vec()))
}

pub(super) fn path_to_string(path: &Path) -> Result<String, WorktreeError> {
    path.to_str().map(str::to_owned).ok_or_else(|| WorktreeError::NotUtf8(path.to_owned()))
}

/// Formats a number of files for a sentence: `3 uncommitted files are`.
pub(super) fn uncommitted_files_are(count: usize) -> String {
    if count == 1 {
        "1 uncommitted file is".to_owned()
    } else {
        format!("{count} uncommitted files are")
    }
}

pub(super) fn describe_blocking_files(names: &[String]) -> String {
    match names {
        [] => "git refused to update your work tree".to_owned(),
        names => format!("your uncommitted changes would be overwritten: {}", join_names(names)),
    }
}
