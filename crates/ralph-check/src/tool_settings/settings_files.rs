//! Which files define the commands that run, and which define how strict the tools are.

use crate::language::{Language, file_name, is_below_dir};

pub(super) fn defines_commands(path: &str) -> bool {
    is_command_file(path)
        || (Language::from_path(path) == Language::Shell
            && (is_below_dir(path, &["ci", ".ci", "scripts", "script", "bin", "hack"])
                || file_name(path).contains("test")))
}

/// Whether a task runner, a CI service or a git hook reads the commands it runs from this file.
pub fn is_command_file(path: &str) -> bool {
    let name = file_name(path);
    is_ci_file(path)
        || matches!(
            name,
            "package.json"
                | "Makefile"
                | "makefile"
                | "GNUmakefile"
                | "justfile"
                | "Justfile"
                | ".justfile"
                | "tox.ini"
                | "noxfile.py"
                | "setup.cfg"
                | "pytest.ini"
                | "pyproject.toml"
                | "ralph.toml"
                | "lefthook.yml"
                | "lefthook.yaml"
                | ".pre-commit-config.yaml"
                | "Taskfile.yml"
                | "Taskfile.yaml"
                | "turbo.json"
                | "deno.json"
                | "composer.json"
                | "Rakefile"
        )
        || name.rsplit_once('.').is_some_and(|(_, end)| end == "mk")
        || is_below_dir(path, &[".husky"])
}

pub fn is_ci_file(path: &str) -> bool {
    let name = file_name(path);
    path.starts_with(".github/")
        || path.starts_with(".circleci/")
        || path.starts_with(".gitlab/")
        || matches!(
            name,
            ".gitlab-ci.yml"
                | ".travis.yml"
                | "azure-pipelines.yml"
                | "bitbucket-pipelines.yml"
                | "Jenkinsfile"
                | ".drone.yml"
                | "appveyor.yml"
                | "cloudbuild.yaml"
        )
}

/// Whether it contains commands, or settings of test runners, linters, type checkers or coverage tools.
pub(super) fn is_settings_file(path: &str) -> bool {
    is_tool_settings(path) || defines_commands(path)
}

/// Whether a test runner, linter, type checker or coverage tool reads its settings from this file.
pub fn is_tool_settings(path: &str) -> bool {
    const NAMES: [&str; 37] = [
        "package.json",
        "pyproject.toml",
        "setup.cfg",
        "tox.ini",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        ".taprc",
        ".coveragerc",
        "mypy.ini",
        ".mypy.ini",
        "ruff.toml",
        ".ruff.toml",
        ".flake8",
        ".pylintrc",
        "pylintrc",
        "pyrightconfig.json",
        "Cargo.toml",
        "clippy.toml",
        ".clippy.toml",
        "tarpaulin.toml",
        ".tarpaulin.toml",
        "nextest.toml",
        "codecov.yml",
        ".codecov.yml",
        "codecov.yaml",
        ".nycrc",
        ".nycrc.json",
        ".c8rc.json",
        "biome.json",
        "biome.jsonc",
        ".oxlintrc.json",
        "ralph.toml",
        "pom.xml",
        ".golangci.yml",
        ".golangci.yaml",
    ];
    const STEMS: [&str; 14] = [
        "jest.config.",
        "vitest.config.",
        "vite.config.",
        "playwright.config.",
        "cypress.config.",
        "karma.conf.",
        ".mocharc",
        ".eslintrc",
        "eslint.config.",
        "next.config.",
        "tsconfig",
        "nyc.config.",
        "jest.setup.",
        "vitest.workspace.",
    ];
    let name = file_name(path);
    NAMES.contains(&name) || STEMS.iter().any(|stem| name.starts_with(stem))
}
