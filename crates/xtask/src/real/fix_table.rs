//! The published projects and their bug fixes, as data. The form is described in `crates/xtask/real/README.md`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

const TABLES: [(PackageRegistry, &str); 3] = [
    (PackageRegistry::Crates, include_str!("../../real/crates.toml")),
    (PackageRegistry::Npm, include_str!("../../real/npm.toml")),
    (PackageRegistry::Pypi, include_str!("../../real/pypi.toml")),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PackageRegistry {
    Crates,
    Npm,
    Pypi,
}

impl PackageRegistry {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crates => "crates.io",
            Self::Npm => "npm",
            Self::Pypi => "PyPI",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectTable {
    project: Vec<ProjectEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectEntry {
    name: String,
    #[serde(default)]
    ci: bool,
    #[serde(default)]
    install: Vec<String>,
    checksums: BTreeMap<String, String>,
    fix: Vec<PublishedFix>,
}

/// The difference between two published versions, restricted to some files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedFix {
    pub(super) older: String,
    pub(super) newer: String,
    pub(super) about: String,
    pub(super) code: Vec<String>,
    #[serde(default)]
    pub(super) tests: Vec<String>,
    /// Files of `code` whose tests are at their end, from the last `#[cfg(test)]` on.
    #[serde(default)]
    pub(super) inline_tests: Vec<String>,
    /// What the reason of the held stop must contain.
    pub(super) names: String,
    #[serde(default)]
    pub(super) regression: Option<HiddenRegression>,
    /// Whether the newer tests expect what the older ones refuse, so that a person has to look at the change.
    #[serde(default)]
    pub(super) changes_expectations: bool,
    /// Why ralph does not judge this fix as it deserves. The result is recorded as it is, and must stay wrong until this
    /// key is removed.
    #[serde(default)]
    pub(super) known_mistake: Option<String>,
}

/// Damage to what worked before, and the old test that would notice it, which is deleted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HiddenRegression {
    /// A file of the newer code, and a text in it with its replacement.
    pub(super) edit: [String; 3],
    pub(super) delete: String,
}

/// One fix of one project.
#[derive(Clone, Debug)]
pub(super) struct FixCase {
    pub(super) registry: PackageRegistry,
    pub(super) package: String,
    pub(super) in_ci: bool,
    /// Packages of the test environment, as the registry's tool names them.
    pub(super) install: Vec<String>,
    pub(super) older_checksum: String,
    pub(super) newer_checksum: String,
    pub(super) fix: PublishedFix,
}

impl FixCase {
    pub(super) fn label(&self) -> String {
        format!("{} {} → {}", self.package, self.fix.older, self.fix.newer)
    }
}

pub(super) fn load_cases() -> Result<Vec<FixCase>> {
    let mut cases = Vec::new();
    for (registry, text) in TABLES {
        let table: ProjectTable =
            toml::from_str(text).with_context(|| format!("the table of {}", registry.name()))?;
        for project in table.project {
            cases.append(&mut project_cases(registry, project)?);
        }
    }
    Ok(cases)
}

fn project_cases(registry: PackageRegistry, project: ProjectEntry) -> Result<Vec<FixCase>> {
    let ProjectEntry { name, ci, install, checksums, fix } = project;
    let case = |fix: PublishedFix| {
        let checksum = |version: &str| {
            let found = checksums.get(version).cloned();
            found.with_context(|| format!("`{name}` has no checksum of {version}"))
        };
        let (older_checksum, newer_checksum) = (checksum(&fix.older)?, checksum(&fix.newer)?);
        let known = fix.inline_tests.iter().all(|file| fix.code.contains(file));
        ensure!(known, "`{name}`: files with inline tests are files of the code too");
        let has_tests = !(fix.tests.is_empty() && fix.inline_tests.is_empty());
        ensure!(has_tests, "`{name}` {}: the fix has no test", fix.newer);
        ensure!(!fix.names.is_empty(), "`{name}` {}: `names` is empty", fix.newer);
        Ok(FixCase {
            registry,
            package: name.clone(),
            in_ci: ci,
            install: install.clone(),
            older_checksum,
            newer_checksum,
            fix,
        })
    };
    fix.into_iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The least that the tables must show, for a reader of the record to believe the product.
    #[test]
    fn the_tables_cover_every_registry_with_ten_projects_and_twelve_fixes() {
        let cases = load_cases().unwrap();
        let projects: BTreeSet<_> =
            cases.iter().map(|case| (case.registry, &case.package)).collect();
        let in_ci: BTreeSet<_> =
            cases.iter().filter(|case| case.in_ci).map(|case| case.registry).collect();
        assert!(projects.len() >= 10, "{projects:?}");
        assert!(cases.len() >= 12, "{}", cases.len());
        assert_eq!(in_ci.len(), TABLES.len(), "{in_ci:?}");
    }

    #[test]
    fn a_fix_without_a_checksum_or_a_test_is_refused() {
        let entry = |checksums: &str, tests: &str| {
            let text = format!(
                "name = \"a\"\nchecksums = {{ {checksums} }}\n[[fix]]\nolder = \"1\"\nnewer = \"2\"\nabout = \"x\"\ncode = [\"a.py\"]\n{tests}\nnames = \"test_a\"\n"
            );
            toml::from_str::<ProjectEntry>(&text).unwrap()
        };
        let error = |checksums: &str, tests: &str| {
            project_cases(PackageRegistry::Pypi, entry(checksums, tests)).unwrap_err().to_string()
        };
        let both = "1 = \"x\", 2 = \"y\"";
        assert_eq!(error("1 = \"x\"", "tests = [\"t.py\"]"), "`a` has no checksum of 2");
        assert_eq!(error(both, ""), "`a` 2: the fix has no test");
        assert_eq!(
            error(both, "inline_tests = [\"b.rs\"]"),
            "`a`: files with inline tests are files of the code too"
        );
    }
}
