//! `ralph gate detect`: its output, and the one file that it writes.

use crate::sandbox::{Sandbox, write_file};
use insta::assert_snapshot;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A project with npm and Go files, on a machine where only npm is installed.
fn npm_project() -> Sandbox {
    let sandbox = Sandbox::without_git("project");
    let bin = sandbox.root().join("bin");
    let npm = write_file(&bin.join("npm"), "#!/bin/sh\ntouch was-run\n");
    fs::set_permissions(npm, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.write("package.json", r#"{"scripts": {"test": "./all.sh"}}"#);
    sandbox.write("node_modules/.keep", "");
    sandbox.write("tools/go.mod", "module tools\n");
    let path = bin.display().to_string();
    sandbox.env("PATH", &path)
}

#[test]
fn detection_prints_a_proposal_without_running_or_writing_anything() {
    let sandbox = npm_project();
    let shown = sandbox.ralph(["gate", "detect"]);
    assert_snapshot!(shown.to_string(), @r#"
    exit 0
    --- stdout
    # Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `package.json` has a script `test`
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npm", "test"]
    timeout = "10m"

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
    # [protect]
    # paths = ["tests/**"]

    # Ignored by git, but needed by the gates in a clean checkout.
    [verify]
    link = ["node_modules"]

    --- stderr

    3 gates, 2 of them not active
    missing: `go`, for `tools-tests`, `tools-vet`
    next: `ralph gate detect --write` writes this to `ralph.toml`
    "#);
    assert!(!sandbox.project().join("was-run").exists());
    assert!(!sandbox.project().join("ralph.toml").exists());
    assert!(!sandbox.home().join(".ralph").exists());
}

#[test]
fn a_proposal_never_overwrites_a_policy() {
    let sandbox = npm_project();
    let proposed = sandbox.ralph(["gate", "detect"]).stdout;
    let written = sandbox.ralph(["gate", "detect", "--write"]);
    assert_snapshot!(sandbox.normalize(&written.to_string()), @"
    exit 0
    --- stdout
    wrote `$ROOT/project/ralph.toml` with 3 gates, 2 of them not active

    --- stderr
    missing: `go`, for `tools-tests`, `tools-vet`
    next: review it, then approve it with `ralph trust`
    ");
    let path = sandbox.project().join("ralph.toml");
    assert_eq!(fs::read_to_string(&path).unwrap(), proposed);
    let read = sandbox.ralph(["config", "--json"]);
    assert_eq!((read.code, &*read.stderr), (Some(0), ""), "the written policy is valid");
    assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o044, 0, "others may read it");

    let mut shown = String::new();
    let other = "[[gate]]\nname = \"mine\"\nrun = [\"npm\", \"test\"]\n";
    for existing in [&*proposed, other, "", "[[["] {
        fs::write(&path, existing).unwrap();
        let refused = sandbox.ralph(["gate", "detect", "--write"]);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), existing);
        shown.push_str(&sandbox.normalize(&refused.stderr));
    }
    fs::rename(&path, sandbox.project().join(".ralph.toml")).unwrap();
    let refused = sandbox.ralph(["gate", "detect", "--write"]);
    assert_eq!(
        (refused.code, path.exists()),
        (Some(1), false),
        "a second policy file is refused: {refused}"
    );
    assert_snapshot!(shown, @r#"
    error: `$ROOT/project/ralph.toml` exists already and was not changed
      hint: it has every detected gateerror: `$ROOT/project/ralph.toml` exists already and was not changed
      hint: it has every detected gate+ tests: npm test
    error: `$ROOT/project/ralph.toml` exists already and was not changed
      hint: `ralph gate add "CMD"` adds one; `ralph gate detect` prints them as TOMLerror: `$ROOT/project/ralph.toml` exists already and was not changed
      hint: it is not valid TOML; fix it, or move it away
    "#);
}

#[test]
fn json_output_is_one_object() {
    let sandbox = npm_project();
    let shown = sandbox.ralph(["gate", "detect", "--json", "--write"]);
    assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    assert_snapshot!(sandbox.normalize(&pretty));
}

#[test]
fn usage_errors_are_reported() {
    let sandbox = npm_project();
    let mut shown = String::new();
    let calls: &[&[&str]] = &[
        &["detect", "--project", "nowhere"],
        &["detect", "--project", "package.json"],
        &["detekt"],
    ];
    for args in calls {
        let refused = sandbox.ralph([&["gate"], *args].concat());
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{refused}");
        shown.push_str(&format!("$ ralph gate {}\n{}", args.join(" "), refused.stderr));
    }
    assert_snapshot!(shown, @"
    $ ralph gate detect --project nowhere
    error: `nowhere` is not a directory
      hint: check the path
    $ ralph gate detect --project package.json
    error: `package.json` is not a directory
      hint: check the path
    $ ralph gate detekt
    error: unknown command `detekt`
      hint: did you mean `detect`?
    ");
    assert_eq!(sandbox.ralph(["gate"]).code, Some(1));
}
