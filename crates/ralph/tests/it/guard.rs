//! The guard: tool calls that the `PreToolUse` hook denies.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, eventually, json_string};

const GATE_POLICY: &str = "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n";

fn send_bash_call(sandbox: &Sandbox, session: &str, command: &str) -> CommandOutcome {
    let more =
        format!(r#","tool_name":"Bash","tool_input":{{"command":{}}}"#, json_string(command));
    sandbox.send_event("PreToolUse", session, &more)
}

fn send_write_call(sandbox: &Sandbox, path: &str) -> CommandOutcome {
    let input = format!(r#"{{"file_path":{},"content":"x"}}"#, json_string(path));
    let more = format!(r#","tool_name":"Write","tool_input":{input}"#);
    sandbox.send_event("PreToolUse", SESSION, &more)
}

/// The decision and the reason.
fn parse_decision(ended: &CommandOutcome) -> (String, String) {
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended}");
    if ended.stdout.is_empty() {
        return ("none".to_string(), String::new());
    }
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{ended}");
    let text = |name: &str| output[name].as_str().unwrap().to_string();
    (text("permissionDecision"), text("permissionDecisionReason"))
}

fn start_goal_run(policy: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", policy);
    sandbox.write("tests/a.rs", "");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = sandbox.status()["runs"][0]["run"].as_str().unwrap().to_string();
    (sandbox, run)
}

/// R-S4a, R-S8b, R-L4f: calls that touch state, policy, protected files, the settings that register ralph, or git's
/// hooks are denied and recorded in the journal.
#[test]
fn forbidden_calls_are_denied_and_recorded() {
    let (sandbox, run) =
        start_goal_run(&format!("{GATE_POLICY}[protect]\npaths = [\"tests/**\"]\n"));
    let project = sandbox.project().display().to_string();
    let home = sandbox.home().display().to_string();
    for command in [
        "rm -rf ~/.ralph".to_string(),
        format!("echo '{{}}' > {home}/.ralph/runs/{run}/state.json"),
        "sed -i s/true/false/ ralph.toml".to_string(),
        "git rm -q tests/a.rs".to_string(),
        "git commit --no-verify -m wip".to_string(),
        "echo '{\"disableAllHooks\":true}' > .claude/settings.json".to_string(),
        format!("ralph cancel {run}"),
        "RALPH_OFF=1 claude".to_string(),
        "ralph hook claude < event.json".to_string(),
    ] {
        let (decided, reason) = parse_decision(&send_bash_call(&sandbox, SESSION, &command));
        assert_eq!(decided, "deny", "{command}");
        assert!((10..600).contains(&reason.chars().count()), "{command}: {reason}");
    }
    for path in ["ralph.toml", "tests/a.rs", ".claude/settings.local.json"] {
        let (decided, _) = parse_decision(&send_write_call(&sandbox, &format!("{project}/{path}")));
        assert_eq!(decided, "deny", "{path}");
    }
    let log = sandbox.ralph(["log", &run]).stdout;
    assert_eq!(log.lines().filter(|line| line.contains("  denied ")).count(), 12, "{log}");
}

/// R-S7a: a secret in a denied call is found behind characters that JSON escapes.
#[test]
fn secrets_of_denied_calls_are_not_recorded() {
    let (sandbox, run) = start_goal_run(GATE_POLICY);
    let command = "rm -rf ~/.ralph\nAKIAIOSFODNN7EXAMPLE\tAWS_SECRET_ACCESS_KEY=\"0123456789012345678901234567890123456789\"";
    let escaped = json_string(command).replace("EXAMPLE", "\\u0045XAMPLE");
    let more = format!(r#","tool_name":"Bash","tool_input":{{"command":{escaped}}}"#);
    assert_eq!(parse_decision(&sandbox.send_event("PreToolUse", SESSION, &more)).0, "deny");
    let journal = sandbox.ralph(["log", &run, "--json"]).stdout;
    let last: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    insta::assert_snapshot!(
        last["change"]["denied"]["call"].as_str().unwrap(),
        @r#"{"command":"rm -rf ~/.ralph\n[redacted]\t[redacted]\""}"#
    );
}

/// The reasons that ralph gives ask the agent to read logs, to ask, to wait, and to write its claims; none of that is
/// denied.
#[test]
fn ordinary_work_is_not_denied() {
    let (sandbox, _) = start_goal_run(&format!("{GATE_POLICY}[protect]\npaths = [\"tests/**\"]\n"));
    let project = sandbox.project().display().to_string();
    let state = sandbox.ralph_home("state").join(SESSION).join("orchestrator.json");
    for command in [
        "cat ~/.ralph/cache/logs/tests-1.log".to_string(),
        "ralph ask 'which one?'".to_string(),
        "ralph dispute tests 'one of them wants the year 2025'".to_string(),
        "ralph wait 'the deployment' --for 20m".to_string(),
        "cargo test && git commit -am 'fix it'".to_string(),
        "cat ralph.toml tests/a.rs".to_string(),
        format!("echo '{{\"verified_done\":true}}' > {}", state.display()),
    ] {
        assert_eq!(
            parse_decision(&send_bash_call(&sandbox, SESSION, &command)).0,
            "none",
            "{command}"
        );
    }
    for path in [format!("{project}/src/lib.rs"), state.display().to_string()] {
        assert_eq!(parse_decision(&send_write_call(&sandbox, &path)).0, "none", "{path}");
    }
}

/// With `guard = "ask"` the client asks the person instead; with `off` the call is allowed.
#[test]
fn the_policy_decides_how_the_guard_answers() {
    for (guard, expected) in [("deny", "deny"), ("ask", "ask"), ("off", "none")] {
        let (sandbox, _) =
            start_goal_run(&format!("{GATE_POLICY}[protect]\nguard = \"{guard}\"\n"));
        let (decided, _) = parse_decision(&send_bash_call(&sandbox, SESSION, "rm ralph.toml"));
        assert_eq!(decided, expected);
    }
}

/// R-S4a: in a session without a run only ralph's own files are guarded.
#[test]
fn without_a_run_only_ralphs_files_are_guarded() {
    let (sandbox, run) = start_goal_run(GATE_POLICY);
    for (command, expected) in [
        ("rm ralph.toml", "none"),
        ("git commit --no-verify -m wip", "none"),
        (&*format!("rm -rf ~/.ralph/runs/{run}"), "deny"),
    ] {
        assert_eq!(
            parse_decision(&send_bash_call(&sandbox, "another", command)).0,
            expected,
            "{command}"
        );
    }
}

/// If the `PostToolUse` hook is registered, an edit starts the gates before the stop.
#[test]
fn an_edit_starts_the_gates_early() {
    let ran = "[[gate]]\nname = \"tests\"\nshell = \"echo x >> ran; echo 1 passed\"\n";
    let (sandbox, _) = start_goal_run(ran);
    sandbox.write(".gitignore", "ran\n");
    let edit = r#","tool_name":"Edit","tool_input":{"file_path":"x"},"tool_response":{}"#;
    assert!(sandbox.send_event("PostToolUse", SESSION, edit).is_allow());
    let log = sandbox.project().join("ran");
    eventually(|| log.exists().then_some(()));
}
