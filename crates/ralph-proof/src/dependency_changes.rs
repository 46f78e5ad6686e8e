//! Which ecosystems a change declares other dependencies for, by the parsed content of manifests and lock files. Layout,
//! comments and everything else that a manifest contains do not count.

use std::collections::BTreeSet;

use ralph_check::FileChange;
use serde_json::{Map, Value};

use crate::file_class::FileClass;
use crate::naming_conventions::classify_by_name;
use crate::tree_changes::{FileChangeKind, TreeChanges};

/// The keys of `package.json` that decide which packages are installed.
const PACKAGE_KEYS: [&str; 10] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "overrides",
    "resolutions",
    "pnpm",
    "workspaces",
];
/// The lock files of npm, whose keys are the paths of the installed packages.
pub const NPM_LOCKS: [&str; 2] = ["npm-shrinkwrap.json", "package-lock.json"];

/// A family of package managers that install into the same directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageEcosystem {
    Node,
    Python,
    Ruby,
}

/// How to read the dependencies of a manifest.
#[derive(Clone, Copy)]
enum ManifestFormat {
    PackageJson,
    NpmLock,
    PipfileLock,
    Pyproject,
    Pipfile,
    /// `uv.lock`, `poetry.lock` and `pdm.lock`.
    PythonLock,
    SetupCfg,
    /// Every line that is not a comment.
    Lines,
    Binary,
}

/// The declared dependencies that differ between two versions of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DependencyChanges {
    ecosystems: BTreeSet<PackageEcosystem>,
    /// The entries of npm's lock file that differ, if it has entries for each installed package and is in the project's
    /// own directory.
    npm_lock: Option<ChangedLock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ChangedLock {
    before: Map<String, Value>,
    after: Map<String, Value>,
}

impl DependencyChanges {
    pub fn find(changes: &TreeChanges) -> Self {
        let mut found = Self::default();
        for text in changes.texts() {
            found.add(&text);
        }
        // The content of a binary or very large lock file is not known, so any change of it counts.
        let unreadable =
            changes.all.iter().filter(|one| !one.is_text() && one.kind != FileChangeKind::Deleted);
        for file in unreadable.filter(|one| !is_test_data(&one.path)) {
            found.ecosystems.extend(manifest_format(&file.path).map(|(ecosystem, _)| ecosystem));
        }
        found
    }

    fn add(&mut self, text: &FileChange<'_>) {
        let Some((ecosystem, format)) = manifest_format(text.path) else { return };
        if is_test_data(text.path) {
            return;
        }
        let before = text.before.and_then(|text| format.dependencies(text));
        let after = text.after.and_then(|text| format.dependencies(text));
        if after.is_some() && before != after {
            self.ecosystems.insert(ecosystem);
        }
        if NPM_LOCKS.contains(&text.path)
            && let Some(after) = text.after.and_then(lock_entries)
        {
            let before = text.before.and_then(lock_entries).unwrap_or_default();
            self.npm_lock = Some(ChangedLock { before, after });
        }
    }

    /// Adds the lock file of npm as it is in the project, if the change does not touch it.
    #[must_use]
    pub fn with_unchanged_lock(mut self, text: &str) -> Self {
        if self.npm_lock.is_none() {
            let entries = lock_entries(text);
            self.npm_lock =
                entries.map(|entries| ChangedLock { before: entries.clone(), after: entries });
        }
        self
    }

    pub fn is_empty(&self) -> bool {
        self.ecosystems.is_empty()
    }

    pub fn includes(&self, ecosystem: PackageEcosystem) -> bool {
        self.ecosystems.contains(&ecosystem)
    }

    pub(crate) fn has_lock(&self) -> bool {
        self.npm_lock.is_some()
    }

    /// Whether the lock file installs another package into this directory; `None` if it never had an entry for it.
    pub(crate) fn is_relocked(&self, directory: &str) -> Option<bool> {
        let ChangedLock { before, after } = self.npm_lock.as_ref()?;
        let (before, after) = (before.get(directory), after.get(directory));
        // Other fields, such as the licence, do not change what is installed.
        let installs = |entry: Option<&Value>| {
            let entry = entry?.as_object()?;
            Some(["version", "resolved", "integrity", "link"].map(|key| entry.get(key).cloned()))
        };
        let is_other =
            || before.is_some() != after.is_some() || installs(before) != installs(after);
        (before.is_some() || after.is_some()).then(is_other)
    }
}

/// A manifest among the tests describes a project that only they use.
fn is_test_data(path: &str) -> bool {
    matches!(classify_by_name(path), Some((FileClass::Tests | FileClass::Environment, _)))
}

