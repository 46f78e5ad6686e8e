//! Commits the agent's work, merges changes made to the target branch meanwhile, lands the result in the target branch,
//! and removes the work tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::drive::RunWorktree;
use ralph_core::text;

use super::git_command::{GitCommand, GitLocation, GitOutput};
use super::open_worktree::{
    OpenWorktree, describe_blocking_files, display_name, is_ancestor, is_commit_id,
    linked_git_dirs, nul_records, parse_path_line, resolve_commit,
};
use super::{WorktreeError, join_names};
use crate::git;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// Timeout for operations that must not be interrupted half way, even if the caller's deadline has passed.
pub(super) const UNINTERRUPTED_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_MESSAGE_CHARS: usize = 20_000;
/// The committer if git has no identity configured.
const FALLBACK_IDENTITY: [(&str, &str); 2] =
    [("user.name", "ralph"), ("user.email", "ralph@localhost")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitResult {
    Created {
        commit: String,
    },
    /// There was nothing left to commit.
    NothingToCommit {
        commit: String,
    },
}

impl CommitResult {
    /// The last commit of the branch.
    pub fn commit(&self) -> &str {
        match self {
            Self::Created { commit } | Self::NothingToCommit { commit } => commit,
        }
    }
}

/// Relation of the run's branch to the target branch after [`merge_target`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The target already has all commits of the run's branch.
    UpToDate { commit: String },
    /// The target did not move: the verified commit is the one that would land.
    FastForward { commit: String },
    /// The target moved and was merged into the run's branch, in its work tree. This commit is not verified yet.
    Clean { commit: String },
    /// Both changed the same lines. The branch and the work tree are as before the merge.
    Conflict { files: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingResult {
    Landed {
        commit: String,
    },
    /// The target has commits that were not verified together with the work. Merge, verify and land again.
    TargetMoved {
        target: String,
    },
    /// The branch and the work tree are kept.
    Refused {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalResult {
    Removed,
    /// The work tree is removed, but git refused to delete the branch.
    BranchKept,
    Kept {
        why: String,
    },
}

/// The last commit of the run's branch.
pub fn branch_tip(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<String, WorktreeError> {
    OpenWorktree::open(home, worktree, deadline)?.tip(deadline)
}

/// Commits everything in the work tree that is not ignored to the run's branch.
pub fn commit_work(
    home: &RalphHome,
    worktree: &RunWorktree,
    message: &str,
    deadline: &Deadline,
) -> Result<CommitResult, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let call = site.run_git(deadline);
    return_to_branch(&site, deadline)?;
    let unmerged = site.unmerged_paths(deadline)?;
    if !unmerged.is_empty() {
        return Err(WorktreeError::Unmerged(unmerged));
    }
    call.run_checked(&["add", "--all"])?;
    refuse_nested(&site, &call)?;
    let is_same = call.run_yes_no(&[
        "diff",
        "--cached",
        "--quiet",
        "--no-ext-diff",
        "--ignore-submodules=none",
    ])?;
    if is_same && resolve_commit(&call, "MERGE_HEAD")?.is_none() {
        return Ok(CommitResult::NothingToCommit { commit: site.tip(deadline)? });
    }
    let message = format!("--message={}", text::truncate(&text::clean(message), MAX_MESSAGE_CHARS));
    let identity = missing_identity(&call)?;
    let mut arguments: Vec<&str> = identity.iter().flat_map(|one| ["-c", one]).collect();
    arguments.extend([
        "commit",
        "--quiet",
        "--no-verify",
        "--cleanup=whitespace",
        "--allow-empty-message",
    ]);
    arguments.push(&message);
    call.run_checked(&arguments)?;
    Ok(CommitResult::Created { commit: site.tip(deadline)? })
}

/// Moves the run's branch to the commit that the agent has checked out on another branch, if that loses no commits.
/// Files and index do not change.
fn return_to_branch(site: &OpenWorktree<'_>, deadline: &Deadline) -> Result<(), WorktreeError> {
    let call = site.run_git(deadline);
    let on = call.run_line(&["symbolic-ref", "--quiet", "HEAD"])?;
    let ours = site.branch_ref();
    if on.as_ref() == Some(&ours) {
        return Ok(());
    }
    let strayed = || WorktreeError::OtherHistory {
        on: on.clone().map_or_else(
            || "a detached `HEAD`".to_owned(),
            |name| {
                let name = name.strip_prefix("refs/heads/").unwrap_or(&name);
                format!("branch `{}`", display_name(name.as_bytes()))
            },
        ),
        branch: site.worktree.branch.clone(),
    };
    let here = resolve_commit(&call, "HEAD")?.ok_or_else(strayed)?;
    let tip = site.tip(deadline)?;
    if !is_ancestor(&call, &tip, &here)? {
        return Err(strayed());
    }
    call.run_checked(&[
        "update-ref",
        "--no-deref",
        "-m",
        "ralph: the agent's work",
        &ours,
        &here,
        &tip,
    ])?;
    call.run_checked(&["symbolic-ref", "HEAD", &ours])?;
    Ok(())
}

/// Fails if a nested repository would be committed: git would record only its commit id. With a `.gitmodules` file,
/// nested repositories are intended.
fn refuse_nested(site: &OpenWorktree<'_>, call: &GitCommand<'_>) -> Result<(), WorktreeError> {
    if fs::exists(&site.root.join(".gitmodules")) {
        return Ok(());
    }
    let arguments =
        ["diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=A"];
    let output = call.run_checked(&arguments)?;
    let mut fields = nul_records(&output);
    let mut nested = Vec::new();
    while let (Some(modes), Some(name)) = (fields.next(), fields.next()) {
        if modes.starts_with(b":000000 160000 ") {
            nested.push(name.to_vec());
        }
    }
    if nested.is_empty() {
        return Ok(());
    }
    for name in &nested {
        use std::os::unix::ffi::OsStrExt;
        let words = ["update-index", "--force-remove", "--"].map(OsStr::new);
        call.run_checked(&[&words[..], &[OsStr::from_bytes(name)]].concat())?;
    }
    Err(WorktreeError::NestedRepositories(nested.iter().map(|name| display_name(name)).collect()))
}

/// Settings for an identity that git's configuration lacks.
fn missing_identity(call: &GitCommand<'_>) -> Result<Vec<String>, WorktreeError> {
    let mut settings = Vec::new();
    for (name, value) in FALLBACK_IDENTITY {
        if call.run_line(&["config", "--get", name])?.is_none() {
            settings.push(format!("{name}={value}"));
        }
    }
    Ok(settings)
}

/// Writes every file as a fresh checkout of the commit would, including modes, line endings and changes that git was
/// configured to ignore. The files that are then judged are the ones that land.
pub fn rewrite_files(
    home: &RalphHome,
    worktree: &RunWorktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<(), WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    if let GitLocation::RunWorktree { git_dir, .. } = &site.run_location {
        // A new index has no metadata that would make git consider a file unchanged.
        fs::remove_file(&git_dir.join("index"))?;
    }
    let call = site.run_git(deadline);
    call.run_checked(&["read-tree", commit])?;
    call.run_checked(&["checkout-index", "--all", "--force", "--quiet"])?;
    // Fails if some path is not a checkout of git's, such as a submodule; that does not matter here.
    call.run(&["update-index", "-q", "--refresh"])?;
    Ok(())
}

/// Merges the target branch into the run's branch, in the run's work tree.
pub fn merge_target(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<MergeResult, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let call = site.run_git(deadline);
    return_to_branch(&site, deadline)?;
    let (target, tip) = (site.target_tip(deadline)?, site.tip(deadline)?);
    if is_ancestor(&call, &tip, &target)? {
        return Ok(MergeResult::UpToDate { commit: target });
    }
    if !is_ancestor(&call, &worktree.base, &target)? {
        return Err(WorktreeError::TargetBranchRewritten(
            worktree.into.clone().unwrap_or_default(),
        ));
    }
    if is_ancestor(&call, &target, &tip)? {
        return Ok(MergeResult::FastForward { commit: tip });
    }
    let changes = site.uncommitted_paths(deadline)?;
    if !changes.is_empty() {
        return Err(WorktreeError::Dirty(changes));
    }
    let into = worktree.into.as_deref().unwrap_or_default();
    let message = format!("-mMerge branch '{into}' into {}", worktree.branch);
    let identity = missing_identity(&call)?;
    let mut arguments: Vec<&str> = identity.iter().flat_map(|one| ["-c", one]).collect();
    arguments.extend(["merge", "--quiet", "--no-edit", "--no-verify", "--commit", "--no-squash"]);
    arguments.extend(["--no-ff", "--no-autostash", "--no-stat", "--no-verify-signatures"]);
    arguments.extend([message.as_str(), &target]);
    let output = call.run(&arguments);
    if let Ok(GitOutput { code: 0, .. }) = output {
        return Ok(MergeResult::Clean { commit: site.tip(deadline)? });
    }
    let patience = Deadline::after(UNINTERRUPTED_TIMEOUT);
    let files = site.unmerged_paths(&patience)?;
    let call = site.run_git(&patience);
    if resolve_commit(&call, "MERGE_HEAD")?.is_some() {
        call.run_checked(&["merge", "--abort"])?;
    }
    match output {
        Ok(_) if !files.is_empty() => Ok(MergeResult::Conflict { files }),
        Ok(output) => {
            let why = format!("exited with {} in `{}`", output.code, site.root.display());
            Err(super::GitCommandError::Failed { what: "merge".to_owned(), why }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves the target branch forward to exactly this commit, which was verified.
pub fn land_commit(
    home: &RalphHome,
    worktree: &RunWorktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<LandingResult, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let call = site.source_git(deadline);
    let (target, tip) = (site.target_tip(deadline)?, site.tip(deadline)?);
    if !is_commit_id(commit) || !is_ancestor(&call, commit, &tip)? {
        let why = format!("`{}` is not on `{}`", display_name(commit.as_bytes()), worktree.branch);
        return Ok(LandingResult::Refused { why });
    }
    if tip != commit {
        let why = format!("`{}` has commits that were not verified", worktree.branch);
        return Ok(LandingResult::Refused { why });
    }
    if is_ancestor(&call, commit, &target)? {
        return Ok(LandingResult::Landed { commit: target });
    }
    if !is_ancestor(&call, &worktree.base, &target)? {
        let into = worktree.into.clone().unwrap_or_default();
        return Ok(LandingResult::Refused {
            why: WorktreeError::TargetBranchRewritten(into).to_string(),
        });
    }
    if !is_ancestor(&call, &target, commit)? {
        return Ok(LandingResult::TargetMoved { target });
    }
    let name = site.target_ref()?;
    // An interrupted checkout would leave the user's files half updated.
    let patience = Deadline::after(UNINTERRUPTED_TIMEOUT);
    let refused = match find_checkout(&call, &name)? {
        Some(tree) => fast_forward(&GitLocation::UserRepository(tree), &target, commit, &patience)?,
        None => move_unchecked_branch(&site, &target, commit, &patience)?,
    };
    let now = site.target_tip(&patience)?;
    Ok(match refused {
        None if now == commit => LandingResult::Landed { commit: now },
        _ if now != target => LandingResult::TargetMoved { target: now },
        Some(why) => LandingResult::Refused { why },
        None => LandingResult::Refused { why: "git did not move the branch".to_owned() },
    })
}

/// The user's work tree in which the branch is checked out.
fn find_checkout(call: &GitCommand<'_>, name: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let output = call.run_checked(&["worktree", "list", "--porcelain", "-z"])?;
    let wanted = [b"branch ", name.as_bytes()].concat();
    let mut tree = None;
    for field in nul_records(&output) {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            tree = Some(parse_path_line(path));
        } else if field == wanted {
            return Ok(tree);
        }
    }
    Ok(None)
}

/// Fast-forwards a branch together with the user's work tree that has it checked out. Returns the reason if git
/// refused.
fn fast_forward(
    at: &GitLocation,
    from: &str,
    to: &str,
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let call = GitCommand::new(at, deadline);
    let arguments = [
        "merge",
        "--ff-only",
        "--quiet",
        "--no-stat",
        "--no-autostash",
        // By default, git overwrites ignored files.
        "--no-overwrite-ignore",
        "--no-verify-signatures",
        to,
    ];
    let undo = resolve_commit(&call, "ORIG_HEAD")?;
    if call.run(&arguments)?.code == 0 {
        return Ok(None);
    }
    // Git sets `ORIG_HEAD` even if it then refuses the merge. Restore it.
    match &undo {
        Some(undo) => call.run(&["update-ref", "--no-deref", "ORIG_HEAD", undo])?,
        None => call.run(&["update-ref", "--no-deref", "-d", "ORIG_HEAD"])?,
    };
    let brought = call.run_checked(&["diff", "--name-only", "--no-renames", "-z", from, to])?;
    let brought: BTreeSet<&[u8]> = nul_records(&brought).collect();
    let mut theirs: Vec<String> = Vec::new();
    if let Ok(changed) = git::changed_paths(at.root(), deadline) {
        theirs.extend(
            changed
                .iter()
                .filter(|path| brought.contains(path.as_bytes()))
                .map(|path| display_name(path.as_bytes())),
        );
    }
    let ignored =
        call.run_checked(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard"])?;
    theirs.extend(nul_records(&ignored).filter(|path| brought.contains(path)).map(display_name));
    Ok(Some(describe_blocking_files(&theirs)))
}

/// Moves a branch that is not checked out anywhere, if it is still at `from`. Returns the reason otherwise.
fn move_unchecked_branch(
    site: &OpenWorktree<'_>,
    from: &str,
    to: &str,
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let call = site.source_git(deadline);
    let name = site.target_ref()?;
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    if let Some(busy) = find_rebase_or_bisect(&parse_path_line(&call.run_checked(&common)?), &name)?
    {
        return Ok(Some(format!("it is being rebased or bisected in `{}`", busy.display())));
    }
    let words = ["update-ref", "--no-deref", "-m", "ralph: verified work"];
    let output = call.run(&[&words[..], &[&name, to, from]].concat())?;
    Ok((output.code != 0).then(|| "git refused to move the branch".to_owned()))
}

/// The git directory in which the branch is being rebased or bisected. It is not checked out then, but must not move.
fn find_rebase_or_bisect(common: &Path, name: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let short = name.strip_prefix("refs/heads/").unwrap_or(name);
    for directory in std::iter::once(common.to_owned()).chain(linked_git_dirs(common)?) {
        for (file, word) in [
            ("rebase-merge/head-name", name),
            ("rebase-apply/head-name", name),
            ("BISECT_START", short),
        ] {
            let line = fs::read_if_exists(&directory.join(file), 64 * 1024)?;
            if line.is_some_and(|line| {
                parse_path_line(&line).as_os_str().as_bytes() == word.as_bytes()
            }) {
                return Ok(Some(directory));
            }
        }
    }
    Ok(None)
}

/// Whether every commit of the run is in the target branch. If work tree and branch are gone, the work has landed,
/// because git deletes only merged branches.
pub fn has_landed(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<bool, WorktreeError> {
    let theirs = GitLocation::UserRepository(PathBuf::from(&worktree.from));
    let call = GitCommand::new(&theirs, deadline);
    let tip = resolve_commit(&call, &format!("refs/heads/{}", worktree.branch))?;
    if fs::stat_no_follow(Path::new(&worktree.path)).is_none() {
        let Some(tip) = tip else { return Ok(true) };
        let into = worktree.into.as_ref().ok_or(WorktreeError::NoTargetBranch)?;
        let target = resolve_commit(&call, &format!("refs/heads/{into}"))?;
        return match target {
            Some(target) => Ok(is_ancestor(&call, &tip, &target)?),
            None => Err(WorktreeError::TargetBranchMissing(into.clone())),
        };
    }
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let (target, tip) = (site.target_tip(deadline)?, site.tip(deadline)?);
    let here = resolve_commit(&site.run_git(deadline), "HEAD")?;
    // Uncommitted files that gates left behind are not work.
    Ok(here.as_ref() == Some(&tip) && is_ancestor(&call, &tip, &target)?)
}

/// Removes the work tree and the branch of landed work.
pub fn remove_worktree(
    home: &RalphHome,
    worktree: &RunWorktree,
    deadline: &Deadline,
) -> Result<RemovalResult, WorktreeError> {
    let site = OpenWorktree::open(home, worktree, deadline)?;
    let (target, tip) = (site.target_tip(deadline)?, site.tip(deadline)?);
    let call = site.source_git(deadline);
    let kept = |why: &str| Ok(RemovalResult::Kept { why: why.to_owned() });
    if !is_ancestor(&call, &tip, &target)? {
        return kept("its branch has commits that have not landed");
    }
    let here = resolve_commit(&site.run_git(deadline), "HEAD")?;
    if here.as_ref() != Some(&tip) {
        return kept("it is not on the run's branch");
    }
    let changes = site.uncommitted_paths(deadline)?;
    if !changes.is_empty() {
        return kept(&format!("it has uncommitted changes: {}", join_names(&changes)));
    }
    let words = ["worktree", "remove"].map(OsStr::new);
    if call.run(&[&words[..], &[site.root.as_os_str()]].concat())?.code != 0 {
        return kept("git refused to remove it");
    }
    if let Some(parent) = site.root.parent() {
        fs::remove_empty_dir(parent)?;
    }
    // `-d` makes git check once more that the branch is merged.
    let output = call.run(&["branch", "--quiet", "-d", &worktree.branch])?;
    Ok(if output.code == 0 { RemovalResult::Removed } else { RemovalResult::BranchKept })
}
