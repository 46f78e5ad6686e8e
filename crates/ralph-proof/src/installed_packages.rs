//! Installed dependencies in a checkout that is not mounted in place of the project: a copy of those of the project, so
//! that nothing a gate writes there reaches the project. File systems that can share blocks make it without reading.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use ralph_sys::fs::{self, ConfinedDir, CopyKind, FileError, FileKind};

/// Directories with installed dependencies. Gates need them, but they are not part of the work.
pub const DEPENDENCY_DIRECTORIES: [&str; 3] = ["node_modules", ".venv", "venv"];
const MAX_DEPTH: usize = 64;
/// How many entries of one directory are listed.
const MAX_ENTRIES: usize = 1_000_000;

/// How much a checkout may copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyLimits {
    pub files: usize,
    pub bytes: u64,
}

impl CopyLimits {
    pub(crate) const PACKAGES: Self = Self { files: 100_000, bytes: 2 * 1024 * 1024 * 1024 };
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PackageCopy {
    Complete,
    /// This directory exceeds the limits. The checkout is incomplete.
    TooLarge(PathBuf),
}

/// Copies these directories of `project` into `checkout`, unless it has them. Links into the project lead into the
/// checkout, as those to packages of a workspace must.
pub(crate) fn copy_packages(
    project: &Path,
    checkout: &Path,
    directories: &[PathBuf],
    limits: CopyLimits,
) -> Result<PackageCopy, FileError> {
    let inside = ConfinedDir::open(checkout)?;
    let project = fs::resolve(project).unwrap_or_else(|| project.to_owned());
    let mut left = limits;
    for name in directories {
        // A directory above may have been copied with this one in it.
        let Some(original) = fs::resolve(&project.join(name)) else { continue };
        if !fs::is_directory(&original) || inside.stat(name)?.is_some() {
            continue;
        }
        let roots = CopiedRoots { project: &project, checkout, original: &original, name };
        if !roots.copy_directory(&inside, Path::new(""), 0, &mut left)? {
            return Ok(PackageCopy::TooLarge(name.clone()));
        }
    }
    Ok(PackageCopy::Complete)
}

/// One directory that is copied, and where to.
struct CopiedRoots<'a> {
    project: &'a Path,
    checkout: &'a Path,
    /// The directory on disk, without links.
    original: &'a Path,
    /// Its path in the checkout.
    name: &'a Path,
}

impl CopiedRoots<'_> {
    /// Returns whether everything below was copied.
    fn copy_directory(
        &self,
        inside: &ConfinedDir,
        below: &Path,
        depth: usize,
        left: &mut CopyLimits,
    ) -> Result<bool, FileError> {
        inside.create_dir(&self.name.join(below))?;
        let from = self.original.join(below);
        for child in fs::list_if_exists(&from, MAX_ENTRIES)? {
            let (below, path) = (below.join(&child), from.join(&child));
            let Some(stat) = fs::stat_no_follow(&path) else { continue };
            let is_file = stat.kind == FileKind::File;
            let bytes = if is_file { stat.len } else { 0 };
            if left.files == 0 || left.bytes < bytes || depth == MAX_DEPTH {
                return Ok(false);
            }
            left.files -= 1;
            left.bytes -= bytes;
            let to = self.name.join(&below);
            match stat.kind {
                FileKind::Directory => {
                    if !self.copy_directory(inside, &below, depth + 1, left)? {
                        return Ok(false);
                    }
                }
                FileKind::File => {
                    let is_executable = stat.mode & 0o111 != 0;
                    let kind = if is_executable { CopyKind::Executable } else { CopyKind::File };
                    inside.put_copy(&to, &path, kind)?;
                }
                FileKind::Symlink => inside.put_link(&to, &self.link_target(&path)?)?,
                FileKind::Other => {}
            }
        }
        Ok(true)
    }

    /// Where the copy of a link leads: into the checkout instead of the project, and otherwise where it led.
    fn link_target(&self, link: &Path) -> Result<PathBuf, FileError> {
        let written = fs::read_link(link)?;
        let parent = link.parent().unwrap_or(Path::new("/"));
        let target = remove_dots(&parent.join(&written));
        let moved = if let Ok(below) = target.strip_prefix(self.original) {
            Some(self.checkout.join(self.name).join(below))
        } else {
            target.strip_prefix(self.project).ok().map(|below| self.checkout.join(below))
        };
        // A relative link into what is copied leads to the same place in the copy.
        let is_inside = target.starts_with(self.original)
            || self.original.starts_with(self.project) && target.starts_with(self.project);
        Ok(match moved {
            Some(_) if written.is_relative() && is_inside => written,
            Some(moved) => moved,
            None => target,
        })
    }
}

