//! Whether the work tree is exactly the commit that is checked out. Otherwise the checks of the commit say nothing about it.

use std::path::{Path, PathBuf};

use ralph_core::text;
use ralph_git::commit_comparison::compare_with_commit;
use ralph_git::git::{self, GitState};
use ralph_sys::clock::Deadline;

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
    // What git reports depends on its index and its configuration, and an agent can write both. So the bytes decide.
    let comparison = match compare_with_commit(project, exclude, deadline) {
        Ok(comparison) => comparison,
        Err(why) => return CandidateCommit::Unknown(why),
    };
    if comparison.head.as_ref() != Some(&head) {
        return CandidateCommit::Unknown("the commit changed while it was looked at".to_string());
    }
    if comparison.changed.is_empty() {
        return CandidateCommit::Known(head);
    }
    CandidateCommit::Uncommitted(format!(
        "{} from the commit, and git does not show it: {}; settings, marks or filters of git hide the difference",
        differs(comparison.changed.len()),
        name_paths(comparison.changed.iter().map(String::as_str))
    ))
}

fn differs(count: usize) -> String {
    if count == 1 { "1 file differs".to_string() } else { format!("{count} files differ") }
}

fn name_paths<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let paths: Vec<String> = paths.map(|path| text::clean_line(path, MAX_PATH_CHARS)).collect();
    let more = paths.len().saturating_sub(MAX_NAMED);
    let shown = paths.into_iter().take(MAX_NAMED).map(|path| format!("`{path}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and others") } else { shown }
}
