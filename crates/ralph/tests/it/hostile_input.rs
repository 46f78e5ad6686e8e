//! Hostile and broken input to `ralph hook`. It always answers in time, and exits with code 2 only to block.

use crate::sandbox::{SESSION, Sandbox, run_command};
use std::io::Write;
use std::process::Stdio;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];

/// R-H1d, R-L7e: input that is not an event is allowed without output, and a fault is recorded.
#[test]
fn invalid_input_is_allowed_and_recorded() {
    let nested = "[".repeat(200_000);
    let deep = format!(r#"{{"session_id":"{SESSION}","x":{}"#, r#"{"a":"#.repeat(100_000));
    let inputs: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("blank", b" \n\t ".to_vec()),
        ("null", b"null".to_vec()),
        ("number", b"42".to_vec()),
        ("array", b"[]".to_vec()),
        ("text", b"hello".to_vec()),
        ("half", br#"{"session_id":"a","#.to_vec()),
        ("not UTF-8", b"{\"session_id\":\"\xff\xfe\"}".to_vec()),
        ("nested", nested.into_bytes()),
        ("deep", deep.into_bytes()),
        ("NUL", vec![0; 4096]),
    ];
    for (name, input) in inputs {
        let sandbox = Sandbox::new();
        sandbox.start_run(PROMISE_ARGS);
        let ended = sandbox.run_hook(&input);
        assert!(ended.is_allow(), "{name}: {ended}");
        let faults = sandbox.status()["faults"].clone();
        assert_eq!(faults[0]["kind"], "input", "{name}: {faults}");
    }
}

/// R-H1d: a field of the wrong type counts as missing.
#[test]
fn fields_of_the_wrong_type_do_not_invalidate_the_event() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let odd = r#","stop_hook_active":"yes","transcript_path":5,"prompt_id":[],"background_tasks":{"a":1},"session_crons":"x","last_assistant_message":{"b":[1,2]},"new_field":null"#;
    assert!(sandbox.send_stop(SESSION, odd).is_block());
}