fn manifest_format(path: &str) -> Option<(PackageEcosystem, ManifestFormat)> {
    use ManifestFormat as Format;
    use PackageEcosystem::{Node, Python, Ruby};
    let name = path.rsplit('/').next().unwrap_or(path);
    Some(match name {
        "package.json" => (Node, Format::PackageJson),
        "package-lock.json" | "npm-shrinkwrap.json" => (Node, Format::NpmLock),
        "pnpm-lock.yaml" | "pnpm-workspace.yaml" | "yarn.lock" | "bun.lock" => {
            (Node, Format::Lines)
        }
        "bun.lockb" => (Node, Format::Binary),
        "pyproject.toml" => (Python, Format::Pyproject),
        "Pipfile" => (Python, Format::Pipfile),
        "Pipfile.lock" => (Python, Format::PipfileLock),
        "uv.lock" | "poetry.lock" | "pdm.lock" => (Python, Format::PythonLock),
        "setup.cfg" => (Python, Format::SetupCfg),
        "setup.py" => (Python, Format::Lines),
        "Gemfile" | "Gemfile.lock" => (Ruby, Format::Lines),
        _ => {
            let stem = name.strip_suffix(".txt").or_else(|| name.strip_suffix(".in"))?;
            let is_requirements = stem.starts_with("requirements")
                || stem.ends_with("requirements")
                || path.contains("requirements/");
            return is_requirements.then_some((Python, Format::Lines));
        }
    })
}

impl ManifestFormat {
    /// Everything in the text that decides which packages are installed; `None` if it cannot be parsed.
    fn dependencies(self, text: &str) -> Option<Value> {
        match self {
            Self::PackageJson => Some(select_keys(parse_json(text)?, &PACKAGE_KEYS)),
            Self::NpmLock => {
                let mut lock = parse_json(text)?;
                if let Some(Value::Object(packages)) = lock.get_mut("packages") {
                    // The project itself, of which `package.json` declares the dependencies.
                    packages.remove("");
                }
                Some(select_keys(lock, &["packages", "dependencies"]))
            }
            Self::PipfileLock => Some(select_keys(parse_json(text)?, &["default", "develop"])),
            Self::Pyproject => Some(pyproject_dependencies(parse_toml(text)?)),
            Self::Pipfile => {
                Some(select_keys(parse_toml(text)?, &["packages", "dev-packages", "requires"]))
            }
            Self::PythonLock => Some(locked_packages(&parse_toml(text)?)),
            Self::SetupCfg => Some(option_lines(text)),
            Self::Lines => Some(text_lines(text.lines())),
            Self::Binary => Some(Value::String(text.to_string())),
        }
    }
}

