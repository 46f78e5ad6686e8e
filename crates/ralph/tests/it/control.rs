//! Pause, resume and cancel, and the switches that turn ralph off for all sessions.

use crate::sandbox::{SESSION, Sandbox};
use std::fs;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];

/// R-L4a: after a cancel every stop is allowed, whichever files are restored, until a person starts a new run.
#[test]
fn a_cancelled_run_stays_cancelled_when_its_files_are_restored() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let alive = sandbox.read_state();
    let cancelled = sandbox.ralph(["cancel", &run]);
    assert_eq!(cancelled.code, Some(0), "{cancelled}");
    for _ in 0..2 {
        assert!(sandbox.send_stop(SESSION, "").is_allow());
    }
    for (path, bytes) in &alive {
        fs::write(path, bytes).unwrap();
    }
    assert!(sandbox.send_stop(SESSION, "").is_allow(), "an older state does not revive it");
    sandbox.write_state(&format!("{SESSION}/orchestrator.json"), r#"{"verified_done":false}"#);
    assert!(sandbox.send_stop(SESSION, "").is_allow(), "nor does another tool's file");
    assert_eq!(sandbox.run_status(&run).0, "cancelled");

    fs::remove_file(sandbox.ralph_home("state").join(SESSION).join("orchestrator.json")).unwrap();
    sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block(), "a new start arms it");
}

#[test]
fn a_session_held_only_by_files_can_be_cancelled() {
    let sandbox = Sandbox::new();
    sandbox.write_state("abc/orchestrator.json", r#"{"verified_done":false}"#);
    assert!(sandbox.send_stop("abc", "").is_block());
    assert_eq!(sandbox.ralph(["cancel", "abc"]).code, Some(0));
    assert!(sandbox.send_stop("abc", "").is_allow());
}

/// R-L4d: a cancel that is incomplete does not report success.
#[test]
fn an_incomplete_cancel_reports_the_remaining_file() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    // The tombstone is written first and frees the session; a failure after it must still be reported.
    let pointer = sandbox.ralph_home("sessions").join(SESSION);
    fs::remove_file(&pointer).unwrap();
    fs::create_dir(&pointer).unwrap();
    let ended = sandbox.ralph(["cancel", &run]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains(pointer.to_str().unwrap()), "{ended}");
    assert!(sandbox.send_stop(SESSION, "").is_allow());
}

#[test]
fn cancelling_an_unknown_or_ended_run_fails_without_changes() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let before = sandbox.read_state();
    for name in [run.as_str(), "nope", "../../x", ""] {
        let ended = sandbox.ralph(["cancel", name]);
        assert_eq!(ended.code, Some(1), "{name}: {ended}");
    }
    assert_eq!(sandbox.read_state(), before);
}

#[test]
fn a_paused_run_does_not_hold() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert_eq!(sandbox.run_status(&run), ("paused".to_string(), 1));
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(1));
    assert_eq!(sandbox.ralph(["resume", SESSION]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(1));
    assert_eq!(sandbox.fired_rules(&run), ["block", "off", "block"]);
}

#[test]
fn an_agent_cannot_control_the_run_that_holds_it() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let agents = sandbox.ralph_home("runs");
    let before = sandbox.read_state();
    for action in ["cancel", "pause", "resume"] {
        let mut command = sandbox.command();
        command.args([action, &run]).env("CLAUDECODE", "1");
        let ended = crate::sandbox::run_command(&mut command, b"");
        assert_eq!(ended.code, Some(1), "{ended}");
    }
    assert_eq!(sandbox.read_state(), before);

    // Without the variable, a descendant of the host process that owns the run still counts as the agent.
    let mut hook = sandbox.command();
    hook.args(["hook", "claude"]).env("CLAUDE_PID", std::process::id().to_string());
    assert!(
        crate::sandbox::run_command(&mut hook, sandbox.stop_event(SESSION, "").as_bytes())
            .is_block()
    );
    let ended = sandbox.ralph(["cancel", &run]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(agents.exists());
}

#[test]
fn the_environment_and_the_kill_switch_allow_every_stop() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let mut off = sandbox.command();
    off.args(["hook", "claude"]).env("RALPH_OFF", "1");
    assert!(
        crate::sandbox::run_command(&mut off, sandbox.stop_event(SESSION, "").as_bytes())
            .is_allow()
    );
    fs::write(sandbox.ralph_home("off"), "").unwrap();
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert_eq!(sandbox.run_status(&run).1, 0);
    fs::remove_file(sandbox.ralph_home("off")).unwrap();
    assert!(sandbox.send_stop(SESSION, "").is_block());
}

/// Exactly one of many concurrent starts for a session succeeds, and cancelling the previous run does not undo it.
#[test]
fn concurrent_starts_give_a_session_one_run() {
    let sandbox = Sandbox::new();
    for round in 0..5 {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let mut command = sandbox.command();
                command.args(["start", "--session", SESSION, "--completion-promise", "X"]);
                crate::sandbox::spawn_with_input(&mut command, b"")
            })
            .collect();
        let started = starts
            .into_iter()
            .map(|child| child.wait_with_output().unwrap())
            .filter(|output| output.status.success())
            .count();
        assert_eq!(started, 1, "round {round}");
        assert!(sandbox.send_stop(SESSION, "").is_block(), "round {round}");
        assert_eq!(sandbox.ralph(["cancel", SESSION]).code, Some(0));
    }
}

/// A command in an agent's shell may start a run for its own session only, and may not clear recorded faults.
#[test]
fn an_agent_can_start_a_run_only_for_its_own_session() {
    let sandbox = Sandbox::new();
    sandbox.run_hook("garbage");
    let agent = |args: &[&str]| {
        let mut command = sandbox.command();
        command.args(args).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", SESSION);
        crate::sandbox::run_command(&mut command, b"goal").code
    };
    assert_eq!(agent(&["start", "--session", "another", "--goal-file", "-"]), Some(1));
    assert_eq!(agent(&["status", "--clear-trouble"]), Some(1));
    assert_eq!(sandbox.status()["faults"].as_array().unwrap().len(), 1);
    assert_eq!(agent(&["start", "--goal-file", "-"]), Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert!(sandbox.send_stop("another", "").is_allow());
    assert_eq!(sandbox.ralph(["status", "--clear-trouble"]).stdout, "1 fault cleared\n");
    assert_eq!(sandbox.status()["faults"].as_array().unwrap().len(), 0);
}

#[test]
fn an_ambiguous_prefix_names_both_sessions() {
    let sandbox = Sandbox::new();
    sandbox.start_run_for("abcd1111-x", PROMISE_ARGS);
    sandbox.start_run_for("abcd1111-y", PROMISE_ARGS);
    let ended = sandbox.ralph(["status", "abcd1"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "error: `abcd1` is ambiguous: it could be `abcd1111-x` or `abcd1111-y`\n  hint: give more characters of the id\n"
    );
    assert_eq!(sandbox.ralph(["status", "abcd1111-x"]).code, Some(0));
}

/// R-L4d: the session is freed even if the cancel cannot be recorded in the run.
#[test]
fn cancelling_a_locked_run_frees_the_session_and_reports_the_rest() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let lock = fs::File::open(sandbox.ralph_home("runs").join(&run).join("lock")).unwrap();
    lock.lock().unwrap();
    let ended = sandbox.ralph(["cancel", &run]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(
        ended
            .stderr
            .starts_with(&format!("error: run `{run}` is cancelled and its session is free")),
        "{ended}"
    );
    drop(lock);
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert_eq!(sandbox.run_status(&run).0, "cancelled");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0), "a second cancel completes it");
}
