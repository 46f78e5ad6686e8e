//! Sample projects and the complete proposals for them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use insta::assert_snapshot;

use super::*;
use crate::config;
use ralph_home::paths::RalphHome;

struct SampleProject {
    root: tempfile::TempDir,
}

impl SampleProject {
    /// A project with these files, on a machine with these tools.
    fn new(tools: &[&str], files: &[(&str, &str)]) -> Self {
        let sample = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(sample.project()).unwrap();
        fs::create_dir_all(sample.root.path().join("bin")).unwrap();
        for tool in tools {
            write_program(&sample.root.path().join("bin").join(tool));
        }
        for (path, text) in files {
            sample.write(path, text.as_bytes());
        }
        sample
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        write_at(&self.project().join(path), bytes);
    }

    fn survey(&self) -> DetectedGates {
        let path = self.root.path().join("bin");
        detect_gates(&self.project(), &Env::from_pairs([("PATH", path)], None, Vec::new()))
    }

    /// The gates of a policy, loaded the way every other command does.
    fn policy(&self, text: &str) -> Vec<Gate> {
        let project = self.root.path().join("approved");
        write_at(&project.join("ralph.toml"), text.as_bytes());
        let home = RalphHome::new(self.root.path().join("home"));
        config::load(&project, &home).expect("the proposal is a valid policy").policy.gates
    }

    /// The proposed file, followed by the missing tools and the notes.
    fn proposal(&self) -> String {
        let detected = self.survey();
        let mut out = render_policy::render(&detected);
        assert_eq!(self.policy(&out), active_gates(&detected), "{out}");
        for missing in &detected.missing {
            out.push_str(&format!("\nmissing: {} for {}", missing.tool, missing.gates));
        }
        for note in &detected.notes {
            out.push_str(&format!("\nnote: {note}"));
        }
        out
    }
}

fn active_gates(detected: &DetectedGates) -> Vec<Gate> {
    let found = detected.gates.iter().filter(|one| matches!(one.tool, ToolLookup::Found(_)));
    found.map(|one| one.gate.clone()).collect()
}

fn write_program(path: &Path) {
    write_at(path, b"#!/bin/sh\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn write_at(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test makes the files that are read")]
    fs::write(path, bytes).unwrap();
}

const RUST: [&str; 3] = ["cargo", "cargo-clippy", "cargo-fmt"];
const PACKAGE: &str = "[package]\nname = \"a\"\n";

