//! Which runs belong to the project around a directory.

use ralph_core::record::RunRecord;
use ralph_home::run_outline::OutlinedRun;
use ralph_policy::config;
use ralph_sys::fs;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The project around a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectScope {
    directory: PathBuf,
    root: PathBuf,
}

impl ProjectScope {
    pub fn of_directory(directory: &Path) -> Self {
        let directory = fs::resolve(directory).unwrap_or_else(|| directory.to_path_buf());
        let root = config::find_project(&directory);
        Self { directory, root }
    }

    /// The directory with the policy, or the repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the run works in this project. A run with a work tree of its own also belongs to the repository that the
    /// tree came from.
    pub fn contains_run(&self, run: &RunRecord) -> bool {
        let directories = [run_directory(run), &run.project];
        directories.iter().any(|directory| self.contains_directory(Path::new(directory)))
    }

    /// Whether a run is of this project, or has no outline that says so.
    pub fn outline_filter(&self) -> impl FnMut(&OutlinedRun) -> bool {
        // Thousands of runs are in a few directories, and finding the project of one takes several system calls.
        let mut known = HashMap::new();
        let mut is_here = move |directory: &String| {
            *known
                .entry(directory.clone())
                .or_insert_with(|| self.contains_directory(Path::new(directory)))
        };
        move |run| {
            let outline = run.outline.as_ref();
            outline.is_none_or(|outline| outline.directories.iter().any(&mut is_here))
        }
    }

    pub fn contains_directory(&self, directory: &Path) -> bool {
        // Without a repository nothing marks the root, and a run covers the directories below its own.
        config::find_project(directory) == self.root || self.is_below_plain(directory)
    }

    fn is_below_plain(&self, directory: &Path) -> bool {
        let is_plain = self.root == self.directory && !fs::exists(&self.root.join(".git"));
        is_plain && directory.parent().is_some() && self.directory.starts_with(directory)
    }
}

/// The project of a run; if the run has a work tree of its own, the repository that it came from.
pub fn run_directory(run: &RunRecord) -> &str {
    run.worktree().map_or(&run.project, |worktree| &worktree.from)
}
