//! Tracked links that lead out of the project: named when a run begins, and what they lead to may not change.

use crate::prove::adder;
use crate::sandbox::{SESSION, Sandbox, write_file};
use insta::assert_snapshot;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A project with links to a file, a directory, a link that can be changed, and a file that does not exist. All of them are
/// beside the project. Two more stay in it.
fn linked_project() -> Sandbox {
    let sandbox = adder();
    let outside = sandbox.root().join("outside");
    write_file(&outside.join("data/deep/one"), "1\n");
    write_file(&outside.join("other/one"), "1\n");
    write_file(&outside.join("file"), "1\n");
    symlink("data", outside.join("now")).unwrap();
    for (name, target) in [
        ("directory", "../outside/data"),
        ("file", "../outside/file"),
        ("indirect", "../outside/now"),
        ("missing", "../outside/missing"),
        ("inside", "tests/adds.sh"),
        ("unbuilt", "build/result"),
    ] {
        symlink(target, sandbox.project().join(name)).unwrap();
    }
    sandbox.commit();
    sandbox
}

/// How the run ends if this is done beside the project, and the last answer to a stop.
fn end_after(change: impl Fn(&Path)) -> (String, String) {
    let sandbox = linked_project();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    change(&sandbox.root().join("outside"));
    let mut stop = sandbox.send_stop(SESSION, "");
    if stop.is_block() {
        stop = sandbox.send_stop(SESSION, "");
    }
    let why = sandbox.normalize(&stop.notice());
    let why = why.split(" — ").nth(1).and_then(|why| why.split("; all ").next());
    (sandbox.run_status(&run).0, why.unwrap_or_default().to_string())
}

/// R-V1b: files that no checkpoint has are part of what gates and judges read.
#[test]
fn changed_files_behind_links_keep_a_run_from_verified() {
    let links = |names: &str| {
        let why = "targets of tracked links changed outside of the project";
        ("green".to_string(), format!("{why}: {names}"))
    };
    let unchanged = end_after(|outside| drop(write_file(&outside.join("unrelated"), "1\n")));
    assert_eq!(unchanged.0, "verified", "{unchanged:?}");
    let deep = |outside: &Path| fs::write(outside.join("data/deep/one"), "2\n").unwrap();
    assert_eq!(end_after(deep), links("`directory`, `indirect`"));
    let removed = |outside: &Path| fs::remove_file(outside.join("data/deep/one")).unwrap();
    assert_eq!(end_after(removed), links("`directory`, `indirect`"));
    let replaced = |outside: &Path| {
        fs::write(outside.join("new"), "2\n").unwrap();
        fs::rename(outside.join("new"), outside.join("file")).unwrap();
    };
    assert_eq!(end_after(replaced), links("`file`"));
    let turned = |outside: &Path| {
        fs::remove_file(outside.join("now")).unwrap();
        symlink("other", outside.join("now")).unwrap();
    };
    assert_eq!(end_after(turned), links("`indirect`"));
    let appeared = |outside: &Path| fs::write(outside.join("missing"), "1\n").unwrap();
    assert_eq!(end_after(appeared), links("`missing`"));
}

#[test]
fn links_out_of_the_project_are_named_when_a_run_begins() {
    let sandbox = linked_project();
    let mut command = sandbox.command();
    command.args(["start", "--yes", "--session", SESSION, "--goal-file", "-"]);
    let started = crate::sandbox::run_command(&mut command, b"make it work\n");
    assert_snapshot!(sandbox.normalize(&started.to_string()), @"
    exit 0
    --- stdout
    [run]  started     make it work
          session 5999882c-e786-462c-84d4-07d1c65b5e76
          limits  25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
          gates   suite
          sealed  `suite.sh` (gate suite names it)
          note    `directory`, `file`, `indirect` and others are links out of the project: no checkpoint has the files there, and if they change, the run ends as `green` at best
          stop it with `ralph cancel [run]`
    ");
}
