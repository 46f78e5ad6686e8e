//! The repository that the checkpoints and commits of a run are read from.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::drive::RunWorktree;
use ralph_core::record::RunRecord;
use ralph_sys::fs;

use super::git_command::GitCommandError;
use super::open_worktree::BRANCH_PREFIX;
use crate::commit_content::CommitReader;

/// The repository of a run: the one that contains its project, or the one that its work tree came from, once the work
/// tree is removed. Both have the same commits and refs, but only the first one has the files of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRepository {
    /// A directory of the repository.
    pub directory: PathBuf,
    /// The path of the run's directory in the repository. `None` unless the work tree is removed.
    removed_path: Option<PathBuf>,
}

impl RunRepository {
    /// The repository of the run's project.
    pub fn of_project(run: &RunRecord) -> Self {
        Self::of_directory(run, Path::new(&run.project))
    }

    /// The repository of a directory that the run recorded: its project, or that of its policy.
    pub fn of_directory(run: &RunRecord, directory: &Path) -> Self {
        if let Some(worktree) = run.worktree()
            && let Some((root, below)) = split_checkout(worktree, directory)
            && !fs::exists(&root.join(".git"))
        {
            let directory = PathBuf::from(&worktree.from);
            return Self { directory, removed_path: Some(below) };
        }
        Self { directory: directory.to_owned(), removed_path: None }
    }

    /// Whether the run had a work tree of its own, which is removed: there are no files of the run to read or write.
    pub fn is_work_tree_removed(&self) -> bool {
        self.removed_path.is_some()
    }

    /// The path of the run's directory in the repository with this root, which has no symbolic links.
    pub fn path_below(&self, root: &Path) -> PathBuf {
        let below = || {
            let directory = fs::resolve(&self.directory)?;
            directory.strip_prefix(root).ok().map(Path::to_owned)
        };
        self.removed_path.clone().or_else(below).unwrap_or_default()
    }
}

/// Splits a directory in the checkout of a work tree into the root of the checkout and the path below it.
///
/// `create_worktree` puts the checkout at `<directory>/<run>/<name>`. The place is found in the path itself, because the
/// directory may be gone or may have been reached through another path.
fn split_checkout(worktree: &RunWorktree, directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let run = OsStr::new(worktree.branch.strip_prefix(BRANCH_PREFIX)?);
    let name = checkout_name(Path::new(&worktree.from));
    let parts: Vec<_> = directory.iter().collect();
    let at = parts.windows(2).position(|pair| pair == [run, OsStr::new(name)])?;
    let (root, below) = parts.split_at_checked(at + 2)?;
    Some((root.iter().collect(), below.iter().collect()))
}

/// The name of the checkout of a work tree of the repository at `top`. It is that of the user's directory, because tools
/// display it and some depend on it.
pub(super) fn checkout_name(top: &Path) -> &str {
    let name = top.file_name().and_then(OsStr::to_str).filter(|name| *name != ".git");
    name.unwrap_or("project")
}

/// The newest commit with this tree on the branch that the work of the run belongs to. `directory` is the path of the
/// project in the repository.
pub fn find_landed_commit(
    reader: &CommitReader,
    run: &RunRecord,
    tree: &str,
    directory: &str,
) -> Result<Option<String>, GitCommandError> {
    let target = run.worktree().and_then(|worktree| worktree.into.as_deref());
    let target = target.map(|branch| format!("refs/heads/{branch}"));
    for from in target.iter().map(String::as_str).chain(["HEAD"]) {
        if let Some(found) = reader.find_commit_with_tree(from, tree, directory)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::drive::{DriveSettings, LandingMode};
    use ralph_core::id::RunId;

    /// The run of a fork is another one than that of the work tree, and both can be named like a directory above it.
    #[test]
    fn a_removed_work_tree_is_replaced_by_its_repository() {
        let removed = |from: &str, project: &str| {
            let mut run = RunRecord::new(RunId::parse("f0rk").unwrap(), project.to_owned(), 0);
            let worktree = RunWorktree {
                path: project.to_owned(),
                branch: "ralph/k7f2".to_owned(),
                from: from.to_owned(),
                into: None,
                base: String::new(),
                then: LandingMode::Merge,
                checks_ms: None,
                draft: false,
            };
            let drive = DriveSettings { worktree: Some(worktree), ..DriveSettings::DEFAULT };
            run.drive = Some(Box::new(drive));
            let place = RunRepository::of_project(&run);
            let below = place.path_below(Path::new(from));
            let is_removed = if place.is_work_tree_removed() { "" } else { " (not removed)" };
            format!("{} at {}{is_removed}\n", below.display(), place.directory.display())
        };
        let mut places = String::new();
        for (from, project) in [
            ("/no/shop", "/no/ralph-worktrees/k7f2/shop"),
            ("/no/shop", "/no/ralph-worktrees/k7f2/shop/web/api"),
            ("/no/shop", "/home/k7f2/ralph-worktrees/k7f2/shop/k7f2/shop"),
            ("/no/shop/.git", "/no/ralph-worktrees/k7f2/project"),
            ("/no/shop", "/no/elsewhere"),
        ] {
            places.push_str(&removed(from, project));
        }
        insta::assert_snapshot!(places, @"
         at /no/shop
        web/api at /no/shop
        k7f2/shop at /no/shop
         at /no/shop/.git
         at /no/elsewhere (not removed)
        ");
    }
}
