//! What judges cost: every call is paid for, however it ends.

use crate::judges::{JudgedProject, REVIEW, met};
use crate::prove::adder;
use crate::sandbox::{SESSION, eventually};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::process::Command;

/// A judge that never answers: the system accepts its connection, and nothing else happens.
struct SilentJudge {
    project: JudgedProject,
    _listener: TcpListener,
}

impl SilentJudge {
    fn new() -> Self {
        Self::with_judges("")
    }

    /// Beside others, which are asked first.
    fn with_judges(others: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let judges = format!(
            "{others}[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = {{ http = \"http://{address}\", \
             key = \"REVIEW_KEY\", model = \"claude-sonnet-4-5\" }}\n"
        );
        let sandbox = adder().env("REVIEW_KEY", "review-key-0123456789abcdef");
        Self { project: JudgedProject::of(sandbox, &judges), _listener: listener }
    }

    /// A stop whose host waits only for a few seconds.
    fn stop_briefly(&self) -> String {
        let sandbox = &self.project.sandbox;
        let event = sandbox.stop_event(SESSION, "");
        let command = ["hook", "claude", "--deadline", "12s"];
        self.project.mask(&sandbox.ralph_with_input(command, event.as_bytes()).stderr)
    }

    /// The processes that ask the judge.
    fn workers(&self) -> Vec<u32> {
        let mark = self.project.sandbox.root().display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|process| {
            let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let environ = String::from_utf8_lossy(&read("environ")).into_owned();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let is_worker = environ.contains(&mark) && line.contains(" --site judge ");
            is_worker.then(|| process.file_name().to_str()?.parse().ok()).flatten()
        });
        pids.collect()
    }

    fn spending(&self, run: &str) -> Value {
        let status = self.project.sandbox.status();
        let runs = status["runs"].as_array().unwrap();
        runs.iter().find(|one| one["run"] == run).unwrap()["spending"].clone()
    }

    /// The cost, the total and the estimate of each line of the judge in the ledger of the day.
    fn ledger_lines(&self) -> Vec<[u64; 3]> {
        let files = self.project.sandbox.read_home();
        let files = files.iter().filter(|(path, _)| path.to_string_lossy().contains("spend"));
        let lines = files.flat_map(|(_, bytes)| bytes.split(|byte| *byte == b'\n'));
        let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let judged = lines.filter(|line| line["source"] == "judge");
        let fields = ["micro_usd", "reached_micro_usd", "open_micro_usd"];
        judged.map(|line| fields.map(|name| line[name].as_u64().unwrap_or(0))).collect()
    }

    fn end(&self, run: &str) {
        self.project.sandbox.ralph(["cancel", run]);
        self.project.sandbox.ralph(["gate", "wait", run, "--timeout", "1m"]);
    }
}

/// R-K1c: a call is booked at its estimate before it is made, so an agent that kills the worker does not get it for free.
#[test]
fn a_killed_worker_leaves_its_call_billed() {
    let judge = SilentJudge::new();
    let run = judge.project.start();
    judge.stop_briefly();
    let estimate = match judge.ledger_lines()[..] {
        [[0, 0, estimate]] if estimate > 1500 => estimate,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(judge.spending(&run), Value::Null, "the call may still cost less");
    let workers = judge.workers();
    assert_eq!(workers.len(), 1, "{workers:?}");
    let killed = Command::new("kill").args(["-9", &workers[0].to_string()]).status().unwrap();
    assert!(killed.success());
    eventually(|| judge.workers().is_empty().then_some(()));
    judge.stop_briefly();
    // 3 dollars for a million tokens.
    assert_eq!(
        judge.spending(&run),
        json!({ "agent_usd": null, "judges_usd": estimate as f64 / 1e6, "judges_tokens": estimate / 3 })
    );
    assert_eq!(
        judge.ledger_lines(),
        [[0, 0, estimate], [estimate, estimate, 0], [0, estimate, estimate]]
    );
    judge.end(&run);
    // The second call was ended by ralph, and is billed by its estimate as well.
    assert_eq!(judge.ledger_lines()[3..], [[estimate, 2 * estimate, 0]]);
}

/// Stops that wait for the same verdict share its worker, and the call goes on when another verdict is in.
#[test]
fn waiting_stops_share_a_worker() {
    let judge = SilentJudge::with_judges(REVIEW.replace("\"review\"", "\"style\"").as_str());
    judge.project.answer(&met());
    let run = judge.project.start();
    let held = [0; 3].map(|_| (judge.stop_briefly(), judge.workers().len()));
    assert_snapshot!(held[0].0, @"
    ralph: waiting for review; nothing else is open (run [run])

    Next: Wait for the judge with `ralph wait`
    Then stop again
    ");
    assert_eq!(held.clone().map(|(_, workers)| workers), [1, 1, 1]);
    assert_eq!(held[1..], [held[0].clone(), held[0].clone()]);
    let estimates = judge.ledger_lines().into_iter().filter(|[_, _, open]| *open > 0).count();
    assert_eq!((estimates, judge.project.calls()), (1, 1), "each judge was asked once");
    judge.end(&run);
}
