//! Checkouts are mounted in place of the project for the whole run, if they could be when it began.

use crate::faults::unshare_options;
use crate::judges::{JudgedProject, REVIEW, met};
use crate::prove::adder;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, run_command};
use insta::assert_snapshot;
use std::fs;
use std::path::Path;

/// Nothing can be mounted in a namespace whose own user allows no further mount namespace.
const NO_MOUNTS: &str = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"";

/// Runs ralph where nothing can be mounted.
fn run_without_mounts(sandbox: &Sandbox, args: &[&str], input: &str) -> CommandOutcome {
    let mut command = sandbox.tool_command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", NO_MOUNTS, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_ralph")).args(args);
    run_command(&mut command, input.as_bytes())
}

fn stop_without_mounts(project: &JudgedProject) -> String {
    let event = project.sandbox.stop_event(SESSION, "");
    let stopped = run_without_mounts(&project.sandbox, &["hook", "claude"], &event);
    project.mask(&stopped.to_string())
}

/// Whether namespaces with and without mounts can be made here.
fn can_forbid_mounts() -> bool {
    let sandbox = Sandbox::new();
    unshare_options().is_some() && run_without_mounts(&sandbox, &["--version"], "").code == Some(0)
}

/// A project with a judge that writes down where it runs, and its `TMPDIR`.
fn located_judge(sandbox: Sandbox) -> JudgedProject {
    let project = JudgedProject::of(sandbox, REVIEW);
    let root = project.sandbox.root().display().to_string();
    let script = format!("pwd >> {root}/places\ncat {root}/answer.json\n");
    project.sandbox.write("judge.sh", script);
    let test = format!("printf '%s\\n' \"$TMPDIR\" >> {root}/temporary\n");
    project.sandbox.write("tests/place.sh", test);
    project.sandbox.commit();
    project.sandbox.approve_policy();
    project.answer(&met());
    project
}

/// R-S5c: no name of a `TMPDIR` keeps a checkout from being mounted in place of the project.
#[test]
fn checkouts_are_mounted_whatever_the_temporary_directory_is_called() {
    if unshare_options().is_none() {
        return;
    }
    let long = ["n"; 7].map(|part| part.repeat(200)).join("/");
    for name in ["a,b:c", "a\\b\\:c\\", "\"a,lowerdir=/", &long] {
        let mut project = located_judge(adder());
        // Checkouts are not below a hidden directory, such as that of the sandbox.
        let directory = tempfile::Builder::new().prefix("plain").tempdir_in("/tmp").unwrap();
        let temporary = fs::canonicalize(directory.path()).unwrap().join(name);
        fs::create_dir_all(&temporary).unwrap();
        project.sandbox = project.sandbox.env("TMPDIR", temporary.to_str().unwrap());
        let run = project.start();
        project.stop();
        assert_eq!(project.status(&run), "verified", "{name}");
        let place = fs::read_to_string(project.path("places")).unwrap();
        assert_eq!(place, format!("{}\n", project.sandbox.project().display()), "{name}");
        let used = fs::read_to_string(project.path("temporary")).unwrap();
        let mut used = used.lines().map(Path::new).filter(|path| *path != temporary).peekable();
        assert!(used.peek().is_some(), "{name}");
        assert!(used.all(|path| path.starts_with(&temporary)), "{name}");
    }
}

/// R-S5c: a stop where nothing can be mounted gives no verdict in a run that began elsewhere. A judge would find the files
/// of the work tree under their absolute path.
#[test]
fn a_stop_that_cannot_mount_checkouts_gives_no_verdict() {
    if !can_forbid_mounts() {
        return;
    }
    let project = located_judge(adder());
    let run = project.start();
    let stops = [(); 3].map(|()| stop_without_mounts(&project));
    assert_snapshot!(stops[1..].join("\n"), @r#"
    exit 2
    --- stdout
    {}
    --- stderr
    ralph: iteration 2 of 25 — 1 of 6 requirements has no result (run [run])

    ? review (judge, prompt): no result: checkouts cannot be mounted here, but could be when the run began: continue where it was started, or start a new run
    ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ suite

    Next: Leave the work as it is; review is asked once more. Then stop again

    exit 0
    --- stdout
    {"systemMessage":"ralph: gate_broken: make it work — review gave no result twice in a row: checkouts cannot be mounted here, but could be when the run began: continue where it was started, or start a new run (run [run]); fix it until `ralph judge run review` gets a verdict, then run `/ralph:goal` again"}
    "#);
    assert_eq!(project.status(&run), "gate_broken");
    assert!(!fs::exists(project.path("places")).unwrap());
}

/// The same where only gates and their proof use checkouts.
#[test]
fn a_proof_that_cannot_mount_checkouts_is_not_verified() {
    if !can_forbid_mounts() {
        return;
    }
    let project = JudgedProject::of(adder(), "");
    let run = project.start();
    let stops = [(); 2].map(|()| stop_without_mounts(&project));
    assert_snapshot!(stops.join("\n"), @r#"
    exit 2
    --- stdout
    {}
    --- stderr
    ralph: iteration 1 of 25 — 1 of 6 requirements is not met (run [run])

    ┌ 00000000 the goal, in the person's words
    │ make it work
    └ 00000000

    ✗ proof (correctness): `suite` passes in the project and gives no result in a clean checkout of it: checkouts cannot be mounted here, but could be when the run began: continue where it was started, or start a new run
    ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ suite

    Next: Fix the cause above so that the proof can run, or explain at the end of your message why you cannot. Then stop again

    exit 0
    --- stdout
    {"systemMessage":"ralph: green: make it work — `suite` passes in the project and gives no result in a clean checkout of it: checkouts cannot be mounted here, but could be when the run began: continue where it was started, or start a new run; all 5 requirements are met after 1 iteration and [took] (run [run]); review the change (`ralph checkpoint diff [run]`) and run `ralph accept [run]`, or start a new run that adds a test"}
    "#);
    assert_eq!(project.status(&run), "green");
}

/// A run that begins where nothing can be mounted has checkouts with a path of their own, and copies of packages.
#[test]
fn a_run_that_begins_without_mounts_goes_on_without_them() {
    if !can_forbid_mounts() {
        return;
    }
    let project = located_judge(adder());
    let args = ["start", "--json", "--yes", "--session", SESSION, "--goal-file", "-"];
    let started = run_without_mounts(&project.sandbox, &args, "make it work\n");
    assert_eq!(started.code, Some(0), "{started}");
    project.write_work();
    stop_without_mounts(&project);
    let place = fs::read_to_string(project.path("places")).unwrap();
    assert_ne!(place, format!("{}\n", project.sandbox.project().display()));
    assert_eq!(project.sandbox.status()["runs"][0]["status"], "verified");
}
