//! `ralph lab simulate`: the repository's scenarios, other people's hooks and settings, and its output as text and JSON.

use crate::sandbox::{CommandOutcome, Sandbox, run_command, write_file, write_program};
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub const SCENARIO_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");

/// A sandbox with a temporary directory of its own, so that leftovers of a scenario can be detected.
pub struct SimulationSandbox {
    pub sandbox: Sandbox,
    scratch: PathBuf,
}

impl SimulationSandbox {
    pub fn new() -> Self {
        let sandbox = Sandbox::without_git("work");
        let scratch = sandbox.root().join("tmp");
        fs::create_dir(&scratch).unwrap();
        Self { sandbox, scratch }
    }

    pub fn simulate_command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command();
        command.env("TMPDIR", &self.scratch).arg("simulate").args(args);
        command
    }

    pub fn simulate(&self, args: &[&str]) -> CommandOutcome {
        run_command(&mut self.simulate_command(args), b"")
    }

    /// Writes a scenario and plays it.
    pub fn play(&self, scenario: &str, args: &[&str]) -> CommandOutcome {
        let path = self.sandbox.write("scenario.toml", scenario);
        self.simulate(&[&[path.to_str().unwrap()], args].concat())
    }

    /// The JSON lines of a played scenario; the last is the summary.
    pub fn play_as_json(&self, scenario: &str, args: &[&str]) -> Vec<Value> {
        let ended = self.play(scenario, &[&["--json"], args].concat());
        assert_eq!(ended.stderr, "", "{ended}");
        parse_lines(&ended.stdout)
    }

    pub fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.scratch).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Asserts that the temporary directory is empty and no process of the scenario runs. All of them have their home
    /// below that directory.
    pub fn assert_no_leftovers(&self, what: &str) {
        assert_eq!(self.leftovers(), [] as [PathBuf; 0], "{what}");
        // A killed process may take a moment to exit.
        let bound = Instant::now() + Duration::from_secs(5);
        while !self.running_processes().is_empty() && Instant::now() < bound {}
        assert_eq!(self.running_processes(), [] as [String; 0], "{what}");
    }

    fn running_processes(&self) -> Vec<String> {
        let mark = self.scratch.display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let found = processes.filter_map(|process| {
            let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let all = [read("environ"), b" ".to_vec(), read("cmdline")].concat();
            let all = String::from_utf8_lossy(&all).into_owned();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            all.contains(&mark).then(|| format!("{} {line}", process.path().display()))
        });
        found.collect()
    }

    /// Masks values that differ from one test run to the next.
    pub fn normalize(&self, text: &str) -> String {
        let text = self.sandbox.normalize(text);
        text.lines().map(normalize_line).collect::<Vec<_>>().join("\n")
    }
}