#[test]
fn a_rust_package() {
    let files = [("Cargo.toml", PACKAGE), ("tests/it.rs", ""), ("clippy.toml", "")];
    assert_snapshot!(SampleProject::new(&RUST, &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `Cargo.toml` defines a package
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["cargo", "test"]
    timeout = "10m"
    min_tests = "baseline"

    # `Cargo.toml` defines a package
    [[gate]]
    name = "clippy"
    stage = "quality"
    run = ["cargo", "clippy", "--all-targets", "--message-format=json"]
    timeout = "5m"
    report = "cargo-json"

    # `Cargo.toml` defines a package
    [[gate]]
    name = "fmt"
    stage = "quality"
    run = ["cargo", "fmt", "--all", "--check"]
    timeout = "2m"
    paths = ["**/*.rs", "**/Cargo.toml", "**/rustfmt.toml", "**/.rustfmt.toml"]

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["clippy.toml"]
    "#);
}

#[test]
fn a_rust_workspace_covers_its_members() {
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/a/Cargo.toml", PACKAGE),
        ("crates/b/Cargo.toml", PACKAGE),
        (".config/nextest.toml", ""),
        ("deny.toml", ""),
        (".cargo/audit.toml", ""),
    ];
    let tools = [&RUST[..], &["cargo-nextest", "cargo-deny"]].concat();
    assert_snapshot!(SampleProject::new(&tools, &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `Cargo.toml` defines a workspace
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["cargo", "nextest", "run", "--workspace"]
    timeout = "10m"
    min_tests = "baseline"

    # `Cargo.toml` defines a workspace
    [[gate]]
    name = "clippy"
    stage = "quality"
    run = ["cargo", "clippy", "--workspace", "--all-targets", "--message-format=json"]
    timeout = "5m"
    report = "cargo-json"

    # `Cargo.toml` defines a workspace
    [[gate]]
    name = "fmt"
    stage = "quality"
    run = ["cargo", "fmt", "--all", "--check"]
    timeout = "2m"
    paths = ["**/*.rs", "**/Cargo.toml", "**/rustfmt.toml", "**/.rustfmt.toml"]

    # `deny.toml` sets up cargo-deny
    [[gate]]
    name = "deny"
    stage = "security"
    run = ["cargo", "deny", "check"]
    timeout = "5m"
    required = false

    # `.cargo/audit.toml` sets up cargo-audit
    # Inactive: `cargo-audit` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "audit"
    # stage = "security"
    # run = ["cargo", "audit"]
    # timeout = "5m"
    # required = false

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["deny.toml"]

    missing: cargo-audit for `audit`
    note: `.config/nextest.toml`: nextest does not run doc tests; add a gate with `cargo test --doc` for them
    "#);
}

#[test]
fn npm_with_vitest_eslint_and_typescript() {
    let files = [
        (
            "package.json",
            r#"{"scripts": {"dev": "vite", "test": "vitest", "lint": "eslint src --fix", "build": "vite build", "format:check": "prettier --check ."},
                "devDependencies": {"vitest": "1", "eslint": "9", "typescript": "5"}}"#,
        ),
        ("package-lock.json", "{}"),
        ("tsconfig.json", "{}"),
        ("eslint.config.js", ""),
        ("node_modules/.keep", ""),
        (".husky/pre-commit", ""),
    ];
    assert_snapshot!(SampleProject::new(&["npm", "npx"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `package.json` has a script `test`
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npx", "--no-install", "vitest", "run", "--reporter=junit", "--outputFile={report}"]
    timeout = "10m"
    report = "junit"
    min_tests = "baseline"

    # `package.json` has a script `build`
    [[gate]]
    name = "build"
    stage = "correctness"
    run = ["npm", "run", "build"]
    timeout = "10m"

    # `tsconfig.json` exists, and tsc is a dependency
    [[gate]]
    name = "types"
    stage = "correctness"
    run = ["npx", "--no-install", "tsc", "--noEmit", "--pretty", "false"]
    timeout = "5m"
    report = "tsc"

    # `package.json` has a script `lint`
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["npx", "--no-install", "eslint", "src", "-f", "json", "-o", "{report}"]
    timeout = "5m"
    report = "eslint-json"

    # `package.json` has a script `format:check`
    [[gate]]
    name = "format"
    stage = "quality"
    run = ["npm", "run", "format:check"]
    timeout = "2m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["eslint.config.*"]

    # Ignored by git, but needed by the gates in a clean checkout.
    [verify]
    link = ["node_modules"]

    note: `.husky`: husky runs checks before each commit; consider making them gates
    "#);
}

#[test]
fn pnpm_with_jest() {
    let files = [
        (
            "package.json",
            r#"{"packageManager": "pnpm@9.1.0", "scripts": {"test": "jest --watch", "typecheck": "tsc -p . --pretty false", "lint": "next lint --fix"},
                "devDependencies": {"jest": "29", "jest-junit": "16", "typescript": "5"}}"#,
        ),
        ("tsconfig.json", "{}"),
    ];
    assert_snapshot!(SampleProject::new(&["pnpm", "env"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `package.json` has a script `test`
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["env", "JEST_JUNIT_OUTPUT_FILE={report}", "pnpm", "exec", "jest", "--ci", "--reporters=default", "--reporters=jest-junit"]
    timeout = "10m"
    report = "junit"
    min_tests = "baseline"

    # `package.json` has a script `typecheck`
    [[gate]]
    name = "types"
    stage = "correctness"
    run = ["pnpm", "exec", "tsc", "-p", ".", "--pretty", "false", "--noEmit"]
    timeout = "5m"
    report = "tsc"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    note: `package.json` has a script `lint` that changes files or never ends; it was left out
    note: `package.json`: dependencies are not installed; its gates need `pnpm install` first
    "#);
}

#[test]
fn other_scripts_are_run_through_the_package_manager() {
    let files = [
        (
            "package.json",
            r#"{"scripts": {"test": "npm run build && mocha", "check": "svelte-check", "types": "vue-tsc --noEmit"}}"#,
        ),
        ("yarn.lock", ""),
    ];
    assert_snapshot!(SampleProject::new(&["yarn"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `package.json` has a script `test`
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["yarn", "test"]
    timeout = "10m"

    # `package.json` has a script `types`
    [[gate]]
    name = "types"
    stage = "correctness"
    run = ["yarn", "run", "types"]
    timeout = "5m"

    # `package.json` has a script `check`
    [[gate]]
    name = "check"
    stage = "correctness"
    run = ["yarn", "run", "check"]
    timeout = "20m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
}

#[test]
fn an_installed_tool_is_started_by_its_path() {
    let package = r#"{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29", "jest-junit": "16", "typescript": "5"}}"#;
    let sample = SampleProject::new(
        &["env"],
        &[("package.json", package), ("tsconfig.json", "{\"references\": []}")],
    );
    write_program(&sample.project().join("node_modules/.bin/jest"));
    write_program(&sample.project().join("node_modules/.bin/tsc"));
    let mut shown = String::new();
    for proposal in sample.survey().gates {
        assert!(matches!(proposal.tool, ToolLookup::Found(_)), "{proposal:?}");
        shown.push_str(&format!("{:?}\n", proposal.gate.command));
    }
    assert_snapshot!(shown, @r#"
    Argv(["env", "JEST_JUNIT_OUTPUT_FILE={report}", "node_modules/.bin/jest", "--ci", "--reporters=default", "--reporters=jest-junit"])
    Argv(["node_modules/.bin/tsc", "--build", "--noEmit", "--pretty", "false"])
    "#);
}

#[test]
fn mocha_and_node_are_run_with_a_report() {
    let mocha =
        r#"{"scripts": {"test": "mocha --watch spec"}, "devDependencies": {"mocha": "10"}}"#;
    let node = r#"{"scripts": {"test": "node --test 'test/**/*.js'"}}"#;
    let mut shown = String::new();
    let jest = r#"{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}"#;
    for package in [mocha, node, jest] {
        let sample = SampleProject::new(&["npm", "npx", "node"], &[("package.json", package)]);
        for proposal in sample.survey().gates {
            shown.push_str(&format!("{:?} {:?}\n", proposal.gate.command, proposal.gate.report));
        }
    }
    assert_snapshot!(shown, @r#"
    Argv(["npx", "--no-install", "mocha", "spec", "--reporter=tap"]) Tap
    Argv(["node", "--test", "--test-reporter=junit", "--test-reporter-destination={report}", "test/**/*.js"]) Junit
    Argv(["npx", "--no-install", "jest", "--ci"]) Text
    "#);
}

/// The script that `npm init` writes is not a test, so it does not become a gate.
#[test]
fn the_npm_init_placeholder_is_not_a_gate() {
    let script = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    assert_snapshot!(SampleProject::new(&["npm"], &[("package.json", script)]).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = ["./run-tests"]
    # timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    note: `package.json` has a script `test` that is only the placeholder of `npm init`
    note: no gate was found, and without one a run ends as `claimed` when the agent says so, or at a limit: `ralph gate add "CMD"` adds one
    "#);
}

/// One gate runs a script in all packages of a workspace, and none repeats what another runs.
#[test]
fn a_workspace_has_one_gate_for_each_script() {
    let package = r#"{"scripts": {"test": "node t.js", "lint": "eslint ."}, "devDependencies": {"typescript": "5"}}"#;
    let files = [
        ("package.json", r#"{"scripts": {"build": "tsc -b"}}"#),
        ("pnpm-workspace.yaml", "packages: ['packages/*']\n"),
        ("pnpm-lock.yaml", ""),
        ("packages/a/package.json", package),
        ("packages/a/tsconfig.json", "{}"),
        ("packages/b/package.json", package),
        (
            "packages/c/package.json",
            r#"{"scripts": {"test": "echo \"Error: no test specified\""}}"#,
        ),
    ];
    let detected = SampleProject::new(&["pnpm"], &files).survey();
    assert_snapshot!(commands(&detected), @"
    build: pnpm run build
    tests: pnpm -r --if-present run test
    lint: pnpm -r --if-present run lint
    ");
    for (manager, more, expected) in [
        ("yarn@4.0.0", None, "tests: yarn workspaces foreach -A run test"),
        ("yarn@1.22.22", Some((".yarnrc.yml", "")), "tests: yarn workspaces run test"),
        ("", Some((".yarnrc.yml", "")), "tests: yarn workspaces foreach -A run test"),
        ("", None, "tests: yarn workspaces run test"),
    ] {
        let root = format!(r#"{{"packageManager": "{manager}", "workspaces": ["a"]}}"#);
        let member = ("a/package.json", r#"{"scripts": {"test": "node t.js"}}"#);
        let files: Vec<_> =
            [("package.json", &*root), ("yarn.lock", ""), member].into_iter().chain(more).collect();
        let detected = SampleProject::new(&["yarn"], &files).survey();
        assert_eq!(commands(&detected), expected, "{manager}");
    }
}

#[test]
fn a_script_that_is_part_of_another_is_no_gate() {
    let manifest = r#"{"scripts": {
        "pretest": "npm run lint", "test": "npm run build && node t.js", "build": "node b.js",
        "lint": "node l.js", "types": "node types.js", "check": "run-s types"
    }}"#;
    let workflow = "on: push\njobs: {a: {steps: [{run: npm run lint}, {run: npm test}]}}\n";
    let files = [("package.json", manifest), (".github/workflows/ci.yml", workflow)];
    let detected = SampleProject::new(&["npm"], &files).survey();
    assert_snapshot!(commands(&detected), @"
    tests: npm test
    check: npm run check
    ");
}

/// The proposal demands what CI demands: its variables, its strictness, and no check that it does not do.
#[test]
fn gates_are_as_strict_as_ci() {
    let propose = |workflow: &str| {
        let files = [("Cargo.toml", PACKAGE), (".github/workflows/ci.yml", workflow)];
        let detected = SampleProject::new(&RUST, &files).survey();
        let set: Vec<String> =
            detected.variables.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
        format!("{}\nset {}", commands(&detected), set.join(" "))
    };
    assert_snapshot!(propose("on: push\nenv: {TZ: UTC, CARGO_TERM_COLOR: always, TOKEN: '${{ secrets.T }}'}\njobs: {a: {env: {LANG: C.UTF-8}, steps: [{run: cargo test}, {run: cargo clippy -- -D warnings}]}}\n"), @"
    tests: cargo test
    clippy: cargo clippy --all-targets --message-format=json -- -D warnings
    note: CI does not run `cargo fmt`, so rustfmt is not proposed
    set TZ=UTC LANG=C.UTF-8
    ");
    let variables = |file: &str, text: &str| {
        let detected = SampleProject::new(&RUST, &[("Cargo.toml", PACKAGE), (file, text)]).survey();
        let set: Vec<String> =
            detected.variables.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
        set.join(" ")
    };
    for (file, text, expected) in [
        (
            ".gitlab-ci.yml",
            "variables: {TZ: Asia/Tokyo, TOKEN: x, LC_ALL: $LOCALE}\ntest: {script: [cargo test], variables: {LANG: C}}\nout: {stage: deploy, script: [x], variables: {LANG: D}}\n",
            "TZ=Asia/Tokyo LANG=C",
        ),
        (
            ".circleci/config.yml",
            "jobs: {a: {docker: [{image: x, environment: {LANG: C}}], environment: {TZ: Asia/Tokyo, TOKEN: x}, steps: [{run: {command: cargo test, environment: {NODE_ENV: test}}}]}}\n",
            "TZ=Asia/Tokyo LANG=C NODE_ENV=test",
        ),
        (
            ".travis.yml",
            "env: {global: [TZ=Asia/Tokyo TOKEN=x, {secure: abc}, LANG=\"C\"], jobs: ['RUSTFLAGS=\"-D warnings\"']}\nscript: [cargo test]\n",
            "TZ=Asia/Tokyo LANG=C",
        ),
        (".travis.yml", "env: [TZ=UTC, TZ=Asia/Tokyo]\nscript: [cargo test]\n", ""),
        (".travis.yml", "env: TZ=UTC\nscript: [cargo test]\n", "TZ=UTC"),
    ] {
        assert_eq!(variables(file, text), expected, "{text}");
    }
    assert_snapshot!(propose("on: push\njobs: {a: {steps: [{run: cargo test, env: {TZ: UTC}}, {run: cargo clippy}, {run: cargo fmt --check}]}, b: {steps: [{run: cargo test, env: {TZ: Asia/Tokyo}}]}}\n"), @"
    tests: cargo test
    clippy: cargo clippy --all-targets --message-format=json
    fmt: cargo fmt --all --check
    note: `.github/workflows/ci.yml`: `TZ` has several values in CI; none is set
    set
    ");
}

#[test]
fn native_builds_run_their_tests() {
    let files = [
        ("CMakeLists.txt", "project(a C)\nenable_testing()\nadd_test(NAME t COMMAND t)\n"),
        (".gitignore", "/build/\n"),
        ("sub/meson.build", "project('b', 'c')\ntest('t', exe)\n"),
        ("below/CMakeLists.txt", "add_executable(t t.c)\n"),
    ];
    let tools = ["cmake", "ctest", "meson", "ninja", "sh"];
    assert_snapshot!(commands(&SampleProject::new(&tools, &files).survey()), @r#"
    tests: dir=build && cmake -S . -B "$dir" && cmake --build "$dir" && ctest --test-dir "$dir" --output-on-failure --no-tests=error --output-junit "$RALPH_REPORT"
    note: `sub/meson.build`: its tests are not covered
    "#);
    let plain = SampleProject::new(&tools, &[("CMakeLists.txt", "project(c C)\n")]).survey();
    assert_eq!(plain.notes[0], "`CMakeLists.txt`: its tests are not covered");
    // Without the tools the gates are inactive.
    let without = SampleProject::new(&["sh"], &files).survey();
    assert_eq!(active_gates(&without), []);
}

/// What a gate needs must be there: pytest itself, or tox, which installs it.
#[test]
fn tools_that_are_missing_are_not_used() {
    let files = [
        ("tox.toml", ""),
        ("pyproject.toml", "[tool.pytest.ini_options]\n"),
        ("tests/test_a.py", ""),
    ];
    for (tools, expected) in [
        (&["python3", "pytest", "tox"][..], "tests: python3 -m pytest -q --junitxml={report}"),
        (&["python3", "pytest-3"], "tests: python3 -m pytest -q --junitxml={report}"),
        (&["python3", "tox"], "tests: tox"),
        (&["python3"], ""),
    ] {
        let detected = SampleProject::new(tools, &files).survey();
        let active: Vec<String> = active_gates(&detected)
            .iter()
            .map(|gate| format!("{}: {}", gate.name, gate.command_line()))
            .collect();
        assert_eq!(active.join("\n"), expected, "{tools:?}");
    }
}

/// The commands of all proposed gates, and the notes.
fn commands(detected: &DetectedGates) -> String {
    let gates = detected.gates.iter().map(|one| {
        let cwd = if one.gate.cwd.is_empty() { "" } else { &format!(" in {}", one.gate.cwd) };
        format!("{}{cwd}: {}", one.gate.name, one.gate.command_line())
    });
    let notes = detected.notes.iter().map(|note| format!("note: {note}"));
    gates.chain(notes).collect::<Vec<_>>().join("\n")
}

#[test]
fn bun() {
    let files = [
        ("package.json", r#"{"scripts": {"test": "bun test", "lint": "biome check ."}}"#),
        ("bun.lock", ""),
        ("node_modules/.keep", ""),
    ];
    assert_snapshot!(SampleProject::new(&["bun", "bunx"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `package.json` has a script `test`
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["bun", "test", "--reporter=junit", "--reporter-outfile={report}"]
    timeout = "10m"
    report = "junit"
    min_tests = "baseline"

    # `package.json` has a script `lint`
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["bun", "run", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    # Ignored by git, but needed by the gates in a clean checkout.
    [verify]
    link = ["node_modules"]
    "#);
}

#[test]
fn pytest_through_uv() {
    let files = [
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n[tool.ruff.format]\n[tool.mypy]\nfiles = [\"src\"]\n",
        ),
        ("uv.lock", ""),
        ("tests/test_a.py", ""),
    ];
    assert_snapshot!(SampleProject::new(&["uv"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `pyproject.toml` sets up pytest
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["uv", "run", "--frozen", "pytest", "-q", "--junitxml={report}"]
    timeout = "10m"
    report = "junit"
    min_tests = "baseline"

    # `pyproject.toml` sets up mypy
    [[gate]]
    name = "types"
    stage = "correctness"
    run = ["uv", "run", "--frozen", "mypy"]
    timeout = "5m"

    # `pyproject.toml` sets up ruff
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["uv", "run", "--frozen", "ruff", "check", "--output-format=sarif", "--output-file={report}"]
    timeout = "5m"
    paths = ["**/*.py", "**/*.pyi", "**/*.ipynb", "**/pyproject.toml", "**/ruff.toml", "**/.ruff.toml", "**/.gitignore"]
    report = "sarif"

    # `pyproject.toml` sets up ruff's formatter
    [[gate]]
    name = "format"
    stage = "quality"
    run = ["uv", "run", "--frozen", "ruff", "format", "--check"]
    timeout = "2m"
    paths = ["**/*.py", "**/*.pyi", "**/*.ipynb", "**/pyproject.toml", "**/ruff.toml", "**/.ruff.toml", "**/.gitignore"]

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
}

#[test]
fn python_tools_run_in_the_environment_of_the_project() {
    let mut shown = String::new();
    for (files, tools) in [
        (vec![("poetry.lock", ""), ("pytest.ini", "")], vec!["poetry"]),
        (vec![("requirements.txt", "pytest"), ("tests/unit/test_a.py", "")], vec!["python3"]),
        (vec![("setup.py", ""), ("tests/test_a.py", "")], vec!["python3"]),
        (vec![("setup.cfg", "[tool:pytest]\n[flake8]\n[mypy]\n")], vec!["python3", "flake8"]),
        (vec![("setup.py", ""), ("parser/tests/test_a.py", "")], vec!["python3"]),
    ] {
        for proposal in SampleProject::new(&tools, &files).survey().gates {
            let ProposedGate { gate, why, tool, .. } = proposal;
            let there = if matches!(tool, ToolLookup::Found(_)) { "found" } else { "missing" };
            shown.push_str(&format!("{:?}: {why} ({there})\n", gate.command));
        }
    }
    let sample = SampleProject::new(&[], &[("setup.py", ""), ("parser/tests/test_a.py", "")]);
    for program in ["python", "pytest"] {
        write_program(&sample.project().join(".venv/bin").join(program));
    }
    for ProposedGate { gate, why, .. } in sample.survey().gates {
        shown.push_str(&format!("{:?}: {why}\n", gate.command));
    }
    let sample = SampleProject::new(&["python3"], &[("pytest.ini", "")]);
    write_program(&sample.project().join(".venv/bin/python"));
    shown.push_str(&sample.proposal());
    assert_snapshot!(shown, @r#"
    Argv(["poetry", "run", "pytest", "-q", "--junitxml={report}"]): `pytest.ini` sets up pytest (found)
    Argv(["python3", "-m", "pytest", "-q", "--junitxml={report}"]): `tests/` contains tests, and pytest is a dependency (missing)
    Argv(["python3", "-m", "unittest", "discover", "-v", "-s", "tests"]): `tests/` contains tests, and nothing mentions pytest (found)
    Argv(["python3", "-m", "pytest", "-q", "--junitxml={report}"]): `setup.cfg` sets up pytest (missing)
    Argv(["mypy", "."]): `setup.cfg` sets up mypy (missing)
    Argv(["flake8"]): `setup.cfg` sets up flake8 (found)
    Argv(["python3", "-m", "unittest", "discover", "-v", "-s", "parser/tests", "-t", "."]): `parser/tests/` contains tests, and nothing mentions pytest (found)
    Argv([".venv/bin/python", "-m", "pytest", "-q", "--junitxml={report}"]): `parser/tests/` contains tests, and pytest is installed in `.venv`
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `pytest.ini` sets up pytest
    # Inactive: `.venv/bin/pytest` is not executable. Once it is, uncomment this gate.
    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = [".venv/bin/python", "-m", "pytest", "-q", "--junitxml={report}"]
    # timeout = "10m"
    # report = "junit"
    # min_tests = "baseline"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["pytest.ini"]

    # Ignored by git, but needed by the gates in a clean checkout.
    [verify]
    link = [".venv"]

    missing: .venv/bin/pytest for `tests`
    "#);
}

/// pytest runs as it is, whether tox or nox starts it or CI starts one of them: there is one gate for the tests.
#[test]
fn tests_of_tox_and_nox_are_those_of_pytest() {
    let tests = ("tests/test_a.py", "def test_a(): pass\n");
    let classes = ("tests/test_a.py", "class A(TestCase):\n    def test_a(self): pass\n");
    let tox = ("tox.ini", "[testenv]\ndeps = pytest\ncommands = pytest\n");
    let nox = ("noxfile.py", "def tests(session):\n    session.run('pytest')\n");
    let ci = |run: &str| format!("on: push\njobs: {{a: {{steps: [{{run: {run}}}]}}}}\n");
    let (tox_ci, nox_ci) = (ci("tox -e py"), ci("nox -s tests"));
    let workflow = ".github/workflows/ci.yml";
    let pytest = "tests: python3 -m pytest -q --junitxml={report}";
    for (files, tools, expected) in [
        (&[tests, tox][..], &["python3", "pytest", "tox"][..], pytest),
        (&[tests, nox], &["python3", "pytest", "nox"], pytest),
        (&[tests, tox, (workflow, &tox_ci)], &["python3", "pytest", "tox"], pytest),
        (&[tests, nox, (workflow, &nox_ci)], &["python3", "pytest", "nox"], pytest),
        (&[tests, tox, (workflow, &tox_ci)], &["python3", "tox"], "tests: tox"),
        (
            &[classes, ("setup.py", ""), (workflow, &tox_ci)],
            &["python3", "tox"],
            "tests: python3 -m unittest discover -v -s tests",
        ),
    ] {
        let detected = SampleProject::new(tools, files).survey();
        let gates = active_gates(&detected);
        let shown: Vec<String> =
            gates.iter().map(|gate| format!("{}: {}", gate.name, gate.command_line())).collect();
        assert_eq!(shown.join("\n"), expected);
    }
}

#[test]
fn tox_is_the_last_resort() {
    let files = [("tox.ini", "[tox]\nenvlist = py3\n[testenv]\ncommands = x\n"), ("setup.py", "")];
    assert_snapshot!(SampleProject::new(&["tox"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `tox.ini` sets up tox
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["tox"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["tox.ini"]
    "#);
}

/// Gates of a missing toolchain are commented out and reported.
#[test]
fn go_gates_are_inactive_without_go() {
    let files = [("go.mod", "module a\n"), (".golangci.yml", ""), ("tools/go.mod", "module b\n")];
    assert_snapshot!(SampleProject::new(&[], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `go.mod` defines a module
    # Inactive: `go` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = ["go", "test", "-json", "./..."]
    # timeout = "10m"
    # report = "go-test-json"
    # min_tests = "baseline"

    # `tools/go.mod` defines a module
    # Inactive: `go` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "tools-tests"
    # stage = "correctness"
    # run = ["go", "test", "-json", "./..."]
    # cwd = "tools"
    # timeout = "10m"
    # report = "go-test-json"
    # min_tests = "baseline"

    # `go.mod` defines a module
    # Inactive: `go` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "vet"
    # stage = "quality"
    # run = ["go", "vet", "./..."]
    # timeout = "5m"

    # `.golangci.yml` sets up golangci-lint
    # Inactive: `golangci-lint` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "lint"
    # stage = "quality"
    # run = ["golangci-lint", "run"]
    # timeout = "5m"

    # `tools/go.mod` defines a module
    # Inactive: `go` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "tools-vet"
    # stage = "quality"
    # run = ["go", "vet", "./..."]
    # cwd = "tools"
    # timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = [".golangci.*"]

    missing: go for `tests`, `tools-tests`, `vet`, `tools-vet`
    missing: golangci-lint for `lint`
    "#);
}

#[test]
fn maven_and_gradle_need_java() {
    let files = [
        ("pom.xml", "<module> core </module><artifactId>maven-failsafe-plugin</artifactId>"),
        ("mvnw", ""),
        ("core/src/test/java/CartTest.java", ""),
    ];
    assert_snapshot!(SampleProject::new(&["java", "sh"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `pom.xml` defines a Maven project
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["sh", "./mvnw", "-B", "-q", "verify"]
    timeout = "10m"
    report = "junit"
    report_files = ["**/target/surefire-reports/TEST-*.xml", "**/target/failsafe-reports/TEST-*.xml"]
    min_tests = "baseline"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
    let sample = SampleProject::new(&[], &[("build.gradle.kts", "")]);
    write_program(&sample.project().join("gradlew"));
    assert_snapshot!(sample.proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `build.gradle.kts` defines a Gradle project
    # Inactive: `java` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = ["./gradlew", "test", "--console=plain"]
    # timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    missing: java for `tests`
    "#);
}

/// Reports can be expected only of a project with tests, and of tasks that write them each time.
#[test]
fn reports_of_maven_and_gradle_are_read_where_there_are_tests() {
    let shown = |files: &[(&str, &str)]| {
        let detected = SampleProject::new(&["java", "mvn", "gradle"], files).survey();
        let gate = &detected.gates[0].gate;
        format!("{} {}", gate.command_line(), gate.report_files.join(" ")).trim().to_string()
    };
    let test = ("src/test/java/CartTest.java", "");
    for (files, expected) in [
        (&[("pom.xml", "<project/>")][..], "mvn -B -q test"),
        (&[("pom.xml", "<project/>"), test], "mvn -B -q test target/surefire-reports/TEST-*.xml"),
        (&[("build.gradle", "")], "gradle test --console=plain"),
        (
            &[("build.gradle", ""), test],
            "gradle cleanTest test --console=plain build/test-results/**/TEST-*.xml",
        ),
        (
            &[("settings.gradle.kts", "include(\":app\")")],
            "gradle cleanTest test --console=plain **/build/test-results/**/TEST-*.xml",
        ),
        (
            &[
                ("settings.gradle", "include ':app'"),
                ("gradle/libs.versions.toml", "agp = { id = \"com.android.application\" }"),
            ],
            "gradle test --console=plain",
        ),
    ] {
        assert_eq!(shown(files), expected);
    }
}

#[test]
fn make_and_just_fill_the_gaps() {
    let files = [
        ("Makefile", ".PHONY: test\ntest: build\n\t./run\nlint:\n\t./lint\n"),
        ("justfile", "ci: test\ntypecheck:\n  tsc\n"),
    ];
    assert_snapshot!(SampleProject::new(&["make", "just"], &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # Likely: `Makefile` defines `test`
    [[gate]]
    name = "test"
    stage = "correctness"
    run = ["make", "test"]
    timeout = "10m"

    # Likely: `justfile` defines `typecheck`
    [[gate]]
    name = "typecheck"
    stage = "correctness"
    run = ["just", "typecheck"]
    timeout = "5m"

    # Likely: `Makefile` defines `lint`
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["make", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    note: `justfile` also defines `just ci`, which other gates cover
    "#);
    let files = [("Cargo.toml", PACKAGE), ("Makefile", "test:\n\tcargo test\ncheck: test\n")];
    let notes = SampleProject::new(&[&RUST[..], &["make"]].concat(), &files).survey().notes;
    assert_snapshot!(notes.join("\n"), @"`Makefile` also defines `make test`, `make check`, which other gates cover");
}

const WORKFLOW: &str = "\
on: {push: {branches: [main]}, pull_request: }
defaults: {run: {working-directory: server}}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: pip install -r requirements.txt
      - name: everything
        run: |
          # all of it
          mix test \\
            --trace
          cargo test | tee log
          rubocop --parallel && bash ../x.sh
          shellcheck *.sh
      - run: echo ${{ secrets.TOKEN }} && mix test
      - run: ./scripts/check.sh
        working-directory: .
      - run: cd ../server && mix test --stale
      - run: Invoke-Pester
        shell: pwsh
      - run: if [ -f x ]; then make test; fi
  deploy:
    environment: production
    steps: [{run: make test}]
";

#[test]
fn commands_of_ci_are_imported() {
    let files = [
        (".github/workflows/ci.yml", WORKFLOW),
        (".github/workflows/release.yml", "on: release\njobs: {a: {steps: [{run: make test}]}}\n"),
        ("server/README", ""),
        ("scripts/check.sh", ""),
        (".pre-commit-config.yaml", "repos: []\n"),
    ];
    let tools = ["mix", "rubocop", "sh", "shellcheck", "bash"];
    assert_snapshot!(SampleProject::new(&tools, &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # Likely: `.github/workflows/ci.yml` runs it
    [[gate]]
    name = "server-mix-test-trace"
    stage = "correctness"
    run = ["mix", "test", "--trace"]
    cwd = "server"
    timeout = "10m"

    # Likely: `.github/workflows/ci.yml` runs it
    # Inactive: `./scripts/check.sh` is not executable. Once it is, uncomment this gate.
    # [[gate]]
    # name = "scripts-check.sh"
    # stage = "correctness"
    # run = ["./scripts/check.sh"]
    # timeout = "20m"

    # Likely: `.github/workflows/ci.yml` runs it
    [[gate]]
    name = "server-rubocop-parallel"
    stage = "quality"
    run = ["rubocop", "--parallel"]
    cwd = "server"
    timeout = "5m"

    # Likely: `.github/workflows/ci.yml` runs it
    [[gate]]
    name = "server-shellcheck-sh"
    stage = "quality"
    shell = "shellcheck *.sh"
    cwd = "server"
    timeout = "5m"

    # `.pre-commit-config.yaml` exists; its hooks may change files, so the gate is advisory
    # Inactive: `pre-commit` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "pre-commit"
    # stage = "quality"
    # run = ["pre-commit", "run", "--all-files"]
    # timeout = "5m"
    # required = false

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = [".github/workflows/**", ".github/actions/**", ".pre-commit-config.yaml"]

    missing: ./scripts/check.sh for `scripts-check.sh`
    missing: pre-commit for `pre-commit`
    note: `.github/workflows/ci.yml`: 6 commands were left out (not a check, or not runnable alone)
    "#);
}

#[test]
fn every_ci_format_is_read() {
    let gitlab = "\
stages: [test]
.base: &base {script: [ctest]}
unit: {<<: *base, stage: test}
lint: {script: [\"cd sub\", yamllint .]}
other: {script: !reference [.base, script]}
ship: {stage: deploy, script: make test}
";
    let circle = "jobs: {a: {steps: [checkout, {run: rspec}, {run: {command: phpunit, working_directory: sub}}]}}\n";
    let azure = "stages: [{jobs: [{steps: [{script: dotnet test, workingDirectory: sub}]}]}]\nsteps: [{bash: swift test}]\n";
    let files = [
        (".gitlab-ci.yml", gitlab),
        (".circleci/config.yml", circle),
        ("azure-pipelines.yml", azure),
        (".travis.yml", "script: [bats a, bats b]\n"),
        ("bitbucket-pipelines.yml", "pipelines: {default: [{step: {script: [tox]}}]}\n"),
        ("sub/README", ""),
    ];
    let mut shown = String::new();
    for proposal in SampleProject::new(&[], &files).survey().gates {
        let ProposedGate { gate, source, .. } = proposal;
        shown.push_str(&format!("{} {:?} {:?}\n", source.display(), gate.cwd, gate.command));
    }
    assert_snapshot!(shown, @r#"
    .gitlab-ci.yml "" Argv(["ctest"])
    .circleci/config.yml "" Argv(["rspec"])
    .circleci/config.yml "sub" Argv(["phpunit"])
    azure-pipelines.yml "" Argv(["swift", "test"])
    azure-pipelines.yml "sub" Argv(["dotnet", "test"])
    .travis.yml "" Argv(["bats", "a"])
    .travis.yml "" Argv(["bats", "b"])
    bitbucket-pipelines.yml "" Argv(["tox"])
    .gitlab-ci.yml "sub" Argv(["yamllint", "."])
    "#);
}

#[test]
fn commands_of_ci_that_gates_cover_are_left_out() {
    let workflow = "on: push\njobs: {a: {steps: [{run: cargo fmt --all --check}, {run: cargo +nightly clippy}, {run: cargo test --all-features}, {run: cargo test --verbose}, {run: cargo check}, {run: make check}, {run: typos}]}}\n";
    let files = [("Cargo.toml", PACKAGE), (".github/workflows/ci.yml", workflow)];
    let detected = SampleProject::new(&RUST, &files).survey();
    let names: Vec<_> = detected.gates.iter().map(|one| one.gate.name.as_str()).collect();
    assert_eq!(names, ["tests", "clippy", "fmt", "typos"]);
    assert_snapshot!(detected.notes.join("\n"), @"gate `tests` covers `cargo test --all-features`, but without those flags");
}

#[test]
fn files_of_peer_tools_that_cannot_be_read_are_noted() {
    let files = [("RALPH_TASK.md", "---\ntask: [\n---\n"), (".ralph.toml", "task = \n")];
    let sample = SampleProject::new(&[], &files);
    fs::create_dir(sample.project().join("docs")).unwrap();
    symlink("plans", sample.project().join("docs/plans")).unwrap();
    assert_snapshot!(sample.survey().notes.join("\n"), @r#"
    `RALPH_TASK.md` was not read: it is not valid YAML
    `docs/plans` could not be listed
    `.ralph.toml` is not valid TOML
    no gate was found, and without one a run ends as `claimed` when the agent says so, or at a limit: `ralph gate add "CMD"` adds one
    "#);
}

#[test]
fn checks_of_other_tools_are_imported() {
    let files = [
        ("RALPH_TASK.md", "---\ntask: x\ntest_command: \"phpunit --testdox\"\n---\n# Task\n"),
        (
            "docs/plans/a.md",
            "# P\n## Validation Commands\n- `bats tests`\n\n### Task 1: x\n- [ ] `rm -rf x`\n",
        ),
        (".ralph.toml", "[task.orchestrate]\nverify_commands = \"ctest && hadolint Dockerfile\"\n"),
        (".ralphy/config.yaml", "commands: {test: rspec, lint: rubocop, build: ''}\n"),
        (
            ".validator/config.yml",
            "entry_points:\n  - path: web\n    checks:\n      - unit: {command: jest}\n      - lint: {command: eslint --fix .}\n",
        ),
        (".gauntlet/checks/health.yml", "command: cs delta ${BASE}\n"),
        (".gauntlet/checks/spell.yml", "command: codespell\nrun_locally: false\n"),
        (
            ".claude/gates.json",
            r#"{"gates": {"_note": "x", "install": "npm ci", "check": {"command": "mise run check"}, "e2e": "playwright test"}}"#,
        ),
        ("ralph.yml", "backpressure: {gates: [{name: spelling, command: typos, on_fail: x}]}\n"),
        ("ralphai.json", r#"{"feedbackCommands": ["dotnet test"]}"#),
        (
            "AGENTS.md",
            "# A\n## Running tests\n```bash\n$ swift test\nopen .\n```\n## Deploy\n```sh\nmix test\n```\n",
        ),
        ("web/README", ""),
    ];
    let tools = ["phpunit", "bats", "rspec", "rubocop", "ctest"];
    assert_snapshot!(SampleProject::new(&tools, &files).proposal());
}

#[test]
fn pairs_of_names_and_words_are_gates_too() {
    let gates = r#"{"gates": [["typecheck", ["npm", "run", "typecheck"]], ["odd", ["sh", "-c", "a b"]], 7]}"#;
    let detected = SampleProject::new(&["npm"], &[(".claude/gates.json", gates)]).survey();
    let names: Vec<_> = detected.gates.iter().map(|one| one.gate.name.as_str()).collect();
    assert_eq!(names, ["typecheck"]);
}

#[test]
fn a_monorepo_of_two_stacks() {
    let files = [
        ("server/Cargo.toml", PACKAGE),
        (
            "apps/web/package.json",
            r#"{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "1"}}"#,
        ),
        ("apps/web/node_modules/left/package.json", r#"{"scripts": {"test": "x"}}"#),
        ("pnpm-lock.yaml", ""),
        ("pyproject.toml", ""),
    ];
    let tools = [&RUST[..], &["pnpm"]].concat();
    assert_snapshot!(SampleProject::new(&tools, &files).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `server/Cargo.toml` defines a package
    [[gate]]
    name = "server-tests"
    stage = "correctness"
    run = ["cargo", "test"]
    cwd = "server"
    timeout = "10m"
    min_tests = "baseline"

    # `apps/web/package.json` has a script `test`
    [[gate]]
    name = "apps-web-tests"
    stage = "correctness"
    run = ["pnpm", "exec", "vitest", "run", "--reporter=junit", "--outputFile={report}"]
    cwd = "apps/web"
    timeout = "10m"
    report = "junit"
    min_tests = "baseline"

    # `server/Cargo.toml` defines a package
    [[gate]]
    name = "server-clippy"
    stage = "quality"
    run = ["cargo", "clippy", "--all-targets", "--message-format=json"]
    cwd = "server"
    timeout = "5m"
    report = "cargo-json"

    # `server/Cargo.toml` defines a package
    [[gate]]
    name = "server-fmt"
    stage = "quality"
    run = ["cargo", "fmt", "--all", "--check"]
    cwd = "server"
    timeout = "2m"
    paths = ["**/*.rs", "**/Cargo.toml", "**/rustfmt.toml", "**/.rustfmt.toml"]

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    # Ignored by git, but needed by the gates in a clean checkout.
    [verify]
    link = ["apps/web/node_modules"]
    "#);
}

#[test]
fn gates_of_two_stacks_in_one_directory_have_different_names() {
    let files = [("Cargo.toml", PACKAGE), ("pytest.ini", ""), ("ruff.toml", "")];
    let detected = SampleProject::new(&RUST, &files).survey();
    let names: Vec<_> = detected.gates.iter().map(|one| one.gate.name.as_str()).collect();
    assert_eq!(names, ["rust-tests", "python-tests", "clippy", "fmt", "lint"]);
}

#[test]
fn projects_side_by_side_do_not_cover_each_other() {
    let files =
        [("a/Cargo.toml", PACKAGE), ("a/b/Cargo.toml", PACKAGE), ("ab/Cargo.toml", PACKAGE)];
    let detected = SampleProject::new(&RUST, &files).survey();
    let names: Vec<_> = detected.gates.iter().map(|one| one.gate.name.as_str()).collect();
    assert_eq!(names, ["a-tests", "ab-tests", "a-clippy", "a-fmt", "ab-clippy", "ab-fmt"]);
}

#[test]
fn an_empty_project() {
    assert_snapshot!(SampleProject::new(&[], &[]).proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = ["./run-tests"]
    # timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    note: no gate was found, and without one a run ends as `claimed` when the agent says so, or at a limit: `ralph gate add "CMD"` adds one
    "#);
    let gone = SampleProject::new(&[], &[]);
    fs::remove_dir(gone.project()).unwrap();
    assert_snapshot!(gone.proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # [[gate]]
    # name = "tests"
    # stage = "correctness"
    # run = ["./run-tests"]
    # timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    note: `.` could not be listed
    note: the project directory cannot be read
    "#);
}

/// Nothing in a repository makes detection panic, hang, show hidden text, or read outside the project.
#[test]
fn hostile_files_are_noted_and_left_out() {
    let sample = SampleProject::new(
        &["npm", "make", "sh"],
        &[
            (".gitlab-ci.yml", "a: &a [*a]\n"),
            (".travis.yml", "script: \"make te\\u200bst\"\n"),
            ("AGENTS.md", "# Test\n```\nmake \u{1b}]0;x\u{7}test\n```\n"),
            ("Makefile", "test\u{202e}: x\n"),
            ("a/package.json", r#"{"scripts": {"test": "jest \u001b[2J"}}"#),
            (
                "b/package.json",
                r#"{"scripts": ["test"], "devDependencies": 7, "packageManager": {}}"#,
            ),
            ("c/Cargo.toml", "[package\n"),
            ("d/pyproject.toml", "x = [[[["),
            ("e/\u{1b}[31m/package.json", r#"{"scripts": {"test": "x"}}"#),
            (
                ".claude/gates.json",
                "{\"gates\": {\"\\u001b[31m\": \"make x\\ny\", \"../../x\": \"make it\"}}",
            ),
        ],
    );
    sample.write("package.json", &[0xff, 0xfe, 0, 1]);
    sample.write("pom.xml", &vec![b'<'; 2 * 1024 * 1024]);
    sample.write(".circleci/config.yml", "- ".repeat(10_000).as_bytes());
    let outside = sample.root.path().join("outside.toml");
    write_program(&outside);
    symlink(&outside, sample.project().join("Cargo.toml")).unwrap();
    symlink(sample.project(), sample.project().join("round")).unwrap();
    symlink("/dev/zero", sample.project().join("go.mod")).unwrap();
    assert_snapshot!(sample.proposal(), @r#"
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `.claude/gates.json` declares it as a check
    [[gate]]
    name = "31m"
    stage = "correctness"
    run = ["make", "x"]
    timeout = "10m"

    # `.claude/gates.json` declares it as a check
    # Inactive: `y` is not on PATH. Once it is, uncomment this gate.
    # [[gate]]
    # name = "31m-2"
    # stage = "correctness"
    # run = ["y"]
    # timeout = "10m"

    # `.claude/gates.json` declares it as a check
    [[gate]]
    name = "x"
    stage = "correctness"
    run = ["make", "it"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = [".circleci/**", ".gitlab-ci.yml", ".travis.yml"]

    missing: y for `31m-2`
    note: `Cargo.toml` resolves to a path outside the project and was not read
    note: `c/Cargo.toml` is not valid TOML
    note: `package.json` is not UTF-8 and was not read
    note: `a/package.json` has a script `test` with invisible characters; it was left out
    note: `d/pyproject.toml` is not valid TOML
    note: `go.mod` resolves to a path outside the project and was not read
    note: `pom.xml` was not read: it is larger than 1048576 bytes
    note: `.gitlab-ci.yml` was not read: an alias refers to itself
    note: `.circleci/config.yml` was not read: it is nested too deeply
    note: `AGENTS.md` has a command with invisible characters; it was left out
    note: `.travis.yml` has a command with invisible characters; it was left out
    "#);
}

/// One line for each gate: the command, how its tests are counted, and the tool that is missing.
fn gate_lines(tools: &[&str], files: &[(&str, &str)]) -> String {
    let sample = SampleProject::new(tools, files);
    let detected = sample.survey();
    assert_eq!(sample.policy(&render_policy::render(&detected)), active_gates(&detected));
    let lines = detected.gates.iter().map(|found| {
        let command = match &found.gate.command {
            ralph_core::gate::GateInvocation::Argv(words) => words.join(" "),
            ralph_core::gate::GateInvocation::Shell(line) => line.clone(),
        };
        let missing = match &found.tool {
            ToolLookup::Found(_) => String::new(),
            ToolLookup::Missing(tool) => format!(", no {tool}"),
        };
        let (name, tests) = (&found.gate.name, found.gate.min_tests);
        format!("{name}: {command} ({}, {tests:?}){missing}\n", found.gate.report.name())
    });
    let first = files.first().map_or("", |(name, _)| name);
    format!("{first}\n  {}", lines.collect::<String>().trim_end().replace('\n', "\n  "))
}

/// The system starts a script only if it is executable and its first line names an interpreter; every other one is given
/// to a shell.
#[test]
fn a_script_that_cannot_start_is_given_to_a_shell() {
    use std::os::unix::fs::PermissionsExt;
    let shown = |text: &str, mode: u32| {
        let sample = SampleProject::new(&["sh", "bash"], &[("test.sh", text)]);
        let script = sample.project().join("test.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(mode)).unwrap();
        let gates = sample.survey().gates;
        let commands: Vec<_> = gates.iter().map(|found| &found.gate.command).collect();
        format!("{commands:?}")
    };
    let rows = [
        shown("true\n", 0o755),
        shown("#!/bin/sh\ntrue\n", 0o755),
        shown("true\n", 0o644),
        shown("#!/bin/bash\ntrue\n", 0o644),
    ];
    assert_snapshot!(rows.join("\n"), @r#"
    [Argv(["sh", "test.sh"])]
    [Argv(["./test.sh"])]
    [Argv(["sh", "test.sh"])]
    [Argv(["bash", "test.sh"])]
    "#);
}

/// A project without a manifest has a gate too; a count is required wherever one can be read.
#[test]
fn scripts_and_build_files_have_a_gate() {
    let unittest = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
    let rows = [
        gate_lines(&["sh"], &[("test.sh", "true\n")]),
        gate_lines(&["bash"], &[("tests/run.sh", "#!/usr/bin/env bash\ntrue\n")]),
        gate_lines(&["sh", "make"], &[("test.sh", ""), ("Makefile", "test:\n\tsh test.sh\n")]),
        gate_lines(&["bats"], &[("tests/all.bats", "")]),
        gate_lines(&[], &[("all.bats", "")]),
        gate_lines(&["make"], &[("Makefile", "check: all\n")]),
        gate_lines(&["just"], &[("justfile", "test:\n  true\n")]),
        gate_lines(&["python3"], &[("tests/test_a.py", unittest)]),
        gate_lines(&["python3", "pytest"], &[("tests/test_b.py", "def test_a(): pass\n")]),
        gate_lines(&["python3"], &[("test_c.py", "import pytest\n")]),
        gate_lines(&["cmake", "ctest"], &[("CMakeLists.txt", "enable_testing()\n")]),
        gate_lines(&["go"], &[("go.mod", "module a\n")]),
    ];
    assert_snapshot!(rows.join("\n"), @r#"
    test.sh
      tests: sh test.sh (text, Some)
    tests/run.sh
      tests: bash tests/run.sh (text, Some)
    test.sh
      test: make test (text, Some)
    tests/all.bats
      bats: bats --tap tests (tap, Baseline)
    all.bats
      bats: bats --tap . (tap, Baseline), no bats
    Makefile
      check: make check (text, Some)
    justfile
      test: just test (text, Some)
    tests/test_a.py
      tests: python3 -m unittest discover -v -s tests (text, Baseline)
    tests/test_b.py
      tests: python3 -m pytest -q --junitxml={report} (junit, Baseline)
    test_c.py
      tests: python3 -m pytest -q --junitxml={report} (junit, Baseline), no pytest
    CMakeLists.txt
      tests: dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cmake -S . -B "$dir" && cmake --build "$dir" && ctest --test-dir "$dir" --output-on-failure --no-tests=error --output-junit "$RALPH_REPORT" (junit, Baseline)
    go.mod
      tests: go test -json ./... (go-test-json, Baseline)
      vet: go vet ./... (text, Some)
    "#);
}

/// Every runtime has a gate that runs its tests, or builds it.
#[test]
fn managed_runtimes_have_a_gate() {
    let sdk = "<PackageReference Include=\"Microsoft.NET.Test.Sdk\" />";
    let rows = [
        gate_lines(&["dotnet"], &[("All.sln", "\"App.Tests\""), ("App.Tests/A.csproj", sdk)]),
        gate_lines(&["dotnet"], &[("Tests.csproj", sdk)]),
        gate_lines(&[], &[("App.csproj", "<Project />")]),
        gate_lines(&["bundle", "ruby"], &[("Gemfile", "gem 'rspec'"), ("spec/a_spec.rb", "")]),
        gate_lines(&["rake", "ruby"], &[("Rakefile", "Minitest::TestTask.create\n")]),
        gate_lines(&["bundle", "ruby"], &[("Gemfile", "gem 'a'"), ("test/a_test.rb", "")]),
        gate_lines(&["php"], &[("composer.json", r#"{"require-dev": {"phpunit/phpunit": "11"}}"#)]),
        gate_lines(&["php"], &[("phpunit.xml.dist", ""), ("vendor/bin/phpunit", "")]),
        gate_lines(&["php", "composer"], &[("composer.json", r#"{"scripts": {"test": "x"}}"#)]),
        gate_lines(&["mix"], &[("mix.exs", ""), (".formatter.exs", "")]),
    ];
    assert_snapshot!(rows.join("\n"), @r#"
    All.sln
      tests: dotnet test All.sln --nologo (text, Baseline)
    Tests.csproj
      tests: dotnet test Tests.csproj --nologo (text, Baseline)
    App.csproj
      build: dotnet build App.csproj --nologo (text, Some), no dotnet
    Gemfile
      tests: bundle exec rspec (text, Baseline)
    Rakefile
      tests: rake test (text, Baseline)
    Gemfile
      tests: bundle exec ruby -Ilib -Itest -e Dir['./test/**/*_test.rb'].sort.each { |file| require file } (text, Baseline)
    composer.json
      tests: vendor/bin/phpunit --log-junit {report} (junit, Baseline), no vendor/bin/phpunit
    phpunit.xml.dist
      tests: vendor/bin/phpunit --log-junit {report} (junit, Baseline), no vendor/bin/phpunit
    composer.json
      tests: composer test (text, Some)
    mix.exs
      tests: mix test (text, Baseline)
      format: mix format --check-formatted (text, Some)
    "#);
}

/// A guess by the name of a file comes last: nothing is proposed beside a real test runner.
#[test]
fn scripts_are_not_proposed_beside_other_tests() {
    let files = [("Cargo.toml", PACKAGE), ("test.sh", ""), ("tests/test_a.py", "import pytest\n")];
    let names = SampleProject::new(&RUST, &files).survey().gates;
    let names: Vec<_> = names.iter().map(|found| found.gate.name.as_str()).collect();
    assert_eq!(names, ["tests", "clippy", "fmt"]);
}
