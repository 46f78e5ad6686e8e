//! Killed processes, full disks, races and edited files. No iteration is lost and no session is held for ever.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, read_files, run_command, spawn_with_input};
use insta::assert_snapshot;
use ralph_core::record::FORMAT_VERSION;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

const UNLIMITED_ARGS: [&str; 6] =
    ["--goal-file", "-", "--max-iterations", "1000", "--stuck-after", "4000000000"];

fn iteration(sandbox: &Sandbox, run: &str) -> u64 {
    sandbox.run_status(run).1
}

fn run_file(sandbox: &Sandbox, run: &str, name: &str) -> PathBuf {
    sandbox.ralph_home("runs").join(run).join(name)
}

/// R-D2a: with 32 hook processes on one run at once, every block is counted and no journal line is torn.
#[test]
fn concurrent_hooks_are_all_counted() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    let event = sandbox.stop_event(SESSION, "");
    let children: Vec<_> = (0..32)
        .map(|_| {
            spawn_with_input(
                sandbox.command().args(["hook", "claude", "--deadline", "60s"]),
                event.as_bytes(),
            )
        })
        .collect();
    for child in children {
        let ended = CommandOutcome::from(child.wait_with_output().unwrap());
        assert!(ended.is_block(), "{ended}");
    }
    assert_eq!(iteration(&sandbox, &run), 32);
    assert_eq!(sandbox.fired_rules(&run).len(), 32);
}

/// R-D2a: a hook killed before or after any single write leaves a consistent run that continues and has counted every
/// block that was answered.
#[test]
fn a_hook_killed_at_any_write_loses_nothing() {
    let sandbox = Sandbox::new();
    let loops = ".claude/data/ralph-loops/current";
    sandbox.write(&format!("{loops}/feature_list.json"), r#"[{"id":1}]"#);
    sandbox.write(&format!("{loops}/progress.txt"), "- Iteration: 0\n- Status: IN_PROGRESS\n");
    let run = sandbox.start_run([
        "--features",
        loops,
        "--max-iterations",
        "1000",
        "--stuck-after",
        "4000000000",
    ]);
    let event = sandbox.stop_event(SESSION, "");
    let mut kills = 0;
    for point in 1.. {
        let before = iteration(&sandbox, &run);
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn_with_input(&mut command, event.as_bytes()).wait_with_output().unwrap();
        let killed = output.status.signal() == Some(9);
        let after = iteration(&sandbox, &run);
        assert!(after == before || after == before + 1, "point {point}: {before} → {after}");
        if !killed {
            assert_eq!(output.status.code(), Some(2));
            assert_eq!(after, before + 1);
            assert!(point > 8, "only {point} points: the writes are not instrumented");
            break;
        }
        let next = sandbox.send_stop(SESSION, "");
        assert!(next.is_block(), "after point {point}: {next}");
        assert_eq!(iteration(&sandbox, &run), after + 1, "after point {point}");
        kills += 1;
    }
    assert!(kills > 8);
    let progress = fs::read_to_string(sandbox.project().join(loops).join("progress.txt")).unwrap();
    let head: Vec<&str> = progress.lines().take(2).collect();
    let counted = format!("- Iteration: {}", iteration(&sandbox, &run));
    assert_eq!(head, [counted.as_str(), "- Status: IN_PROGRESS"]);
    let entries: Vec<&str> = progress.lines().filter(|line| line.starts_with("## ")).collect();
    let mut unique = entries.clone();
    unique.dedup();
    assert_eq!(entries, unique, "no iteration is logged twice");
    let status = sandbox.status();
    assert_eq!(status["runs"][0]["tampering"], serde_json::Value::Null, "a crash is not an edit");
    let report = sandbox.ralph(["why", &run, "--last", "1"]);
    assert_eq!(report.code, Some(0), "{report}");
}

#[test]
fn a_start_killed_at_any_write_takes_effect_or_can_be_repeated() {
    for point in 1.. {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command();
        command
            .args(["start", "--session", SESSION])
            .args(UNLIMITED_ARGS)
            .env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn_with_input(&mut command, b"goal").wait_with_output().unwrap();
        let stop = sandbox.send_stop(SESSION, "");
        if output.status.signal() != Some(9) {
            assert!(stop.is_block());
            assert!(point > 8, "only {point} points");
            break;
        }
        if stop.is_block() {
            continue;
        }
        assert!(stop.is_allow(), "point {point}: {stop}");
        sandbox.start_run(UNLIMITED_ARGS);
        assert!(sandbox.send_stop(SESSION, "").is_block(), "point {point}");
    }
}

#[test]
fn a_cancel_killed_at_any_write_is_completed_by_the_next() {
    for point in 1.. {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run(UNLIMITED_ARGS);
        let mut command = sandbox.command();
        command.args(["cancel", &run]).env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn_with_input(&mut command, b"").wait_with_output().unwrap();
        if output.status.signal() != Some(9) {
            assert_eq!(output.status.code(), Some(0));
            assert!(sandbox.send_stop(SESSION, "").is_allow());
            assert!(point > 8, "only {point} points");
            break;
        }
        let has_tombstone = sandbox.ralph_home("cancelled").join(&run).exists();
        let stop = sandbox.send_stop(SESSION, "");
        assert_eq!(
            (stop.is_allow(), stop.is_block()),
            (has_tombstone, !has_tombstone),
            "point {point}: {stop}"
        );
        sandbox.ralph(["cancel", &run]);
        assert!(sandbox.send_stop(SESSION, "").is_allow(), "point {point}");
        assert_eq!(sandbox.run_status(&run).0, "cancelled", "point {point}");
    }
}

/// If the disk fills up at any write, the agent may stop or is held, every block is counted, and no file is torn.
#[test]
fn no_space_at_any_write_neither_traps_the_agent_nor_loses_data() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    let event = sandbox.stop_event(SESSION, "");
    let mut reported = 0;
    for step in 1..60 {
        let before = iteration(&sandbox, &run);
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("RALPH_FAILPOINT", format!("enospc:{step}"));
        let hook = run_command(&mut command, event.as_bytes());
        let after = iteration(&sandbox, &run);
        if hook.is_block() {
            assert_eq!(after, before + 1, "step {step}");
        } else {
            assert!(
                hook.notice().contains("let the agent stop without a verdict"),
                "step {step}: {hook}"
            );
            assert_eq!(after, before, "step {step}");
            reported += 1;
        }
        assert!(sandbox.send_stop(SESSION, "").is_block(), "after step {step}");
    }
    assert!(reported > 0, "the write of the journal line must be among the failing ones");
    assert_eq!(sandbox.status()["runs"][0]["tampering"], serde_json::Value::Null);
}