/// Times become `N ms`; scratch directories and ids lose their numbers.
fn normalize_line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_unit = |at: usize| {
        words.get(at).is_some_and(|word| matches!(word.trim_end_matches([',', ':']), "ms" | "s"))
    };
    let words = words.iter().enumerate().map(|(at, word)| {
        if word.parse::<f64>().is_ok() && is_unit(at + 1) {
            "N".to_owned()
        } else if at > 0 && is_unit(at) && words[at - 1].parse::<f64>().is_ok() {
            word.replacen('s', "ms", usize::from(word.starts_with('s')))
        } else if let Some((before, after)) = word.split_once("/ralph-sim-") {
            format!("{before}/ralph-sim-[id]{}", after.get(16..).unwrap_or_default())
        } else {
            (*word).to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

pub fn parse_lines(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn scenario_files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(SCENARIO_DIR).join(directory)).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    found.sort();
    found
}

/// Whether the interpreters of the peers' hooks are installed.
fn has_peer_tools() -> bool {
    let is_there = |tool: &&str| {
        let places = ["/usr/local/bin", "/usr/bin", "/bin"];
        places.iter().any(|place| Path::new(place).join(tool).exists())
    };
    let missing: Vec<_> =
        ["bash", "jq", "perl", "python3"].into_iter().filter(|tool| !is_there(tool)).collect();
    let is_required = std::env::var_os("RALPH_REQUIRE_TOOLS").is_some();
    assert!(missing.is_empty() || !is_required, "these are missing: {missing:?}");
    if !missing.is_empty() {
        eprintln!("skipped: scenarios/peers needs {missing:?}");
    }
    missing.is_empty()
}

/// Plays the scenarios in parallel and returns those whose expectations were not met.
fn failed_scenarios(paths: Vec<PathBuf>) -> Vec<String> {
    let waiting = Mutex::new(paths);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let stage = SimulationSandbox::new();
                loop {
                    let Some(path) = waiting.lock().unwrap().pop() else { break };
                    let shown = stage.simulate(&[path.to_str().unwrap()]);
                    if shown.code != Some(0) || !shown.stderr.is_empty() {
                        failed.lock().unwrap().push(format!("{}\n{shown}", path.display()));
                    }
                    stage.assert_no_leftovers(path.to_str().unwrap());
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    failed
}

/// Their expectations were recorded from the real client.
#[test]
fn every_scenario_of_the_client_meets_its_expectations() {
    let directories = ["stop", "prompt-hooks", "tools", "session", "agents"];
    let paths: Vec<_> = directories.into_iter().flat_map(scenario_files).collect();
    assert!(paths.len() >= 100, "{}", paths.len());
    let failed = failed_scenarios(paths);
    assert!(failed.is_empty(), "{} failed\n\n{}", failed.len(), failed.join("\n\n"));
}

/// Their expectations were recorded with ralph's hook in the real client.
#[test]
fn every_scenario_of_ralph_meets_its_expectations() {
    if !has_peer_tools() {
        return;
    }
    let mut paths = scenario_files("ralph");
    paths.retain(|path| !fs::read_to_string(path).unwrap().contains("\nonly = \"client\"\n"));
    assert!(paths.len() >= 30, "{}", paths.len());
    let failed: Vec<_> = failed_scenarios(paths);
    assert!(failed.is_empty(), "{} failed\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn a_client_only_scenario_is_not_simulated() {
    let stage = SimulationSandbox::new();
    let text = "only = \"client\"\n[[step]]\nperson = \"Go.\"\n";
    let shown = stage.play(text, &[]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @"
    exit 1
    --- stderr
    error: only the real client can play this scenario
      hint: use `--client`, with `claude` on your `PATH`
    ");
    let shown = stage.play(&text.replace("client", "terminal"), &[]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @"
    exit 1
    --- stderr
    error: this scenario needs the client's terminal
      hint: run `cargo xtask e2e` in a checkout of ralph
    ");
    let directory = stage.sandbox.root().join("several");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("client.toml"), text).unwrap();
    fs::write(directory.join("any.toml"), "[[step]]\nperson = \"Go.\"\n").unwrap();
    let shown = stage.simulate(&[directory.to_str().unwrap()]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @"
    exit 0
    --- stdout
    ✓ $ROOT/several/any.toml
    · $ROOT/several/client.toml: skipped: only the real client can play this scenario

    2 scenarios · 1 passed · 0 failed · 1 skipped · N ms
    ");
}

/// The example in the documentation, which has every key, works as it stands.
#[test]
fn the_documented_example_meets_its_expectations() {
    let text = fs::read_to_string(Path::new(SCENARIO_DIR).join("README.md")).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let stage = SimulationSandbox::new();
    let shown = stage.play(example, &["--quiet"]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @"
    exit 0
    --- stdout
    9 model calls · 6 tool calls · 7 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    ");
}

/// Unmodified hooks of other tools, with their known bugs.
#[test]
fn the_bugs_of_peers_are_reproduced() {
    if !has_peer_tools() {
        return;
    }
    let failed = failed_scenarios(scenario_files("peers"));
    assert!(failed.is_empty(), "{} failed\n\n{}", failed.len(), failed.join("\n\n"));
}

/// Memory stays constant over thousands of turns. The hook measures the simulator, which is its supervisor's parent.
#[test]
fn memory_does_not_grow_with_the_turns() {
    let peak = |turns: u32| -> u64 {
        let stage = SimulationSandbox::new();
        let peak = stage.sandbox.root().join("peak");
        let text = fs::read_to_string(Path::new(SCENARIO_DIR).join("long/ten-thousand-turns.toml"));
        let text = text.unwrap().replace("10000", &turns.to_string());
        let text = text.replace("10001", &(turns + 1).to_string());
        let look = format!(
            "if [ $count -gt {turns} ]; then\n  while read -r name value rest; do [ $name = PPid: ] && parent=$value; done \
             < /proc/$PPID/status\n  grep VmHWM /proc/$parent/status > {}\n  exit 0\nfi",
            peak.display()
        );
        let scenario = text.replace(&format!("[ $count -gt {turns} ] && exit 0"), &look);
        let ended = stage.play(&scenario, &["--json"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended}");
        assert_eq!(
            parse_lines(&ended.stdout).last().unwrap()["counts"]["blocks"],
            turns,
            "the structure of the long scenario has changed"
        );
        stage.assert_no_leftovers("long");
        let line = fs::read_to_string(peak).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (few, many) = (peak(50), peak(1000));
    assert!(many < few + 1024, "{few} kB after 50 turns, {many} kB after 1000");
}

#[test]
fn the_timeline_shows_a_block() {
    let stage = SimulationSandbox::new();
    let shown = stage.simulate(&[&format!("{SCENARIO_DIR}/stop/exit-2.toml")]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 0
    --- stdout
         person Fix the tests.
          agent They pass.
           Stop held
                two tests fail
                exit 2 in N ms, project settings: sh "$CLAUDE_PROJECT_DIR/.claude/hooks/1.sh"
         notice Stop hook error occurred
    model reads Stop hook feedback: [sh "$CLAUDE_PROJECT_DIR/.claude/hooks/1.sh"]: two tests fail
          agent Now they do.
           Stop let go
                exit 0 in N ms, project settings: sh "$CLAUDE_PROJECT_DIR/.claude/hooks/1.sh"
            end completed
           exit 0

    2 model calls · 0 tool calls · 2 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    "#);
}

#[test]
fn the_timeline_shows_an_ignored_answer() {
    let stage = SimulationSandbox::new();
    let shown = stage.simulate(&[&format!("{SCENARIO_DIR}/stop/json-reason-number.toml")]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 0
    --- stdout
         person Fix the tests.
          agent They pass.
           Stop let go
                exit 0 in N ms, project settings: sh "$CLAUDE_PROJECT_DIR/.claude/hooks/1.sh"
                stdout: {"decision": "block", "reason": 42}
                ! the whole answer is ignored: one field is invalid, reason: expected string, received number
         notice Stop hook error occurred
            end completed
           exit 0

    1 model call · 0 tool calls · 1 hook run · 1 stop · 0 held · N ms
    ✓ all expectations met
    "#);
}

/// The gate blocks because nothing is verified, but approves the second stop all the same.
#[test]
fn the_timeline_shows_a_gate_that_blocks_once() {
    if !has_peer_tools() {
        return;
    }
    let stage = SimulationSandbox::new();
    let shown = stage.simulate(&[&format!("{SCENARIO_DIR}/peers/quality-gate-holds-once.toml")]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 0
    --- stdout
         person Implement it.
          agent It is implemented.
           Stop held
                Orchestrator phase 'implementation' not complete.
                exit 2 in N ms, project settings: "$CLAUDE_PROJECT_DIR"/.claude/hooks/ralph-stop-quality-gate.sh
         notice Stop hook error occurred
    model reads Stop hook feedback: Orchestrator phase 'implementation' not complete.
    model reads Stop hook blocking error from command: ""$CLAUDE_PROJECT_DIR"/.claude/hooks/ralph-stop-quality-gate.sh": Orchestrator phase 'implementation' not complete.
          agent It really is.
           Stop let go
                exit 0 in N ms, project settings: "$CLAUDE_PROJECT_DIR"/.claude/hooks/ralph-stop-quality-gate.sh
            end completed
           exit 0

    2 model calls · 0 tool calls · 2 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    "#);
}

const BUSY_SCENARIO: &str = r#"
name = "A bit of everything."

[files]
"notes.txt" = "one\n"

[[hook]]
event = "PreToolUse"
matcher = "Write"
command = "pwd >&2; exit 2"

[[step]]
person = "Go."

[[step]]
agent = "I look around."
tools = [{ read = "notes.txt" }, { write = "other.txt", text = "two\n" }, { run = "touch kept.txt; pwd; cat nothing" }]

[[step]]
agent = "I ask somebody."
tools = [{ agent = "count the files" }]

[[step]]
agent = "It is counting."

[[step]]
agent = "Three."

[[step]]
person = "And?"

[[step]]
error = { status = 529, type = "overloaded_error", message = "later" }

[[subagent]]
prompt = "count the files"

[[subagent.step]]
agent = "There are three."

[expect]
stops = 3
endings = ["completed", "api_error"]
files = { "notes.txt" = "two\n" }
absent = ["kept.txt"]
exit = 0
"#;

/// Paths are relative to the project, and unmet expectations are listed at the end.
#[test]
fn the_timeline_shows_tools_subagents_and_unmet_expectations() {
    let stage = SimulationSandbox::new();
    let shown = stage.play(BUSY_SCENARIO, &[]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 1
    --- stdout
         person Go.
          agent I look around.
           tool Read notes.txt
                1 one 2
     PreToolUse denied
                PreToolUse:Write hook error: [pwd >&2; exit 2]: .
                exit 2 in N ms, project settings: pwd >&2; exit 2
           tool Write other.txt
                PreToolUse:Write hook error: [pwd >&2; exit 2]: .
           tool Bash touch kept.txt; pwd; cat nothing
                Exit code 1 . cat: nothing: No such file or directory
          agent I ask somebody.
           tool Agent count the files
                Async agent launched successfully. (This tool result is internal metadata — never quote or paste any part of it, including the agentId below, into a user-facin…
          agent It is counting.
            end completed
    model reads (general-purpose) count the files
          agent (general-purpose) There are three.
         client Agent "count the files" finished
          agent Three.
            end completed
         person And?
          agent API Error: 529 later. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:PORT).
            end api_error
           exit 1

    6 model calls · 4 tool calls · 1 hook run · 2 stops · 0 held · N ms
    ✗ endings[1]: expected "api_error", found "completed"
    ✗ endings[2]: expected nothing more, found "api_error"
    ✗ stops: expected 3, found 2
    ✗ exit: expected 0, found 1
    ✗ files.notes.txt: expected "two\n", found "one\n"
    ✗ absent.kept.txt: expected no such file, found it exists
    "#);
    let quiet = stage.play(BUSY_SCENARIO, &["--quiet"]);
    assert_snapshot!(stage.normalize(&quiet.to_string()), @r#"
    exit 1
    --- stdout
    6 model calls · 4 tool calls · 1 hook run · 2 stops · 0 held · N ms
    ✗ endings[1]: expected "api_error", found "completed"
    ✗ endings[2]: expected nothing more, found "api_error"
    ✗ stops: expected 3, found 2
    ✗ exit: expected 0, found 1
    ✗ files.notes.txt: expected "two\n", found "one\n"
    ✗ absent.kept.txt: expected no such file, found it exists
    "#);
    stage.assert_no_leftovers("busy");
}

/// The format is documented in `docs/json.md`.
#[test]
fn json_output_is_one_object_per_line() {
    let stage = SimulationSandbox::new();
    let lines = stage.play_as_json(BUSY_SCENARIO, &[]);
    let shapes: BTreeSet<String> = lines
        .iter()
        .map(|entry| {
            let fields = entry.as_object().unwrap().keys().map(String::as_str);
            format!("{}: {}", entry["kind"].as_str().unwrap(), fields.collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_snapshot!(shapes.into_iter().collect::<Vec<_>>().join("\n"), @"
    ending: is_error kind reason result
    exit: code kind
    hook: agent effect event handlers input kind
    hook: effect event handlers input kind
    prompt: kind text
    reply: agent kind text tools
    reply: error kind text tools
    reply: kind text tools
    request: agent kind messages
    request: kind messages
    summary: came_true counts exit kept kind mismatches ms path scenario v
    tool: input is_error kind name result
    ");
    let mut summary = lines.last().unwrap().clone();
    assert!(summary["ms"].is_u64());
    summary["ms"] = "[ms]".into();
    summary["path"] = stage.sandbox.normalize(summary["path"].as_str().unwrap()).into();
    assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap(), @r#"
    {
      "came_true": false,
      "counts": {
        "blocks": 0,
        "hooks": 1,
        "overridden": 0,
        "requests": 6,
        "stops": 2,
        "tools": 4
      },
      "exit": 1,
      "kept": null,
      "kind": "summary",
      "mismatches": [
        {
          "expected": "\"api_error\"",
          "found": "\"completed\"",
          "what": "endings[1]"
        },
        {
          "expected": "nothing more",
          "found": "\"api_error\"",
          "what": "endings[2]"
        },
        {
          "expected": "3",
          "found": "2",
          "what": "stops"
        },
        {
          "expected": "0",
          "found": "1",
          "what": "exit"
        },
        {
          "expected": "\"two\\n\"",
          "found": "\"one\\n\"",
          "what": "files.notes.txt"
        },
        {
          "expected": "no such file",
          "found": "it exists",
          "what": "absent.kept.txt"
        }
      ],
      "ms": "[ms]",
      "path": "$ROOT/work/scenario.toml",
      "scenario": "A bit of everything.",
      "v": 1
    }
    "#);
    let kinds = lines.iter().map(|entry| entry["kind"].as_str().unwrap());
    assert_eq!(kinds.filter(|kind| *kind == "summary").count(), 1);
}

const PLAIN_SCENARIO: &str = r#"
name = "One stop."

[[hook]]
event = "Stop"
command = "touch own-hook-ran"

[[plugin]]
name = "keeper"

[[plugin.hook]]
event = "Stop"
command = "touch plugin-hook-ran"

[[step]]
person = "Go."

[[step]]
agent = "I write."
tools = [{ write = "a.txt", text = "a\n" }]

[[step]]
agent = "Done."

[[step]]
agent = "Really done."

[expect]
results = ["Really done."]
blocks = 1
absent = ["own-hook-ran", "plugin-hook-ran"]
"#;

/// `--hook` takes a command as a person would type it, and replaces the scenario's own hooks.
#[test]
fn a_given_hook_replaces_those_of_the_scenario() {
    let stage = SimulationSandbox::new();
    let script = "#!/bin/sh\n[ -e held ] && exit 0\ntouch held\necho \"$1 is wrong\" >&2\nexit 2\n";
    write_program(&stage.sandbox.project().join("hooks/my gate.sh"), script);
    write_program(&stage.sandbox.project().join("my-gate.sh"), script);
    write_program(&stage.sandbox.project().join("hooks/gate.sh"), script);
    let path = stage.sandbox.project().join("hooks/my gate.sh");
    let commands = [
        "./my-gate.sh everything".to_owned(),
        "sh ./my-gate.sh everything".to_owned(),
        "hooks/gate.sh everything".to_owned(),
        format!("'{}' everything", path.display()),
    ];
    for command in commands {
        let lines = stage.play_as_json(PLAIN_SCENARIO, &["--hook", &command]);
        let summary = lines.last().unwrap();
        assert_eq!(summary["mismatches"], serde_json::json!([]), "{command}: {summary}");
        let stop = lines.iter().find(|entry| entry["event"] == "Stop").unwrap();
        assert_eq!(stop["effect"]["blocked"]["reasons"][0], "everything is wrong\n", "{command}");
    }
    let both = stage.play_as_json(PLAIN_SCENARIO, &["--hook", "./my-gate.sh a", "--hook", "true"]);
    let stop = both.iter().find(|entry| entry["event"] == "Stop").unwrap();
    assert_eq!(stop["handlers"].as_array().unwrap().len(), 2);

    // This hook allows the stop, but the scenario expects a block.
    let shown = stage.play(PLAIN_SCENARIO, &["--quiet", "--hook", "true"]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 1
    --- stdout
    2 model calls · 1 tool call · 1 hook run · 1 stop · 0 held · N ms
    ✗ results[0]: expected "Really done.", found "Done."
    ✗ blocks: expected 1, found 0
    · the expectations are for the scenario's own hooks, not for yours
    "#);
    stage.assert_no_leftovers("hooks");
}

/// `--settings` applies matchers and timeouts, and its commands find the scripts beside the settings file.
#[test]
fn given_settings_replace_those_of_the_scenario() {
    let stage = SimulationSandbox::new();
    let hooks = stage.sandbox.project().join(".claude/hooks");
    write_program(
        &hooks.join("stop.sh"),
        "#!/bin/sh\n[ -e held ] && exit 0\ntouch held\n. \"${0%/*}/lib/why.sh\"\nexit 2\n",
    );
    write_file(&hooks.join("lib/why.sh"), "echo because >&2\n");
    let settings = r#"{
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo never >&2; exit 2"}]},
                {"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "echo '{\"systemMessage\": \"a file\"}'"}]}
            ],
            "Stop": [
                {"hooks": [{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/stop.sh"}]},
                {"hooks": [{"type": "command", "command": "sh ~/.claude/hooks/lib/why.sh"}]},
                {"hooks": [{"type": "command", "command": "sleep 600", "timeout": 0.2}]},
                {"hooks": [{"type": "prompt", "prompt": "is it done?"}]}
            ]
        }
    }"#;
    stage.sandbox.write(".claude/settings.json", settings);
    let timeline = stage.play_as_json(PLAIN_SCENARIO, &["--settings", ".claude/settings.json"]);
    assert_eq!(timeline.last().unwrap()["mismatches"], serde_json::json!([]));
    let hooks = timeline.iter().filter(|entry| entry["kind"] == "hook");
    let lines = hooks.flat_map(|hook| {
        let mut handlers: Vec<_> = hook["handlers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|handler| format!("{} {} {}", hook["event"], handler["command"], handler["ended"]))
            .collect();
        handlers.sort();
        handlers
    });
    let notices = timeline.iter().filter(|entry| entry["kind"] == "notice");
    let notices = notices.map(|notice| format!("notice {}", notice["text"]));
    assert_snapshot!(lines.chain(notices).collect::<Vec<_>>().join("\n"), @r#"
    "PreToolUse" "echo '{\"systemMessage\": \"a file\"}'" "exit 0"
    "Stop" "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/stop.sh" "exit 2"
    "Stop" "is it done?" "failed"
    "Stop" "sh ~/.claude/hooks/lib/why.sh" "exit 0"
    "Stop" "sleep 600" "timeout"
    "Stop" "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/stop.sh" "exit 0"
    "Stop" "is it done?" "failed"
    "Stop" "sh ~/.claude/hooks/lib/why.sh" "exit 0"
    "Stop" "sleep 600" "timeout"
    notice "PreToolUse:Write says: a file"
    notice "no `[[evaluator]]` of the scenario answers the Stop hook of type `prompt`, so it gives no verdict"
    notice "Stop hook error occurred"
    "#);
    stage.assert_no_leftovers("settings");
}

#[test]
fn kept_files_are_in_the_named_directory() {
    let stage = SimulationSandbox::new();
    let shown = stage.play(BUSY_SCENARIO, &["--keep", "--quiet"]);
    let root = shown.stdout.lines().last().unwrap().strip_prefix("the files are in ").unwrap();
    assert_eq!(stage.leftovers(), [Path::new(root)]);
    let notes = fs::read_to_string(Path::new(root).join("project/notes.txt")).unwrap();
    assert_eq!(notes, "one\n");
    fs::remove_dir_all(root).unwrap();

    let lines = stage.play_as_json(BUSY_SCENARIO, &["--keep"]);
    let root = lines.last().unwrap()["kept"].as_str().unwrap();
    assert_eq!(stage.leftovers(), [Path::new(root)]);
}

/// R-S7a: a recorded session replays with the same hook, and the recording contains no secrets.
#[test]
fn a_transcript_becomes_a_scenario_that_meets_its_expectations() {
    let stage = SimulationSandbox::new();
    let hook = "[ -e held ] && exit 0; touch held; echo 'two tests fail' >&2; exit 2";
    let scenario = r#"
name = "To be recorded."

[files]
"main.py" = "print(1)\n"

[[step]]
person = "Use ghp_abcdefghijklmnopqrstuvwxyz0123456789 and fix main.py."

[[step]]
agent = "I look."
tools = [{ read = "main.py" }, { edit = "main.py", old = "1", new = "2" }, { run = "cat main.py" }]

[[step]]
agent = "Done."

[[step]]
agent = "Now it is."
"#;
    let first = stage.play_as_json(scenario, &["--keep", "--hook", hook]);
    let root = first.last().unwrap()["kept"].as_str().unwrap();
    let transcript = crate::sandbox::read_files(&Path::new(root).join("home/.claude/projects"));
    let transcript = transcript.iter().map(|(path, _)| path);
    let [transcript] = &transcript.collect::<Vec<_>>()[..] else { panic!("one transcript") };
    let recorded = stage.simulate(&["--record", transcript.to_str().unwrap()]);
    assert_snapshot!(stage.normalize(&recorded.to_string()), @r#"
    exit 0
    --- stdout
    name = "Use [redacted] and fix main.py."

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "Use [redacted] and fix main.py."

    [[step]]
    agent = "I look."
    tools = [
      { read = "main.py" },
      { edit = "main.py", old = "1", new = "2" },
      { run = "cat main.py" },
    ]

    [[step]]
    agent = "Done."

    [[step]]
    agent = "Now it is."

    [expect]
    stops = 2
    blocks = 1
    reasons = [
      """
    two tests fail
    """,
    ]

    --- stderr
    note: stop hook: [ -e held ] && exit 0; touch held; echo 'two tests fail' >&2; exit 2
    note: the scenario lacks the files of the session: add `copy` or `[files]`, or play it with `--project`
    "#);
    fs::remove_dir_all(root).unwrap();

    let again = stage.play_as_json(&recorded.stdout, &["--hook", hook]);
    assert_eq!(again.last().unwrap()["mismatches"], serde_json::json!([]));
    let decided = |timeline: &[Value]| -> Vec<Value> {
        let stops = timeline.iter().filter(|entry| entry["event"] == "Stop");
        stops.map(|stop| stop["effect"].clone()).collect()
    };
    assert_eq!(decided(&again), decided(&first));
    let otherwise = stage.play(&recorded.stdout, &["--quiet", "--hook", "true"]);
    assert_eq!(otherwise.code, Some(1), "{otherwise}");
    stage.assert_no_leftovers("record");
}

#[test]
fn errors_in_a_scenario_are_shown_with_their_lines() {
    let stage = SimulationSandbox::new();
    let rows = [
        "name = \"x.\"\n\n[[step]]\nperson = \"Go.\"\n\n[[step]]\nagnet = \"Done.\"\n",
        "name = \"x.\"\n\n[[step]]\nperson = \"Go.\"\n\n[expect]\nstops = 1\nblocks = 3\nevents = [\"Sotp\"]\nendings = [\"complete\"]\n",
        "name = \"x.\"\ncopy = \"nowhere\"\n\n[files]\n\"../out\" = \"\"\n\n[[step]]\nperson = \"Go.\"\n",
        "name = \"x.\"\n[[hook]]\nevent = \"Stop\"\ncommand = \"true\"\nscript = \"true\"\ntimeout = -1\n",
        "name = \"x.\n",
        "",
    ];
    let shown = rows.map(|row| stage.normalize(&stage.play(row, &[]).to_string()));
    assert_snapshot!(shown.join("\n"));
    let path = stage.sandbox.write("binary.toml", b"name = \"\xff\"\n");
    let rows = [
        vec![path.to_str().unwrap()],
        vec!["nowhere.toml"],
        vec!["/dev/zero"],
        vec!["--record", "nowhere.jsonl"],
        vec![],
    ];
    let shown = rows.map(|args| stage.normalize(&stage.simulate(&args).to_string()));
    assert_snapshot!(shown.join("\n"), @"
    exit 1
    --- stderr
    error: the scenario cannot be read
      caused by: `$ROOT/work/binary.toml` is not UTF-8
    exit 1
    --- stderr
    error: the scenario cannot be read
      caused by: cannot read `nowhere.toml`
      caused by: No such file or directory (os error 2)
    exit 1
    --- stderr
    error: the scenario cannot be read
      caused by: cannot read `/dev/zero`
      caused by: it is not a regular file
    exit 1
    --- stderr
    error: cannot make a scenario from the transcript
      caused by: cannot read `nowhere.jsonl`
      caused by: No such file or directory (os error 2)
    exit 1
    --- stderr
    error: `SCENARIO` is missing
      hint: run `ralph simulate --help`
    ");
    stage.assert_no_leftovers("mistakes");
}

#[test]
fn unplayable_scenarios_are_reported_with_a_hint() {
    let stage = SimulationSandbox::new();
    stage.sandbox.write("settings.json", "[]");
    stage.sandbox.write("broken.json", "{\"hooks\": ");
    let broken =
        PLAIN_SCENARIO.replacen('\n', "\nsetup = [\"echo one; echo two >&2; exit 3\"]\n", 1);
    let below = stage.sandbox.write("file", "").join("below");
    let path = stage.sandbox.write("plain.toml", PLAIN_SCENARIO);
    let crowded =
        run_command(stage.simulate_command(&[path.to_str().unwrap()]).env("TMPDIR", below), b"");
    let shown = [
        stage.play(PLAIN_SCENARIO, &["--client"]).to_string(),
        stage.play(PLAIN_SCENARIO, &["--client=/nowhere/claude"]).to_string(),
        stage.play(PLAIN_SCENARIO, &["--settings", "settings.json"]).to_string(),
        stage.play(PLAIN_SCENARIO, &["--settings", "broken.json"]).to_string(),
        stage.play(PLAIN_SCENARIO, &["--settings", "nowhere.json"]).to_string(),
        stage.play(&broken, &[]).to_string(),
        crowded.to_string(),
    ];
    assert_snapshot!(stage.normalize(&shown.join("\n")), @"
    exit 1
    --- stderr
    error: the scenario was not played
      caused by: cannot find Claude Code (`claude`)
      hint: install it: `npm install -g @anthropic-ai/claude-code`


    exit 1
    --- stderr
    error: the scenario was not played
      caused by: cannot find Claude Code (`/nowhere/claude`)
      hint: install it: `npm install -g @anthropic-ai/claude-code`


    exit 1
    --- stderr
    error: `settings.json` is not a settings file
      caused by: invalid type: sequence, expected a map at line 1 column 0


    exit 1
    --- stderr
    error: `broken.json` is not a settings file
      caused by: EOF while parsing a value at line 1 column 10


    exit 1
    --- stderr
    error: cannot read `nowhere.json`
      caused by: No such file or directory (os error 2)
      hint: check the path


    exit 1
    --- stderr
    error: the scenario cannot be set up
      caused by: setup command `echo one; echo two >&2; exit 3` failed (exit code 3) one two


    exit 1
    --- stderr
    error: the temporary directory `$ROOT/work/file/below` does not exist
      hint: set `TMPDIR` to another directory
    ");
    stage.assert_no_leftovers("way out");
}

const BLOCK_ONCE_HOOK: &str = "[ -e held ] && exit 0; touch held; echo no >&2; exit 2";

/// One line for each scenario in order of name, unmet expectations below it, and a total.
#[test]
fn several_scenarios_get_one_line_each_and_a_total() {
    let stage = SimulationSandbox::new();
    stage
        .sandbox
        .write("all/b/held.toml", PLAIN_SCENARIO.replace("touch own-hook-ran", BLOCK_ONCE_HOOK));
    stage
        .sandbox
        .write("all/b/let-go.toml", format!("{PLAIN_SCENARIO}\n[settings.user]\nenv = 3\n"));
    stage.sandbox.write("all/a.toml", "name = \"x.\"\n\n[[step]]\nperson = \"Go.\"\n");
    stage.sandbox.write("all/broken.toml", "nmae = \"x.\"\n");
    stage.sandbox.write("all/.hidden/c.toml", "not one");
    stage.sandbox.write("all/notes.md", "not one");
    stage.sandbox.write("empty/notes.md", "");
    let rows: [&[&str]; 7] = [
        &["all"],
        &["all", "--quiet", "--hook", BLOCK_ONCE_HOOK],
        &["all/a.toml", "all/b", "--quiet", "--hook", "true"],
        &["all/a.toml", "all/a.toml", "--quiet"],
        &["all/a.toml", "nowhere.toml"],
        &["empty"],
        &["all/a.toml", "--record", "b"],
    ];
    let shown = rows.map(|args| stage.normalize(&stage.simulate(args).to_string()));
    assert_snapshot!(shown.join("\n"));
    stage.assert_no_leftovers("several");
}

#[test]
fn json_output_of_several_scenarios_has_their_summaries() {
    let stage = SimulationSandbox::new();
    stage.sandbox.write("all/a.toml", PLAIN_SCENARIO);
    stage.sandbox.write("all/b.toml", "nmae = \"x.\"\n");
    let ended = stage.simulate(&["all", "--json", "--hook", BLOCK_ONCE_HOOK]);
    let lines = parse_lines(&ended.stdout).into_iter().map(|mut line| {
        if line["ms"].is_u64() {
            line["ms"] = "[ms]".into();
        }
        line.to_string()
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    {"came_true":true,"counts":{"blocks":1,"hooks":2,"overridden":0,"requests":3,"stops":2,"tools":1},"exit":0,"kept":null,"kind":"summary","mismatches":[],"ms":"[ms]","path":"all/a.toml","scenario":"One stop.","v":1}
    {"error":"the scenario is invalid","kind":"error","path":"all/b.toml","v":1}
    "#);
    assert_snapshot!(stage.normalize(&ended.stderr), @r#"
    error: unknown key `nmae`
     --> all/b.toml:1:1
      |
    1 | nmae = "x."
      | ^^^^
      |
      = hint: did you mean `name`?

    error: the scenario is invalid
    "#);
    assert_eq!(ended.code, Some(1));
}

#[test]
fn a_scenario_can_be_piped_in() {
    let stage = SimulationSandbox::new();
    let piped = run_command(
        &mut stage.simulate_command(&["-", "--quiet", "--hook", BLOCK_ONCE_HOOK]),
        PLAIN_SCENARIO.as_bytes(),
    );
    assert_snapshot!(stage.normalize(&piped.to_string()), @"
    exit 0
    --- stdout
    3 model calls · 1 tool call · 2 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    ");
}

/// `--project` plays in a copy of a project, with its own hooks, and does not change it.
#[test]
fn a_project_is_played_with_its_own_hooks() {
    let stage = SimulationSandbox::new();
    let app = stage.sandbox.root().join("app");
    let settings = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": ".claude/hooks/gate.sh"}]}]}}"#;
    write_file(&app.join(".claude/settings.json"), settings);
    let gate = "#!/bin/sh\n[ -e held ] && exit 0\ncp their.txt held\necho 'a gate of the project' >&2\nexit 2\n";
    write_program(&app.join(".claude/hooks/gate.sh"), gate);
    write_file(&app.join("their.txt"), "theirs\n");
    write_file(&app.join("a.txt"), "theirs\n");
    let scenario = format!(
        "{PLAIN_SCENARIO}files = {{ \"held\" = \"theirs\\n\", \"a.txt\" = \"a\\n\" }}\n\n[files]\n\".claude/settings.json\" = \"{{}}\"\n"
    );
    let before = crate::sandbox::read_files(&app);
    let shown = stage.play(&scenario, &["--project", app.to_str().unwrap()]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @"
    exit 0
    --- stdout
         person Go.
          agent I write.
           tool Write a.txt
                The file a.txt has been updated successfully. (file state is current in your context — no need to Read it back)
          agent Done.
           Stop held
                a gate of the project
                exit 2 in N ms, project settings: .claude/hooks/gate.sh
         notice Stop hook error occurred
    model reads Stop hook feedback: [.claude/hooks/gate.sh]: a gate of the project
          agent Really done.
           Stop let go
                exit 0 in N ms, project settings: .claude/hooks/gate.sh
            end completed
           exit 0

    3 model calls · 1 tool call · 2 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    ");
    assert_eq!(crate::sandbox::read_files(&app), before);

    let bare = stage.sandbox.root().join("bare");
    fs::create_dir(&bare).unwrap();
    let none = stage.play(&scenario, &["--quiet", "--project", bare.to_str().unwrap()]);
    let nowhere = stage.play(&scenario, &["--project", "nowhere"]);
    assert_snapshot!(stage.normalize(&format!("{none}\n{nowhere}")), @r#"
    exit 1
    --- stdout
    2 model calls · 1 tool call · 0 hooks run · 1 stop · 0 held · N ms
    ✗ results[0]: expected "Really done.", found "Done."
    ✗ blocks: expected 1, found 0
    ✗ files.held: expected "theirs\n", found no such file
    · the expectations are for the scenario's own hooks, not for yours

    --- stderr
    note: `$ROOT/bare` has no settings in `.claude`, so no hooks


    exit 1
    --- stderr
    error: there is no directory `nowhere`
      hint: give the directory of a project
    "#);
    stage.assert_no_leftovers("project");
}

#[test]
fn a_hook_can_be_given_for_another_event() {
    let stage = SimulationSandbox::new();
    let hooks =
        ["--hook", "PreToolUse=echo frozen >&2; exit 2", "--hook", "A=1; echo \"$A\" > stopped"];
    let shown = stage.play(PLAIN_SCENARIO, &hooks);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 1
    --- stdout
         person Go.
          agent I write.
     PreToolUse denied
                PreToolUse:Write hook error: [echo frozen >&2; exit 2]: frozen
                exit 2 in N ms, the given settings: echo frozen >&2; exit 2
           tool Write a.txt
                PreToolUse:Write hook error: [echo frozen >&2; exit 2]: frozen
          agent Done.
           Stop let go
                exit 0 in N ms, the given settings: A=1; echo "$A" > stopped
            end completed
           exit 0

    2 model calls · 1 tool call · 2 hooks run · 1 stop · 0 held · N ms
    ✗ results[0]: expected "Really done.", found "Done."
    ✗ blocks: expected 1, found 0
    · the expectations are for the scenario's own hooks, not for yours
    "#);
}

#[test]
fn a_misspelt_event_is_part_of_the_command() {
    let stage = SimulationSandbox::new();
    let shown = stage.play(PLAIN_SCENARIO, &["--quiet", "--hook", "PreToolUes=exit 2"]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 1
    --- stdout
    2 model calls · 1 tool call · 1 hook run · 1 stop · 0 held · N ms
    ✗ results[0]: expected "Really done.", found "Done."
    ✗ blocks: expected 1, found 0
    · the expectations are for the scenario's own hooks, not for yours

    --- stderr
    note: there is no event `PreToolUes`, so this is a command for `Stop`: did you mean `PreToolUse=`?
    notice: Stop: neither exit 0 nor exit 2: an error that does not block
    "#);
}

/// With `--quiet` there is no timeline, and a notice about ignored settings explains unmet expectations.
const PROMPT_HOOK_SCENARIO: &str =
    include_str!("../../../../scenarios/prompt-hooks/prompt-unmet.toml");
const AGENT_HOOK_SCENARIO: &str =
    include_str!("../../../../scenarios/prompt-hooks/agent-text.toml");

/// A model that answers a hook has a lane of its own in the timeline.
#[test]
fn hooks_that_ask_a_model_are_played() {
    let stage = SimulationSandbox::new();
    let shown = stage.play(PROMPT_HOOK_SCENARIO, &[]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 0
    --- stdout
         person Fix the app.
          agent Done.
    model reads (hook-prompt) Based on the conversation transcript above, has the following stopping condition been satisfied? Answer based on transcript evidence only. Condition: Is app.py…
          agent (hook-prompt) {"ok": false, "reason": "app.py is unchanged"}
           Stop held
                app.py is unchanged
                answered in N ms, project settings: Is app.py fixed? $ARGUMENTS
         notice Stop hook error occurred
    model reads Stop hook feedback: [Is app.py fixed? $ARGUMENTS]: app.py is unchanged
          agent Now really.
    model reads (hook-prompt) Based on the conversation transcript above, has the following stopping condition been satisfied? Answer based on transcript evidence only. Condition: Is app.py…
          agent (hook-prompt) {"ok": true, "reason": "app.py was edited"}
           Stop let go
                answered in N ms, project settings: Is app.py fixed? $ARGUMENTS
            end completed
           exit 0

    4 model calls · 0 tool calls · 2 hooks run · 2 stops · 1 held · N ms
    ✓ all expectations met
    "#);
    let shown = stage.play(AGENT_HOOK_SCENARIO, &[]);
    // The question contains the ids of the session.
    let shown = stage.normalize(&shown.to_string());
    let shown: Vec<&str> = shown.lines().filter(|line| !line.contains("session_id")).collect();
    assert_snapshot!(shown.join("\n"), @r#"
    exit 0
    --- stdout
         person Fix the app.
          agent Done.
          agent (hook-agent) It is not fixed.
    model reads (hook-agent) [structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now.
          agent (hook-agent) As I said.
           Stop let go
                no verdict in N ms, project settings: Read app.py: is it fixed? $ARGUMENTS
                ! no verdict: the client ignores the hook and reports nothing
            end completed
           exit 0

    3 model calls · 0 tool calls · 1 hook run · 1 stop · 0 held · N ms
    ✓ all expectations met
    "#);
    stage.assert_no_leftovers("evaluators");
}

#[test]
fn notices_are_shown_even_with_quiet() {
    let stage = SimulationSandbox::new();
    stage.sandbox.write(
        "settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "done?"}]}]}}"#,
    );
    let shown = stage.play(PLAIN_SCENARIO, &["--quiet", "--settings", "settings.json"]);
    assert_snapshot!(stage.normalize(&shown.to_string()), @r#"
    exit 1
    --- stdout
    3 model calls · 1 tool call · 1 hook run · 1 stop · 0 held · N ms
    ✗ results[0]: expected "Really done.", found "Done."
    ✗ blocks: expected 1, found 0
    · the expectations are for the scenario's own hooks, not for yours

    --- stderr
    notice: no `[[evaluator]]` of the scenario answers the Stop hook of type `prompt`, so it gives no verdict
    notice: Stop: no verdict, so it does not block: JSON validation failed
    "#);
}

#[test]
fn a_resumed_session_has_its_own_line() {
    let stage = SimulationSandbox::new();
    let steps = |session: &str| {
        format!(
            "name = \"x.\"\n[[step]]\nperson = \"Go.\"\n[[step]]\nagent = \"One.\"\n[[step]]\nsession = \"{session}\"\n[[step]]\nperson = \"And?\"\n[[step]]\nagent = \"Two.\"\n"
        )
    };
    let shown = ["resume", "fork"].map(|session| stage.play(&steps(session), &[]).to_string());
    assert_snapshot!(stage.normalize(&shown.join("\n")), @"
    exit 0
    --- stdout
         person Go.
          agent One.
            end completed
           exit 0
        session resumed
         person And?
          agent Two.
            end completed
           exit 0

    2 model calls · 0 tool calls · 0 hooks run · 2 stops · 0 held · N ms
    · no expectations


    exit 0
    --- stdout
         person Go.
          agent One.
            end completed
           exit 0
        session forked
         person And?
          agent Two.
            end completed
           exit 0

    2 model calls · 0 tool calls · 0 hooks run · 2 stops · 0 held · N ms
    · no expectations
    ");
}

/// Each scenario in `scenarios/try` distinguishes a correct hook from a broken one, or shows how the client handles a
/// hook that never stops blocking.
#[test]
fn the_try_scenarios_distinguish_good_hooks_from_broken_ones() {
    let stage = SimulationSandbox::new();
    let tried = format!("{SCENARIO_DIR}/try");
    let text = fs::read_to_string(format!("{tried}/gate.sh")).unwrap();
    write_program(&stage.sandbox.project().join("good.sh"), &text.replace("\"deny\"", "\"block\""));
    let rows =
        [format!("{tried}/gate.sh"), "./good.sh".to_owned(), "echo no >&2; exit 2".to_owned()];
    let shown = rows.map(|hook| {
        let shown = stage.simulate(&[&tried, "--hook", &hook]).to_string();
        stage.normalize(&shown).replace(SCENARIO_DIR, "scenarios")
    });
    assert_snapshot!(shown.join("\n"), @r#"
    exit 1
    --- stdout
    ✓ scenarios/try/edits-and-stops.toml
    ✓ scenarios/try/never-done.toml
    ✗ scenarios/try/tests-first.toml
        blocks: expected 1, found 0
        reasons[0]: expected "app.py is not fixed", found nothing more
        files.app.py: expected "fixed\n", found "broken\n"
        notice: Stop: the whole answer is ignored: one field is invalid, decision: Invalid option: expected one of "approve"|"block"
    ✗ scenarios/try/too-early.toml
        results[0]: expected "It says hello, and the list is done.", found "I looked at the code. The greeting is still to do, I will leave it for later."
        files.greet.sh: expected "echo hello\n", found "echo later\n"
        notice: Stop: the whole answer is ignored: one field is invalid, decision: Invalid option: expected one of "approve"|"block"

    4 scenarios · 2 passed · 2 failed · N ms
    · the expectations are for the scenario's own hooks, not for yours
    exit 0
    --- stdout
    ✓ scenarios/try/edits-and-stops.toml
    ✓ scenarios/try/never-done.toml
    ✓ scenarios/try/tests-first.toml
    ✓ scenarios/try/too-early.toml

    4 scenarios · 4 passed · 0 failed · N ms
    exit 1
    --- stdout
    ✗ scenarios/try/edits-and-stops.toml
        results[0]: expected "It says hello.", found ""
        notice: A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. For Stop/SubagentStop hooks, check stop_hook_active in the input and retu…
    ✓ scenarios/try/never-done.toml
    ✗ scenarios/try/tests-first.toml
        blocks: expected 1, found 9
        reasons[0]: expected text containing "app.py is not fixed", found "no\n"
        notice: A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. For Stop/SubagentStop hooks, check stop_hook_active in the input and retu…
    ✗ scenarios/try/too-early.toml
        results[0]: expected "It says hello, and the list is done.", found ""
        notice: A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. For Stop/SubagentStop hooks, check stop_hook_active in the input and retu…

    4 scenarios · 1 passed · 3 failed · N ms
    · the expectations are for the scenario's own hooks, not for yours
    "#);
    let capped =
        stage.simulate(&[&format!("{tried}/never-done.toml"), "--quiet", "--hook", "./good.sh"]);
    assert_snapshot!(stage.normalize(&capped.to_string()), @"
    exit 0
    --- stdout
    9 model calls · 0 tool calls · 9 hooks run · 9 stops · 8 held · 1 overridden · N ms
    ✓ all expectations met

    --- stderr
    notice: A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. For Stop/SubagentStop hooks, check stop_hook_active in the input and retu…
    ");
}

/// The word after `--client` is a scenario; a program is given with `=`.
#[test]
fn a_bare_client_option_does_not_consume_the_scenario() {
    let stage = SimulationSandbox::new();
    let path = stage.sandbox.write("scenario.toml", PLAIN_SCENARIO);
    let client = stage.sandbox.write("claude", b"\xff");
    write_program(
        &stage.sandbox.project().join("fake"),
        "#!/bin/sh\necho '2.1.325 (Claude Code)'\n",
    );
    let taken = stage.simulate(&["--client", path.to_str().unwrap()]);
    let program = stage.simulate(&["--client=./fake", client.to_str().unwrap()]);
    assert_snapshot!(stage.normalize(&format!("{taken}\n{program}")), @"
    exit 1
    --- stderr
    error: the scenario was not played
      caused by: cannot find Claude Code (`claude`)
      hint: install it: `npm install -g @anthropic-ai/claude-code`


    exit 1
    --- stderr
    error: the scenario cannot be read
      caused by: `$ROOT/work/claude` is not UTF-8
      hint: name another client with `--client=PROGRAM`
    ");
}

/// A step of the proof is one line with its description; the count of its tests is not shown.
#[test]
fn a_driven_scenario_shows_the_steps_of_the_proof() {
    let scenario = Path::new(SCENARIO_DIR).join("run/too-early.toml");
    let played = SimulationSandbox::new().simulate(&[scenario.to_str().unwrap()]);
    let steps: BTreeSet<_> =
        played.stdout.lines().filter_map(|line| line.trim_start().strip_prefix("proof")).collect();
    assert!(steps.contains(" new tests on new code"), "{played}");
    assert!(steps.iter().all(|step| step.contains(" on ")), "{played}");
}
