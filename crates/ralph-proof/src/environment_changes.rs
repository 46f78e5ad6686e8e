//! Which changes of installed packages the declared dependencies do not explain. Nothing here reads files; the facts
//! that it takes from the packages themselves are in [`PackageFacts`].

use std::collections::{BTreeMap, BTreeSet};

use crate::dependency_changes::{DependencyChanges, PackageEcosystem};
use crate::environment_record::{EnvironmentRecord, RecordedFile};

/// How many packages a description names.
const MAX_NAMED: usize = 3;
const SITE_PACKAGES: &str = "site-packages";
pub(crate) const NODE_MODULES: &str = "node_modules";
/// The directory in `node_modules` with links to the programs of packages, or scripts that start them.
pub(crate) const NODE_BIN: &str = ".bin";

/// A file of an environment that differs from the record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedInstalledFile {
    pub path: String,
    pub difference: FileDifference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileDifference {
    Added,
    Modified,
    Removed,
}

/// A package with changes that no declared dependency explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPackage {
    /// The directory of the package, or a file outside of packages.
    pub path: String,
    /// The first changed file in it.
    pub file: String,
    pub difference: FileDifference,
}

/// What the installed packages say about changed files. Paths are those of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageFacts {
    pub python: PythonFacts,
    /// The changed files in `.bin` of `node_modules`, with the directory of the package that each of them starts.
    pub programs: BTreeMap<String, String>,
}

/// What the metadata of installed Python packages says about changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonFacts {
    /// Files of distributions that are installed in the version of the record.
    pub kept: BTreeSet<String>,
    /// Files of distributions that are not in the record.
    pub installed: BTreeSet<String>,
    /// Files that an installation of the project itself writes.
    pub own: BTreeSet<String>,
}

/// The files that differ, in the environments that the record has. One that did not exist then has nothing to be
/// compared with.
pub fn compare_records(
    before: &EnvironmentRecord,
    now: &EnvironmentRecord,
) -> Vec<ChangedInstalledFile> {
    let (old, new) = (before.files(), now.files());
    let is_compared =
        |path: &str| before.roots().iter().any(|root| is_below(path, root)) && !path.is_empty();
    let mut changed = Vec::new();
    let mut add = |path: &String, difference| {
        changed.push(ChangedInstalledFile { path: path.clone(), difference });
    };
    for (path, file) in &old {
        match new.get(path) {
            Some(other) if file.has_content_of(other) || is_relinked(file, other) => {}
            // It may not have existed when the run began.
            Some(_) if file.is_unknown() => add(path, FileDifference::Added),
            Some(_) => add(path, FileDifference::Modified),
            None if is_workspace_link(path, file) => {}
            None => add(path, FileDifference::Removed),
        }
    }
    for (path, file) in new.iter().filter(|(path, _)| !old.contains_key(*path)) {
        if is_compared(path) && !is_workspace_link(path, file) {
            add(path, FileDifference::Added);
        }
    }
    changed.sort();
    changed
}

/// The packages of a workspace are code of the project, and checkouts have their own.
fn is_relinked(old: &RecordedFile, new: &RecordedFile) -> bool {
    old.is_project_link() && new.is_project_link()
}

