//! Drives fake clients in this process, over pipes.

use super::*;
use crate::scenario;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;

/// A fake client with its driver.
struct DrivenFakeClient {
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    client: JoinHandle<FakeClientExit>,
}

impl DrivenFakeClient {
    fn start(directory: &Path, script: &str, args: &[&str]) -> Self {
        let text = format!("only = \"pretend\"\n{script}");
        let scenario = scenario::parse(&text, Path::new("test.toml")).unwrap();
        let args: Vec<OsString> = BYPASSING.iter().chain(args).map(OsString::from).collect();
        let options = FakeClientOptions {
            program: PathBuf::new(),
            pid: 7,
            project: directory.join("project"),
            home: directory.join("home"),
            env: Vec::new(),
            position: Some(directory.join("position")),
            flags: FakeClientFlags::parse(&args).unwrap(),
        };
        ralph_sys::fs::create_private_dir(&options.project).unwrap();
        let (input, to) = std::io::pipe().unwrap();
        let (from, mut output) = std::io::pipe().unwrap();
        let client = std::thread::spawn(move || {
            let mut say = |line: &[u8]| output.write_all(line).is_ok();
            FakeClient::new(&scenario, options, &mut say).run(input).unwrap()
        });
        let mut driven = Self { to: Some(to), from: BufReader::new(from), client };
        let hooks = json!({"Stop": [{"matcher": null, "hookCallbackIds": ["stop"]}]});
        driven.order("initialize", &json!({"hooks": hooks}));
        driven
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    fn order(&mut self, kind: &str, more: &Value) {
        let mut request = more.clone();
        request["subtype"] = json!(kind);
        self.say(&json!({"type": "control_request", "request_id": kind, "request": request}));
    }

    fn prompt(&mut self, text: &str) {
        self.say(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    fn answer(&mut self, asked: &Value, answer: &Value) {
        let id = &asked["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        self.say(&json!({"type": "control_response", "response": response}));
    }

    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).ok()
    }

    /// Skips to the next line of this kind.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let line = self.hear().unwrap();
            if summarize_line(&line).starts_with(kind) {
                return line;
            }
        }
    }

    /// Answers every stop with `answer`, and returns the remaining lines and how the client ends.
    fn rest(mut self, answer: &Value) -> (Vec<String>, FakeClientExit) {
        let mut lines = Vec::new();
        while let Some(line) = self.hear() {
            lines.push(summarize_line(&line));
            match line["type"].as_str() {
                Some("control_request") => self.answer(&line, answer),
                Some("result") => drop(self.to.take()),
                _ => {}
            }
        }
        (lines, self.client.join().unwrap())
    }
}

const BYPASSING: [&str; 2] = ["--permission-mode", crate::transcript::BYPASS_MODE];

/// A line in one or two words.
fn summarize_line(line: &Value) -> String {
    let text = line["message"]["content"][0]["text"].as_str();
    match line["type"].as_str().unwrap() {
        "control_request" => line["request"]["callback_id"].as_str().unwrap().to_owned(),
        "control_response" => {
            format!("answer {}", line["response"]["request_id"].as_str().unwrap())
        }
        "result" => format!("result {}", line["terminal_reason"].as_str().unwrap()),
        "system" => line["subtype"].as_str().unwrap().to_owned(),
        other => format!("{other} {}", text.unwrap_or_default()).trim_end().to_owned(),
    }
}

