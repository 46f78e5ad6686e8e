//! Opens the work tree of a run, after checking that it is the one that ralph created.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ralph_core::drive::Worktree;
use ralph_core::id::RunId;
use ralph_core::text;

use super::door::{At, Call, GitError, odd};
use super::{WorktreeError, listed};
use ralph_home::paths::Home;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

const LONGEST_LINE: usize = 64 * 1024;
const LONGEST_NAME: usize = 400;
pub(super) const PREFIX: &str = "ralph/";

#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) worktree: &'a Worktree,
    /// Root of the run's work tree. `worktree.path` may be a directory below it.
    pub(crate) root: PathBuf,
    pub(crate) ours: At,
    /// The repository that the work tree was created from.
    pub(crate) theirs: At,
}

impl<'a> Site<'a> {
    /// Accepts a work tree only in ralph's own directory for work trees, and only if the repository it was created from
    /// lists it at this path. An agent that edits the `.git` file in its work tree cannot redirect git.
    pub(crate) fn open(
        home: &Home,
        worktree: &'a Worktree,
        deadline: &Deadline,
    ) -> Result<Self, WorktreeError> {
        let not_ours = || WorktreeError::NotOurs(PathBuf::from(&worktree.path));
        let run = worktree.branch.strip_prefix(PREFIX).and_then(RunId::parse);
        let place = home.worktree(&run.ok_or_else(not_ours)?);
        let place = fs::resolve(&place).ok_or_else(not_ours)?;
        let path = fs::resolve(Path::new(&worktree.path)).ok_or_else(not_ours)?;
        let name = path.strip_prefix(&place).ok().and_then(|below| below.components().next());
        let root = place.join(name.ok_or_else(not_ours)?);
        let theirs = At::Theirs(PathBuf::from(&worktree.from));
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = path_of(&Call::new(&theirs, deadline).git(&common)?);
        let git_dir = administration(&common, &root)?.ok_or_else(not_ours)?;
        let ours = At::Ours { git_dir, root: root.clone() };
        Ok(Self { worktree, root, ours, theirs })
    }

    pub(crate) fn ours<'c>(&'c self, deadline: &'c Deadline) -> Call<'c> {
        Call::new(&self.ours, deadline)
    }

    pub(crate) fn theirs<'c>(&'c self, deadline: &'c Deadline) -> Call<'c> {
        Call::new(&self.theirs, deadline)
    }

    pub(super) fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.worktree.branch)
    }

    pub(super) fn target_ref(&self) -> Result<String, WorktreeError> {
        let into = self.worktree.into.as_ref().ok_or(WorktreeError::NoTarget)?;
        Ok(format!("refs/heads/{into}"))
    }

    /// The last commit of the run's branch.
    pub(crate) fn tip(&self, deadline: &Deadline) -> Result<String, WorktreeError> {
        let tip = commit_of(&self.theirs(deadline), &self.branch_ref())?;
        tip.ok_or_else(|| WorktreeError::NotOurs(self.root.clone()))
    }

    /// The last commit of the branch that the work returns to.
    pub(super) fn target(&self, deadline: &Deadline) -> Result<String, WorktreeError> {
        let target = commit_of(&self.theirs(deadline), &self.target_ref()?)?;
        let into = self.worktree.into.clone().unwrap_or_default();
        target.ok_or(WorktreeError::TargetGone(into))
    }

    /// Paths that are neither committed nor ignored, cleaned for display.
    pub(super) fn changes(&self, deadline: &Deadline) -> Result<Vec<String>, WorktreeError> {
        let arguments = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
        let output = self.ours(deadline).git(&arguments)?;
        Ok(records(&output).map(|record| shown(record.get(3..).unwrap_or_default())).collect())
    }

    pub(super) fn unmerged(&self, deadline: &Deadline) -> Result<Vec<String>, WorktreeError> {
        let arguments = ["diff", "--name-only", "--diff-filter=U", "-z"];
        let output = self.ours(deadline).git(&arguments)?;
        Ok(records(&output).map(shown).collect())
    }
}

/// The administrative directory that the repository has for the work tree at `root`.
fn administration(common: &Path, root: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let all = common.join("worktrees");
    let names = match fs::list(&all, 100_000) {
        Ok(names) => names,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for name in names {
        let directory = all.join(name);
        let Ok(Some(line)) = fs::read_opt(&directory.join("gitdir"), LONGEST_LINE) else {
            continue;
        };
        let place = path_of(&line);
        let parent = place.parent().and_then(fs::resolve);
        if parent.as_deref() == Some(root) {
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

/// The commit that a ref names; `None` if there is no such ref.
pub(crate) fn commit_of(call: &Call<'_>, name: &str) -> Result<Option<String>, GitError> {
    let wanted = format!("{name}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", wanted.as_str()];
    match call.line_opt(&arguments)? {
        Some(commit) if is_commit(&commit) => Ok(Some(commit)),
        Some(_) => Err(odd("rev-parse")),
        None => Ok(None),
    }
}

pub(crate) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `first` is an ancestor of `second`, or equal to it.
pub(super) fn is_part(call: &Call<'_>, first: &str, second: &str) -> Result<bool, GitError> {
    call.is(&["merge-base", "--is-ancestor", first, second])
}

pub(super) fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|record| !record.is_empty())
}

pub(super) fn shown(name: &[u8]) -> String {
    text::line(&String::from_utf8_lossy(name), LONGEST_NAME)
}

pub(super) fn path_of(line: &[u8]) -> PathBuf {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    PathBuf::from(OsString::from_vec(line.to_vec()))
}

pub(super) fn text_of(path: &Path) -> Result<String, WorktreeError> {
    path.to_str().map(str::to_owned).ok_or_else(|| WorktreeError::OddName(path.to_owned()))
}

/// Formats a number of files for a sentence: `3 uncommitted files are`.
pub(super) fn in_words(count: usize) -> String {
    if count == 1 {
        "1 uncommitted file is".to_owned()
    } else {
        format!("{count} uncommitted files are")
    }
}

pub(super) fn in_the_way(names: &[String]) -> String {
    match names {
        [] => "git refused to update your work tree".to_owned(),
        names => format!("your uncommitted changes would be overwritten: {}", listed(names)),
    }
}

pub(super) fn bytes_of(name: &OsStr) -> &[u8] {
    name.as_bytes()
}
