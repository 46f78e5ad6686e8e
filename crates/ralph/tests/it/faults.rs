//! Killed processes, full disks, races and edited files: nothing lost, nothing trapped.

use crate::sandbox::{Ended, SESSION, Sandbox, ended, files, spawn};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

const ENDLESS: [&str; 6] =
    ["--goal-file", "-", "--max-iterations", "1000", "--stuck-after", "4000000000"];

fn iteration(sandbox: &Sandbox, run: &str) -> u64 {
    sandbox.standing(run).1
}

fn run_file(sandbox: &Sandbox, run: &str, name: &str) -> PathBuf {
    sandbox.ralph_home("runs").join(run).join(name)
}

/// R-D2a: thirty-two processes on one run at once: every block is counted, none is lost, none is torn.
#[test]
fn thirty_two_hooks_at_once_are_all_counted() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    let event = sandbox.stop_event(SESSION, "");
    let children: Vec<_> = (0..32)
        .map(|_| {
            spawn(sandbox.command().args(["hook", "claude", "--deadline", "60s"]), event.as_bytes())
        })
        .collect();
    for child in children {
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert!(ended.is_block(), "{ended}");
    }
    assert_eq!(iteration(&sandbox, &run), 32);
    assert_eq!(sandbox.rules(&run).len(), 32);
}

/// R-D2a: killed before or after any single change to a file, a run is whole, goes on, and has counted every block
/// that was given.
#[test]
fn a_hook_killed_at_any_write_loses_nothing() {
    let sandbox = Sandbox::new();
    let loops = ".claude/data/ralph-loops/current";
    sandbox.write(&format!("{loops}/feature_list.json"), r#"[{"id":1}]"#);
    sandbox.write(&format!("{loops}/progress.txt"), "- Iteration: 0\n- Status: IN_PROGRESS\n");
    let run = sandbox.start([
        "--features",
        loops,
        "--max-iterations",
        "1000",
        "--stuck-after",
        "4000000000",
    ]);
    let event = sandbox.stop_event(SESSION, "");
    let mut given = 0;
    for point in 1.. {
        let before = iteration(&sandbox, &run);
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn(&mut command, event.as_bytes()).wait_with_output().unwrap();
        let killed = output.status.signal() == Some(9);
        let after = iteration(&sandbox, &run);
        assert!(after == before || after == before + 1, "point {point}: {before} → {after}");
        if !killed {
            assert_eq!(output.status.code(), Some(2));
            assert_eq!(after, before + 1);
            assert!(point > 8, "only {point} points: the writes are not instrumented");
            break;
        }
        let next = sandbox.stop(SESSION, "");
        assert!(next.is_block(), "after point {point}: {next}");
        assert_eq!(iteration(&sandbox, &run), after + 1, "after point {point}");
        given += 1;
    }
    assert!(given > 8);
    let progress = fs::read_to_string(sandbox.project().join(loops).join("progress.txt")).unwrap();
    let head: Vec<&str> = progress.lines().take(2).collect();
    let counted = format!("- Iteration: {}", iteration(&sandbox, &run));
    assert_eq!(head, [counted.as_str(), "- Status: IN_PROGRESS"]);
    let told: Vec<&str> = progress.lines().filter(|line| line.starts_with("## ")).collect();
    let mut once = told.clone();
    once.dedup();
    assert_eq!(told, once, "no iteration is told twice");
    let status = sandbox.status();
    assert_eq!(status["runs"][0]["tampering"], serde_json::Value::Null, "a crash is not an edit");
    let report = sandbox.ralph(["why", &run, "--last", "1"]);
    assert_eq!(report.code, Some(0), "{report}");
}

#[test]
fn a_start_killed_at_any_write_arms_completely_or_can_be_repeated() {
    for point in 1.. {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command();
        command
            .args(["start", "--session", SESSION])
            .args(ENDLESS)
            .env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn(&mut command, b"goal").wait_with_output().unwrap();
        let stop = sandbox.stop(SESSION, "");
        if output.status.signal() != Some(9) {
            assert!(stop.is_block());
            assert!(point > 8, "only {point} points");
            break;
        }
        if stop.is_block() {
            continue;
        }
        assert!(stop.is_allow(), "point {point}: {stop}");
        sandbox.start(ENDLESS);
        assert!(sandbox.stop(SESSION, "").is_block(), "point {point}");
    }
}

#[test]
fn a_cancel_killed_at_any_write_is_finished_by_the_next() {
    for point in 1.. {
        let sandbox = Sandbox::new();
        let run = sandbox.start(ENDLESS);
        let mut command = sandbox.command();
        command.args(["cancel", &run]).env("RALPH_FAILPOINT", format!("kill:{point}"));
        let output = spawn(&mut command, b"").wait_with_output().unwrap();
        if output.status.signal() != Some(9) {
            assert_eq!(output.status.code(), Some(0));
            assert!(sandbox.stop(SESSION, "").is_allow());
            assert!(point > 8, "only {point} points");
            break;
        }
        let buried = sandbox.ralph_home("cancelled").join(&run).exists();
        let stop = sandbox.stop(SESSION, "");
        assert_eq!((stop.is_allow(), stop.is_block()), (buried, !buried), "point {point}: {stop}");
        sandbox.ralph(["cancel", &run]);
        assert!(sandbox.stop(SESSION, "").is_allow(), "point {point}");
        assert_eq!(sandbox.standing(&run).0, "cancelled", "point {point}");
    }
}

/// A disk that fills up at any write: the agent may stop or is held, what was given is counted, nothing is torn.
#[test]
fn no_space_at_any_write_traps_nobody_and_loses_nothing() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    let event = sandbox.stop_event(SESSION, "");
    let mut told = 0;
    for step in 1..60 {
        let before = iteration(&sandbox, &run);
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("RALPH_FAILPOINT", format!("enospc:{step}"));
        let hook = ended(&mut command, event.as_bytes());
        let after = iteration(&sandbox, &run);
        if hook.is_block() {
            assert_eq!(after, before + 1, "step {step}");
        } else {
            assert!(
                hook.notice().contains("let the agent stop without a verdict"),
                "step {step}: {hook}"
            );
            assert_eq!(after, before, "step {step}");
            told += 1;
        }
        assert!(sandbox.stop(SESSION, "").is_block(), "after step {step}");
    }
    assert!(told > 0, "the journal's own write must be among them");
    assert_eq!(sandbox.status()["runs"][0]["tampering"], serde_json::Value::Null);
}