#[test]
fn crashes_at_the_scripted_point() {
    let mut story = Vec::new();
    for point in ["answer", "tools", "stop", "result", "idle"] {
        let directory = tempfile::tempdir().unwrap();
        let script = format!(
            "[[step]]\nagent = 'a'\ncrash = '{point}'\ntools = [{{ write = 'made', text = 'x' }}]\n\
             [[step]]\nagent = 'b'\ncrash = {{ at = '{point}', exit = 3 }}"
        );
        let mut client = DrivenFakeClient::start(directory.path(), &script, &[]);
        client.prompt("go");
        let (lines, exit) = client.rest(&json!({}));
        let made = directory.path().join("project/made").exists();
        story.push(format!("{point}: {}, {exit:?}, made: {made}", lines.join(", ")));
    }
    insta::assert_snapshot!(story.join("\n"), @"
    answer: answer initialize, init, Killed, made: false
    tools: answer initialize, init, assistant a, assistant, Killed, made: true
    stop: answer initialize, init, assistant a, assistant, user, assistant b, stop, Code { code: 3, stderr: None }, made: true
    result: answer initialize, init, assistant a, assistant, user, assistant b, stop, Code { code: 3, stderr: None }, made: true
    idle: answer initialize, init, assistant a, assistant, user, assistant b, stop, result completed, Code { code: 3, stderr: None }, made: true
    ");
}

#[test]
fn a_hanging_model_can_be_interrupted_and_a_hanging_client_cannot() {
    let directory = tempfile::tempdir().unwrap();
    let script = "[[step]]\nhang = 'answer'\n[[step]]\nagent = 'b'\nhang = 'client'";
    let mut client = DrivenFakeClient::start(directory.path(), script, &[]);
    client.prompt("go");
    client.until("init");
    client.order("interrupt", &json!({}));
    let mut lines =
        vec![summarize_line(&client.hear().unwrap()), summarize_line(&client.hear().unwrap())];
    lines.push(summarize_line(&client.hear().unwrap()));
    client.prompt("again");
    let (rest, exit) = client.rest(&json!({}));
    insta::assert_snapshot!(
        format!("{}\n{}\n{exit:?}", lines.join(", "), rest.join(", ")),
        @"
    answer interrupt, user [Request interrupted by user], result aborted_streaming
    init
    Never
    "
    );
}

/// `get_context_usage`, `get_session_cost` and `set_model` are answered while a stop waits for its hook.
#[test]
fn control_requests_are_answered_while_a_stop_hook_runs() {
    let directory = tempfile::tempdir().unwrap();
    let script = "[[step]]\nagent = 'a'\nusage = { input = 250000 }\n[[step]]\nagent = 'b'";
    let mut client = DrivenFakeClient::start(directory.path(), script, &["--model", "sonnet"]);
    client.prompt("go");
    let stop = client.until("stop");
    client.order("get_context_usage", &json!({}));
    client.order("get_session_cost", &json!({}));
    client.order("set_model", &json!({"model": "opus"}));
    client.order("sing", &json!({}));
    let mut heard = Vec::new();
    for kind in ["get_context_usage", "get_session_cost", "set_model", "sing"] {
        heard.push(client.until(&format!("answer {kind}"))["response"].take());
    }
    let context = &heard[0]["response"];
    let context = (&context["totalTokens"], &context["maxTokens"], &context["percentage"]);
    let held = json!({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "C"}});
    client.answer(&stop, &held);
    let model = client.until("assistant")["message"]["model"].take();
    insta::assert_snapshot!(
        format!("{context:?}\n{}\n{}\n{}\nthen {model}", heard[1]["response"]["text"].as_str().unwrap(), heard[2], heard[3]),
        @r#"
    (Number(250000), Number(1000000), Number(25))
    Total cost:            $0.5002
    Usage by model:
         claude-sonnet-5-5:  250000 input, 20 output, 0 cache read, 0 cache write ($0.5002)
    {"request_id":"set_model","response":{"model":"claude-opus-5-5"},"subtype":"success"}
    {"error":"Unsupported control request subtype: sing","request_id":"sing","subtype":"error"}
    then "claude-opus-5-5"
    "#
    );
}

#[test]
fn the_cap_in_flag_settings_overrides_the_projects() {
    let directory = tempfile::tempdir().unwrap();
    let claude = directory.path().join("project/.claude");
    ralph_sys::fs::create_private_dir(&claude).unwrap();
    let env = |cap: &str| json!({"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": cap}}).to_string();
    ralph_sys::fs::overwrite(&claude.join("settings.json"), env("1").as_bytes()).unwrap();
    let script = "[[step]]\nagent = 'still here'\nrepeat = 'forever'";
    let settings = env("2");
    let mut client = DrivenFakeClient::start(directory.path(), script, &["--settings", &settings]);
    client.prompt("go");
    let (lines, exit) = client.rest(&json!({"decision": "block", "reason": "no"}));
    insta::assert_snapshot!(format!("{}\n{exit:?}", lines.join("\n")), @"
    answer initialize
    init
    assistant still here
    stop
    user Stop hook feedback:
    no
    notification
    assistant still here
    stop
    user Stop hook feedback:
    no
    assistant still here
    stop
    user Stop hook feedback:
    no
    informational
    notification
    result completed
    Code { code: 0, stderr: None }
    ");
}

