//! Commits the agent's work, merges changes made to the target branch meanwhile, lands the result in the target branch,
//! and removes the work tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::drive::Worktree;
use ralph_core::text;

use super::door::{At, Call, Said};
use super::site::{
    Site, bytes_of, commit_of, in_the_way, is_commit, is_part, path_of, records, shown,
};
use super::{WorktreeError, listed};
use crate::git;
use ralph_home::paths::Home;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

/// Timeout for operations that must not be interrupted half way, even if the caller's deadline has passed.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);
const LONGEST_MESSAGE: usize = 20_000;
/// The committer if git has no identity configured.
const NOBODY: [(&str, &str); 2] = [("user.name", "ralph"), ("user.email", "ralph@localhost")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Made {
        commit: String,
    },
    /// There was nothing left to commit.
    Nothing {
        commit: String,
    },
}

impl Committed {
    /// The last commit of the branch.
    pub fn commit(&self) -> &str {
        match self {
            Self::Made { commit } | Self::Nothing { commit } => commit,
        }
    }
}

/// Relation of the run's branch to the target branch after [`merge_target`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
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
pub enum Landed {
    Landed {
        commit: String,
    },
    /// The target has commits that were not verified together with the work. Merge, verify and land again.
    Moved {
        target: String,
    },
    /// The branch and the work tree are kept.
    Refused {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    /// The work tree is removed, but git refused to delete the branch.
    BranchKept,
    Kept {
        why: String,
    },
}

/// The last commit of the run's branch.
pub fn head(
    home: &Home,
    worktree: &Worktree,
    deadline: &Deadline,
) -> Result<String, WorktreeError> {
    Site::open(home, worktree, deadline)?.tip(deadline)
}

/// Commits everything in the work tree that is not ignored to the run's branch.
pub fn commit(
    home: &Home,
    worktree: &Worktree,
    message: &str,
    deadline: &Deadline,
) -> Result<Committed, WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    let call = site.ours(deadline);
    return_to_branch(&site, deadline)?;
    let unmerged = site.unmerged(deadline)?;
    if !unmerged.is_empty() {
        return Err(WorktreeError::Unmerged(unmerged));
    }
    call.git(&["add", "--all"])?;
    refuse_nested(&site, &call)?;
    let is_same =
        call.is(&["diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none"])?;
    if is_same && commit_of(&call, "MERGE_HEAD")?.is_none() {
        return Ok(Committed::Nothing { commit: site.tip(deadline)? });
    }
    let message = format!("--message={}", text::cut(&text::clean(message), LONGEST_MESSAGE));
    let identity = identity(&call)?;
    let mut arguments: Vec<&str> = identity.iter().flat_map(|one| ["-c", one]).collect();
    arguments.extend([
        "commit",
        "--quiet",
        "--no-verify",
        "--cleanup=whitespace",
        "--allow-empty-message",
    ]);
    arguments.push(&message);
    call.git(&arguments)?;
    Ok(Committed::Made { commit: site.tip(deadline)? })
}

/// Moves the run's branch to the commit that the agent has checked out on another branch, if that loses no commits.
/// Files and index do not change.
fn return_to_branch(site: &Site<'_>, deadline: &Deadline) -> Result<(), WorktreeError> {
    let call = site.ours(deadline);
    let on = call.line_opt(&["symbolic-ref", "--quiet", "HEAD"])?;
    let ours = site.branch_ref();
    if on.as_ref() == Some(&ours) {
        return Ok(());
    }
    let strayed = || WorktreeError::Strayed {
        on: on.clone().map_or_else(
            || "a detached `HEAD`".to_owned(),
            |name| {
                let name = name.strip_prefix("refs/heads/").unwrap_or(&name);
                format!("branch `{}`", shown(name.as_bytes()))
            },
        ),
        branch: site.worktree.branch.clone(),
    };
    let here = commit_of(&call, "HEAD")?.ok_or_else(strayed)?;
    let tip = site.tip(deadline)?;
    if !is_part(&call, &tip, &here)? {
        return Err(strayed());
    }
    call.git(&["update-ref", "--no-deref", "-m", "ralph: the agent's work", &ours, &here, &tip])?;
    call.git(&["symbolic-ref", "HEAD", &ours])?;
    Ok(())
}

