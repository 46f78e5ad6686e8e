//! The git that ralph runs. It is found once per process, so that a program that appears on `PATH` later is not run. In a
//! run it is the git that was sealed at the start, whatever the `PATH` of the agent's host finds.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ralph_sys::proc::program_search;

const GIT: &str = "git";

static FOUND_GIT: OnceLock<Option<PathBuf>> = OnceLock::new();
static SEALED_GIT: OnceLock<PathBuf> = OnceLock::new();

/// The git on our own `PATH`; `None` if it is not installed.
pub fn find_git() -> Option<&'static Path> {
    FOUND_GIT.get_or_init(|| program_search::find_own_program(OsStr::new(GIT))).as_deref()
}

/// From now on, this process runs this git. The first call wins: one process judges one run.
pub fn use_sealed_git(path: &Path) {
    SEALED_GIT.get_or_init(|| path.to_owned());
}

/// The program to start. If there is none, the bare name lets the start fail with the usual error.
pub(crate) fn git_program() -> &'static OsStr {
    let sealed = SEALED_GIT.get().map(PathBuf::as_path);
    sealed.or_else(find_git).map_or(OsStr::new(GIT), Path::as_os_str)
}
