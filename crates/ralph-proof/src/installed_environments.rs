//! The installed environments of a project on disk, before and now, and the facts in them that explain a change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_sys::fs::{self, FileKind};
use serde_json::Value;

use crate::environment_changes::{
    ChangedInstalledFile, FileDifference, NODE_BIN, NODE_MODULES, PackageFacts, has_component,
    join_below, package_directory,
};
use crate::environment_record::EnvironmentRecord;
use crate::environment_roots::EnvironmentRoot;

pub(crate) const MAX_METADATA_BYTES: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct InstalledEnvironments<'a> {
    pub roots: &'a [EnvironmentRoot],
    pub project: &'a Path,
    pub before: &'a EnvironmentRecord,
    pub now: &'a EnvironmentRecord,
}

impl InstalledEnvironments<'_> {
    /// What the installed packages say about the changed files.
    pub fn package_facts(&self, changed: &[ChangedInstalledFile]) -> PackageFacts {
        PackageFacts {
            python: self.python_facts(changed),
            programs: self.started_packages(changed),
        }
    }

    /// The package that each changed program in `.bin` starts.
    fn started_packages(&self, changed: &[ChangedInstalledFile]) -> BTreeMap<String, String> {
        let programs = changed.iter().filter(|file| {
            has_component(&file.path, NODE_BIN) && file.difference != FileDifference::Removed
        });
        let started = programs.filter_map(|file| {
            let (directory, name) = file.path.rsplit_once('/')?;
            let on_disk = self.on_disk(&file.path)?;
            let package = match fs::stat_no_follow(&on_disk)?.kind {
                FileKind::Symlink => {
                    let target = fs::read_link(&on_disk).ok()?;
                    let target = join_below(directory, target.to_str()?)?;
                    package_directory(&target)?.to_string()
                }
                // pnpm and yarn write scripts.
                FileKind::File => self.declaring_package(directory, name, changed)?,
                FileKind::Directory | FileKind::Other => return None,
            };
            Some((file.path.clone(), package))
        });
        started.collect()
    }

    /// The changed package beside `.bin` whose manifest declares a program of this name.
    fn declaring_package(
        &self,
        directory: &str,
        name: &str,
        changed: &[ChangedInstalledFile],
    ) -> Option<String> {
        let modules = directory.strip_suffix(NODE_BIN)?;
        let manifests = changed.iter().filter_map(|file| {
            let package = file.path.strip_suffix("/package.json")?;
            let is_beside = package.strip_prefix(modules).is_some_and(|rest| {
                !has_component(rest, NODE_MODULES) || has_component(rest, ".pnpm")
            });
            (is_beside && package_directory(&file.path) == Some(package)).then_some(package)
        });
        let declares = |package: &&str| {
            let text = self.read_text(&format!("{package}/package.json"), MAX_METADATA_BYTES);
            let manifest: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
            manifest.is_some_and(|manifest| declares_program(&manifest, name))
        };
        manifests.into_iter().find(declares).map(ToString::to_string)
    }

    pub(crate) fn read_text(&self, path: &str, cap: usize) -> Option<String> {
        let bytes = fs::read(&self.on_disk(path)?, cap).ok()?;
        String::from_utf8(bytes).ok()
    }

    fn on_disk(&self, path: &str) -> Option<PathBuf> {
        self.roots.iter().find_map(|root| {
            let below = path.strip_prefix(&root.name)?.strip_prefix('/')?;
            Some(root.path.join(below))
        })
    }
}

/// A package with a single program may give only its path; its name is that of the package then.
fn declares_program(manifest: &Value, name: &str) -> bool {
    match manifest.get("bin") {
        Some(Value::Object(programs)) => programs.contains_key(name),
        Some(Value::String(_)) => {
            let package = manifest.get("name").and_then(Value::as_str).unwrap_or_default();
            package.rsplit('/').next() == Some(name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_declares_its_programs() {
        let rows = [
            (r#"{"name":"a","bin":{"b":"cli.js"}}"#, "b", true),
            (r#"{"name":"a","bin":{"b":"cli.js"}}"#, "a", false),
            (r#"{"name":"@s/a","bin":"cli.js"}"#, "a", true),
            (r#"{"name":"a"}"#, "a", false),
        ];
        for (manifest, name, expected) in rows {
            let manifest = serde_json::from_str(manifest).unwrap();
            assert_eq!(declares_program(&manifest, name), expected, "{manifest} {name}");
        }
    }
}
