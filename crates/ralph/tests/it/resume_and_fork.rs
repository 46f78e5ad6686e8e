//! Continuing driven runs: `ralph run --resume` of a parked run, and `--fork` of one that has ended.

use crate::sandbox::{CommandOutcome, Sandbox, write_file, write_program};
use insta::assert_snapshot;
use std::fs;
use std::process::Command;

const GOAL: &str = "Let main.rs say goodbye.";
const GREP_POLICY: &str =
    "[[gate]]\nname = \"tests\"\nrun = [\"grep\", \"-q\", \"goodbye\", \"main.rs\"]\n";
const LOOKING_STEP: &str = "[[step]]\nagent = \"I look.\"\n";
const WRITING_STEP: &str =
    "[[step]]\nagent = \"I do it.\"\ntools = [{ write = \"main.rs\", text = \"goodbye\\n\" }]\n";
const AGENT_FLAGS: [&str; 3] = ["--", "--permission-mode", "acceptEdits"];

struct ResumeSandbox {
    sandbox: Sandbox,
}

impl ResumeSandbox {
    fn new(steps: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("main.rs", "hello\n");
        sandbox.write("ralph.toml", GREP_POLICY);
        sandbox.commit();
        sandbox.approve_policy();
        let root = sandbox.root().display().to_string();
        write_file(&sandbox.root().join("scenario.toml"), steps);
        let script = format!(
            "#!/bin/sh\nexec '{}' pretend --scenario '{root}/scenario.toml' --position '{root}/at' -- \"$@\"\n",
            env!("CARGO_BIN_EXE_ralph")
        );
        write_program(&sandbox.root().join("agent"), &script);
        Self { sandbox }
    }

    fn start_run(&self, args: &[&str]) -> CommandOutcome {
        let words = ["run", GOAL, "--quiet", "--agent-program", "../agent"];
        self.sandbox.ralph(words.iter().chain(args).chain(&AGENT_FLAGS).copied())
    }

    fn run_id(&self) -> String {
        let status = self.sandbox.ralph(["status", "--all"]);
        status.stdout.split(' ').next().unwrap().to_string()
    }

    fn ralph_transcript(&self, words: &[&str]) -> String {
        let ended = self.sandbox.ralph(words.iter().copied());
        format!(
            "$ ralph {}\n{}\n",
            self.normalize(&words.join(" ")),
            self.normalize(&ended.to_string())
        )
    }

    fn normalize(&self, text: &str) -> String {
        let text = self.sandbox.normalize(text);
        let mut text = text;
        for (pattern, with) in [
            (r"\$[0-9]+\.[0-9]+", "$X"),
            (r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "[session]"),
            (r"\b[0-9a-f]{10}\b", "[commit]"),
            (r"\b[0-9a-f]{7}\b", "[commit]"),
            (r", \d+ (ms|s), ", ", [time], "),
            (r"at \d\d:\d\d", "at [time]"),
            (r"\d\d\d\d-\d\d-\d\d", "[day]"),
            // A commit from the second in which a run starts may be counted as the run's own.
            (r"commits .*", "commits …"),
        ] {
            let pattern = regex::Regex::new(pattern).unwrap();
            text = pattern.replace_all(&text, regex::NoExpand(with)).into_owned();
        }
        text
    }

