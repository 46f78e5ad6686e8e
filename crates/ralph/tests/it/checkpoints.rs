//! `ralph checkpoint`: listing, comparing, restoring and pruning the checkpoints of a run.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, run_command, spawn_with_input};
use insta::assert_snapshot;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

const GOAL_FROM_STDIN: [&str; 2] = ["--goal-file", "-"];

fn run_checkpoint(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    sandbox.ralph(["checkpoint"].iter().chain(args))
}

fn checkpoint_succeeds(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    let ended = run_checkpoint(sandbox, args);
    assert_eq!(ended.code, Some(0), "{args:?}: {ended}");
    ended
}

/// Mode and contents of every file, without the objects and refs of checkpoints.
fn project_files(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let is_ours = |path: &Path| {
        let path = path.strip_prefix(directory).unwrap();
        path.starts_with(".git/objects") || path.starts_with(".git/refs/ralph")
    };
    let found = crate::sandbox::read_files(directory).into_iter();
    found
        .filter(|(path, _)| !is_ours(path))
        .map(|(path, bytes)| {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            (path, (mode, bytes))
        })
        .collect()
}

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"\d\d:\d\d:\d\d", "[time]");
    settings.add_filter(r#""(commit|tree)":"[0-9a-f]{40}""#, r#""$1":"[id]""#);
    settings
}

/// A run with three checkpoints and a later change.
fn run_with_checkpoints() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write(".gitignore", "ignored\n");
    sandbox.write("src/lib.rs", "one\ntwo\n");
    sandbox.write("run.sh", "#!/bin/sh\n");
    sandbox.commit();
    sandbox.write("ignored", "mine");
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    checkpoint_succeeds(&sandbox, &["make", &run]);
    sandbox.write("src/lib.rs", "one\n2\nthree\n");
    sandbox.write("notes/new.txt", "untracked\n");
    checkpoint_succeeds(&sandbox, &["make", &run]);
    fs::remove_file(sandbox.project().join("run.sh")).unwrap();
    sandbox.write("data.bin", [0, 159, 146, 150]);
    checkpoint_succeeds(&sandbox, &["make", &run]);
    sandbox.write("README.md", "changed\u{1b}[31m\n");
    (sandbox, run)
}

/// A question settles a stop before anything is judged, and the work is checkpointed all the same.
#[test]
fn a_stop_that_asks_is_checkpointed() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"false\"]\n");
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    sandbox.write("work.txt", "half\n");
    let asked = sandbox.ralph(["ask", "--run", &run, "which licence?"]);
    assert_eq!(asked.code, Some(0), "{asked}");
    assert!(!sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.run_status(&run).0, "needs_human");
    let listed = sandbox.ralph(["list", "checkpoints", &run]).stdout.replace(&run, "[run]");
    let listed = sandbox.normalize(&listed);
    snapshot_settings().bind(|| {
        assert_snapshot!(listed, @"
        [run]  2 checkpoints of `$ROOT/project`
                0  [time]  start of the run
                1  [time]  the agent asked a person
        ");
    });
    let changed = checkpoint_succeeds(&sandbox, &["diff", &run]).stdout;
    assert!(changed.contains("work.txt"), "{changed}");
}

#[test]
fn checkpoints_are_listed_compared_and_restored() {
    let (sandbox, run) = run_with_checkpoints();
    let run = run.as_str();
    let calls: &[&[&str]] = &[
        &["list", run],
        &["list", run, "--json"],
        &["make", run],
        &["make", run, "--json"],
        &["diff", run, "0", "1"],
        &["diff", run, "--stat"],
        &["diff", run, "1", "2", "--json"],
        &["restore", run, "0", "--dry-run"],
        &["restore", run, "1", "--dry-run", "--json"],
        &["restore", run, "0", "--yes"],
        &["restore", run, "0", "--yes"],
        &["restore", run, "2", "--yes", "--json"],
        &["list", run],
    ];
    let mut shown = String::new();
    for args in calls {
        let ended = checkpoint_succeeds(&sandbox, args);
        shown.push_str(&format!("$ ralph checkpoint {}\n{}\n", args.join(" "), ended.stdout));
    }
    snapshot_settings().bind(|| assert_snapshot!(sandbox.normalize(&shown)));
}

