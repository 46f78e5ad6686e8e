//! Installed packages are recorded when a run starts. A change of them that no declared dependency explains keeps the run
//! from `verified`.

use crate::prove::adder;
use crate::sandbox::{SESSION, Sandbox, write_file};
use insta::assert_snapshot;
use std::fs;

const SITE: &str = ".venv/lib/python3.12/site-packages";
const LOCK: &str =
    r#"{"packages":{"node_modules/tiny":{"version":"1"},"node_modules/volts":{"version":"1"}}}"#;
const NEW_LOCK: &str =
    r#"{"packages":{"node_modules/tiny":{"version":"1"},"node_modules/volts":{"version":"2"}}}"#;

/// A project with the packages `tiny` and `volts` of Node and `check` of Python, and a run in it.
fn project_with_packages() -> (Sandbox, String) {
    let sandbox = adder();
    sandbox.write(".gitignore", "node_modules\n.venv\nvenv\n");
    sandbox.write("package.json", r#"{"dependencies":{"tiny":"1","volts":"1"}}"#);
    sandbox.write("package-lock.json", LOCK);
    sandbox.write("requirements.txt", "check==1\n");
    for name in ["tiny", "volts"] {
        sandbox.write(&format!("node_modules/{name}/package.json"), r#"{"version":"1"}"#);
        sandbox.write(&format!("node_modules/{name}/index.js"), "module.exports = 1;\n");
    }
    sandbox.write(&format!("{SITE}/check/__init__.py"), "one = 1\n");
    sandbox.write(
        &format!("{SITE}/check-1.dist-info/RECORD"),
        "check/__init__.py,sha256=x,8\ncheck-1.dist-info/RECORD,,\n",
    );
    sandbox.commit();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    (sandbox, run)
}

/// How the run ends after the files were written, which is after at most one block.
fn status_after(files: &[(&str, &str)]) -> String {
    let (sandbox, run) = project_with_packages();
    for (path, text) in files {
        write_file(&sandbox.project().join(path), text);
    }
    if sandbox.send_stop(SESSION, "").is_block() {
        assert!(!sandbox.send_stop(SESSION, "").is_block(), "{files:?}");
    }
    sandbox.run_status(&run).0
}

/// R-V1b: the runner and its packages are part of what the base's tests run with.
#[test]
fn packages_that_change_without_a_declaration_need_a_review() {
    let tiny = ("node_modules/tiny/index.js", "module.exports = 2;\n");
    let volts = [
        ("node_modules/volts/index.js", "module.exports = 2;\n"),
        ("node_modules/volts/package.json", r#"{"version":"2"}"#),
        ("package.json", r#"{"dependencies":{"tiny":"1","volts":"2"}}"#),
        ("package-lock.json", NEW_LOCK),
    ];
    let check = format!("{SITE}/check/__init__.py");
    let rows: [Vec<(&str, &str)>; 5] = [
        vec![("node_modules/shine/index.js", "module.exports = 1;\n")],
        vec![tiny, ("package.json", "{\n\"dependencies\":{\"tiny\":\"1\",\"volts\":\"1\"}}\n")],
        [vec![tiny], volts.to_vec()].concat(),
        vec![(&check, "one = 2\n"), ("requirements.txt", "check==1\nother==1\n")],
        vec![("venv/new.py", "1\n"), tiny],
    ];
    for files in rows {
        assert_eq!(status_after(&files), "needs_review", "{files:?}");
    }
}

#[test]
fn packages_may_change_with_their_declaration() {
    let volts = vec![
        ("node_modules/volts/index.js", "module.exports = 2;\n"),
        ("node_modules/volts/package.json", r#"{"version":"2"}"#),
        ("package.json", r#"{"dependencies":{"tiny":"1","volts":"2"}}"#),
        ("package-lock.json", NEW_LOCK),
    ];
    let (other, record) =
        (format!("{SITE}/other/__init__.py"), format!("{SITE}/other-1.dist-info/RECORD"));
    let compiled = format!("{SITE}/check/__pycache__/__init__.cpython-312.pyc");
    let rows: [Vec<(&str, &str)>; 3] = [
        volts,
        vec![
            (&other, "one = 1\n"),
            (&record, "other/__init__.py,sha256=x,8\nother-1.dist-info/RECORD,,\n"),
            ("requirements.txt", "check==1\nother==1\n"),
        ],
        vec![
            // The same content, and what tools write when they run.
            ("node_modules/tiny/index.js", "module.exports = 1;\n"),
            ("node_modules/.cache/tool/index.js", "1\n"),
            ("node_modules/.package-lock.json", "{}\n"),
            (&compiled, "1\n"),
        ],
    ];
    for files in rows {
        assert_eq!(status_after(&files), "verified", "{files:?}");
    }
}

/// An environment that did not exist when the run began has nothing to be compared with.
#[test]
fn packages_that_are_installed_during_the_run_prove_nothing() {
    assert_eq!(status_after(&[("venv/lib/python3.12/site-packages/new.py", "1\n")]), "green");
}

/// A program in `.bin` or in a virtual environment may appear only with the package that it belongs to.
#[test]
fn programs_of_packages_change_with_their_package() {
    let volts = [
        ("node_modules/volts/index.js", "module.exports = 2;\n"),
        ("package.json", r#"{"dependencies":{"tiny":"1","volts":"2"}}"#),
        ("package-lock.json", NEW_LOCK),
    ];
    let declares = ("node_modules/volts/package.json", r#"{"version":"2","bin":{"volts":"x.js"}}"#);
    let silent = ("node_modules/volts/package.json", r#"{"version":"2"}"#);
    let program = ("node_modules/.bin/volts", "#!/bin/sh\n");
    let rows = [
        ([&volts[..], &[declares, program]].concat(), "verified"),
        ([&volts[..], &[silent, program]].concat(), "needs_review"),
        (
            [&volts[..], &[declares, ("node_modules/.bin/node", "#!/bin/sh\n")]].concat(),
            "needs_review",
        ),
        (
            vec![(".venv/bin/python", "#!/bin/sh\n"), ("requirements.txt", "check==1\nother==1\n")],
            "needs_review",
        ),
    ];
    for (files, status) in rows {
        assert_eq!(status_after(&files), status, "{files:?}");
    }
}

/// The agent reads which packages differ. When it restores them, no result with the edited ones counts.
#[test]
fn restored_packages_are_proved_again() {
    let (sandbox, run) = project_with_packages();
    let file = sandbox.project().join("node_modules/tiny/index.js");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, "module.exports = 2;\n").unwrap();
    let held = sandbox.send_stop(SESSION, "");
    let lines = held.stderr.lines().filter(|line| line.contains("proof") || line.contains("Next"));
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    ✗ proof (correctness): installed packages changed, and no declared dependency explains it: node_modules/tiny (index.js changed)
    Next: Undo the change that is named above, or explain at the end of your message why it is needed. If only a person can decide, run `ralph ask "…"`
    "#);
    fs::write(&file, text).unwrap();
    assert!(!sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.run_status(&run).0, "verified");
}

/// R-V1b: Node finds packages above the work tree too, also in a checkout that is mounted in its place. They may not change
/// during a run, and none may appear.
#[test]
fn packages_above_the_work_tree_are_compared() {
    let kit = "node_modules/kit/index.js";
    for (before, after, expected) in [
        (Some("module.exports = 1;\n"), None, "verified"),
        (Some("module.exports = 1;\n"), Some("module.exports = 2;\n"), "needs_review"),
        (None, Some("module.exports = 2;\n"), "green"),
    ] {
        let sandbox = crate::real_projects::pass_variables(adder());
        let above = sandbox.project().parent().unwrap().join(kit);
        let load = if before.is_some() { "require('kit')" } else { "1" };
        sandbox.write("tests/kit.sh", format!("node -e \"{load}\"\n"));
        sandbox.commit();
        if let Some(text) = before {
            write_file(&above, text);
        }
        let run = sandbox.start_run(["--goal-file", "-"]);
        sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
        sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        if let Some(text) = after {
            write_file(&above, text);
        }
        let stop = sandbox.send_stop(SESSION, "");
        if stop.is_block() {
            assert!(!sandbox.send_stop(SESSION, "").is_block(), "{stop}");
        }
        assert_eq!(sandbox.run_status(&run).0, expected, "{stop}");
    }
}
