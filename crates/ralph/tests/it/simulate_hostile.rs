//! `ralph lab simulate` with hooks and tools that hang, flood or kill, and with interrupts and closed output.

use crate::sandbox::{CommandOutcome, eventually, run_command};
use crate::simulate::{SCENARIO_DIR, SimulationSandbox, parse_lines};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// A scenario whose only hook or tool call is this command.
fn hostile_scenario(command: &str, of: &str) -> String {
    let seconds = if HANGING_COMMANDS.contains(&command) { 1 } else { 120 };
    let (hook, tools) = match of {
        "hook" => (
            format!("[[hook]]\nevent = \"Stop\"\ntimeout = {seconds}\ncommand = {command:?}\n"),
            String::new(),
        ),
        _ => (
            String::new(),
            format!(
                "[[step]]\nagent = \"I try.\"\ntools = [{{ tool = \"Bash\", input = {{ command = {command:?}, timeout = {seconds}000 }} }}]\n"
            ),
        ),
    };
    format!(
        "name = \"Hostile.\"\n{hook}\n[[step]]\nperson = \"Go.\"\n{tools}\n[[step]]\nagent = \"Done.\"\n[[step]]\nagent = \"Again.\"\n"
    )
}

/// Commands that must neither hang nor kill the simulator, nor outlive it: these run until their time limit.
const HANGING_COMMANDS: [&str; 6] = [
    "sleep 600",
    "trap '' TERM INT HUP; while :; do sleep 600; done",
    "yes",
    "yes >&2",
    "kill -STOP $PPID; sleep 600",
    "exec <&- >&- 2>&-; sleep 600",
];

/// And these end by themselves.
const ENDING_COMMANDS: [&str; 11] = [
    "yes | head -c 30000000; exit 0",
    "kill -9 $PPID; sleep 600",
    "kill -9 $CLAUDE_PID",
    "kill -STOP $CLAUDE_PID",
    "kill -9 0",
    "exec <&- >&- 2>&-; exit 0",
    "sleep 600 & exit 0",
    "setsid sleep 600 & exit 0",
    "(setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' &) ; exit 0",
    "rm -rf \"$CLAUDE_PROJECT_DIR\" \"$HOME\"",
    "mkdir -p a/b && touch a/b/c && chmod 555 a/b && chmod 0 a . \"$HOME\"",
];

/// Plays one command and summarizes the result in a line.
fn command_result(stage: &SimulationSandbox, command: &str, of: &str) -> String {
    let shown = stage.play(&hostile_scenario(command, of), &["--json"]);
    let lines = parse_lines(&shown.stdout);
    let summary = lines.last().map(|summary| summary["exit"].clone()).unwrap_or_default();
    let what = lines.iter().find_map(|entry| match of {
        "hook" if entry["kind"] == "hook" && entry["event"] == "Stop" => {
            Some(format!("{} → {}", entry["handlers"][0]["ended"], entry["effect"]))
        }
        "tool" if entry["kind"] == "tool" => {
            let result = entry["result"].as_str().unwrap();
            let first: String =
                result.lines().next().unwrap_or_default().chars().take(60).collect();
            Some(format!("{first:?}{}", if result.len() > 60 { " …" } else { "" }))
        }
        _ => None,
    });
    let code = shown.code.map_or("killed".to_owned(), |code| code.to_string());
    assert_eq!(shown.stderr, "", "{command}");
    stage.assert_no_leftovers(command);
    format!("{command}\n  {} · client {summary} · exit {code}", what.unwrap_or_default())
}

