//! Where a command looks for tests. A canary outside of it would not run, which looks like a harness that cannot fail.

use std::path::Path;

use ralph_core::gate::{Gate, GateInvocation};
use ralph_gates::gates::result_key::compile_globs;
use toml::{Table, Value};

use ralph_gates::test_runner::TestRunner;

/// Decides which example tests a gate runs. Paths are relative to the project.
pub(crate) struct CanaryScope<'a> {
    gate: &'a Gate,
    runner: TestRunner,
    paths: &'a [&'a str],
    /// The manifest of the package or workspace in the gate's directory.
    manifest: Option<Table>,
    /// Where the command or its settings say that tests are; empty if they don't.
    directories: Vec<String>,
}

impl<'a> CanaryScope<'a> {
    pub(crate) fn new(
        gate: &'a Gate,
        runner: TestRunner,
        paths: &'a [&'a str],
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let manifest = match runner {
            TestRunner::Cargo | TestRunner::Nextest => Some("Cargo.toml"),
            TestRunner::Pytest => Some("pyproject.toml"),
            TestRunner::Unittest
            | TestRunner::Go
            | TestRunner::Jest
            | TestRunner::Vitest
            | TestRunner::Mocha
            | TestRunner::Ava
            | TestRunner::NodeTest
            | TestRunner::Bats => None,
        };
        let in_cwd = |name: &str| Path::new(&gate.cwd).join(name).to_str().map(ToString::to_string);
        let manifest = manifest.and_then(in_cwd).and_then(|path| read(&path)?.parse().ok());
        let mut scope = Self { gate, runner, paths, manifest, directories: Vec::new() };
        scope.directories = scope.named_directories();
        if scope.directories.is_empty() && runner == TestRunner::Pytest {
            scope.directories = scope.pytest_directories();
        }
        scope
    }

    /// Whether the runner can run tests beside `path` at all.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let Ok(below) = Path::new(path).strip_prefix(&self.gate.cwd) else { return false };
        let parent = below.parent().and_then(Path::to_str).unwrap_or_default();
        match self.runner {
            TestRunner::Cargo | TestRunner::Nextest => self.is_tested_package(parent),
            TestRunner::Go => !self.is_outside_module(below),
            TestRunner::Pytest
            | TestRunner::Unittest
            | TestRunner::Jest
            | TestRunner::Vitest
            | TestRunner::Mocha
            | TestRunner::Ava
            | TestRunner::NodeTest
            | TestRunner::Bats => true,
        }
    }

    /// Whether `path` is where the command or its settings say that tests are. A word of a command may be the name of a
    /// directory by chance, so this only chooses between files.
    pub(crate) fn prefers(&self, path: &str) -> bool {
        let below = Path::new(path).strip_prefix(&self.gate.cwd).unwrap_or(Path::new(path));
        self.directories.is_empty()
            || self.directories.iter().any(|directory| below.starts_with(directory))
    }

    /// The position of the last word of the command that names a file with tests: `pytest tests/test_a.py::test_b`
    pub(crate) fn last_named_file(&self) -> Option<usize> {
        let names_file = |word: &String| {
            let file = word.split("::").next().unwrap_or(word);
            let file = Path::new(&self.gate.cwd).join(file.strip_prefix("./").unwrap_or(file));
            self.paths
                .iter()
                .any(|path| Path::new(path) == file && crate::canary::is_example(self.runner, path))
        };
        self.words().iter().rposition(names_file)
    }

    fn words(&self) -> &'a [String] {
        match &self.gate.command {
            GateInvocation::Argv(words) => words,
            GateInvocation::Shell(_) => &[],
        }
    }

    /// `pytest tests/unit`, but not `npm test`
    fn named_directories(&self) -> Vec<String> {
        let program = self.words().first().map_or("", String::as_str);
        if matches!(program, "npm" | "pnpm" | "yarn" | "bun") {
            return Vec::new();
        }
        let is_directory = |word: &String| {
            let directory = Path::new(&self.gate.cwd).join(word);
            self.paths.iter().any(|path| {
                let path = Path::new(path);
                path != directory && path.starts_with(&directory)
            })
        };
        let words = self.words().iter().skip(1).filter(|word| !word.starts_with('-'));
        words
            .map(|word| plain_directory(word))
            .filter(|word| !word.is_empty() && is_directory(word))
            .collect()
    }

    fn pytest_directories(&self) -> Vec<String> {
        let settings = self.manifest.as_ref().and_then(|manifest| {
            manifest.get("tool")?.get("pytest")?.get("ini_options")?.get("testpaths")
        });
        match settings {
            Some(Value::String(paths)) => paths.split_whitespace().map(plain_directory).collect(),
            Some(paths) => strings(Some(paths)),
            None => Vec::new(),
        }
    }

    /// `cargo test` runs the default members of a workspace, else the package of the directory, else all members.
    fn is_tested_package(&self, directory: &str) -> bool {
        let Some(manifest) = &self.manifest else { return true };
        let list = |key: &str| manifest.get("workspace").and_then(|workspace| workspace.get(key));
        let is_in = |key: &str| compile_globs(&strings(list(key))).is_match(directory);
        let is_root = directory.is_empty() && manifest.contains_key("package");
        let runs_all = self.words().iter().any(|word| word == "--workspace" || word == "--all");
        if !runs_all && list("default-members").is_some() {
            return is_in("default-members");
        }
        if !runs_all && manifest.contains_key("package") {
            return is_root;
        }
        is_root || is_in("members") && !is_in("exclude")
    }

    /// `go` ignores these directories, and those of other modules.
    fn is_outside_module(&self, below: &Path) -> bool {
        let is_ignored = |name: &str| name == "testdata" || name.starts_with(['.', '_']);
        let is_outside = |directory: &Path| {
            let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let module = Path::new(&self.gate.cwd).join(directory).join("go.mod");
            is_ignored(name) || self.paths.iter().any(|path| Path::new(path) == module)
        };
        let directories = below.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
        directories.into_iter().any(is_outside)
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(plain_directory).collect()
}

