//! `ralph clean`, the cleaning in the background, and what `ralph uninstall` leaves and removes.

use crate::prove::adder;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, eventually, write_file};
use insta::assert_snapshot;
use regex::Regex;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

const GOAL_FROM_STDIN: [&str; 2] = ["--goal-file", "-"];
const DAY: Duration = Duration::from_hours(24);

fn succeeds(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.ralph(args);
    assert_eq!(ended.code, Some(0), "{args:?}: {ended}");
    ended.stdout
}

/// Sizes depend on times and ids in the files.
fn mask(sandbox: &Sandbox, shown: &impl ToString) -> String {
    let size = Regex::new(r" +[\d.]+ (B|KiB)").unwrap();
    size.replace_all(&sandbox.normalize(&shown.to_string()), " [size]").into_owned()
}

fn refs(sandbox: &Sandbox) -> String {
    let mut git = Command::new("git");
    git.current_dir(sandbox.project()).args(["for-each-ref", "--format=%(refname)", "refs/ralph/"]);
    String::from_utf8(git.output().unwrap().stdout).unwrap()
}

fn set_age(path: &PathBuf, age: Duration) {
    File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

/// The checkout of a run, as earlier versions left it.
fn old_checkout(sandbox: &Sandbox, run: &str) -> PathBuf {
    let checkout = sandbox.ralph_home(&format!("runs/{run}/shadow.git/checkout"));
    write_file(&checkout.join("target/debug/app"), "built");
    checkout
}

/// A run that was cancelled, one that is active, both with checkpoints, and a few leftovers.
fn used_sandbox() -> (Sandbox, String, String) {
    let sandbox = Sandbox::new();
    sandbox.write("README.md", "one\n");
    sandbox.commit();
    let [ended, active] = [SESSION, "other"].map(|session| {
        let run = sandbox.start_run_for(session, GOAL_FROM_STDIN);
        succeeds(&sandbox, &["checkpoint", "make", &run]);
        run
    });
    succeeds(&sandbox, &["cancel", &ended]);
    write_file(&sandbox.ralph_home("trash/0123456789abcdef/half"), "removed");
    let log = write_file(&sandbox.ralph_home("cache/logs/tests-0.log"), "output");
    set_age(&log, DAY * 31);
    write_file(&sandbox.ralph_home("cache/logs/tests-1.log"), "output");
    (sandbox, ended, active)
}

#[test]
fn what_is_kept_and_what_can_go_is_shown_and_then_removed() {
    let (sandbox, ended, active) = used_sandbox();
    let checkouts = [&ended, &active].map(|run| old_checkout(&sandbox, run));
    assert_snapshot!(mask(&sandbox, &succeeds(&sandbox, &["clean", "--dry-run"])), @"
    $ROOT/project
    kept
      runs                      1 [size]  active, paused, orphaned, or still at work
      checkouts                 1 [size]  in use
      runs                      1 [size]  used in the last 30 d
      gate logs                 1 [size]  used in the last 30 d
    can go
      checkouts                 1 [size]  their run or process has ended
      removed directories       1 [size]  left behind
      gate logs                 1 [size]  not used for 30 d
    nothing was removed
    ");
    let refused = sandbox.ralph(["clean"]);
    assert_snapshot!(refused.stderr, @"
    error: not a terminal, so I can't ask; nothing was removed
      hint: `--dry-run` shows what would change, `--yes` skips the question
    ");
    assert_snapshot!(sandbox.ralph(["clean", "--json"]).stderr, @"
    error: `--json` does not ask; nothing was removed
      hint: `--dry-run` shows what would change, `--yes` skips the question
    ");
    assert!(checkouts.iter().all(|path| path.exists()));

    assert_snapshot!(mask(&sandbox, &succeeds(&sandbox, &["clean", "--yes"])), @"
    $ROOT/project
    kept
      runs                      1 [size]  active, paused, orphaned, or still at work
      checkouts                 1 [size]  in use
      runs                      1 [size]  used in the last 30 d
      gate logs                 1 [size]  used in the last 30 d
    can go
      checkouts                 1 [size]  their run or process has ended
      removed directories       1 [size]  left behind
      gate logs                 1 [size]  not used for 30 d
    removed 3 items, [size]
    ");
    assert_eq!(checkouts.map(|path| path.exists()), [false, true]);
    assert!(!sandbox.ralph_home("trash").exists());

    let shown = succeeds(&sandbox, &["clean", "--yes", "--json", "--keep", "0"]);
    let shown =
        Regex::new(r#""(bytes|removed_bytes)":\d+"#).unwrap().replace_all(&shown, "\"$1\":0");
    assert_snapshot!(sandbox.normalize(&shown).replace(&ended, "[ended]"), @r#"{"v":1,"project":"$ROOT/project","status":"removed","kept":[{"kind":"run","reason":"in_use","count":1,"bytes":0,"items":["[run]"]},{"kind":"checkout","reason":"in_use","count":1,"bytes":0,"items":["[run]"]},{"kind":"gate_log","reason":"recent","count":1,"bytes":0,"items":["$ROOT/home/.ralph/cache/logs/tests-1.log"]}],"remove":[{"kind":"run","reason":"too_many_runs","count":1,"bytes":0,"items":["[ended]"]}],"removed":1,"removed_bytes":0,"failed":[]}"#);
    assert!(!sandbox.ralph_home(&format!("runs/{ended}")).exists());
    assert_eq!(refs(&sandbox), format!("refs/ralph/{active}/0\n"));
    assert_eq!(sandbox.run_status(&active).0, "armed");
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert!(sandbox.send_stop("other", "").is_block(), "the other run still holds its session");
}

/// Another project is not touched without `--all`.
#[test]
fn only_runs_of_this_project_go() {
    let (sandbox, ended, _) = used_sandbox();
    let other = sandbox.root().join("elsewhere");
    fs::create_dir(&other).unwrap();
    let elsewhere = other.to_str().unwrap();
    succeeds(&sandbox, &["clean", "--yes", "--older-than", "0s", "--project", elsewhere]);
    assert!(sandbox.ralph_home(&format!("runs/{ended}")).exists());
    succeeds(&sandbox, &["clean", "--yes", "--older-than", "0s", "--all"]);
    assert!(!sandbox.ralph_home(&format!("runs/{ended}")).exists());
}

#[test]
fn links_are_not_followed() {
    let (sandbox, ended, _) = used_sandbox();
    let outside = write_file(&sandbox.root().join("outside/mine"), "mine");
    let directory = outside.parent().unwrap();
    for link in [format!("runs/{ended}/link"), "runs/zzzz".to_string(), "trash/link".to_string()] {
        symlink(directory, sandbox.ralph_home(&link)).unwrap();
    }
    fs::create_dir_all(sandbox.ralph_home("cache/gates")).unwrap();
    symlink(directory, sandbox.ralph_home("cache/gates/aa")).unwrap();
    succeeds(&sandbox, &["clean", "--yes", "--all", "--older-than", "0s"]);
    assert!(!sandbox.ralph_home(&format!("runs/{ended}")).exists());
    assert!(fs::symlink_metadata(sandbox.ralph_home("trash/link")).is_err());
    let names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["mine"]);
}

/// A directory of ralph's home may be a link to anything.
#[test]
fn a_linked_directory_of_the_home_is_left_alone() {
    for (name, moved) in [
        ("cache", "cache/logs/tests-0.log"),
        ("cache/logs", "cache/logs/tests-0.log"),
        ("runs", ""),
        ("trash", "trash/0123456789abcdef/half"),
    ] {
        let (sandbox, ended, _) = used_sandbox();
        let moved = if moved.is_empty() { format!("runs/{ended}/run.json") } else { moved.into() };
        let outside = sandbox.root().join("outside");
        fs::rename(sandbox.ralph_home(name), &outside).unwrap();
        symlink(&outside, sandbox.ralph_home(name)).unwrap();
        let args = ["clean", "--yes", "--all", "--older-than", "0s"];
        let shown = sandbox.ralph(args);
        let note =
            format!("note: `$ROOT/home/.ralph/{name}` is a link; nothing behind it is removed\n");
        assert!(sandbox.normalize(&shown.stdout).contains(&note), "{name}: {shown}");
        assert!(sandbox.ralph_home(&moved).exists(), "{name}: {shown}");
        let json = sandbox.ralph(["clean", "--all", "--json", "--dry-run"]).stdout;
        assert!(
            sandbox.normalize(&json).contains(&format!(r#""linked":["$ROOT/home/.ralph/{name}"]"#)),
            "{name}: {json}"
        );
    }
}

#[test]
fn agents_and_a_second_cleaning_are_refused() {
    let (sandbox, ended, _) = used_sandbox();
    let lock = File::create(sandbox.ralph_home("cleaning")).unwrap();
    lock.lock().unwrap();
    assert_snapshot!(sandbox.ralph(["clean", "--yes", "--older-than", "0s"]).stderr, @"
    error: ralph is already cleaning in another process; nothing was removed
      hint: run it again when that one is done
    ");
    drop(lock);
    let sandbox = sandbox.env("CLAUDECODE", "1");
    assert_snapshot!(sandbox.ralph(["clean", "--yes", "--older-than", "0s"]).stderr, @"
    error: an agent may not remove ralph's records
      hint: ask a person to run it in their own terminal; `--dry-run` shows what would go
    ");
    write_file(&sandbox.ralph_home("config.toml"), "[keep]\nruns = 0\n");
    set_age(&sandbox.ralph_home("cache/cleaned"), DAY * 2);
    assert_snapshot!(sandbox.ralph(["clean", "--in-background"]).stderr, @"
    error: only ralph itself starts a cleaning in the background; nothing was removed
      hint: use `ralph clean`
    ");
    assert!(sandbox.ralph_home(&format!("runs/{ended}")).exists());
}

/// A crash at any point leaves something that the next cleaning finishes.
#[test]
fn an_interrupted_cleaning_is_finished_by_the_next_one() {
    for step in 1.. {
        let (sandbox, ended, active) = used_sandbox();
        let args = ["clean", "--yes", "--older-than", "0s"];
        let mut command = sandbox.command();
        command.args(args).env("RALPH_FAILPOINT", format!("kill:{step}"));
        let first = crate::sandbox::run_command(&mut command, b"");
        succeeds(&sandbox, &args);
        assert!(!sandbox.ralph_home(&format!("runs/{ended}")).exists(), "{step}: {first}");
        assert!(!has_entries(&sandbox.ralph_home("trash")), "{step}: {first}");
        assert_eq!(refs(&sandbox), format!("refs/ralph/{active}/0\n"), "{step}: {first}");
        if first.code == Some(0) {
            assert!(step > 5, "{step}");
            return;
        }
    }
}

/// Directories in which gates of proofs run are gone when the run ends, and so are those of killed processes.
#[test]
fn no_checkout_is_left_after_the_end_of_a_run() {
    let sandbox = adder();
    let temporary = sandbox.root().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let sandbox = sandbox.env("TMPDIR", temporary.to_str().unwrap());
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    let checkout = old_checkout(&sandbox, &run);
    let abandoned = temporary.join("0123456789abcdef");
    write_file(&abandoned.join("now/target/app"), "built");
    let record = format!(
        r#"{{"path":"{}","process":{{"pid":{},"started":1}}}}"#,
        abandoned.display(),
        u32::MAX
    );
    // Written after the base was measured, which would remove it.
    eventually(|| (!has_entries(&sandbox.ralph_home("proofs"))).then_some(()));
    write_file(&sandbox.ralph_home("proofs/0123456789abcdef"), record);
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run).0, "verified");
    assert!(!checkout.exists(), "it is moved away before the answer");
    eventually(|| {
        let places = [sandbox.ralph_home("trash"), sandbox.ralph_home("proofs"), temporary.clone()];
        (!places.iter().any(has_entries)).then_some(())
    });
}

fn has_entries(directory: &PathBuf) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// Once a day, a worker removes by the person's settings what is too old.
#[test]
fn ralph_cleans_once_a_day_without_being_asked() {
    let (sandbox, ended, active) = used_sandbox();
    write_file(&sandbox.ralph_home("config.toml"), "[keep]\nruns = 0\n");
    let stamp = sandbox.ralph_home("cache/cleaned");
    assert!(stamp.exists(), "written at the first end of a run");
    let third = sandbox.start_run_for("third", GOAL_FROM_STDIN);
    succeeds(&sandbox, &["cancel", &third]);
    assert!(sandbox.ralph_home(&format!("runs/{ended}")).exists(), "not a day later");
    set_age(&stamp, DAY * 2);
    let fourth = sandbox.start_run_for("fourth", GOAL_FROM_STDIN);
    succeeds(&sandbox, &["cancel", &fourth]);
    let gone = [&ended, &third, &fourth].map(|run| sandbox.ralph_home(&format!("runs/{run}")));
    let log = sandbox.ralph_home("cache/logs/tests-0.log");
    eventually(|| (!gone.iter().any(|path| path.exists()) && !log.exists()).then_some(()));
    assert_eq!(sandbox.run_status(&active).0, "armed");
    assert!(sandbox.ralph_home("cache/logs/tests-1.log").exists());
}

#[test]
fn uninstall_says_what_stays_and_removes_it_with_all() {
    let (sandbox, ended, active) = used_sandbox();
    let policy = sandbox.write("ralph.toml", "[run]\nstuck_after = 4\n");
    assert_snapshot!(mask(&sandbox, &succeeds(&sandbox, &["uninstall"])), @r"
    $ROOT/project
    ralph is not in the settings of this project
    these stay:
      runs                                    1 [size]  `ralph clean --older-than 0s --unsettled`
      active runs                             1 [size]  `ralph uninstall --all`
      refs below refs/ralph/                  2            `ralph uninstall --all`
      policy                                  1 [size]  `rm $ROOT/project/ralph.toml`
      cached results of all projects          2 [size]  `ralph clean --older-than 0s`
    `ralph uninstall --all` removes these, except a policy that you wrote and unmerged work
    your settings and approvals stay in `$ROOT/home/.ralph`
    ");
    let named = ["uninstall", "--dry-run", "--project", "."];
    assert_snapshot!(mask(&sandbox, &succeeds(&sandbox, &named)), @r"
    $ROOT/project
    ralph is not in the settings of this project
    these stay:
      runs                                    1 [size]  `ralph clean --older-than 0s --unsettled --project $ROOT/project`
      active runs                             1 [size]  `ralph uninstall --all --project $ROOT/project`
      refs below refs/ralph/                  2            `ralph uninstall --all --project $ROOT/project`
      policy                                  1 [size]  `rm $ROOT/project/ralph.toml`
      cached results of all projects          2 [size]  `ralph clean --older-than 0s --project $ROOT/project`
    `ralph uninstall --all --project $ROOT/project` removes these, except a policy that you wrote and unmerged work
    your settings and approvals stay in `$ROOT/home/.ralph`
    ");
    let refused = sandbox.ralph_without_terminal(&["uninstall", "--all", "--yes"]);
    assert_snapshot!(mask(&sandbox, &refused), @r"
    exit 3
    --- stdout
    $ROOT/project
    with `--all` these go too:
      runs                                    1 [size]
      active runs                             1 [size]
      refs below refs/ralph/                  2
      cached results of all projects          2 [size]

    --- stderr
    error: run `[run]` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run it in the foreground of your own terminal
    ");
    assert_eq!(refs(&sandbox).lines().count(), 2);

    let (removed, _) = sandbox.ralph_typing(["uninstall", "--all", "--yes"], str::to_string);
    let CommandOutcome { code, stdout, stderr } = removed;
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert_snapshot!(mask(&sandbox, &stdout), @r"
    $ROOT/project
    with `--all` these go too:
      runs                                    1 [size]
      active runs                             1 [size]
      refs below refs/ralph/                  2
      cached results of all projects          2 [size]
    ralph is not in the settings of this project
    removed 5 items, [size]
    these stay:
      policy                                  1 [size]  `rm $ROOT/project/ralph.toml`
    your settings and approvals stay in `$ROOT/home/.ralph`
    ");
    assert_eq!(refs(&sandbox), "");
    for run in [ended, active] {
        assert!(!sandbox.ralph_home(&format!("runs/{run}")).exists());
    }
    assert!(policy.exists(), "a person wrote it");

    // Nothing is left to remove, so no heading announces it.
    assert_snapshot!(mask(&sandbox, &succeeds(&sandbox, &["uninstall", "--all", "--yes"])), @r"
    $ROOT/project
    ralph is not in the settings of this project
    removed 0 items, [size]
    these stay:
      policy                                  1 [size]  `rm $ROOT/project/ralph.toml`
    your settings and approvals stay in `$ROOT/home/.ralph`
    ");
    let json = succeeds(&sandbox, &["uninstall", "--all", "--yes", "--json"]);
    assert_snapshot!(sandbox.normalize(&json), @r#"{"v":1,"project":"$ROOT/project","status":"unchanged","files":[],"revoked":0,"kept":"$ROOT/home/.ralph","stays":[{"what":"policy","count":1,"bytes":22,"command":"rm $ROOT/project/ralph.toml"}],"removed":0,"notes":[]}"#);
}
