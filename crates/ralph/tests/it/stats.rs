//! `ralph stats` and `ralph export` over real runs.

use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, eventually, run_command, write_file};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;

const POLICY: &str = "\
# mine
[run]
max_iterations = 9 # enough

[[gate]]
name = \"types\" # quick
run = [\"sh\", \"types.sh\"]
";

/// A project whose gate fails until `done` exists, and `count` runs that are held once each and then end.
fn sandbox_with_runs(count: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("types.sh", "grep -q typed main.sh || { echo 'main.sh:1: no type'; exit 1; }\n");
    sandbox.write("main.sh", "echo hello\n");
    sandbox.write("ralph.toml", POLICY);
    sandbox.commit();
    sandbox.approve_policy();
    for number in 0..count {
        sandbox.write("main.sh", format!("echo hello {number}\n"));
        sandbox.start_run(["--goal-file", "-"]);
        sandbox.write("main.sh", format!("echo goodbye {number}\n"));
        assert!(sandbox.send_stop(SESSION, "").is_block());
        sandbox.write("main.sh", format!("echo goodbye {number} # typed\n"));
        let ended = sandbox.send_stop(SESSION, "");
        assert!(!ended.is_block(), "{number}");
    }
    sandbox
}

fn read_policy(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap()
}

fn stats(sandbox: &Sandbox, args: &[&str]) -> String {
    let outcome = sandbox.ralph([&["stats"], args].concat());
    let text = sandbox.normalize(&outcome.to_string());
    // How long the gates take, and so whether they count as slow, depends on the machine.
    let sections = text.split("\n\n").filter(|section| !section.starts_with("Slow gates"));
    sections.collect::<Vec<_>>().join("\n\n")
}

/// Without what differs from one run to the next.
fn mask(text: &str) -> String {
    const MASKS: [(&str, &str); 4] = [
        (r"\b\d+ (ms|s)\b", "[duration]"),
        (r"\d{4}-W\d\d", "[week]"),
        (r"\d{4}-\d\d-\d\d", "[date]"),
        (r"\[run\]  ", "[run] "),
    ];
    MASKS.iter().fold(text.to_string(), |text, (pattern, mask)| {
        Regex::new(pattern).unwrap().replace_all(&text, *mask).into_owned()
    })
}

#[test]
fn few_runs_are_listed() {
    let sandbox = sandbox_with_runs(0);
    assert_snapshot!(stats(&sandbox, &[]), @r"
    exit 0
    --- stdout
    No runs yet
    ");
    let sandbox = sandbox_with_runs(2);
    assert_snapshot!(mask(&stats(&sandbox, &[])), @"
    exit 0
    --- stdout
    2 runs ended, 2 verified
    With fewer than 10 ended runs, they are listed instead of compared. `types` holds agents most.

    Runs
      Run   State     Goal            Held     Cost     Ended
      [run] verified  make it work  1 of 2  unknown  just now
      [run] verified  make it work  1 of 2  unknown  just now
      → `ralph why RUN` explains each of them

    What holds agents: 2 of 4 stops were held
      Requirement  Stops  Share  Until met  Waived  False holds
      types            2  100 %          1       0            0
      → `ralph why [run]` shows how `types` held an agent
    ");
}

/// Ten runs are compared, a proposal names its evidence, and applying it changes one value and is measured.
#[test]
fn a_proposal_is_shown_applied_and_measured() {
    let sandbox = sandbox_with_runs(10);
    assert_snapshot!(mask(&stats(&sandbox, &[])), @r#"
    exit 0
    --- stdout
    10 runs ended, 10 verified
    `types` holds agents most.

    What holds agents: 10 of 20 stops were held
      Requirement  Stops  Share  Until met  Waived  False holds
      types           10  100 %          1       0            0
      → `ralph why [run]` shows how `types` held an agent

    Cost of a verified run, by week
      Week      Median  Middle half  Verified      Held  Spent
      [week]                       10 of 10  10 of 20     $0
      → `ralph stats --week [week]` shows one week

    Proposals: nothing is applied unasked
    1. Run `types` when a task is completed
       It held 10 of 10 held stops (100 %) in 10 runs, and was met at the very next stop 10 of 10 times.
       Saves: up to 10 held stops. Costs: [duration] after each task.
         [[gate]]
         name = "types"
         on = ["stop", "task"]
      → `ralph stats --apply N` shows the change and asks
    "#);
    let page: Value = serde_json::from_str(&sandbox.ralph(["stats", "--json"]).stdout).unwrap();
    let counts = ["ended", "verified", "open", "sessions"].map(|key| page[key].to_string());
    assert_snapshot!(counts.join(" "), @"10 10 0 0");

    // A hint keeps the options that chose the runs, because the numbers depend on them.
    let all = sandbox.ralph(["stats", "--all", "--since", "30d"]).stdout;
    assert!(all.contains("→ `ralph stats --all --since 2592000s --apply N` shows"), "{all}");
    assert_snapshot!(stats(&sandbox, &["--all", "--apply", "9"]), @r"
    exit 1
    --- stderr
    error: there is no proposal 9
      hint: `ralph stats --all` lists the proposals
    ");
    assert_snapshot!(stats(&sandbox, &["--week", "2026-W99"]), @r"
    exit 1
    --- stderr
    error: `--week` cannot be `2026-W99`
      hint: expected an ISO week such as `2026-W46`, from W01 to W53
    ");
    // Nothing is applied without an answer.
    assert_snapshot!(stats(&sandbox, &["--apply", "1"]), @r#"
    exit 3
    --- stdout
    Run `types` when a task is completed
    It held 10 of 10 held stops (100 %) in 10 runs, and was met at the very next stop 10 of 10 times.
    --- $ROOT/project/ralph.toml
    +++ $ROOT/project/ralph.toml
    @@ -5,3 +5,4 @@
     [[gate]]
     name = "types" # quick
     run = ["sh", "types.sh"]
    +on = ["stop", "task"]


    --- stderr
    error: not a terminal, so I can't ask; nothing was written
      hint: paste `ralph stats --apply 1 --yes`
    "#);
    assert_eq!(read_policy(&sandbox), POLICY);
    assert_snapshot!(stats(&sandbox, &["--apply", "9"]), @r"
    exit 1
    --- stderr
    error: there is no proposal 9
      hint: `ralph stats` lists the proposals
    ");
    assert_snapshot!(stats(&sandbox, &["--apply", "1", "--yes"]), @r#"
    exit 0
    --- stdout
    Run `types` when a task is completed
    It held 10 of 10 held stops (100 %) in 10 runs, and was met at the very next stop 10 of 10 times.
    --- $ROOT/project/ralph.toml
    +++ $ROOT/project/ralph.toml
    @@ -5,3 +5,4 @@
     [[gate]]
     name = "types" # quick
     run = ["sh", "types.sh"]
    +on = ["stop", "task"]

    applied; the policy changed, so its approval lapsed: `ralph trust` shows it and asks
    `ralph stats` compares the runs before and after
    "#);
    assert_snapshot!(read_policy(&sandbox), @r#"
    # mine
    [run]
    max_iterations = 9 # enough

    [[gate]]
    name = "types" # quick
    run = ["sh", "types.sh"]
    on = ["stop", "task"]
    "#);
    let applied = fs::read_to_string(sandbox.ralph_home("deck/applied.jsonl")).unwrap();
    insta::with_settings!({filters => vec![(r#""at_ms":\d+"#, r#""at_ms":0"#)]}, {
        assert_snapshot!(sandbox.normalize(&applied), @r#"{"v":1,"at_ms":0,"project":"$ROOT/project","kind":"earlier","gate":"types","title":"Run `types` when a task is completed","file":"$ROOT/project/ralph.toml","key":"on","value":"[\"stop\", \"task\"]"}"#);
    });
    let after = stats(&sandbox, &[]);
    let measured = after.split("Applied proposals").nth(1).unwrap();
    assert_snapshot!(mask(measured), @r"
    , measured
    Run `types` when a task is completed, on [date] (10 runs before, 0 since)
      not enough runs to compare yet
    ");
    // A proposal that was applied is not made again.
    assert!(!after.contains("Proposals:"), "{after}");
}

/// An agent may look at the statistics, but not change the policy that holds it.
#[test]
fn an_agent_may_not_apply_a_proposal() {
    let sandbox = sandbox_with_runs(0).env("CLAUDECODE", "1");
    assert_snapshot!(stats(&sandbox, &["--apply", "1", "--yes"]), @r"
    exit 1
    --- stderr
    error: an agent may not change its own policy
      hint: ask a person to do this in their own terminal
    ");
    assert!(stats(&sandbox, &[]).starts_with("exit 0"));
}

#[test]
fn scopes_are_checked() {
    let sandbox = sandbox_with_runs(1);
    assert_snapshot!(stats(&sandbox, &["--week", "yesterday"]), @r"
    exit 1
    --- stderr
    error: `--week` cannot be `yesterday`
      hint: expected an ISO week such as `2026-W46`, from W01 to W53
    ");
    assert_snapshot!(stats(&sandbox, &["--since", "soon"]), @r"
    exit 1
    --- stderr
    error: `--since` cannot be `soon`
      hint: expected a duration such as `90m` or `8h`
    ");
    assert_snapshot!(stats(&sandbox, &["--week", "2001-W01"]), @r"
    exit 0
    --- stdout
    No runs in this time
    ");
    let page: Value =
        serde_json::from_str(&sandbox.ralph(["stats", "--week", "--json"]).stdout).unwrap();
    assert_eq!(page["ended"], 1, "{page}");
}

#[test]
fn metrics_are_printed_for_prometheus() {
    let sandbox = sandbox_with_runs(1);
    let filters = vec![(r#"(kind="took"\}) [\d.]+"#, "$1 [seconds]")];
    insta::with_settings!({filters => filters}, {
        assert_snapshot!(sandbox.ralph(["export", "prometheus"]), @r#"
        exit 0
        --- stdout
        # HELP ralph_runs Runs by their state.
        # TYPE ralph_runs gauge
        ralph_runs{state="verified"} 1
        # HELP ralph_runs_active Runs that have not ended.
        # TYPE ralph_runs_active gauge
        ralph_runs_active 0
        # HELP ralph_gated_sessions Sessions without a run that gates held.
        # TYPE ralph_gated_sessions gauge
        ralph_gated_sessions 0
        # HELP ralph_questions_open Runs that wait for an answer of a person.
        # TYPE ralph_questions_open gauge
        ralph_questions_open 0
        # HELP ralph_stops Decided stops of runs, by whether the agent was held.
        # TYPE ralph_stops gauge
        ralph_stops{outcome="held"} 1
        ralph_stops{outcome="let_go"} 1
        # HELP ralph_spend_usd What runs cost, in US dollars, as far as it is known.
        # TYPE ralph_spend_usd gauge
        ralph_spend_usd 0.000000
        # HELP ralph_tokens Tokens of runs that `ralph run` drives.
        # TYPE ralph_tokens gauge
        ralph_tokens 0
        # HELP ralph_gate_results Results of gates.
        # TYPE ralph_gate_results gauge
        ralph_gate_results{project="project",gate="types",result="passed"} 1
        ralph_gate_results{project="project",gate="types",result="failed"} 1
        ralph_gate_results{project="project",gate="types",result="no_result"} 0
        # HELP ralph_gate_executions Results of gates by whether the gate ran or its result was known already.
        # TYPE ralph_gate_executions gauge
        ralph_gate_executions{project="project",gate="types",source="executed"} 2
        ralph_gate_executions{project="project",gate="types",source="cached"} 0
        # HELP ralph_gate_seconds Time of gates: what they took, and what known results saved.
        # TYPE ralph_gate_seconds gauge
        ralph_gate_seconds{project="project",gate="types",kind="took"} [seconds]
        ralph_gate_seconds{project="project",gate="types",kind="saved"} 0.000
        # HELP ralph_gate_flaky_results Results of gates that differ from another one on the same content.
        # TYPE ralph_gate_flaky_results gauge
        ralph_gate_flaky_results{project="project",gate="types"} 0
        "#);
    });
}

/// A collector on loopback: it takes requests and passes on their path and body.
fn start_collector(status: &'static str) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap().to_string();
            let mut length = 0;
            loop {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if line == "\r\n" {
                    break;
                }
                let (name, value) = line.split_once(": ").unwrap();
                match name.to_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().unwrap(),
                    "content-type" => assert_eq!(value.trim(), "application/json"),
                    "expect" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap(),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            if sender.send((path, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// The spans of a trace request as an indented list, so that the whole tree can be compared.
fn span_tree(body: &Value) -> String {
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let mut out = String::new();
    let mut open = vec![(None, 0)];
    while let Some((parent, depth)) = open.pop() {
        for span in spans.iter().rev().filter(|span| span.get("parentSpanId") == parent) {
            open.push((span.get("spanId"), depth + 1));
        }
        if let Some(id) = parent {
            let span = spans.iter().find(|span| span.get("spanId") == Some(id)).unwrap();
            let attributes = span["attributes"].as_array().unwrap().iter();
            let attributes: Vec<_> = attributes
                .map(|one| {
                    let (_, value) = one["value"].as_object().unwrap().iter().next().unwrap();
                    format!("{}={value}", one["key"].as_str().unwrap())
                })
                .collect();
            let name = span["name"].as_str().unwrap();
            let status = span["status"]["code"].as_u64().unwrap_or(0);
            let indent = "  ".repeat(depth - 1);
            out.push_str(&format!("{indent}{name} [{status}] {}\n", attributes.join(" ")));
        }
    }
    out
}

/// Every run that ends is sent by a process of its own, once a collector is configured by the person.
#[test]
fn a_run_that_ends_is_sent_to_the_collector() {
    let (address, received) = start_collector("200 OK");
    let sandbox = sandbox_with_runs(0).env("DEPLOY_TOKEN", "correct-horse-battery");
    write_file(&sandbox.ralph_home("config.toml"), format!("[export]\notlp = \"{address}/\"\n"));
    sandbox.write("main.sh", "echo correct-horse-battery\n");
    let mut command = sandbox.command();
    command.args(["start", "--json", "--session", SESSION, "--goal-file", "-"]);
    let started = run_command(&mut command, b"use correct-horse-battery \x1b[31m");
    assert_eq!(started.code, Some(0), "{started}");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    sandbox.write("main.sh", "echo hello # typed\n");
    assert!(!sandbox.send_stop(SESSION, "").is_block());
    let (path, trace) = received.recv().unwrap();
    assert_eq!(path, "/v1/traces");
    assert!(!trace.to_string().contains("horse"), "{trace}");
    assert_snapshot!(mask(&sandbox.normalize(&span_tree(&trace))), @r#"
    ralph.run [1] ralph.run.id="[run]" ralph.run.title="use [redacted]" ralph.run.status="verified" ralph.project.name="project" ralph.host="claude" ralph.run.iterations="1"
      ralph.session [0] ralph.session.id="5999882c-e786-462c-84d4-07d1c65b5e76"
        ralph.stop [0] ralph.stop.seq="1" ralph.stop.rule="block" ralph.stop.outcome="held" ralph.stop.because="2 not met" ralph.iteration="1" ralph.requirements.total="5" ralph.requirements.open="2"
          ralph.gate types [2] ralph.gate.name="types" ralph.gate.site="tree" ralph.gate.outcome="failed" ralph.gate.cached=false ralph.gate.findings="1"
        ralph.stop [0] ralph.stop.seq="2" ralph.stop.rule="verified" ralph.stop.outcome="verified" ralph.stop.because="all 5 requirements are met after 1 iteration and [duration]; 1 check passes on the new code; 1 check fails without the change" ralph.iteration="1" ralph.requirements.total="5" ralph.requirements.open="0"
          ralph.gate types [0] ralph.gate.name="types" ralph.gate.site="tree" ralph.gate.outcome="passed" ralph.gate.cached=false ralph.gate.findings="0"
    "#);
    let (path, metrics) = received.recv().unwrap();
    assert_eq!(path, "/v1/metrics");
    let names = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let names: Vec<_> = names.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_snapshot!(names.join("\n"), @r"
    ralph.runs
    ralph.runs_active
    ralph.gated_sessions
    ralph.questions_open
    ralph.stops
    ralph.spend_usd
    ralph.tokens
    ralph.gate_results
    ralph.gate_executions
    ralph.gate_seconds
    ralph.gate_flaky_results
    ");
    // Sent again by hand, the trace has the same spans.
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["export", "otlp"]).to_string()), @r"
    exit 0
    --- stdout
    sent [run] in 2 requests
    ");
    let (_, again) = received.recv().unwrap();
    assert_eq!(again, trace);
    assert_eq!(sandbox.status()["faults"], serde_json::json!([]));
}

#[test]
fn a_collector_that_refuses_is_a_fault() {
    let (address, _received) = start_collector("503 Unavailable");
    let sandbox = sandbox_with_runs(0);
    write_file(&sandbox.ralph_home("config.toml"), format!("[export]\notlp = \"{address}\"\n"));
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("main.sh", "echo hello # typed\n");
    assert!(!sandbox.send_stop(SESSION, "").is_block());
    let fault = eventually(|| {
        let faults = sandbox.status()["faults"].as_array().unwrap().clone();
        faults.first().map(|fault| format!("{}: {}", fault["kind"], fault["what"]))
    });
    assert_snapshot!(fault, @r#""notification": "it was not exported: the collector did not take the run: `curl` exited with code 22: curl: (22) The requested URL returned error: 503""#);
    let outcome = sandbox.ralph(["export", "otlp", "--to", &address]);
    assert_snapshot!(sandbox.normalize(&outcome.to_string()), @r"
    exit 1
    --- stderr
    error: the collector did not take the run: `curl` exited with code 22: curl: (22) The requested URL returned error: 503
      hint: `--dry-run` prints what would be sent
    ");
}

/// A repository cannot send runs anywhere, and without a collector nothing is sent.
#[test]
fn only_the_person_chooses_a_collector() {
    let sandbox = sandbox_with_runs(1);
    assert_snapshot!(sandbox.ralph(["export", "otlp"]), @r"
    exit 1
    --- stderr
    error: no collector is configured
      hint: use `--to http://127.0.0.1:4318`, or set `[export] otlp` in your own `config.toml`
    ");
    sandbox.write("ralph.toml", "[export]\notlp = \"http://127.0.0.1:9\"\n");
    assert!(sandbox.ralph(["config"]).stderr.contains("`[export]` cannot be set by a project"));
    for address in ["ftp://x", "http://", "127.0.0.1:4318", "http://a\"b"] {
        let outcome = sandbox.ralph(["export", "otlp", "--to", address]);
        assert_eq!(outcome.code, Some(1), "{address}");
    }
}

/// What is sent of a driven run, with its sessions.
#[test]
fn a_driven_run_has_its_sessions() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Done.\"
",
    );
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let sent = runner.sandbox.ralph(["export", "otlp", "--dry-run"]);
    let trace: Value = serde_json::from_str(sent.stdout.lines().next().unwrap()).unwrap();
    insta::with_settings!({filters => vec![
        (r"[0-9a-f]{8}-[0-9a-f-]{27}", "[session]"),
        (r"\b\d+ (ms|s)\b", "[duration]"),
    ]}, {
        assert_snapshot!(runner.sandbox.normalize(&span_tree(&trace)), @r#"
        ralph.run [1] ralph.run.id="[run]" ralph.run.title="Let main.sh say goodbye." ralph.run.status="verified" ralph.project.name="project" ralph.host="claude" ralph.run.iterations="0" ralph.run.cost_usd=0.0016 ralph.run.cost_basis="reported" ralph.run.tokens="240"
          ralph.session [0] ralph.session.id="[session]"
            ralph.stop [0] ralph.stop.seq="3" ralph.stop.rule="final-look" ralph.stop.outcome="let go" ralph.stop.because="all 5 requirements are met after 0 iterations and [duration]" ralph.iteration="0" ralph.requirements.total="5" ralph.requirements.open="0"
              ralph.gate tests [0] ralph.gate.name="tests" ralph.gate.site="tree" ralph.gate.outcome="passed" ralph.gate.cached=false ralph.gate.findings="0"
            ralph.stop [0] ralph.stop.seq="5" ralph.stop.rule="verified" ralph.stop.outcome="verified" ralph.stop.because="all 6 requirements are met after 0 iterations and [duration]; 1 check passes on the new code; 1 check fails without the change" ralph.iteration="0" ralph.requirements.total="6" ralph.requirements.open="0"
              ralph.gate tests [0] ralph.gate.name="tests" ralph.gate.site="tree" ralph.gate.outcome="passed" ralph.gate.cached=true ralph.gate.findings="0"
              ralph.gate tests [0] ralph.gate.name="tests" ralph.gate.site="clean" ralph.gate.outcome="passed" ralph.gate.cached=false ralph.gate.findings="0"
        "#);
    });
}
