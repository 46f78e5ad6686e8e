//! Whether the work tree is exactly the commit that is checked out. Otherwise the checks of the commit say nothing about it.

use std::path::{Path, PathBuf};

use ralph_core::text;
use ralph_git::git::{self, GitState};
use ralph_git::worktree::git_command::{GitCommand, GitLocation};
use ralph_home::faults::describe_error;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

const MAX_NAMED: usize = 3;
const MAX_PATH_CHARS: usize = 100;

/// The commit whose checks stand for the work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CandidateCommit {
    Known(String),
    /// The tree differs from the commit, and how.
    Uncommitted(String),
    Unknown(String),
}

pub(super) fn find_commit(
    project: &Path,
    exclude: &[PathBuf],
    deadline: &Deadline,
) -> CandidateCommit {
    let status = match git::repository_status(project, exclude, deadline) {
        GitState::Known(status) => status,
        GitState::NotARepository => {
            return CandidateCommit::Unknown("the project is not in a git repository".to_string());
        }
        GitState::Unavailable(why) => return CandidateCommit::Unknown(why),
    };
    let Some(head) = status.head else {
        return CandidateCommit::Uncommitted("there is no commit yet".to_string());
    };
    if status.changed_count > 0 {
        let count = text::count_noun(status.changed_count, "file");
        let names = name_paths(status.changed.iter().map(String::as_str));
        return CandidateCommit::Uncommitted(format!("{count} not committed: {names}"));
    }
    match hidden_paths(project, deadline) {
        Ok(hidden) if hidden.is_empty() => CandidateCommit::Known(head),
        Ok(hidden) => CandidateCommit::Uncommitted(format!(
            "git does not compare these files with the commit: {}; `git update-index --no-assume-unchanged --no-skip-worktree` undoes that",
            name_paths(hidden.iter().map(String::as_str))
        )),
        Err(why) => CandidateCommit::Unknown(why),
    }
}

fn name_paths<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let paths: Vec<String> = paths.map(|path| text::clean_line(path, MAX_PATH_CHARS)).collect();
    let more = paths.len().saturating_sub(MAX_NAMED);
    let shown = paths.into_iter().take(MAX_NAMED).map(|path| format!("`{path}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and others") } else { shown }
}

/// Files on disk that git was told to take for unchanged. They may have any content.
fn hidden_paths(project: &Path, deadline: &Deadline) -> Result<Vec<String>, String> {
    let project = fs::resolve(project).ok_or("cannot find the project")?;
    let root = git::work_tree_root(&project).ok_or("not a git repository")?;
    let location = GitLocation::UserRepository(root.to_owned());
    let listed = GitCommand::new(&location, deadline)
        .run_checked(&["ls-files", "-v", "-z"])
        .map_err(|error| describe_error(&error))?;
    let hidden = listed.split(|byte| *byte == 0).filter_map(|line| {
        let (tag, path) = (line.first()?, line.get(2..)?);
        let path = String::from_utf8_lossy(path).into_owned();
        let is_hidden = tag.is_ascii_lowercase() || *tag == b'S' && fs::exists(&root.join(&path));
        is_hidden.then_some(path)
    });
    Ok(hidden.collect())
}
