//! Files in the work tree that no checkout has, because git ignores them. A test may pass in the project because of one of
//! them, and only a run in a checkout shows that.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::tree::is_local_settings;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind, FileStat};

/// A larger work tree is not searched, and counts as changed.
const MAX_VISITED: usize = 100_000;
/// The directory of compiled Python modules. Python loads none of them without its source.
const COMPILED_PYTHON: &str = "__pycache__";
const PYTEST_STATE: &str = ".pytest_cache";
/// The files that pytest writes to its directory.
const PYTEST_FILES: [&str; 6] =
    ["README.md", ".gitignore", "CACHEDIR.TAG", "nodeids", "lastfailed", "stepwise"];

/// The work tree, and its files that do not count.
pub(crate) struct UnlistedScope<'a> {
    pub repository: &'a CheckpointRepository,
    /// The path of the project in the work tree.
    pub below: &'a Path,
    /// Directories whose content is compared in other ways.
    pub skipped: HashSet<PathBuf>,
}

/// Whether a file that is not in `candidate` changed after `base` was recorded. In doubt it did. Caches that Python and
/// pytest write whenever they run do not count.
pub(crate) fn has_changed_unlisted_files(
    scope: &UnlistedScope<'_>,
    base: &Checkpoint,
    candidate: &Checkpoint,
    deadline: &Deadline,
) -> Result<bool, CheckpointError> {
    let UnlistedScope { repository, below, skipped } = scope;
    let listed = repository.checkpoint_files(candidate, deadline)?;
    let files: HashSet<&Path> = listed.iter().map(|file| Path::new(&file.path)).collect();
    let directories: HashSet<&Path> =
        files.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let root = repository.root();
    let since_ns = base.at_ms.saturating_mul(1_000_000);
    let mut pending = vec![PathBuf::new()];
    let mut visited = 0;
    while let Some(directory) = pending.pop() {
        let Ok(names) = fs::list(&root.join(&directory), MAX_VISITED) else { return Ok(true) };
        visited += names.len();
        if visited > MAX_VISITED || deadline.has_passed() {
            return Ok(true);
        }
        for name in names {
            let path = directory.join(&name);
            let on_disk = root.join(&path);
            let is_known = name == ".git"
                || files.contains(&*path)
                || skipped.contains(&on_disk)
                || is_local_settings(&path, below)
                || is_python_cache(&path);
            if is_known {
                continue;
            }
            let Some(stat) = fs::stat_no_follow(&on_disk) else { continue };
            let is_directory = stat.kind == FileKind::Directory;
            let is_cache = [COMPILED_PYTHON, PYTEST_STATE]
                .iter()
                .any(|cache| path.iter().any(|part| part == *cache));
            let may_change = is_directory && (directories.contains(&*path) || is_cache);
            if !may_change && has_changed(&stat, since_ns) {
                return Ok(true);
            }
            if is_directory {
                pending.push(path);
            }
        }
    }
    Ok(false)
}

/// The target of a link may be anywhere.
fn has_changed(stat: &FileStat, since_ns: u64) -> bool {
    stat.kind == FileKind::Symlink || stat.changed_ns >= since_ns
}

fn is_python_cache(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let parent = path.parent().and_then(Path::file_name);
    let is_compiled =
        parent == Some(OsStr::new(COMPILED_PYTHON)) && path.extension() == Some(OsStr::new("pyc"));
    let is_in_state = path.iter().any(|part| part == PYTEST_STATE);
    is_compiled || is_in_state && PYTEST_FILES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_python_writes_are_its_cache() {
        for (path, expected) in [
            ("src/__pycache__/a.cpython-312.pyc", true),
            ("src/__pycache__/a.py", false),
            ("src/a.pyc", false),
            (".pytest_cache/v/cache/nodeids", true),
            (".pytest_cache/v/a.py", false),
            ("nodeids", false),
        ] {
            assert_eq!(is_python_cache(Path::new(path)), expected, "{path}");
        }
    }
}
