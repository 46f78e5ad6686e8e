//! `ralph lab pretend`: the fake client's output must match recordings of the real client, line by line.

use crate::sandbox::Sandbox;
use ralph_sim::scenario::{
    self, Scenario, ScenarioPlayer, ScenarioStep, ScriptedApiError, ScriptedToolCall, ScriptedTurn,
    TurnHang, TurnMishap,
};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const RECORDINGS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/claude-code/2.1.325/stream");
const LINE_TIMEOUT: Duration = Duration::from_secs(20);
const BYPASS_PERMISSIONS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// A running `ralph lab pretend` process, and the stream-JSON connection to it.
struct PretendProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl PretendProcess {
    fn start(sandbox: &Sandbox, env: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = sandbox.command();
        let fixed = ["pretend", "--scenario", "scenario.toml", "--position", "position.json", "--"];
        command.args(fixed).args(["-p", "--input-format", "stream-json"]).args(args);
        command.envs(env.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                sender.send(serde_json::from_str(&line).unwrap()).ok();
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    fn send(&mut self, line: &Value) {
        // A client scripted to crash may be gone already.
        drop(writeln!(self.stdin.as_mut().unwrap(), "{line}"));
    }

    fn send_prompt(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    fn receive(&self) -> Option<Value> {
        self.lines.recv_timeout(LINE_TIMEOUT).ok()
    }

    /// Answers every callback with `{}` until the turn ends, then returns its result.
    fn turn_result(&mut self) -> Option<Value> {
        loop {
            let line = self.receive()?;
            if line["type"] == "result" {
                return Some(line);
            }
            if line["type"] == "control_request" {
                let id = &line["request_id"];
                let response = json!({"subtype": "success", "request_id": id, "response": {}});
                self.send(&json!({"type": "control_response", "response": response}));
            }
        }
    }

    /// Closes stdin and waits. Returns the exit status and stderr.
    fn close(mut self) -> (String, String) {
        drop(self.stdin.take());
        let mut stderr = String::new();
        for line in BufReader::new(self.child.stderr.take().unwrap()).lines() {
            stderr.push_str(&line.unwrap());
        }
        (self.child.wait().unwrap().to_string(), stderr)
    }
}

/// Arguments and environment with which the client of a recording was started.
fn launch_options(name: &str) -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
    let mut args: Vec<&str> = match name {
        "permission-nobody" => Vec::new(),
        "permission-allowed" | "permission-denied" => vec!["--permission-prompt-tool", "stdio"],
        "permission-dont-ask" => vec!["--permission-mode", "dontAsk"],
        _ => BYPASS_PERMISSIONS.to_vec(),
    };
    args.extend::<&[&str]>(match name {
        "max-turns" => &["--max-turns", "2"],
        "max-turns-held" => &["--max-turns", "3"],
        "max-budget" => &["--max-budget-usd", "1"],
        "question" => &["--permission-prompt-tool", "stdio"],
        _ => &[],
    });
    let env = match name {
        "stop-cap" | "stop-cap-context" => vec![("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "3")],
        _ => Vec::new(),
    };
    (args, env)
}

/// A scenario with the answers of the recording's model.
fn recorded_scenario(lines: &[Value], sandbox: &Sandbox) -> String {
    let mut turns: Vec<(String, ScriptedTurn)> = Vec::new();
    let mut attributed = 0;
    for line in lines.iter().filter(|line| line["from"] == "client").map(|line| &line["line"]) {
        let message = &line["message"];
        let id = message["id"].as_str().unwrap_or_default();
        let block = &message["content"][0];
        let text = block["text"].as_str().unwrap_or_default();
        if line["type"] == "result" {
            // Earlier lines hold the input tokens; only the result line holds the output tokens.
            let models = line["model_usage_since_last_result"].as_object().unwrap().values();
            let written: u64 = models.map(|model| model["outputTokens"].as_u64().unwrap()).sum();
            let is_answer =
                |turn: &&mut ScriptedTurn| turn.error.is_none() && turn.mishap == TurnMishap::None;
            let answers = turns.iter_mut().skip(attributed).map(|(_, turn)| turn).filter(is_answer);
            let answers: Vec<&mut ScriptedTurn> = answers.collect();
            let each = written.checked_div(answers.len() as u64).unwrap_or_default();
            for turn in answers {
                turn.usage.output = each;
            }
            attributed = turns.len();
        }
        if line["terminal_reason"] == "aborted_streaming" {
            let mishap = TurnMishap::Hang(TurnHang::Answer);
            turns.push((String::new(), ScriptedTurn { mishap, ..ScriptedTurn::default() }));
        } else if text.starts_with("[Your previous response had no visible output") {
            turns.extend([(); 2].map(|()| (String::new(), ScriptedTurn::default())));
        } else if line["is_api_error_message"] == true {
            turns.push((
                id.to_owned(),
                ScriptedTurn { error: Some(api_error(line)), ..ScriptedTurn::default() },
            ));
        } else if line["type"] == "assistant" {
            if turns.last().is_none_or(|(last, _)| last != id) {
                turns.push((id.to_owned(), ScriptedTurn::default()));
            }
            let turn = &mut turns.last_mut().unwrap().1;
            turn.usage.input = message["usage"]["input_tokens"].as_u64().unwrap();
            if block["type"] == "text" {
                text.clone_into(&mut turn.text);
            } else {
                let name = block["name"].as_str().unwrap().to_owned();
                turn.tools.push(ScriptedToolCall::Other { name, input: block["input"].clone() });
            }
        }
    }
    let steps = turns.into_iter().map(|(_, turn)| ScenarioStep::Agent(turn)).collect();
    let only = Some(ScenarioPlayer::Pretend);
    let text = scenario::write(&Scenario { only, steps, ..Scenario::default() });
    text.replace("/home/user/project", sandbox.project().to_str().unwrap())
}

/// Recovers the API's error from the message that the client made of it.
fn api_error(line: &Value) -> ScriptedApiError {
    let text = line["message"]["content"][0]["text"].as_str().unwrap();
    let before = ["API Error: 500 ", "API Error: 529 ", "API Error: 401 ", "(429) · "];
    let rest = before.iter().find_map(|before| text.split_once(before)).map_or("", |parts| parts.1);
    let message = rest.split(". This is a server-side issue").next().unwrap().to_owned();
    let status = line["api_error_status"].as_u64().map_or(0, |status| status.try_into().unwrap());
    ScriptedApiError {
        status,
        kind: line["api_error_type"].as_str().unwrap_or("none").to_owned(),
        message,
    }
}

/// Removes fields that differ from one process to the next, and fields that the fake client does not send.
fn normalize_line(line: &Value, sandbox: &Sandbox) -> Value {
    const LEFT_OUT: [&str; 14] = [
        "uuid",
        "timestamp",
        "duration_ms",
        "duration_api_ms",
        "ttft_ms",
        "ttft_stream_ms",
        "time_to_request_ms",
        "first_content_frame_ms",
        "end_time",
        "request_id",
        "context_management",
        "diagnostics",
        "container",
        "stop_details",
    ];
    match line {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            Value::Object(
                kept.map(|(name, value)| {
                    let is_sum = matches!(name.as_str(), "total_cost_usd" | "costUSD");
                    let value = match value.as_f64().filter(|_| is_sum) {
                        Some(sum) => json!(format!("{sum:.6}")),
                        None => normalize_line(value, sandbox),
                    };
                    (name.clone(), value)
                })
                .collect(),
            )
        }
        Value::Array(values) => values.iter().map(|value| normalize_line(value, sandbox)).collect(),
        Value::String(text) => json!(normalize_text(text, sandbox)),
        Value::Null | Value::Bool(_) | Value::Number(_) => line.clone(),
    }
}

fn normalize_text(text: &str, sandbox: &Sandbox) -> String {
    let project = sandbox.project().to_str().unwrap();
    let slug: String =
        project.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let text = text
        .replace(&slug, "-home-user-project")
        .replace(project, "/home/user/project")
        .replace(sandbox.home().to_str().unwrap(), "/home/user");
    PATTERNS
        .iter()
        .fold(text, |text, (pattern, instead)| pattern.replace_all(&text, *instead).into_owned())
}

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[uuid]"),
        (r"toolu_(fake|sim)_\d+_", "toolu_"),
        (r"(msg|req)_(fake|sim)_\d+", "$1"),
        (r"\b0mw\w+-\w+\b|\ba[0-9a-f]{16}\b", "[run]"),
        (r"\bb[0-9a-z]{8}\b", "[task]"),
        (r"[^ \n<>]*/tasks/", ".../tasks/"),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead))
    .into()
});

