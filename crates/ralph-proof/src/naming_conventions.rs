//! Classifies files by the naming conventions of each ecosystem. The outermost directory decides:
//! `tests/fixtures/node_modules/a.js` is test data, `node_modules/a/tests/a.js` is an installed dependency.

use crate::file_class::FileClass;
use ralph_check::tool_settings::{is_ci_file, is_command_file, is_tool_settings};
use ralph_check::{Language, contains_only_tests};

/// A class and the reason for it, as in [`ClassReason::Convention`](crate::file_class::ClassReason::Convention).
type NamedClass = (FileClass, &'static str);

/// Manifests of which only some sections decide how tests run. Their sections are merged, so they count as code.
pub(crate) const MIXED_MANIFESTS: [&str; 7] = [
    "package.json",
    "pyproject.toml",
    "Cargo.toml",
    "setup.cfg",
    "composer.json",
    "deno.json",
    "deno.jsonc",
];

/// Build files that declare both code and tests, in a language whose sections cannot be merged.
pub(crate) const MIXED_BUILD_FILES: [&str; 11] = [
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "build.sbt",
    "CMakeLists.txt",
    "meson.build",
    "BUILD",
    "BUILD.bazel",
    "build.zig",
    "mix.exs",
    "Package.swift",
];

/// Directories that package managers, compilers and interpreters create.
const ENVIRONMENT_DIRECTORIES: [(&str, &str); 13] = [
    ("node_modules", INSTALLED),
    (".venv", INSTALLED),
    ("venv", INSTALLED),
    ("site-packages", INSTALLED),
    ("__pypackages__", INSTALLED),
    (".tox", INSTALLED),
    (".nox", INSTALLED),
    (".bundle", INSTALLED),
    (".yarn", INSTALLED),
    (".gradle", BUILT),
    ("__pycache__", BUILT),
    (".pytest_cache", BUILT),
    (".mypy_cache", BUILT),
];
/// Why a file counts as tests if its name alone shows it.
pub(crate) const TEST_FILE_NAME: &str = "its name is that of a test file";
const INSTALLED: &str = "it is an installed dependency, which code and tests share";
const BUILT: &str = "it is a build product, which code and tests share";
/// Subdirectories that compilers create in `target`. Other directories named `target` may be code, except at the root.
const TARGET_SUBDIRECTORIES: [&str; 4] = ["debug", "release", "classes", "test-classes"];

const TEST_DIRECTORIES: [&str; 21] = [
    "tests",
    "test",
    "Tests",
    "__tests__",
    "__test__",
    "e2e",
    "cypress",
    "androidTest",
    "integrationTest",
    "testFixtures",
    "step_definitions",
    "testutil",
    "testutils",
    "test-utils",
    "test_utils",
    "test-helpers",
    "test_helpers",
    "test-support",
    "test_support",
    "testsupport",
    "testlib",
];
/// Directories of test data. `testing` is not one of them: libraries publish helpers there.
const TEST_DATA_DIRECTORIES: [&str; 15] = [
    "fixtures",
    "__fixtures__",
    "testdata",
    "test-data",
    "test_data",
    "__snapshots__",
    "__image_snapshots__",
    "snapshots",
    "__mocks__",
    "golden",
    "goldens",
    "cassettes",
    "expected",
    "expectations",
    "baselines",
];
/// Those of them that are also names of directories of a product, if they are among its code.
const AMBIGUOUS_DIRECTORIES: [&str; 8] = [
    "fixtures",
    "snapshots",
    "golden",
    "goldens",
    "cassettes",
    "expected",
    "expectations",
    "baselines",
];
const CODE_DIRECTORIES: [&str; 5] = ["src", "app", "lib", "pkg", "internal"];
/// Stems of files with test helpers, without `-`, `_` and `.`, in lower case.
const TEST_HELPER_STEMS: [&str; 5] =
    ["testutil", "testutils", "testhelper", "testhelpers", "testsupport"];
const TEST_EXTENSIONS: [&str; 10] =
    ["snap", "bats", "feature", "phpt", "golden", "t", "robot", "tavern", "hurl", "xctestplan"];

/// Settings and hooks of test runners, and of the programs that run them, that `ralph-check` does not know.
const HARNESS_NAMES: [&str; 53] = [
    "conftest.py",
    "insta.yaml",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.toml",
    "runtests.py",
    "runtests.jl",
    ".nycrc.yml",
    ".c8rc",
    ".taprc",
    "cypress.json",
    "bunfig.toml",
    "nx.json",
    ".swcrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "rustfmt.toml",
    ".rustfmt.toml",
    "deny.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".python-version",
    ".nvmrc",
    ".node-version",
    ".ruby-version",
    ".tool-versions",
    "mise.toml",
    "global.json",
    "magefile.go",
    ".rspec",
    "spec_helper.rb",
    "rails_helper.rb",
    "test_helper.rb",
    ".rubocop.yml",
    ".simplecov",
    "phpunit.xml",
    "phpunit.xml.dist",
    "phpunit.dist.xml",
    "phpstan.neon",
    "phpstan.neon.dist",
    "psalm.xml",
    "testng.xml",
    "CTestTestfile.cmake",
    "CTestCustom.cmake",
    "CTestConfig.cmake",
    ".bazelrc",
    ".proverc",
    "dart_test.yaml",
    "analysis_options.yaml",
    "xunit.runner.json",
];
const HARNESS_STEMS: [&str; 18] = [
    ".mocharc",
    ".babelrc",
    ".env.test",
    "babel.config.",
    "ava.config.",
    "jest-setup.",
    "jest.preset.",
    "jest-preset.",
    "jest-environment",
    "mocha.setup.",
    "setupTests.",
    "vitest.setup.",
    "vitest.config",
    "wdio.conf",
    "protractor.conf",
    "web-test-runner.config.",
    "tstyche.",
    "jasmine.",
];
/// Directories whose scripts run checks. Other scripts are code, unless the command of a gate names them.
const SCRIPT_DIRECTORIES: [&str; 4] = ["ci", ".ci", "scripts", "script"];

/// Modules that Python imports from the root of the project before the installed ones.
const PYTHON_RUNNERS: [&str; 14] = [
    "pytest",
    "_pytest",
    "unittest",
    "doctest",
    "pluggy",
    "nose",
    "nose2",
    "tox",
    "nox",
    "coverage",
    "hypothesis",
    "mypy",
    "ruff",
    "flake8",
];
/// Python runs these at every start, wherever they are on its path.
const PYTHON_STARTUP_FILES: [&str; 2] = ["sitecustomize.py", "usercustomize.py"];
/// Programs that gates run. A file of that name in the root or in `bin` may be found before the installed one.
const RUNNER_PROGRAMS: [&str; 30] = [
    "pytest", "tox", "nox", "python", "python3", "jest", "vitest", "mocha", "ava", "karma", "tap",
    "node", "npm", "npx", "yarn", "pnpm", "bun", "deno", "tsc", "eslint", "cargo", "go", "make",
    "just", "gradlew", "mvnw", "phpunit", "rspec", "bats", "prove",
];

/// The class by the path alone; `None` if no convention matches.
pub(crate) fn classify_by_name(path: &str) -> Option<NamedClass> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directories: Vec<&str> = parent.split('/').filter(|part| !part.is_empty()).collect();
    let extension = file_extension(path);
    let outermost = directory_class(&directories, path);
    match outermost {
        Some((FileClass::Environment, _)) => return outermost,
        Some(_) if HARNESS_NAMES.contains(&name) => {
            return Some((FileClass::Harness, "it sets up the tests beside it"));
        }
        Some(_) => return outermost,
        None => {}
    }
    if matches!(extension, "pyc" | "pyo") || name.starts_with(".pnp.") {
        return Some((FileClass::Environment, BUILT));
    }
    if is_mixed_manifest(path) {
        return Some((
            FileClass::Code,
            "it is a manifest; only its sections about tests and tools go with the tests",
        ));
    }
    if MIXED_BUILD_FILES.contains(&name) {
        return Some((
            FileClass::Code,
            "it is a build file, whose parts about tests cannot be separated",
        ));
    }
    harness_by_name(path, &directories, name, extension)
        .map(|why| (FileClass::Harness, why))
        .or_else(|| tests_by_name(path, name, extension).map(|why| (FileClass::Tests, why)))
        .or_else(|| {
            (extension == "rs")
                .then_some((FileClass::Code, "it is Rust; only its inline tests go with the tests"))
        })
}