/// R-L10a: a checkpoint has the files that a pattern of the project re-includes.
#[test]
fn re_included_files_are_in_checkpoints() {
    let sandbox = Sandbox::new();
    sandbox.write(".gitignore", "__pycache__/\n!deep/__pycache__/\n");
    sandbox.commit();
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    checkpoint_succeeds(&sandbox, &["make", &run]);
    for file in
        ["deep/__pycache__/a.pyc", "deep/__pycache__/b/c", "deep/d.pyc", "__pycache__/e.pyc"]
    {
        sandbox.write(file, "left behind\n");
    }
    checkpoint_succeeds(&sandbox, &["make", &run]);
    let ended = checkpoint_succeeds(&sandbox, &["diff", &run, "0", "1", "--stat"]);
    assert_snapshot!(sandbox.normalize(&ended.stdout), @"
    added             +1      -0  deep/__pycache__/a.pyc
    added             +1      -0  deep/__pycache__/b/c
    ");
}

/// A terminal would hide what follows the beginning of a sequence, and a reader does not see invisible characters: a
/// diff shows both. Tabs and line ends stay, so the patch of ordinary text can be applied.
#[test]
fn a_diff_shows_hidden_code() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    checkpoint_succeeds(&sandbox, &["make", &run]);
    sandbox.write("main.sh", "echo fixed\u{1b}]; rm -rf x; echo \u{7}\n\ttab\r\nadm\u{200b}in\n");
    sandbox.write("conf\u{200b}test.py", "evil\n");
    sandbox.write("conftest.py", "harmless\n");
    checkpoint_succeeds(&sandbox, &["make", &run]);
    let patch = checkpoint_succeeds(&sandbox, &["diff", &run, "0", "1"]).stdout;
    let added: Vec<_> = patch.split('\n').filter(|line| line.starts_with('+')).collect();
    assert_snapshot!(added.join("\n").replace('\t', "<tab>").replace('\r', "<return>"), @r"
    +++ b/conftest.py
    +harmless
    +++ b/conf\u{200b}test.py
    +evil
    +++ b/main.sh
    +echo fixed\u{1b}]; rm -rf x; echo \u{7}
    +<tab>tab<return>
    +adm\u{200b}in
    ");
    let listed = checkpoint_succeeds(&sandbox, &["diff", &run, "0", "1", "--stat"]).stdout;
    assert_snapshot!(listed, @r"
    added             +1      -0  conftest.py
    added             +1      -0  conf\u{200b}test.py
    added             +3      -0  main.sh
    ");
}

#[test]
fn refusals_come_with_a_hint() {
    let (sandbox, run) = run_with_checkpoints();
    let fresh = sandbox.start_run_for("other", GOAL_FROM_STDIN);
    let run = run.as_str();
    let calls: &[&[&str]] = &[
        &["list", "nope"],
        &["diff", run, "7"],
        &["diff", &fresh],
        &["diff", run, "x"],
        &["restore", run, "7", "--yes"],
        &["restore", run, "0"],
        &["restore", run],
        &["prune", run],
        &["lits"],
    ];
    let before = project_files(sandbox.project());
    let mut shown = String::new();
    for args in calls {
        let refused = run_checkpoint(&sandbox, args);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{args:?}: {refused}");
        shown.push_str(&format!("$ ralph checkpoint {}\n{}", args.join(" "), refused.stderr));
    }
    assert_eq!(project_files(sandbox.project()), before);
    let shown = sandbox.normalize(&shown);
    snapshot_settings().bind(|| {
        assert_snapshot!(shown, @r"
        $ ralph checkpoint list nope
        error: `nope` is neither a run nor a session that ralph knows
          hint: `ralph status --all` lists runs and sessions
        $ ralph checkpoint diff [run] 7
        error: run `[run]` has no checkpoint 7
          hint: `ralph list checkpoints [run]` lists its checkpoints
        $ ralph checkpoint diff [run]
        error: run `[run]` has no checkpoint to compare with
          hint: `ralph checkpoint make [run]` creates one
        $ ralph checkpoint diff [run] x
        error: `FROM` cannot be `x`
          hint: expected a whole number
        $ ralph checkpoint restore [run] 7 --yes
        error: run `[run]` has no checkpoint 7
          hint: `ralph list checkpoints [run]` lists its checkpoints
        $ ralph checkpoint restore [run] 0
        error: not a terminal, so I can't ask whether to restore
          hint: `--dry-run` shows what would change, `--yes` skips the question
        $ ralph checkpoint restore [run]
        error: no checkpoint given
          hint: `ralph list checkpoints` lists them
        $ ralph checkpoint prune [run]
        error: run `[run]` has not ended, and may still need its checkpoints
          hint: `ralph cancel [run]` ends it
        $ ralph checkpoint lits
        error: unknown command `lits`
          hint: did you mean `list`?
        ");
    });
}

/// R-D1a, R-D1b: a restore brings back the same bytes and touches no other file of the user.
#[test]
fn a_restore_changes_the_work_tree_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.write("edited", "committed\n");
    sandbox.commit();
    sandbox.write("edited", "stashed\n");
    sandbox.git(&["-c", "user.name=t", "-c", "user.email=t@t", "stash", "--quiet"]);
    sandbox.write("edited", "staged\n");
    sandbox.git(&["add", "edited"]);
    sandbox.write("edited", "dirty\r\n");
    sandbox.write("untracked", "u");
    let run = sandbox.start_run(GOAL_FROM_STDIN);
    let before = project_files(sandbox.project());
    checkpoint_succeeds(&sandbox, &["make", &run]);
    assert!(project_files(sandbox.project()) == before, "a checkpoint changes no file");
    sandbox.write("edited", "by the agent\n");
    sandbox.write("more", "by the agent\n");
    fs::remove_file(sandbox.project().join("untracked")).unwrap();
    checkpoint_succeeds(&sandbox, &["restore", &run, "0", "--yes"]);
    assert_eq!(project_files(sandbox.project()), before);
}

/// The state before the restore is checkpointed first, so a kill at any write loses nothing.
#[test]
fn a_restore_killed_at_any_write_can_be_undone_and_repeated() {
    let (sandbox, run) = run_with_checkpoints();
    checkpoint_succeeds(&sandbox, &["make", &run]);
    let now = project_files(sandbox.project());
    checkpoint_succeeds(&sandbox, &["restore", &run, "0", "--yes"]);
    let then = project_files(sandbox.project());
    checkpoint_succeeds(&sandbox, &["restore", &run, "3", "--yes"]);
    assert_eq!(project_files(sandbox.project()), now);
    let mut killed = 0;
    // The point after one write and the point before the next are equivalent, so every second one is enough.
    for point in (1..).step_by(2) {
        let mut command = sandbox.command();
        command
            .args(["checkpoint", "restore", &run, "0", "--yes"])
            .env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn_with_input(&mut command, b"").wait_with_output().unwrap();
        let was_killed = output.status.signal() == Some(9);
        if !was_killed {
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert_eq!(project_files(sandbox.project()), then);
            break;
        }
        killed += 1;
        if point % 16 == 1 {
            checkpoint_succeeds(&sandbox, &["restore", &run, "0", "--yes"]);
            assert!(project_files(sandbox.project()) == then, "repeated after point {point}");
        }
        checkpoint_succeeds(&sandbox, &["restore", &run, "3", "--yes"]);
        assert!(project_files(sandbox.project()) == now, "undone after point {point}");
    }
    assert!(killed > 15, "only {killed} points: the writes are not instrumented");
}

#[test]
fn an_agent_may_list_and_compare_but_not_restore_or_prune() {
    let (sandbox, run) = run_with_checkpoints();
    let before = project_files(sandbox.project());
    for (args, code) in [
        (vec!["list", &run], 0),
        (vec!["diff", &run], 0),
        (vec!["restore", &run, "0", "--dry-run"], 0),
        (vec!["restore", &run, "0", "--yes"], 1),
        (vec!["prune", &run], 1),
    ] {
        let mut command = sandbox.command();
        command.arg("checkpoint").args(&args).env("CLAUDECODE", "1");
        let ended = run_command(&mut command, b"");
        assert_eq!(ended.code, Some(code), "{args:?}: {ended}");
    }
    assert_eq!(project_files(sandbox.project()), before);
    let listed = checkpoint_succeeds(&sandbox, &["list", &run, "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["checkpoints"].as_array().unwrap().len(), 3);
}

#[test]
fn pruning_an_ended_run_removes_every_ref() {
    let (sandbox, run) = run_with_checkpoints();
    checkpoint_succeeds(&sandbox, &["diff", &run, "0"]);
    assert_eq!(sandbox.ralph(["cancel", SESSION]).code, Some(0));
    let pruned = checkpoint_succeeds(&sandbox, &["prune", &run, "--json"]);
    assert_eq!(pruned.stdout, format!("{{\"v\":1,\"run\":\"{run}\",\"pruned\":3}}\n"));
    let left = crate::sandbox::read_files(&sandbox.project().join(".git/refs/ralph"));
    assert_eq!(left, []);
}