/// Collects the differences between two lines. Lines that describe the client itself may lack fields of the real ones,
/// but must not have additional ones.
fn collect_differences(place: &str, ours: &Value, real: &Value, found: &mut Vec<String>) {
    let is_part = place.starts_with("init") || place.starts_with("initialized");
    match (ours, real) {
        (Value::Object(less), Value::Object(more)) => {
            for (name, value) in less {
                let real = more.get(name).unwrap_or(&Value::Null);
                collect_differences(&format!("{place}.{name}"), value, real, found);
            }
            let missing = more.keys().filter(|name| !is_part && !less.contains_key(*name));
            found.extend(missing.map(|name| format!("{place}.{name} is missing")));
        }
        (Value::Array(_), Value::Array(_)) | (Value::Number(_), Value::Number(_)) if is_part => {}
        (Value::String(less), Value::String(_)) if is_part && less.is_empty() => {}
        (Value::Array(less), Value::Array(more)) if less.len() == more.len() => {
            for (at, (ours, real)) in less.iter().zip(more).enumerate() {
                collect_differences(&format!("{place}[{at}]"), ours, real, found);
            }
        }
        (ours, real) if ours != real => found.push(format!("{place}: {ours}, not {real}")),
        _ => {}
    }
}

fn line_kind(line: &Value) -> String {
    if line["response"]["response"].get("pid").is_some() {
        return "initialized".to_owned();
    }
    let word = [&line["request"]["callback_id"], &line["request"]["subtype"], &line["subtype"]];
    let word = word.into_iter().chain([&line["type"]]).find_map(Value::as_str);
    word.unwrap_or_default().to_owned()
}

