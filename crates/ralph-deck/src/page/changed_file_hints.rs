//! What the names of the files that a run changed say to a reviewer.

use super::changed_settings::{ChangedRunFile, MAX_NAMED, RunFileRules};
use super::checkpoint_reader::CheckpointReadError;
use super::goal_files::find_outside_goal;
use super::look_first::{LookFirst, LookFirstKind, look_first_line};
use crate::view::run_report::join_names;
use ralph_core::record::PolicySeal;
use ralph_core::text;
use ralph_git::checkpoint::CheckpointError;

const LONGEST_PATH: usize = 1_000;

/// The run that the files belong to.
pub(super) struct HintedRun<'a> {
    pub(super) goal: &'a str,
    pub(super) seal: Option<&'a PolicySeal>,
    /// A proof that rests on new tests needs them, whatever the goal says.
    pub(super) rests_on_new_tests: bool,
    /// What the journal says about its tests.
    pub(super) look_first: &'a [LookFirst],
}

#[derive(Default)]
pub(super) struct ChangedFileHints {
    /// Whether it is known which files changed.
    pub(super) is_complete: bool,
    pub(super) look_first: Vec<LookFirst>,
    pub(super) outside_goal: Vec<String>,
}

/// Hints from the names of the changed files. Without git and without checkpoints there are none.
pub(super) fn changed_file_hints(
    run: &HintedRun<'_>,
    changed: Result<Vec<ChangedRunFile>, CheckpointReadError>,
) -> ChangedFileHints {
    let mut files = match changed {
        Ok(files) => files,
        Err(CheckpointReadError::NoDifference) => {
            return ChangedFileHints { is_complete: true, ..ChangedFileHints::default() };
        }
        Err(error) if is_absent(&error) => return ChangedFileHints::default(),
        // A change that git cannot list must not look like none.
        Err(error) => {
            let text = format!("the changed files are not known: {error}");
            let look_first = vec![look_first_line(LookFirstKind::SettingsChanged, &text, None)];
            return ChangedFileHints { look_first, ..ChangedFileHints::default() };
        }
    };
    let rules = RunFileRules::new(run.seal);
    let mut look_first = rules.changed_settings(&files);
    look_first.extend(rules.changed_test_files(&files, run.look_first));
    if run.rests_on_new_tests {
        files.retain(|file| !rules.is_test(file));
    }
    let outside = find_outside_goal(run.goal, files.iter().map(|file| file.path.as_str()));
    let outside_goal: Vec<_> =
        outside.iter().map(|path| text::clean_line(path, LONGEST_PATH)).collect();
    // One line about a file is enough.
    let is_named = |path: &str| {
        let is_shown = |file: &ChangedRunFile| rules.is_setting(file) || rules.is_old_test(file);
        files.iter().any(|file| file.path.as_str() == path && is_shown(file))
    };
    let unnamed = outside.iter().zip(&outside_goal).filter(|(path, _)| !is_named(path));
    let unnamed: Vec<_> = unnamed.map(|(_, shown)| shown.clone()).collect();
    if !unnamed.is_empty() {
        let text = join_names(&unnamed, MAX_NAMED);
        look_first.push(look_first_line(LookFirstKind::OutsideGoal, &text, None));
    }
    ChangedFileHints { is_complete: true, look_first, outside_goal }
}

/// Whether there is nothing to compare, as opposed to a comparison that failed.
fn is_absent(error: &CheckpointReadError) -> bool {
    use CheckpointReadError::{Checkpoint, NothingToCompare, Store};
    matches!(
        error,
        Store(_)
            | NothingToCompare
            | Checkpoint(CheckpointError::GitMissing | CheckpointError::NoProject(_))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_git::checkpoint::ChangeStatus;

    fn show(
        goal: &str,
        rests_on_new_tests: bool,
        changed: Result<&[&str], CheckpointReadError>,
    ) -> String {
        let file = |path: &&str| ChangedRunFile {
            path: (*path).to_string(),
            project_path: (*path).to_string(),
            status: ChangeStatus::Modified,
        };
        let changed = changed.map(|paths| paths.iter().map(file).collect());
        let run = HintedRun { goal, seal: None, rests_on_new_tests, look_first: &[] };
        let hints = changed_file_hints(&run, changed);
        let line = |one: &LookFirst| format!("{}: {}", one.kind.label(), one.text);
        let lines: Vec<_> = hints.look_first.iter().map(line).collect();
        format!("{}\n{}", lines.join("\n"), hints.outside_goal.join(" "))
    }

    #[test]
    fn changed_files_give_hints_unless_there_is_nothing_to_compare() {
        let paths = &["a.rs", "b.rs", "c.rs", "d.rs", "tests/e.rs", ".gitlab-ci.yml", "main.sh"];
        let timed_out = CheckpointError::TimedOut { what: "diff-tree".to_string() };
        let shown = [
            show("Let main.sh say goodbye.", false, Ok(paths)),
            show("Let main.sh say goodbye.", true, Ok(paths)),
            show("Say goodbye.", false, Ok(paths)),
            show("Say goodbye.", false, Err(timed_out.into())),
            show("Say goodbye.", false, Err(CheckpointReadError::NothingToCompare)),
        ];
        insta::assert_snapshot!(shown.join("\n--\n"), @r"
        checks may have changed: CI: .gitlab-ci.yml (modified)
        an old test file was changed: tests/e.rs (modified)
        perhaps not asked for (a guess: the goal names other files): a.rs, b.rs, c.rs, d.rs
        a.rs b.rs c.rs d.rs tests/e.rs .gitlab-ci.yml
        --
        checks may have changed: CI: .gitlab-ci.yml (modified)
        an old test file was changed: tests/e.rs (modified)
        perhaps not asked for (a guess: the goal names other files): a.rs, b.rs, c.rs, d.rs
        a.rs b.rs c.rs d.rs .gitlab-ci.yml
        --
        checks may have changed: CI: .gitlab-ci.yml (modified)
        an old test file was changed: tests/e.rs (modified)

        --
        checks may have changed: the changed files are not known: `git diff-tree` timed out

        --
        ");
    }
}
