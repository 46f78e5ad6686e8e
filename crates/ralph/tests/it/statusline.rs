//! `ralph statusline`: the line that a client shows about the run of its session.

use crate::sandbox::{
    CommandOutcome, SESSION, Sandbox, eventually, run_command, spawn_with_input, write_file,
};
use insta::assert_snapshot;
use std::fs;
use std::io::Write as _;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];
const PROMISE_MESSAGE: &str = r#","last_assistant_message":"<promise>DONE</promise>""#;
/// Fields that the client sends, with the values that matter here.
const CLIENT_FIELDS: &str = r#","transcript_path":"/nowhere","model":{"id":"m","display_name":"M"},"workspace":{"current_dir":"/","project_dir":"/","added_dirs":[]},"version":"2.1.325","cost":{"total_cost_usd":0.05004,"total_duration_ms":5332},"context_window":{"context_window_size":1000000,"used_percentage":41,"remaining_percentage":59},"exceeds_200k_tokens":false"#;

fn run_statusline(sandbox: &Sandbox, session: &str, more: &str) -> CommandOutcome {
    let input = format!("{{\"session_id\":\"{session}\"{more}}}");
    sandbox.ralph_with_input(["statusline"], input.as_bytes())
}

fn status_line(sandbox: &Sandbox) -> String {
    let ended = run_statusline(sandbox, SESSION, CLIENT_FIELDS);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended}");
    sandbox.normalize(&ended.stdout)
}

