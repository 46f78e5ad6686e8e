//! A separate work tree and branch for a run, and landing its work in the branch it started from.
//!
//! The user's files, index, `HEAD`, stash and branches do not change until verified work is landed. Then git
//! fast-forwards the user's branch, and refuses to overwrite uncommitted changes.

pub mod door;
mod make;
mod settle;
mod site;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ralph_core::drive::Worktree;

use ralph_sys::fs::FileError;

pub use door::GitError;
pub use make::{Created, create};
pub use settle::{
    Committed, Landed, Merged, Removed, check_out_anew, commit, has_landed, head, land, merge,
    remove,
};

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("`{}` is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("`{}` is a bare repository, which has no files to work on", .0.display())]
    Bare(PathBuf),
    #[error("the repository of `{}` has no commit yet", .0.display())]
    NoCommit(PathBuf),
    #[error("the path `{}` is not valid UTF-8", .0.display())]
    OddName(PathBuf),
    #[error("{what} `{name}` already exists")]
    Exists { what: &'static str, name: String },
    #[error("cannot create branch `{branch}` because there is a branch `ralph`")]
    InTheWay { branch: String },
    #[error("`{}` is no longer the run's work tree", .0.display())]
    NotOurs(PathBuf),
    #[error("the work tree is on {on}, which does not contain the commits of `{branch}`")]
    Strayed { on: String, branch: String },
    #[error("the work tree has unresolved conflicts: {}", listed(.0))]
    Unmerged(Vec<String>),
    #[error("the work tree contains repositories, whose files would not be committed: {}", listed(.0))]
    Nested(Vec<String>),
    #[error("the work tree has uncommitted changes: {}", listed(.0))]
    Dirty(Vec<String>),
    #[error("`HEAD` was detached when the run started, so there is no branch to merge into")]
    NoTarget,
    #[error("branch `{0}` no longer exists")]
    TargetGone(String),
    /// A fast-forward would bring back commits that the user removed from the branch.
    #[error("branch `{0}` no longer contains the commit that the run started from")]
    Rewritten(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    File(#[from] FileError),
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
            Self::Exists { what: "branch", name } => format!(
                "`git log {name}` shows its commits, `git branch -d {name}` deletes it if it is merged"
            ),
            Self::Exists { name, .. } => format!("`git worktree remove {name}` removes it"),
            Self::InTheWay { .. } => "rename it: `git branch -m ralph another-name`".to_owned(),
            Self::Strayed { branch, .. } => {
                format!("compare the two, then move `{branch}` to the commit with the work")
            }
            Self::Unmerged(_) => {
                "resolve them in the work tree, or run `git merge --abort` there".to_owned()
            }
            Self::Nested(_) => {
                "remove their `.git`, or add them with `git submodule add`".to_owned()
            }
            Self::Rewritten(into) => format!("rebase the run's branch onto `{into}` manually"),
            Self::NoTarget => "merge the run's branch manually".to_owned(),
            Self::Git(GitError::Missing) => "install git".to_owned(),
            Self::OddName(_)
            | Self::NotOurs(_)
            | Self::Dirty(_)
            | Self::TargetGone(_)
            | Self::Git(_)
            | Self::File(_) => return None,
        })
    }
}

/// Work that was kept instead of landed, described for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub path: String,
    pub branch: String,
    /// Commands to inspect, compare and merge it, ready to paste.
    pub commands: Vec<String>,
}

pub fn kept(worktree: &Worktree) -> Kept {
    let Worktree { path, branch, from, base, .. } = worktree;
    let since = quoted(&format!("{base}..{branch}"));
    let changes = quoted(&format!("{base}...{branch}"));
    let commands = vec![
        format!("{} log --oneline {since}", git_at(from)),
        format!("{} diff {changes}", git_at(from)),
        format!("{} status", git_at(path)),
        format!("{} merge {}", git_at(from), quoted(branch)),
    ];
    Kept { path: path.clone(), branch: branch.clone(), commands }
}

/// Describes where work is that did not land, and the commands to inspect and merge it. `changed` is the number of
/// uncommitted paths there, if known.
pub fn unmerged(worktree: &Worktree, changed: Option<usize>) -> String {
    let Worktree { path, branch, from, base, .. } = worktree;
    let (there, here) = (git_at(path), git_at(from));
    let base = quoted(base.get(..SHOWN_ID).unwrap_or(base));
    let merge = format!("`{here} merge {}`", quoted(branch));
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

/// The command that starts resolving a conflict in the run's work tree.
pub fn resolve(worktree: &Worktree) -> String {
    let into = worktree.into.as_deref().unwrap_or("HEAD");
    format!("{} merge {}", git_at(&worktree.path), quoted(into))
}

/// The start of a git command that works from any directory.
pub fn git_at(directory: &str) -> String {
    format!("git -C {}", quoted(directory))
}

/// Quotes a word for a shell. A word that cannot be quoted (it has a NUL) stays as it is.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

const NAMED: usize = 5;
const SHOWN_ID: usize = 10;

/// Formats names as `` `a`, `b` and 7 more ``.
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(NAMED);
    let list = shown.join(", ");
    if more == 0 { list } else { format!("{list} and {more} more") }
}
