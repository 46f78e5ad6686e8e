//! Programs that a repository's own configuration names: filters, monitors, hooks, conversions. None of them runs before
//! a person approved the project's policy.

use crate::sandbox::{SESSION, Sandbox, write_program};
use std::fs;

/// No command that a person may give in a foreign repository, and no hook, runs a program that it names.
#[test]
fn nothing_that_a_repository_configures_runs_before_its_approval() {
    let sandbox = Sandbox::new();
    let trace = sandbox.root().join("was-run");
    let program = sandbox.root().join("foreign");
    write_program(&program, &format!("#!/bin/sh\necho \"$0 $@\" >> {}\ncat\n", trace.display()));
    let program = program.display().to_string();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    sandbox.write("data.bin", "one\n");
    sandbox.write("more/data.bin", "one\n");
    sandbox.commit();
    sandbox.write(".gitattributes", "*.bin filter=foreign diff=foreign\n");
    for (name, value) in [
        ("filter.foreign.clean", program.as_str()),
        ("filter.foreign.smudge", &program),
        ("filter.foreign.required", "true"),
        ("filter.other.process", &program),
        ("core.fsmonitor", &program),
        ("core.hooksPath", &sandbox.root().display().to_string()),
        ("core.pager", &program),
        ("core.sshCommand", &program),
        ("diff.foreign.textconv", &program),
        ("diff.external", &program),
        ("log.showSignature", "true"),
        ("gpg.program", &program),
    ] {
        sandbox.git(&["config", name, value]);
    }
    // Size and time no longer show that the files are unchanged.
    sandbox.write("data.bin", "two\n");
    sandbox.write("more/data.bin", "two\n");
    fs::remove_file(&trace).unwrap_or_default();
    for command in [
        &["init", "--yes", "--scope", "local"][..],
        &["init", "--yes"],
        &["doctor"],
        &["status"],
        &["config"],
        &["trust"],
        &["gate", "detect"],
        &["gate", "list"],
        &["gate", "run", "--changed"],
        &["explain", "data.bin"],
        &["uninstall", "--yes"],
    ] {
        let ended = sandbox.ralph(command);
        let shown = fs::read_to_string(&trace).unwrap_or_default();
        assert_eq!(shown, "", "{command:?}: {ended}");
    }
    sandbox.send_stop(SESSION, "");
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
}