#[test]
fn a_rate_limit_is_reported_before_its_error() {
    let directory = tempfile::tempdir().unwrap();
    let script = "[[step]]\nagent = 'near'\nrate_limit = { status = 'allowed_warning', type = 'seven_day', used_percent = 91 }\n\
        [[step]]\nrate_limit = { resets_in_ms = 60000 }";
    let mut client = DrivenFakeClient::start(directory.path(), script, &[]);
    let mut infos = Vec::new();
    for _ in 0..2 {
        client.prompt("go");
        let before = ralph_sys::clock::now_ms();
        let mut info = client.until("rate_limit_event")["rate_limit_info"].take();
        if let Some(at) = info["resetsAt"].as_u64() {
            let wait = at * 1000 - before;
            assert!((60_000..70_000).contains(&wait), "{wait}");
            info["resetsAt"] = json!("in a minute");
        }
        infos.push(info.to_string());
        if infos.len() == 1 {
            let stop = client.until("stop");
            client.answer(&stop, &json!({}));
        }
        let result = client.until("result");
        infos.push(format!("{} {}", summarize_line(&result), result["api_error_status"]));
    }
    insta::assert_snapshot!(infos.join("\n"), @r#"
    {"rateLimitType":"seven_day","status":"allowed_warning","utilization":0.91}
    result completed null
    {"rateLimitType":"five_hour","resetsAt":"in a minute","status":"rejected"}
    result api_error 429
    "#);
}

/// As recorded with the client: it asks once more, and the second refusal ends the turn with an error.
#[test]
fn a_refusal_is_asked_about_once() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "[[step]]\nagent = 'no'\nstop_reason = 'refusal'\nrepeat = 3\n[[step]]\nagent = 'yes'";
    let mut client = DrivenFakeClient::start(directory.path(), script, &[]);
    let mut story = Vec::new();
    for _ in 0..2 {
        client.prompt("go");
        loop {
            let line = client.hear().unwrap();
            match line["type"].as_str() {
                Some("control_request") => client.answer(&line, &json!({})),
                Some("control_response") => continue,
                _ => {}
            }
            let words = summarize_line(&line);
            let words: String = words.chars().take(47).collect();
            story.push(words.replace('\n', " "));
            if line["type"] == "result" {
                let keys = ["subtype", "is_error", "stop_reason", "safety_stops", "num_turns"];
                story.push(keys.map(|key| line[key].to_string()).join(" "));
                break;
            }
        }
    }
    insta::assert_snapshot!(story.join("\n"), @r#"
    init
    assistant no
    informational
    user Your response above was stopped by a safet
    assistant no
    model_refusal_no_fallback
    assistant API Error: Opus 5.5's safeguards flag
    result api_error
    "success" true "refusal" 2 2
    init
    assistant no
    informational
    user Your response above was stopped by a safet
    assistant yes
    stop
    result completed
    "success" false "end_turn" 1 2
    "#);
}

/// One process runs a thousand turns with a stop and a result each, and the totals continue after a resume.
#[test]
fn totals_are_correct_after_a_thousand_turns() {
    let directory = tempfile::tempdir().unwrap();
    let script = "[[step]]\nagent = 'a'\nrepeat = 1000";
    let mut client = DrivenFakeClient::start(directory.path(), script, &["--session-id", "s"]);
    let mut last = Value::Null;
    for _ in 0..1000 {
        client.prompt("go");
        let stop = client.until("stop");
        client.answer(&stop, &json!({}));
        last = client.until("result");
    }
    drop(client.to.take());
    let (_, exit) = client.rest(&json!({}));
    assert_eq!(exit, FakeClientExit::Code { code: 0, stderr: None });
    let mut next = DrivenFakeClient::start(directory.path(), script, &["--resume", "s"]);
    next.prompt("go");
    let stop = next.until("stop");
    next.answer(&stop, &json!({}));
    let resumed = next.until("result");
    let shown = |line: &Value| {
        let tokens = &line["modelUsage"]["claude-opus-5-5"]["inputTokens"];
        format!(
            "{} {} {tokens} {:.4}",
            line["result_index"],
            line["result"],
            line["total_cost_usd"].as_f64().unwrap()
        )
    };
    insta::assert_snapshot!(format!("{}\n{}", shown(&last), shown(&resumed)), @r#"
    999 "a" 100000 0.8000
    0 "done" 100100 0.8008
    "#);
}
