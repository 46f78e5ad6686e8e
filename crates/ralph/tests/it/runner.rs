//! `ralph run` with the fake client: hand-overs, rate limits, budgets, interrupts, resuming and forking.

use crate::sandbox::{CommandOutcome, Sandbox};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

pub(crate) const GOAL: &str = "Let main.sh say goodbye.";
const SKIP_PERMISSIONS_ARGS: [&str; 3] =
    ["--allow-skip-permissions", "--", "--dangerously-skip-permissions"];

fn write_greeting_project(sandbox: &Sandbox) {
    sandbox.write("main.sh", "echo hello\n");
    sandbox.write("tests.sh", "[ \"$(sh main.sh)\" = goodbye ] || { echo 'main.sh:1: it says something else'; exit 1; }\n");
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n");
}

/// A project with one gate, which passes once `main.sh` prints goodbye, and an agent program that plays a scenario.
pub(crate) struct RunnerSandbox {
    pub(crate) sandbox: Sandbox,
}

impl RunnerSandbox {
    pub(crate) fn new(steps: &str) -> Self {
        Self::with_client_flags(Sandbox::new(), steps, "")
    }

    /// With additional flags for the client, as a user's wrapper script might pass.
    pub(crate) fn with_client_flags(sandbox: Sandbox, steps: &str, flags: &str) -> Self {
        Self::with_files(sandbox, steps, flags, write_greeting_project)
    }

    /// A project of its own instead of the one with a greeting.
    pub(crate) fn with_project(steps: &str, write_project: impl FnOnce(&Sandbox)) -> Self {
        Self::with_files(Sandbox::new(), steps, "", write_project)
    }

    fn with_files(
        sandbox: Sandbox,
        steps: &str,
        flags: &str,
        write_project: impl FnOnce(&Sandbox),
    ) -> Self {
        write_project(&sandbox);
        sandbox.commit();
        let runner = Self { sandbox };
        let scenario = runner.root_path("scenario.toml");
        fs::write(&scenario, format!("name = \"a driven run\"\nonly = \"pretend\"\n{steps}"))
            .unwrap();
        let agent = runner.root_path("agent");
        let ralph = env!("CARGO_BIN_EXE_ralph");
        let position = runner.root_path("position.json");
        let script = format!(
            "#!/bin/sh\nexec {ralph} pretend --scenario {} --position {} -- \"$@\" {flags}\n",
            scenario.display(),
            position.display()
        );
        fs::write(&agent, script).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let trust = runner.sandbox.ralph(["trust", "--json"]);
        let hash = serde_json::from_str::<Value>(&trust.stdout).unwrap()["hash"].clone();
        runner.sandbox.ralph(["trust", "--hash", hash.as_str().unwrap()]);
        runner
    }

    pub(crate) fn root_path(&self, name: &str) -> std::path::PathBuf {
        self.sandbox.root().join(name)
    }

    pub(crate) fn json_command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command();
        command.args(["run", "--json", "--agent-program"]).arg(self.root_path("agent")).args(args);
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> CommandOutcome {
        let args: Vec<_> = [&[GOAL], args, &SKIP_PERMISSIONS_ARGS].concat();
        crate::sandbox::run_command(&mut self.json_command(&args), b"")
    }

    pub(crate) fn resume(&self) -> CommandOutcome {
        crate::sandbox::run_command(&mut self.json_command(&["--resume", &self.run_id()]), b"")
    }

    pub(crate) fn run_id(&self) -> String {
        let status = self.sandbox.ralph(["status", "--all", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["runs"][0]["run"].as_str().unwrap().to_string()
    }

    /// A summary of the journal: outcome and rule of each decision, and the runner's actions, without varying details.
    pub(crate) fn journal_summary(&self) -> String {
        let log = self.sandbox.ralph(["log", "--json"]);
        let lines = log.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut story = String::new();
        for line in lines {
            let change = &line["change"];
            let entry = if let Some(decided) = change.get("decided") {
                let outcome = &decided["outcome"];
                let outcome = outcome.as_object().and_then(|one| one.keys().next().cloned());
                let outcome =
                    outcome.unwrap_or_else(|| decided["outcome"].as_str().unwrap().to_string());
                let rule = decided["rule"].as_str().unwrap();
                format!("{} {outcome} ({rule})", line["iteration"])
            } else if let Some(drove) = change.get("drove") {
                let name = drove.as_object().map(|one| one.keys().next().unwrap().as_str());
                match name.or(drove.as_str()).unwrap() {
                    "metered" => continue,
                    "session" => format!("session {}", drove["session"]["how"].as_str().unwrap()),
                    "parked" => format!("parked {}", drove["parked"]["status"].as_str().unwrap()),
                    "waits" => format!("waits {}", drove["waits"]["cause"].as_str().unwrap()),
                    name => name.to_string(),
                }
            } else {
                continue;
            };
            story.push_str(&format!("{entry}\n"));
        }
        story
    }

    pub(crate) fn events_named(ended: &CommandOutcome, name: &str) -> Vec<Value> {
        let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == name).collect()
    }

    /// Starts the runner and waits for an event of this name. Returns the process and its remaining events.
    pub(crate) fn start_until(
        &self,
        args: &[&str],
        name: &str,
    ) -> (Child, BufReader<std::process::ChildStdout>) {
        let args: Vec<_> = [&[GOAL], args, &SKIP_PERMISSIONS_ARGS].concat();
        let child = self.json_command(&args).stdout(Stdio::piped()).spawn().unwrap();
        Self::wait_for_event(child, name)
    }

    fn wait_for_event(
        mut child: Child,
        name: &str,
    ) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut events = BufReader::new(child.stdout.take().unwrap());
        Self::next_event(&mut events, name);
        (child, events)
    }

