//! Judges whose backend is the client of a host, and sessions of a client that judges start. The client is a script.

use crate::judges::{JudgedProject, OTHER_SUM, REVIEW, met};
use crate::prove::adder;
use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, run_command, write_program};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;

const HOST_REVIEW: &str = "[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = { host = \"claude\", model = \"a-model\" }\n";

/// The result line of a client, with this answer.
fn result_line(answer: &Value) -> String {
    json!({ "type": "result", "subtype": "success", "is_error": false, "stop_reason": "end_turn",
        "session_id": SESSION, "num_turns": 1, "result": answer.to_string(), "total_cost_usd": 0.0123,
        "modelUsage": { "a-model": { "inputTokens": 900, "outputTokens": 30, "costUSD": 0.0123 } } })
    .to_string()
}

fn answer(verdict: &str, findings: &Value) -> String {
    result_line(&json!({ "verdict": verdict, "findings": findings }))
}

fn missing_words(file: &str, quote: &str) -> Value {
    json!([{ "file": file, "claim": "words are not refused", "severity": "error", "quote": quote }])
}

/// A client in `bin` that keeps what it gets, and prints what `result` has.
fn write_client(sandbox: &Sandbox) {
    let root = sandbox.root().display();
    let script = format!(
        "#!/bin/sh\ncat > {root}/prompt\nls > {root}/files\nprintf '%s\\n' \"$@\" > {root}/arguments\n\
         echo \"RALPH_OFF=$RALPH_OFF\" > {root}/variables\necho call >> {root}/calls\ncat {root}/result\n"
    );
    fs::create_dir_all(sandbox.root().join("bin")).unwrap();
    write_program(&sandbox.root().join("bin/claude"), &script);
}

fn with_client(sandbox: Sandbox) -> Sandbox {
    write_client(&sandbox);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", sandbox.root().join("bin").display());
    sandbox.env("PATH", &path)
}

fn host_project(kind: &str) -> JudgedProject {
    let policy = HOST_REVIEW.replace("\"prompt\"", &format!("\"{kind}\""));
    JudgedProject::of(with_client(adder()), &policy)
}

fn read(project: &JudgedProject, name: &str) -> String {
    fs::read_to_string(project.path(name)).unwrap_or_default()
}

