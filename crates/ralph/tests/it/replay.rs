//! `ralph lab replay`: sends one captured payload to real hooks, on a copy of the run.

use crate::gates::sandbox_with_policy;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, json_string, read_files, write_program};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const LOOP_DIR: &str = "loops/csv";

/// Settings that register these hooks for one event.
fn hook_settings_json(event: &str, hooks: &Value) -> String {
    json!({"hooks": {event: [{"hooks": hooks}]}}).to_string()
}

fn command_hook(command: &str) -> Value {
    json!({"type": "command", "command": command})
}

fn write_stop_payload(sandbox: &Sandbox, more: &str) -> PathBuf {
    let path = sandbox.root().join("payload.json");
    fs::write(&path, sandbox.stop_event(SESSION, more)).unwrap();
    path
}

fn run_replay(sandbox: &Sandbox, payload: &Path, more: &[&str]) -> CommandOutcome {
    sandbox.ralph(["replay", payload.to_str().unwrap()].iter().chain(more))
}

fn replay_json(sandbox: &Sandbox, payload: &Path, more: &[&str]) -> Value {
    let ended = run_replay(sandbox, payload, &[more, &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{ended}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Masks times.
fn mask_times(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = match line.split_once("       took ") {
            Some(_) => "       took [time]".to_owned(),
            None => line.to_owned(),
        };
        let line = match (line.find(" in "), line.find("s, ")) {
            (Some(from), Some(to)) if from < to => {
                format!("{} in [time]{}", &line[..from], &line[to + 1..])
            }
            _ => line,
        };
        let line = match (line.find("  held "), line.rfind(" · ")) {
            (Some(from), Some(to)) => format!("[when]{} · [time]", &line[from..to]),
            _ => line,
        };
        lines.push(line);
    }
    lines.join("\n")
}

/// Everything that a replay must not change: ralph's home, the project, and its repository with refs and objects.
fn all_files(sandbox: &Sandbox) -> Vec<(PathBuf, Vec<u8>)> {
    let mut project = read_files(sandbox.project());
    project.extend(sandbox.read_home());
    project
}

/// A sandbox with a failing gate, an open feature, and a run that was held once.
fn held_run() -> Sandbox {
    let policy = "[[gate]]\nname = \"check\"\nrun = [\"./check.sh\"]\nenv = [\"RAN\"]\n";
    let sandbox = sandbox_with_policy(policy);
    let feature =
        r#"{"features":[{"id":1,"description":"Export as CSV","steps":[],"passes":false}]}"#;
    sandbox.write(&format!("{LOOP_DIR}/feature_list.json"), feature);
    sandbox.write(&format!("{LOOP_DIR}/progress.txt"), "- Iteration: 0\n- Status: IN_PROGRESS\n");
    sandbox.write(
        ".claude/settings.json",
        hook_settings_json("Stop", &json!([command_hook("ralph hook claude")])),
    );
    sandbox.start_run(["--features", LOOP_DIR]);
    sandbox.write("work", "begun\n");
    assert!(sandbox.send_stop(SESSION, r#","prompt_id":"p1""#).is_block());
    sandbox
}

/// A replayed stop gets the decision that the next stop would get, and the run does not change.
#[test]
fn a_replay_reports_the_rule_and_does_not_change_the_run() {
    let sandbox = held_run();
    sandbox.write("work", "more of it\n");
    let payload = write_stop_payload(&sandbox, r#","prompt_id":"p2""#);
    let before = all_files(&sandbox);
    let first = run_replay(&sandbox, &payload, &[]);
    let second = run_replay(&sandbox, &payload, &[]);
    assert!(all_files(&sandbox) == before, "files changed");
    let shown = mask_times(&sandbox.normalize(&first.to_string()));
    assert_eq!(mask_times(&sandbox.normalize(&second.to_string())), shown);
    assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
           Stop held
                ralph: iteration 2 of 25 — still 2 of 7 not met, same failures (feature 1, check; state 0000000; run [run])
                exit 2 in [time], project settings: ralph hook claude
    model reads as user:
                Stop hook feedback:
                [ralph hook claude]: ralph: iteration 2 of 25 — still 2 of 7 not met, same failures (feature 1, check; state 0000000; run [run])
          ralph of `[run]`:
    [when]  held      rule `block`        2 not met   iteration 2 · [time]
              ✗ feature 1            "Export as CSV" does not pass yet
              ✗ check                1 finding, 1 pre-existing
                src/a.rs:3:5: not yet (pre-existing)
              ✓ a change, policy, tools, nothing hidden, test integrity
           took [time]
    "#);
    let replayed_text =
        replay_json(&sandbox, &payload, &[])["reads"][0]["text"].as_str().unwrap().to_owned();
    let real = sandbox.send_stop(SESSION, r#","prompt_id":"p2""#).stderr;
    let real = format!("Stop hook feedback:\n[ralph hook claude]: {real}");
    assert_eq!(sandbox.normalize(&replayed_text), sandbox.normalize(&real));
}

/// The clean checkout is made from checkpoints that exist only in the copy.
#[test]
fn a_replayed_stop_is_verified_in_a_clean_checkout() {
    let gate = "[[gate]]\nname = \"check\"\nrun = [\"grep\", \"-q\", \"done\", \"work\"]\n";
    let policy = format!("{gate}[verify]\ncheckout = \"clean\"\n");
    let sandbox = sandbox_with_policy(&policy);
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    let payload = write_stop_payload(&sandbox, "");
    let before = all_files(&sandbox);
    let result = replay_json(&sandbox, &payload, &["--hook", "ralph hook claude"]);
    let ruling = (&result["decision"], &result["ralph"]["rule"]);
    assert_eq!(ruling, (&json!("allowed"), &json!("verified")), "{result}");
    assert!(all_files(&sandbox) == before, "files changed");
}

/// Without a repository the base is stored in ralph's home, and the replay finds it there.
#[test]
fn a_project_without_a_repository_can_be_replayed() {
    let sandbox = Sandbox::without_git("plain");
    let policy = "[[gate]]\nname = \"check\"\nrun = [\"false\"]\n";
    sandbox.write("ralph.toml", crate::sandbox::without_proof(policy));
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "begun\n");
    let before = all_files(&sandbox);
    let payload = write_stop_payload(&sandbox, "");
    let result = replay_json(&sandbox, &payload, &["--hook", "ralph hook claude"]);
    let open: Vec<_> = result["ralph"]["facts"]["open"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["name"])
        .collect();
    assert_eq!((&result["ralph"]["rule"], open), (&json!("block"), vec![&json!("check")]));
    assert!(all_files(&sandbox) == before, "files changed");
    let listed = sandbox.ralph(["checkpoint", "list", &run, "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        listed["checkpoints"].as_array().unwrap().len(),
        1,
        "only the checkpoint of the start"
    );
}

#[test]
fn a_loop_is_not_adopted_by_a_replay() {
    let sandbox = Sandbox::new();
    let current = ".claude/data/ralph-loops/current";
    let feature =
        r#"{"features":[{"id":1,"description":"Export as CSV","steps":[],"passes":false}]}"#;
    sandbox.write(&format!("{current}/feature_list.json"), feature);
    sandbox.write(&format!("{current}/progress.txt"), "- Iteration: 0\n- Status: IN_PROGRESS\n");
    sandbox.approve_loop();
    let payload = write_stop_payload(&sandbox, "");
    let before = all_files(&sandbox);
    let result = replay_json(&sandbox, &payload, &["--hook", "ralph hook claude"]);
    assert_eq!(
        (&result["decision"], &result["ralph"]["rule"]),
        (&json!("blocked"), &json!("block"))
    );
    assert!(all_files(&sandbox) == before, "files changed");
}

#[test]
fn a_live_replay_charges_the_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    let payload = write_stop_payload(&sandbox, "");
    let hook = ["--hook", "ralph hook claude"];
    assert_eq!(replay_json(&sandbox, &payload, &hook)["ralph"]["facts"]["iteration_after"], 1);
    assert_eq!(sandbox.run_status(&run), ("armed".to_string(), 0));
    let live = [&hook[..], &["--live"]].concat();
    assert_eq!(replay_json(&sandbox, &payload, &live)["ralph"]["facts"]["iteration_after"], 1);
    assert_eq!(sandbox.run_status(&run), ("held".to_string(), 1));
}

/// A hook that sets `RALPH_HOME` itself still works on the copy.
#[test]
fn a_hook_that_sets_ralph_home_charges_no_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    let payload = write_stop_payload(&sandbox, "");
    let home = sandbox.ralph_home("");
    let before = all_files(&sandbox);
    for hook in [
        format!("RALPH_HOME='{}' ralph hook claude", home.display()),
        "unset RALPH_HOME; ralph hook claude".to_owned(),
        "RALPH_HOME= HOME=/nowhere ralph hook claude".to_owned(),
    ] {
        let result = replay_json(&sandbox, &payload, &["--hook", &hook]);
        assert_eq!(result["ralph"]["facts"]["iteration_after"], 1, "{hook}");
        assert!(all_files(&sandbox) == before, "{hook}: files changed");
    }
    assert_eq!(sandbox.run_status(&run), ("armed".to_string(), 0));
}

#[test]
fn unrecorded_decisions_are_reported_with_their_rule() {
    let sandbox = Sandbox::new();
    let payload = write_stop_payload(&sandbox, "");
    let hook = ["--hook", "ralph hook claude"];
    let rule = |sandbox: &Sandbox, payload: &Path| {
        let ralph = &replay_json(sandbox, payload, &hook)["ralph"];
        format!("{} {}", ralph["rule"].as_str().unwrap(), ralph["because"].as_str().unwrap())
    };
    assert_eq!(rule(&sandbox, &payload), "not-mine no run holds this session");
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    let other = sandbox.root().join("subagent.json");
    fs::write(&other, sandbox.stop_event(SESSION, "").replace("\"Stop\"", "\"SubagentStop\""))
        .unwrap();
    assert_eq!(rule(&sandbox, &other), "not-mine no decision was recorded for SubagentStop");
    sandbox.ralph(["cancel", &run]);
    assert_eq!(rule(&sandbox, &payload), "not-mine the run of this session has ended");
    let sandbox = sandbox.env("RALPH_OFF", "1");
    assert_eq!(rule(&sandbox, &payload), "off `RALPH_OFF` is set");
    assert_eq!(replay_json(&sandbox, &payload, &["--hook", "true"])["ralph"], Value::Null);
}

/// User, project and local settings apply in the client's order. Hooks of plugins are not replayed.
#[test]
fn hooks_come_from_the_settings_the_client_would_load() {
    let sandbox = Sandbox::new();
    let printing = |text: &str| command_hook(&format!("echo {text} >&2; exit 2"));
    let claude = sandbox.home().join(".claude");
    fs::write(claude.join("settings.json"), hook_settings_json("Stop", &json!([printing("user")])))
        .unwrap();
    let project = json!({
        "hooks": {
            "Stop": [{"hooks": [printing("project"), {"type": "prompt", "prompt": "done?"}]}],
            "PreToolUse": [{"matcher": "Edit", "hooks": [printing("edit")]}, {"matcher": "Ba.*", "hooks": [printing("bash")]}],
        },
        "enabledPlugins": {"demo@market": true, "off@market": false},
    });
    sandbox.write(".claude/settings.json", project.to_string());
    let exec = json!([{"type": "command", "command": "/bin/sh", "args": ["-c", "echo local >&2; exit 2"]}]);
    sandbox.write(".claude/settings.local.json", hook_settings_json("Stop", &exec));
    let sources = |result: &Value| {
        let mut sources: Vec<_> = result["handlers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|handler| {
                format!(
                    "{}: {}",
                    handler["source"].as_str().unwrap(),
                    handler["stderr"].as_str().unwrap().trim()
                )
            })
            .collect();
        sources.sort();
        sources
    };
    let payload = write_stop_payload(&sandbox, "");
    let result = replay_json(&sandbox, &payload, &[]);
    assert_eq!(sources(&result), ["local: local", "project: project", "user: user"]);
    assert_eq!(
        result["notices"],
        json!([
            "skipped a Stop hook from project settings: a replay has no model for its type `prompt`",
            "project settings enable plugins (demo@market): their hooks are not replayed",
        ])
    );
    let call = sandbox.root().join("call.json");
    let cwd = sandbox.project().display().to_string();
    fs::write(
        &call,
        json!({"hook_event_name": "PreToolUse", "cwd": cwd, "tool_name": "Bash"}).to_string(),
    )
    .unwrap();
    assert_eq!(sources(&replay_json(&sandbox, &call, &[])), ["project: bash"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let named = ["--project", elsewhere.path().to_str().unwrap()];
    assert_eq!(sources(&replay_json(&sandbox, &payload, &named)), ["user: user"]);
    let file = sandbox.root().join("other.json");
    fs::write(&file, hook_settings_json("Stop", &json!([printing("file")]))).unwrap();
    let both = ["--settings", file.to_str().unwrap(), "--hook", "echo flag >&2; exit 2"];
    assert_eq!(sources(&replay_json(&sandbox, &payload, &both)), ["flag: file", "flag: flag"]);
    let sandbox = sandbox.env("CLAUDE_CONFIG_DIR", elsewhere.path().to_str().unwrap());
    assert_eq!(
        sources(&replay_json(&sandbox, &payload, &[])),
        ["local: local", "project: project"]
    );
}

/// Every recorded event reaches the hook on one line, as the client wrote it.
#[test]
fn every_recorded_payload_arrives_unchanged() {
    let sandbox = Sandbox::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/hosts/claude-code/2.1.325/stdin");
    let received = sandbox.root().join("received");
    let hook = format!("cat > '{}'; exit 2", received.display());
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let result = replay_json(&sandbox, &path, &["--hook", &hook]);
        let line = fs::read_to_string(&received).unwrap();
        assert_eq!(line.find('\n'), Some(line.len() - 1), "{}", path.display());
        let sent: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), sent);
        assert_eq!(result["event"], sent["hook_event_name"]);
        assert_eq!(result["handlers"][0]["ended"], "exit 2");
    }
}

#[test]
fn a_hook_gets_the_directory_and_environment_of_the_client() {
    let sandbox = Sandbox::new().env("MINE", "kept").env("SAID", "by the person");
    sandbox.write("sub/file", "");
    let show = "pwd; for name in CLAUDE_PROJECT_DIR CLAUDECODE CLAUDE_CODE_SESSION_ID CLAUDE_EFFORT MINE SAID; do \
                eval \"echo $name=\\$$name\"; done; kill -0 $CLAUDE_PID && echo alive; cat \"$CLAUDE_ENV_FILE\" && echo there";
    let file = sandbox.root().join("settings.json");
    let settings = json!({"env": {"SAID": "by the settings"}, "hooks": {"SessionStart": [{"hooks": [command_hook(show)]}]}});
    fs::write(&file, settings.to_string()).unwrap();
    let payload = sandbox.root().join("payload.json");
    let cwd = sandbox.project().join("sub");
    fs::write(&payload, json!({"session_id": SESSION, "hook_event_name": "SessionStart", "source": "startup", "cwd": cwd, "effort": {"level": "high"}}).to_string()).unwrap();
    let project = sandbox.project().to_str().unwrap();
    let result = replay_json(
        &sandbox,
        &payload,
        &["--project", project, "--settings", file.to_str().unwrap()],
    );
    assert_snapshot!(sandbox.normalize(result["handlers"][0]["stdout"].as_str().unwrap()), @"
    $ROOT/project/sub
    CLAUDE_PROJECT_DIR=$ROOT/project
    CLAUDECODE=1
    CLAUDE_CODE_SESSION_ID=5999882c-e786-462c-84d4-07d1c65b5e76
    CLAUDE_EFFORT=high
    MINE=kept
    SAID=by the settings
    alive
    there
    ");
}

/// Whatever a hook does, the replay ends, reports it, and leaves nothing behind.
#[test]
fn hostile_hooks_are_reported() {
    let sandbox = Sandbox::new();
    let temporary = sandbox.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let sandbox = sandbox.env("TMPDIR", temporary.to_str().unwrap());
    let payload = write_stop_payload(&sandbox, "");
    let file = sandbox.root().join("settings.json");
    let hooks = json!([
        {"type": "command", "command": "trap '' TERM; while :; do :; done", "timeout": 1},
        {"type": "command", "command": "sleep 600 & sleep 600 & exit 0"},
        {"type": "command", "command": "sleep 600", "async": true},
        {"type": "command", "command": "head -c 50000000 /dev/zero"},
        {"type": "command", "command": "kill -9 $PPID; sleep 600"},
        {"type": "command", "command": "kill -9 $$"},
        {"type": "command", "command": "/nowhere/at all", "args": []},
        {"type": "command", "command": "rm -rf \"$RALPH_HOME\"; printf '\\033[2Jgone' >&2; exit 2"},
    ]);
    fs::write(&file, hook_settings_json("Stop", &hooks)).unwrap();
    let ended = run_replay(&sandbox, &payload, &["--settings", file.to_str().unwrap()]);
    let shown = mask_times(&ended.to_string());
    // The order in which hooks end varies.
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    assert_snapshot!(lines.join("\n"), @r#"
                ! could not be started: cannot start `/nowhere/at all`
                ! neither exit 0 nor exit 2: an error that does not block
                ! no decision: plain text on standard output is ignored here
                ! the hook killed its parent, which would be the client
                ! timed out: the client ignores the hook and reports nothing
                Stop hook feedback:
                [rm -rf "$RALPH_HOME"; printf '\033[2Jgone' >&2; exit 2]: \u{1b}[2Jgone
                exit 0 in [time], the given settings: head -c 50000000 /dev/zero
                exit 0 in [time], the given settings: sleep 600 & sleep 600 & exit 0
                exit 2 in [time], the given settings: rm -rf "$RALPH_HOME"; printf '\033[2Jgone' >&2; exit 2
                gone
                killed its parent in [time], the given settings: kill -9 $PPID; sleep 600
                not started: cannot start `/nowhere/at all` in [time], the given settings: /nowhere/at all
                signal 9 in [time], the given settings: kill -9 $$
                stdout: …
                timeout in [time], the given settings: trap '' TERM; while :; do :; done
           Stop held
           took [time]
         notice asynchronous hooks started: 1; the client does not wait for them and ignores their answers
    --- stdout
    exit 0
    model reads as user:
    "#);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "no temporary file is left");
    let ended = run_replay(
        &sandbox,
        &payload,
        &["--hook", "kill -9 $CLAUDE_PID; echo no >&2; exit 2", "--expect", "blocked"],
    );
    assert_snapshot!(mask_times(&ended.to_string()), @"
    exit 1
    --- stdout
           Stop a hook killed the client
                exit 2 in [time], the given settings: kill -9 $CLAUDE_PID; echo no >&2; exit 2
           took [time]
       expected blocked, found killed
    ");
}

#[test]
fn the_exit_code_tells_whether_the_decision_was_expected() {
    let sandbox = Sandbox::new();
    let payload = write_stop_payload(&sandbox, "");
    let rows = [
        ("exit 2", "blocked"),
        ("exit 1", "allowed"),
        (r#"echo '{"continue":false,"stopReason":"enough"}'"#, "stopped"),
        (
            r#"echo '{"hookSpecificOutput":{"hookEventName":"Stop","additionalContext":"C"}}'"#,
            "blocked",
        ),
    ];
    for (hook, found) in rows {
        for expected in ["blocked", "allowed", "stopped"] {
            let ended = run_replay(&sandbox, &payload, &["--hook", hook, "--expect", expected]);
            assert_eq!(
                ended.code,
                Some(i32::from(expected != found)),
                "{hook}, {expected}: {ended}"
            );
        }
        assert_eq!(replay_json(&sandbox, &payload, &["--hook", hook])["decision"], found);
    }
}

/// The output shows whether a hook was called and whether the expectation was met.
#[test]
fn missing_hooks_and_met_expectations_are_reported() {
    let sandbox = Sandbox::new();
    let payload = write_stop_payload(&sandbox, "");
    let mut shown = String::new();
    let mut show = |more: &[&str]| {
        let ended = run_replay(&sandbox, &payload, more);
        shown.push_str(&mask_times(&sandbox.normalize(&ended.to_string())));
        shown.push('\n');
    };
    show(&[]);
    let sleeper = json!([{"type": "command", "command": "true", "async": true}]);
    let file = sandbox.write("later.json", hook_settings_json("Stop", &sleeper));
    show(&["--settings", file.to_str().unwrap()]);
    let file = sandbox.write("other.json", hook_settings_json("SubagentStop", &sleeper));
    show(&["--settings", file.to_str().unwrap(), "--expect", "allowed"]);
    show(&["--hook", "echo no >&2; exit 2", "--expect", "blocked"]);
    assert_snapshot!(shown, @"
    exit 0
    --- stdout
           Stop no hook is configured for Stop in your settings and those of $ROOT/project
           took [time]
    exit 0
    --- stdout
           Stop the client does not wait for any hook for Stop in $ROOT/project/later.json
         notice asynchronous hooks started: 1; the client does not wait for them and ignores their answers
           took [time]
    exit 0
    --- stdout
           Stop no hook is configured for Stop in $ROOT/project/other.json
           took [time]
    ✓ allowed, as expected
    exit 0
    --- stdout
           Stop held
                no
                exit 2 in [time], the given settings: echo no >&2; exit 2
    model reads as user:
                Stop hook feedback:
                [echo no >&2; exit 2]: no
           took [time]
    ✓ blocked, as expected
    ");
}

#[test]
fn a_missing_temporary_directory_is_reported() {
    let sandbox = Sandbox::new();
    let missing = sandbox.root().join("missing");
    let sandbox = sandbox.env("TMPDIR", missing.to_str().unwrap());
    let payload = write_stop_payload(&sandbox, "");
    let ended = run_replay(&sandbox, &payload, &["--hook", "true"]);
    assert!(!missing.exists());
    assert_snapshot!(sandbox.normalize(&ended.to_string()), @"
    exit 1
    --- stderr
    error: the temporary directory `$ROOT/missing` does not exist
      hint: set `TMPDIR` to another directory
    ");
}

#[test]
fn unusable_payloads_and_settings_are_errors() {
    let sandbox = Sandbox::new();
    let big = format!(r#"{{"hook_event_name":"Stop","a":"{}"}}"#, "x".repeat(16 * 1024 * 1024));
    let mut shown = String::new();
    for text in [
        "",
        "[1]",
        "{}",
        r#"{"hook_event_name":"userpromptsubmit"}"#,
        r#"{"hook_event_name":"Nonsense"}"#,
        &big,
    ] {
        let path = sandbox.write("payload.json", text);
        let by_name = sandbox.ralph(["replay", path.to_str().unwrap(), "--hook", "true"]);
        let by_pipe = sandbox.ralph_with_input(["replay", "-", "--hook", "true"], text.as_bytes());
        assert_eq!((by_name.code, by_pipe.code), (Some(1), Some(1)), "{by_name}{by_pipe}");
        shown.push_str(&sandbox.normalize(&by_pipe.stderr));
        shown.push('\n');
    }
    let payload = write_stop_payload(&sandbox, "");
    let payload = payload.to_str().unwrap();
    let broken = sandbox.write("broken.json", "{");
    for args in [
        vec!["replay", "nowhere.json"],
        vec!["replay", "/dev/zero"],
        vec!["replay", payload, "--project", "nowhere"],
        vec!["replay", payload, "--settings", "nowhere.json"],
        vec!["replay", payload, "--settings", broken.to_str().unwrap()],
    ] {
        let ended = sandbox.ralph(&args);
        assert_eq!(ended.code, Some(1), "{ended}");
        shown.push_str(&sandbox.normalize(&ended.stderr));
        shown.push('\n');
    }
    assert_snapshot!(shown, @"
    error: the payload cannot be read
      caused by: not valid JSON
      caused by: EOF while parsing a value at line 1 column 0
    error: not a hook payload: not a JSON object
      hint: a payload is what a hook reads on stdin: the hook `cat > payload.json` saves one
    error: not a hook payload: no `hook_event_name`
      hint: a payload is what a hook reads on stdin: the hook `cat > payload.json` saves one
    error: `userpromptsubmit` is not an event of the client
      hint: did you mean `UserPromptSubmit`?
    error: `Nonsense` is not an event of the client
      hint: the events are PreToolUse, PostToolUse, PostToolUseFailure, PostToolBatch, Notification, UserPromptSubmit, UserPromptExpansion, SessionStart, SessionEnd, Stop, StopFailure, SubagentStart, SubagentStop, PreCompact, PostCompact, PreModelSwitch, PostModelSwitch, PermissionRequest, PermissionDenied, Setup, TeammateIdle, TaskCreated, TaskCompleted, Elicitation, ElicitationResult, ConfigChange, WorktreeCreate, WorktreeRemove, InstructionsLoaded, CwdChanged, FileChanged, DirectoryAdded, MessageDisplay
    error: the payload cannot be read
      caused by: it is larger than 16 MiB
    error: cannot read `$ROOT/project/nowhere.json`
      caused by: No such file or directory (os error 2)
      hint: check the path
    error: `/dev/zero` is not a regular file
      hint: pipe it in instead, as `-`
    error: `nowhere` is not a directory
      hint: check the path
    error: cannot read `$ROOT/project/nowhere.json`
      caused by: No such file or directory (os error 2)
      hint: check the path
    error: `$ROOT/project/broken.json` is not a settings file
      caused by: EOF while parsing an object at line 1 column 1
    ");
}

/// A session id from the payload cannot escape the directories of the copy.
#[test]
fn a_session_id_cannot_escape_the_copy() {
    let sandbox = Sandbox::new();
    sandbox.write_state("mine/loop.json", "{}");
    write_program(
        &sandbox.root().join("seen.sh"),
        "#!/bin/sh\ncd \"$RALPH_HOME\" 2>/dev/null && find . -type f\n",
    );
    for session in ["../../state/mine", "/etc/passwd", "", "a b", "\0"] {
        let payload = sandbox.root().join("payload.json");
        fs::write(
            &payload,
            format!(r#"{{"hook_event_name":"Stop","session_id":{}}}"#, json_string(session)),
        )
        .unwrap();
        let hook = sandbox.root().join("seen.sh");
        let result = replay_json(&sandbox, &payload, &["--hook", hook.to_str().unwrap()]);
        assert_eq!(result["handlers"][0]["stdout"], "", "{session:?}");
    }
}
