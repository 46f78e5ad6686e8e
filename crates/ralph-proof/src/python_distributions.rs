//! Reads which distribution each changed file of a Python environment belongs to. Installers list the files of a
//! distribution in its `RECORD`, and note in `direct_url.json` if it is installed from a directory.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_sys::fs;

use crate::environment_changes::{
    ChangedInstalledFile, FileDifference, PythonFacts, parse_file_list,
};
use crate::installed_environments::InstalledEnvironments;
use crate::installed_environments::MAX_METADATA_BYTES;
use crate::naming_conventions::file_extension;

const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;
const LIST_SUFFIX: &str = ".dist-info/RECORD";

/// An installed distribution. Paths are those of the record.
struct Distribution<'a> {
    /// The directory that its files are relative to.
    site: &'a str,
    /// `name-version`
    label: &'a str,
    is_kept: bool,
}

impl InstalledEnvironments<'_> {
    /// What the metadata of the distributions says about the changed files.
    pub(crate) fn python_facts(&self, changed: &[ChangedInstalledFile]) -> PythonFacts {
        let mut facts = PythonFacts::default();
        let paths: BTreeSet<&str> = changed.iter().map(|file| file.path.as_str()).collect();
        if !paths.iter().any(|path| path.contains("site-packages/") || path.contains("venv/")) {
            return facts;
        }
        let (before, now) = (self.before.files(), self.now.files());
        for list in now.keys().filter(|path| path.ends_with(LIST_SUFFIX)) {
            let Some(stem) = list.strip_suffix(LIST_SUFFIX) else { continue };
            let Some((site, label)) = stem.rsplit_once('/') else { continue };
            let is_kept = before.get(list).is_some_and(|file| !file.is_unknown());
            let distribution = Distribution { site, label, is_kept };
            let listed = self.read_text(list, MAX_LIST_BYTES).unwrap_or_default();
            let listed: Vec<(String, bool)> = parse_file_list(&listed, site)
                .into_iter()
                .filter(|(path, _)| paths.contains(path.as_str()))
                .collect();
            if self.is_own(&distribution, &paths) {
                facts.own.extend(self.own_files(&distribution, changed, &listed));
            } else if distribution.is_kept {
                let hashed = listed.into_iter().filter(|(_, has_hash)| *has_hash);
                facts.kept.extend(hashed.map(|(path, _)| path));
            } else {
                facts.installed.extend(listed.into_iter().map(|(path, _)| path));
            }
        }
        facts
    }

    /// Whether it is installed from the project, and was so at the start if it was installed then.
    fn is_own(&self, distribution: &Distribution<'_>, changed: &BTreeSet<&str>) -> bool {
        let origin = format!("{}/direct_url.json", distribution.directory());
        let is_claimed_now = distribution.is_kept && changed.contains(origin.as_str());
        let text = self.read_text(&origin, MAX_METADATA_BYTES);
        let origin: Option<serde_json::Value> =
            text.and_then(|text| serde_json::from_str(&text).ok());
        let directory =
            origin.as_ref().and_then(|origin| origin.get("url")?.as_str()?.strip_prefix("file://"));
        !is_claimed_now && directory.is_some_and(|directory| self.is_in_project(directory))
    }

    /// The changed files that an installation of the project writes. Those that could change how tests run are left out.
    fn own_files(
        &self,
        distribution: &Distribution<'_>,
        changed: &[ChangedInstalledFile],
        listed: &[(String, bool)],
    ) -> Vec<String> {
        let (name, site) = (distribution.name(), distribution.site);
        let is_own = |file: &&ChangedInstalledFile| {
            let path = file.path.as_str();
            let Some(below) = path.strip_prefix(site).and_then(|path| path.strip_prefix('/'))
            else {
                return file.difference == FileDifference::Added
                    && listed.iter().any(|(known, _)| known == path);
            };
            let (top, rest) = below.split_once('/').unwrap_or((below, ""));
            if let Some(label) = top.strip_suffix(".dist-info") {
                let registers_plugins = rest == "entry_points.txt"
                    && self
                        .read_text(path, MAX_METADATA_BYTES)
                        .is_none_or(|text| text.contains("pytest11"));
                let is_gone = file.difference == FileDifference::Removed;
                return distribution_name(label) == name && (is_gone || !registers_plugins);
            }
            if matches!(file_extension(top), "pth" | "egg-link") {
                return match file.difference {
                    FileDifference::Removed => top.to_lowercase().contains(&name),
                    FileDifference::Added | FileDifference::Modified => {
                        self.leads_into_project(path)
                    }
                };
            }
            let is_possible = file.difference != FileDifference::Modified || distribution.is_kept;
            is_possible && (top == name || top.strip_suffix(".py") == Some(&name))
        };
        changed.iter().filter(is_own).map(|file| file.path.clone()).collect()
    }

    /// Whether every line is a directory of the project. Other lines of such a file may be code.
    fn leads_into_project(&self, path: &str) -> bool {
        let text = self.read_text(path, MAX_METADATA_BYTES);
        text.is_some_and(|text| {
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.all(|line| line == "." || self.is_in_project(line))
        })
    }

    fn is_in_project(&self, directory: &str) -> bool {
        let project = fs::resolve(self.project);
        let directory = fs::resolve(Path::new(directory));
        directory.zip(project).is_some_and(|(directory, project)| directory.starts_with(project))
    }
}

impl Distribution<'_> {
    fn directory(&self) -> String {
        format!("{}/{}.dist-info", self.site, self.label)
    }

    fn name(&self) -> String {
        distribution_name(self.label)
    }
}

/// The name of its package, as far as both have the same one.
fn distribution_name(label: &str) -> String {
    label.split('-').next().unwrap_or(label).to_lowercase().replace('.', "_")
}
