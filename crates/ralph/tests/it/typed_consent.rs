//! While a run holds an agent, commands that loosen it want a word typed at a terminal.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox};
use insta::assert_snapshot;

const POLICY: &str = "[[gate]]\nname = \"tests\"\nrun = [\"test\", \"-e\", \"done\"]\n";

/// A project whose policy a set-up script approved before the run began. The policy was changed since.
fn held_sandbox() -> (Sandbox, String, String) {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    let approved = sandbox.ralph_without_terminal(&["trust", "--hash", &policy_hash(&sandbox)]);
    assert_eq!(approved.code, Some(0), "no run holds an agent yet: {approved}");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("ralph.toml", format!("{POLICY}timeout = \"1m\"\n"));
    let hash = policy_hash(&sandbox);
    (sandbox, run, hash)
}

fn policy_hash(sandbox: &Sandbox) -> String {
    let shown = sandbox.ralph(["trust", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown["hash"].as_str().unwrap().to_string()
}

/// R-S6b: a script without a terminal, such as one that an agent left in a multiplexer, loosens nothing.
#[test]
fn no_script_loosens_a_run_that_holds_an_agent() {
    let (sandbox, run, hash) = held_sandbox();
    let before = sandbox.read_state();
    let refused = |args: &[&str]| -> CommandOutcome {
        let ended = sandbox.ralph_without_terminal(args);
        assert_eq!(ended.code, Some(3), "{args:?}: {ended}");
        assert!(ended.stderr.contains("holds an agent, so a person has to confirm"), "{ended}");
        ended
    };
    let limits = refused(&["limits", &run, "--max-iterations", "90"]);
    assert_snapshot!(limits.to_string().replace(&run, "[run]"), @"
    exit 3
    --- stderr
    error: run `[run]` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run it in the foreground of your own terminal
    ");
    refused(&["waive", "tests", "--until", "2h", "--why", "slow"]);
    refused(&["trust", "--hash", &hash]);
    refused(&["gate", "run", "--trust-hash", &hash]);
    refused(&["prove", "--trust-hash", &hash]);
    assert_eq!(sandbox.read_state(), before);

    std::fs::remove_file(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\n");
    refused(&["init", "--yes"]);
    assert!(!sandbox.project().join("ralph.toml").exists());
}

/// R-S6b: a run that is paused holds its agent again when it is resumed, so it is not loosened meanwhile.
#[test]
fn no_script_loosens_a_paused_run() {
    let (sandbox, run, hash) = held_sandbox();
    assert_eq!(sandbox.ralph_without_terminal(&["pause", &run]).code, Some(0));
    for args in [
        &["limits", &run, "--max-iterations", "90"][..],
        &["waive", "tests", "--until", "2h", "--why", "slow"],
        &["trust", "--hash", &hash],
    ] {
        let ended = sandbox.ralph_without_terminal(args);
        let asked = "is paused and can hold an agent again, so a person has to confirm this";
        assert_eq!(ended.code, Some(3), "{args:?}: {ended}");
        assert!(ended.stderr.contains(asked), "{ended}");
    }
}

#[test]
fn a_person_types_the_word() {
    let (sandbox, run, hash) = held_sandbox();
    let limits = ["limits", &run, "--max-iterations", "90"];
    let (wrong, _) = sandbox.ralph_typing(limits, |_| "yes".to_string());
    assert_eq!(wrong.code, Some(3), "{wrong}");
    let (changed, asked) = sandbox.ralph_typing(limits, str::to_string);
    assert_eq!(changed.code, Some(0), "{changed}");
    let asked = asked.replace(&run, "[run]");
    let (before, word) = asked.split_once("; type ").unwrap();
    assert_eq!(before, "run `[run]` holds an agent, so ralph asks a person");
    assert!(word.contains(" to change the limits: "), "{word}");
    for args in
        [&["waive", "tests", "--until", "2h", "--why", "slow"][..], &["trust", "--hash", &hash]]
    {
        let ended = sandbox.ralph_at_terminal(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended}");
    }
    assert_eq!(sandbox.ralph(["trust"]).code, Some(0));
}

/// What a person types in the session needs no second confirmation, and a run that holds no agent asks for none.
#[test]
fn no_word_is_asked_for_in_the_session_or_without_a_held_agent() {
    let (sandbox, run, hash) = held_sandbox();
    let answer = sandbox.send_prompt(SESSION, "/ralph:limits --max-iterations 7").prompt_answer();
    assert!(answer.contains("7 iterations"), "{answer}");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let approved = sandbox.ralph_without_terminal(&["trust", "--hash", &hash]);
    assert_eq!(approved.code, Some(0), "{approved}");
}