fn command_results(of: &'static str) -> String {
    let commands = HANGING_COMMANDS.into_iter().chain(ENDING_COMMANDS);
    let threads = commands.map(|command| {
        thread::spawn(move || {
            let stage = SimulationSandbox::new();
            stage.normalize(&command_result(&stage, command, of))
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>().join("\n")
}

/// A hook that hangs, floods or kills never hangs or kills the simulator, and none of its processes survives.
#[test]
fn the_simulator_survives_hostile_hooks() {
    assert_snapshot!(command_results("hook"), @r#"
    sleep 600
      "timeout" → "allowed" · client 0 · exit 0
    trap '' TERM INT HUP; while :; do sleep 600; done
      "timeout" → "allowed" · client 0 · exit 0
    yes
      "timeout" → "allowed" · client 0 · exit 0
    yes >&2
      "timeout" → "allowed" · client 0 · exit 0
    kill -STOP $PPID; sleep 600
      "timeout" → "allowed" · client 0 · exit 0
    exec <&- >&- 2>&-; sleep 600
      "timeout" → "allowed" · client 0 · exit 0
    yes | head -c 30000000; exit 0
      "exit 0" → "allowed" · client 0 · exit 0
    kill -9 $PPID; sleep 600
      "killed its parent" → "allowed" · client 137 · exit 0
    kill -9 $CLAUDE_PID
      "exit 0" → "allowed" · client 137 · exit 0
    kill -STOP $CLAUDE_PID
      "exit 0" → "allowed" · client 0 · exit 0
    kill -9 0
      "signal 9" → "allowed" · client 0 · exit 0
    exec <&- >&- 2>&-; exit 0
      "exit 0" → "allowed" · client 0 · exit 0
    sleep 600 & exit 0
      "exit 0" → "allowed" · client 0 · exit 0
    setsid sleep 600 & exit 0
      "exit 0" → "allowed" · client 0 · exit 0
    (setsid sh -c 'trap "" TERM; sleep 600; sleep 600' &) ; exit 0
      "exit 0" → "allowed" · client 0 · exit 0
    rm -rf "$CLAUDE_PROJECT_DIR" "$HOME"
      "exit 0" → "allowed" · client 0 · exit 0
    mkdir -p a/b && touch a/b/c && chmod 555 a/b && chmod 0 a . "$HOME"
      "exit 0" → "allowed" · client 0 · exit 0
    "#);
}

#[test]
fn the_simulator_survives_hostile_tools() {
    assert_snapshot!(command_results("tool"), @r#"
    sleep 600
      "Command timed out after 1s" · client 0 · exit 0
    trap '' TERM INT HUP; while :; do sleep 600; done
      "Command timed out after 1s" · client 0 · exit 0
    yes
      "Command timed out after 1s" … · client 0 · exit 0
    yes >&2
      "Command timed out after 1s" … · client 0 · exit 0
    kill -STOP $PPID; sleep 600
      "Command timed out after 1s" · client 0 · exit 0
    exec <&- >&- 2>&-; sleep 600
      "Command timed out after 1s" · client 0 · exit 0
    yes | head -c 30000000; exit 0
      "y" … · client 0 · exit 0
    kill -9 $PPID; sleep 600
      "the command killed the client" · client 137 · exit 0
    kill -9 $CLAUDE_PID
      "(Bash completed with no output)" · client 137 · exit 0
    kill -STOP $CLAUDE_PID
      "(Bash completed with no output)" · client 0 · exit 0
    kill -9 0
      "Exit code 1" · client 0 · exit 0
    exec <&- >&- 2>&-; exit 0
      "(Bash completed with no output)" · client 0 · exit 0
    sleep 600 & exit 0
      "(Bash completed with no output)" · client 0 · exit 0
    setsid sleep 600 & exit 0
      "(Bash completed with no output)" · client 0 · exit 0
    (setsid sh -c 'trap "" TERM; sleep 600; sleep 600' &) ; exit 0
      "(Bash completed with no output)" · client 0 · exit 0
    rm -rf "$CLAUDE_PROJECT_DIR" "$HOME"
      "pwd: error retrieving current directory: getcwd: cannot acce" … · client 0 · exit 0
    mkdir -p a/b && touch a/b/c && chmod 555 a/b && chmod 0 a . "$HOME"
      "(Bash completed with no output)" · client 0 · exit 0
    "#);
}

/// A reason of 4 MB is delivered whole. Invalid UTF-8 is replaced.
#[test]
fn large_and_garbled_answers_are_read() {
    let stage = SimulationSandbox::new();
    let large = "[ -e held ] && exit 0; touch held; printf '{\"decision\":\"block\",\"reason\":\"'; head -c 4000000 /dev/zero | tr '\\0' x; printf '\"}'";
    let lines = stage.play_as_json(&hostile_scenario("true", "hook"), &["--hook", large]);
    let stop = lines.iter().find(|entry| entry["event"] == "Stop").unwrap();
    assert_eq!(stop["effect"]["blocked"]["reasons"][0].as_str().unwrap().len(), 4_000_000);
    let reads = lines.iter().filter(|entry| entry["kind"] == "request").nth(1).unwrap();
    let lengths = reads["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["text"].as_str().unwrap().len() / 1000);
    assert_eq!(lengths.collect::<Vec<_>>(), [4000, 4000]);
    let garbled = r"[ -e held ] && exit 0; touch held; printf '\377\376 half\n' >&2; exit 2";
    let lines = stage.play_as_json(&hostile_scenario("true", "hook"), &["--hook", garbled]);
    let stop = lines.iter().find(|entry| entry["event"] == "Stop").unwrap();
    assert_eq!(stop["effect"]["blocked"]["reasons"][0], "\u{fffd}\u{fffd} half\n");
    stage.assert_no_leftovers("large");
}

/// Text from hooks, tools, agents and settings cannot control the terminal.
#[test]
fn foreign_text_cannot_control_the_terminal() {
    let stage = SimulationSandbox::new();
    let bytes =
        r"printf '\033[2Jcleared \033]0;title\007 \342\200\256 turned \302\233 31m \r over'";
    let scenario = format!(
        r#"
name = "Escapes \u001B[2J."

[[hook]]
event = "Stop"
command = {:?}

[[hook]]
event = "SubagentStop"
command = "/nowhere/\u001B[2J\u202E"
args = ["x"]

[[step]]
person = "Go \u001B[2J."

[[step]]
agent = "I try \u202E."
tools = [{{ run = {bytes:?} }}, {{ agent = "count \u001B[2J", type = "\u001B[2J", background = false }}]

[[step]]
agent = "Done \u001B[2J."

[[step]]
agent = "Again."

[[subagent]]
prompt = "count"

[[subagent.step]]
agent = "\u001B[2J three"

[expect]
results = ["\u001B[2J\u202E"]
"#,
        format!("[ -e held ] && exit 0; touch held; {bytes} >&2; exit 2")
    );
    let path = stage.sandbox.write("scenario.toml", scenario);
    let mut command = stage.simulate_command(&[path.to_str().unwrap()]);
    let shown = run_command(command.env("CLICOLOR_FORCE", "1").env("TERM", "xterm"), b"");
    assert_eq!((shown.code, &*shown.stderr), (Some(1), ""), "{shown}");
    let mut plain = shown.stdout.clone();
    for style in ["0", "1", "2", "31", "32", "33"] {
        plain = plain.replace(&format!("\u{1b}[{style}m"), "");
    }
    assert_ne!(plain, shown.stdout, "it is coloured");
    let hidden: Vec<char> =
        plain.chars().filter(|char| *char != '\n' && ralph_core::text::is_hidden(*char)).collect();
    assert_eq!(hidden, [], "{plain}");
}

/// Places where a scenario can hang: setup, hooks, and tools in the foreground and background.
const HANGING_SCENARIOS: [&str; 4] = [
    "setup = ['HANG']\n[[step]]\nperson = 'Go.'\n",
    "[[hook]]\nevent = 'Stop'\ncommand = 'HANG'\n[[step]]\nperson = 'Go.'\n",
    "[[step]]\nperson = 'Go.'\n[[step]]\nagent = 'x'\ntools = [{ run = 'HANG' }]\n",
    "[[step]]\nperson = 'Go.'\n[[step]]\nagent = 'x'\ntools = [{ run = 'HANG', background = true }]\n",
];

/// After a signal all processes are killed and all files removed.
#[test]
fn an_interrupt_leaves_nothing_behind() {
    for (hanging, signal) in
        HANGING_SCENARIOS.iter().zip([Signal::INT, Signal::INT, Signal::TERM, Signal::HUP])
    {
        let stage = SimulationSandbox::new();
        let began = stage.sandbox.root().join("began");
        let hang = format!("touch {}; sleep 60", began.display());
        let text =
            format!("name = 'x.'\n{}\n[[step]]\nagent = 'Done.'\n", hanging.replace("HANG", &hang));
        let path = stage.sandbox.write("scenario.toml", text);
        let mut command = stage.simulate_command(&[path.to_str().unwrap()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually(|| began.exists().then_some(()));
        assert_eq!(stage.leftovers().len(), 1);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let watch = Instant::now();
        let shown: CommandOutcome = child.wait_with_output().unwrap().into();
        assert!(watch.elapsed() < Duration::from_secs(20), "{hanging}: {:?}", watch.elapsed());
        assert_eq!((shown.code, &*shown.stderr), (Some(130), ""), "{hanging}: {shown}");
        // An interrupted hook is not shown as an answer, and there is no summary.
        let last = shown.stdout.lines().last().unwrap_or_default();
        assert!(
            !last.contains("settings: touch") && !last.contains("expectations"),
            "{hanging}: {shown}"
        );
        stage.assert_no_leftovers(hanging);
    }
}

/// As in `ralph lab simulate … | head -1`.
#[test]
fn closed_stdout_leaves_nothing_behind() {
    let stage = SimulationSandbox::new();
    let long = format!("{SCENARIO_DIR}/stop/cap.toml");
    for args in [&[&*long][..], &[&long, "--json"]] {
        let mut child = stage.simulate_command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut String::new()).unwrap();
        drop(stdout);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        stage.assert_no_leftovers("closed stdout");
    }
}
