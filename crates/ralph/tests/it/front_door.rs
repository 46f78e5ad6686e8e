//! `ralph run "goal"` in a project that has never seen ralph, checks for one goal, and `ralph gate add`.

use crate::runner::{GOAL, RunnerSandbox};
use crate::sandbox::Sandbox;
use insta::assert_snapshot;
use std::fs;

const FIX: &str = "
[[step]]
agent = \"I think it does.\"

[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"Now it does.\"
";
const QUESTION: &str = "[N] cancel: ";

/// The project of [`RunnerSandbox`] without a policy and without an approval.
fn new_project(steps: &str) -> RunnerSandbox {
    let runner = RunnerSandbox::new(steps);
    fs::remove_file(runner.sandbox.project().join("ralph.toml")).unwrap();
    runner.sandbox.commit();
    assert_eq!(runner.sandbox.ralph(["trust", "--revoke"]).code, Some(0));
    runner
}

impl RunnerSandbox {
    fn run_at_terminal(&self, args: &[&str], answers: &[(&str, &str)]) -> (Option<i32>, String) {
        let agent = self.root_path("agent").to_str().unwrap().to_string();
        let args = [&["run", GOAL, "--agent-program", &agent], args].concat();
        let (code, screen) = self.sandbox.ralph_answering(args, answers);
        (code, self.sandbox.normalize(&screen))
    }

    fn run_without_terminal(&self, args: &[&str]) -> crate::sandbox::CommandOutcome {
        let agent = self.root_path("agent").to_str().unwrap().to_string();
        self.sandbox.ralph([&["run", GOAL, "--agent-program", &agent], args].concat())
    }
}

/// The text from the beginning to the question, and whether it is asked again.
fn first_screen(screen: &str) -> &str {
    screen.split_inclusive(QUESTION).next().unwrap()
}

/// Gates, permission and limits are one question; the second run in the same project has none.
#[test]
fn a_new_project_is_asked_once() {
    let runner = new_project(&format!("{FIX}\n[[step]]\nagent = \"It does already.\"\n"));
    let (code, screen) = runner.run_at_terminal(&[], &[(QUESTION, "n")]);
    assert_eq!(code, Some(1), "{screen}");
    assert_snapshot!(screen, @r"
    Let main.sh say goodbye.
      project  `$ROOT/project`
      gates    tests  sh tests.sh
               a yes writes them to `ralph.toml` and approves them
      sealed   `tests.sh`: the agent may not change it; `--may-change FILE` allows it
      agent    `$ROOT/agent` (as `claude`) may edit files here (`--permission-mode acceptEdits`), anything else as its settings allow
      limits   25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    [y] run · [e] edit ralph.toml first · [d] details · [N] cancel: nothing was written or started
      hint: paste `ralph run 'Let main.sh say goodbye.' --agent-program $ROOT/agent` to start it later
    ");
    assert!(!runner.sandbox.project().join("ralph.toml").exists());
    let answers = [(QUESTION, "x"), (QUESTION, "d"), (QUESTION, "y")];
    let (code, screen) = runner.run_at_terminal(&[], &answers);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches(QUESTION).count(), 3, "{screen}");
    assert!(screen.contains("`x` is not an answer; type y, e, d or n\n"), "{screen}");
    // The details show the command that a yes runs.
    let agent = screen.lines().find(|line| line.starts_with("  agent     ")).unwrap();
    assert!(agent.contains(" --permission-mode acceptEdits"), "{agent}");
    assert!(runner.sandbox.project().join("ralph.toml").exists());
    runner.sandbox.commit();
    let (_, screen) = runner.run_at_terminal(&["--max-iterations", "1"], &[]);
    assert!(!screen.contains(QUESTION), "{screen}");
    assert!(screen.contains("--permission-mode acceptEdits") || !screen.contains("no flag gives"));
}

#[test]
fn editing_first_writes_the_policy_and_starts_nothing() {
    let runner = new_project(FIX);
    let (code, screen) = runner.run_at_terminal(&[], &[(QUESTION, "e")]);
    assert_eq!(code, Some(1), "{screen}");
    assert!(runner.sandbox.project().join("ralph.toml").exists());
    let told = screen.split_once(QUESTION).unwrap().1.trim_start_matches("e\n").trim();
    assert_snapshot!(told, @r"
    wrote `$ROOT/project/ralph.toml`; nothing was approved or started
      hint: edit it, then paste `ralph trust && ralph run 'Let main.sh say goodbye.' --agent-program $ROOT/agent`
    ");
    assert!(!runner.sandbox.ralph_home("runs").exists());
}

/// Without a terminal nothing is approved; the error has the command that does it.
#[test]
fn yes_answers_the_same_question_without_a_terminal() {
    let runner = new_project(FIX);
    let refused = runner.run_without_terminal(&[]);
    assert_eq!(refused.code, Some(1));
    assert_snapshot!(runner.sandbox.normalize(&refused.stderr), @"
    error: the detected gates are not approved: tests; not a terminal, so I can't ask
      hint: paste `ralph run --dry-run 'Let main.sh say goodbye.' --agent-program $ROOT/agent` to see everything, `ralph run --yes 'Let main.sh say goodbye.' --agent-program $ROOT/agent` to approve the gates and let the agent edit files
    ");
    let ended = runner.run_without_terminal(&["--yes"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(
        runner.sandbox.normalize(ended.stdout.lines().take(8).collect::<Vec<_>>().join("\n").as_str()),
        @r"
    Let main.sh say goodbye.
      project  `$ROOT/project`
      gates    tests  sh tests.sh
               a yes writes them to `ralph.toml` and approves them
      sealed   `tests.sh`: the agent may not change it; `--may-change FILE` allows it
      agent    `$ROOT/agent` (as `claude`) may edit files here (`--permission-mode acceptEdits`), anything else as its settings allow
      limits   25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    [run]    Let main.sh say goodbye.
    "
    );
}

/// A project without anything to detect is asked for its command, which becomes a gate.
#[test]
fn a_typed_command_becomes_the_gate() {
    let runner = new_project(FIX);
    let project = runner.sandbox.project().to_path_buf();
    fs::rename(project.join("tests.sh"), project.join("verify.sh")).unwrap();
    runner.sandbox.commit();
    let refused = runner.run_without_terminal(&["--yes"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert_snapshot!(runner.sandbox.normalize(&refused.stderr), @r#"
    error: no gate was detected, so nothing would measure the goal
      hint: name a command that tests the work: `ralph run --check "CMD" 'Let main.sh say goodbye.' --agent-program $ROOT/agent --yes` for this goal, `ralph gate add "CMD"` for every goal; `--no-gates` runs without one
    "#);
    runner.sandbox.write("goals/one.md", "Let main.sh say goodbye.\n");
    let agent = runner.root_path("agent").to_str().unwrap().to_string();
    let refused = runner.sandbox.ralph(["run", "--queue", "goals", "--agent-program", &agent]);
    assert_snapshot!(runner.sandbox.normalize(&refused.stderr), @r#"
    error: task `one`: no gate was detected, so nothing would measure the goal
      hint: `ralph gate add "CMD"` adds one for every goal; `--no-gates` runs without one
    "#);
    // A dry run checks the same.
    for detected in ["verify.sh", "tests.sh"] {
        fs::rename(project.join("verify.sh"), project.join(detected)).unwrap();
        let args = ["run", "--queue", "goals", "--agent-program", &agent];
        let [real, dry] = [&[][..], &["--dry-run"]]
            .map(|more| runner.sandbox.ralph([&args[..], more].concat()).to_string());
        assert_eq!(real, dry);
    }
    fs::rename(project.join("tests.sh"), project.join("verify.sh")).unwrap();
    fs::remove_dir_all(project.join("goals")).unwrap();
    let asked = "empty for none) ";
    let (code, screen) = runner.run_at_terminal(&[], &[(asked, "\u{4}")]);
    assert_eq!(code, Some(1), "{screen}");
    assert_snapshot!(screen, @r"
    no gate was detected, and without one nothing measures the goal
    how do you test this? (a command such as `sh test.sh`; empty for none) 
    nothing was written or started
      hint: paste `ralph run 'Let main.sh say goodbye.' --agent-program $ROOT/agent` to start it later
    ");
    let answers = [(asked, "no-such-program"), (asked, "sh verify.sh"), (QUESTION, "y")];
    let (code, screen) = runner.run_at_terminal(&[], &answers);
    assert_eq!(code, Some(0), "{screen}");
    assert_snapshot!(first_screen(&screen), @r"
    no gate was detected, and without one nothing measures the goal
    how do you test this? (a command such as `sh test.sh`; empty for none) `no-such-program` is not on PATH
    how do you test this? (a command such as `sh test.sh`; empty for none) Let main.sh say goodbye.
      project  `$ROOT/project`
      gates    tests  sh verify.sh
               a yes writes them to `ralph.toml` and approves them
      sealed   `verify.sh`: the agent may not change it; `--may-change FILE` allows it
      agent    `$ROOT/agent` (as `claude`) may edit files here (`--permission-mode acceptEdits`), anything else as its settings allow
      limits   25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    [y] run · [e] edit ralph.toml first · [d] details · [N] cancel:
    ");
    let policy = fs::read_to_string(project.join("ralph.toml")).unwrap();
    assert!(policy.contains("run = [\"sh\", \"verify.sh\"]"), "{policy}");
}

/// The notes of a dry run are true for the answer that `--yes` gives.
#[test]
fn a_dry_run_with_yes_notes_what_yes_does() {
    let runner = new_project(FIX);
    let notes = |args: &[&str]| {
        let shown = runner.run_without_terminal(args).stdout;
        let lines = shown.lines().filter(|line| line.starts_with("  note "));
        let agent = shown.lines().find(|line| line.starts_with("  agent "));
        let agent = agent.is_some_and(|line| line.contains(" --permission-mode acceptEdits"));
        format!("{args:?}, may edit: {agent}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
    };
    let mut shown = notes(&["--dry-run"]) + &notes(&["--dry-run", "--yes"]);
    let project = runner.sandbox.project().to_path_buf();
    fs::rename(project.join("tests.sh"), project.join("verify.sh")).unwrap();
    shown.push_str(&notes(&["--dry-run"]));
    shown.push_str(&notes(&["--dry-run", "--yes"]));
    fs::rename(project.join("verify.sh"), project.join("tests.sh")).unwrap();
    // Other tools than those that edit decide nothing about edits.
    let ask = ["--allowedTools", "Bash(ralph ask *)"];
    shown.push_str(&notes(&["--dry-run", "--", ask[0], ask[1]]));
    shown.push_str(&notes(&["--dry-run", "--yes", "--", ask[0], ask[1]]));
    assert_snapshot!(runner.sandbox.normalize(&shown), @r#"
    ["--dry-run"], may edit: false
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      these gates are not approved yet: a start asks and writes `$ROOT/project/ralph.toml`; `--yes` approves
    ["--dry-run", "--yes"], may edit: true
      note      these gates are not approved yet: `--yes` writes `$ROOT/project/ralph.toml` and approves them
    ["--dry-run"], may edit: false
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      no gate was detected: a start asks for a command; `--check "CMD"` or `ralph gate add "CMD"` names one
    ["--dry-run", "--yes"], may edit: true
      note      no gate was detected, so `--yes` starts nothing; `--check "CMD"` or `ralph gate add "CMD"` names one
    ["--dry-run", "--", "--allowedTools", "Bash(ralph ask *)"], may edit: false
      note      no flag lets the agent edit files: edits that its own settings do not allow are denied; `-- --permission-mode acceptEdits` lets it edit
      note      these gates are not approved yet: a start asks and writes `$ROOT/project/ralph.toml`; `--yes` approves
    ["--dry-run", "--yes", "--", "--allowedTools", "Bash(ralph ask *)"], may edit: true
      note      these gates are not approved yet: `--yes` writes `$ROOT/project/ralph.toml` and approves them
    "#);
}

/// Checks of one run are not written, and sealed files are named with the way to let the agent change them.
#[test]
fn the_question_names_what_is_written_and_what_is_sealed() {
    let runner = new_project("");
    runner.sandbox.write("accept.sh", "test -e NEWS\n");
    runner.sandbox.commit();
    let (_, with_check) = runner.run_at_terminal(&["--check", "sh accept.sh"], &[(QUESTION, "n")]);
    let (_, allowed) = runner.run_at_terminal(&["--may-change", "tests.sh"], &[(QUESTION, "n")]);
    assert_snapshot!(format!("{}\n---\n{}", first_screen(&with_check), first_screen(&allowed)), @r"
    Let main.sh say goodbye.
      project  `$ROOT/project`
      gates    tests    sh tests.sh
               check-1  sh accept.sh
               a yes writes tests to `ralph.toml` and approves it; checks are for this run only
      sealed   `tests.sh`, `accept.sh`: the agent may not change them; `--may-change FILE` allows it
      agent    `$ROOT/agent` (as `claude`) may edit files here (`--permission-mode acceptEdits`), anything else as its settings allow
      limits   25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    [y] run · [e] edit ralph.toml first · [d] details · [N] cancel: 
    ---
    Let main.sh say goodbye.
      project  `$ROOT/project`
      gates    tests  sh tests.sh
               a yes writes them to `ralph.toml` and approves them
      agent    `$ROOT/agent` (as `claude`) may edit files here (`--permission-mode acceptEdits`), anything else as its settings allow
      limits   25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    [y] run · [e] edit ralph.toml first · [d] details · [N] cancel:
    ");
}

/// The end of a command runs too: the question and its details show all of it.
#[test]
fn a_command_is_shown_whole_before_it_is_approved() {
    let runner = new_project("");
    let command = format!("grep goodbye main.sh{}", " more.sh".repeat(54));
    let answers = [(QUESTION, "d"), (QUESTION, "n")];
    let (code, screen) = runner.run_at_terminal(&["--check", &command], &answers);
    assert_eq!(code, Some(1), "{screen}");
    let shown = screen.lines().filter(|line| line.ends_with(&format!("  {command}")));
    assert_eq!(shown.count(), 2, "{screen}");
}

/// A check is a gate of this run only. It holds the agent, its script is sealed, and no approval covers it.
#[test]
fn a_check_holds_for_one_goal() {
    let runner = RunnerSandbox::new(&format!(
        "
[[step]]
tools = [{{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }}]

[[step]]
agent = \"Now it does.\"

[[step]]
tools = [{{ run = \"echo true > accept.sh\" }}]

[[step]]
agent = \"The check passes too.\"

[[step]]
tools = [{{ run = \"{}; touch NEWS\" }}]

[[step]]
agent = \"Now it passes.\"
",
        "git checkout -q accept.sh"
    ));
    runner.sandbox.write("accept.sh", "test -e NEWS || { echo 'NEWS:1: is missing'; exit 1; }\n");
    runner.sandbox.commit();
    let before = fs::read(runner.sandbox.project().join("ralph.toml")).unwrap();
    let ended = runner.start(&["--check", "sh accept.sh"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let run = runner.run_id();
    let shown = ["status", "why"].map(|command| {
        let shown = runner.sandbox.ralph([command, &run]).stdout;
        let lines = shown.lines().filter(|line| line.contains("check-1"));
        format!("{command}:\n{}", lines.collect::<Vec<_>>().join("\n"))
    });
    assert_snapshot!(runner.sandbox.normalize(&shown.join("\n").replace(&run, "[run]")), @"
    status:
          check-1: `sh accept.sh`, for this run only
    why:
              ✓ a change, policy, tools, nothing hidden, tests, check-1, tests (clean checkout), check-1 (clean checkout)
              ✓ a change, policy, tools, nothing hidden, tests, check-1
                `accept.sh` changed; sealed because gate check-1 names it
              · check-1              not run: `accept.sh` changed since it was approved
              ✗ check-1              1 finding, 1 pre-existing
    ");
    assert_eq!(fs::read(runner.sandbox.project().join("ralph.toml")).unwrap(), before);
}

/// A check that names a file which the work has yet to write is not met. It does not count as broken, however many stops it
/// takes.
#[test]
fn a_check_may_name_a_file_that_the_work_writes() {
    let runner = RunnerSandbox::new(
        "
[[step]]
tools = [{ edit = \"main.sh\", old = \"hello\", new = \"goodbye\" }]

[[step]]
agent = \"First step.\"

[[step]]
tools = [{ run = \"touch NEWS\" }]

[[step]]
agent = \"Second step.\"

[[step]]
tools = [{ run = \"touch CHANGES\" }]

[[step]]
agent = \"Third step.\"

[[step]]
tools = [{ run = \"echo 'import sys; sys.exit(0)' > hi.py\" }]

[[step]]
agent = \"Now it exists.\"
",
    );
    let ended = runner.start(&["--check", "python3 hi.py"]);
    let run = runner.run_id();
    let why = runner.sandbox.ralph(["why", &run]).stdout;
    let checks: Vec<_> = why.lines().filter(|line| line.contains("✗ check-1")).collect();
    assert_eq!(checks.len(), 3, "{why}");
    assert!(checks.iter().all(|line| line.contains("can't open file")), "{why}");
    assert_eq!(ended.code, Some(0), "{ended}");
}

/// `--no-gates --check` measures the goal with the typed command alone, although the project has a policy.
#[test]
fn a_check_replaces_the_gates_that_are_left_out() {
    let runner = RunnerSandbox::new(FIX);
    let ended = runner.start(&["--no-gates", "--check", "grep -q goodbye main.sh"]);
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
fn a_gate_is_added_to_the_policy_and_approved() {
    let sandbox = Sandbox::new();
    sandbox.write("test.sh", "exit 0\n");
    let show = |args: &[&str]| {
        let ended = sandbox.ralph([&["gate", "add"], args].concat());
        format!("$ ralph gate add {}\n{}", args.join(" "), sandbox.normalize(&ended.to_string()))
    };
    let steps = [
        show(&["sh test.sh"]),
        show(&["sh test.sh", "--yes"]),
        show(&["sh test.sh", "--yes", "--name", "again"]),
        show(&["sh other/test.sh", "--yes"]),
        show(&["true", "--yes", "--name", "a b"]),
        show(&["no-such-program", "--yes"]),
        show(&["sh missing.sh"]),
    ];
    assert_snapshot!(steps.join("\n"), @r#"
    $ ralph gate add sh test.sh
    exit 3
    --- stdout
    --- /dev/null
    +++ $ROOT/project/ralph.toml
    @@ -1,0 +1,7 @@
    +# Nothing in this file runs until a person approves it with `ralph trust`.
    +
    +[[gate]]
    +name = "test"
    +stage = "correctness"
    +run = ["sh", "test.sh"]
    +timeout = "10m"


    --- stderr
    error: not a terminal, so I can't ask; nothing was written
      hint: paste `ralph gate add --yes 'sh test.sh'`

    $ ralph gate add sh test.sh --yes
    exit 0
    --- stdout
    --- /dev/null
    +++ $ROOT/project/ralph.toml
    @@ -1,0 +1,7 @@
    +# Nothing in this file runs until a person approves it with `ralph trust`.
    +
    +[[gate]]
    +name = "test"
    +stage = "correctness"
    +run = ["sh", "test.sh"]
    +timeout = "10m"

    added gate `test` and approved it; `ralph gate run test` runs it

    $ ralph gate add sh test.sh --yes --name again
    exit 1
    --- stderr
    error: gate `test` runs this command already
      hint: `ralph gate run test` runs it

    $ ralph gate add sh other/test.sh --yes
    exit 1
    --- stderr
    error: there is a gate `test` already, with another command
      hint: choose another name, such as `--name test-2`

    $ ralph gate add true --yes --name a b
    exit 1
    --- stderr
    error: `gate.name` cannot be `"a b"`
      --> $ROOT/project/ralph.toml:10:8
       |
    10 | name = "a b"
       |        ^^^^^
       |
       = hint: expected 1 to 60 letters, digits, `.`, `_` and `-`

    error: 1 problem in the policy
      hint: `ralph config --schema` describes every key

    $ ralph gate add no-such-program --yes
    exit 1
    --- stderr
    error: `no-such-program` is not on PATH
      hint: name a command that ends with exit code 0 if the work is right

    $ ralph gate add sh missing.sh
    exit 3
    --- stdout
    --- $ROOT/project/ralph.toml
    +++ $ROOT/project/ralph.toml
    @@ -5,3 +5,9 @@
     stage = "correctness"
     run = ["sh", "test.sh"]
     timeout = "10m"
    +
    +[[gate]]
    +name = "missing"
    +stage = "correctness"
    +run = ["sh", "missing.sh"]
    +timeout = "10m"

    note: `missing.sh` does not exist in the project: the gate fails until it does

    --- stderr
    error: not a terminal, so I can't ask; nothing was written
      hint: paste `ralph gate add --yes 'sh missing.sh'`
    "#);
    let added =
        sandbox.ralph(["gate", "add", "true | cat", "--yes", "--stage", "quality", "--json"]);
    let added: serde_json::Value = serde_json::from_str(&added.stdout).unwrap();
    let command = "/bin/sh -c 'true | cat'";
    let gate = serde_json::json!({"name": "true-cat", "stage": "quality", "command": command});
    assert_eq!((&added["gate"], &added["approved"]), (&gate, &true.into()), "{added}");
    assert_eq!(sandbox.ralph(["gate", "run"]).code, Some(0), "both gates are approved");
    sandbox.write("ralph.toml", "# mine\n[[gate]]\nname = 'a'\nrun = ['true']\n");
    assert_snapshot!(show(&["sh test.sh", "--yes"]), @r#"
    $ ralph gate add sh test.sh --yes
    exit 3
    --- stdout
    --- $ROOT/project/ralph.toml
    +++ $ROOT/project/ralph.toml
    @@ -2,4 +2,10 @@
     # mine
     [[gate]]
     name = 'a'
     run = ['true']
    +
    +[[gate]]
    +name = "test"
    +stage = "correctness"
    +run = ["sh", "test.sh"]
    +timeout = "10m"


    --- stderr
    error: added gate `test`, but the policy was not approved before
      hint: `ralph trust` shows all of it and asks
    "#);
    let proposed = Sandbox::new();
    let init = proposed.ralph(["init", "--yes", "--gate", "test -d .", "--gate", "true"]);
    assert_eq!(init.code, Some(0), "{init}");
    let listed = proposed.ralph(["gate", "list", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<_> =
        listed["gates"].as_array().unwrap().iter().map(|gate| gate["name"].clone()).collect();
    assert_eq!(names, ["test", "true"]);
    // The hooks were installed for two gates.
    let third = proposed.ralph(["gate", "add", "test -e .", "--name", "third", "--yes"]);
    let note = third.stdout.lines().find(|line| line.starts_with("note: ")).unwrap();
    let ralph = env!("CARGO_BIN_EXE_ralph");
    assert_snapshot!(proposed.normalize(note).replace(ralph, "ralph"), @"note: the client does not wait long enough for the gates: Stop, SubagentStop, TaskCompleted, TeammateIdle, 1230 s, but the gates need 1830 s: `ralph hook claude --deadline 1200s` in the local settings; `ralph init` changes that");
    assert_eq!(proposed.ralph(["init", "--yes"]).code, Some(0));
    let fourth = proposed.ralph(["gate", "add", "test -r .", "--name", "x", "--json", "--yes"]);
    let fourth: serde_json::Value = serde_json::from_str(&fourth.stdout).unwrap();
    assert_eq!(fourth["notes"].as_array().map(Vec::len), Some(1), "{fourth}");
}

/// A directory without a commit gets the line that makes one.
#[test]
fn a_directory_without_a_commit_gets_the_next_step() {
    let note = |sandbox: &Sandbox| {
        let agent = sandbox.root().join("agent");
        crate::sandbox::write_program(&agent, "#!/bin/sh\n");
        let shown =
            sandbox.ralph(["run", GOAL, "--dry-run", "--agent-program", agent.to_str().unwrap()]);
        let lines = shown.stdout.lines().filter(|line| line.contains("git "));
        lines.map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let sandbox = Sandbox::without_git("plain");
    sandbox.write("main.sh", "echo hello\n");
    let plain = note(&sandbox);
    sandbox.git(&["init", "--quiet"]);
    let uncommitted = note(&sandbox);
    sandbox.commit();
    assert_snapshot!([plain, uncommitted, note(&sandbox)].join("\n"), @r#"
    note      not a git repository, so no diff shows the agent's work; paste `git init && git add -A && git commit -m "Start"` first
    note      nothing is committed yet, so no diff shows the agent's work; paste `git add -A && git commit -m "Start"` first
    "#);
}