/// Options with which `unshare` gives a mount namespace here: as root, or as a user who may create user namespaces.
pub fn unshare_options() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
    let works = |way: &&&[&str]| {
        let mut probe = std::process::Command::new("unshare");
        probe.args(**way).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        probe.output().is_ok_and(|output| output.status.success())
    };
    let way = ways.iter().find(works).copied();
    let required = std::env::var_os("RALPH_REQUIRE_TOOLS").is_some();
    assert!(way.is_some() || !required, "`unshare --mount` is needed and does not work here");
    if way.is_none() {
        eprintln!("skipped: `unshare --mount` does not work here");
    }
    way
}

/// Runs the hook, with ralph's home on a separate file system, until it no longer blocks.
fn run_hook_on_mount(sandbox: &Sandbox, way: &[&str], prepare: &str) -> CommandOutcome {
    let event = sandbox.write("event.json", sandbox.stop_event(SESSION, ""));
    let script = format!(
        "set -e; {prepare}; set +e; for i in $(seq 40); do \"$2\" hook claude <\"$3\" 2>/dev/null; \
         code=$?; [ $code = 2 ] || exit $code; printf '\\n'; done; exit 99"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(way).args(["sh", "-c", &script, "sh"]).arg(sandbox.ralph_home(""));
    command.arg(env!("CARGO_BIN_EXE_ralph")).arg(event).env_clear();
    command.env("HOME", sandbox.home()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut ended = run_command(command.current_dir(sandbox.project()), b"");
    ended.stdout = ended.stdout.lines().last().unwrap_or_default().to_string();
    ended
}

#[test]
fn a_full_disk_does_not_trap_the_agent() {
    let Some(way) = unshare_options() else { return };
    let sandbox = Sandbox::new();
    sandbox.start_run(UNLIMITED_ARGS);
    let fill = "cp -r \"$1\" /tmp/ralph-copy-$$ && mount -t tmpfs -o size=64k,mode=0700 tmpfs \"$1\" && cp -r /tmp/ralph-copy-$$/. \"$1\" && rm -r /tmp/ralph-copy-$$ && (dd if=/dev/zero of=\"$1/filler\" bs=1k count=999 2>/dev/null || true)";
    let hook = run_hook_on_mount(&sandbox, way, fill);
    assert!(hook.notice().contains("No space left on device"), "{hook}");
    assert!(sandbox.send_stop(SESSION, "").is_block(), "it holds again once there is space");
}

#[test]
fn a_read_only_home_does_not_trap_the_agent() {
    let Some(way) = unshare_options() else { return };
    let sandbox = Sandbox::new();
    sandbox.start_run(UNLIMITED_ARGS);
    let before = sandbox.read_state();
    let hook = run_hook_on_mount(
        &sandbox,
        way,
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"",
    );
    assert!(hook.notice().contains("Read-only file system"), "{hook}");
    assert_eq!(sandbox.read_state(), before);
    assert!(sandbox.send_stop(SESSION, "").is_block());
}

/// R-D2a: a truncated journal is read up to its last complete line, and the next block continues from there.
#[test]
fn a_journal_truncated_in_its_last_line_is_repaired() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    for _ in 0..3 {
        assert!(sandbox.send_stop(SESSION, "").is_block());
    }
    let journal = run_file(&sandbox, &run, "journal.jsonl");
    let behind = ["state.json", "count"].map(|name| {
        let path = run_file(&sandbox, &run, name);
        (fs::read(&path).unwrap(), path)
    });
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let whole = fs::read(&journal).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in (last..whole.len()).step_by(37).chain([last, whole.len() - 1]) {
        fs::write(&journal, &whole[..cut]).unwrap();
        for (bytes, path) in &behind {
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(iteration(&sandbox, &run), 3, "cut at {cut}");
        assert!(sandbox.send_stop(SESSION, "").is_block(), "cut at {cut}");
        assert_eq!(iteration(&sandbox, &run), 4, "cut at {cut}");
        assert_eq!(sandbox.status()["runs"][0]["tampering"], serde_json::Value::Null);
    }
}

/// R-L4e: an unreadable state file is kept under another name, and the run continues from its journal.
#[test]
fn an_unreadable_state_file_is_quarantined_and_rebuilt() {
    for garbage in ["", "{", "null", "\u{0}\u{0}", r#"{"v":1}"#] {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run(UNLIMITED_ARGS);
        assert!(sandbox.send_stop(SESSION, "").is_block());
        fs::write(run_file(&sandbox, &run, "state.json"), garbage).unwrap();
        assert_eq!(iteration(&sandbox, &run), 1);
        assert!(sandbox.send_stop(SESSION, "").is_block());
        assert_eq!(iteration(&sandbox, &run), 2);
        let kept: Vec<_> = read_files(&sandbox.ralph_home("runs"))
            .into_iter()
            .filter(|(path, _)| path.to_string_lossy().contains("state.json.quarantined-"))
            .map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(kept, [garbage.as_bytes()]);
        assert_eq!(fs::read(run_file(&sandbox, &run, "goal.txt")).unwrap(), b"make it work\n");
    }
}

/// R-L4e: an unreadable pointer file frees the session; its contents are kept.
#[test]
fn an_unreadable_session_file_is_quarantined_and_frees_the_session() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    let pointer = sandbox.ralph_home("sessions").join(SESSION);
    fs::write(&pointer, "garbage").unwrap();
    let hook = sandbox.send_stop(SESSION, "");
    assert!(hook.notice().contains("is no longer held"), "{hook}");
    assert!(sandbox.send_stop(SESSION, "").is_allow(), "reported once");
    let kept: Vec<_> =
        read_files(&sandbox.ralph_home("sessions")).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(kept, [b"garbage"]);
    assert_eq!(iteration(&sandbox, &run), 0);
    assert!(sandbox.status()["faults"][0]["what"].as_str().unwrap().contains("was moved to"));
}

/// Editing ralph's files gains neither an iteration nor `verified`.
#[test]
fn an_edited_run_is_restored_from_its_journal_and_never_verified() {
    type RunFileEdit = fn(&Sandbox, &str);
    let edits: [(&str, RunFileEdit); 9] = [
        ("state edited while it is behind", |sandbox, run| {
            let path = run_file(sandbox, run, "state.json");
            let text = fs::read_to_string(&path).unwrap();
            let edited = text.replace(r#""stale":0"#, r#""stale":1"#);
            assert_ne!(text, edited);
            fs::write(path, edited).unwrap();
        }),
        ("phase set to verified", |sandbox, run| {
            assert_eq!(sandbox.ralph(["pause", run]).code, Some(0));
            assert_eq!(sandbox.ralph(["resume", run]).code, Some(0));
            let path = run_file(sandbox, run, "state.json");
            let text = fs::read_to_string(&path).unwrap();
            let edited = text.replace(r#""phase":"active""#, r#""phase":{"ended":"verified"}"#);
            assert_ne!(text, edited);
            fs::write(path, edited).unwrap();
        }),
        ("version raised", |sandbox, run| {
            let path = run_file(sandbox, run, "run.json");
            let text = fs::read_to_string(&path).unwrap();
            let version = format!("\"v\": {FORMAT_VERSION}");
            assert!(text.contains(&version));
            fs::write(path, text.replace(&version, "\"v\": 9")).unwrap();
        }),
        ("journal changed above its last line", |sandbox, run| {
            let path = run_file(sandbox, run, "journal.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replacen("\"took_ms\":", "\"took_ms\":7", 1)).unwrap();
            fs::remove_file(run_file(sandbox, run, "state.json")).unwrap();
        }),
        ("limits raised", |sandbox, run| {
            let path = run_file(sandbox, run, "run.json");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("\"max_iterations\": 4", "\"max_iterations\": 400"))
                .unwrap();
        }),
        ("count lowered", |sandbox, run| {
            // A person's command writes `state.json` immediately.
            assert_eq!(sandbox.ralph(["pause", run]).code, Some(0));
            assert_eq!(sandbox.ralph(["resume", run]).code, Some(0));
            let path = run_file(sandbox, run, "state.json");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("\"iteration\":2", "\"iteration\":0")).unwrap();
        }),
        ("journal gone", |sandbox, run| {
            fs::remove_file(run_file(sandbox, run, "journal.jsonl")).unwrap();
        }),
        ("journal shortened", |sandbox, run| {
            let path = run_file(sandbox, run, "journal.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.split_inclusive('\n').take(2).collect::<String>()).unwrap();
        }),
        ("journal rewritten", |sandbox, run| {
            let path = run_file(sandbox, run, "journal.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("\"iteration\":1", "\"iteration\":0")).unwrap();
            fs::remove_file(run_file(sandbox, run, "state.json")).unwrap();
        }),
    ];
    for (name, edit) in edits {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run([
            "--goal-file",
            "-",
            "--completion-promise",
            "DONE",
            "--max-iterations",
            "4",
            "--stuck-after",
            "99",
        ]);
        assert!(sandbox.send_stop(SESSION, "").is_block());
        assert!(sandbox.send_stop(SESSION, "").is_block());
        edit(&sandbox, &run);
        let hook = sandbox.send_stop(SESSION, "");
        assert!(hook.is_block(), "{name}: {hook}");
        assert!(hook.stderr.contains("ralph's own files were changed"), "{name}: {hook}");
        let rules = sandbox.fired_rules(&run);
        assert_eq!(rules.last().unwrap(), "tampered", "{name}: {rules:?}");
        assert!(iteration(&sandbox, &run) >= 2, "{name}");
        let promise = r#","last_assistant_message":"<promise>DONE</promise>""#;
        let notice = sandbox.send_stop(SESSION, promise).notice();
        assert!(notice.starts_with("ralph: needs_review"), "{name}: {notice}");
    }
}

