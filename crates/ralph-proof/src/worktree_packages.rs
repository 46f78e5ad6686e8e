//! Installed dependencies of a separate work tree. Git does not check them out, and a run that installs them itself ends
//! `green` at best, so the work tree begins with a copy of the project's.

use std::path::{Path, PathBuf};

use ralph_home::faults::describe_error;
use ralph_sys::fs;

use crate::installed_packages::{CopyLimits, PackageCopy, copy_packages};

const COPIED: &str = "node_modules";
/// Their programs contain the path of the environment, so a copy would still use the original.
const NOT_COPIED: [&str; 2] = [".venv", "venv"];

/// A project and the separate work tree in which a run works on it.
#[derive(Clone, Copy, Debug)]
pub struct WorktreePackages<'a> {
    /// Root of the user's work tree.
    pub from: &'a Path,
    /// Root of the separate work tree.
    pub to: &'a Path,
    /// The project, relative to both.
    pub below: &'a Path,
    /// `[verify] link`, relative to the project.
    pub links: &'a [String],
}

impl WorktreePackages<'_> {
    /// Copies the packages, and returns a note for each directory that the work tree lacks.
    pub fn copy(&self) -> Vec<String> {
        let links = self.links.iter().map(|name| self.below.join(name));
        let mut directories: Vec<PathBuf> =
            self.below.ancestors().map(|above| above.join(COPIED)).chain(links).collect();
        directories.retain(|name| !fs::exists(&self.to.join(name)));
        let mut notes: Vec<_> =
            directories.iter().filter_map(|name| self.copy_directory(name)).collect();
        for name in NOT_COPIED.map(|name| self.below.join(name)) {
            if fs::is_directory(&self.from.join(&name)) && !fs::exists(&self.to.join(&name)) {
                notes.push(format!(
                    "`{}` is not in the work tree; install it there",
                    name.display()
                ));
            }
        }
        notes
    }

    fn copy_directory(&self, name: &Path) -> Option<String> {
        let directories = [name.to_owned()];
        let why = match copy_packages(self.from, self.to, &directories, CopyLimits::PACKAGES) {
            Ok(PackageCopy::Complete) => return None,
            Ok(PackageCopy::TooLarge(_)) => "it is too large to be copied".to_owned(),
            Err(error) => format!("it could not be copied: {}", describe_error(&error)),
        };
        // Half a copy would fail in ways that nothing explains. If it cannot be removed either, the note says enough.
        fs::remove_own_dir_tree(&self.to.join(name)).ok();
        Some(format!(
            "`{}` is not in the work tree, because {why}; install it there",
            name.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::Durability;

    fn write(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::replace(path, b"x", Durability::Cached).unwrap();
    }

    #[test]
    fn packages_are_copied_and_the_rest_is_noted() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        for name in
            ["node_modules/a", "app/node_modules/b", "app/built/c", "app/.venv/d", "app/kept/e"]
        {
            write(&from.join(name));
        }
        write(&to.join("app/kept/other"));
        let links = ["built", "kept", "missing"].map(str::to_owned);
        let packages =
            WorktreePackages { from: &from, to: &to, below: Path::new("app"), links: &links };
        assert_eq!(packages.copy(), ["`app/.venv` is not in the work tree; install it there"]);
        let found = ["node_modules/a", "app/node_modules/b", "app/built/c", "app/kept/other"];
        assert!(found.iter().all(|name| fs::exists(&to.join(name))));
        let absent = ["app/.venv", "app/kept/e", "app/missing"];
        assert!(!absent.iter().any(|name| fs::exists(&to.join(name))));
        fs::replace(&to.join("node_modules/a"), b"changed", Durability::Cached).unwrap();
        assert_eq!(fs::read(&from.join("node_modules/a"), 9).unwrap(), b"x");
    }
}
