//! Work trees so large that a hook and its worker share the listing of their files.

use crate::gates::write_script;
use crate::sandbox::{SESSION, Sandbox, without_proof};
use std::fs;

/// More than the number of files from which listings are shared.
const FILES: usize = 2_500;

fn large_project(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let gate = "[[gate]]\nname = \"check\"\nrun = [\"./check.sh\"]\n";
    sandbox.write("ralph.toml", without_proof(gate));
    write_script(&sandbox, "check.sh", script);
    for number in 0..FILES {
        sandbox.write(&format!("src/{}/{number}.txt", number % 50), format!("{number}\n"));
    }
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// A failing gate holds; after a change of one file it runs again and decides.
#[test]
fn the_result_belongs_to_the_changed_tree() {
    let sandbox = large_project("#!/bin/sh\ngrep -q done src/7/7.txt\n");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("src/8/8.txt", "begun\n");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    sandbox.write("src/7/7.txt", "done\n");
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run), ("verified".to_string(), 1));
}

/// A gate that writes into the tree has judged another tree than the one it leaves behind, so it runs again there.
#[test]
fn a_tree_that_changes_under_its_gate_is_listed_again() {
    let sandbox = large_project("#!/bin/sh\n[ -e made.lock ] && exit 0\ntouch made.lock\nexit 1\n");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("src/8/8.txt", "done\n");
    sandbox.send_stop(SESSION, "");
    assert!(fs::exists(sandbox.project().join("made.lock")).unwrap());
    assert_eq!(sandbox.run_status(&run), ("verified".to_string(), 0));
}
