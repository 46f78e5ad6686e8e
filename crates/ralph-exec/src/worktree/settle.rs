//! What the agent left becomes a commit, meets what happened meanwhile, and goes back.

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
use crate::clock::Deadline;
use crate::fs;
use crate::git;
use crate::paths::Home;

/// For what must not be broken off half done: whoever is out of time waits for this long all the same.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);
const LONGEST_MESSAGE: usize = 20_000;
/// Who commits where git knows nobody.
const NOBODY: [(&str, &str); 2] = [("user.name", "ralph"), ("user.email", "ralph@localhost")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Made {
        commit: String,
    },
    /// Everything was committed already.
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

/// How the run's branch stands to the one that it goes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Nothing is on it that the target does not have.
    UpToDate { commit: String },
    /// The target did not move: what was verified is what would land.
    FastForward { commit: String },
    /// The target moved and was merged into the run's branch, in its work tree: this commit is not verified yet.
    Clean { commit: String },
    /// Both changed the same. Branch and work tree are as they were before.
    Conflict { files: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    Landed {
        commit: String,
    },
    /// The target has commits that were not verified together with the work: merge, verify, and land again.
    Moved {
        target: String,
    },
    /// Branch and work tree are kept.
    Refused {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    /// The work tree is gone, and git holds on to the branch.
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

/// Everything that is in the work tree and not ignored, as one commit on the run's branch.
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

/// An agent that went to another branch takes ours along, if that loses nothing. Files and index stay as they are.
fn return_to_branch(site: &Site<'_>, deadline: &Deadline) -> Result<(), WorktreeError> {
    let call = site.ours(deadline);
    let on = call.line_opt(&["symbolic-ref", "--quiet", "HEAD"])?;
    let ours = site.branch_ref();
    if on.as_ref() == Some(&ours) {
        return Ok(());
    }
    let strayed = || WorktreeError::Strayed {
        on: on.clone().map_or_else(
            || "no branch".to_owned(),
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

/// Git would commit only the name of a repository within. One that `.gitmodules` tells of is meant to be so.
fn refuse_nested(site: &Site<'_>, call: &Call<'_>) -> Result<(), WorktreeError> {
    if fs::exists(&site.root.join(".gitmodules")) {
        return Ok(());
    }
    let arguments =
        ["diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=A"];
    let told = call.git(&arguments)?;
    let mut fields = records(&told);
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

/// What git has to be told to know who commits.
fn identity(call: &Call<'_>) -> Result<Vec<String>, WorktreeError> {
    let mut settings = Vec::new();
    for (name, value) in NOBODY {
        if call.line_opt(&["config", "--get", name])?.is_none() {
            settings.push(format!("{name}={value}"));
        }
    }
    Ok(settings)
}

/// Makes every file what a checkout of that commit makes it, whatever git was told to overlook, of modes, of line
/// endings or of changes: what is judged is then what lands.
pub fn check_out_anew(
    home: &Home,
    worktree: &Worktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<(), WorktreeError> {
    let site = Site::open(home, worktree, deadline)?;
    if let At::Ours { git_dir, .. } = &site.ours {
        // A new one takes no file for unchanged.
        fs::remove_file(&git_dir.join("index"))?;
    }
    let call = site.ours(deadline);
    call.git(&["read-tree", commit])?;
    call.git(&["checkout-index", "--all", "--force", "--quiet"])?;
    // It tells of what is no checkout of git's, such as a module within.
    call.ask(&["update-index", "-q", "--refresh"])?;
    Ok(())
}

/// Brings the work together with what happened to the target meanwhile, in our own work tree.
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
    let said = call.ask(&arguments);
    if let Ok(Said { code: 0, .. }) = said {
        return Ok(Merged::Clean { commit: site.tip(deadline)? });
    }
    let patience = Deadline::after(PATIENCE);
    let files = site.unmerged(&patience)?;
    let call = site.ours(&patience);
    if commit_of(&call, "MERGE_HEAD")?.is_some() {
        call.git(&["merge", "--abort"])?;
    }
    match said {
        Ok(_) if !files.is_empty() => Ok(Merged::Conflict { files }),
        Ok(said) => {
            let why = format!("exited with {} in `{}`", said.code, site.root.display());
            Err(super::GitError::Failed { what: "merge".to_owned(), why }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves the target forward to exactly this commit, the one that was verified.
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
    // Broken off half way, a checkout would leave the person with half of it.
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

/// The person's work tree that the branch is checked out in.
fn checked_out(call: &Call<'_>, name: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let told = call.git(&["worktree", "list", "--porcelain", "-z"])?;
    let wanted = [b"branch ", name.as_bytes()].concat();
    let mut tree = None;
    for field in records(&told) {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            tree = Some(path_of(path));
        } else if field == wanted {
            return Ok(tree);
        }
    }
    Ok(None)
}

/// With the files of a person's work tree. Why not, if git refused.
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
        // By default git takes an ignored file for one that may be overwritten.
        "--no-overwrite-ignore",
        "--no-verify-signatures",
        to,
    ];
    let undo = commit_of(&call, "ORIG_HEAD")?;
    if call.ask(&arguments)?.code == 0 {
        return Ok(None);
    }
    // A merge that is refused has told already what `git reset ORIG_HEAD` is to go back to.
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

/// A branch that nobody has checked out, if it is still where it was looked at. Why not, otherwise.
fn swap(
    site: &Site<'_>,
    (from, to): (&str, &str),
    deadline: &Deadline,
) -> Result<Option<String>, WorktreeError> {
    let call = site.theirs(deadline);
    let name = site.target_ref()?;
    let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    if let Some(busy) = busy(&path_of(&call.git(&common)?), &name)? {
        return Ok(Some(format!("it is being worked on in `{}`", busy.display())));
    }
    let words = ["update-ref", "--no-deref", "-m", "ralph: verified work"];
    let said = call.ask(&[&words[..], &[&name, to, from]].concat())?;
    Ok((said.code != 0).then(|| "git would not move the branch".to_owned()))
}

/// Where the branch is being rebased or bisected: nobody has it checked out then, and it must not move all the same.
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
            let told = fs::read_opt(&directory.join(file), 64 * 1024)?;
            if told.is_some_and(|told| bytes_of(path_of(&told).as_os_str()) == word.as_bytes()) {
                return Ok(Some(directory));
            }
        }
    }
    Ok(None)
}

/// Whether every commit of the run is in the branch that it goes back to. What landed is mostly removed already, and
/// git removes no branch that is not merged.
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
    // What gates left lying about is nobody's work.
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
        return kept("it is not on its branch");
    }
    let changes = site.changes(deadline)?;
    if !changes.is_empty() {
        return kept(&format!("it has changes that are not committed: {}", listed(&changes)));
    }
    let words = ["worktree", "remove"].map(OsStr::new);
    if call.ask(&[&words[..], &[site.root.as_os_str()]].concat())?.code != 0 {
        return kept("git would not remove it");
    }
    if let Some(parent) = site.root.parent() {
        fs::remove_empty_dir(parent)?;
    }
    // `-d` asks whether it is merged, once more, and by its own lights.
    let said = call.ask(&["branch", "--quiet", "-d", &worktree.branch])?;
    Ok(if said.code == 0 { Removed::Gone } else { Removed::BranchKept })
}
