//! Files that ralph cannot read or write. None of them counts as empty: the error is reported, and no session is held
//! forever. The tests put a directory in the place of a file, because that fails even for root.

use crate::sandbox::{SESSION, Sandbox, json_string, read_files, write_file};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn block_path(path: &Path) {
    if path.is_file() {
        fs::remove_file(path).unwrap();
    }
    fs::create_dir_all(path).unwrap();
}

/// The faults that `ralph status` reports, with normalized paths.
fn fault_texts(sandbox: &Sandbox) -> Vec<String> {
    let status = sandbox.status();
    let faults = status["faults"].as_array().unwrap().iter();
    faults.map(|fault| sandbox.normalize(fault["what"].as_str().unwrap())).collect()
}

fn start_goal_run(sandbox: &Sandbox) -> String {
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    sandbox.status()["runs"][0]["run"].as_str().unwrap().to_string()
}

fn block_run_record(sandbox: &Sandbox, run: &str) {
    block_path(&sandbox.ralph_home("runs").join(run).join("run.json"));
}

/// The record of earlier holds limits how often files hold a session, so without it the agent may stop.
#[test]
fn files_do_not_hold_a_session_that_has_no_readable_record() {
    let unfinished = r#"{"phase":"implementation","verified_done":false}"#;
    let sandbox = Sandbox::new();
    sandbox.write_state(&format!("{SESSION}/orchestrator.json"), unfinished);
    let prompt = r#","stop_hook_active":false,"prompt_id":"p""#;
    write_file(&sandbox.ralph_home("held"), "");
    insta::assert_snapshot!(sandbox.normalize(&sandbox.send_stop(SESSION, prompt).notice()), @"ralph: let the agent stop, because the decision to hold it cannot be recorded: cannot create the directory `$ROOT/home/.ralph/held/5999882c-e786-462c-84d4-07d1c65b5e76`: Not a directory (os error 20)");
    fs::remove_file(sandbox.ralph_home("held")).unwrap();
    block_path(&sandbox.ralph_home("held").join(SESSION).join("journal.jsonl"));
    assert!(sandbox.send_stop(SESSION, prompt).is_allow());
    insta::assert_snapshot!(fault_texts(&sandbox).join("\n"), @"
    cannot append to `$ROOT/home/.ralph/held/5999882c-e786-462c-84d4-07d1c65b5e76/journal.jsonl`: Is a directory (os error 21)
    cannot read `$ROOT/home/.ralph/held/5999882c-e786-462c-84d4-07d1c65b5e76/journal.jsonl`: it is not a regular file
    cannot create the directory `$ROOT/home/.ralph/held/5999882c-e786-462c-84d4-07d1c65b5e76`: Not a directory (os error 20)
    ");
}

/// R-S6b: an agent cannot pass for a person by damaging its run.
#[test]
fn a_scheduled_command_has_no_effect_on_a_damaged_run() {
    let sandbox = Sandbox::new();
    let run = start_goal_run(&sandbox);
    let crons = r#","session_crons":[{"id":"1","schedule":"* * * * *","recurring":false,"prompt":"/ralph:cancel"}]"#;
    assert!(sandbox.send_stop(SESSION, crons).is_allow(), "a scheduled prompt is pending");
    block_run_record(&sandbox, &run);
    let answer = sandbox.send_prompt(SESSION, "/ralph:cancel").prompt_answer();
    assert!(answer.starts_with("ralph: the agent scheduled ralph commands"), "{answer}");
    let stopped = sandbox.send_stop(SESSION, "").notice();
    assert!(stopped.contains("let the agent stop without a verdict"), "{stopped}");
}

/// Without the mark, a command that the agent scheduled would count as a person's, so a failed write is reported.
#[test]
fn a_mark_that_cannot_be_written_is_a_fault() {
    let crons = r#","session_crons":[{"id":"1","schedule":"* * * * *","recurring":false,"prompt":"/ralph:cancel"}]"#;
    let is_reported = |change: u32| {
        let sandbox = Sandbox::new();
        start_goal_run(&sandbox);
        let sandbox = sandbox.env("RALPH_FAILPOINT", &format!("enospc:{change}"));
        sandbox.send_stop(SESSION, crons);
        let faults = read_files(&sandbox.ralph_home("faults"));
        faults.iter().any(|(_, fault)| String::from_utf8_lossy(fault).contains("/posed`"))
    };
    assert!((1..=6).any(is_reported));
}

/// With an unreadable run, the guard protects only ralph's own files, and the fault is reported.
#[test]
fn a_tool_call_reports_a_damaged_run() {
    let sandbox = Sandbox::new();
    let run = start_goal_run(&sandbox);
    block_run_record(&sandbox, &run);
    let home = json_string(&sandbox.ralph_home("off").display().to_string());
    let call = format!(r#","tool_name":"Write","tool_input":{{"file_path":{home},"content":""}}"#);
    let denied = sandbox.send_event("PreToolUse", SESSION, &call);
    assert!(denied.stdout.contains(r#""permissionDecision":"deny""#), "{denied}");
    insta::assert_snapshot!(fault_texts(&sandbox).join("\n").replace(&run, "[run]"), @"cannot read `$ROOT/home/.ralph/runs/[run]/run.json`: it is not a regular file");
}

/// An interrupt that the host had not finished writing is found once its line is complete.
#[test]
fn half_a_line_of_the_transcript_is_read_again() {
    let sandbox = Sandbox::new();
    let run = start_goal_run(&sandbox);
    let interrupt = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
    let transcript = sandbox.write_transcript(SESSION, &["{}"]);
    let path = format!(r#","transcript_path":{}"#, json_string(&transcript));
    let say = || {
        let more = format!(r#"{path},"prompt_id":"p","prompt":"do something else""#);
        sandbox.send_event("UserPromptSubmit", SESSION, &more)
    };
    assert!(sandbox.send_stop(SESSION, &path).is_block());
    let (half, rest) = interrupt.split_at(interrupt.len() / 2);
    fs::write(&transcript, format!("{{}}\n{interrupt}\n{half}")).unwrap();
    say().notice();
    assert_eq!(sandbox.run_status(&run).0, "paused");
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    fs::write(&transcript, format!("{{}}\n{interrupt}\n{half}{rest}\n")).unwrap();
    say().notice();
    assert_eq!(sandbox.run_status(&run).0, "paused");
}

/// An unreadable directory is an error, not an unknown name, and `ralph status` shows it.
#[test]
fn directories_that_cannot_be_listed_are_reported() {
    let sandbox = Sandbox::new();
    for name in ["held", "queues"] {
        let path = sandbox.ralph_home(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A loop, which cannot be listed.
        symlink(name, path).unwrap();
    }
    insta::assert_snapshot!(sandbox.normalize(&sandbox.ralph(["why", "5999882c"]).to_string()), @"
    exit 1
    --- stderr
    error: cannot list `$ROOT/home/.ralph/held`
      caused by: Too many levels of symbolic links (os error 40)
    ");
    insta::assert_snapshot!(fault_texts(&sandbox).join("\n"), @"
    cannot list `$ROOT/home/.ralph/queues`: Too many levels of symbolic links (os error 40)
    cannot list `$ROOT/home/.ralph/held`: Too many levels of symbolic links (os error 40)
    ");
}

/// The paused run that a person means may be the one that cannot be read.
#[test]
fn resuming_reports_a_run_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let run = start_goal_run(&sandbox);
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    let answer = || {
        let answer = sandbox.send_prompt("another-session", "/ralph:resume").prompt_answer();
        sandbox.normalize(&answer).replace(&run, "[run]")
    };
    block_run_record(&sandbox, &run);
    insta::assert_snapshot!(answer(), @"
    ralph: cannot read `$ROOT/home/.ralph/runs/[run]/run.json`
      caused by: it is not a regular file
    ");
}

/// A repository that git cannot read is not a clean one.
#[test]
fn an_unreadable_repository_is_unknown_to_a_run_and_a_fault_otherwise() {
    let done = r#"{"phase":"complete","verified_done":true}"#;
    let sandbox = Sandbox::new();
    sandbox.write("new.txt", "x");
    sandbox.write_state(&format!("{SESSION}/orchestrator.json"), done);
    fs::write(sandbox.project().join(".git/HEAD"), "nonsense").unwrap();
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    insta::assert_snapshot!(fault_texts(&sandbox).join("\n"), @"`git status` exited with 128");
}

/// `/clear` leaves a mark with the run for the next session.
#[test]
fn a_garbled_mark_of_a_cleared_session_is_a_fault() {
    let host = std::process::id().to_string();
    let sandbox = Sandbox::new().env("CLAUDE_PID", &host);
    start_goal_run(&sandbox);
    assert!(sandbox.send_event("SessionEnd", SESSION, r#","reason":"clear""#).is_allow());
    let marks = fs::read_dir(sandbox.ralph_home("cleared")).unwrap();
    for mark in marks {
        fs::write(mark.unwrap().path(), "../x").unwrap();
    }
    let next = sandbox.send_event("SessionStart", "next-session", r#","source":"clear""#);
    assert!(next.is_allow(), "{next}");
    let what = fault_texts(&sandbox).join("\n").replace(&host, "[pid]");
    assert!(what.contains("does not name a run, so no run was moved to this session"), "{what}");
}

/// An approval that cannot be used is not reported as missing, and `ralph trust` does not overwrite it.
#[test]
fn an_unreadable_approval_is_reported() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    sandbox.commit();
    sandbox.approve_policy();
    let approval = read_files(&sandbox.ralph_home("trust")).remove(0).0;
    let approval = sandbox.ralph_home("trust").join(approval);
    let written = fs::read_to_string(&approval).unwrap();
    let name = approval.file_name().unwrap().to_str().unwrap();
    let say = |args: &[&str]| {
        let ended = sandbox.ralph(args);
        sandbox.normalize(&ended.to_string()).replace(name, "[approval]")
    };
    fs::write(&approval, written.replace("\"v\": 1", "\"v\": 2")).unwrap();
    let before = fs::read(&approval).unwrap();
    insta::assert_snapshot!(say(&["gate", "run"]), @"
    exit 1
    --- stderr
    error: the approval `$ROOT/home/.ralph/trust/[approval]` cannot be read: a newer ralph wrote it (format 2)
      hint: move it away with `mv $ROOT/home/.ralph/trust/[approval] $ROOT/home/.ralph/trust/[approval].bak`, then run `ralph trust`
    ");
    insta::assert_snapshot!(say(&["start", "--session", SESSION, "--checklist"]), @"
    exit 1
    --- stderr
    error: the approval `$ROOT/home/.ralph/trust/[approval]` cannot be read: a newer ralph wrote it (format 2)
      hint: move it away with `mv $ROOT/home/.ralph/trust/[approval] $ROOT/home/.ralph/trust/[approval].bak`, then run `ralph trust`
    ");
    insta::assert_snapshot!(say(&["trust"]), @"
    exit 1
    --- stderr
    error: the approval `$ROOT/home/.ralph/trust/[approval]` cannot be read: a newer ralph wrote it (format 2)
      hint: move it away with `mv $ROOT/home/.ralph/trust/[approval] $ROOT/home/.ralph/trust/[approval].bak`, then run `ralph trust`
    ");
    assert_eq!(fs::read(&approval).unwrap(), before);
    fs::write(&approval, &written[..written.len() / 2]).unwrap();
    insta::assert_snapshot!(say(&["gate", "run"]), @"
    exit 1
    --- stderr
    error: the approval `$ROOT/home/.ralph/trust/[approval]` cannot be read: it is damaged
      hint: move it away with `mv $ROOT/home/.ralph/trust/[approval] $ROOT/home/.ralph/trust/[approval].bak`, then run `ralph trust`
    ");
    block_path(&approval);
    insta::assert_snapshot!(say(&["gate", "run"]), @"
    exit 1
    --- stderr
    error: the approval `$ROOT/home/.ralph/trust/[approval]` cannot be read: it is a directory
      hint: move it away with `mv $ROOT/home/.ralph/trust/[approval] $ROOT/home/.ralph/trust/[approval].bak`, then run `ralph trust`
    ");
}

/// A session pointer that a newer ralph wrote is left where it is, and reported.
#[test]
fn a_pointer_of_a_newer_version_is_left_alone() {
    let sandbox = Sandbox::new();
    start_goal_run(&sandbox);
    let pointer = sandbox.ralph_home("sessions").join(SESSION);
    let newer = fs::read_to_string(&pointer).unwrap().replace("\"v\":1", "\"v\":2");
    fs::write(&pointer, &newer).unwrap();
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    insta::assert_snapshot!(fault_texts(&sandbox).join("\n"), @"`$ROOT/home/.ralph/sessions/5999882c-e786-462c-84d4-07d1c65b5e76` was written by a newer ralph (format 2)");
    let started = sandbox.ralph(["start", "--session", SESSION, "--checklist"]);
    insta::assert_snapshot!(sandbox.normalize(&started.to_string()), @"
    exit 1
    --- stderr
    error: `$ROOT/home/.ralph/sessions/5999882c-e786-462c-84d4-07d1c65b5e76` was written by a newer ralph (format 2)
      hint: use that version, or a newer one
    ");
    assert_eq!(fs::read_to_string(&pointer).unwrap(), newer);
}
