//! Creates a run's work tree and branch without touching the user's own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::drive::{LandingMode, RunWorktree};
use ralph_core::id::RunId;

use super::WorktreeError;
use super::git_command::{GitCommand, GitCommandError, GitLocation};
use super::open_worktree::{BRANCH_PREFIX, path_to_string, resolve_commit, uncommitted_files_are};
use super::run_repository::checkout_name;
use crate::git::{self, GitState};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorktree {
    pub worktree: RunWorktree,
    /// Differences from the user's work tree that the user may not expect.
    pub notes: Vec<String>,
}

/// Creates a work tree beside ralph's home, on a new branch that starts at the project's current commit.
pub fn create_worktree(
    home: &RalphHome,
    project: &Path,
    run: &RunId,
    deadline: &Deadline,
) -> Result<CreatedWorktree, WorktreeError> {
    let found = fs::resolve(project);
    let project = found.ok_or_else(|| WorktreeError::NotARepository(project.to_owned()))?;
    let Some(top) = git::work_tree_root(&project) else {
        return Err(missing_repository_error(&project, deadline));
    };
    let theirs = GitLocation::UserRepository(top.to_owned());
    let call = GitCommand::new(&theirs, deadline);
    let base = resolve_commit(&call, "HEAD")?;
    let base = base.ok_or_else(|| WorktreeError::NoCommit(top.to_owned()))?;
    let into = call.run_line(&["symbolic-ref", "--quiet", "HEAD"])?;
    let into = into.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
    let place = worktree_path(home, run, top)?;
    // Joining an empty path would append a slash.
    let below = project.strip_prefix(top).ok().filter(|below| !below.as_os_str().is_empty());
    let path = below.map_or_else(|| place.clone(), |below| place.join(below));
    let branch = format!("{BRANCH_PREFIX}{run}");
    let worktree = RunWorktree {
        path: path_to_string(&path)?,
        branch,
        from: path_to_string(top)?,
        into,
        base,
        then: LandingMode::Merge,
        checks_ms: None,
        draft: false,
    };
    refuse_existing(&call, &worktree.branch, &place)?;
    {
        // `git worktree add` reads the records of all work trees, and fails while another one is half written.
        let path = home.worktree_lock(top);
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        let _alone = fs::acquire_lock(&path, deadline)?;
        add_worktree(&call, &worktree, &place)?;
    }
    // The project may be a directory that is not in any commit yet.
    fs::create_user_dir(Path::new(&worktree.path))?;
    let notes = creation_notes(&project, &worktree, deadline);
    Ok(CreatedWorktree { worktree, notes })
}

fn missing_repository_error(project: &Path, deadline: &Deadline) -> WorktreeError {
    let at = GitLocation::UserRepository(project.to_owned());
    match GitCommand::new(&at, deadline).run(&["rev-parse", "--is-bare-repository"]) {
        Ok(output) if output.code == 0 && output.stdout.starts_with(b"true") => {
            WorktreeError::Bare(project.to_owned())
        }
        Err(error @ (GitCommandError::Missing | GitCommandError::TimedOut { .. })) => error.into(),
        Ok(_) | Err(GitCommandError::Failed { .. } | GitCommandError::WrongContent { .. }) => {
            WorktreeError::NotARepository(project.to_owned())
        }
    }
}

fn worktree_path(home: &RalphHome, run: &RunId, top: &Path) -> Result<PathBuf, WorktreeError> {
    let directory = home.worktree(run);
    fs::create_private_dir(&directory)?;
    // Git records the location without symbolic links.
    let directory = fs::resolve(&directory).unwrap_or(directory);
    Ok(directory.join(checkout_name(top)))
}

fn refuse_existing(call: &GitCommand<'_>, branch: &str, place: &Path) -> Result<(), WorktreeError> {
    if fs::stat_no_follow(place).is_some() {
        return Err(WorktreeError::TreeExists(place.to_owned()));
    }
    if resolve_commit(call, &format!("refs/heads/{branch}"))?.is_some() {
        return Err(WorktreeError::BranchExists(branch.to_owned()));
    }
    // Refs are files, and a file `ralph` cannot be a directory for `ralph/<run>`.
    if resolve_commit(call, "refs/heads/ralph")?.is_some() {
        return Err(WorktreeError::BranchBlocked { branch: branch.to_owned() });
    }
    Ok(())
}

fn add_worktree(
    call: &GitCommand<'_>,
    worktree: &RunWorktree,
    place: &Path,
) -> Result<(), WorktreeError> {
    let options = ["worktree", "add", "--quiet", "--no-track", "--no-guess-remote", "-b"];
    let mut arguments: Vec<&OsStr> = options.map(OsStr::new).to_vec();
    arguments.extend([OsStr::new(&worktree.branch), place.as_os_str(), OsStr::new(&worktree.base)]);
    let Err(error) = call.run_checked(&arguments) else { return Ok(()) };
    // A partial checkout has no work in it. The branch is deleted only if it is still at the base.
    let patience = Deadline::after(super::landing::UNINTERRUPTED_TIMEOUT);
    let call = GitCommand::new(call.location, &patience);
    let remove = ["worktree", "remove", "--force"].map(OsStr::new);
    call.run(&[&remove[..], &[place.as_os_str()]].concat())?;
    let name = format!("refs/heads/{}", worktree.branch);
    call.run(&["update-ref", "--no-deref", "-d", &name, &worktree.base])?;
    if let Some(parent) = place.parent() {
        fs::remove_empty_dir(parent)?;
    }
    Err(error.into())
}

fn creation_notes(project: &Path, worktree: &RunWorktree, deadline: &Deadline) -> Vec<String> {
    let mut notes = Vec::new();
    match git::repository_status(project, &[], deadline) {
        GitState::Known(work) if work.changed_count > 0 => {
            notes.push(format!(
                "{} not in the work tree",
                uncommitted_files_are(work.changed_count)
            ));
        }
        GitState::Unavailable(why) => {
            notes.push(format!(
                "could not check whether you have uncommitted changes, which are not in the work tree: {why}"
            ));
        }
        GitState::Known(_) | GitState::NotARepository => {}
    }
    if git::work_tree_root(Path::new(&worktree.path))
        .is_some_and(|root| fs::exists(&root.join(".gitmodules")))
    {
        let command = "git submodule update --init --recursive";
        notes.push(format!("submodules are empty in the work tree; run `{command}` there"));
    }
    if worktree.into.is_none() {
        let branch = &worktree.branch;
        notes.push(format!("`HEAD` is detached; the work stays on `{branch}`"));
    }
    notes
}
