//! A work tree and a branch of a run's own, and the way of its work back into the branch that it came from.
//!
//! The person's files, index, `HEAD`, stash and branches stay as they are until verified work is landed, and then
//! their branch is only ever moved forward, by git, which refuses to overwrite what they have not committed.

pub(crate) mod door;
mod make;
mod settle;
mod site;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ralph_core::drive::Worktree;

use crate::fs::FileError;

pub use door::GitError;
pub use make::{Created, create};
pub use settle::{
    Committed, Landed, Merged, Removed, check_out_anew, commit, has_landed, head, land, merge,
    remove,
};

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("`{}` is in no git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("`{}` is a bare repository, which has no files to work on", .0.display())]
    Bare(PathBuf),
    #[error("the repository of `{}` has no commit yet", .0.display())]
    NoCommit(PathBuf),
    #[error("`{}` has a name that is no text", .0.display())]
    OddName(PathBuf),
    #[error("there is a {what} `{name}` already")]
    Exists { what: &'static str, name: String },
    #[error("a branch `ralph` is in the way of branch `{branch}`")]
    InTheWay { branch: String },
    #[error("`{}` is no longer the work tree that the run was given", .0.display())]
    NotOurs(PathBuf),
    #[error("the work tree is on {on}, whose history is not that of `{branch}`")]
    Strayed { on: String, branch: String },
    #[error("the work tree has conflicts that nobody resolved: {}", listed(.0))]
    Unmerged(Vec<String>),
    #[error("the work tree has repositories in it, whose files would not be committed: {}", listed(.0))]
    Nested(Vec<String>),
    #[error("the work tree has changes that are not committed: {}", listed(.0))]
    Dirty(Vec<String>),
    #[error("`HEAD` was on no branch when the run began, so there is none to merge into")]
    NoTarget,
    #[error("there is no branch `{0}` any more")]
    TargetGone(String),
    /// A fast-forward would bring back what the person took off it.
    #[error("branch `{0}` no longer has the commit that the run began at")]
    Rewritten(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl WorktreeError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotARepository(_) => {
                "run it in a git repository, or without `--worktree`".to_owned()
            }
            Self::Bare(_) => "run it in a work tree: `git worktree add ../work`".to_owned(),
            Self::NoCommit(_) => "make a first commit: a branch needs one to begin at".to_owned(),
            Self::Exists { what: "branch", name } => format!(
                "`git log {name}` shows what is on it, `git branch -d {name}` removes it if it is merged"
            ),
            Self::Exists { name, .. } => format!("`git worktree remove {name}` removes it"),
            Self::InTheWay { .. } => "rename it: `git branch -m ralph another-name`".to_owned(),
            Self::Strayed { branch, .. } => {
                format!("look at both, and put `{branch}` where the work is")
            }
            Self::Unmerged(_) => "resolve them there, or `git merge --abort`".to_owned(),
            Self::Nested(_) => {
                "remove their `.git`, or add them with `git submodule add`".to_owned()
            }
            Self::Rewritten(into) => format!("rebase the run's branch onto `{into}` by hand"),
            Self::NoTarget => "merge the run's branch by hand".to_owned(),
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

/// What a person is told where work is kept instead of landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub path: String,
    pub branch: String,
    /// To look at it, compare it and merge it, ready to copy.
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

/// Where work is that did not land, and what to type. `changed` are the paths that are not committed there, where that
/// is known.
pub fn unmerged(worktree: &Worktree, changed: Option<usize>) -> String {
    let Worktree { path, branch, from, base, .. } = worktree;
    let (there, here) = (git_at(path), git_at(from));
    let base = quoted(base.get(..SHOWN_ID).unwrap_or(base));
    let merge = format!("`{here} merge {}`", quoted(branch));
    let look = format!("`{there} diff {base}`");
    let how = match changed {
        Some(0) => format!("{look} shows it, {merge} takes it"),
        Some(changed) => {
            let paths = if changed == 1 { "1 path" } else { &format!("{changed} paths") };
            format!(
                "{paths} not committed there: {look} and `{there} status` show it; commit it, then {merge}"
            )
        }
        None => format!("{look} and `{there} status` show it, {merge} takes what is committed"),
    };
    format!("not merged: branch `{branch}`, work tree `{path}`; {how}")
}

/// What resolves a conflict where the work is.
pub fn resolve(worktree: &Worktree) -> String {
    let into = worktree.into.as_deref().unwrap_or("HEAD");
    format!("{} merge {}", git_at(&worktree.path), quoted(into))
}

/// For somebody who is elsewhere.
pub fn git_at(directory: &str) -> String {
    format!("git -C {}", quoted(directory))
}

/// For a shell; what no shell takes stays as it is.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

const NAMED: usize = 5;
const SHOWN_ID: usize = 10;

/// `a`, `b` and 7 more
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(NAMED);
    let list = shown.join(", ");
    if more == 0 { list } else { format!("{list} and {more} more") }
}
