//! Directories of ralph's home that are links. What they lead to may be anything, so cleaning leaves it alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, FileError, FileKind};

const MAX_ENTRIES: usize = 100_000;

/// The directories of ralph's home that cleaning removes from.
fn cleaned_directories(home: &RalphHome) -> [PathBuf; 8] {
    let cache = home.cache();
    let in_cache = ["gates", "logs", "stat", "history"].map(|name| cache.join(name));
    let [gates, logs, stat, history] = in_cache;
    [
        home.runs(),
        home.session_notes(),
        home.scratch_directories(),
        cache,
        gates,
        logs,
        stat,
        history,
    ]
}

/// Directories of ralph's home that are links. What they lead to may be anything, so nothing in them is listed.
pub(super) fn linked_directories(home: &RalphHome) -> Vec<PathBuf> {
    let mut linked: Vec<PathBuf> =
        cleaned_directories(home).into_iter().chain([home.trash()]).collect();
    linked.retain(|path| is_link(path));
    linked
}

pub(super) fn is_link(path: &Path) -> bool {
    fs::stat_no_follow(path).is_some_and(|stat| stat.kind == FileKind::Symlink)
}

/// The names in a directory of ralph's home; none if a link is in its place.
pub(super) fn list_own(directory: &Path) -> Result<Vec<OsString>, FileError> {
    if is_link(directory) { Ok(Vec::new()) } else { fs::list_if_exists(directory, MAX_ENTRIES) }
}
