//! Notifications at the end of a run. They are sent in the background, so no hook waits for them.

use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, eventually, run_command, write_file, write_program};
use crate::serve_client::BoardServer;
use insta::assert_snapshot;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];
const PROMISE_MESSAGE: &str = r#","last_assistant_message":"<promise>DONE</promise>""#;

/// Records the arguments, input and environment of the last call, and the number of calls.
const RECORDER_SCRIPT: &str = r#"#!/bin/sh
{ printf '<%s>' "$@"; echo; cat; env | grep '^RALPH_[MRST][A-Z]*=' | sort; } > "$0.$$"
mv "$0.$$" "$0.call"
echo once >> "$0.times"
"#;

/// A sandbox with recording programs in place of the real ones, and `text` as the user's `config.toml`.
fn sandbox_with_config(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["curl", "notify-send", "tell-me"] {
        write_program(&sandbox.root().join("bin").join(name), RECORDER_SCRIPT);
    }
    write_file(&sandbox.ralph_home("config.toml"), text);
    let path = format!("{}:/usr/bin:/bin", sandbox.root().join("bin").display());
    sandbox.env("PATH", &path)
}

fn recorded_call(sandbox: &Sandbox, name: &str) -> String {
    let call = fs::read_to_string(sandbox.root().join(format!("bin/{name}.call")));
    sandbox.normalize(&call.unwrap_or_default())
}

/// Waits until the notifications of the run have been sent, and returns their results.
fn wait_for_notifications(sandbox: &Sandbox, run: &str) -> Value {
    let path = sandbox.ralph_home("runs").join(run).join("notified");
    eventually(|| {
        let notified: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        notified.get("told").cloned()
    })
}

fn fault_lines(sandbox: &Sandbox) -> String {
    let status = sandbox.status();
    let faults = status["faults"].as_array().unwrap().iter();
    let mut faults: Vec<_> =
        faults.map(|fault| format!("{}: {}", fault["kind"], fault["what"])).collect();
    faults.sort();
    sandbox.normalize(&faults.join("\n"))
}