fn parse_json(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn parse_toml(text: &str) -> Option<Map<String, Value>> {
    toml::from_str(text).ok()
}

/// Empty sections are the same as missing ones.
fn select_keys(mut all: Map<String, Value>, keys: &[&str]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    let chosen = keys.iter().filter_map(|key| Some((key.to_string(), all.remove(*key)?)));
    Value::Object(chosen.filter(|(_, value)| !is_empty(value)).collect())
}

fn pyproject_dependencies(mut all: Map<String, Value>) -> Value {
    let mut take = |path: &[&str]| {
        let (last, parents) = path.split_last()?;
        let mut table = &mut all;
        for parent in parents {
            table = table.get_mut(*parent)?.as_object_mut()?;
        }
        table.remove(*last)
    };
    let paths: [&[&str]; 12] = [
        &["project", "dependencies"],
        &["project", "optional-dependencies"],
        &["project", "requires-python"],
        &["dependency-groups"],
        &["build-system", "requires"],
        &["tool", "poetry", "dependencies"],
        &["tool", "poetry", "dev-dependencies"],
        &["tool", "poetry", "group"],
        &["tool", "poetry", "extras"],
        &["tool", "uv"],
        &["tool", "pdm", "dev-dependencies"],
        &["tool", "hatch", "envs"],
    ];
    let found = paths.iter().filter_map(|path| Some((path.join("."), take(path)?)));
    let all = found.collect();
    let keys: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
    select_keys(all, &keys.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The packages of a lock file without those that are part of the project, whose version changes with it.
fn locked_packages(all: &Map<String, Value>) -> Value {
    let is_own = |package: &&Value| {
        let source = package.get("source");
        let has = |key| source.is_some_and(|source: &Value| source.get(key).is_some());
        has("editable") || has("virtual")
    };
    let packages = all.get("package").and_then(Value::as_array);
    packages.into_iter().flatten().filter(|package| !is_own(package)).cloned().collect()
}

/// The sections `options` and `options.*` of `setup.cfg`.
fn option_lines(text: &str) -> Value {
    let mut is_inside = false;
    text_lines(text.lines().filter(|line| {
        if line.starts_with('[') {
            is_inside = line.starts_with("[options");
        }
        is_inside
    }))
}

fn text_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Value {
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']);
    lines.map(|line| line.split(" #").next().unwrap_or(line).trim()).filter(is_content).collect()
}

/// One entry for each installed package, by its directory. Old lock files have none.
fn lock_entries(text: &str) -> Option<Map<String, Value>> {
    match parse_json(text)?.remove("packages") {
        Some(Value::Object(entries)) => Some(entries),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, before: Option<&str>, after: Option<&str>) -> DependencyChanges {
        let mut found = DependencyChanges::default();
        found.add(&FileChange { path, before, after, added: &[] });
        found
    }

    /// Only the parsed dependencies count, not the text around them.
    #[test]
    fn a_manifest_declares_other_dependencies_or_not() {
        let rows = [
            ("package.json", "{}", "{ }\n", false),
            ("package.json", "{}", r#"{"scripts":{"test":"tap"},"version":"2"}"#, false),
            ("package.json", "{}", r#"{"dependencies":{}}"#, false),
            ("package.json", "{}", r#"{"devDependencies":{"a":"1"}}"#, true),
            ("web/package.json", r#"{"dependencies":{"a":"1"}}"#, "{}", true),
            ("package.json", "{}", "{", false),
            ("test/fixtures/package.json", "{}", r#"{"dependencies":{"a":"1"}}"#, false),
            (
                "package-lock.json",
                r#"{"packages":{"":{"version":"1"}}}"#,
                r#"{"packages":{"":{"version":"2"}}}"#,
                false,
            ),
            (
                "package-lock.json",
                r#"{"packages":{}}"#,
                r#"{"packages":{"node_modules/a":{}}}"#,
                true,
            ),
            ("yarn.lock", "# v1\na@1:\n", "# v2\n\na@1:\n", false),
            ("yarn.lock", "a@1:\n", "a@2:\n", true),
            ("requirements.txt", "a==1\n", "\na==1  # why\n", false),
            ("requirements-dev.txt", "a==1\n", "a==2\n", true),
            ("notes.txt", "a==1\n", "a==2\n", false),
            (
                "pyproject.toml",
                "[project]\nversion = \"1\"\n",
                "[project]\nversion = \"2\"\n[tool.ruff]\n",
                false,
            ),
            ("pyproject.toml", "[project]\n", "[project]\ndependencies = [\"a\"]\n", true),
            ("pyproject.toml", "", "[tool.poetry.group.dev.dependencies]\na = \"1\"\n", true),
            ("pyproject.toml", "", "dependencies = [", false),
            ("uv.lock", "", "[[package]]\nname = \"own\"\nsource = { editable = \".\" }\n", false),
            (
                "uv.lock",
                "[[package]]\nname = \"own\"\nversion = \"1\"\nsource = { editable = \".\" }\n",
                "[[package]]\nname = \"own\"\nversion = \"2\"\nsource = { editable = \".\" }\n",
                false,
            ),
            ("poetry.lock", "[metadata]\nx = 1\n", "[[package]]\nname = \"a\"\n", true),
            (
                "setup.cfg",
                "[options]\ninstall_requires = a\n",
                "[options]\ninstall_requires = a\n[tool:pytest]\nx = 1\n",
                false,
            ),
            ("setup.cfg", "", "[options]\ninstall_requires = a\n", true),
            ("Pipfile.lock", r#"{"_meta":1}"#, r#"{"_meta":2,"default":{"a":{}}}"#, true),
            ("Gemfile.lock", "a (1)\n", "a (2)\n", true),
            ("src/app.py", "1", "2", false),
        ];
        for (path, before, after, expected) in rows {
            let is_changed = !changed(path, Some(before), Some(after)).is_empty();
            assert_eq!(is_changed, expected, "{path}: {before} → {after}");
        }
        assert!(changed("requirements.txt", Some("a\n"), None).is_empty());
        assert!(!changed("requirements.txt", None, Some("a\n")).is_empty());
    }

    #[test]
    fn the_lock_of_npm_names_the_packages_that_change() {
        let (before, after) = (
            r#"{"packages":{"":{},"node_modules/a":{"version":"1"},"node_modules/b":{}}}"#,
            r#"{"packages":{"":{},"node_modules/a":{"version":"2"},"node_modules/b":{}}}"#,
        );
        let found = changed("package-lock.json", Some(before), Some(after));
        assert_eq!(
            ["a", "b", "c"].map(|name| found.is_relocked(&format!("node_modules/{name}"))),
            [Some(true), Some(false), None]
        );
        let unchanged = DependencyChanges::default().with_unchanged_lock(before);
        assert_eq!(unchanged.is_relocked("node_modules/a"), Some(false));
        assert!(!DependencyChanges::default().with_unchanged_lock("{}").has_lock());
    }
}