/// How to get mounts of one's own here: as root, or as a user who may have a namespace.
fn unshare() -> Option<&'static [&'static str]> {
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

/// Runs the hook, with ralph's home on a file system of its own, until it no longer blocks.
fn on_a_mount(sandbox: &Sandbox, way: &[&str], prepare: &str) -> Ended {
    let event = sandbox.write("event.json", sandbox.stop_event(SESSION, ""));
    let script = format!(
        "set -e; {prepare}; set +e; for i in $(seq 40); do \"$2\" hook claude <\"$3\" 2>/dev/null; \
         code=$?; [ $code = 2 ] || exit $code; printf '\\n'; done; exit 99"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(way).args(["sh", "-c", &script, "sh"]).arg(sandbox.ralph_home(""));
    command.arg(env!("CARGO_BIN_EXE_ralph")).arg(event).env_clear();
    command.env("HOME", sandbox.home()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut ended = ended(command.current_dir(sandbox.project()), b"");
    ended.stdout = ended.stdout.lines().last().unwrap_or_default().to_string();
    ended
}

#[test]
fn a_disk_that_is_really_full_traps_nobody() {
    let Some(way) = unshare() else { return };
    let sandbox = Sandbox::new();
    sandbox.start(ENDLESS);
    let fill = "cp -r \"$1\" /tmp/ralph-copy-$$ && mount -t tmpfs -o size=64k,mode=0700 tmpfs \"$1\" && cp -r /tmp/ralph-copy-$$/. \"$1\" && rm -r /tmp/ralph-copy-$$ && (dd if=/dev/zero of=\"$1/filler\" bs=1k count=999 2>/dev/null || true)";
    let hook = on_a_mount(&sandbox, way, fill);
    assert!(hook.notice().contains("No space left on device"), "{hook}");
    assert!(sandbox.stop(SESSION, "").is_block(), "with space again, it holds again");
}

#[test]
fn a_home_that_cannot_be_written_traps_nobody() {
    let Some(way) = unshare() else { return };
    let sandbox = Sandbox::new();
    sandbox.start(ENDLESS);
    let before = sandbox.snapshot();
    let hook =
        on_a_mount(&sandbox, way, "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"");
    assert!(hook.notice().contains("Read-only file system"), "{hook}");
    assert_eq!(sandbox.snapshot(), before);
    assert!(sandbox.stop(SESSION, "").is_block());
}

/// R-D2a: a journal cut off at any byte is read up to its last whole line, and the next block goes on from there.
#[test]
fn a_journal_cut_at_any_byte_of_its_last_line_is_whole_again() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    for _ in 0..3 {
        assert!(sandbox.stop(SESSION, "").is_block());
    }
    let journal = run_file(&sandbox, &run, "journal.jsonl");
    let behind = ["state.json", "count"].map(|name| {
        let path = run_file(&sandbox, &run, name);
        (fs::read(&path).unwrap(), path)
    });
    assert!(sandbox.stop(SESSION, "").is_block());
    let whole = fs::read(&journal).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in (last..whole.len()).step_by(37).chain([last, whole.len() - 1]) {
        fs::write(&journal, &whole[..cut]).unwrap();
        for (bytes, path) in &behind {
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(iteration(&sandbox, &run), 3, "cut at {cut}");
        assert!(sandbox.stop(SESSION, "").is_block(), "cut at {cut}");
        assert_eq!(iteration(&sandbox, &run), 4, "cut at {cut}");
        assert_eq!(sandbox.status()["runs"][0]["tampering"], serde_json::Value::Null);
    }
}

/// R-L4e: what cannot be read is kept under another name, the run goes on from its journal.
#[test]
fn a_state_that_cannot_be_read_is_quarantined_and_rebuilt() {
    for garbage in ["", "{", "null", "\u{0}\u{0}", r#"{"v":1}"#] {
        let sandbox = Sandbox::new();
        let run = sandbox.start(ENDLESS);
        assert!(sandbox.stop(SESSION, "").is_block());
        fs::write(run_file(&sandbox, &run, "state.json"), garbage).unwrap();
        assert_eq!(iteration(&sandbox, &run), 1);
        assert!(sandbox.stop(SESSION, "").is_block());
        assert_eq!(iteration(&sandbox, &run), 2);
        let kept: Vec<_> = files(&sandbox.ralph_home("runs"))
            .into_iter()
            .filter(|(path, _)| path.to_string_lossy().contains("state.json.quarantined-"))
            .map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(kept, [garbage.as_bytes()]);
        assert_eq!(fs::read(run_file(&sandbox, &run, "goal.txt")).unwrap(), b"make it work\n");
    }
}

/// R-L4e: a pointer that cannot be read frees the session; its bytes are kept.
#[test]
fn a_session_file_that_cannot_be_read_is_quarantined_and_frees_the_session() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    let pointer = sandbox.ralph_home("sessions").join(SESSION);
    fs::write(&pointer, "garbage").unwrap();
    let hook = sandbox.stop(SESSION, "");
    assert!(hook.notice().contains("is no longer held"), "{hook}");
    assert!(sandbox.stop(SESSION, "").is_allow(), "told once");
    let kept: Vec<_> =
        files(&sandbox.ralph_home("sessions")).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(kept, [b"garbage"]);
    assert_eq!(iteration(&sandbox, &run), 0);
    assert!(sandbox.status()["faults"][0]["what"].as_str().unwrap().contains("was kept as"));
}

/// Nobody gains an iteration, or a `verified`, by editing what is not theirs.
#[test]
fn an_edited_run_is_restored_from_its_journal_and_never_verified() {
    type Edit = fn(&Sandbox, &str);
    let edits: [(&str, Edit); 9] = [
        ("state edited while it is behind", |sandbox, run| {
            let path = run_file(sandbox, run, "state.json");
            let text = fs::read_to_string(&path).unwrap();
            let edited = text.replace(r#""stale":0"#, r#""stale":1"#);
            assert_ne!(text, edited);
            fs::write(path, edited).unwrap();
        }),
        ("called verified", |sandbox, run| {
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
            fs::write(path, text.replace("\"v\": 1", "\"v\": 9")).unwrap();
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
            // What a person does is written through to the state at once.
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
        let run = sandbox.start([
            "--goal-file",
            "-",
            "--completion-promise",
            "DONE",
            "--max-iterations",
            "4",
            "--stuck-after",
            "99",
        ]);
        assert!(sandbox.stop(SESSION, "").is_block());
        assert!(sandbox.stop(SESSION, "").is_block());
        edit(&sandbox, &run);
        let hook = sandbox.stop(SESSION, "");
        assert!(hook.is_block(), "{name}: {hook}");
        assert!(hook.stderr.contains("ralph's own files were changed"), "{name}: {hook}");
        let told = sandbox.rules(&run);
        assert_eq!(told.last().unwrap(), "tampered", "{name}: {told:?}");
        assert!(iteration(&sandbox, &run) >= 2, "{name}");
        let kept = r#","last_assistant_message":"<promise>DONE</promise>""#;
        let notice = sandbox.stop(SESSION, kept).notice();
        assert!(notice.starts_with("ralph: needs_review"), "{name}: {notice}");
    }
}

/// An edit that no stop could have noticed is found when the run is about to end well.
#[test]
fn a_history_that_was_changed_in_the_middle_ends_in_review() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(["--goal-file", "-", "--completion-promise", "DONE"]);
    assert!(sandbox.stop(SESSION, "").is_block());
    sandbox.write("work.txt", "more");
    assert!(sandbox.stop(SESSION, "").is_block());
    // With the state up to date, no stop looks at the line that was changed.
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    let path = run_file(&sandbox, &run, "journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replacen("make it work", "make it walk", 1)).unwrap();
    let kept = r#","last_assistant_message":"<promise>DONE</promise>""#;
    let hook = sandbox.stop(SESSION, kept);
    assert!(hook.is_block(), "{hook}");
    assert!(hook.stderr.contains("`journal.jsonl` was changed in the middle"), "{hook}");
    assert!(sandbox.stop(SESSION, kept).notice().starts_with("ralph: needs_review"));
}

#[test]
fn files_of_a_newer_ralph_are_left_alone() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    for name in ["run.json", "state.json", "journal.jsonl"] {
        let path = run_file(&sandbox, &run, name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            &path,
            text.replacen("\"v\": 1", "\"v\": 9", 1).replacen("\"v\":1", "\"v\":9", 1),
        )
        .unwrap();
    }
    let before = files(&sandbox.ralph_home("runs"));
    let hook = sandbox.stop(SESSION, "");
    assert!(hook.notice().contains("was written by a newer ralph"), "{hook}");
    assert_eq!(files(&sandbox.ralph_home("runs")), before);
}

#[test]
fn a_lock_that_stays_taken_is_not_waited_for_beyond_the_deadline() {
    let sandbox = Sandbox::new();
    let run = sandbox.start(ENDLESS);
    let lock = fs::File::open(run_file(&sandbox, &run, "lock")).unwrap();
    lock.lock().unwrap();
    let hook = sandbox.ralph_with(
        ["hook", "claude", "--deadline", "500ms"],
        sandbox.stop_event(SESSION, "").as_bytes(),
    );
    assert!(hook.notice().contains("let the agent stop without a verdict"), "{hook}");
    drop(lock);
    assert!(sandbox.stop(SESSION, "").is_block());
}
