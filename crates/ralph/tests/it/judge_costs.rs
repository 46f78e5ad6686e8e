//! What judges cost: every call is paid for, however it ends.

use crate::judges::{JudgedProject, OTHER_SUM, REVIEW, met, unmet};
use crate::prove::adder;
use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, eventually};
use crate::scripted_endpoint::{ScriptedEndpoint, ScriptedResponse};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

/// The background processes that run gates or ask judges, by their site.
pub fn worker_pids(sandbox: &Sandbox, site: &str) -> Vec<u32> {
    let (mark, site) = (sandbox.root().display().to_string(), format!(" --site {site} "));
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| {
        let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let environ = String::from_utf8_lossy(&read("environ")).into_owned();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let is_worker = environ.contains(&mark) && line.contains(&site);
        is_worker.then(|| process.file_name().to_str()?.parse().ok()).flatten()
    });
    pids.collect()
}

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
        worker_pids(&self.project.sandbox, "judge")
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
        let fields = ["micro_usd", "reached_micro_usd", "estimated_micro_usd"];
        judged.map(|line| fields.map(|name| line[name].as_u64().unwrap_or(0))).collect()
    }

    fn iteration(&self, run: &str) -> Value {
        let status = self.project.sandbox.status();
        let runs = status["runs"].as_array().unwrap();
        runs.iter().find(|one| one["run"] == run).unwrap()["iteration"].clone()
    }

    /// Kills the only worker.
    fn kill_worker(&self) {
        let workers = self.workers();
        assert_eq!(workers.len(), 1, "{workers:?}");
        let killed = Command::new("kill").args(["-9", &workers[0].to_string()]).status().unwrap();
        assert!(killed.success());
        eventually(|| self.workers().is_empty().then_some(()));
    }

    fn end(&self, run: &str) {
        self.project.sandbox.ralph(["cancel", run]);
        self.project.sandbox.ralph(["gate", "wait", run, "--timeout", "1m"]);
    }
}