/// Fails if a nested repository would be committed: git would record only its commit id. With a `.gitmodules` file,
/// nested repositories are intended.
fn refuse_nested(site: &Site<'_>, call: &Call<'_>) -> Result<(), WorktreeError> {
    if fs::exists(&site.root.join(".gitmodules")) {
        return Ok(());
    }
    let arguments =
        ["diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=A"];
    let output = call.git(&arguments)?;
    let mut fields = records(&output);
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
        call.git(&[&words[..], &[OsStr::from_bytes(name)]].concat())?;
    }
    Err(WorktreeError::Nested(nested.iter().map(|name| shown(name)).collect()))
}

/// Settings for an identity that git's configuration lacks.
fn identity(call: &Call<'_>) -> Result<Vec<String>, WorktreeError> {
    let mut settings = Vec::new();
    for (name, value) in NOBODY {
        if call.line_opt(&["config", "--get", name])?.is_none() {
            settings.push(format!("{name}={value}"));
        }
    }
    Ok(settings)
}

/// Writes every file as a fresh checkout of the commit would, including modes, line endings and changes that git was
/// configured to ignore. The files that are then judged are the ones that land.
pub fn check_out_anew(
    home: &Home,
    worktree: &Worktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<(), WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    if let At::Ours { git_dir, .. } = &site.ours {
        // A new index has no metadata that would make git consider a file unchanged.
        fs::remove_file(&git_dir.join("index"))?;
    }
    let call = site.ours(deadline);
    call.git(&["read-tree", commit])?;
    call.git(&["checkout-index", "--all", "--force", "--quiet"])?;
    // Fails if some path is not a checkout of git's, such as a submodule; that does not matter here.
    call.ask(&["update-index", "-q", "--refresh"])?;
    Ok(())
}