/// A client that is asked at a stop holds the agent and lets it go. Only an agent gets files, those of the candidate, and
/// the run pays what the client reports.
#[test]
fn a_client_judges_a_run() {
    let shown = ["prompt", "agent"].map(|kind| {
        let project = host_project(kind);
        let run = project.start();
        let findings = missing_words("add.sh", "sum=0; for one; do");
        fs::write(project.path("result"), answer("unmet", &findings)).unwrap();
        let held = project.stop();
        let review = held.lines().find(|line| line.contains(" review (")).unwrap().to_string();
        let files = read(&project, "files").lines().collect::<Vec<_>>().join(" ");
        let arguments = read(&project, "arguments");
        let tools =
            arguments.split_once("--tools\n").unwrap().1.split_once("\n--system").unwrap().0;
        assert!(read(&project, "prompt").contains("+sum=0; for one; do"));
        project.sandbox.write("add.sh", OTHER_SUM);
        fs::write(project.path("result"), answer("met", &json!([]))).unwrap();
        project.stop();
        let status = project.sandbox.status();
        let runs = status["runs"].as_array().unwrap();
        let shown = runs.iter().find(|one| one["run"] == run).unwrap();
        format!(
            "{kind}: {review}; then {} after {} calls, {}\n  files: {files}; tools: {:?}; {}",
            shown["status"],
            project.calls(),
            shown["spending"],
            tools,
            read(&project, "variables").trim()
        )
    });
    assert_snapshot!(shown.join("\n"), @r#"
    prompt: ✗ review (judge, prompt): 1 finding; then "verified" after 2 calls, {"agent_usd":null,"judges_tokens":1860,"judges_usd":0.0246}
      files: ; tools: "\n--max-turns\n1"; RALPH_OFF=1
    agent: ✗ review (judge, agent): 1 finding; then "verified" after 2 calls, {"agent_usd":null,"judges_tokens":1860,"judges_usd":0.0246}
      files: README.md add.sh judge.sh ralph.toml suite.sh tests; tools: "Read,Grep,Glob\n--max-turns\n30"; RALPH_OFF=1
    "#);
}

/// R-S6b: neither a client that the agent puts first on the `PATH` nor one in place of the sealed one gives a verdict.
#[test]
fn another_client_gives_no_verdict() {
    let forged = |project: &JudgedProject| {
        format!("#!/bin/sh\ncat > /dev/null\necho '{}'\n", answer("met", &json!([]))).replace(
            "cat >",
            &format!("echo forged >> {}; cat >", project.path("forged").display()),
        )
    };
    let project = host_project("prompt");
    let run = project.start();
    let findings = missing_words("add.sh", "sum=0; for one; do");
    fs::write(project.path("result"), answer("unmet", &findings)).unwrap();
    fs::create_dir(project.path("first")).unwrap();
    write_program(&project.path("first/claude"), &forged(&project));
    let path = format!("{}:{}", project.path("first").display(), "/usr/local/bin:/usr/bin:/bin");
    let mut hook = project.sandbox.command();
    hook.env("PATH", path).args(["hook", "claude"]);
    let event = project.sandbox.stop_event(SESSION, "");
    let held = project.mask(&run_command(&mut hook, event.as_bytes()).stderr);
    let review = held.lines().find(|line| line.contains(" review (")).unwrap();
    assert_snapshot!(review, @"✗ review (judge, prompt): 1 finding");
    assert_eq!((project.calls(), read(&project, "forged")), (1, String::new()));

    write_program(&project.path("bin/claude"), &forged(&project));
    project.sandbox.write("add.sh", OTHER_SUM);
    let held = project.stop();
    let open: Vec<_> = held.lines().filter(|line| line.starts_with(['✗', '?', '·'])).collect();
    assert_snapshot!(open.join("\n"), @"
    ✗ tools (correctness): programs that gates run were replaced
    · review (judge, prompt): comes after everything else is met
    ");
    assert_eq!((project.status(&run).as_str(), project.calls()), ("held", 1));
    assert_eq!(read(&project, "forged"), "");
}

/// The runner asks the client when the agent's process has exited, and the run pays for both.
#[test]
fn a_client_judges_a_driven_run() {
    let steps = "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Done.\"

[[step]]
tools = [{ write = \"note.txt\", text = \"it says goodbye\\n\" }]

[[step]]
agent = \"Fixed.\"
";
    let mut runner = RunnerSandbox::with_project(steps, |sandbox| {
        sandbox.write("main.sh", "echo hello\n");
        sandbox.write("tests.sh", "test \"$(sh main.sh)\" = goodbye\n");
        let gate = "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n";
        sandbox.write(
            "ralph.toml",
            format!("{gate}{}", HOST_REVIEW.replace("\"prompt\"", "\"agent\"")),
        );
    });
    let root = runner.sandbox.root().display().to_string();
    runner.sandbox = with_client(runner.sandbox);
    let findings = json!([{ "file": "main.sh", "claim": "no note", "quote": "echo goodbye" }]);
    let (met, unmet) = (answer("met", &json!([])), answer("unmet", &findings));
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\necho call >> {root}/calls\n\
         if test -e note.txt; then echo '{met}'; else echo '{unmet}'; fi\n"
    );
    write_program(&runner.root_path("bin/claude"), &script);
    runner.sandbox.approve_policy();
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let steps = RunnerSandbox::events_named(&ended, "judge_step");
    let steps = steps.iter().map(|step| format!("{}: {}", step["name"], step["step"]));
    let calls = fs::read_to_string(runner.root_path("calls")).unwrap();
    let run = runner.run_id();
    let status = runner.sandbox.ralph(["status", "--json", &run]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    let judged = &status["runs"][0]["spending"];
    assert_snapshot!(
        format!(
            "{}\n{}\n{} calls, ${} and {} tokens for judges",
            runner.journal_summary(),
            steps.collect::<Vec<_>>().join("\n"),
            calls.lines().count(),
            judged["judges_usd"],
            judged["judges_tokens"]
        ),
        @r#"
        session fresh
        0 allowed (final-look)
        1 blocked (block)
        session resumed
        1 allowed (final-look)
        1 ended (verified)

        "review": "asking for a verdict"
        "review": "asking for a verdict"
        2 calls, $0.0246 and 1860 tokens for judges
        "#
    );
}

/// The settings with ralph's own hooks, as `ralph init` writes them.
fn install_hooks(sandbox: &Sandbox) -> Value {
    let done = sandbox.ralph(["init", "--yes", "--no-gates", "--json"]);
    assert_eq!(done.code, Some(0), "{done}");
    let settings = fs::read(sandbox.project().join(".claude/settings.local.json")).unwrap();
    serde_json::from_slice(&settings).unwrap()
}

/// A judge that starts a session of a client in the project, under the id of the run's owner or another: ralph's own hook
/// allows its stops with nothing on its outputs, asks no judge, begins no run and records nothing.
#[test]
fn a_session_that_a_judge_starts_is_not_held() {
    let events = |sandbox: &Sandbox, session: &str| {
        let project = crate::sandbox::json_string(&sandbox.project().display().to_string());
        let event = |name: &str, more: &str| {
            format!(
                r#"{{"session_id":"{session}","hook_event_name":"{name}","cwd":{project}{more}}}"#
            )
        };
        [
            ("SessionStart", event("SessionStart", r#","source":"startup""#)),
            (
                "UserPromptSubmit",
                event("UserPromptSubmit", r#","prompt":"/ralph:goal make it better""#),
            ),
            ("Stop", sandbox.stop_event(session, "")),
        ]
    };
    let other = "0a4f2f0e-8d0b-4d6e-9a51-1c0a4b0b7d11";
    let shown = [false, true].map(|starts_session| {
        let sandbox = adder();
        let settings = install_hooks(&sandbox);
        let root = sandbox.root().display().to_string();
        let sessions = [SESSION, other].into_iter().flat_map(|session| events(&sandbox, session));
        let inner = sessions
            .enumerate()
            .map(|(number, (name, event))| {
                let hook = settings["hooks"][name][0]["hooks"][0]["command"].as_str().unwrap();
                fs::write(sandbox.root().join(format!("event-{number}")), event).unwrap();
                fs::write(sandbox.root().join(format!("hook-{number}")), hook).unwrap();
                format!(
                    "sh {root}/hook-{number} < {root}/event-{number} > {root}/out 2>&1\n\
                     echo \"{name}: exit $?, $(wc -c < {root}/out) bytes\" >> {root}/inner\n"
                )
            })
            .collect::<Vec<_>>()
            .concat();
        let project = JudgedProject::of(sandbox, REVIEW);
        project.answer(&met());
        if starts_session {
            let script = fs::read_to_string(project.sandbox.project().join("judge.sh")).unwrap();
            project.sandbox.write("judge.sh", format!("{inner}{script}"));
            project.sandbox.approve_policy();
            project.sandbox.commit();
        }
        let run = project.start();
        project.stop();
        let journal = project.sandbox.ralph_home(&format!("runs/{run}/journal.jsonl"));
        let runs = fs::read_dir(project.sandbox.ralph_home("runs")).unwrap().count();
        format!(
            "{}, {} calls, {runs} runs, {} journal lines; inner: {}",
            project.status(&run),
            project.calls(),
            fs::read_to_string(journal).unwrap().lines().count(),
            read(&project, "inner").lines().collect::<Vec<_>>().join("; ")
        )
    });
    assert_snapshot!(shown.join("\n"), @"
    verified, 1 calls, 1 runs, 2 journal lines; inner: 
    verified, 1 calls, 1 runs, 2 journal lines; inner: SessionStart: exit 0, 0 bytes; UserPromptSubmit: exit 0, 0 bytes; Stop: exit 0, 0 bytes; SessionStart: exit 0, 0 bytes; UserPromptSubmit: exit 0, 0 bytes; Stop: exit 0, 0 bytes
    ");
}
