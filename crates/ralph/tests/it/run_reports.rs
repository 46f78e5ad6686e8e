//! `ralph report`, and the reports that `ralph run` writes when a run ends.

use crate::runner::RunnerSandbox;
use crate::sandbox::{CommandOutcome, Sandbox, run_command};
use insta::assert_snapshot;
use regex::Regex;
use std::fs;
use std::path::Path;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SAMPLE_PAGE: &str = "docs/sample-report.md";
const SAMPLE_GOAL: &str = "Let export.sh write its header in upper case, and quote every field that contains a comma. Rows without commas stay as they are.";

const EXPORT: &str =
    "# Writes the orders as CSV.\necho 'id,customer,total'\nsed 's/;/,/g' orders.txt\n";
const TESTS: &str = r#"
failed=0
number=0
for test in tests/*.sh; do
  number=$((number + 1))
  name=$(basename "$test" .sh)
  if sh "$test"; then echo "ok $number - $name"; else echo "not ok $number - $name"; failed=1; fi
done
echo "1..$number"
exit $failed
"#;

/// A run with stops that are held, a command that is denied, a disputed test that the person then lets the agent change,
/// a full context, a question that a person answers later, and a file that has nothing to do with the goal.
const SAMPLE_STEPS: &str = r#"
[[step]]
tools = [{ run = "sh export.sh" }]

[[step]]
agent = "The export is simple enough. I am done."
usage = { input = 60000 }

[[step]]
tools = [
  { edit = "export.sh", old = "'id,customer,total'", new = "'ID,CUSTOMER,TOTAL' # LATER: which quotes?" },
  { edit = "export.sh", old = "sed 's/;/,/g' orders.txt", new = "awk -F';' -v q=\"'\" '{ for (i = 1; i <= NF; i++) printf \"%s%s\", $i ~ /,/ ? q $i q : $i, i < NF ? \",\" : \"\\n\" }' orders.txt" },
]

[[step]]
agent = "The header is in upper case now, and fields are quoted. Done."
usage = { input = 240000 }

[[step]]
tools = [{ run = "ralph waive lint --why 'the note is only a reminder'" }]

[[step]]
tools = [{ run = "RALPH dispute tests 'tests/comma.sh wants no quotes, but the goal asks for them'" }]

[[step]]
agent = "The note may stay. Done."
usage = { input = 520000 }

[[step]]
tools = [{ edit = "export.sh", old = "orders as CSV.", new = "orders as CSV, one per line." }]

[[step]]
agent = "The quotes are next."
usage = { input = 850000 }

[[step]]
agent = "The header is done. The quotes are in the awk call of export.sh."

[[step]]
tools = [{ run = "RALPH ask 'Are fields quoted with single or with double quotes?'" }]

[[step]]
agent = "I asked which quotes are meant."

[[step]]
tools = [
  { edit = "export.sh", old = "-v q=\"'\"", new = "-v q='\"'" },
  { edit = "export.sh", old = " # LATER: which quotes?", new = "" },
  { edit = "tests/comma.sh", old = "^3,Doe, Jane,7$", new = "^3,\"Doe, Jane\",7$" },
  { write = "tests/quotes.sh", text = "test \"$(sh export.sh | grep -c '\"')\" = 1\n" },
  { write = "scripts/release.sh", text = "git tag \"v$1\" && git push --tags\n" },
]

[[step]]
tools = [{ run = "git add -A . && git -c user.name=agent -c user.email=agent@localhost commit -qm 'Quote fields with a comma'" }]

[[step]]
agent = "Fields with a comma are quoted, the header is in upper case, and tests/quotes.sh checks it."
"#;

/// Plays the run, and returns the report that was written at its end.
fn play_sample_run() -> (RunnerSandbox, String) {
    let steps = SAMPLE_STEPS.replace("RALPH", env!("CARGO_BIN_EXE_ralph"));
    let runner = RunnerSandbox::with_project(&steps, |sandbox: &Sandbox| {
        sandbox.write("orders.txt", "1;Smith;12\n2;Miller;30\n3;Doe, Jane;7\n");
        sandbox.write("export.sh", EXPORT);
        sandbox.write("tests.sh", TESTS);
        sandbox
            .write("tests/header.sh", "sh export.sh | head -n 1 | grep -q '^ID,CUSTOMER,TOTAL$'\n");
        sandbox.write("tests/rows.sh", "sh export.sh | grep -q '^2,Miller,30$'\n");
        sandbox.write("tests/comma.sh", "sh export.sh | grep -q '^3,Doe, Jane,7$'\n");
        sandbox.write("lint.sh", "! grep -n LATER export.sh\n");
        sandbox.write(
            "ralph.toml",
            "[verify]\nmay_change = [\"tests/comma.sh\"]\n\n[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\nreport = \"tap\"\n\n[[gate]]\nname = \"lint\"\nrun = [\"sh\", \"lint.sh\"]\n",
        );
    });
    fs::write(runner.sandbox.ralph_home("config.toml"), "[runner]\nquestion_after = \"1s\"\n")
        .unwrap();
    let flags = ["--allow-skip-permissions", "--", "--dangerously-skip-permissions"];
    let parked = run_text(&runner, &[&[SAMPLE_GOAL], &flags[..]].concat());
    assert_eq!(parked.code, Some(5), "{parked}");
    let id = runner.run_id();
    let told = runner.sandbox.ralph([
        "tell",
        &id,
        "Double quotes, as in RFC 4180. tests/comma.sh may change.",
    ]);
    assert_eq!(told.code, Some(0), "{told}");
    let ended = run_text(&runner, &["--resume", &id]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let path = runner.sandbox.ralph_home("runs").join(&id).join("report.md");
    let report = fs::read_to_string(path).unwrap();
    (runner, report)
}

fn run_text(runner: &RunnerSandbox, args: &[&str]) -> CommandOutcome {
    let mut command = runner.sandbox.command();
    command.args(["run", "--quiet", "--agent-program"]).arg(runner.root_path("agent")).args(args);
    run_command(&mut command, b"")
}

/// Masks what differs from one run to the next.
fn masked(text: &str) -> String {
    let mut text = text.to_string();
    for (pattern, mask) in [
        (r"\d{4}-\d\d-\d\d", "DATE"),
        (r"\bUTC([+-]\d+(:\d\d)?)?", "ZONE"),
        (r"\d\d:\d\d(:\d\d)?", "TIME"),
        (r"\b\d+(\.\d+)? (ms|s|min)\b", "DURATION"),
        (r"\$\d[\d.]*", "COST"),
        (r"\b[0-9a-f]{7,64}\b", "ID"),
        (r"(ralph (why|report|verify-report|checkpoint diff)|Run) `?[0-9a-z]{4}\b`?", "$1 RUN"),
        (r"--(fork|resume) [0-9a-z]{4}\b", "--$1 RUN"),
        (r"--out [0-9a-z]{4}\.", "--out RUN."),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

/// The report in the documentation is that of a real run. `RALPH_GENERATE=1` writes it anew.
#[test]
fn the_sample_report_is_that_of_a_real_run() {
    let (_runner, report) = play_sample_run();
    let path = Path::new(REPOSITORY).join(SAMPLE_PAGE);
    let known = fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("RALPH_GENERATE").is_some() && masked(&known) != masked(&report) {
        fs::write(&path, &report).unwrap();
        return;
    }
    assert_eq!(masked(&known), masked(&report));
}

/// Both files are written when the run ends, and are what `ralph report` prints then.
#[test]
fn the_reports_of_a_run_are_in_its_directory() {
    let (runner, markdown) = play_sample_run();
    let id = runner.run_id();
    assert_eq!(runner.sandbox.ralph(["report"]).stdout, markdown);
    let page = runner.root_path("page.html");
    let written = runner.sandbox.ralph(["report", &id, "--out", page.to_str().unwrap()]);
    assert_eq!(written.stdout, format!("{id}  report in `{}`\n", page.display()));
    let directory = runner.sandbox.ralph_home("runs").join(&id);
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!(fs::read_to_string(directory.join("report.html")).unwrap(), html);
    let json = runner.sandbox.ralph(["report", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["page"]["row"]["status"], "verified");
    assert_eq!(json["changes"]["files"][0]["path"], "export.sh");
}

/// `--format` decides, whatever the file is called.
#[test]
fn a_format_comes_before_the_name_of_the_file() {
    let runner = RunnerSandbox::new("[[step]]\nagent = \"Done.\"\nrepeat = \"forever\"\n");
    let flags = [
        "--max-iterations",
        "1",
        "--allow-skip-permissions",
        "--",
        "--dangerously-skip-permissions",
    ];
    let ended = run_text(&runner, &[&["Do it."], &flags[..]].concat());
    assert_eq!(ended.code, Some(2), "{ended}");
    let file = runner.root_path("report.html");
    for (args, beginning) in [
        (&[][..], "<!DOCTYPE html>"),
        (&["--format", "md"], "# exhausted: "),
        (&["--json"], "{\"v\":1,\"page\":"),
    ] {
        let args = [&["report", "--out", file.to_str().unwrap()], args].concat();
        let written = runner.sandbox.ralph(&args);
        assert_eq!(written.code, Some(0), "{written}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(beginning), "{args:?}: {text}");
    }
    let refused = runner.sandbox.ralph(["report", "--out", "report.pdf"]);
    assert_snapshot!(refused, @"
    exit 1
    --- stderr
    error: no format of a report has the ending `.pdf`
      hint: use `.md`, `.html` or `.json`, or choose the format: `--format md`
    ");
}

/// A run that ended `verified`, and its id.
fn play_verified_run() -> (RunnerSandbox, String) {
    let steps = "[[step]]\ntools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]\n\n[[step]]\nagent = \"Done.\"\n";
    let runner = RunnerSandbox::new(steps);
    let flags = ["--allow-skip-permissions", "--", "--dangerously-skip-permissions"];
    let ended = run_text(&runner, &[&["Let main.sh say goodbye."], &flags[..]].concat());
    assert_eq!(ended.code, Some(0), "{ended}");
    let id = runner.run_id();
    (runner, id)
}

/// The journal is what the result rests on: after an edit of it, no headline is plainly `verified`.
#[test]
fn an_edited_journal_is_in_every_headline() {
    let (runner, id) = play_verified_run();
    let journal = runner.sandbox.ralph_home("runs").join(&id).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"seq\":2,", "\"seq\": 2,", 1)).unwrap();
    let shown = || {
        let report = runner.sandbox.ralph(["report", &id]).stdout;
        let head = report.split("## What was asked").next().unwrap().to_string();
        let status = runner.sandbox.ralph(["status", &id]).stdout;
        let why = runner.sandbox.ralph(["why", &id]).stdout;
        masked(&format!("{status}\n{why}\n{head}").replace(&id, "RUN"))
    };
    assert_snapshot!(shown());
    fs::remove_file(&journal).unwrap();
    assert_snapshot!("a_missing_journal", shown());
}

/// The goal that a report quotes is the one of the start, or the report says that it is not.
#[test]
fn a_changed_goal_is_reported_after_the_end() {
    let (runner, id) = play_verified_run();
    let goal = runner.sandbox.ralph_home("runs").join(&id).join("goal.txt");
    fs::write(&goal, "Let main.sh say nothing.").unwrap();
    let report = runner.sandbox.ralph(["report", &id]).stdout;
    let (_, report) = report.split_once("## Look at this first").unwrap();
    let (first, _) = report.split_once("## Evidence").unwrap();
    assert_snapshot!(first.trim(), @"
    1. ralph's own files were edited: `` `goal.txt` was changed after the start ``

    ## What was asked

    ```text
    Let main.sh say goodbye.
    ```
    ");
}

/// A goal and a name from the repository are text in every format.
#[test]
fn a_hostile_goal_stays_text() {
    let steps = "[[step]]\nagent = \"No. <script>alert(1)</script>\"\nrepeat = \"forever\"\n";
    let runner = RunnerSandbox::new(steps);
    runner.sandbox.write("a`|<b>.txt", "x\n");
    let goal = "</style><script>alert(1)</script> [x](https://evil.example) | `` @me #1";
    let flags = [
        "--max-iterations",
        "1",
        "--allow-skip-permissions",
        "--",
        "--dangerously-skip-permissions",
    ];
    let ended = run_text(&runner, &[&[goal], &flags[..]].concat());
    assert_eq!(ended.code, Some(2), "{ended}");
    // The invisible characters that break mentions and links are shown.
    let report = masked(&runner.sandbox.ralph(["report"]).stdout).replace('\u{2060}', "⌿");
    assert_snapshot!(report);
    let html = runner.sandbox.ralph(["report", "--format", "html"]).stdout;
    let body = html.split_once("</head>").unwrap().1;
    assert!(!html.contains("<script") && !body.contains("</style>"), "{html}");
}

/// A runner whose agent runs a script of its own, named `SCRIPT` in the steps.
fn runner_with_script(steps: &str, script: &str) -> RunnerSandbox {
    let runner = RunnerSandbox::new(steps);
    let path = runner.root_path("script.sh");
    fs::write(&path, script).unwrap();
    let scenario = runner.root_path("scenario.toml");
    let text = fs::read_to_string(&scenario).unwrap();
    fs::write(&scenario, text.replace("SCRIPT", &format!("sh {}", path.display()))).unwrap();
    runner
}

const STEPS_WITH_SCRIPT: &str = "[[step]]\ntools = [{ run = \"SCRIPT\" }]\n\n[[step]]\ntools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]\n\n[[step]]\nagent = \"Done.\"\n";
const SKIP_PERMISSIONS: [&str; 3] =
    ["--allow-skip-permissions", "--", "--dangerously-skip-permissions"];

/// A report that cannot be written does not change how the run ends.
#[test]
fn a_report_that_cannot_be_written_changes_nothing() {
    // Whatever the id of the run is, a directory is in the place of its report.
    let script = "for run in $HOME/.ralph/runs/*; do mkdir -p $run/report.md/x; done";
    let runner = runner_with_script(STEPS_WITH_SCRIPT, script);
    let ended = run_text(&runner, &[&["Let main.sh say goodbye."], &SKIP_PERMISSIONS[..]].concat());
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(!ended.stdout.contains("report.html"), "{ended}");
}

/// The reports from the end of a run do not keep calling it unproved after a person has accepted it.
#[test]
fn an_acceptance_is_in_the_reports_of_the_run() {
    let script = "for run in $HOME/.ralph/runs/*; do printf 0000000009 > $run/count; done";
    for is_writable in [true, false] {
        let runner = runner_with_script(STEPS_WITH_SCRIPT, script);
        let ended =
            run_text(&runner, &[&["Let main.sh say goodbye."], &SKIP_PERMISSIONS[..]].concat());
        let id = runner.run_id();
        let directory = runner.sandbox.ralph_home("runs").join(&id);
        let headlines = || {
            ["report.md", "report.html"].map(|name| {
                let text = fs::read_to_string(directory.join(name)).unwrap();
                let starts = ["needs review", "verified"].map(|label| text.find(label));
                let start = starts.into_iter().flatten().min().unwrap();
                text[start..].split([':', ',', '<']).next().unwrap().to_string()
            })
        };
        assert_eq!(headlines(), ["needs review", "needs review"], "{ended}");
        if !is_writable {
            fs::remove_file(directory.join("report.md")).unwrap();
            fs::create_dir_all(directory.join("report.md/x")).unwrap();
        }
        let args = ["accept", &id, "--why", "read every line"];
        let (accepted, _) = runner.sandbox.ralph_typing(args, str::to_string);
        assert_eq!(accepted.code, Some(0), "{accepted}");
        assert_eq!(runner.sandbox.run_status(&id).0, "verified");
        if is_writable {
            assert_eq!(headlines(), ["verified (accepted by a person)"; 2]);
            let markdown = fs::read_to_string(directory.join("report.md")).unwrap();
            assert_eq!(runner.sandbox.ralph(["report", &id]).stdout, markdown);
        }
    }
}

/// A changed CI file is in the report, on the board's page of the run and in both objects.
#[test]
fn a_changed_ci_file_is_listed_wherever_a_run_is_shown() {
    let steps = "[[step]]\ntools = [\n  { write = \".github/workflows/ci.yml\", text = \"on: push\\n\" },\n  { edit = \"main.sh\", old = \"hello\", new = \"goodbye\" },\n]\n\n[[step]]\nagent = \"Done.\"\n";
    let runner = RunnerSandbox::new(steps);
    let ended = run_text(&runner, &[&["Let main.sh say goodbye."], &SKIP_PERMISSIONS[..]].concat());
    assert_eq!(ended.code, Some(0), "{ended}");
    let id = runner.run_id();
    assert_snapshot!(masked(&runner.sandbox.ralph(["report"]).stdout));
    let first = |args: &[&str], pointer: &str| {
        let printed = runner.sandbox.ralph(args).stdout;
        let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let list = object.pointer(pointer).unwrap().as_array().unwrap();
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let report = first(&["report", "--json"], "/page/look_first");
    assert_snapshot!(report, @r#"{"kind":"settings_changed","stop":null,"text":"CI: .github/workflows/ci.yml (added)"}"#);
    assert_eq!(first(&["watch", &id, "--json"], "/look_first"), report);
    let screen = runner.sandbox.ralph(["watch", "--once", &id]).stdout;
    let line = screen.lines().find(|line| line.contains("look first")).unwrap();
    assert_snapshot!(line, @" look first: checks may have changed: CI: .github/workflows/ci.yml (added)");
}
