//! Which files of a project are sealed in a run: those that a gate executes as its judge, and nothing else.

use crate::sandbox::{SESSION, Sandbox, write_program};
use insta::assert_snapshot;

/// Stops twice, because a proof that is not `verified` holds once, and returns the status and the last message.
fn end_status(sandbox: &Sandbox, run: &str) -> String {
    let first = sandbox.send_stop(SESSION, "");
    if !first.is_block() {
        return sandbox.run_status(run).0;
    }
    let last = sandbox.send_stop(SESSION, "");
    let (status, _) = sandbox.run_status(run);
    format!(
        "{status}\n{}",
        sandbox.normalize(if last.is_block() { &last.stderr } else { &first.stderr })
    )
}

fn project_with_gate(gate: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", format!("[[gate]]\nname = \"tests\"\n{gate}\n"));
    sandbox.write("README.md", "an empty project\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

const ADDER: &str = "echo $(($1 + $2))\n";
const ADDER_TEST: &str =
    "[ \"$(sh add.sh 1 2)\" = 3 ] && echo 'ok 1 - adds' || { echo 'not ok 1 - adds'; exit 1; }\n";

/// R-V1h: a gate that names a recipe or a test that does not exist yet can be met by writing it.
#[test]
fn work_that_begins_with_nothing_can_be_verified() {
    for (gate, files) in [
        (
            "run = [\"make\", \"test\"]",
            &[("Makefile", "test:\n\t@sh tests/adds.sh\n"), ("tests/adds.sh", ADDER_TEST)][..],
        ),
        ("run = [\"sh\", \"test_add.sh\"]", &[("test_add.sh", ADDER_TEST)][..]),
        (
            "shell = \"make -s check\"",
            &[("Makefile", "check:\n\tsh test.sh\n"), ("test.sh", ADDER_TEST)],
        ),
    ] {
        let sandbox = project_with_gate(gate);
        let run = sandbox.start_run(["--goal-file", "-"]);
        sandbox.write("add.sh", ADDER);
        for (name, text) in files {
            sandbox.write(name, text);
        }
        assert_eq!(end_status(&sandbox, &run), "verified", "{gate}");
    }
}

/// R-V1a: a recipe that the agent writes and that tests nothing shows nothing.
#[test]
fn a_new_recipe_that_tests_nothing_is_not_verified() {
    let sandbox = project_with_gate("run = [\"make\", \"test\"]");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", ADDER);
    sandbox.write("Makefile", "test:\n\t@echo 'ok 1 - adds'\n");
    assert_snapshot!(end_status(&sandbox, &run), @"
    green
    ralph: iteration 1 of 25 — 1 of 6 requirements is not met (run [run])

    ┌ 00000000 the goal, in the person's words
    │ make it work
    └ 00000000

    ✗ proof (correctness): no test fails without the change; no old tests have to pass
    ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ tests

    Next: Add a test that fails on the old code, or end your message with why no test can. Then stop again
    ");
}

/// Tests of the base that a new recipe may leave out keep the run from `verified`.
#[test]
fn a_new_recipe_beside_old_tests_is_not_verified() {
    let sandbox = project_with_gate("run = [\"make\", \"test\"]");
    sandbox.write("tests/old.sh", "false\n");
    sandbox.commit();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("add.sh", ADDER);
    sandbox.write("tests/adds.sh", ADDER_TEST);
    sandbox.write("Makefile", "test:\n\t@sh tests/adds.sh\n");
    let ended = end_status(&sandbox, &run);
    let proof: Vec<&str> = ended.lines().filter(|line| line.contains("proof")).collect();
    assert_snapshot!(proof.join("\n"), @"
    ✗ proof (correctness): tests could not run in the base, so nothing shows that its tests hold: `tests/old.sh`
    Next: Fix the cause above so that the proof can run, or explain at the end of your message why you cannot. Then stop again
    ");
    assert_eq!(ended.lines().next(), Some("green"));
}

/// What a stop says about the policy.
/// A goal may need a change of a sealed file. The reason names the way out, which only a person has.
#[test]
fn a_held_change_of_a_sealed_file_names_the_way_out() {
    let sandbox = project_with_gate("run = [\"sh\", \"test.sh\"]");
    sandbox.write("test.sh", ADDER_TEST);
    sandbox.write("add.sh", ADDER);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("test.sh", format!("{ADDER_TEST}# more\n"));
    let held = sandbox.send_stop(SESSION, "");
    let next = held.stderr.lines().find(|line| line.starts_with("Next:")).unwrap_or_default();
    assert_snapshot!(next, @"Next: Restore the policy and the scripts it calls; if the goal needs the change, only a person can allow it, with `--may-change FILE` at the start of a run. Then stop again");
}

fn policy_lines(sandbox: &Sandbox) -> String {
    let stop = sandbox.send_stop(SESSION, "");
    let all = stop.stderr.lines();
    let about = all.filter(|line| line.contains("policy (") || line.contains("sealed because"));
    let lines: Vec<&str> = about.map(str::trim).collect();
    if lines.is_empty() { "free".to_string() } else { sandbox.normalize(&lines.join("\n")) }
}

/// R-V1h: files that a gate checks, or whose output it compares, are the work.
#[test]
fn a_file_that_a_gate_checks_is_the_work() {
    for (gate, file) in [
        ("run = [\"bash\", \"-n\", \"greet.sh\"]", "greet.sh"),
        ("run = [\"node\", \"--check\", \"index.js\"]", "index.js"),
        ("run = [\"python3\", \"-m\", \"json.tool\", \"out.json\"]", "out.json"),
        ("shell = \"grep -q hello NOTES.md\"", "NOTES.md"),
        ("shell = \"./greet.sh | grep -q hello\"", "greet.sh"),
        ("shell = '[ \"$(./greet.sh)\" = hello ]'", "greet.sh"),
        ("run = [\"./lint.sh\"]\nrequired = false", "lint.sh"),
    ] {
        let sandbox = project_with_gate(gate);
        write_program(&sandbox.project().join(file), "#!/bin/sh\n");
        sandbox.commit();
        sandbox.approve_policy();
        sandbox.start_run(["--goal-file", "-"]);
        write_program(&sandbox.project().join(file), "#!/bin/sh\necho hello\n");
        assert_eq!(policy_lines(&sandbox), "free", "{gate}");
    }
}

/// A file that judges is sealed, and so is the absence of one that would change what a sealed one does.
#[test]
fn a_change_of_the_judge_holds() {
    let mut shown = String::new();
    for (gate, file) in [
        ("run = [\"./check.sh\"]", "check.sh"),
        ("shell = \"./check.sh | grep -q ok\"", "check.sh"),
        ("run = [\"make\", \"test\"]", "Makefile"),
        ("run = [\"make\", \"test\"]", "GNUmakefile"),
        ("run = [\"make\", \"test\"]", "local.mk"),
        ("run = [\"npm\", \"test\"]", ".npmrc"),
        ("run = [\"pnpm\", \"test\"]", ".pnpmfile.cjs"),
        ("run = [\"yarn\", \"test\"]", ".yarnrc.yml"),
        ("run = [\"cargo\", \"test\"]", "rust-toolchain"),
        ("run = [\"cargo\", \"test\"]", "rust-toolchain.toml"),
        ("run = [\"poetry\", \"run\", \"x\"]", "poetry.toml"),
        ("run = [\"go\", \"test\", \"./...\"]", "go.work"),
        ("run = [\"true\"]", "mise.toml"),
        ("run = [\"true\"]", ".python-version"),
        ("run = [\"true\"]", ".nvmrc"),
    ] {
        let sandbox = project_with_gate(gate);
        write_program(&sandbox.project().join("check.sh"), "#!/bin/sh\necho ok\n");
        sandbox.write("Makefile", "-include local.mk\ntest:\n\ttrue\n");
        sandbox.commit();
        sandbox.approve_policy();
        sandbox.start_run(["--goal-file", "-"]);
        sandbox.write(file, "other=1\n");
        shown.push_str(&format!("{file}\n{}\n", policy_lines(&sandbox)));
    }
    assert_snapshot!(shown, @"
    check.sh
    ✗ policy (correctness): `check.sh` changed since the run began; the sealed policy still applies
    │ `check.sh` changed; sealed because gate tests names it
    check.sh
    ✗ policy (correctness): `check.sh` changed since the run began; the sealed policy still applies
    │ `check.sh` changed; sealed because gate tests names it
    Makefile
    ✗ policy (correctness): `Makefile` changed since the run began; the sealed policy still applies
    │ `Makefile` changed; sealed because `make` of gate tests reads its commands from it
    GNUmakefile
    ✗ policy (correctness): `GNUmakefile` changed since the run began; the sealed policy still applies
    │ `GNUmakefile` is new; sealed because `make` of gate tests reads its commands from it
    local.mk
    ✗ policy (correctness): `local.mk` changed since the run began; the sealed policy still applies
    │ `local.mk` is new; sealed because `Makefile` includes it
    .npmrc
    ✗ policy (correctness): `.npmrc` changed since the run began; the sealed policy still applies
    │ `.npmrc` is new; sealed because it controls `npm` of gate tests
    .pnpmfile.cjs
    ✗ policy (correctness): `.pnpmfile.cjs` changed since the run began; the sealed policy still applies
    │ `.pnpmfile.cjs` is new; sealed because it controls `pnpm` of gate tests
    .yarnrc.yml
    ✗ policy (correctness): `.yarnrc.yml` changed since the run began; the sealed policy still applies
    │ `.yarnrc.yml` is new; sealed because it controls `yarn` of gate tests
    rust-toolchain
    ✗ policy (correctness): `rust-toolchain` changed since the run began; the sealed policy still applies
    │ `rust-toolchain` is new; sealed because it controls `cargo` of gate tests
    rust-toolchain.toml
    ✗ policy (correctness): `rust-toolchain.toml` changed since the run began; the sealed policy still applies
    │ `rust-toolchain.toml` is new; sealed because it controls `cargo` of gate tests
    poetry.toml
    ✗ policy (correctness): `poetry.toml` changed since the run began; the sealed policy still applies
    │ `poetry.toml` is new; sealed because it controls `poetry` of gate tests
    go.work
    ✗ policy (correctness): `go.work` changed since the run began; the sealed policy still applies
    │ `go.work` is new; sealed because it controls `go` of gate tests
    mise.toml
    ✗ policy (correctness): `mise.toml` changed since the run began; the sealed policy still applies
    │ `mise.toml` is new; sealed because it controls which programs gate tests runs
    .python-version
    ✗ policy (correctness): `.python-version` changed since the run began; the sealed policy still applies
    │ `.python-version` is new; sealed because it controls which programs gate tests runs
    .nvmrc
    ✗ policy (correctness): `.nvmrc` changed since the run began; the sealed policy still applies
    │ `.nvmrc` is new; sealed because it controls which programs gate tests runs
    ");
}

/// R-V1h, R-U2b: the start lists what is sealed and why, and says if the goal cannot be reached because of it.
#[test]
fn the_start_shows_what_is_sealed() {
    let sandbox = Sandbox::new();
    let gates = "[[gate]]\nname = \"tests\"\nrun = [\"make\", \"test\"]\n\n[[gate]]\nname = \"app\"\nrun = [\"sh\", \"app.sh\"]\n\n[[gate]]\nname = \"lint\"\nrun = [\"./lint.sh\"]\nrequired = false\n";
    sandbox.write("ralph.toml", gates);
    sandbox.write("Makefile", "test:\n\ttrue\n");
    sandbox.write("app.sh", "true\n");
    write_program(&sandbox.project().join("lint.sh"), "#!/bin/sh\n");
    sandbox.commit();
    sandbox.approve_policy();
    let start = |session: &str, more: &[&str]| {
        let words = ["start", "--session", session, "--goal-file", "-"];
        let args = words.iter().chain(more);
        let started = sandbox.ralph_with_input(args, b"Make app.sh greet.");
        let lines = started.stdout.lines();
        let lines = lines.filter(|line| line.contains("sealed"));
        sandbox.normalize(&lines.collect::<Vec<_>>().join("\n"))
    };
    assert_snapshot!(start("one", &[]), @"
    sealed  `Makefile` (`make` of gate tests reads its commands from it), `app.sh` (gate app names it)
    note    the goal names `app.sh`, which is sealed because gate app names it: a change to it blocks every stop. `--may-change` allows it; a command that only reads the file, such as `grep`, does not seal it
    ");
    assert_snapshot!(start("two", &["--may-change", "app.sh"]), @"      sealed  `Makefile` (`make` of gate tests reads its commands from it)");
    let trusted = sandbox.ralph(["trust"]).stdout;
    let hash = trusted.find("\nhash ").unwrap();
    assert_snapshot!(sandbox.normalize(&trusted[..hash]), @"
    $ROOT/project

    gates:
      tests
        make test
        make → /usr/bin/make
      app
        sh app.sh
        sh → /usr/bin/sh
      lint
        ./lint.sh
        ./lint.sh → $ROOT/project/./lint.sh

    they run with CI=true (`[environment] ci = false` leaves it out)

    the hash covers:
      ralph.toml
      Makefile: `make` of gate tests reads its commands from it
      app.sh: gate app names it
      lint.sh: gate lint names it
    ");
}
