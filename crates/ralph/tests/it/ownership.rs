//! Session ownership: a run holds only the session that owns it.

use crate::sandbox::{SESSION, Sandbox, json_string, write_file};
use std::fs;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];

/// R-L1a: another session in the same directory is neither held nor changes anything.
#[test]
fn a_session_without_a_run_is_allowed_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let before = sandbox.read_state();
    for other in ["other", "5999882c-e786-462c-84d4-07d1c65b5e77", ""] {
        let ended = sandbox.send_stop(other, "");
        assert!(ended.is_allow(), "{ended}");
    }
    assert_eq!(sandbox.read_state(), before);
}

/// R-L1b: a run with a missing or invalid owner does not hold and is reported once.
#[test]
fn a_run_without_an_owner_does_not_hold_and_is_reported_once() {
    for owner in ["null", r#""""#, r#""../../x""#, "REMOVE"] {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run(PROMISE_ARGS);
        // Every record of the owner is changed, as a damaged disk or an old version might leave it.
        for name in ["run.json", "journal.jsonl"] {
            let path = sandbox.ralph_home("runs").join(&run).join(name);
            let text = fs::read_to_string(&path).unwrap();
            let text = match owner {
                "REMOVE" => text
                    .replace(&format!("\"owner\": {},", json_string(SESSION)), "")
                    .replace(&format!("\"owner\":{},", json_string(SESSION)), ""),
                owner => text.replace(&json_string(SESSION), owner),
            };
            fs::write(path, text).unwrap();
        }
        fs::remove_file(sandbox.ralph_home("runs").join(&run).join("state.json")).unwrap();
        for _ in 0..2 {
            let ended = sandbox.send_stop(SESSION, "");
            assert!(ended.is_allow(), "{owner}: {ended}");
        }
        assert_eq!(sandbox.run_status(&run).0, "orphaned", "{owner}");
        let status = sandbox.status();
        let orphans = status["faults"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|fault| fault["kind"] == "orphan")
            .count();
        assert_eq!(orphans, 1, "{owner}: {status}");
    }
}

/// R-H4b: a subagent, known or unknown, neither changes the run's counters nor is held by the run.
#[test]
fn subagents_do_not_change_the_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let before = sandbox.read_state();
    for more in [
        r#","agent_id":"a1","agent_type":"general-purpose""#,
        r#","agent_id":"unknown","agent_type":"""#,
        "",
    ] {
        let event = format!(
            r#"{{"session_id":{},"hook_event_name":"SubagentStop","stop_hook_active":false{more}}}"#,
            json_string(SESSION)
        );
        let ended = sandbox.run_hook(event);
        assert!(ended.is_allow(), "{ended}");
    }
    for name in ["TeammateIdle", "TaskCompleted"] {
        let event = format!(
            r#"{{"session_id":{},"hook_event_name":"{name}","agent_id":"x"}}"#,
            json_string(SESSION)
        );
        assert!(sandbox.run_hook(event).is_allow());
    }
    assert_eq!(sandbox.read_state(), before);
    assert_eq!(sandbox.run_status(&run), ("held".to_string(), 1));
}

/// R-H4c: the agent's `cd`, another work tree or a deleted directory do not change which run is found.
#[test]
fn the_agents_working_directory_does_not_matter() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    sandbox.write("sub/file", "x");
    let gone = sandbox.root().join("gone");
    for (at, cwd) in [sandbox.project().join("sub"), gone, "/".into()].iter().enumerate() {
        let event = format!(
            r#"{{"session_id":{},"hook_event_name":"Stop","cwd":{}}}"#,
            json_string(SESSION),
            json_string(cwd.to_str().unwrap())
        );
        sandbox.write("work.txt", at.to_string());
        assert!(sandbox.run_hook(event).is_block(), "{cwd:?}");
    }
    assert_eq!(sandbox.run_status(&run), ("held".to_string(), 3));
    assert!(
        !sandbox.project().join("sub/.claude").exists()
            && !sandbox.project().join(".claude").exists()
    );

    let mut from_deleted_directory = sandbox.command();
    let doomed = write_file(&sandbox.root().join("doomed/x"), "").parent().unwrap().to_path_buf();
    let script = format!("rm -rf {} && exec \"$0\" hook claude", doomed.display());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).arg(from_deleted_directory.get_program()).env_clear();
    shell.env("HOME", sandbox.home()).env("PATH", "/usr/bin:/bin").current_dir(&doomed);
    sandbox.write("work.txt", "more");
    let ended = crate::sandbox::run_command(&mut shell, sandbox.stop_event(SESSION, "").as_bytes());
    assert!(ended.is_block(), "{ended}");
    from_deleted_directory.env_clear();
}