/// R-H1d: input of 100 MB is read to the end and answered.
#[test]
fn a_huge_event_is_answered() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let large = format!(r#","last_assistant_message":"{}""#, "x".repeat(11 * 1024 * 1024));
    assert!(sandbox.send_stop(SESSION, &large).is_block(), "11 MB is handled like any event");
    let huge = format!(r#","last_assistant_message":"{}""#, "x".repeat(100 * 1024 * 1024));
    assert!(sandbox.send_stop(SESSION, &huge).is_allow(), "100 MB is too large");
    assert_eq!(sandbox.run_status(&run), ("held".to_string(), 1));
}

/// R-H1d: if stdin is never closed, the answer comes as soon as the event is complete, or at the deadline.
#[test]
fn an_open_pipe_is_answered() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    for (input, code) in
        [(sandbox.stop_event(SESSION, ""), 2), (String::new(), 0), ("{\"a\":".to_string(), 0)]
    {
        let mut child = sandbox
            .command()
            .args(["hook", "claude", "--deadline", "700ms"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(input.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{input}");
        drop(pipe);
    }
}

/// R-H1a: a mistake in the registered command is reported and never blocks.
#[test]
fn wrong_arguments_never_exit_with_2() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let event = sandbox.stop_event(SESSION, "");
    let calls: &[&[&str]] = &[
        &["hook"],
        &["hook", "emacs"],
        &["hook", "claude", "--style"],
        &["hook", "claude", "--style", "loud"],
        &["hook", "claude", "--deadline", "soon"],
        &["hook", "claude", "--deadline=0s"],
        &["hook", "claude", "--nonsense"],
        &["hook", "claude", "extra"],
    ];
    for args in calls {
        let ended = sandbox.ralph_with_input(*args, event.as_bytes());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{args:?}: {ended}");
        assert!(ended.stderr.starts_with("error: "), "{ended}");
    }
    assert_eq!(sandbox.ralph(["hook", "--help"]).code, Some(0));
}

/// R-L7e: after an internal error the stop is allowed without output, and the fault names the run.
#[test]
fn a_panic_allows_the_stop_and_is_recorded_for_the_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let mut command = sandbox.command();
    command.args(["hook", "claude"]).env("RALPH_FAILPOINT", "panic:3");
    let hook = run_command(&mut command, sandbox.stop_event(SESSION, "").as_bytes());
    assert!(hook.is_allow(), "{hook}");
    let status = sandbox.status();
    assert_eq!(
        (&status["faults"][0]["kind"], &status["faults"][0]["run"]),
        (&"controller".into(), &run.clone().into())
    );
    assert!(sandbox.send_stop(SESSION, "").is_block(), "the run continues");
}

/// R-S7a: secrets are written neither to the agent nor to disk.
#[test]
fn secrets_are_not_repeated() {
    let sandbox = Sandbox::new().env("MY_API_KEY", "hunter2hunter2hunter2");
    sandbox.start_run(PROMISE_ARGS);
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let task =
        format!(r#"{{"status":"pending","subject":"use hunter2hunter2hunter2 and {token}"}}"#);
    sandbox.write_state(&format!("{SESSION}/tasks/1.json"), &task);
    let hook = sandbox.send_stop(SESSION, "");
    assert!(hook.is_block());
    let journal: String = sandbox
        .read_home()
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tasks/1.json"))
        .map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned())
        .collect();
    for secret in ["hunter2hunter2hunter2", token.as_str()] {
        assert!(!hook.stderr.contains(secret) && !journal.contains(secret));
    }
    assert!(hook.stderr.contains("use [redacted] and [redacted]"), "{hook}");

    let sandbox = Sandbox::new();
    sandbox.start_run(["--goal-file", "-", "--checklist"]);
    let checklist = format!(r#","last_assistant_message":"- [ ] rotate {token}""#);
    assert!(!sandbox.send_stop(SESSION, &checklist).stderr.contains(&token));
    let line = format!(
        r#"{{"type":"assistant","message":{{"model":"m","content":[{{"type":"text","text":"- [ ] rotate {token}"}}]}}}}"#
    );
    let path = crate::sandbox::write_file(
        &sandbox.home().join(".claude/projects/p/s.jsonl"),
        format!("{line}\n"),
    );
    let path = crate::sandbox::json_string(path.to_str().unwrap());
    assert!(sandbox.send_stop(SESSION, &format!(r#","transcript_path":{path}"#)).is_block());
    for (path, bytes) in sandbox.read_home() {
        assert!(!String::from_utf8_lossy(&bytes).contains(&token), "{}", path.display());
    }
}

/// If the host closed a standard descriptor, it cannot read an answer, so the stop is allowed. No file that ralph opens
/// gets the number of a standard descriptor.
#[test]
fn a_closed_descriptor_does_not_hold_or_corrupt_files() {
    for closed in ["<&-", ">&-", "2>&-", ">/dev/full 2>/dev/full"] {
        let sandbox = Sandbox::new();
        let run = sandbox.start_run(PROMISE_ARGS);
        let event = sandbox.write("event.json", sandbox.stop_event(SESSION, ""));
        let input = if closed == "<&-" { "" } else { "<\"$1\"" };
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("\"$0\" hook claude {input} {closed}")]);
        shell.arg(env!("CARGO_BIN_EXE_ralph")).arg(event).env_clear().env("HOME", sandbox.home());
        let hook = run_command(shell.env("PATH", "/usr/bin:/bin"), b"");
        assert_eq!(hook.code, Some(0), "{closed}: {hook}");
        assert_eq!(sandbox.status()["runs"][0]["tampering"], serde_json::Value::Null, "{closed}");
        sandbox.write("work.txt", closed);
        assert!(sandbox.send_stop(SESSION, "").is_block(), "{closed}");
        assert!(sandbox.run_status(&run).1 <= 2);
    }
}