/// Plays the driver's part of a recording and returns the differences from the real client's lines.
fn replay_recording(name: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(Path::new(RECORDINGS).join(format!("{name}.jsonl"))).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sandbox = Sandbox::without_git("project");
    sandbox.write("scenario.toml", recorded_scenario(&lines, &sandbox));
    let (args, env) = launch_options(name);
    let mut client = PretendProcess::start(&sandbox, &env, &args);
    let mut ids: BTreeMap<String, Value> = BTreeMap::new();
    let mut found = Vec::new();
    for line in &lines {
        let real = &line["line"];
        if line["from"] == "driver" {
            let mut line = real.clone();
            if let Some(id) = real["response"]["request_id"].as_str() {
                line["response"]["request_id"] = ids[id].clone();
            }
            let text = line.to_string();
            let text = text.replace("/home/user/project", sandbox.project().to_str().unwrap());
            client.send(&serde_json::from_str(&text).unwrap());
            continue;
        }
        let Some(ours) = client.receive() else {
            found.push(format!("{name}: nothing instead of {}", line_kind(real)));
            return found;
        };
        let (actual, wanted) = (line_kind(&ours), line_kind(real));
        if actual != wanted {
            found.push(format!("{name}: {actual} instead of {wanted}"));
            return found;
        }
        if let Some(id) = real["request_id"].as_str() {
            ids.insert(id.to_owned(), ours["request_id"].clone());
        }
        let mut here = Vec::new();
        collect_differences(
            &wanted,
            &normalize_line(&ours, &sandbox),
            &normalize_line(real, &sandbox),
            &mut here,
        );
        found.extend(here.into_iter().map(|difference| format!("{name}: {difference}")));
    }
    client.close();
    found
}