/// The path without `.` and `..`.
fn remove_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                clean.push(AsRef::<OsStr>::as_ref(&part));
            }
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::Durability;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
    }

    struct SampleCopy {
        _directory: tempfile::TempDir,
        project: PathBuf,
        checkout: PathBuf,
    }

    impl SampleCopy {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = fs::resolve(directory.path()).unwrap();
            let (project, checkout) = (root.join("project"), root.join("checkout"));
            for base in [&project, &checkout] {
                write(&base.join("packages/own/index.js"), "own");
            }
            let tool = project.join("node_modules/tool/cli.js");
            write(&tool, "tool");
            std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
            for (link, target) in [
                ("node_modules/own", "../packages/own".into()),
                ("node_modules/absolute", project.join("packages/own")),
                ("node_modules/.bin/tool", "../tool/cli.js".into()),
                ("node_modules/sh", "/bin/sh".into()),
                ("node_modules/outside", "../../outside".into()),
            ] {
                std::fs::create_dir_all(project.join(link).parent().unwrap()).unwrap();
                symlink::<PathBuf, _>(target, project.join(link)).unwrap();
            }
            write(&root.join("environment/bin/run"), "run");
            symlink(project.join("packages"), root.join("environment/code")).unwrap();
            symlink("bin", root.join("environment/scripts")).unwrap();
            symlink(root.join("environment"), project.join(".venv")).unwrap();
            Self { _directory: directory, project, checkout }
        }

        fn copy(&self, limits: CopyLimits) -> PackageCopy {
            let names = ["node_modules", ".venv"].map(PathBuf::from);
            copy_packages(&self.project, &self.checkout, &names, limits).unwrap()
        }
    }

    /// R-V1g: what a gate writes to the packages of its checkout does not reach the project.
    #[test]
    fn a_checkout_has_packages_of_its_own() {
        let sample = SampleCopy::new();
        assert_eq!(sample.copy(CopyLimits::PACKAGES), PackageCopy::Complete);
        let root = sample.checkout.parent().unwrap();
        let shown = |link: &str| {
            let target = fs::resolve(&sample.checkout.join(link));
            let target =
                target.unwrap_or_else(|| fs::read_link(&sample.checkout.join(link)).unwrap());
            let target = target.strip_prefix(root).unwrap_or(&target);
            format!("{link}: {}", target.display())
        };
        let links = [
            "node_modules/own",
            "node_modules/absolute",
            "node_modules/.bin/tool",
            "node_modules/outside",
            ".venv/code",
            ".venv/scripts",
            ".venv",
        ];
        insta::assert_snapshot!(links.map(shown).join("\n"), @"
        node_modules/own: checkout/packages/own
        node_modules/absolute: checkout/packages/own
        node_modules/.bin/tool: checkout/node_modules/tool/cli.js
        node_modules/outside: outside
        .venv/code: checkout/packages
        .venv/scripts: checkout/.venv/bin
        .venv: checkout/.venv
        ");
        assert_eq!(
            fs::read_link(&sample.checkout.join("node_modules/sh")).unwrap(),
            Path::new("/bin/sh")
        );
        let tool = sample.checkout.join("node_modules/tool/cli.js");
        assert_ne!(std::fs::metadata(&tool).unwrap().permissions().mode() & 0o100, 0);
        for file in ["node_modules/tool/cli.js", ".venv/bin/run"] {
            fs::overwrite(&sample.checkout.join(file), b"changed").unwrap();
            assert_ne!(fs::read(&sample.project.join(file), 100).unwrap(), b"changed");
        }
    }

    #[test]
    fn too_many_files_or_bytes_are_not_copied() {
        for (files, bytes, expected) in [
            (7, 1_000, Some("node_modules")),
            (11, 1_000, Some(".venv")),
            (100, 5, Some(".venv")),
            (100, 3, Some("node_modules")),
            (100, 1_000, None),
        ] {
            let copied = SampleCopy::new().copy(CopyLimits { files, bytes });
            let expected = expected
                .map_or(PackageCopy::Complete, |name| PackageCopy::TooLarge(PathBuf::from(name)));
            assert_eq!(copied, expected, "{files} files, {bytes} bytes");
        }
    }
}
