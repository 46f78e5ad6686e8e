//! Where ralph cannot see the processes above a command, the command loosens nothing.

use crate::faults::unshare_options;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, json_string, run_command};
use insta::assert_snapshot;

/// Hides every process, as a sandbox without `/proc` does.
const EMPTY_PROC: &str = "mount -t tmpfs tmpfs /proc && exec \"$@\"";
/// Hides the process that calls ralph, and with it those above, as `hidepid` does with those of other users.
const HIDDEN_CALLER: &str = "mount -t tmpfs tmpfs /proc/$$ && \"$@\"";
/// Shows only the processes of a new namespace.
const NEW_NAMESPACE: &str = "exec unshare --pid --fork --mount-proc \"$@\"";

/// Runs ralph behind a script that hides processes. The variables of a client's shell are not set.
fn run_hidden(sandbox: &Sandbox, way: &[&str], script: &str, args: &[&str]) -> CommandOutcome {
    run_hidden_with_input(sandbox, way, script, args, b"")
}

fn run_hidden_with_input(
    sandbox: &Sandbox,
    way: &[&str],
    script: &str,
    args: &[&str],
    input: &[u8],
) -> CommandOutcome {
    let mut command = sandbox.tool_command("unshare");
    command.args(way).args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ralph")]).args(args);
    run_command(&mut command, input)
}

/// A run that is held, and the client that holds it: the process of this test.
fn held_sandbox() -> (Sandbox, String) {
    let sandbox = Sandbox::new().env("CLAUDE_PID", &std::process::id().to_string());
    let run = sandbox.start_run(["--goal-file", "-"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    (sandbox, run)
}

/// R-S6b: a command that cannot be told from one of the agent's is refused, and the message says what to do.
#[test]
fn no_command_loosens_a_run_where_processes_are_hidden() {
    let Some(way) = unshare_options() else { return };
    let (sandbox, run) = held_sandbox();
    let before = sandbox.read_state();
    for script in [EMPTY_PROC, HIDDEN_CALLER, NEW_NAMESPACE] {
        for args in
            [&["pause", &run][..], &["cancel", &run], &["limits", &run, "--max-iterations", "90"]]
        {
            let refused = run_hidden(&sandbox, way, script, args);
            assert_eq!(
                refused.to_string(),
                "exit 1\n--- stderr\n\
                 error: cannot see every process above this command, so an agent may have started it; nothing was changed\n  \
                 hint: use a terminal of your own where `/proc` shows every process: outside sandboxes and containers, and mounted without `hidepid`\n\n",
                "{script} {args:?}"
            );
        }
    }
    assert_eq!(sandbox.read_state(), before);
}

/// R-S6b: the same holds for a prompt that looks like a person's.
#[test]
fn no_prompt_loosens_a_run_where_processes_are_hidden() {
    let Some(way) = unshare_options() else { return };
    let (sandbox, run) = held_sandbox();
    let cwd = json_string(&sandbox.project().display().to_string());
    let prompt = format!(
        r#"{{"session_id":"{SESSION}","hook_event_name":"UserPromptSubmit","cwd":{cwd},"prompt":"/ralph:cancel"}}"#
    );
    for script in [EMPTY_PROC, HIDDEN_CALLER, NEW_NAMESPACE] {
        let script = format!("export CLAUDE_PID=$$; {}", script.replace("exec ", ""));
        let nested = format!("{script}; :");
        let answer =
            run_hidden_with_input(&sandbox, way, &nested, &["hook", "claude"], prompt.as_bytes());
        assert_eq!(
            answer.prompt_answer().lines().next(),
            Some("ralph: ralph cannot see which process sent the command; nothing was done"),
            "{nested}"
        );
    }
    assert_eq!(sandbox.run_status(&run).0, "held");
}

/// Without a held run nothing is loosened, so a person can confirm at the terminal, but no script can.
#[test]
fn an_approval_needs_a_word_where_processes_are_hidden() {
    let Some(way) = unshare_options() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    let script = format!("exec setsid sh -c '{EMPTY_PROC}' sh \"$@\"");
    assert_snapshot!(run_hidden(&sandbox, way, &script, &["trust", "--hash", "0123456789ab"]), @"
    exit 3
    --- stderr
    error: ralph cannot see every process above this command, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run it in the foreground of your own terminal
    ");
}