#[test]
fn output_matches_every_recording_of_the_real_client() {
    let mut names: Vec<String> = std::fs::read_dir(RECORDINGS)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() > 25);
    let found = names.iter().flat_map(|name| replay_recording(name));
    insta::assert_snapshot!(found.collect::<Vec<_>>().join("\n"), @"");
}

const SCRIPT: &str = r#"
only = "pretend"

[[step]]
agent = "one"
tools = [{ run = "echo one > made.txt" }]
crash = "tools"

[[step]]
agent = "two"
crash = "stop"

[[step]]
agent = "three"
crash = { at = "idle", exit = 7 }

[[step]]
agent = "four"

[[step]]
agent = "five"
tools = [{ run = "sleep 60" }]

[[step]]
hang = "answer"
"#;

/// The processes that a runner starts one after the other share one script: each continues at the recorded position.
#[test]
fn the_next_process_continues_the_session_after_a_crash() {
    let sandbox = Sandbox::without_git("project");
    sandbox.write("scenario.toml", SCRIPT);
    let id = "5999882c-e786-462c-84d4-07d1c65b5e76";
    let mut story = Vec::new();
    for session in ["--session-id", "--session-id", "--resume", "--resume", "--resume"] {
        let mut client = PretendProcess::start(
            &sandbox,
            &[],
            &[&BYPASS_PERMISSIONS[..], &[session, id]].concat(),
        );
        client.send(&json!({
            "type": "control_request",
            "request_id": "1",
            "request": {
                "subtype": "initialize",
                "hooks": {"Stop": [{"hookCallbackIds": ["stop"]}]},
            },
        }));
        client.send_prompt("go on");
        let result = client.turn_result().map_or(Value::Null, |result| {
            json!([result["result"], result["total_cost_usd"], result["result_index"]])
        });
        let (status, stderr) = client.close();
        story.push(format!("{session}: {result}, {status} {stderr}"));
    }
    let made = std::fs::read_to_string(sandbox.project().join("made.txt")).unwrap();
    story.push(format!("made.txt: {made}"));
    insta::assert_snapshot!(story.join("\n"), @r#"
    --session-id: null, signal: 9 (SIGKILL) 
    --session-id: null, exit status: 1 Error: Session ID 5999882c-e786-462c-84d4-07d1c65b5e76 is already in use.
    --resume: null, signal: 9 (SIGKILL) 
    --resume: ["three",0.0008,0], exit status: 7 
    --resume: ["four",0.0008,0], exit status: 0 
    made.txt: one
    "#);
}

#[test]
fn signals_end_it_like_the_real_client() {
    let mut story = Vec::new();
    let sandbox = Sandbox::without_git("project");
    let script = SCRIPT.split("agent = \"four\"").nth(1).unwrap();
    sandbox.write("scenario.toml", format!("only = \"pretend\"\n{script}"));
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let mut client = PretendProcess::start(&sandbox, &[], &BYPASS_PERMISSIONS);
        client.send(&json!({
            "type": "control_request",
            "request_id": "1",
            "request": {
                "subtype": "initialize",
                "hooks": {"SessionEnd": [{"hookCallbackIds": ["end"], "timeout": 1}]},
            },
        }));
        client.send_prompt("go on");
        while client.receive().is_some_and(|line| line["subtype"] != "init") {}
        if name == "SIGINT" {
            while client
                .receive()
                .is_some_and(|line| line["message"]["content"][0]["name"] != "Bash")
            {}
        }
        kill_process(Pid::from_child(&client.child), signal).unwrap();
        let mut lines = Vec::new();
        while let Some(line) = client.receive() {
            let reason = line["terminal_reason"].as_str().unwrap_or_default();
            lines.push(format!("{} {reason}", line_kind(&line)).trim_end().to_owned());
            if line["type"] == "control_request" {
                let response = json!({"subtype": "success", "request_id": line["request_id"]});
                client.send(&json!({"type": "control_response", "response": response}));
            }
        }
        story.push(format!("{name}: {}, {}", lines.join(", "), client.close().0));
    }
    insta::assert_snapshot!(story.join("\n"), @"
    SIGINT: user, user, error_during_execution aborted_tools, end, exit status: 0
    SIGTERM: end, exit status: 143
    ");
}