/// The part of the file's name after the last dot; empty without one.
pub(crate) fn file_extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Whether a file in a directory such as `src/fixtures` may be data of tests or of the product.
pub(crate) fn is_ambiguous_data(path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let directories: Vec<&str> = parent.split('/').collect();
    (0..directories.len()).any(|at| is_ambiguous_directory(&directories, at))
}

fn is_ambiguous_directory(directories: &[&str], index: usize) -> bool {
    AMBIGUOUS_DIRECTORIES.contains(&directories[index])
        && directories[..index].iter().any(|part| CODE_DIRECTORIES.contains(part))
}

/// Whether a package manager writes the file, by itself, whenever the manifests differ from it.
pub(crate) fn is_lock_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "package-lock.json" | "pnpm-lock.yaml" | "go.sum")
        || file_extension(name) == "lock"
}

/// Whether a runner cannot start without a file of this name.
pub(crate) fn is_project_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    is_mixed_manifest(path) || MIXED_BUILD_FILES.contains(&name) || name == "go.mod"
}

pub(crate) fn is_mixed_manifest(path: &str) -> bool {
    MIXED_MANIFESTS.contains(&path.rsplit('/').next().unwrap_or(path))
}

fn directory_class(directories: &[&str], path: &str) -> Option<NamedClass> {
    const IN_TESTS: NamedClass = (FileClass::Tests, "it is in a directory for tests");
    directories.iter().enumerate().find_map(|(index, directory)| {
        let next = directories.get(index + 1).copied().unwrap_or_default();
        if let Some((_, why)) = ENVIRONMENT_DIRECTORIES.iter().find(|(name, _)| name == directory) {
            return Some((FileClass::Environment, *why));
        }
        match *directory {
            // Only at the root: elsewhere it is copied code that the project maintains.
            "vendor" if index == 0 => Some((FileClass::Environment, INSTALLED)),
            "target" if index == 0 || TARGET_SUBDIRECTORIES.contains(&next) => {
                Some((FileClass::Environment, BUILT))
            }
            // API descriptions and plans are in `spec` too.
            "spec" if is_spec_language(path) => Some(IN_TESTS),
            // Perl's `prove` looks there; in other languages the name means nothing.
            "t" if matches!(file_extension(path), "t" | "pm") => Some(IN_TESTS),
            "features" if matches!(next, "support" | "step_definitions") => Some(IN_TESTS),
            directory if is_test_directory(directory, index, directories) => Some(IN_TESTS),
            _ if is_ambiguous_directory(directories, index) => None,
            directory if TEST_DATA_DIRECTORIES.contains(&directory) => {
                Some((FileClass::Tests, "it is in a directory for test data"))
            }
            _ => None,
        }
    })
}