/// R-U2c: the end of a run is announced once through every configured channel, with the reason and the next step.
#[test]
fn the_end_of_a_run_is_announced_once_per_channel() {
    let sandbox = sandbox_with_config(
        r#"[notify]
desktop = true
command = ["tell-me", "$(id)", "--loud"]
webhook = "https://hooks.example.org/T0/s3cret?a=1"
"#,
    );
    let run = sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert!(!sandbox.ralph_home("runs").join(&run).join("notified").exists());
    let notice = sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice();
    assert!(sandbox.send_stop(SESSION, PROMISE_MESSAGE).is_allow());
    let how = wait_for_notifications(&sandbox, &run);
    assert_snapshot!(how, @r#"[{"how":"sent","way":"desktop"},{"how":"sent","way":"command"},{"how":"sent","way":"webhook"}]"#);
    insta::with_settings!({filters => vec![
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
        (r"\b\d+ (ms|s)\b", "[duration]"),
    ]}, {
        assert_snapshot!(sandbox.normalize(&notice), @"ralph: claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it");
        assert_snapshot!(recorded_call(&sandbox, "tell-me"), @r#"
        <$(id)><--loud>
        {"v":1,"run":"[run]","status":"claimed","title":"make it work","because":"1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it","next":"review it before you rely on it; `ralph gate detect` proposes gates that could measure it","message":"claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it","at":"[time]"}
        RALPH_MESSAGE=claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it
        RALPH_RUN=[run]
        RALPH_STATUS=claimed
        RALPH_TITLE=make it work
        "#);
        assert_snapshot!(recorded_call(&sandbox, "curl"), @r#"
        <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
        url = "https://hooks.example.org/T0/s3cret?a=1"
        header = "Content-Type: application/json"
        data-raw = "{\"text\":\"claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"v\":1,\"run\":\"[run]\",\"status\":\"claimed\",\"title\":\"make it work\",\"because\":\"1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it\",\"next\":\"review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"message\":\"claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"at\":\"[time]\"}"
        "#);
        assert_snapshot!(recorded_call(&sandbox, "notify-send"), @"<--app-name=ralph><--><ralph: claimed><claimed: make it work — 1 requirement is claimed to be met after 1 iteration and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it>");
    });
    for name in ["curl", "notify-send", "tell-me"] {
        let times = fs::read_to_string(sandbox.root().join(format!("bin/{name}.times"))).unwrap();
        assert_eq!(times, "once\n", "{name}");
    }
    assert_eq!(fault_lines(&sandbox), "");
    // A second notification for the same run sends nothing.
    assert_eq!(sandbox.ralph(["notify", "--about", &run]).code, Some(0));
    let times = fs::read_to_string(sandbox.root().join("bin/curl.times")).unwrap();
    assert_eq!(times, "once\n");
}

/// R-U2c: a run that makes no progress announces its end as well.
#[test]
fn a_stuck_run_is_announced() {
    let sandbox = sandbox_with_config("[notify]\nwebhook = \"https://example.org/s3cret\"\n");
    let run = sandbox.start_run([&PROMISE_ARGS[..], &["--stuck-after", "2"]].concat());
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let notice = sandbox.send_stop(SESSION, "").notice();
    insta::with_settings!({filters => vec![
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
        (r"\b\d+ (ms|s)\b", "[duration]"),
    ]}, {
        assert_snapshot!(sandbox.normalize(&notice), @"ralph: stuck: make it work — the last 2 stops made no progress on promise, 1 not met (run [run]); `ralph why [run]` shows what it is stuck on; help with that, then run `/ralph:goal` again");
        assert_snapshot!(wait_for_notifications(&sandbox, &run), @r#"[{"how":"sent","way":"webhook"}]"#);
        assert_snapshot!(recorded_call(&sandbox, "curl"), @r#"
        <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
        url = "https://example.org/s3cret"
        header = "Content-Type: application/json"
        data-raw = "{\"text\":\"stuck: make it work — the last 2 stops made no progress on promise, 1 not met (run [run]); `ralph why [run]` shows what it is stuck on; help with that, then run `/ralph:goal` again\",\"v\":1,\"run\":\"[run]\",\"status\":\"stuck\",\"title\":\"make it work\",\"because\":\"the last 2 stops made no progress on promise, 1 not met\",\"next\":\"`ralph why [run]` shows what it is stuck on; help with that, then run `/ralph:goal` again\",\"message\":\"stuck: make it work — the last 2 stops made no progress on promise, 1 not met (run [run]); `ralph why [run]` shows what it is stuck on; help with that, then run `/ralph:goal` again\",\"at\":\"[time]\"}"
        "#);
    });
}

/// The button on the page with the states does the same as `ralph notify --test`.
#[test]
fn the_page_sends_a_test_notification() {
    let sandbox = sandbox_with_config("[notify]\ncommand = [\"tell-me\"]\n");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let press_button = || {
        let reply = server.post_form(&cookie, "/states", "/notify/test", "");
        let shown = server.get(&cookie, reply.header("location").unwrap()).body;
        let notice = shown.split_once("id=\"notice\"").unwrap().1.split_once("<div>").unwrap().1;
        format!("{} {}", reply.status, notice.split_once("</div>").unwrap().0)
    };
    let sent = press_button();
    insta::with_settings!({filters => vec![(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]")]}, {
        assert_snapshot!(recorded_call(&sandbox, "tell-me"), @r#"
        <>
        {"v":1,"run":"","status":"test","title":"a test message","because":"sent by `ralph notify --test`","next":"the end of a run is announced the same way","message":"test: a test message — sent by `ralph notify --test`; the end of a run is announced the same way","at":"[time]"}
        RALPH_MESSAGE=test: a test message — sent by `ralph notify --test`; the end of a run is announced the same way
        RALPH_RUN=
        RALPH_STATUS=test
        RALPH_TITLE=a test message
        "#);
    });
    write_program(&sandbox.root().join("bin/tell-me"), "#!/bin/sh\nexit 3\n");
    let failed = press_button();
    write_file(&sandbox.ralph_home("config.toml"), "");
    assert_snapshot!([sent, failed, press_button()].join("\n"), @r"
    303 <p>A test notification was sent</p>
    303 <p>1 channel failed; `ralph notify --test` shows why</p>
    303 <p>no notification is configured; `ralph notify --help` shows how</p>
    ");
}

/// The hook answers and closes its output while the notification command is still running.
#[test]
fn no_hook_waits_for_a_hanging_command() {
    let sandbox = sandbox_with_config("notify.command = [\"tell-me\"]\n");
    let (gate, begun) = (sandbox.root().join("gate"), sandbox.root().join("begun"));
    assert_eq!(run_command(Command::new("mkfifo").arg(&gate), b"").code, Some(0));
    let script = format!(
        "#!/bin/sh\necho > '{}'\nread line < '{}'\necho \"$line\" > \"$0.call\"\n",
        begun.display(),
        gate.display()
    );
    write_program(&sandbox.root().join("bin/tell-me"), &script);
    let run = sandbox.start_run(PROMISE_ARGS);
    assert!(
        sandbox
            .send_stop(SESSION, PROMISE_MESSAGE)
            .notice()
            .starts_with("ralph: claimed: make it work — ")
    );
    assert_eq!(sandbox.run_status(&run).0, "claimed");
    eventually(|| begun.exists().then_some(()));
    let notified = sandbox.ralph_home("runs").join(&run).join("notified");
    assert!(!fs::read_to_string(notified).unwrap().contains("\"told\""));
    fs::write(&gate, "let go\n").unwrap();
    assert_snapshot!(wait_for_notifications(&sandbox, &run), @r#"[{"how":"sent","way":"command"}]"#);
    assert_eq!(recorded_call(&sandbox, "tell-me"), "let go");
}

/// A failed notification is a fault that `ralph status` shows, and does not affect the end of the run.
#[test]
fn a_failed_notification_is_a_fault() {
    let sandbox = sandbox_with_config(
        r#"[notify]
command = ["no-such-program"]
webhook = "https://hooks.example.org/T0/s3cret"
"#,
    );
    let script = "#!/bin/sh\ngrep url >&2\nprintf 'curl: (22) \\033[31m404\\n' >&2\nexit 22\n";
    write_program(&sandbox.root().join("bin/curl"), script);
    let run = sandbox.start_run(PROMISE_ARGS);
    sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice();
    let how = wait_for_notifications(&sandbox, &run).to_string();
    assert!(!how.contains("s3cret"), "{how}");
    assert_eq!(sandbox.run_status(&run).0, "claimed");
    assert_snapshot!(fault_lines(&sandbox), @r#"
    "notification": "its end was not announced by command: `no-such-program` was not found; `ralph notify --test` sends a test"
    "notification": "its end was not announced by webhook: `curl` exited with code 22: url = \"[redacted]\" curl: (22) 404; `ralph notify --test` sends a test"
    "#);
}

#[test]
fn an_invalid_config_file_is_a_fault() {
    let sandbox = sandbox_with_config("");
    let run = sandbox.start_run(PROMISE_ARGS);
    write_file(&sandbox.ralph_home("config.toml"), "[notify]\nbel = true\n");
    sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice();
    assert_eq!(sandbox.run_status(&run).0, "claimed");
    assert_snapshot!(fault_lines(&sandbox), @r#""notification": "its end was not announced because of `$ROOT/home/.ralph/config.toml`: unknown key `bel`; `ralph notify --test` sends a test""#);
}

/// Only the message leaves the machine, without secrets.
#[test]
fn a_hostile_goal_is_escaped_and_secrets_are_redacted() {
    let sandbox = sandbox_with_config(
        "[notify]\ndesktop = true\ncommand = [\"tell-me\"]\nwebhook = \"https://example.org\"\n",
    )
    .env("DEPLOY_TOKEN", "correct-horse-battery");
    let goal = "use correct-horse-battery and sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123 \u{1b}[31m\
                \u{1b}]0;owned\u{7}\"; rm -rf ~ '$(id)` <b>&\\\r\nurl = \"https://evil\"";
    let mut command = sandbox.command();
    command.args(["start", "--json", "--session", SESSION]).args(PROMISE_ARGS);
    let started: Value =
        serde_json::from_str(&run_command(&mut command, goal.as_bytes()).stdout).unwrap();
    let run = started["run"].as_str().unwrap();
    sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice();
    wait_for_notifications(&sandbox, run);
    insta::with_settings!({filters => vec![
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
        (r"\b\d+ (ms|s)\b", "[duration]"),
    ]}, {
        assert_snapshot!(recorded_call(&sandbox, "tell-me"), @r#"
        <>
        {"v":1,"run":"[run]","status":"claimed","title":"use [redacted] and [redacted] \"; rm -rf ~ '$(id)` <b>&\\","because":"1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it","next":"review it before you rely on it; `ralph gate detect` proposes gates that could measure it","message":"claimed: use [redacted] and [redacted] \"; rm -rf ~ '$(id)` <b>&\\ — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it","at":"[time]"}
        RALPH_MESSAGE=claimed: use [redacted] and [redacted] "; rm -rf ~ '$(id)` <b>&\ — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it
        RALPH_RUN=[run]
        RALPH_STATUS=claimed
        RALPH_TITLE=use [redacted] and [redacted] "; rm -rf ~ '$(id)` <b>&\
        "#);
        assert_snapshot!(recorded_call(&sandbox, "curl"), @r#"
        <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
        url = "https://example.org"
        header = "Content-Type: application/json"
        data-raw = "{\"text\":\"claimed: use [redacted] and [redacted] \\\"; rm -rf ~ '$(id)` &lt;b&gt;&amp;\\\\ — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"v\":1,\"run\":\"[run]\",\"status\":\"claimed\",\"title\":\"use [redacted] and [redacted] \\\"; rm -rf ~ '$(id)` <b>&\\\\\",\"because\":\"1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it\",\"next\":\"review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"message\":\"claimed: use [redacted] and [redacted] \\\"; rm -rf ~ '$(id)` <b>&\\\\ — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it\",\"at\":\"[time]\"}"
        "#);
        assert_snapshot!(recorded_call(&sandbox, "notify-send"), @r#"<--app-name=ralph><--><ralph: claimed><claimed: use [redacted] and [redacted] "; rm -rf ~ '$(id)` &lt;b&gt;&amp;\ — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it>"#);
    });
}

/// No notification for endings that are not in `notify.on`, after a cancel, in a rehearsal, or without configuration.
#[test]
fn no_notification_is_sent_unless_configured() {
    let cases = [
        ("notify.command = [\"tell-me\"]\nnotify.on = [\"verified\", \"needs_human\"]\n", "0"),
        ("notify.command = [\"tell-me\"]\n", "1"),
        ("[run]\nmax_iterations = 10\n", "0"),
    ];
    for (own, rehearsal) in cases {
        let sandbox = sandbox_with_config(own).env("RALPH_REHEARSAL", rehearsal);
        let run = sandbox.start_run(PROMISE_ARGS);
        assert!(
            sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice().starts_with("ralph: claimed"),
            "{own}"
        );
        assert!(!sandbox.ralph_home("runs").join(run).join("notified").exists(), "{own}");
    }
    let sandbox = sandbox_with_config("notify.command = [\"tell-me\"]\n");
    let run = sandbox.start_run(PROMISE_ARGS);
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert!(!sandbox.ralph_home("runs").join(run).join("notified").exists());
}

#[test]
fn a_test_message_reports_the_result_of_each_channel() {
    let all = "[notify]\ndesktop = true\ncommand = [\"tell-me\"]\nwebhook = \"https://example.org/s3cret\"\n";
    let sandbox = sandbox_with_config(all);
    assert_snapshot!(sandbox.ralph(["notify", "--test"]), @"
    exit 0
    --- stdout
    ✓ desktop  sent
    ✓ command  sent
    ✓ webhook  sent
    ");
    insta::with_settings!({filters => vec![(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]")]}, {
        assert_snapshot!(recorded_call(&sandbox, "curl"), @r#"
        <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
        url = "https://example.org/s3cret"
        header = "Content-Type: application/json"
        data-raw = "{\"text\":\"test: a test message — sent by `ralph notify --test`; the end of a run is announced the same way\",\"v\":1,\"run\":\"\",\"status\":\"test\",\"title\":\"a test message\",\"because\":\"sent by `ralph notify --test`\",\"next\":\"the end of a run is announced the same way\",\"message\":\"test: a test message — sent by `ralph notify --test`; the end of a run is announced the same way\",\"at\":\"[time]\"}"
        "#);
    });
    assert_snapshot!(sandbox.ralph(["notify", "--test", "--json"]), @r#"
    exit 0
    --- stdout
    {"v":1,"told":[{"way":"desktop","how":"sent"},{"way":"command","how":"sent"},{"way":"webhook","how":"sent"}]}
    "#);

    // None of the programs is installed.
    let empty = sandbox.root().join("empty");
    fs::create_dir(&empty).unwrap();
    symlink("/bin/sh", empty.join("sh")).unwrap();
    let sandbox = sandbox.env("PATH", empty.to_str().unwrap());
    assert_snapshot!(sandbox.ralph(["notify", "--test"]), @"
    exit 1
    --- stdout
    · desktop  skipped: `notify-send` was not found
    ✗ command  failed: `tell-me` was not found
    ✗ webhook  failed: `curl` was not found
    ");
    assert_snapshot!(sandbox.ralph(["notify", "--test", "--json"]), @r#"
    exit 1
    --- stdout
    {"v":1,"told":[{"way":"desktop","how":"skipped","why":"`notify-send` was not found"},{"way":"command","how":"failed","why":"`tell-me` was not found"},{"way":"webhook","how":"failed","why":"`curl` was not found"}]}
    "#);

    write_file(&sandbox.ralph_home("config.toml"), "[notify]\nbell = false\n");
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["notify", "--test"]).to_string()), @"
    exit 1
    --- stderr
    error: no notification is configured
      hint: add `[notify]` with `bell = true` to `$ROOT/home/.ralph/config.toml`; `ralph notify --help` shows all settings
    ");
    assert_snapshot!(sandbox.ralph(["notify"]), @r#"
    exit 1
    --- stderr
    Send a test notification

    Usage: ralph notify [OPTIONS]

    Options:
          --test  Send a test notification through every configured channel
          --json  Print one JSON object
      -h, --help  Print help

    Examples:
      ralph notify --test
      ralph notify --test --json | jq '.told[].how'

    Notifications are configured only in your own `~/.ralph/config.toml`:

      [notify]
      bell = true
      desktop = true
      command = ["say-it", "--loud"]
      webhook = "https://hooks.example.org/T0/B0"
      on = ["verified", "stuck", "question"]

    The exit code is 0 if every channel worked, else 1.
    "#);
}

/// A command that hangs and ignores SIGTERM is killed, and the other channels are still used.
#[test]
fn a_hanging_command_is_killed() {
    let sandbox = sandbox_with_config(
        "[notify]\ncommand = [\"tell-me\"]\nwebhook = \"https://example.org\"\n",
    );
    let script =
        "#!/bin/sh\ntrap '' TERM\necho $$ > \"$0.pid\"\nwhile :; do read line < /dev/zero; done\n";
    write_program(&sandbox.root().join("bin/tell-me"), script);
    assert_snapshot!(sandbox.ralph(["notify", "--test"]), @"
    exit 1
    --- stdout
    ✗ command  failed: `tell-me` took longer than 10 s
    ✓ webhook  sent
    ");
    let pid = fs::read_to_string(sandbox.root().join("bin/tell-me.pid")).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

/// A repository can neither run a command nor send data anywhere through `[notify]`.
#[test]
fn a_project_cannot_configure_notifications() {
    let sandbox =
        sandbox_with_config("[notify]\nwebhook = \"https://hooks.example.org/T0/s3cret\"\n");
    sandbox.write("ralph.toml", "[notify]\nwebhook = \"https://evil.example.org\"\n");
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["config"]).to_string()), @"
    exit 1
    --- stderr
    error: `[notify]` cannot be set by a project
     --> $ROOT/project/ralph.toml:1:2
      |
    1 | [notify]
      |  ^^^^^^
      |
      = hint: it can run programs, send data, spend money or remove files on your behalf: set it in your own `~/.ralph/config.toml`

    error: 1 problem in the policy
      hint: `ralph config --schema` describes every key
    ");
    fs::remove_file(sandbox.project().join("ralph.toml")).unwrap();
    let explained = sandbox.ralph(["config", "--explain"]).stdout;
    let own: Vec<_> = explained.lines().filter(|line| line.starts_with("notify.")).collect();
    assert_snapshot!(sandbox.normalize(&own.join("\n")), @r#"
    notify.bell = false                              default
    notify.desktop = false                           default
    notify.on = ["verified", "green", "claimed", "exhausted", "stuck", "needs_human", "needs_review", "gate_broken", "rate_limited", "overridden", "crashed", "question"]   default
    notify.webhook = "https://hooks.example.org/…"   $ROOT/home/.ralph/config.toml:2
    "#);
}

/// A hook has no terminal, so it asks the host to ring the bell, once.
#[test]
fn the_host_rings_the_bell() {
    let sandbox = sandbox_with_config("[notify]\nbell = true\n");
    let run = sandbox.start_run(PROMISE_ARGS);
    insta::with_settings!({filters => vec![(r"\b\d+ (ms|s)\b", "[duration]")]}, {
        assert_snapshot!(sandbox.normalize(&sandbox.send_stop(SESSION, PROMISE_MESSAGE).to_string()), @r#"
        exit 0
        --- stdout
        {"systemMessage":"ralph: claimed: make it work — 1 requirement is claimed to be met after 0 iterations and [duration]; nothing measured it (run [run]); review it before you rely on it; `ralph gate detect` proposes gates that could measure it","terminalSequence":"\u0007"}
        "#);
    });
    assert!(sandbox.send_stop(SESSION, PROMISE_MESSAGE).is_allow());
    assert!(sandbox.ralph_home("runs").join(run).join("notified").exists());
    assert_eq!(fault_lines(&sandbox), "");
}

/// `ralph notify --test` has a terminal, so it rings the bell itself.
#[test]
fn a_test_rings_the_bell_of_its_terminal() {
    let sandbox = sandbox_with_config("[notify]\nbell = true\n");
    let ralph = sandbox.command();
    let mut terminal = Command::new("python3");
    terminal.env_clear().envs(ralph.get_envs().filter_map(|(name, value)| Some((name, value?))));
    terminal.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]);
    terminal.arg(ralph.get_program()).args(["notify", "--test", "--json"]);
    let output = run_command(&mut terminal, b"").stdout;
    assert_snapshot!(output.escape_debug(), @r#"\u{7}{\"v\":1,\"told\":[{\"way\":\"bell\",\"how\":\"sent\"}]}\r\n"#);
}

/// A run that waits for an answer announces the question at once, and its end, when it is parked, separately.
#[test]
fn a_question_that_a_run_waits_for_is_announced() {
    let steps = format!(
        "\n[[step]]\ntools = [{{ run = \"{} ask 'use correct-horse-battery?'\" }}]\n\n[[step]]\nagent = \"I asked.\"\n",
        env!("CARGO_BIN_EXE_ralph")
    );
    let config = |on: &str| {
        format!(
            "[runner]\nquestion_after = \"1s\"\n\n[notify]\nwebhook = \"https://example.org/s3cret\"\non = [\"{on}\"]\n"
        )
    };
    let asked = |runner: &RunnerSandbox| {
        let run = runner.sandbox.ralph_home("runs").join(runner.run_id());
        let names = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().contains("/asked-")).collect::<Vec<_>>()
    };
    for on in ["question", "needs_human"] {
        let sandbox = sandbox_with_config(&config(on)).env("DEPLOY_TOKEN", "correct-horse-battery");
        let runner = RunnerSandbox::with_client_flags(sandbox, &steps, "");
        let ended = runner.start(&[]);
        assert_eq!(ended.code, Some(5), "{ended}");
        if on == "needs_human" {
            assert_snapshot!(wait_for_notifications(&runner.sandbox, &runner.run_id()), @r#"[{"how":"sent","way":"webhook"}]"#);
            assert_eq!(asked(&runner), Vec::<std::path::PathBuf>::new());
            insta::with_settings!({filters => vec![(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]")]}, {
                assert_snapshot!(recorded_call(&runner.sandbox, "curl"), @r#"
                <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
                url = "https://example.org/s3cret"
                header = "Content-Type: application/json"
                data-raw = "{\"text\":\"needs_human: Let main.sh say goodbye. — use [redacted]? (run [run]); answer with `ralph tell [run] \\\"…\\\"`, then run `ralph run --resume [run]`\",\"v\":1,\"run\":\"[run]\",\"status\":\"needs_human\",\"title\":\"Let main.sh say goodbye.\",\"because\":\"use [redacted]?\",\"next\":\"answer with `ralph tell [run] \\\"…\\\"`, then run `ralph run --resume [run]`\",\"message\":\"needs_human: Let main.sh say goodbye. — use [redacted]? (run [run]); answer with `ralph tell [run] \\\"…\\\"`, then run `ralph run --resume [run]`\",\"at\":\"[time]\"}"
                "#);
            });
            continue;
        }
        let how: Value = eventually(|| {
            let record: Value =
                serde_json::from_slice(&fs::read(asked(&runner).first()?).ok()?).ok()?;
            record.get("told").cloned()
        });
        assert_snapshot!(how, @r#"[{"how":"sent","way":"webhook"}]"#);
        insta::with_settings!({filters => vec![
            (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
            (r"by \d\d:\d\d:\d\d", "by [time]"),
        ]}, {
            assert_snapshot!(recorded_call(&runner.sandbox, "curl"), @r#"
            <-q><--silent><--show-error><--fail><--output></dev/null><--proto><=https><--max-time><8><--config><->
            url = "https://example.org/s3cret"
            header = "Content-Type: application/json"
            data-raw = "{\"text\":\"question: Let main.sh say goodbye. — use [redacted]? (run [run]); `ralph tell [run] \\\"…\\\"` answers it; without an answer by [time] the run is parked\",\"v\":1,\"run\":\"[run]\",\"status\":\"question\",\"title\":\"Let main.sh say goodbye.\",\"because\":\"use [redacted]?\",\"next\":\"`ralph tell [run] \\\"…\\\"` answers it; without an answer by [time] the run is parked\",\"message\":\"question: Let main.sh say goodbye. — use [redacted]? (run [run]); `ralph tell [run] \\\"…\\\"` answers it; without an answer by [time] the run is parked\",\"at\":\"[time]\"}"
            "#);
        });
        assert!(!runner.sandbox.ralph_home("runs").join(runner.run_id()).join("notified").exists());
    }
}