/// Merges the target branch into the run's branch, in the run's work tree.
pub fn merge(
    home: &Home,
    worktree: &Worktree,
    deadline: &Deadline,
) -> Result<Merged, WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    let call = site.ours(deadline);
    return_to_branch(&site, deadline)?;
    let (target, tip) = (site.target(deadline)?, site.tip(deadline)?);
    if is_part(&call, &tip, &target)? {
        return Ok(Merged::UpToDate { commit: target });
    }
    if !is_part(&call, &worktree.base, &target)? {
        return Err(WorktreeError::Rewritten(worktree.into.clone().unwrap_or_default()));
    }
    if is_part(&call, &target, &tip)? {
        return Ok(Merged::FastForward { commit: tip });
    }
    let changes = site.changes(deadline)?;
    if !changes.is_empty() {
        return Err(WorktreeError::Dirty(changes));
    }
    let into = worktree.into.as_deref().unwrap_or_default();
    let message = format!("-mMerge branch '{into}' into {}", worktree.branch);
    let identity = identity(&call)?;
    let mut arguments: Vec<&str> = identity.iter().flat_map(|one| ["-c", one]).collect();
    arguments.extend(["merge", "--quiet", "--no-edit", "--no-verify", "--commit", "--no-squash"]);
    arguments.extend(["--no-ff", "--no-autostash", "--no-stat", "--no-verify-signatures"]);
    arguments.extend([message.as_str(), &target]);
    let output = call.ask(&arguments);
    if let Ok(Said { code: 0, .. }) = output {
        return Ok(Merged::Clean { commit: site.tip(deadline)? });
    }
    let patience = Deadline::after(PATIENCE);
    let files = site.unmerged(&patience)?;
    let call = site.ours(&patience);
    if commit_of(&call, "MERGE_HEAD")?.is_some() {
        call.git(&["merge", "--abort"])?;
    }
    match output {
        Ok(_) if !files.is_empty() => Ok(Merged::Conflict { files }),
        Ok(output) => {
            let why = format!("exited with {} in `{}`", output.code, site.root.display());
            Err(super::GitError::Failed { what: "merge".to_owned(), why }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves the target branch forward to exactly this commit, which was verified.
pub fn land(
    home: &Home,
    worktree: &Worktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<Landed, WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    let call = site.theirs(deadline);
    let (target, tip) = (site.target(deadline)?, site.tip(deadline)?);
    if !is_commit(commit) || !is_part(&call, commit, &tip)? {
        let why = format!("`{}` is not on `{}`", shown(commit.as_bytes()), worktree.branch);
        return Ok(Landed::Refused { why });
    }
    if tip != commit {
        let why = format!("`{}` has commits that were not verified", worktree.branch);
        return Ok(Landed::Refused { why });
    }
    if is_part(&call, commit, &target)? {
        return Ok(Landed::Landed { commit: target });
    }
    if !is_part(&call, &worktree.base, &target)? {
        let into = worktree.into.clone().unwrap_or_default();
        return Ok(Landed::Refused { why: WorktreeError::Rewritten(into).to_string() });
    }
    if !is_part(&call, &target, commit)? {
        return Ok(Landed::Moved { target });
    }
    let name = site.target_ref()?;
    // An interrupted checkout would leave the user's files half updated.
    let patience = Deadline::after(PATIENCE);
    let refused = match checked_out(&call, &name)? {
        Some(tree) => forward(&At::Theirs(tree), (&target, commit), &patience)?,
        None => swap(&site, (&target, commit), &patience)?,
    };
    let now = site.target(&patience)?;
    Ok(match refused {
        None if now == commit => Landed::Landed { commit: now },
        _ if now != target => Landed::Moved { target: now },
        Some(why) => Landed::Refused { why },
        None => Landed::Refused { why: "git did not move the branch".to_owned() },
    })
}

/// The user's work tree in which the branch is checked out.
fn checked_out(call: &Call<'_>, name: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let output = call.git(&["worktree", "list", "--porcelain", "-z"])?;
    let wanted = [b"branch ", name.as_bytes()].concat();
    let mut tree = None;
    for field in records(&output) {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            tree = Some(path_of(path));
        } else if field == wanted {
            return Ok(tree);
        }
    }
    Ok(None)
}

/// Fast-forwards a branch together with the user's work tree that has it checked out. Returns the reason if git
/// refused.
fn forward(
    at: &At,
    (from, to): (&str, &str),
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let call = Call::new(at, deadline);
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
    let undo = commit_of(&call, "ORIG_HEAD")?;
    if call.ask(&arguments)?.code == 0 {
        return Ok(None);
    }
    // Git sets `ORIG_HEAD` even if it then refuses the merge. Restore it.
    match &undo {
        Some(undo) => call.ask(&["update-ref", "--no-deref", "ORIG_HEAD", undo])?,
        None => call.ask(&["update-ref", "--no-deref", "-d", "ORIG_HEAD"])?,
    };
    let brought = call.git(&["diff", "--name-only", "--no-renames", "-z", from, to])?;
    let brought: BTreeSet<&[u8]> = records(&brought).collect();
    let mut theirs: Vec<String> = Vec::new();
    if let Ok(changed) = git::changed_paths(at.root(), deadline) {
        theirs.extend(
            changed
                .iter()
                .filter(|path| brought.contains(path.as_bytes()))
                .map(|path| shown(path.as_bytes())),
        );
    }
    let ignored = call.git(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard"])?;
    theirs.extend(records(&ignored).filter(|path| brought.contains(path)).map(shown));
    Ok(Some(in_the_way(&theirs)))
}

/// Moves a branch that is not checked out anywhere, if it is still at `from`. Returns the reason otherwise.
fn swap(
    site: &Site<'_>,
    (from, to): (&str, &str),
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let call = site.theirs(deadline);
    let name = site.target_ref()?;
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    if let Some(busy) = busy(&path_of(&call.git(&common)?), &name)? {
        return Ok(Some(format!("it is being rebased or bisected in `{}`", busy.display())));
    }
    let words = ["update-ref", "--no-deref", "-m", "ralph: verified work"];
    let output = call.ask(&[&words[..], &[&name, to, from]].concat())?;
    Ok((output.code != 0).then(|| "git refused to move the branch".to_owned()))
}

/// The git directory in which the branch is being rebased or bisected. It is not checked out then, but must not move.
fn busy(common: &Path, name: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let all = common.join("worktrees");
    let linked = match fs::list(&all, 100_000) {
        Err(error) if error.is_missing() => Vec::new(),
        listed => listed?,
    };
    let short = name.strip_prefix("refs/heads/").unwrap_or(name);
    for directory in
        std::iter::once(common.to_owned()).chain(linked.iter().map(|one| all.join(one)))
    {
        for (file, word) in [
            ("rebase-merge/head-name", name),
            ("rebase-apply/head-name", name),
            ("BISECT_START", short),
        ] {
            let line = fs::read_opt(&directory.join(file), 64 * 1024)?;
            if line.is_some_and(|line| bytes_of(path_of(&line).as_os_str()) == word.as_bytes()) {
                return Ok(Some(directory));
            }
        }
    }
    Ok(None)
}

/// Whether every commit of the run is in the target branch. If work tree and branch are gone, the work has landed,
/// because git deletes only merged branches.
pub fn has_landed(
    home: &Home,
    worktree: &Worktree,
    deadline: &Deadline,
) -> Result<bool, WorktreeError> {
    let theirs = At::Theirs(PathBuf::from(&worktree.from));
    let call = Call::new(&theirs, deadline);
    let tip = commit_of(&call, &format!("refs/heads/{}", worktree.branch))?;
    if fs::stat_link(Path::new(&worktree.path)).is_none() {
        let Some(tip) = tip else { return Ok(true) };
        let into = worktree.into.as_ref().ok_or(WorktreeError::NoTarget)?;
        let target = commit_of(&call, &format!("refs/heads/{into}"))?;
        return match target {
            Some(target) => Ok(is_part(&call, &tip, &target)?),
            None => Err(WorktreeError::TargetGone(into.clone())),
        };
    }
    let site = Site::open(home, worktree, deadline)?;
    let (target, tip) = (site.target(deadline)?, site.tip(deadline)?);
    let here = commit_of(&site.ours(deadline), "HEAD")?;
    // Uncommitted files that gates left behind are not work.
    Ok(here.as_ref() == Some(&tip) && is_part(&call, &tip, &target)?)
}

/// Removes the work tree and the branch of landed work.
pub fn remove(
    home: &Home,
    worktree: &Worktree,
    deadline: &Deadline,
) -> Result<Removed, WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    let (target, tip) = (site.target(deadline)?, site.tip(deadline)?);
    let call = site.theirs(deadline);
    let kept = |why: &str| Ok(Removed::Kept { why: why.to_owned() });
    if !is_part(&call, &tip, &target)? {
        return kept("its branch has commits that have not landed");
    }
    let here = commit_of(&site.ours(deadline), "HEAD")?;
    if here.as_ref() != Some(&tip) {
        return kept("it is not on the run's branch");
    }
    let changes = site.changes(deadline)?;
    if !changes.is_empty() {
        return kept(&format!("it has uncommitted changes: {}", listed(&changes)));
    }
    let words = ["worktree", "remove"].map(OsStr::new);
    if call.ask(&[&words[..], &[site.root.as_os_str()]].concat())?.code != 0 {
        return kept("git refused to remove it");
    }
    if let Some(parent) = site.root.parent() {
        fs::remove_empty_dir(parent)?;
    }
    // `-d` makes git check once more that the branch is merged.
    let output = call.ask(&["branch", "--quiet", "-d", &worktree.branch])?;
    Ok(if output.code == 0 { Removed::Gone } else { Removed::BranchKept })
}
