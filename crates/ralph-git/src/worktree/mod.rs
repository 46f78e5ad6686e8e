//! A separate work tree and branch for a run, and landing its work in the branch it started from.
//!
//! The user's files, index, `HEAD`, stash and branches do not change until verified work is landed. Then git
//! fast-forwards the user's branch, and refuses to overwrite uncommitted changes.

mod create_worktree;
pub mod git_command;
mod landing;
mod open_worktree;
mod run_repository;
mod target_branch;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::git::{self, GitState};
use ralph_core::drive::RunWorktree;
use ralph_core::gate::shell_quote;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, LockError};

pub use create_worktree::{CreatedWorktree, create_worktree};
pub use git_command::GitCommandError;
pub use landing::{
    CommitResult, LandingResult, MergeResult, RemovalResult, branch_tip, commit_work, has_landed,
    land_commit, merge_target, remove_worktree, rewrite_files,
};
pub use run_repository::{RunRepository, find_landed_commit};
pub use target_branch::{find_merged_target, has_target_moved};

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("`{}` is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("`{}` is a bare repository, which has no files to work on", .0.display())]
    Bare(PathBuf),
    #[error("the repository of `{}` has no commit yet", .0.display())]
    NoCommit(PathBuf),
    #[error("the path `{}` is not valid UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("work tree `{}` already exists", .0.display())]
    TreeExists(PathBuf),
    #[error("branch `{0}` already exists")]
    BranchExists(String),
    #[error("cannot create branch `{branch}` because there is a branch `ralph`")]
    BranchBlocked { branch: String },
    #[error("`{}` is no longer the run's work tree", .0.display())]
    NotRunWorktree(PathBuf),
    #[error("the work tree is on {on}, which does not contain the commits of `{branch}`")]
    OtherHistory { on: String, branch: String },
    #[error("the work tree has unresolved conflicts: {}", join_names(.0))]
    Unmerged(Vec<String>),
    #[error("the work tree contains repositories, whose files would not be committed: {}", join_names(.0))]
    NestedRepositories(Vec<String>),
    #[error("the work tree has uncommitted changes: {}", join_names(.0))]
    Dirty(Vec<String>),
    #[error("`HEAD` was detached when the run started, so there is no branch to merge into")]
    NoTargetBranch,
    #[error("branch `{0}` no longer exists")]
    TargetBranchMissing(String),
    /// A fast-forward would bring back commits that the user removed from the branch.
    #[error("branch `{0}` no longer contains the commit that the run started from")]
    TargetBranchRewritten(String),
    #[error(transparent)]
    Git(#[from] GitCommandError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl WorktreeError {
    /// A hint for the user, if there is something to do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotARepository(_) => {
                "run it in a git repository, or without `--worktree`".to_owned()
            }
            Self::Bare(_) => "run it in a work tree: `git worktree add ../work`".to_owned(),
            Self::NoCommit(_) => {
                "create a first commit: `git commit --allow-empty --message start`".to_owned()
            }
            Self::BranchExists(name) => format!(
                "`git log {name}` shows its commits, `git branch -d {name}` deletes it if it is merged"
            ),
            Self::TreeExists(path) => {
                format!("`git worktree remove {}` removes it", path.display())
            }
            Self::BranchBlocked { .. } => {
                "rename it: `git branch -m ralph another-name`".to_owned()
            }
            Self::OtherHistory { branch, .. } => {
                format!("compare the two, then move `{branch}` to the commit with the work")
            }
            Self::Unmerged(_) => {
                "resolve them in the work tree, or run `git merge --abort` there".to_owned()
            }
            Self::NestedRepositories(_) => {
                "remove their `.git`, or add them with `git submodule add`".to_owned()
            }
            Self::TargetBranchRewritten(into) => {
                format!("rebase the run's branch onto `{into}` manually")
            }
            Self::NoTargetBranch => "merge the run's branch manually".to_owned(),
            Self::Git(GitCommandError::Missing) => "install git".to_owned(),
            Self::NotUtf8(_)
            | Self::NotRunWorktree(_)
            | Self::Dirty(_)
            | Self::TargetBranchMissing(_)
            | Self::Git(_)
            | Self::File(_)
            | Self::Lock(_) => return None,
        })
    }
}

/// Work that was kept instead of landed, described for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWorktree {
    pub path: String,
    pub branch: String,
    /// Commands to inspect, compare and merge it, ready to paste.
    pub commands: Vec<String>,
}

pub fn describe_kept(worktree: &RunWorktree) -> KeptWorktree {
    let RunWorktree { path, branch, from, base, .. } = worktree;
    let since = shell_quote(&format!("{base}..{branch}"));
    let changes = shell_quote(&format!("{base}...{branch}"));
    let commands = vec![
        format!("{} log --oneline {since}", git_command_in(from)),
        format!("{} diff {changes}", git_command_in(from)),
        format!("{} status", git_command_in(path)),
        format!("{} merge {}", git_command_in(from), shell_quote(branch)),
    ];
    KeptWorktree { path: path.clone(), branch: branch.clone(), commands }
}

/// Describes where work is that did not land, and the commands to inspect and merge it. `changed` is the number of
/// uncommitted paths there, if known.
pub fn describe_unmerged(worktree: &RunWorktree, changed: Option<usize>) -> String {
    let RunWorktree { path, branch, from, base, .. } = worktree;
    let (there, here) = (git_command_in(path), git_command_in(from));
    let base = shell_quote(&text::short_id(base));
    let merge = format!("`{here} merge {}`", shell_quote(branch));
    let look = format!("`{there} diff {base}`");
    let how = match changed {
        Some(0) => format!("{look} shows it, {merge} merges it"),
        Some(changed) => {
            let paths = if changed == 1 { "1 path" } else { &format!("{changed} paths") };
            format!(
                "{paths} not committed there: {look} and `{there} status` show it; commit it, then {merge}"
            )
        }
        None => format!("{look} and `{there} status` show it, {merge} merges what is committed"),
    };
    format!("not merged: branch `{branch}`, work tree `{path}`; {how}")
}

/// Like [`describe_unmerged`], with the uncommitted paths that the work tree has now.
pub fn locate_unmerged(worktree: &RunWorktree, deadline: &Deadline) -> String {
    let changed = match git::repository_status(Path::new(&worktree.path), &[], deadline) {
        GitState::Known(work) => Some(work.changed_count),
        GitState::NotARepository | GitState::Unavailable(_) => None,
    };
    describe_unmerged(worktree, changed)
}

/// As [`has_landed`], but false for a branch without commits of its own: work that was never committed has not landed.
pub fn has_landed_commits(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<bool, WorktreeError> {
    let is_there = fs::stat_no_follow(Path::new(&worktree.path)).is_some();
    let is_untouched = is_there && branch_tip(home, worktree, deadline)? == worktree.base;
    Ok(!is_untouched && has_landed(home, worktree, deadline)?)
}

/// The command that starts resolving a conflict in the run's work tree.
pub fn conflict_command(worktree: &RunWorktree) -> String {
    let into = worktree.into.as_deref().unwrap_or("HEAD");
    format!("{} merge {}", git_command_in(&worktree.path), shell_quote(into))
}

/// The start of a git command that works from any directory.
pub fn git_command_in(directory: &str) -> String {
    format!("git -C {}", shell_quote(directory))
}

const MAX_NAMES: usize = 5;

/// Formats names as `` `a`, `b` and 7 more ``.
pub(crate) fn join_names(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let list = shown.join(", ");
    if more == 0 { list } else { format!("{list} and {more} more") }
}
