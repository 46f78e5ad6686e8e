//! The git that ralph runs. The candidates are found once per process, so that a program that appears on `PATH` later is
//! not run. A git inside of the work tree that it is asked about is never run: an agent that writes to the project
//! could replace it. In a run it is the git that was sealed at the start, whatever the `PATH` of the agent's host finds.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::git::work_tree_root;
use ralph_sys::fs;
use ralph_sys::proc::program_search;

const GIT: &str = "git";

static FOUND_GITS: OnceLock<Vec<PathBuf>> = OnceLock::new();
static SEALED_GIT: OnceLock<PathBuf> = OnceLock::new();

/// The first git on our own `PATH` that is not in the work tree of `directory`; `None` if there is none.
pub fn find_git(directory: &Path) -> Option<&'static Path> {
    let found = FOUND_GITS.get_or_init(|| program_search::find_own_programs(OsStr::new(GIT)));
    let directory = fs::resolve(directory).unwrap_or_else(|| directory.to_owned());
    let root = work_tree_root(&directory).unwrap_or(&directory);
    found.iter().map(PathBuf::as_path).find(|file| !is_inside(file, root))
}

fn is_inside(file: &Path, root: &Path) -> bool {
    file.starts_with(root) || fs::resolve(file).is_some_and(|file| file.starts_with(root))
}

/// From now on, this process runs this git. The first call wins: one process judges one run.
pub fn use_sealed_git(path: &Path) {
    SEALED_GIT.get_or_init(|| path.to_owned());
}

/// The program to start for a command in `directory`; `None` if there is none.
pub(crate) fn git_program(directory: &Path) -> Option<&'static Path> {
    SEALED_GIT.get().map(PathBuf::as_path).or_else(|| find_git(directory))
}