/// An edit that no ordinary stop checks for is found when the run is about to end `verified` or `claimed`.
#[test]
fn a_journal_edited_in_the_middle_ends_in_review() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    sandbox.write("work.txt", "more");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    // While `state.json` is up to date, an ordinary stop does not read the changed line.
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    let path = run_file(&sandbox, &run, "journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replacen("make it work", "make it walk", 1)).unwrap();
    let promise = r#","last_assistant_message":"<promise>DONE</promise>""#;
    let hook = sandbox.send_stop(SESSION, promise);
    assert!(hook.is_block(), "{hook}");
    assert!(hook.stderr.contains("`journal.jsonl` was changed in the middle"), "{hook}");
    assert!(sandbox.send_stop(SESSION, promise).notice().starts_with("ralph: needs_review"));
}

#[test]
fn files_of_a_newer_ralph_are_not_changed() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    for name in ["run.json", "state.json", "journal.jsonl"] {
        let path = run_file(&sandbox, &run, name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            &path,
            text.replacen(&format!("\"v\": {FORMAT_VERSION}"), "\"v\": 9", 1).replacen(
                &format!("\"v\":{FORMAT_VERSION}"),
                "\"v\":9",
                1,
            ),
        )
        .unwrap();
    }
    let before = read_files(&sandbox.ralph_home("runs"));
    let hook = sandbox.send_stop(SESSION, "");
    assert!(hook.notice().contains("was written by a newer ralph"), "{hook}");
    assert_eq!(read_files(&sandbox.ralph_home("runs")), before);
}

