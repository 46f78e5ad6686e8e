//! `ralph lab model`: serves the model of a scenario until it is interrupted.

use crate::sandbox::Sandbox;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

const SCENARIO: &str = "\
[[step]]
person = \"Build it\"
[[step]]
agent = \"I begin.\"
tools = [{ write = \"out.txt\", text = \"x\" }]
[[step]]
person = \"And?\"
[[step]]
agent = \"Done.\"
";

fn post_message(address: &str, text: &str) -> String {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer: serde_json::Value = serde_json::from_str(body).unwrap();
    answer["content"].to_string()
}

#[test]
fn a_model_is_served_until_it_is_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.write("scenario.toml", SCENARIO);
    let mut child = sandbox
        .command()
        .args(["model", "scenario.toml"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let header: Vec<String> = lines.by_ref().take(3).collect();
    let address = header[0].strip_prefix("ANTHROPIC_BASE_URL=http://").unwrap();
    let answers = [
        post_message(address, "Build it"),
        post_message(address, "And?"),
        post_message(address, "More?"),
    ];
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(address).is_err());
    let shown = format!("{}\n--\n{}\n--\n{stderr}", header.join("\n"), answers.join("\n"))
        .replace(address, "127.0.0.1:PORT");
    insta::with_settings!({filters => vec![(r"\d\d:\d\d:\d\d", "[time]")]}, {
        insta::assert_snapshot!(sandbox.normalize(&shown), @r#"
        ANTHROPIC_BASE_URL=http://127.0.0.1:PORT
        ANTHROPIC_API_KEY=sk-ant-dummy-000000000000000000000000
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
        --
        [{"text":"I begin.","type":"text"},{"id":"toolu_sim_0001_00","input":{"content":"x","file_path":"$ROOT/project/out.txt"},"name":"Write","type":"tool_use"}]
        [{"text":"Done.","type":"text"}]
        [{"text":"(The scenario has no more turns.)","type":"text"}]
        --
        serving `scenario` until Ctrl-C
        [time]     1  main        1 messages  "I begin." Write
        [time]     2  main        1 messages  "Done."
        [time]     3  main        1 messages  "(The scenario has no more turns.)"
        "#);
    });
}

#[test]
fn unusable_scenarios_and_ports_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.write("mistaken.toml", "[[step]]\nperson = \"x\"\nfoo = 1\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    sandbox.write("scenario.toml", SCENARIO);
    let answers = [
        sandbox.ralph(["model", "mistaken.toml"]),
        sandbox.ralph(["model", "none.toml"]),
        sandbox.ralph(["model", "scenario.toml", "--port", &port]),
        sandbox.ralph(["model", "scenario.toml", "--project", "none"]),
    ];
    let shown: Vec<_> = answers.iter().map(|ended| sandbox.normalize(&ended.to_string())).collect();
    insta::assert_snapshot!(shown.join("\n").replace(&port, "PORT"), @r"
    exit 1
    --- stderr
    error: unknown key `foo`
     --> mistaken.toml:3:1
      |
    3 | foo = 1
      | ^^^
      |
      = hint: expected one of `person`, `session`, `screen`, `keys`, `shell`, `asks`, `answer`, `agent`, `tools`, `usage`, `error`, `delay_ms`, `repeat`, `stop_reason`, `interrupt`, `crash`, `hang`, `rate_limit`

    error: the scenario is invalid

    exit 1
    --- stderr
    error: the scenario cannot be read
      caused by: cannot read `none.toml`
      caused by: No such file or directory (os error 2)

    exit 1
    --- stderr
    error: cannot serve the model
      caused by: cannot listen on 127.0.0.1, port PORT
      caused by: Address already in use (os error 98)
      hint: the port may be in use; omit `--port` to use any free port

    exit 1
    --- stderr
    error: there is no directory `none`
      hint: give another one with `--project DIR`
    ");
}