fn is_test_directory(directory: &str, index: usize, directories: &[&str]) -> bool {
    let is_source_set = index.checked_sub(1).and_then(|at| directories.get(at)) == Some(&"src")
        && directory.ends_with("Test");
    TEST_DIRECTORIES.contains(&directory)
        || is_source_set
        || [".Tests", ".Test", ".UnitTests", ".IntegrationTests"]
            .iter()
            .any(|end| directory.ends_with(end))
}

fn is_spec_language(path: &str) -> bool {
    let is_code = matches!(
        Language::from_path(path),
        Language::Ruby | Language::JavaScript | Language::Php | Language::Shell | Language::Bats
    );
    let data_directories = ["/fixtures/", "/support/", "/factories/", "/resources/"];
    is_code
        || [".lua", ".cr", ".json", ".snap"].iter().any(|end| path.ends_with(end))
        || data_directories.iter().any(|data| path.contains(data))
}

fn harness_by_name(
    path: &str,
    directories: &[&str],
    name: &str,
    extension: &str,
) -> Option<&'static str> {
    if is_ci_file(path) && Language::from_path(path) != Language::Prose {
        return Some("a CI service reads it");
    }
    if shadows_runner(directories, name, extension) {
        return Some("its name is that of a test runner or of a module that one imports");
    }
    if name == "ralph.toml" {
        return Some("it is ralph's policy");
    }
    // `next.config` is about the product.
    let is_settings = is_tool_settings(path) && !name.starts_with("next.config.");
    if is_settings
        || HARNESS_NAMES.contains(&name)
        || HARNESS_STEMS.iter().any(|stem| name.starts_with(stem))
        || extension == "runsettings"
        || (directories.contains(&".cargo") && name.starts_with("config"))
        || directories.contains(&".mvn")
    {
        return Some("a test runner, linter or compiler reads its settings from it");
    }
    if is_command_file(path) && !is_ci_file(path) {
        return Some("a task runner reads the commands of checks from it");
    }
    let is_shell = matches!(Language::from_path(path), Language::Shell);
    if is_shell && names_tests(name) {
        return Some("its name says that it runs tests");
    }
    let is_script = is_shell || !name.trim_matches('.').contains('.');
    let is_check = ["test", "check", "lint", "verify"].iter().any(|word| name.contains(word));
    let is_in_scripts = directories.iter().any(|part| SCRIPT_DIRECTORIES.contains(part));
    (is_in_scripts && (is_script || is_check)).then_some("it is a script that checks may run")
}