/// `./tests/` and `tests/...` are `tests`; `.` is empty.
fn plain_directory(word: &str) -> String {
    let word = word.strip_suffix("...").unwrap_or(word).trim_end_matches('/');
    let word = word.strip_prefix("./").unwrap_or(word);
    if word == "." { String::new() } else { word.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files in which a canary may be, those that are preferred with a `+`.
    fn scope(line: &str, runner: TestRunner, manifest: &str, paths: &[&str]) -> String {
        let words = line.split(' ').map(ToString::to_string).collect();
        let gate = Gate::new("tests", GateInvocation::Argv(words));
        let read = |_: &str| Some(manifest.to_string());
        let scope = CanaryScope::new(&gate, runner, paths, &read);
        let contained = paths.iter().filter(|path| scope.contains(path));
        let marked = contained
            .map(|path| if scope.prefers(path) { format!("+{path}") } else { (*path).to_string() });
        marked.collect::<Vec<_>>().join(" ")
    }

    /// R-V1c: a canary that the command would not run says nothing about the harness.
    #[test]
    fn cargo_tests_the_packages_of_its_directory() {
        let paths = ["Cargo.toml", "crates/a/Cargo.toml", "tests/crate/Cargo.toml"];
        let package = "[package]\nname = \"a\"\n";
        let members = "[workspace]\nmembers = [\"./crates/*\"]\n";
        let both = format!("{package}{members}");
        let defaults = format!("{both}default-members = [\".\", \"crates/a\"]\n");
        let excluded = format!("{members}exclude = [\"crates/a\"]\n");
        for (line, manifest, expected) in [
            ("cargo test", package, "+Cargo.toml"),
            ("cargo test", members, "+crates/a/Cargo.toml"),
            ("cargo test", both.as_str(), "+Cargo.toml"),
            ("cargo test --workspace", &both, "+Cargo.toml +crates/a/Cargo.toml"),
            ("cargo test", &defaults, "+Cargo.toml +crates/a/Cargo.toml"),
            ("cargo test", &excluded, ""),
        ] {
            assert_eq!(scope(line, TestRunner::Cargo, manifest, &paths), expected, "{manifest}");
        }
    }

    #[test]
    fn go_tests_one_module() {
        let paths =
            ["a_test.go", "b/b_test.go", "b/testdata/c_test.go", "tools/go.mod", "tools/d_test.go"];
        let found = scope("go test ./...", TestRunner::Go, "", &paths);
        assert_eq!(found, "+a_test.go +b/b_test.go");
    }

    #[test]
    fn named_directories_are_preferred() {
        let paths = ["tests/test_a.py", "tools/test_b.py"];
        let testpaths = "[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n";
        for (line, manifest, expected) in [
            ("pytest", "", "+tests/test_a.py +tools/test_b.py"),
            ("pytest ./tools/", testpaths, "tests/test_a.py +tools/test_b.py"),
            ("pytest -q", testpaths, "+tests/test_a.py tools/test_b.py"),
            ("npm tests", "", "+tests/test_a.py +tools/test_b.py"),
        ] {
            assert_eq!(scope(line, TestRunner::Pytest, manifest, &paths), expected, "{line}");
        }
    }
}
