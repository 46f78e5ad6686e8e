//! How far the target branch has moved since a run's work tree was created, and how much of it the work contains.

use ralph_core::drive::RunWorktree;

use super::WorktreeError;
use super::open_worktree::{OpenWorktree, is_commit_id};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;

/// Whether the target branch has moved since the work began.
pub fn has_target_moved(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<bool, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    Ok(site.target_tip(deadline)? != worktree.base)
}

/// The last commit of the target branch that the work contains. `None` if the histories have nothing in common.
pub fn find_merged_target(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let (target, tip) = (site.target_tip(deadline)?, site.tip(deadline)?);
    let commit = site.source_git(deadline).run_line(&["merge-base", &target, &tip])?;
    Ok(commit.filter(|commit| is_commit_id(commit)))
}