fn is_workspace_link(path: &str, file: &RecordedFile) -> bool {
    // Deeper links would take precedence over installed packages.
    let is_top = package_directory(path) == Some(path) && path.matches(NODE_MODULES).count() == 1;
    file.is_project_link() && is_top
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// The packages whose changes are not explained, each with its first changed file.
pub fn unexplained_packages(
    changed: &[ChangedInstalledFile],
    dependencies: &DependencyChanges,
    facts: &PackageFacts,
) -> Vec<ChangedPackage> {
    let paths = changed.iter().map(|file| file.path.as_str());
    let manifests: BTreeSet<&str> =
        paths.filter_map(|path| path.strip_suffix("/package.json")).collect();
    let is_explained = |file: &ChangedInstalledFile| {
        if has_component(&file.path, NODE_BIN) {
            // A program that is gone can run nothing.
            dependencies.includes(PackageEcosystem::Node)
                && (file.difference == FileDifference::Removed
                    || facts.programs.get(&file.path).is_some_and(|package| {
                        is_node_file_explained(package, dependencies, &manifests)
                    }))
        } else if has_component(&file.path, NODE_MODULES) {
            is_node_file_explained(&file.path, dependencies, &manifests)
        } else if has_component(&file.path, "bundle") || has_component(&file.path, ".bundle") {
            dependencies.includes(PackageEcosystem::Ruby)
        } else {
            facts.python.explains(file, dependencies)
        }
    };
    let mut found: BTreeMap<&str, ChangedPackage> = BTreeMap::new();
    for file in changed.iter().filter(|file| !is_explained(file)) {
        let package = package_directory(&file.path).unwrap_or(&file.path);
        found.entry(package).or_insert_with(|| ChangedPackage {
            path: package.to_string(),
            file: file.path.clone(),
            difference: file.difference,
        });
    }
    found.into_values().collect()
}

/// A package manager changes a package together with its entry in the lock file of npm, or else together with the
/// version in its own manifest.
fn is_node_file_explained(
    path: &str,
    dependencies: &DependencyChanges,
    manifests: &BTreeSet<&str>,
) -> bool {
    if !dependencies.includes(PackageEcosystem::Node) {
        return false;
    }
    // A package may contain a directory with the name of another one, so all enclosing packages count.
    let mut enclosing = enclosing_packages(path);
    if dependencies.has_lock() && !has_component(path, ".pnpm") {
        enclosing.find_map(|directory| dependencies.is_relocked(directory)).unwrap_or(false)
    } else {
        enclosing.any(|directory| manifests.contains(directory))
    }
}

impl PythonFacts {
    fn explains(&self, file: &ChangedInstalledFile, dependencies: &DependencyChanges) -> bool {
        let path = &file.path;
        if self.own.contains(path) {
            return true;
        }
        if !dependencies.includes(PackageEcosystem::Python) {
            return false;
        }
        if self.installed.contains(path) {
            return true;
        }
        let is_code = ["py", "pth", "pyc", "so", "pyd", "egg-link"]
            .iter()
            .any(|known| path.rsplit_once('.').is_some_and(|(_, extension)| extension == *known));
        // Installers list all code and programs that they write.
        let is_unlisted_data = !is_code && has_component(path, SITE_PACKAGES);
        !self.kept.contains(path)
            && (file.difference == FileDifference::Removed || is_unlisted_data)
    }
}

/// The files that the list of a distribution (`RECORD`) names, and whether it has a hash of each. `directory` is the one
/// that the paths are relative to.
pub fn parse_file_list(text: &str, directory: &str) -> Vec<(String, bool)> {
    let line = |line: &str| {
        let (path, rest) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\",")?,
            None => line.split_once(',')?,
        };
        Some((join_below(directory, path)?, !rest.starts_with(',')))
    };
    text.lines().filter_map(line).collect()
}

/// A path below a directory, without `.` and `..`. `None` if it is absolute or leads out of the root.
pub(crate) fn join_below(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// `installed packages changed, and no declared dependency explains it: node_modules/a (index.js changed) and 3 more`
pub fn describe_packages(packages: &[ChangedPackage]) -> String {
    let named = |package: &ChangedPackage| {
        let ChangedPackage { path, file, difference } = package;
        let verb = match difference {
            FileDifference::Added => "added",
            FileDifference::Modified => "changed",
            FileDifference::Removed => "removed",
        };
        match file.strip_prefix(path.as_str()).and_then(|below| below.strip_prefix('/')) {
            Some(below) => format!("{path} ({below} {verb})"),
            None => format!("{path} ({verb})"),
        }
    };
    let shown: Vec<String> = packages.iter().take(MAX_NAMED).map(named).collect();
    let more = match packages.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "installed packages changed, and no declared dependency explains it: {}{more}",
        shown.join(", ")
    )
}

pub(crate) fn has_component(path: &str, name: &str) -> bool {
    path.split('/').any(|part| part == name)
}

/// The innermost package that the file belongs to.
pub(crate) fn package_directory(path: &str) -> Option<&str> {
    enclosing_packages(path).next().or_else(|| {
        let at = path.find(&format!("{SITE_PACKAGES}/"))? + SITE_PACKAGES.len() + 1;
        let end = path.get(at..)?.find('/').map_or(path.len(), |end| at + end);
        path.get(..end)
    })
}

/// The directories of the packages around a file in `node_modules`, the innermost first.
fn enclosing_packages(path: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> = path
        .match_indices(NODE_MODULES)
        .filter(|(at, _)| *at == 0 || path.as_bytes().get(at - 1) == Some(&b'/'))
        .map(|(at, _)| at + NODE_MODULES.len())
        .filter(|end| path.as_bytes().get(*end) == Some(&b'/'))
        .collect();
    starts.into_iter().rev().filter_map(|end| {
        let name = path.get(end + 1..)?;
        let parts = if name.starts_with('@') { 2 } else { 1 };
        let length: usize = name.split('/').take(parts).map(|part| part.len() + 1).sum();
        path.get(..end + length)
    })
}

#[cfg(test)]
mod tests;