/// R-K1c: a call is booked at its estimate before it is made, so an agent that kills the worker does not get it for free.
/// The stop that waits again is charged.
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
    assert_eq!(judge.iteration(&run), 0);
    judge.kill_worker();
    assert_snapshot!(judge.stop_briefly(), @"
    ralph: waiting for review; nothing else is open (run [run])

    ralph's background process ended before it had a result, so the wait started over, and this stop counts as an iteration. Leave that process alone.

    Next: Wait for the judge with `ralph wait`
    Then stop again
    ");
    assert_eq!(judge.iteration(&run), 1);
    // 3 dollars for a million tokens.
    assert_eq!(
        judge.spending(&run),
        json!({ "agent_usd": null, "judges_usd": f64::from(u32::try_from(estimate).unwrap()) / 1e6, "judges_tokens": estimate / 3 })
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

/// R-K1c: verdicts are paid from the run's budget. Once it is spent, no judge is asked and the run ends.
#[test]
fn a_spent_budget_asks_no_judge() {
    let sandbox = adder();
    let policy = std::fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("ralph.toml", format!("[run]\nmax_cost_usd = 0.004\n{policy}"));
    let project = JudgedProject::of(sandbox, REVIEW);
    project.answer(&unmet("sum=0; for one; do"));
    let run = project.start();
    assert_snapshot!(project.stop(), @r#"
    exit 0
    --- stdout
    {"systemMessage":"ralph: exhausted: make it work — its budget of $0.004 is spent, 1 not met (run [run]); `ralph why [run]` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`"}
    "#);
    assert_eq!((project.status(&run), project.calls()), ("exhausted".to_string(), 1));
}

/// R-K1c: the budget counts what verdicts cost that no stop has read.
#[test]
fn a_judge_is_not_asked_without_a_budget() {
    let sandbox = adder();
    let policy = std::fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("ralph.toml", format!("[run]\nmax_cost_usd = 0.004\n{policy}"));
    let project = JudgedProject::of(sandbox, REVIEW);
    project.answer(&met());
    let run = project.start();
    let meter = project.sandbox.ralph_home(&format!("runs/{run}/judge-meter.json"));
    std::fs::write(meter, r#"{"v":1,"micro_usd":5000,"tokens":1}"#).unwrap();
    project.stop();
    assert_eq!((project.status(&run), project.calls()), ("exhausted".to_string(), 0));
    assert_snapshot!(project.why(&run), @"
    [time]  exhausted rule `limit`        its budget of $0.004 is spent, 1 without a result   not charged · [span]
              ? review               not asked, because the budget of $0.004 is spent
              ✓ a change, policy, tools, nothing hidden, suite
              review: prompt judge: unknown: not asked, because the budget of $0.004 is spent
    next: to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    ");
}

/// R-K1c: an agent that changes the files while a judge is asked pays for the call that it abandons, and the stop that
/// waits again is charged.
#[test]
fn an_abandoned_judge_is_paid_for() {
    // The system accepts the connection, and nothing ever answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let judge = format!(
        "[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = {{ http = \"http://{address}\", \
         key = \"REVIEW_KEY\", model = \"claude-sonnet-4-5\" }}\n"
    );
    let key = "review-key-0123456789abcdef";
    let project = JudgedProject::of(adder().env("REVIEW_KEY", key), &judge);
    let run = project.start();
    let stop = || {
        let event = project.sandbox.stop_event(SESSION, "");
        let command = ["hook", "claude", "--deadline", "12s"];
        project.mask(&project.sandbox.ralph_with_input(command, event.as_bytes()).stderr)
    };
    assert_snapshot!(stop(), @"
    ralph: waiting for review; nothing else is open (run [run])

    Next: Wait for the judge with `ralph wait`
    Then stop again
    ");
    project.sandbox.write("add.sh", OTHER_SUM);
    assert_snapshot!(stop(), @"
    ralph: waiting for review; nothing else is open (run [run])

    The files changed, so the wait started over, and this stop counts as an iteration. Do not edit files until the result is available.

    Next: Wait for the judge with `ralph wait`
    Then stop again
    ");
    let status = project.sandbox.status();
    let shown = status["runs"].as_array().unwrap().iter().find(|one| one["run"] == run).unwrap();
    let spending = &shown["spending"];
    let tokens = spending["judges_tokens"].as_u64().unwrap();
    assert!(tokens > 500, "{spending}");
    // 3 dollars for a million tokens.
    let cost = format!("{:.0}", spending["judges_usd"].as_f64().unwrap() * 1e6);
    assert_eq!((cost, shown["iteration"].as_u64()), ((tokens * 3).to_string(), Some(1)));
    project.sandbox.ralph(["cancel", &run]);
    project.sandbox.ralph(["gate", "wait", &run, "--timeout", "1m"]);
}

/// An endpoint gets the key of the named variable, and its tokens are priced and metered.
#[test]
fn an_endpoint_judges() {
    let text = json!({ "verdict": "met", "confidence": 1, "findings": [] }).to_string();
    let body = json!({ "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn",
        "usage": { "input_tokens": 1000, "output_tokens": 100 } });
    let endpoint = ScriptedEndpoint::serve(vec![ScriptedResponse::ok(&body.to_string())]);
    let url = endpoint.url();
    let judge = format!(
        "[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = {{ http = \"{url}\", \
         key = \"REVIEW_KEY\", model = \"claude-sonnet-4-5\" }}\n"
    );
    let key = "review-key-0123456789abcdef";
    let project = JudgedProject::of(adder().env("REVIEW_KEY", key), &judge);
    let run = project.start();
    project.stop();
    assert_eq!(project.status(&run), "verified");
    let seen = endpoint.requests();
    assert!(seen[0].to_ascii_lowercase().contains(&format!("x-api-key: {key}")), "{}", seen[0]);
    let status = project.sandbox.status();
    let shown = status["runs"].as_array().unwrap().iter().find(|one| one["run"] == run).unwrap();
    assert_eq!(
        shown["spending"],
        json!({ "agent_usd": null, "judges_usd": 0.0045, "judges_tokens": 1100 })
    );
    let written = project.sandbox.read_home();
    let leaks = written
        .iter()
        .filter(|(_, bytes)| bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    assert_eq!(leaks.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

/// In a driven run the judge is asked once the agent's process has exited. Its findings start the agent again, and its
/// cost is in the run's spending and in the ledger of the day (R-K1c).
#[test]
fn a_runner_asks_judges_last() {
    let steps = "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Done.\"

[[step]]
tools = [{ write = \"note.txt\", text = \"fixed\" }]

[[step]]
agent = \"Fixed.\"
";
    let runner = RunnerSandbox::with_project(steps, |sandbox| {
        let root = sandbox.root().display().to_string();
        sandbox.write("main.sh", "echo hello\n");
        sandbox.write("tests.sh", "test \"$(sh main.sh)\" = goodbye\n");
        let gate = "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n";
        sandbox.write("ralph.toml", format!("{gate}{REVIEW}"));
        let met = met().to_string();
        let finding = r#"{"file":"main.sh","claim":"no note","quote":"echo goodbye"}"#;
        let usage = r#""usage":{"input_tokens":10,"output_tokens":2,"micro_usd":1000}"#;
        sandbox.write(
            "judge.sh",
            format!(
                "cat > /dev/null\necho call >> {root}/calls\nif test -e \"$RALPH_CANDIDATE/note.txt\"; then echo '{met}'; \
                 else echo '{{\"verdict\":\"unmet\",\"findings\":[{finding}],{usage}}}'; fi\n"
            ),
        );
    });
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (final-look)
    1 blocked (block)
    session resumed
    1 allowed (final-look)
    1 ended (verified)
    ");
    let calls = std::fs::read_to_string(runner.sandbox.root().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2);
    let status = runner.sandbox.status();
    assert_eq!(status["runs"][0]["spending"]["judges_usd"], 0.0052);
    let ledger = runner.sandbox.read_home();
    let lines = ledger.iter().filter(|(path, _)| path.to_string_lossy().contains("spend"));
    let judged: Vec<u64> = lines
        .flat_map(|(_, bytes)| {
            String::from_utf8_lossy(bytes).lines().map(str::to_string).collect::<Vec<_>>()
        })
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
        .filter(|line| line["source"] == "judge")
        .map(|line| line["reached_micro_usd"].as_u64().unwrap())
        .collect();
    assert_eq!(judged, [1000, 5200]);
}