#[test]
fn a_run_is_one_line_in_every_state() {
    let sandbox = Sandbox::new().env("NO_COLOR", "1");
    sandbox.write(
        "loops/csv/feature_list.json",
        r#"[{"id":1,"passes":true},{"id":2},{"id":3},{"id":4}]"#,
    );
    sandbox.write("loops/json/feature_list.json", "no list");
    let mut lines = vec![format!("no run: {}", status_line(&sandbox))];
    let run = sandbox.start_run([
        "--goal-file",
        "-",
        "--features",
        "loops/csv",
        "--completion-promise",
        "DONE",
    ]);
    lines.push(format!("armed: {}", status_line(&sandbox)));
    assert!(sandbox.send_stop(SESSION, "").is_block());
    lines.push(format!("held: {}", status_line(&sandbox)));
    fs::write(sandbox.project().join("loops/csv/feature_list.json"), "[]").unwrap();
    write_file(&sandbox.ralph_home(&format!("runs/{run}/lists/1.json")), "not the copy");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    lines.push(format!("unknown: {}", status_line(&sandbox)));
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    lines.push(format!("paused: {}", status_line(&sandbox)));
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    write_file(&sandbox.ralph_home("off"), "");
    lines.push(format!("off: {}", status_line(&sandbox)));
    fs::remove_file(sandbox.ralph_home("off")).unwrap();
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    lines.push(format!("cancelled: {}", status_line(&sandbox)));
    sandbox.start_run(PROMISE_ARGS);
    sandbox.send_stop(SESSION, PROMISE_MESSAGE).notice();
    lines.push(format!("ended: {}", status_line(&sandbox)));
    sandbox.start_run(["--goal-file", "-", "--max-iterations", "0", "--max-cost-usd", "0"]);
    lines.push(format!("without limits: {}", status_line(&sandbox)));
    let plain = run_statusline(&sandbox, SESSION, "").stdout;
    lines.push(format!("without the client's numbers: {}", sandbox.normalize(&plain)));
    lines.push(format!(
        "another session: {}",
        run_statusline(&sandbox, "another", CLIENT_FIELDS).stdout
    ));
    assert_snapshot!(lines.join("\n"), @"
    no run: 
    armed: ralph [run] · 0 of 25 · $0 of $20 · context 41 %
    held: ralph [run] · 1 of 25 · ✗ feature 2, feature 3 +2 ✓ 1 · $0 of $20 · context 41 %
    unknown: ralph [run] · 2 of 25 · ✗ promise ? feature list · $0 of $20 · context 41 %
    paused: ralph [run] paused
    off: ralph [run] off
    cancelled: ralph [run] cancelled
    ended: ralph [run] claimed
    without limits: ralph [run] · iteration 0 · $0 · context 41 %
    without the client's numbers: ralph [run] · iteration 0
    another session:
    ");
}

#[test]
fn failing_gates_are_named() {
    let sandbox = Sandbox::new().env("NO_COLOR", "1");
    let gate = |name: &str, program: &str| {
        format!(
            "[[gate]]\nname = \"{name}\"\nrun = [\"{program}\"]\nreport = \"none\"\nrerun = \"never\"\n"
        )
    };
    let red = ["tests", "clippy", "a-name-that-is-longer-than-it-needs-to-be", "fmt"];
    let red = red.map(|name| gate(name, "false")).concat();
    sandbox.write("ralph.toml", red + &gate("build", "true"));
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_snapshot!(status_line(&sandbox), @"ralph [run] · 1 of 25 · ✗ tests, clippy +2 ✓ 5 · $0 of $20 · context 41 %");
}

/// Names come from files that anyone can write.
#[test]
fn hostile_names_stay_on_one_line_of_120_columns() {
    let sandbox = Sandbox::new().env("NO_COLOR", "1");
    let name = "\u{1b}[31m\u{202e}宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽\n\u{7}";
    let lists = ["a", "b", "c", "d"].map(|list| format!("loops/{list}{name}"));
    for list in &lists {
        sandbox.write(&format!("{list}/feature_list.json"), r#"[{"id":1}]"#);
    }
    let most = ["--max-iterations", "1000000", "--max-cost-usd", "1000000000"];
    let named = lists.iter().flat_map(|list| ["--features", list]);
    let run = sandbox.start_run(named.chain(most));
    for (number, list) in lists.iter().enumerate().skip(2) {
        sandbox.write(&format!("{list}/feature_list.json"), "[]");
        let copy = format!("runs/{run}/lists/{}.json", number + 1);
        write_file(&sandbox.ralph_home(&copy), "not the copy");
    }
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_snapshot!(status_line(&sandbox), @"ralph [run] · 1 of 1000000 · ✗ a宽宽宽宽宽宽宽宽宽…, b宽宽宽宽宽宽宽宽宽… ? c宽宽宽宽宽宽宽宽宽… +1 · $0 of $1000000000");
}

/// The client renders colours, so they are on unless `NO_COLOR` is set.
#[test]
fn the_line_is_coloured_by_default() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let coloured = status_line(&sandbox);
    assert_snapshot!(coloured.escape_debug(), @r"\u{1b}[2mralph\u{1b}[0m \u{1b}[1m[run]\u{1b}[0m · 1 of 25 · \u{1b}[31m✗\u{1b}[0m promise · $0 of $20 · context 41 %");
}

/// Invalid input never causes output, an error or a change.
#[test]
fn invalid_input_gets_no_output() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let huge = format!("{{\"session_id\":\"{SESSION}\",\"x\":{}", "[".repeat(1_000_000));
    let inputs: &[&[u8]] = &[
        b"",
        b"\n",
        b"null",
        b"{}",
        b"[]",
        b"\xff\xfe\x00",
        b"{\"session_id\":\"../../runs\"}",
        b"{\"session_id\":\"\"}",
        b"{\"session_id\":{}}",
        b"{\"session_id\":",
        huge.as_bytes(),
    ];
    let before = sandbox.read_state();
    for input in inputs {
        let ended = sandbox.ralph_with_input(["statusline"], input);
        assert!(ended.is_allow(), "{ended}");
    }
    assert_eq!(sandbox.read_state(), before);
    for (path, bytes) in [
        (sandbox.ralph_home("sessions").join(SESSION), &b"{\"v\":1,\"run\":\"../..\"}"[..]),
        (
            sandbox.ralph_home("sessions").join(SESSION),
            b"{\"v\":1,\"run\":\"zzzz\",\"ended\":\"no\"}",
        ),
        (sandbox.ralph_home("sessions").join(SESSION), b"\0\0"),
    ] {
        fs::write(&path, bytes).unwrap();
        let before = sandbox.read_state();
        assert!(run_statusline(&sandbox, SESSION, CLIENT_FIELDS).is_allow());
        assert_eq!(sandbox.read_state(), before);
    }
    fs::write(
        sandbox.ralph_home("sessions").join(SESSION),
        format!("{{\"v\":1,\"run\":\"{run}\",\"ended\":\"no\"}}"),
    )
    .unwrap();
    for file in ["run.json", "state.json", "journal.jsonl"] {
        fs::write(sandbox.ralph_home("runs").join(&run).join(file), "\u{1b}[31m{").unwrap();
    }
    let before = sandbox.read_state();
    assert!(run_statusline(&sandbox, SESSION, CLIENT_FIELDS).is_allow());
    assert_eq!(sandbox.read_state(), before);
}

