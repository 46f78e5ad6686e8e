//! `ralph judge`: presets, and the benchmark with scripted judges whose figures are known.

use crate::sandbox::{CommandOutcome, Sandbox, write_program};
use crate::scripted_endpoint::{ScriptedEndpoint, ScriptedResponse, model_reply};
use insta::assert_snapshot;

/// In the order in which they are asked.
const CASES: [&str; 5] = [
    "clean-go-locked-map",
    "clean-rust-windows",
    "go-map-race",
    "python-swallowed-error",
    "rust-last-page",
];

fn finding(file: &str, quote: &str) -> String {
    serde_json::json!({"verdict": "unmet", "findings": [
        {"file": file, "line": 1, "claim": "this is wrong", "severity": "error", "quote": quote},
        {"file": file, "line": 1, "claim": "invented", "severity": "error", "quote": "not in the file"}
    ]})
    .to_string()
}

/// A judge that accepts one clean change, objects to the other, finds one defect, misses one and is unsure about one.
fn scripted_judge() -> ScriptedEndpoint {
    let answers = [
        r#"{"verdict": "met"}"#.to_string(),
        finding("src/sorted.rs", "while at + 1 < items.len() {"),
        finding("count/count.go", "counts[word]++"),
        r#"{"verdict": "met"}"#.to_string(),
        "Hard to say.".to_string(),
    ];
    let responses = answers.iter().map(|answer| ScriptedResponse::ok(&model_reply(answer)));
    ScriptedEndpoint::serve(responses.collect())
}

fn bench(sandbox: &Sandbox, url: &str, rest: &[&str]) -> CommandOutcome {
    let mut args = vec!["judge", "bench", "--http", url, "--model", "a-model"];
    args.extend(CASES.iter().flat_map(|case| ["--case", case]));
    args.extend(rest);
    sandbox.ralph(args)
}