/// A journal entry that only a newer ralph understands is not damage, even if this version started the run.
#[test]
fn a_run_that_a_newer_ralph_continued_is_left_alone_and_shown_as_far_as_it_is_known() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    let path = run_file(&sandbox, &run, "journal.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    let head = ralph_home::journal::hash_bytes(text.as_bytes());
    let change = r#"{"teleported":{"to":"mars"}}"#;
    text.push_str(&format!(
        "{{\"v\":9,\"seq\":1,\"at_ms\":1,\"prev\":\"{head}\",\"iteration\":0,\"after\":\"\",\"change\":{change}}}\n"
    ));
    fs::write(&path, text).unwrap();
    let before = read_files(&sandbox.ralph_home("runs"));
    let hook = sandbox.send_stop(SESSION, "");
    assert!(hook.notice().contains("was written by a newer ralph (format 9)"), "{hook}");
    assert_eq!(read_files(&sandbox.ralph_home("runs")), before);
    let log = sandbox.ralph(["log", &run]);
    assert!(log.stdout.contains("started"), "{log}");
    assert_eq!(
        log.stderr,
        "? from line 2 on, the journal was written by a newer ralph (format 9): update ralph to read it\n"
    );
}

/// A line of a newer ralph in the middle is found before a run ends well. It is not an edit, so the run is left alone.
#[test]
fn a_newer_line_in_the_middle_is_not_called_an_edit() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    // While `state.json` is up to date, an ordinary stop does not read the earlier lines.
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    let path = run_file(&sandbox, &run, "journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let version = format!("\"v\":{FORMAT_VERSION}");
    fs::write(&path, format!("{first}\n{}", rest.replacen(&version, "\"v\":9", 1))).unwrap();
    let before = read_files(&sandbox.ralph_home(&format!("runs/{run}")));
    let promise = r#","last_assistant_message":"<promise>DONE</promise>""#;
    let hook = sandbox.send_stop(SESSION, promise);
    assert_snapshot!(sandbox.normalize(&hook.notice()), @"ralph: run [run] let the agent stop without a verdict: `$ROOT/home/.ralph/runs/[run]/journal.jsonl` was written by a newer ralph (format 9)");
    assert_eq!(read_files(&sandbox.ralph_home(&format!("runs/{run}"))), before);
    assert_eq!(sandbox.run_status(&run).0, "held");
}

/// R-H3d: a run that another process has locked is waited for with a bound; then the agent may stop, and it is reported.
#[test]
fn a_held_lock_is_not_waited_for_beyond_the_deadline() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(UNLIMITED_ARGS);
    let lock = fs::File::open(run_file(&sandbox, &run, "lock")).unwrap();
    lock.lock().unwrap();
    let hook = sandbox.ralph_with_input(
        ["hook", "claude", "--deadline", "500ms"],
        sandbox.stop_event(SESSION, "").as_bytes(),
    );
    assert!(hook.notice().contains("let the agent stop without a verdict"), "{hook}");
    drop(lock);
    assert!(sandbox.send_stop(SESSION, "").is_block());
}
