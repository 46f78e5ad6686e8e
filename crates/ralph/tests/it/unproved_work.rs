//! Work that must not end `verified`, although its gates pass, and old failures that must not keep it from that.

use crate::prove::SUITE;
use crate::sandbox::{SESSION, Sandbox, eventually};
use std::fs;
use std::thread;

const LONGER_SUM: &str = "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n";
const THREE: &str = "test \"$(sh add.sh 1 2 3)\" = 6\n";

fn project(policy: &str, files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    let outside = |name: &str| sandbox.root().join(name).to_str().unwrap().to_owned();
    let (ran, go) = (outside("ran"), outside("go"));
    let sandbox = sandbox.env("RAN", &ran).env("GO", &go);
    sandbox.write("ralph.toml", policy);
    sandbox.write("suite.sh", SUITE);
    sandbox.write("add.sh", "echo $(($1 + $2))\n");
    sandbox.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
    for (path, text) in files {
        sandbox.write(path, text);
    }
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// The status after at most three stops.
fn final_status(sandbox: &Sandbox, run: &str) -> String {
    for _ in 0..3 {
        sandbox.send_stop(SESSION, "");
        let (status, _) = sandbox.run_status(run);
        if status != "held" && status != "armed" {
            return status;
        }
    }
    sandbox.run_status(run).0
}

/// R-L3e: an edit while the proof runs is not what was proved.
#[test]
fn an_edit_during_the_proof_is_noticed() {
    let policy = "[[gate]]\nname = \"suite\"\nrun = [\"sh\", \"suite.sh\"]\nreport = \"tap\"\nenv = [\"RAN\", \"GO\"]\n";
    let sandbox = project(policy, &[]);
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", LONGER_SUM);
    // From its second run on, which is in a checkout, the test waits for the edit.
    let waiting = "echo ran >> \"$RAN\"\n[ \"$(wc -l < \"$RAN\")\" -lt 2 ] || while [ ! -e \"$GO\" ]; do sleep 0.02; done\n";
    sandbox.write("tests/three.sh", format!("{waiting}{THREE}"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let ran = sandbox.root().join("ran");
            eventually(|| {
                let lines = fs::read_to_string(&ran).unwrap_or_default().lines().count();
                (lines >= 2).then_some(())
            });
            sandbox.write("add.sh", "echo broken\n");
            fs::write(sandbox.root().join("go"), "").unwrap();
        });
        let held = sandbox.send_stop(SESSION, "");
        assert!(held.is_block(), "{held}");
        assert!(held.stderr.contains("it changed while it was proved"), "{held}");
    });
    assert_eq!(sandbox.run_status(&run).0, "held");
}

/// A file named like a target of make keeps the tests from running, so it belongs to the harness.
#[test]
fn a_file_named_like_a_target_proves_nothing() {
    let policy = "[[gate]]\nname = \"suite\"\nrun = [\"make\", \"test\"]\n";
    let sandbox = project(policy, &[("Makefile", "test:\n\tsh suite.sh\n")]);
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", "echo broken\n");
    sandbox.write("test", "x\n");
    sandbox.write("tests/new.sh", "test -f test\n");
    assert_ne!(final_status(&sandbox, &run), "verified");
}

/// R-V1f: where no test passes in a checkout of the base, old failures show nothing.
#[test]
fn a_base_that_fails_everywhere_excuses_no_verified_work() {
    let policy = "[run]\nbaseline = \"ratchet\"\n[[gate]]\nname = \"suite\"\nrun = [\"sh\", \"suite.sh\"]\nreport = \"tap\"\n";
    let adds = "grep -q A local.cfg && test \"$(sh add.sh 1 2)\" = 3\n";
    let sandbox = project(policy, &[("tests/adds.sh", adds), (".gitignore", "local.cfg\n")]);
    sandbox.write("local.cfg", "A\n");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", "echo nonsense\n");
    sandbox.write("tests/new.sh", "test \"$(sh add.sh)\" = nonsense\n");
    assert_ne!(final_status(&sandbox, &run), "verified");
}

/// A linter that fails as it did before does not keep proven work from `verified` under a ratchet.
#[test]
fn an_old_failure_of_a_linter_is_no_obstacle() {
    let policy = "[run]\nbaseline = \"ratchet\"\n[[gate]]\nname = \"lint\"\nrun = [\"sh\", \"lint.sh\"]\n[[gate]]\nname = \"suite\"\nrun = [\"sh\", \"suite.sh\"]\nreport = \"tap\"\n";
    let lint = "echo 'src/a.sh:1:1: error: bad name [naming]'\nexit 1\n";
    let sandbox = project(policy, &[("lint.sh", lint)]);
    sandbox.ralph(["gate", "run"]);
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", LONGER_SUM);
    sandbox.write("tests/three.sh", THREE);
    assert_eq!(final_status(&sandbox, &run), "verified");
}