/// The figures of a judge that is right in a known number of cases are exact.
#[test]
fn a_scripted_judge_has_exact_figures() {
    let sandbox = Sandbox::new();
    let ended = bench(&sandbox, &scripted_judge().url(), &[]);
    insta::with_settings!({filters => vec![(r", \d+ s\n", ", [time]\n")]}, {
        assert_snapshot!(ended.to_string(), @r#"
        exit 0
        --- stdout
        CASE                    VERDICT  GRADE        TOKENS  NOTE
        clean-go-locked-map     met      accepted     12
        clean-rust-windows      unmet    false alarm  12      src/sorted.rs:4: this is wrong
        go-map-race             unmet    found        12      count/count.go:16: this is wrong
        python-swallowed-error  met      missed       12
        rust-last-page          unknown  unsure       12      the answer has no JSON object with a verdict: "Hard to say."

        prompt, model a-model
        precision   50 %  1 of 2 objections were about a defect, 1 false alarm
        recall      33 %  1 of 3 defects found, 1 missed
        unsure      20 %  1 of 5 cases
        quotes     2 not in the file, 0 unconfirmed
        usage      5 calls, 50 tokens in, 10 out, [time]

        --- stderr
        1/5  clean-go-locked-map: accepted
        2/5  clean-rust-windows: false alarm
        3/5  go-map-race: found
        4/5  python-swallowed-error: missed
        5/5  rust-last-page: unsure
        "#);
    });
    let ended = bench(&sandbox, &scripted_judge().url(), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let mut score = report["score"].clone();
    score["took_ms"] = 0.into();
    assert_snapshot!(score, @r#"{"accepted":1,"calls":5,"cases":5,"defects":3,"false_alarms":1,"found":1,"input_tokens":50,"misquoted":2,"missed":1,"not_asked":0,"output_tokens":10,"precision":0.5,"recall":0.333,"took_ms":0,"unconfirmed":0,"unsure":1,"unsure_rate":0.2,"usd":null,"wrong_place":0}"#);
    let grades: Vec<_> = report["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {}", row["case"], row["grade"]).replace('"', ""))
        .collect();
    assert_eq!(
        grades,
        [
            "clean-go-locked-map accepted",
            "clean-rust-windows false_alarm",
            "go-map-race found",
            "python-swallowed-error missed",
            "rust-last-page unsure",
        ]
    );
}

/// Cases for which no money is left say nothing about the judge, and a judge that cannot be asked fails once.
#[test]
fn cases_that_are_not_asked_are_in_no_figure() {
    let sandbox = Sandbox::new();
    let answer = r#"{"verdict": "met", "usage": {"input_tokens": 10, "output_tokens": 2, "micro_usd": 3000}}"#;
    write_program(&sandbox.project().join("judge"), &format!("#!/bin/sh\necho '{answer}'\n"));
    let mut args = vec!["judge", "bench", "--max-cost", "0.005"];
    args.extend(CASES.iter().flat_map(|case| ["--case", case]));
    let ended = sandbox.ralph(args.iter().copied().chain(["--", "./judge"]));
    let answers = [
        ended,
        sandbox.ralph(["judge", "bench", "--", "no-such-judge"]),
        sandbox.ralph(["judge", "bench", "--host", "claude"]),
        sandbox.ralph([
            "judge",
            "bench",
            "--http",
            "https://x.example",
            "--model",
            "m",
            "--key",
            "NO_SUCH_KEY",
        ]),
    ];
    let shown: Vec<_> = answers.iter().map(|ended| sandbox.normalize(&ended.to_string())).collect();
    insta::with_settings!({filters => vec![(r", \d+ s\n", ", [time]\n")]}, {
        assert_snapshot!(shown.join("\n"), @"
        exit 0
        --- stdout
        CASE                    VERDICT  GRADE      TOKENS  NOTE
        clean-go-locked-map     met      accepted   12
        clean-rust-windows      met      accepted   12
        go-map-race             unknown  not asked  0       the budget of $0.005 is used up: $0.006 spent
        python-swallowed-error  unknown  not asked  0       the budget of $0.005 is used up: $0.006 spent
        rust-last-page          unknown  not asked  0       the budget of $0.005 is used up: $0.006 spent

        prompt
        precision      -  0 of 0 objections were about a defect, 0 false alarms
        recall         -  0 of 0 defects found, 0 missed
        unsure       0 %  0 of 2 cases
        quotes     0 not in the file, 0 unconfirmed
        usage      2 calls, 20 tokens in, 4 out, $0.006, [time]
        not asked  3 of 5 cases

        --- stderr
        1/5  clean-go-locked-map: accepted
        2/5  clean-rust-windows: accepted
        3/5  go-map-race: not asked
        4/5  python-swallowed-error: not asked
        5/5  rust-last-page: not asked

        exit 1
        --- stderr
        error: the judge needs `no-such-judge`, which was not found
          hint: install it, or give its path

        exit 1
        --- stderr
        error: the judge needs `claude`, which was not found
          hint: install it, or give its path: `--host-program PATH`

        exit 1
        --- stderr
        error: the judge needs $NO_SUCH_KEY, which is not set here
          hint: set it and run this again
        ");
    });
}

/// A command as a judge, one that never answers usefully, and options that do not fit.
#[test]
fn commands_are_measured_and_mistakes_are_reported() {
    let sandbox = Sandbox::new();
    write_program(&sandbox.project().join("judge"), "#!/bin/sh\necho '{\"verdict\": \"met\"}'\n");
    let all = sandbox.ralph(["judge", "bench", "--json", "--", "./judge"]);
    let report: serde_json::Value = serde_json::from_str(&all.stdout).unwrap();
    let score = &report["score"];
    assert_eq!(
        (&score["cases"], &score["missed"], &score["accepted"], &score["recall"]),
        (&30.into(), &20.into(), &10.into(), &0.0.into())
    );
    assert_eq!(score["precision"], serde_json::Value::Null);
    assert_eq!(all.stderr.lines().last(), Some("30/30  ts-missing-await: missed"));
    let answers = [
        sandbox.ralph(["judge", "bench", "--case", "go-map-race", "--", "./none"]),
        sandbox.ralph(["judge", "bench"]),
        sandbox.ralph(["judge", "bench", "--case", "none", "--", "./judge"]),
        sandbox.ralph(["judge", "bench", "--judge", "review"]),
        sandbox.ralph(["judge", "bench", "--http", "https://x.example"]),
        sandbox.ralph(["judge", "bench", "--http", "http://x.example", "--model", "m"]),
        sandbox.ralph(["judge", "bench", "--host", "codex"]),
        sandbox.ralph(["judge", "bench", "--judge", "review", "--model", "m"]),
        sandbox.ralph(["judge", "bench", "--list", "--json", "--case", "go-map-race"]),
    ];
    let shown: Vec<_> = answers.iter().map(|ended| sandbox.normalize(&ended.to_string())).collect();
    insta::with_settings!({filters => vec![(r", \d+ s\n", ", [time]\n")]}, {
        assert_snapshot!(shown.join("\n"), @r#"
        exit 1
        --- stderr
        error: there is no program `./none`
          hint: give its path after `--`

        exit 1
        --- stderr
        error: no judge given
          hint: use `--judge NAME`, `--host claude`, `--http URL --model MODEL` or `-- COMMAND`

        exit 1
        --- stderr
        error: there is no case `none`
          hint: `ralph judge bench --list` lists them

        exit 1
        --- stderr
        error: there is no judge `review`
          hint: this project has no `[[judge]]`

        exit 1
        --- stderr
        error: `--model` is missing
          hint: run `ralph judge bench --help`

        exit 1
        --- stderr
        error: the judge has a URL that cannot be used
          hint: expected an `https://` URL without credentials, query or fragment; plain `http://` only on the loopback interface

        exit 1
        --- stderr
        error: the judge cannot have the host `"codex"`
          hint: hosts that can judge: `"claude"`

        exit 1
        --- stderr
        error: `--judge` and `--model` cannot be used together
          hint: run `ralph judge bench --help`

        exit 0
        --- stdout
        {"v":1,"cases":[{"name":"go-map-race","language":"Go","defect":"race: goroutines write to one map without a lock","suspicious":null}]}
        "#);
    });
}

/// A judge of the policy is a command of the repository: it is not run before a person approved it.
#[test]
fn a_judge_of_an_unapproved_policy_is_not_run() {
    let sandbox = Sandbox::new();
    write_program(
        &sandbox.project().join("judge"),
        "#!/bin/sh\ntouch ran\necho '{\"verdict\": \"met\"}'\n",
    );
    sandbox.write(
        "ralph.toml",
        "[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = { command = [\"./judge\"] }\n",
    );
    let ended = sandbox.ralph(["judge", "bench", "--judge", "review", "--case", "go-map-race"]);
    assert_snapshot!(ended.to_string(), @"
    exit 3
    --- stderr
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
    assert!(!sandbox.project().join("ran").exists());
    sandbox.approve_policy();
    let ended =
        sandbox.ralph(["judge", "bench", "--judge", "review", "--case", "go-map-race", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(sandbox.project().join("ran").exists());
}

#[test]
fn presets_are_listed_and_printed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.ralph(["judge", "presets"]).to_string(), @"
    exit 0
    --- stdout
    KIND         QUESTION
    prompt       does the change meet the goal?
    agent        does the change meet the goal? (an agent that reads files and has gates run)
    adversarial  can one of several reviewers refute the work?
    plan         does the work match the plan, step by step?
    goal         is a goal met that no test measures?
    amended      did the goal ask for the changes to existing tests?
    ");
    let goal = sandbox.ralph(["judge", "presets", "goal"]);
    assert!(goal.stdout.starts_with("You decide whether the goal of a change"), "{goal}");
    let json = sandbox.ralph(["judge", "presets", "goal", "--json"]);
    let presets: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(presets["presets"][0]["text"].as_str(), Some(goal.stdout.as_str()));
}