/// `test.sh`, `run-tests.sh`, `slug_test.sh`
fn names_tests(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let mut words = stem.split(['-', '_']);
    let is_test = |word: &str| word == "test" || word == "tests";
    let first = words.next().unwrap_or_default();
    is_test(first) || words.next_back().is_some_and(is_test)
}

fn shadows_runner(directories: &[&str], name: &str, extension: &str) -> bool {
    let registers_plugins = name == "entry_points.txt"
        && directories.last().is_some_and(|last| last.ends_with(".egg-info"));
    if extension == "pth" || PYTHON_STARTUP_FILES.contains(&name) || registers_plugins {
        return true;
    }
    let stem = name.strip_suffix(".py").unwrap_or_default();
    let first = directories.first().copied();
    if (first.is_none() && PYTHON_RUNNERS.contains(&stem))
        || (extension == "py" && matches!(first, Some("pytest" | "_pytest" | "unittest")))
    {
        return true;
    }
    let program = name
        .strip_suffix(".js")
        .or_else(|| name.strip_suffix(".mjs"))
        .or_else(|| name.strip_suffix(".cjs"))
        .unwrap_or(name);
    matches!(directories, [] | ["bin" | ".bin"]) && RUNNER_PROGRAMS.contains(&program)
}

fn tests_by_name(path: &str, name: &str, extension: &str) -> Option<&'static str> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_collected = match Language::from_path(path) {
        Language::Rust => stem == "test" || contains_only_tests(path),
        Language::C => {
            ["_test", "_tests", "_unittest"].iter().any(|end| stem.ends_with(end))
                || stem.starts_with("test_")
        }
        // Shells have no assertions of their own, so projects keep functions for them beside their code.
        Language::Shell => {
            stem.ends_with("_test") || file_extension(stem) == "test" || stem.starts_with("assert")
        }
        Language::Unknown => {
            let is_known =
                matches!(extension, "exs" | "dart" | "lua" | "clj" | "cljs" | "hs" | "jl");
            is_known && ["_test", "_spec", "Spec"].iter().any(|end| stem.ends_with(end))
        }
        // The default patterns of `node --test`.
        Language::JavaScript => {
            let is_benchmark = path.split('/').any(|part| part.contains("bench"));
            (stem == "test" || stem.starts_with("test-")) && !is_benchmark
                || ["-test", "_test"].iter().any(|end| stem.ends_with(end))
                || contains_only_tests(path)
        }
        Language::Python
        | Language::Go
        | Language::Java
        | Language::Kotlin
        | Language::CSharp
        | Language::Swift
        | Language::Scala
        | Language::Php
        | Language::Ruby
        | Language::Bats => contains_only_tests(path),
        Language::Config | Language::Sql | Language::Html | Language::Css | Language::Prose => {
            false
        }
    };
    if is_collected {
        return Some(TEST_FILE_NAME);
    }
    if TEST_EXTENSIONS.contains(&extension) || name.contains(".approved.") {
        return Some("its extension is that of tests or recorded results");
    }
    let plain: String = stem.chars().filter(char::is_ascii_alphanumeric).collect();
    (TEST_HELPER_STEMS.contains(&plain.to_ascii_lowercase().as_str())
        && Language::from_path(path) != Language::Prose)
        .then_some("its name is that of a test helper")
}