    /// Reads events up to the next one of this name.
    fn next_event(events: &mut impl BufRead, name: &str) -> Value {
        let mut line = String::new();
        while !line.contains(&format!("\"event\":\"{name}\"")) {
            line.clear();
            assert_ne!(events.read_line(&mut line).unwrap(), 0, "the runner ended before {name}");
        }
        serde_json::from_str(&line).unwrap()
    }
}

const EARLY_THEN_GOOD: &str = "
[[step]]
agent = \"Done.\"

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
";

/// R-L8c, R-S8a: the agent is held in-band, and the runner verifies after the process has exited, even in the last
/// iteration. The agent gets only the permission flag that the person passed.
#[test]
fn an_agent_is_held_in_band_and_the_runner_verifies_last() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let ended = runner.start(&["--max-iterations", "1"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    1 blocked (block)
    1 allowed (final-look)
    1 ended (verified)
    ");
    let sessions = RunnerSandbox::events_named(&ended, "session");
    let argv: Vec<_> =
        sessions[0]["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(argv.iter().filter(|word| word.contains("permission")).count(), 1, "{argv:?}");
    assert_eq!(argv.last(), Some(&"--dangerously-skip-permissions"));
}

/// R-H2d: if hook callbacks never arrive, the runner verifies by itself and sends the reason as a prompt.
#[test]
fn without_callbacks_the_runner_verifies_by_itself() {
    let runner = RunnerSandbox::with_client_flags(Sandbox::new(), EARLY_THEN_GOOD, "--bare");
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    1 blocked (block)
    1 ended (verified)
    ");
}

/// R-D4c, R-H4e: when the context is nearly full, a fresh session continues from files with the same gates. A session
/// is started with either `--session-id` or `--resume`, never both.
#[test]
fn a_full_context_is_handed_over() {
    let runner = RunnerSandbox::new(
        "
[[step]]
agent = \"I looked around.\"
usage = { input = 60000 }

[[step]]
agent = \"Still looking.\"
usage = { input = 850000 }

[[step]]
agent = \"main.sh is the place, and sed is a dead end.\"

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
",
    );
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    1 blocked (block)
    2 handed_over (hand-over)
    hands_over
    session fresh
    2 allowed (final-look)
    2 ended (verified)
    ");
    for session in RunnerSandbox::events_named(&ended, "session") {
        let argv = session["argv"].to_string();
        assert_eq!(argv.contains("--session-id"), !argv.contains("--resume"), "{argv}");
    }
    let handover = fs::read_to_string(
        runner.sandbox.ralph_home(&format!("runs/{}/handoff.md", runner.run_id())),
    );
    let handover = handover.unwrap();
    assert!(handover.contains(GOAL) && handover.contains("sed is a dead end"), "{handover}");
}

/// R-K2a, R-K2c: the runner waits for a rate limit only if allowed; otherwise it parks the run, which can be resumed.
#[test]
fn a_rate_limit_parks_the_run_unless_waiting_is_allowed() {
    let limited = "
[[step]]
rate_limit = { status = \"rejected\", type = \"five_hour\", resets_in_ms = 1500 }

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
";
    let runner = RunnerSandbox::new(limited);
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(8), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    parked rate_limited
    ");
    assert_eq!(runner.resume().code, Some(0));

    let runner = RunnerSandbox::new(limited);
    let config = runner.sandbox.ralph_home("config.toml");
    fs::write(&config, "[runner]\nlimit_jitter = \"0s\"\n").unwrap();
    let ended = runner.start(&["--wait-for-limits", "1m"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    waits rate_limit
    woke
    0 allowed (final-look)
    0 ended (verified)
    ");
}

/// R-L5c: a question parks the run. On resume, the person's message is the first prompt.
#[test]
fn a_question_parks_the_run_until_a_person_answers() {
    let runner = RunnerSandbox::new(&format!(
        "
[[step]]
tools = [{{ run = \"{ralph} ask 'which word?'\" }}]

[[step]]
agent = \"I asked.\"

[[step]]
tools = [{{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }}]

[[step]]
agent = \"Now it does.\"
",
        ralph = env!("CARGO_BIN_EXE_ralph")
    ));
    fs::write(runner.sandbox.ralph_home("config.toml"), "[runner]\nquestion_after = \"1s\"\n")
        .unwrap();
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(5), "{ended}");
    let id = runner.run_id();
    let show = || {
        let status = runner.sandbox.ralph(["status", &id]).stdout;
        let why = runner.sandbox.ralph(["why", &id]).stdout;
        let metrics = runner.sandbox.ralph(["export", "prometheus"]).stdout;
        let board = runner.sandbox.ralph(["watch", "--json"]).stdout;
        let board: Value = serde_json::from_str(&board).unwrap();
        let question = &board["waiting"][0]["question"];
        let lines = status.lines().skip(1).filter(|line| !line.contains(" · "));
        let next = why.lines().filter(|line| line.starts_with("next: "));
        let metric = metrics.lines().filter(|line| line.starts_with("ralph_questions_open"));
        let lines: Vec<_> = lines.chain(next).chain(metric).collect();
        let text = lines.join("\n").replace(&id, "[run]");
        format!("{text}\nquestion: {}, until {}\n", question["text"], question["until"])
    };
    let asked = show();
    let told = runner.sandbox.ralph(["tell", &id, "goodbye is the word"]);
    assert_eq!(told.code, Some(0));
    let told = told.stdout.replace(&id, "[run]");
    assert_snapshot!([asked, told, show()].concat(), @r#"
          ? asks: which word?; answer with `ralph tell [run] "…"`, then run `ralph run --resume [run]`
          parked: which word?; `ralph run --resume [run]` continues
          ? the agent runs without permission prompts, as a person requested
    next: answer with `ralph tell [run] "…"`, then run `ralph run --resume [run]`
    ralph_questions_open 1
    question: "which word?", until null
    [run]  kept; `ralph run --resume [run]` continues the run and gives it to the agent
          parked: which word?; `ralph run --resume [run]` continues
          ? the agent runs without permission prompts, as a person requested
    next: `ralph run --resume [run]` continues and gives the agent your message
    ralph_questions_open 0
    question: null, until null
    "#);
    let ended = runner.resume();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (needs-human)
    asks_person
    parked needs_human
    session resumed
    passed_on
    0 allowed (final-look)
    0 ended (verified)
    ");
}

/// A pause ends what the agent declared. The runner asks again afterwards, and every screen shows it.
#[test]
fn a_question_is_open_again_after_a_pause() {
    let runner = RunnerSandbox::new(&format!(
        "
[[step]]
tools = [{{ run = \"{ralph} ask 'which word?'\" }}]

[[step]]
agent = \"I asked.\"

[[step]]
tools = [{{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }}]

[[step]]
agent = \"Now it does.\"
",
        ralph = env!("CARGO_BIN_EXE_ralph")
    ));
    let (mut child, mut events) = runner.start_until(&[], "question");
    let id = runner.run_id();
    let show = |args: &[&str]| runner.sandbox.ralph(args).stdout;
    let facts = || {
        let status: Value = serde_json::from_str(&show(&["status", "--json"])).unwrap();
        let run = &status["runs"][0];
        let question = &run["question"];
        let has_deadline = question["until"].is_string();
        let text = show(&["status"]);
        let lines = text.lines().filter(|line| line.contains("which word?")).count();
        let next = show(&[]).lines().last().unwrap_or_default().replace(&id, "[run]");
        let why = show(&["why", &id]).lines().last().unwrap_or_default().replace(&id, "[run]");
        format!(
            "{} {} until={has_deadline} lines={lines}\n{next}\n{why}\n",
            run["status"], question["text"]
        )
    };
    let before = facts();
    assert_eq!(runner.sandbox.ralph(["pause", &id]).code, Some(0));
    RunnerSandbox::next_event(&mut events, "note");
    assert_eq!(runner.sandbox.ralph(["resume", &id]).code, Some(0));
    RunnerSandbox::next_event(&mut events, "question");
    let after = facts();
    assert_eq!(runner.sandbox.ralph(["tell", &id, "goodbye is the word"]).code, Some(0));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut events, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert_eq!(before, after);
    assert_snapshot!(after, @r#"
    "asks" "which word?" until=true lines=1
    next:  ralph tell [run] "…"
    next: answer with `ralph tell [run] "…"`
    "#);
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (needs-human)
    asks_person
    asks_person
    session resumed
    passed_on
    0 allowed (final-look)
    0 ended (verified)
    ");
}

/// A run whose runner was killed is orphaned on every screen, although no journal line says so.
#[test]
fn a_run_without_its_runner_is_orphaned_everywhere() {
    let runner = RunnerSandbox::new("[[step]]\ntools = [{ run = \"sleep 600\" }]\n");
    let (mut child, _events) = runner.start_until(&[], "tool");
    child.kill().unwrap();
    child.wait().unwrap();
    let id = runner.run_id();
    let show = |args: &[&str]| runner.sandbox.ralph(args).stdout.replace(&id, "[run]");
    let starts = |text: String, start: &str| {
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(start)).collect();
        lines.join("\n")
    };
    let status: Value = serde_json::from_str(&show(&["status", "--json"])).unwrap();
    let shown = format!(
        "{}\n{}\n{}\n{}",
        status["runs"][0]["status"],
        starts(show(&["export", "prometheus"]), "ralph_runs{"),
        starts(show(&[]), "next"),
        starts(show(&["why", &id]), "next"),
    );
    assert_snapshot!(shown, @r#"
    "orphaned"
    ralph_runs{state="orphaned"} 1
    next:  ralph run --resume [run]
    next: `ralph run --resume [run]` continues
    "#);
}

/// R-L11c: a second interrupt ends everything immediately. Nothing is charged, and a resume continues where it was.
#[test]
fn two_interrupts_end_the_runner_and_the_run_resumes_later() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ run = \"sleep 600\" }]

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
",
    );
    let (mut child, _events) = runner.start_until(&[], "tool");
    let pid = Pid::from_child(&child);
    // Two signals of the same kind may be delivered as one.
    kill_process(pid, Signal::INT).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    assert_eq!(runner.resume().code, Some(0));
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    parked cancelled
    session resumed
    0 allowed (final-look)
    0 ended (verified)
    ");
}

/// An agent dies with its runner, and another runner continues without charging twice.
#[test]
fn the_agent_dies_with_its_runner_and_another_runner_continues() {
    let runner = RunnerSandbox::new(
        "
[[step]]
agent = \"Done.\"

[[step]]
tools = [{ run = \"sleep 600\" }]

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
",
    );
    let (mut child, _events) = runner.start_until(&[], "tool");
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = runner.resume();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @r"
    session fresh
    1 blocked (block)
    session resumed
    1 allowed (final-look)
    1 ended (verified)
    ");
}

/// R-L9b: the client's cap on blocks is set above the run's iterations, overriding the project's settings.
#[test]
fn the_hosts_block_cap_is_set_above_the_runs_iterations() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let settings = "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"1\"}}";
    runner.sandbox.write(".claude/settings.json", settings);
    runner.sandbox.commit();
    let ended = runner.start(&["--max-iterations", "7"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let argv = RunnerSandbox::events_named(&ended, "session")[0]["argv"].to_string();
    assert!(argv.contains(r#"BLOCK_CAP\":\"1007\""#), "{argv}");
}

/// R-K1a, R-K1d: a turn that would exceed the budget is not started, and the work so far is checkpointed.
#[test]
fn a_budget_ends_the_run_before_it_is_exceeded() {
    let runner = RunnerSandbox::new(
        "
[[step]]
agent = \"Done.\"
usage = { input = 100000 }
repeat = \"forever\"
",
    );
    let ended = runner.start(&["--max-cost", "1.2"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    let report = &RunnerSandbox::events_named(&ended, "ended")[0];
    assert!(report["because"].as_str().unwrap().contains("$1.2"), "{report}");
    assert!(report["checkpoint"].is_string(), "{report}");
}

/// A second runner is refused while the first one drives.
#[test]
fn a_run_has_one_runner() {
    let runner = RunnerSandbox::new("[[step]]\ntools = [{ run = \"sleep 600\" }]\n");
    let (mut child, _events) = runner.start_until(&[], "tool");
    let ended = runner.resume();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ended.code, Some(1));
    let pid = child.id().to_string();
    let error = ended.stderr.replace(&pid, "$PID").replace(&runner.run_id(), "$RUN");
    assert_snapshot!(error, @"
    error: run `$RUN` already has a runner (process $PID)
      hint: `ralph status` shows its state
    ");
}

/// R-K2c: after waiting for a rate-limit window, the runner uses at most the allowed share of it, then parks the run.
#[test]
fn the_share_of_an_awaited_window_is_limited() {
    let runner = RunnerSandbox::new(
        "
[[step]]
rate_limit = { status = \"rejected\", type = \"five_hour\", resets_in_ms = 1500 }

[[step]]
rate_limit = { status = \"allowed_warning\", type = \"seven_day\", used_percent = 90 }
agent = \"I looked around.\"

[[step]]
rate_limit = { status = \"allowed_warning\", type = \"five_hour\", used_percent = 60 }
tools = [{ run = \"sleep 600\" }]

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
",
    );
    let config = runner.sandbox.ralph_home("config.toml");
    fs::write(&config, "[runner]\nlimit_jitter = \"0s\"\nmax_window_share = 0.5\n").unwrap();
    let ended = runner.start(&["--wait-for-limits", "1m"]);
    assert_eq!(ended.code, Some(8), "{ended}");
    assert_eq!(runner.resume().code, Some(0));
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    waits rate_limit
    woke
    1 blocked (block)
    parked rate_limited
    session resumed
    1 allowed (final-look)
    1 ended (verified)
    ");
}

/// A forked session continues with the original's context, and the new run is charged only for its own part.
#[test]
fn a_run_starts_from_a_forked_session() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
usage = { input = 200000 }

[[step]]
agent = \"It did already.\"
usage = { input = 200000 }

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does again.\"
usage = { input = 1000 }
",
    );
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let first =
        RunnerSandbox::events_named(&ended, "session")[0]["session"].as_str().unwrap().to_string();
    let cost = |ended: &CommandOutcome| {
        RunnerSandbox::events_named(ended, "ended")[0]["standing"]["spent_usd"].as_f64().unwrap()
    };
    let (run, dear) = (runner.run_id(), cost(&ended));

    runner.sandbox.write("main.sh", "echo hello\n");
    let ended = runner.start(&["--fork", &run]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let session = &RunnerSandbox::events_named(&ended, "session")[0];
    let argv: Vec<_> = session["argv"].as_array().unwrap().iter().skip(7).take(5).collect();
    let copy = session["session"].as_str().unwrap();
    let expected = ["--resume", &first, "--fork-session", "--session-id", copy];
    assert_eq!(argv, expected);
    let story = runner.journal_summary();
    assert_snapshot!(story, @"
    session forked
    1 blocked (block)
    1 allowed (final-look)
    1 ended (verified)
    ");
    assert!(cost(&ended) < dear * 1.5, "{} {dear}", cost(&ended));
}

/// If the session to fork does not exist, no fresh session is started instead.
#[test]
fn forking_a_missing_session_parks_the_run() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let ended = runner.start(&["--fork", "0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa"]);
    assert_eq!(ended.code, Some(5), "{ended}");
    assert_snapshot!(RunnerSandbox::events_named(&ended, "ended")[0]["because"].as_str().unwrap(), @"the agent has no session `0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa` to fork");
    let ended =
        runner.sandbox.ralph(["run", GOAL, "--fork", "k7f2", "--agent-program", "/bin/true"]);
    assert_snapshot!(ended.to_string(), @r"
    exit 1
    --- stderr
    error: `k7f2` is neither a run nor a session that ralph knows
      hint: `ralph status --all` lists runs and sessions
    ");
}

/// R-H4e: the agent's flags are recorded for resuming, with secrets redacted. A parked run shows how to resume it.
#[test]
fn a_parked_run_shows_how_to_resume_and_no_secrets() {
    let runner = RunnerSandbox::new(
        "
[[step]]
rate_limit = { status = \"rejected\", type = \"five_hour\", resets_in_ms = 60000 }
",
    );
    let secret = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";
    let ended = runner.start(&["--max-tokens", "2M"]);
    assert_eq!(ended.code, Some(8), "{ended}");
    let run = runner.run_id();
    let limits =
        runner.sandbox.ralph_at_terminal(["limits", &run, "--max-tokens", "500k", "--json"]);
    let share = runner.sandbox.ralph_at_terminal(["limits", &run, "--handover-at", "80%"]);
    let shown = format!("{limits}{share}").replace(&run, "$RUN");
    insta::with_settings!({filters => vec![(r"at \d\d:\d\d", "at [time]")]}, {
        assert_snapshot!(shown, @r#"
        exit 0
        --- stdout
        {"v":1,"run":"$RUN","max_iterations":25,"min_iterations":0,"max_duration_ms":28800000,"max_cost_usd":20.0,"max_tokens":500000,"stuck_after":3,"handover_at":0.8}

        exit 0
        --- stdout
        $RUN  limits  25 iterations · 8 h · $20 · 500 k tokens · stuck at the 3rd stop without progress · hand-over at 80 % of the context from now on
        "#);
    });
    // One word resumes every kind of run: this one is driven again, until it ends.
    let resumed = runner.sandbox.ralph(["resume", "--json"]);
    assert_eq!(resumed.code, Some(4), "{resumed}");
    let ended = RunnerSandbox::events_named(&resumed, "ended");
    assert_eq!(ended[0]["status"], "stuck", "{resumed}");

    let flags = ["--append-system-prompt", secret, "--permission-mode", "plan"];
    let args = [&[GOAL, "--"][..], &flags].concat();
    let ended = crate::sandbox::run_command(&mut runner.json_command(&args), b"");
    assert_ne!(ended.code, Some(1), "{ended}");
    let log = runner.sandbox.ralph(["log", "--json"]);
    assert!(log.stdout.contains("[redacted]") && !log.stdout.contains(secret), "{log}");
}

/// R-D1c: a person resolves the conflict in the kept work tree; then the run resumes and lands.
#[test]
fn a_resolved_conflict_lands() {
    let sandbox = Sandbox::new();
    let mine = format!(
        "cd '{}' && echo 'echo hi, goodbye' > main.sh && git -c user.name=t -c user.email=t@t commit -qam mine",
        sandbox.project().display()
    );
    let steps = format!(
        "
[[step]]
tools = [{{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }}, {{ run = \"{mine}\" }}]

[[step]]
agent = \"Now it does.\"
"
    );
    let runner = RunnerSandbox::with_client_flags(sandbox, &steps, "");
    let ended = runner.start(&["--worktree"]);
    assert_eq!(ended.code, Some(5), "{ended}");
    let status = runner.sandbox.ralph(["status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let tree = status["runs"][0]["driven"]["worktree"].as_str().unwrap();
    let git = |args: &[&str]| {
        let me = ["-C", tree, "-c", "user.name=t", "-c", "user.email=t@t"];
        let mut git = Command::new("git");
        git.args(me).args(args).env_clear().env("HOME", runner.sandbox.home()).output().unwrap()
    };
    assert!(!git(&["merge", "--quiet", "main"]).status.success());
    fs::write(std::path::Path::new(tree).join("main.sh"), "echo goodbye\n").unwrap();
    assert!(git(&["commit", "--quiet", "--all", "--message", "resolved"]).status.success());
    let ended = runner.resume();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (final-look)
    0 allowed (final-look)
    parked needs_human
    0 allowed (final-look)
    proof_base
    0 allowed (final-look)
    settled
    0 ended (verified)
    ");
    let landed = fs::read_to_string(runner.sandbox.project().join("main.sh")).unwrap();
    assert_eq!(landed, "echo goodbye\n");
}

/// After its runner was killed, a run is shown as not driven, and the time without a runner does not count.
#[test]
fn a_run_whose_runner_was_killed_shows_how_to_resume() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ run = \"sleep 600\" }]
",
    );
    let (mut child, _events) = runner.start_until(&[], "tool");
    let shown = |runner: &RunnerSandbox| {
        let shown = runner
            .sandbox
            .ralph(["status", &runner.run_id()])
            .stdout
            .replace(&runner.run_id(), "$RUN");
        let lines: Vec<_> = shown.lines().take(3).map(str::to_string).collect();
        lines.join("\n")
    };
    let driven = shown(&runner);
    child.kill().unwrap();
    child.wait().unwrap();
    let both = format!("{driven}\n--\n{}", shown(&runner));
    insta::with_settings!({filters => vec![(r"\d+ (ms|s) of", "[time] of"), ("claude [0-9a-f]{8}", "claude [session]")]}, {
        assert_snapshot!(both, @r"
        $RUN  working       Let main.sh say goodbye.
              claude [session] · iteration 0 of 25 · [time] of 8 h · $0 of $20
              ? the agent runs without permission prompts, as a person requested
        --
        $RUN  orphaned      Let main.sh say goodbye.
              claude [session] · iteration 0 of 25 · [time] of 8 h · $0 of $20
              no runner drives it; `ralph run --resume $RUN` continues
        ");
    });
}

/// Ctrl-C and a pause are acknowledged immediately. The note for Ctrl-C explains the effect of a second one; a pause lets
/// the turn end.
#[test]
fn an_interrupt_and_a_pause_are_acknowledged() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ run = \"until [ -e go ]; do sleep 0.05; done\" }]

[[step]]
agent = \"That took a while.\"
",
    );
    let (mut child, mut events) = runner.start_until(&[], "tool");
    let mut note =
        || RunnerSandbox::next_event(&mut events, "note")["text"].as_str().unwrap().to_string();
    assert_eq!(runner.sandbox.ralph(["pause", &runner.run_id()]).code, Some(0));
    let paused = note();
    assert_eq!(runner.sandbox.ralph(["resume", &runner.run_id()]).code, Some(0));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let notes = format!("{paused}\n{}", note());
    runner.sandbox.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_snapshot!(notes, @"
    pausing after this turn
    stopping after this turn; press Ctrl-C again to stop now
    ");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    parked cancelled
    ");
}

/// R-K1a: once the daily budget is spent, no agent is started.
#[test]
fn a_spent_daily_budget_starts_no_agent() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let config = runner.sandbox.ralph_home("config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[runner]\nmax_cost_per_day_usd = 0.0001\n").unwrap();
    assert_eq!(runner.start(&[]).code, Some(2));
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"parked exhausted");
}

/// R-K1a: no agent is started if the daily budget cannot be checked.
#[test]
fn an_unreadable_ledger_starts_no_agent() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let home = runner.sandbox.ralph_home("");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), "[runner]\nmax_cost_per_day_usd = 100.0\n").unwrap();
    // A directory in the place of today's file cannot be read.
    let date = Command::new("date").arg("+%F").output().unwrap().stdout;
    let date = String::from_utf8(date).unwrap();
    fs::create_dir_all(home.join("spend").join(format!("{}.jsonl", date.trim()))).unwrap();
    let ended = runner.start(&[]);
    assert!(ended.code != Some(0) && ended.to_string().contains("/spend/"), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"");
}

/// Only messages of the client count as a sign of life: not arbitrary output, nor another process that keeps stdout
/// open.
#[test]
fn a_process_that_is_not_a_client_is_not_waited_for() {
    for script in ["exec yes", "setsid sh -c 'exec sleep 600' & exit 3"] {
        let runner = RunnerSandbox::new("");
        fs::write(runner.root_path("agent"), format!("#!/bin/sh\n{script}\n")).unwrap();
        let ended = runner.start(&["--idle-after", "1s"]);
        assert_eq!(ended.code, Some(10), "{script}: {ended}");
    }
}

fn spent_usd(ended: &CommandOutcome) -> f64 {
    RunnerSandbox::events_named(ended, "ended")[0]["standing"]["spent_usd"].as_f64().unwrap()
}

/// R-K1a, R-K1b: a resumed process reports its total cost so far, and a forked one starts from the original's cost; no
/// cost is charged twice or to another run.
#[test]
fn a_resumed_fork_is_charged_only_its_own_cost() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
usage = { input = 1000000 }

[[step]]
tools = [{ run = \"sleep 600\" }]

[[step]]
agent = \"It did already.\"

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does again.\"
",
    );
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let (run, dear) = (runner.run_id(), spent_usd(&ended));
    runner.sandbox.write("main.sh", "echo hello\n");
    let (mut child, _events) = runner.start_until(&["--fork", &run], "tool");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let ended = runner.resume();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(spent_usd(&ended) < dear / 2.0, "{} {dear}", spent_usd(&ended));
}

/// R-K1d: the cost of a cancelled turn is recorded although the run has ended by then.
#[test]
fn a_cancelled_turn_is_billed() {
    let runner = RunnerSandbox::new(
        "
[[step]]
agent = \"I read all of it.\"
usage = { input = 500000 }

[[step]]
tools = [{ run = \"sleep 600\" }]
",
    );
    let (mut child, mut events) = runner.start_until(&[], "tool");
    assert_eq!(runner.sandbox.ralph(["cancel", &runner.run_id()]).code, Some(0));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut events, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    let spent = last["standing"]["spent_usd"].as_f64().unwrap();
    assert!(spent >= 2.0, "{last}");
}

/// R-K2b: a runner killed while waiting charges nothing on resume, and a pause does not cancel the wait.
#[test]
fn a_wait_survives_its_runner_and_a_pause() {
    let runner = RunnerSandbox::new(
        "
[[step]]
agent = \"I read all of it.\"
usage = { input = 100000 }

[[step]]
rate_limit = { status = \"rejected\", type = \"five_hour\", resets_in_ms = 8000, used_percent = 100 }

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
",
    );
    let config = runner.sandbox.ralph_home("config.toml");
    let settings = "[runner]\nlimit_jitter = \"0s\"\nmax_window_share = 0.5\n";
    fs::write(&config, settings).unwrap();
    let (mut child, _events) = runner.start_until(&["--wait-for-limits", "1m"], "waiting");
    let cost = || {
        let status = runner.sandbox.ralph(["status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["runs"][0]["spent_usd"].as_f64().unwrap()
    };
    let before = cost();
    child.kill().unwrap();
    child.wait().unwrap();
    let resume =
        runner.json_command(&["--resume", &runner.run_id()]).stdout(Stdio::piped()).spawn();
    let (mut child, mut events) = RunnerSandbox::wait_for_event(resume.unwrap(), "waiting");
    assert!((cost() - before).abs() < f64::EPSILON, "{} {before}", cost());
    assert_eq!(runner.sandbox.ralph(["pause", &runner.run_id()]).code, Some(0));
    RunnerSandbox::next_event(&mut events, "note");
    assert_eq!(runner.sandbox.ralph(["resume", &runner.run_id()]).code, Some(0));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut events, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    1 blocked (block)
    waits rate_limit
    woke
    session resumed
    1 allowed (final-look)
    1 ended (verified)
    ");
}

/// R-K1d: a wait never exceeds the run's time limit.
#[test]
fn a_wait_ends_at_the_time_limit_of_the_run() {
    let runner = RunnerSandbox::new(
        "
[[step]]
rate_limit = { status = \"rejected\", type = \"five_hour\", resets_in_ms = 600000 }
",
    );
    let ended = runner.start(&["--wait-for-limits", "1h", "--max-duration", "3s"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    waits rate_limit
    0 ended (limit)
    ");
}

/// R-H4e: the agent's environment is recorded with variable names and without secrets.
#[test]
fn the_environment_of_an_agent_is_recorded() {
    let runner = RunnerSandbox::new(EARLY_THEN_GOOD);
    let mut command = runner.json_command(&[&[GOAL], &SKIP_PERMISSIONS_ARGS[..]].concat());
    let secret = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";
    command.env("ANTHROPIC_API_KEY", secret).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    command.env("DB_PASSWORD", "correct horse battery").env("CLAUDECODE_UNRELATED", "1");
    let ended = crate::sandbox::run_command(&mut command, b"");
    assert_eq!(ended.code, Some(0), "{ended}");
    let log = runner.sandbox.ralph(["log", "--json"]).stdout;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut sessions = lines.map(|line| line["change"]["drove"]["session"]["env"].clone());
    let env = sessions.find(Value::is_array).unwrap();
    let env: Vec<_> = env.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_snapshot!(env.join("\n").replace(&runner.run_id(), "$RUN"), @"
    ANTHROPIC_API_KEY=[redacted]
    ANTHROPIC_BASE_URL=http://127.0.0.1:1
    CLAUDECODE_UNRELATED
    CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1
    CLAUDE_CODE_STOP_HOOK_BLOCK_CAP=1025
    DB_PASSWORD
    HOME
    PATH
    RALPH_DRIVEN=$RUN
    TZ
    ");
}

/// A provider that never answered is not waited for as long as an outage: its address may be wrong.
#[test]
fn an_unreachable_provider_is_named_and_parks_the_run() {
    let broken = "[[step]]\nerror = { status = 0, type = \"\", message = \"\" }\n";
    let runner = RunnerSandbox::new(&broken.repeat(4));
    let args: Vec<_> = [&[GOAL][..], &SKIP_PERMISSIONS_ARGS].concat();
    let mut command = runner.json_command(&args);
    command.env("ANTHROPIC_BASE_URL", "http://kim:secret@127.0.0.1:9/v1");
    let ended = crate::sandbox::run_command(&mut command, b"");
    assert_eq!(ended.code, Some(5), "{ended}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    waits network
    woke
    waits network
    woke
    parked needs_human
    ");
    let report = &RunnerSandbox::events_named(&ended, "ended")[0];
    assert_snapshot!(report["because"].as_str().unwrap(), @"`127.0.0.1:9` cannot be reached: check the network, proxies and `ANTHROPIC_BASE_URL`");
}

/// A failure of the agent is one line, and what it printed is another.
#[test]
fn a_failure_of_the_agent_is_shown_once() {
    let runner = RunnerSandbox::new("");
    let agent = runner.root_path("agent");
    crate::sandbox::write_program(&agent, "#!/bin/sh\necho no network >&2\nexit 3\n");
    let ended =
        runner.sandbox.ralph(["run", GOAL, "--yes", "--agent-program", agent.to_str().unwrap()]);
    let is_failure = |line: &&str| line.starts_with("trouble") || line.starts_with("note");
    let mut lines: Vec<_> = ended.stdout.lines().filter(is_failure).collect();
    assert_eq!(lines.len(), 8, "{ended}");
    lines.sort_unstable();
    lines.dedup();
    assert_snapshot!(lines.join("\n"), @r"
    note    stderr: no network
    trouble broken: the agent exited with code 3 during its turn
    ");
    // Every text names the same command.
    let run = runner.run_id();
    let shown = [&["status"][..], &["why"], &[]].map(|args| runner.sandbox.ralph(args).stdout);
    for text in shown {
        assert!(text.contains(&format!("ralph run --resume {run}")), "{text}");
    }
}
