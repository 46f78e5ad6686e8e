//! `ralph trust`: no repository command runs until a person approves it.

use crate::sandbox::{CommandOutcome, Sandbox, run_command, spawn_with_input};
use insta::assert_snapshot;
use std::process::Command;

const UNAPPROVED_POLICY: &str = "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"check.sh\"]\n\n[[gate]]\nname = \"hidden\"\nshell = \"true # \\u202e\\u001b[2K\"\n\n[[gate]]\nname = \"missing\"\nrun = [\"no-such-tool\", \"a b\"]\n";

fn sandbox_with_policy() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", UNAPPROVED_POLICY);
    sandbox.write("check.sh", "exit 0\n");
    sandbox
}

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[hash]");
    settings.add_filter(r"\b[0-9]{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"/(usr/)?(local/)?bin/sh\b", "/bin/sh");
    settings
}

fn policy_hash(sandbox: &Sandbox) -> String {
    let shown = sandbox.ralph(["trust", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["hash"].as_str().unwrap().to_string()
}

/// Runs `ralph trust` in a terminal and answers its question.
fn trust_on_terminal(sandbox: &Sandbox, answer: &str) -> CommandOutcome {
    let mut command = Command::new("script");
    let line = format!("{} trust", env!("CARGO_BIN_EXE_ralph"));
    command.args(["--quiet", "--echo", "never", "--return", "--command", &line, "/dev/null"]);
    command
        .env_clear()
        .env("HOME", sandbox.home())
        .env("PATH", "/usr/bin:/bin")
        .env("NO_COLOR", "1");
    command.current_dir(sandbox.project());
    spawn_with_input(&mut command, answer.as_bytes()).wait_with_output().unwrap().into()
}

/// R-S3a, R-H3c: commands are listed literally, with the files they call, the paths of their programs and the hash.
#[test]
fn commands_are_shown_before_approval() {
    let sandbox = sandbox_with_policy();
    let shown = trust_on_terminal(&sandbox, "n\n");
    snapshot_settings().bind(|| {
        assert_snapshot!(sandbox.normalize(&shown.to_string()).replace('\r', ""), @r#"
        exit 3
        --- stdout
        $ROOT/project

        gates:
          tests
            sh check.sh
            sh → /bin/sh
          hidden
            /bin/sh -c 'true # \u{202e}\u{1b}[2K'
          missing
            no-such-tool 'a b'
            no-such-tool: not found on PATH

        they run with CI=true (`[environment] ci = false` leaves it out)

        the hash covers:
          ralph.toml
          check.sh: gate tests names it

        hash [hash]  not approved
        approve this for `$ROOT/project`? [y/N] error: not approved; none of it will run
          hint: `ralph trust` asks again
        "#);
    });
    assert!(!sandbox.ralph_home("trust").exists());
    assert_eq!(trust_on_terminal(&sandbox, "y\n").code, Some(0));
    let again = sandbox.ralph(["trust"]);
    assert_eq!(again.code, Some(0), "{again}");
    snapshot_settings().bind(|| {
        assert_snapshot!(sandbox.normalize(again.stdout.lines().last().unwrap()), @"hash [hash]  approved");
        let (_, approval) = sandbox.read_home().pop().unwrap();
        let approval = String::from_utf8(approval).unwrap();
        assert_snapshot!(sandbox.normalize(&approval), @r#"
        {
          "v": 1,
          "project": "$ROOT/project",
          "hash": "[hash]",
          "approved_at": "[time]",
          "path": "/usr/bin:/bin",
          "programs": [
            {
              "gate": "tests",
              "program": "sh",
              "found": "/bin/sh"
            },
            {
              "gate": "hidden",
              "program": "/bin/sh",
              "found": "/bin/sh"
            },
            {
              "gate": "missing",
              "program": "no-such-tool",
              "found": null
            }
          ],
          "commands": [
            {
              "gate": "tests",
              "command": "sh check.sh"
            },
            {
              "gate": "hidden",
              "command": "/bin/sh -c 'true # \\u{202e}\\u{1b}[2K'"
            },
            {
              "gate": "missing",
              "command": "no-such-tool 'a b'"
            }
          ],
          "called": [
            {
              "name": "ralph.toml",
              "hash": "[hash]"
            },
            {
              "name": "check.sh",
              "hash": "[hash]"
            }
          ]
        }
        "#);
    });
}

/// R-S3a: after a change of the policy or of a script, the approval is asked for again and the change is shown.
#[test]
fn changes_are_shown_and_need_a_new_approval() {
    let sandbox = sandbox_with_policy();
    assert_eq!(sandbox.ralph(["trust", "--hash", &policy_hash(&sandbox)]).code, Some(0));
    sandbox.write("check.sh", "exit 1\n");
    sandbox.write("ralph.toml", UNAPPROVED_POLICY.replace("a b", "c").replace("hidden", "other"));
    let changed = sandbox.ralph(["trust"]);
    snapshot_settings().bind(|| {
        let shown = sandbox.normalize(&changed.to_string());
        let (_, shown) = shown.split_once("since").unwrap();
        assert_snapshot!(shown, @"
         the last approval:
          new     the command of `other`
          changed the command of `missing`
          changed `ralph.toml`
          changed `check.sh`
          gone    the command of `hidden`

        hash [hash]  not approved

        --- stderr
        error: this policy is not approved; not a terminal, so I can't ask
          hint: review it, then run `ralph trust --hash [hash]`
        ");
    });
    assert_eq!(changed.code, Some(3));
    sandbox.write("check.sh", "exit 0\n");
    sandbox.write("ralph.toml", UNAPPROVED_POLICY);
    assert_eq!(sandbox.ralph(["trust"]).code, Some(0));
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["trust", "--revoke"]).to_string()), @"
    exit 0
    --- stdout
    all approvals of `$ROOT/project` are revoked
    ");
    assert_eq!(sandbox.ralph(["trust"]).code, Some(3));
}

/// R-S3b: without a terminal only `--hash` approves, and a missing approval has its own exit code.
#[test]
fn without_a_terminal_only_the_hash_approves() {
    let sandbox = sandbox_with_policy();
    let hash = policy_hash(&sandbox);
    let mut shown = String::new();
    for (given, code) in [
        (None, 3),
        (Some(&hash[..11]), 3),
        (Some("0123456789abcdef"), 3),
        (Some(&hash[..12]), 0),
        (None, 0),
    ] {
        let args = given.map(|given| ["--hash", given]).into_iter().flatten();
        let ended = sandbox.ralph(["trust"].into_iter().chain(args));
        assert_eq!(ended.code, Some(code), "{ended}");
        shown.push_str(&ended.stderr);
    }
    snapshot_settings().bind(|| {
        assert_snapshot!(shown, @"
    error: this policy is not approved; not a terminal, so I can't ask
      hint: review it, then run `ralph trust --hash [hash]`
    error: `--hash` needs at least 12 characters
      hint: `ralph trust` prints the hash
    error: the policy has another hash; nothing was approved
      hint: review the changes, then give the hash above
    ");
    });
    sandbox.write("check.sh", "exit 1\n");
    let stale = sandbox.ralph(["trust", "--json", "--hash", &hash]);
    snapshot_settings().bind(|| assert_snapshot!(sandbox.normalize(&stale.to_string()), @r#"
    exit 3
    --- stdout
    {"v":1,"project":"$ROOT/project","status":"untrusted","hash":"[hash]","commands":[{"gate":"tests","command":"sh check.sh"},{"gate":"hidden","command":"/bin/sh -c 'true # \\u{202e}\\u{1b}[2K'"},{"gate":"missing","command":"no-such-tool 'a b'"}],"called":[{"name":"ralph.toml","hash":"[hash]"},{"name":"check.sh","hash":"[hash]"}],"programs":[{"gate":"tests","program":"sh","found":"/bin/sh"},{"gate":"hidden","program":"/bin/sh","found":"/bin/sh"},{"gate":"missing","program":"no-such-tool","found":null}],"environment":{"set":[],"pass":[],"env":[],"project_directories":[]},"changes":[{"what":"`check.sh`","how":"changed"}],"judges":[],"ci":[],"lists":[]}

    --- stderr
    error: the policy has another hash; nothing was approved
      hint: review the changes, then give the hash above
    "#));
    assert_eq!(stale.code, Some(3));
}

/// R-S3a: only a person outside the agent's session can approve.
#[test]
fn an_agent_cannot_approve() {
    let sandbox = sandbox_with_policy();
    let hash = policy_hash(&sandbox);
    let mut shown = String::new();
    for args in [&["trust"][..], &["trust", "--hash", &hash], &["trust", "--revoke"]] {
        let refused = run_command(sandbox.command().args(args).env("CLAUDECODE", "1"), b"y\n");
        shown.push_str(&refused.to_string());
    }
    assert_snapshot!(shown, @"
    exit 1
    --- stderr
    error: an agent may not approve its own gates
      hint: ask a person to do this in their own terminal

    exit 1
    --- stderr
    error: an agent may not approve its own gates
      hint: ask a person to do this in their own terminal

    exit 1
    --- stderr
    error: an agent may not approve its own gates
      hint: ask a person to do this in their own terminal
    ");
    assert!(!sandbox.ralph_home("trust").exists());
}

#[test]
fn without_a_policy_there_is_nothing_to_approve() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["trust"]).to_string()), @"
    exit 1
    --- stderr
    error: there is no `ralph.toml` in `$ROOT/project`
      hint: `ralph init` proposes one
    ");
    let shown = sandbox.ralph(["trust", "--json"]);
    snapshot_settings().bind(|| assert_snapshot!(sandbox.normalize(&shown.to_string()), @r#"
    exit 0
    --- stdout
    {"v":1,"project":"$ROOT/project","status":"not_needed","hash":"[hash]","commands":[],"called":[],"programs":[],"environment":{"set":[],"pass":[],"env":[],"project_directories":[]},"changes":[],"judges":[],"ci":[],"lists":[]}
    "#));
}
