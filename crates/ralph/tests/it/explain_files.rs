//! `ralph explain`: the class of each file, and why.

use crate::sandbox::Sandbox;
use insta::assert_snapshot;
use std::os::unix::fs::PermissionsExt;

const POLICY: &str = r#"
[[gate]]
name = "suite"
run = ["./tools/check", "--all"]
tests = ["cases/**"]

[[gate]]
name = "types"
run = ["tsc", "--noEmit"]
paths = ["**/*.ts"]

[tests]
paths = ["acceptance/*.txt"]
harness = ["tools/lib/**"]

[protect]
paths = ["acceptance/**"]
"#;

fn sandbox_with_files() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    sandbox.write("tools/check", "#!/bin/sh\nexit 0\n");
    let script = sandbox.project().join("tools/check");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox
}

/// Every file is explained with its class, the rule that decided it, and the gates that read it.
#[test]
fn files_are_explained_as_text() {
    let sandbox = sandbox_with_files();
    let explained = sandbox.ralph([
        "explain",
        "src/main.ts",
        "src/lib.rs",
        "tests/a.py",
        "acceptance/login.txt",
        "cases/1.json",
        "tools/check",
        "./tools/../tools/lib/run.py",
        "package.json",
        "node_modules/a/index.js",
    ]);
    assert_snapshot!(sandbox.normalize(&explained.to_string()), @"
    exit 0
    --- stdout
    src/main.ts
      class      code
      because    no other rule applies
      read by    suite, types

    src/lib.rs
      class      code
      because    it is Rust; only its inline tests go with the tests
      read by    suite

    tests/a.py
      class      tests
      because    it is in a directory for tests
      read by    suite

    acceptance/login.txt
      class      tests
      because    `[tests] paths` contains `acceptance/*.txt`
      read by    suite
      protected  `[protect] paths` contains `acceptance/**`

    cases/1.json
      class      tests
      because    `tests` of gate `suite` contains `cases/**`
      read by    suite

    tools/check
      class      harness (goes with the tests)
      because    the command of gate `suite` names it
      read by    suite

    tools/lib/run.py
      class      harness (goes with the tests)
      because    `[tests] harness` contains `tools/lib/**`
      read by    suite

    package.json
      class      code
      because    it is a manifest; only its sections about tests and tools go with the tests
      read by    suite

    node_modules/a/index.js
      class      environment (goes with neither code nor tests)
      because    it is an installed dependency, which code and tests share
      read by    suite
    ");
}

/// The same as JSON.
#[test]
fn files_are_explained_as_json() {
    let sandbox = sandbox_with_files();
    let explained = sandbox.ralph(["explain", "--json", "cases/1.json", "src/main.ts"]);
    assert_snapshot!(sandbox.normalize(&explained.to_string()), @r#"
    exit 0
    --- stdout
    {"v":1,"project":"$ROOT/project","files":[{"path":"cases/1.json","class":"tests","goes_with":"tests","why":"`tests` of gate `suite` contains `cases/**`","rule":"gate.tests","gates":["suite"],"protected_by":null},{"path":"src/main.ts","class":"code","goes_with":"code","why":"no other rule applies","rule":null,"gates":["suite","types"],"protected_by":null}]}
    "#);
}

/// A path outside the project is an error. A directory is skipped, and is an error only if no file is named beside it.
#[test]
fn directories_are_skipped_and_paths_outside_the_project_are_errors() {
    let sandbox = sandbox_with_files();
    let outside = sandbox.ralph(["explain", "../other.rs"]);
    assert_snapshot!(sandbox.normalize(&outside.to_string()), @"
    exit 1
    --- stderr
    error: `../other.rs` is not in the project `$ROOT/project`
      hint: name files in this project, or choose another project with `--project`
    ");
    let directory = sandbox.ralph(["explain", "tools"]);
    assert_snapshot!(sandbox.normalize(&directory.to_string()), @"
    exit 1
    --- stderr
    note: `tools` is a directory; name the files in it
    error: no file is named
      hint: name the files in the directories
    ");
    let both = sandbox.ralph(["explain", "tools", "ralph.toml"]);
    assert_snapshot!(sandbox.normalize(&both.to_string()), @"
    exit 0
    --- stdout
    ralph.toml
      class      harness (goes with the tests)
      because    it is ralph's policy
      read by    suite

    --- stderr
    note: `tools` is a directory; name the files in it
    ");
    assert_snapshot!(sandbox.ralph(["explain"]).to_string(), @"
    exit 1
    --- stderr
    error: `FILE` is missing
      hint: run `ralph explain --help`
    ");
}
