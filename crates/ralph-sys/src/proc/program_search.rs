//! Finds the file that would be run for the name of a program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::fs::{self, FileKind};

/// The file that would be run, by the rules of `execvp`. `path` is the value of `PATH`.
pub fn find_program(program: &OsStr, directory: &Path, path: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let file = directory.join(program);
        return is_executable(&file).then_some(file);
    }
    std::env::split_paths(path)
        .map(|entry| directory.join(entry).join(program))
        .find(|file| is_executable(file))
}

/// Every program of that name in our own `PATH`, in its order. Relative directories are left out: the current directory
/// may be an agent's.
pub fn find_own_programs(program: &OsStr) -> Vec<PathBuf> {
    let path = Env::from_process().search_path().unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|entry| entry.is_absolute())
        .map(|entry| entry.join(program))
        .filter(|file| is_executable(file))
        .collect()
}

pub fn is_executable(file: &Path) -> bool {
    fs::stat(file).is_some_and(|stat| stat.kind == FileKind::File && stat.mode & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        let root = Path::new("/");
        let found = |name: &str, path: &str| find_program(OsStr::new(name), root, OsStr::new(path));
        assert_eq!(found("sh", "/nowhere:/bin"), Some("/bin/sh".into()));
        assert_eq!(found("sh", "bin"), Some("/bin/sh".into()));
        assert_eq!(found("bin/sh", "/nowhere"), Some("/bin/sh".into()));
        assert_eq!(found("sh", "/nowhere"), None);
        assert_eq!(found("./no", "/bin"), None);
        assert_eq!(find_own_programs(OsStr::new("no such program")), Vec::<PathBuf>::new());
        let shells = find_own_programs(OsStr::new("sh"));
        assert!(!shells.is_empty() && shells.iter().all(|file| file.is_absolute()));
    }
}