/// Masks how long a gate has been running, and how long it usually takes.
pub(crate) fn mask_gate_times(shown: &str) -> String {
    let mask = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let is_time =
            |at: usize| words[at].parse::<f64>().is_ok() && words.get(at + 1) == Some(&"s");
        let masked = (0..words.len()).map(|at| if is_time(at) { "N" } else { words[at] });
        masked.collect::<Vec<_>>().join(" ")
    };
    shown.lines().map(mask).collect::<Vec<_>>().join("\n")
}

/// A stop can take minutes. Meanwhile `ralph status` and the status line show the running gate, then the running step of
/// the proof.
#[test]
fn a_long_stop_shows_its_progress() {
    let sandbox = Sandbox::new().env("NO_COLOR", "1");
    let pipe = sandbox.root().join("pipe");
    let made = run_command(sandbox.tool_command("mkfifo").arg(&pipe), b"");
    assert_eq!(made.code, Some(0), "{made}");
    // Waits for a line once the new code is there: in the project, and in two steps of the proof.
    let wait = format!("test ! -e new.sh || read -r line < '{}'\n", pipe.display());
    let suite = "for test in tests/*.sh; do sh \"$test\" && echo \"ok - $test\"; done; echo 1..2\n";
    sandbox.write("suite.sh", suite);
    sandbox.write("tests/a.sh", "true\n");
    sandbox.write("tests/b.sh", &wait);
    let gate = "[[gate]]\nname = \"suite\"\nrun = [\"sh\", \"suite.sh\"]\nreport = \"tap\"\n";
    sandbox.write("ralph.toml", gate);
    sandbox.commit();
    sandbox.approve_policy();
    assert_eq!(sandbox.ralph(["gate", "run"]).code, Some(0));
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("new.sh", "echo new\n");
    sandbox.write("tests/b.sh", format!("{wait}test -e new.sh\n"));
    // Opened for both, so that no side waits for the other.
    let mut release = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut hook = sandbox.command();
    let event = sandbox.stop_event(SESSION, "");
    let stop = spawn_with_input(hook.args(["hook", "claude"]), event.as_bytes());
    let status = |wanted: &str| {
        eventually(|| {
            let shown = sandbox.ralph(["status", &run]).stdout;
            let shown = mask_gate_times(&sandbox.mask_times(&shown));
            shown.lines().any(|line| line.trim() == wanted).then_some(shown)
        })
    };
    assert_snapshot!(status("running suite N s"), @r"
    [run]  working       make it work
          claude 5999882c · iteration 0 of 25 · [span] of 8 h
          running suite N s
    ");
    assert_snapshot!(mask_gate_times(&status_line(&sandbox)), @"ralph [run] · 0 of 25 · running suite N s · $0 of $20 · context 41 %");
    release.write_all(b"go on\n").unwrap();
    assert_snapshot!(status("new tests on new code, 1 so far"), @r"
    [run]  working       make it work
          claude 5999882c · iteration 0 of 25 · [span] of 8 h
          new tests on new code, 1 so far
    ");
    release.write_all(b"go on\n").unwrap();
    assert_snapshot!(status("old tests on new code, 1 of 2"), @r"
    [run]  working       make it work
          claude 5999882c · iteration 0 of 25 · [span] of 8 h
          old tests on new code, 1 of 2
    ");
    assert_snapshot!(status_line(&sandbox), @"ralph [run] · 0 of 25 · old tests on new code, 1 of 2 · $0 of $20 · context 41 %");
    assert_snapshot!(sandbox.status()["runs"][0]["activity"], @r#"{"gates":[],"proof":[{"done":1,"of":2,"step":"old-tests"}],"running":[]}"#);
    release.write_all(b"go on\n").unwrap();
    stop.wait_with_output().unwrap();
    assert_eq!(sandbox.status()["runs"][0]["activity"], serde_json::Value::Null);
}