/// R-L4c: when the process that owned the run is gone, the session is not held until a person resumes the run.
#[test]
fn a_run_whose_owner_died_is_orphaned_until_resumed() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let mut owner = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let stop = |pid: u32, work: &str| {
        sandbox.write("work.txt", work);
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("CLAUDE_PID", pid.to_string());
        crate::sandbox::run_command(&mut command, sandbox.stop_event(SESSION, "").as_bytes())
    };
    assert!(stop(owner.id(), "1").is_block());
    assert_eq!(sandbox.run_status(&run).0, "held");
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(sandbox.run_status(&run).0, "orphaned", "status detects it before any stop");

    let mut next = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let released = stop(next.id(), "2");
    assert!(released.notice().contains(&format!("ralph resume {run}")), "{released}");
    assert!(stop(next.id(), "3").is_allow(), "reported once");
    assert_eq!(sandbox.run_status(&run), ("orphaned".to_string(), 1));

    let resumed = sandbox.ralph(["resume", &run]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert!(stop(next.id(), "4").is_block());
    assert_eq!(sandbox.run_status(&run), ("held".to_string(), 2));
    next.kill().unwrap();
    next.wait().unwrap();
}

/// R-S2a: ids that could escape the state directory belong to no session, and no file is touched for them.
#[test]
fn hostile_session_ids_touch_nothing() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let outside = sandbox.write("outside.json", r#"{"v":1,"run":"x","ended":"no"}"#);
    let before = (sandbox.read_state(), fs::read(&outside).unwrap());
    let long = "a".repeat(10_000);
    for id in [
        "../../x",
        "..",
        "/etc/passwd",
        "C:\\x",
        "a\u{0}b",
        "ａｂｃ",
        "a/../b",
        &long,
        "$(touch pwned)",
        "a b",
    ] {
        let ended = sandbox.send_stop(id, r#","stop_hook_active":false"#);
        assert!(ended.is_allow(), "{id}: {ended}");
        let refused = sandbox.ralph_with_input(
            ["start", "--goal-file", "-", "--session", &id.replace('\0', "\u{1}")],
            b"x",
        );
        assert_eq!(refused.code, Some(1), "{id}: {refused}");
    }
    assert_eq!((sandbox.read_state(), fs::read(&outside).unwrap()), before);
    assert!(!sandbox.project().join("pwned").exists());
}

/// R-S2b: a transcript is read only below the host's own directory.
#[test]
fn a_transcript_outside_the_hosts_directory_is_not_read() {
    let list = r#"{"type":"assistant","isSidechain":false,"message":{"role":"assistant","model":"m","content":[{"type":"text","text":"- [x] all done"}]}}"#;
    let inside = |sandbox: &Sandbox| sandbox.home().join(".claude/projects/p/s.jsonl");
    let claimed = |sandbox: &Sandbox, path: &std::path::Path| {
        sandbox.start_run(["--goal-file", "-", "--checklist"]);
        let ended = sandbox.send_stop(
            SESSION,
            &format!(r#","transcript_path":{}"#, json_string(path.to_str().unwrap())),
        );
        ended.stdout.contains("ralph: claimed")
    };

    let sandbox = Sandbox::new();
    write_file(&inside(&sandbox), format!("{list}\n"));
    assert!(claimed(&sandbox, &inside(&sandbox)));

    let sandbox = Sandbox::new();
    let outside = sandbox.write("s.jsonl", format!("{list}\n"));
    assert!(!claimed(&sandbox, &outside));

    let sandbox = Sandbox::new();
    let outside = sandbox.write("s.jsonl", format!("{list}\n"));
    let link = inside(&sandbox);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(outside, &link).unwrap();
    assert!(!claimed(&sandbox, &link), "a symlink that leads out does not count as inside");
}

/// R-L4c: if the owner's process is unknown, a day without events makes the run orphaned.
#[test]
fn a_run_without_events_for_a_day_is_orphaned() {
    for (ago_ms, standing) in [(23 * 3_600_000, "unprotected"), (25 * 3_600_000, "orphaned")] {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run(["--goal-file", "-", "--max-duration", "72h"]);
        let directory = sandbox.ralph_home("runs").join(&run);
        let journal = fs::read_to_string(directory.join("journal.jsonl")).unwrap();
        let mut first: serde_json::Value = serde_json::from_str(&journal).unwrap();
        let then = first["at_ms"].as_u64().unwrap() - ago_ms;
        first["at_ms"] = then.into();
        first["change"]["started"]["started_ms"] = then.into();
        fs::write(directory.join("journal.jsonl"), format!("{first}\n")).unwrap();
        for derived in ["run.json", "state.json", "count"] {
            fs::remove_file(directory.join(derived)).unwrap();
        }
        assert_eq!(sandbox.run_status(&run).0, standing);
        let stop = sandbox.send_stop(SESSION, "");
        assert_eq!(stop.is_block(), standing == "unprotected", "{stop}");
    }
}