    fn commit_subjects(&self) -> String {
        let output = Command::new("git")
            .args(["log", "--format=%s", "main"])
            .current_dir(self.sandbox.project())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// An ended run stays ended. A fork continues its work in a new run with the same session, goal, flags and work tree,
/// and with fresh limits.
#[test]
fn an_exhausted_run_continues_as_a_fork() {
    let scene = ResumeSandbox::new(&[LOOKING_STEP, LOOKING_STEP, WRITING_STEP].concat());
    let ended = scene.start_run(&["--worktree", "--max-iterations", "1", "--max-cost", "3"]);
    assert_snapshot!(scene.normalize(&ended.to_string()), @r"
    exit 2
    --- stdout
    exhausted: Let main.rs say goodbye. — its 1 iteration is used up, 2 of 5 not met, 1 iteration, [time], $X of $3
    ✓ met     policy, tools, nothing hidden
    ✗ open    a change: the work tree has not changed since the run began
    ✗ open    tests: 1 finding, 1 pre-existing
      saved   as checkpoint 0
      tree    not merged: branch `ralph/[run]`, work tree `$ROOT/home/ralph-worktrees/[run]/project`; `git -C $ROOT/home/ralph-worktrees/[run]/project diff [commit]` shows it, `git -C $ROOT/project merge ralph/[run]` merges it
      next    `ralph run --fork [run]`
      report  `$ROOT/home/.ralph/runs/[run]/report.html`
    ");
    let run = scene.run_id();
    let answers = [
        scene.ralph_transcript(&["limits", &run, "--max-cost", "5"]),
        scene.ralph_transcript(&["run", "--resume", &run]),
        scene.ralph_transcript(&["tell", &run, "go on"]),
        scene.ralph_transcript(&["resume", &run]),
        scene.ralph_transcript(&["run", "--fork", &run, "--max-iterations", "5", "--dry-run"]),
        scene.ralph_transcript(&["run", "--fork", &run, "--max-iterations", "5", "--quiet"]),
    ];
    assert_snapshot!(answers.concat(), @r#"
    $ ralph limits [run] --max-cost 5
    exit 1
    --- stderr
    error: run `[run]` has ended: exhausted
      hint: `ralph why [run]` shows how; `ralph run --fork [run]` continues from its last session

    $ ralph run --resume [run]
    exit 1
    --- stderr
    error: run `[run]` has ended: exhausted
      hint: `ralph why [run]` shows how; `ralph run --fork [run]` continues from its last session

    $ ralph tell [run] go on
    exit 1
    --- stderr
    error: run `[run]` has ended: exhausted
      hint: `ralph why [run]` shows how; `ralph run --fork [run]` continues from its last session

    $ ralph resume [run]
    exit 1
    --- stderr
    error: run `[run]` has ended: exhausted
      hint: `ralph why [run]` shows how; `ralph run --fork [run]` continues from its last session

    $ ralph run --fork [run] --max-iterations 5 --dry-run
    exit 0
    --- stdout
    would start  Let main.rs say goodbye.
      project   `$ROOT/home/ralph-worktrees/[run]/project`
      limits    5 iterations · 8 h · $3 · stuck at the 3rd stop without progress
      gates     tests  grep -q goodbye main.rs
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      worktree  a separate one with its own branch; merged when the merged tree is verified
      agent     $ROOT/project/../agent -p --input-format stream-json --output-format stream-json --verbose --resume [session] --fork-session --session-id NEW --max-budget-usd 3.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1005"}}' --permission-mode acceptEdits
    nothing was started

    $ ralph run --fork [run] --max-iterations 5 --quiet
    exit 0
    --- stdout
    verified: Let main.rs say goodbye. — 1 gate on [commit], 0 iterations, [time], $X
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.rs`
      commits …
      saved   as checkpoint 1
      tree    merged into `main` as [commit]
      report  `$ROOT/home/.ralph/runs/[run]/report.html`
    "#);
    assert_snapshot!(scene.commit_subjects(), @"
    Let main.rs say goodbye.
    c
    c
    ");
    let landed = fs::read_to_string(scene.sandbox.project().join("main.rs"));
    assert_eq!(landed.unwrap(), "goodbye\n");
}

/// Without a new goal, `--fork` accepts only runs that have ended with work left to do.
#[test]
fn only_ended_and_unfinished_runs_can_be_forked_without_a_goal() {
    let limited = "[[step]]\nrate_limit = { status = \"rejected\", resets_in_ms = 60000 }\n";
    let scene = ResumeSandbox::new(&[limited, WRITING_STEP].concat());
    assert_eq!(scene.start_run(&[]).code, Some(8));
    let run = scene.run_id();
    let parked = scene.ralph_transcript(&["run", "--fork", &run]);
    assert_eq!(scene.sandbox.ralph(["run", "--resume", &run, "--quiet"]).code, Some(0));
    let verified = scene.ralph_transcript(&["run", "--fork", &run]);
    let ended = scene.ralph_transcript(&["run", "--resume", &run]);
    let session =
        scene.ralph_transcript(&["run", "--fork", "0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa"]);
    assert_snapshot!([parked, verified, ended, session].concat(), @r#"
    $ ralph run --fork [run]
    exit 1
    --- stderr
    error: run `[run]` has not ended
      hint: `ralph run --resume [run]` continues it

    $ ralph run --fork [run]
    exit 1
    --- stderr
    error: run `[run]` is verified: nothing is left to do
      hint: `ralph run "…" --fork [run]` starts a new run from its last session

    $ ralph run --resume [run]
    exit 1
    --- stderr
    error: run `[run]` has ended: verified
      hint: `ralph why [run]` shows how; `ralph run "…" --fork [run]` starts a new run from its last session

    $ ralph run --fork [session]
    exit 1
    --- stderr
    error: no goal given
      hint: run `ralph run "your goal" --fork SESSION`
    "#);
}

/// `--wait-for-limits` on a resume lets a run that was parked at a rate limit wait from then on.
#[test]
fn waiting_for_limits_can_be_allowed_on_resume() {
    let limit = |ms: u32| {
        format!("[[step]]\nrate_limit = {{ status = \"rejected\", resets_in_ms = {ms} }}\n")
    };
    let hours = 7 * 3_600_000;
    let scene =
        ResumeSandbox::new(&[&limit(500), &limit(hours), &limit(500), WRITING_STEP].concat());
    write_file(&scene.sandbox.ralph_home("config.toml"), "[runner]\nlimit_jitter = \"0s\"\n");
    assert_eq!(scene.start_run(&[]).code, Some(8));
    let run = scene.run_id();
    let resume = ["run", "--resume", &run, "--quiet"];
    let dry = ["run", "--resume", &run, "--dry-run", "--wait-for-limits", "1h"];
    let refused = scene.ralph_transcript(&[&resume[..], &["--idle-after", "5m"]].concat());
    let granted = scene.ralph_transcript(&[&resume[..], &["--wait-for-limits", "6h"]].concat());
    let again = scene.ralph_transcript(&dry);
    let kept = scene.ralph_transcript(&resume);
    let log = scene.sandbox.ralph(["log", &run]).stdout;
    let waits = log.lines().filter_map(|line| line.get(10..));
    let of_waits = ["granted", "parked", "waits", "woke"];
    let waits = waits.filter(|line| of_waits.iter().any(|word| line.starts_with(word)));
    let waits = scene.normalize(&waits.collect::<Vec<_>>().join("\n"));
    let waits = regex::Regex::new(r"until \S+").unwrap().replace_all(&waits, "until [time]");
    assert_snapshot!([refused, granted, again, kept].concat() + &waits, @r#"
    $ ralph run --resume [run] --quiet --idle-after 5m
    exit 1
    --- stderr
    error: `--idle-after` cannot be changed after the start of a run
      hint: `ralph limits RUN` changes the limits; the rest stays as it is

    $ ralph run --resume [run] --quiet --wait-for-limits 6h
    exit 8
    --- stdout
    rate_limited: Let main.rs say goodbye. — the provider's limit resets at [time]; `wait_for_limits` allows 6 h: `ralph run --resume [run]` continues, 0 iterations, [time], $0
      saved   as checkpoint 0
      next    `ralph run --resume [run]`
      report  `$ROOT/home/.ralph/runs/[run]/report.html`

    $ ralph run --resume [run] --dry-run --wait-for-limits 1h
    exit 0
    --- stdout
    [run]  resumes     Let main.rs say goodbye.
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      gates     tests  grep -q goodbye main.rs
      sessions  a fresh one when the context is 80 % full
      waits     up to 1 h for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/project/../agent -p --input-format stream-json --output-format stream-json --verbose --resume [session] --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}' --permission-mode acceptEdits
      note      it may wait up to 1 h for rate limits from now on
    nothing was started

    $ ralph run --resume [run] --quiet
    exit 0
    --- stdout
    verified: Let main.rs say goodbye. — 1 gate on the work tree, not committed, 0 iterations, [time], $X
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.rs`
      work    1 path differs from the last commit
      saved   as checkpoint 1
      next    `git status && git diff HEAD`
      report  `$ROOT/home/.ralph/runs/[run]/report.html`

    parked     rate_limited: the provider's limit resets at [time]; `wait_for_limits` is off: `ralph run --resume [run]` continues
    granted    6 h of waiting for limits
    parked     rate_limited: the provider's limit resets at [time]; `wait_for_limits` allows 6 h: `ralph run --resume [run]` continues
    waits      until [time] (rate limit): the provider's limit resets at [time]
    woke       and continues
    "#);
}

/// A run that ended because the agent disputes everything open waits for a person, who continues its work or closes it.
#[test]
fn a_run_that_ended_for_a_person_is_continued_or_closed() {
    let dispute = |file: &str| {
        format!(
            "[[step]]\ntools = [{{ write = \"{file}\", text = \"x\\n\" }}]\n{LOOKING_STEP}\
             [[step]]\ntools = [{{ run = \"'{}' dispute tests 'the word is wrong'\" }}]\n\
             [[step]]\nagent = \"I dispute it.\"\n",
            env!("CARGO_BIN_EXE_ralph")
        )
    };
    let scene = ResumeSandbox::new(&[dispute("one.txt"), dispute("two.txt")].concat());
    let words = ["run", GOAL, "--quiet", "--agent-program", "../agent"];
    let words: Vec<_> =
        words.into_iter().chain(AGENT_FLAGS).chain(["--allowedTools", "Bash"]).collect();
    assert_eq!(scene.sandbox.ralph(&words).code, Some(5));
    let run = scene.run_id();
    let board = || {
        let board = scene.sandbox.ralph(["watch", "--json"]);
        serde_json::from_str::<serde_json::Value>(&board.stdout).unwrap()
    };
    let waiting = || {
        let board = board();
        let runs = |list: &str| board[list].as_array().unwrap().len();
        format!("{} waiting, {} ended\n", runs("waiting"), runs("ended"))
    };
    let ended = [scene.ralph_transcript(&["status", &run]), waiting()];
    // The fork disputes the same, so that it waits instead of the first run.
    assert_eq!(scene.sandbox.ralph(["run", "--fork", &run, "--quiet"]).code, Some(5));
    let fork = board()["waiting"][0]["run"].as_str().unwrap().to_string();
    let closed = [
        waiting(),
        scene.ralph_transcript(&["cancel", &run]),
        scene.ralph_transcript(&["cancel", &fork]),
        scene.ralph_transcript(&["status", &fork]),
        waiting(),
    ];
    let answers = [&ended[..], &closed].concat();
    assert_snapshot!(answers.concat(), @"
    $ ralph status [run]
    exit 0
    --- stdout
    [run]  needs_human   Let main.rs say goodbye.  (just now, 1 iteration, $X)
          the agent disputes tests: the word is wrong
          next: `ralph why [run]` shows what to decide; decide it, then run `ralph run --fork [run]`, or close the run with `ralph cancel [run]`
          ? tests: disputed by the agent: the word is wrong

    1 waiting, 0 ended
    1 waiting, 1 ended
    $ ralph cancel [run]
    exit 1
    --- stderr
    error: run `[run]` has ended: needs_human
      hint: `ralph why [run]` shows how; `ralph run --fork [run]` continues from its last session

    $ ralph cancel [run]
    exit 0
    --- stdout
    [run]  closed; it stays needs_human and no longer waits for you

    $ ralph status [run]
    exit 0
    --- stdout
    [run]  needs_human   Let main.rs say goodbye.  (just now, 1 iteration, $X)
          the agent disputes tests: the word is wrong
          next: nothing; a person closed the run after its end
          ? tests: disputed by the agent: the word is wrong

    0 waiting, 2 ended
    ");
}
