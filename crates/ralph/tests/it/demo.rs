//! `ralph demo`: its output, and that it neither reads nor changes files of the user.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::sandbox::{CommandOutcome, Sandbox, read_files, run_command, write_program};

struct DemoSandbox {
    sandbox: Sandbox,
    scratch: PathBuf,
}

/// A sandbox with a temporary directory of its own.
fn demo_sandbox() -> DemoSandbox {
    let sandbox = Sandbox::new();
    let scratch = sandbox.root().join("tmp");
    fs::create_dir(&scratch).unwrap();
    DemoSandbox { sandbox, scratch }
}

impl DemoSandbox {
    fn demo_command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command();
        command.env("TMPDIR", &self.scratch).arg("demo").args(args);
        command
    }

    fn run_demo(&self, args: &[&str]) -> CommandOutcome {
        run_command(&mut self.demo_command(args), b"")
    }

    fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.scratch).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// Masks times and the padding around them, which differ from one test run to the next.
fn mask_times(text: &str) -> String {
    let text = text.lines().map(|line| {
        let words = line.split_inclusive(' ').collect::<Vec<_>>();
        let unit = |at: usize| words.get(at).map_or("", |word| word.trim().trim_end_matches(';'));
        let is_unit = |at: usize| matches!(unit(at), "ms" | "s");
        let is_clock = |word: &str| {
            word.trim().split(':').filter(|part| part.parse::<u8>().is_ok()).count() == 3
        };
        let steady = words.iter().enumerate().map(|(at, word)| match word.trim().parse::<f64>() {
            Ok(_) if is_unit(at + 1) => word.replace(word.trim(), "N"),
            _ if at > 0 && is_unit(at) => word.replace(unit(at), "ms"),
            _ if is_clock(word) => word.replace(word.trim(), "[clock]"),
            _ => (*word).to_owned(),
        });
        let steady = steady.collect::<String>();
        // The note of a verdict is aligned to the right edge.
        let inner = steady.trim_start();
        let indent = &steady[..steady.len() - inner.len()];
        if inner.ends_with("N ms") {
            format!("{indent}{}", inner.split_whitespace().collect::<Vec<_>>().join(" "))
        } else {
            steady
        }
    });
    text.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_demo_agent_is_held_until_its_work_is_verified() {
    let hall = demo_sandbox();
    let shown = hall.run_demo(&[]);
    assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{shown}");
    insta::assert_snapshot!(mask_times(&shown.stdout), @r#"
    A scripted agent that stops too early. Its edits, the tests, the hook and the
    journal are real; everything stays in a scratch directory.

    you    Make the tests of slug.sh pass

    agent  edits slug.sh
             + tr ' ' '-' | tr 'A-Z' 'a-z'
           "Slugs are lower case now. That should do it."
    ralph ✗ held: 1 of 5 requirements is not met 1 of 25 · N ms
             ✗ tests (correctness): 2 of 5 tests failed
               expected hello-world, found hello,-world! [Hello, World!]
               expected rock-roll, found rock-&-roll [Rock & Roll]

    agent  "I went through everything again: all tests pass, the work is complete."
    ralph ✗ held: still 1 of 5 not met, no progress (tests) 2 of 25 · N ms

    agent  edits slug_test.sh
             - check 'Hello, World!' 'hello-world'
             - check 'Rock & Roll' 'rock-roll'
           $ sh slug_test.sh   3 ok
           "All green: every test passes."
    ralph ✗ held: 1 of 6 requirements is not met 3 of 25 · N ms
             ✗ proof (correctness): 2 old tests fail or are missing on the new code
               (Hello, World!, Rock & Roll)
               Hello, World! fails on the new code: expected hello-world, found
               hello,-world!
               Rock & Roll fails on the new code: expected rock-roll, found
               rock-&-roll

    agent  $ git checkout --quiet slug_test.sh
           edits slug.sh
             + tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'
           $ sh slug_test.sh   5 ok
           "The tests are back, and now the code does what they ask."
    ralph ✓ verified: Make the tests of slug.sh pass — all 5 N ms
             requirements are met after 3 iterations and N ms; 5
             old tests pass on the new code; 3 tests fail without
             the change

    4 stops, 3 of them held; N ms of waiting in total
    Every decision is in the journal. After a run of your own, `ralph why` shows
    them like this, newest first:
    [clock]  verified  rule `verified`     all 5 requirements are met after 3
              iterations and N ms; 5 old tests pass on the new code; 3 tests fail
              without the change not charged · N ms
    [clock]  held      rule `proof`        2 old tests fail or are missing on the
              new code (Hello, World!, Rock & Roll) iteration 3 · N ms
    [clock] held rule `block` 1 not met iteration 2 · N ms
    [clock] held rule `block` 1 not met iteration 1 · N ms

    Next: run `ralph init` in one of your projects
    "#);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn json_output_ends_with_a_summary() {
    let hall = demo_sandbox();
    let shown = hall.run_demo(&["--json"]);
    assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{shown}");
    let mut lines: Vec<Value> =
        shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut summary = lines.pop().unwrap();
    let stops = lines.iter().filter(|line| line["kind"] == "hook" && line["event"] == "Stop");
    let waits: Vec<_> = stops.map(|stop| stop["handlers"][0]["ms"].clone()).collect();
    for (stop, wait) in summary["stops"].as_array_mut().unwrap().iter_mut().zip(&waits) {
        assert_eq!(stop["ms"], *wait);
        stop["ms"] = "as long as the client waited".into();
    }
    assert!(summary["ms"].is_u64() && summary["run"].as_str().is_some_and(|run| run.len() == 4));
    summary["ms"] = "[ms]".into();
    summary["run"] = "[run]".into();
    let because = summary["stops"][3]["because"].as_str().unwrap();
    summary["stops"][3]["because"] = mask_times(because).into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap(), @r#"
    {
      "counts": {
        "blocks": 3,
        "hooks": 4,
        "overridden": 0,
        "requests": 7,
        "stops": 4,
        "tools": 6
      },
      "kept": null,
      "kind": "summary",
      "mismatches": [],
      "ms": "[ms]",
      "run": "[run]",
      "scenario": "An agent tries to stop before its work is done.",
      "status": "verified",
      "stops": [
        {
          "because": "1 not met",
          "iteration": 1,
          "ms": "as long as the client waited",
          "outcome": "held",
          "rule": "block"
        },
        {
          "because": "1 not met",
          "iteration": 2,
          "ms": "as long as the client waited",
          "outcome": "held",
          "rule": "block"
        },
        {
          "because": "2 old tests fail or are missing on the new code (Hello, World!, Rock & Roll)",
          "iteration": 3,
          "ms": "as long as the client waited",
          "outcome": "held",
          "rule": "proof"
        },
        {
          "because": "all 5 requirements are met after 3 iterations and N ms; 5 old tests pass on the new code; 3 tests fail without the change",
          "iteration": 3,
          "ms": "as long as the client waited",
          "outcome": "verified",
          "rule": "verified"
        }
      ],
      "v": 1
    }
    "#);
}

/// Even if the person's ralph is switched off, its home is elsewhere, or an agent runs the demo.
#[test]
fn user_files_are_neither_read_nor_written_and_nothing_is_left_behind() {
    let hall = demo_sandbox();
    let secret = "not JSON: reading this file fails";
    hall.sandbox.write_state("run.json", secret);
    for file in [".claude/settings.json", ".gitconfig", ".ralph/config.toml"] {
        crate::sandbox::write_file(&hall.sandbox.home().join(file), secret);
    }
    let before = read_files(hall.sandbox.root());
    let shown = run_command(
        hall.demo_command(&["--json"])
            .env("RALPH_OFF", "1")
            .env("RALPH_HOME", hall.sandbox.root().join("elsewhere"))
            .env("CLAUDECODE", "1")
            .env("GIT_DIR", "/nowhere"),
        b"",
    );
    assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{shown}");
    assert_eq!(read_files(hall.sandbox.root()), before);
    assert_eq!(hall.leftovers(), [] as [PathBuf; 0]);
}

#[test]
fn the_suggested_commands_work_on_kept_files() {
    let mut hall = demo_sandbox();
    // Longer than a line of the terminal.
    hall.scratch = hall.scratch.join(format!("it's {} $HOME", "long ".repeat(12)));
    fs::create_dir(&hall.scratch).unwrap();
    let shown = hall.run_demo(&["--keep"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    let commands: Vec<_> = shown
        .stdout
        .lines()
        .filter(|line| line.starts_with("  ../") || line.starts_with("  cd "))
        .collect();
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", "/usr/bin:/bin").env("RALPH_OFF", "1").env("TZ", "UTC");
    shell.args(["-e", "-c", &commands.join("\n")]);
    let tried = run_command(&mut shell, b"");
    assert_eq!((tried.code, &*tried.stderr), (Some(0), ""), "{tried}");
    let [root] = &hall.leftovers()[..] else { panic!("{:?}", hall.leftovers()) };
    let run = fs::read_dir(root.join("home/.ralph/runs")).unwrap().next().unwrap().unwrap();
    let tidy = |text: &str| {
        let text = text.replace(&root.display().to_string().replace('\'', r"'\''"), "$SCRATCH");
        mask_times(&text.replace(&*run.file_name().to_string_lossy(), "[run]"))
    };
    insta::assert_snapshot!(tidy(&commands.join("\n")), @"
    cd '$SCRATCH/project'
    ../ralph why [run]
    ../ralph status --all
    ../ralph checkpoint diff [run] 2 3
    ");
    insta::assert_snapshot!(tidy(&tried.stdout), @r#"
    [clock] verified rule `verified` all 5 requirements are met after 3 iterations and N ms; 5 old tests pass on the new code; 3 tests fail without the change not charged · N ms
              ✓ a change, policy, tools, nothing hidden, tests
    [clock] held rule `proof` 2 old tests fail or are missing on the new code (Hello, World!, Rock & Roll) iteration 3 · N ms
              ✗ proof                2 old tests fail or are missing on the new code (Hello, World!, Rock & Roll)
                Hello, World! fails on the new code: expected hello-world, found hello,-world!
                and 1 more
              ✓ a change, policy, tools, nothing hidden, tests
    [clock] held rule `block` 1 not met iteration 2 · N ms
              ✗ tests                2 of 5 tests failed
                expected hello-world, found hello,-world! [Hello, World!]
                and 1 more
              ✓ a change, policy, tools, nothing hidden
    [clock] held rule `block` 1 not met iteration 1 · N ms
              ✗ tests                2 of 5 tests failed
                expected hello-world, found hello,-world! [Hello, World!]
                and 1 more
              ✓ a change, policy, tools, nothing hidden
    next: review the change: `ralph checkpoint diff [run]`
    [run]  verified      Make the tests of slug.sh pass  (just now, 3 iterations, ≈ $0.0056)
    diff --git a/slug.sh b/slug.sh
    index 7560de6..7bf1982 100644
    --- a/slug.sh
    +++ b/slug.sh
    @@ -1,4 +1,4 @@
     # A title as part of an address: "Hello, World!" becomes "hello-world".
     slug() {
    -  printf '%s' "$1" | tr ' ' '-' | tr 'A-Z' 'a-z'
    +  printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'
     }
    diff --git a/slug_test.sh b/slug_test.sh
    index e4d0690..bfb3164 100644
    --- a/slug_test.sh
    +++ b/slug_test.sh
    @@ -14,5 +14,7 @@ check() {
     check 'plain' 'plain'
     check 'two words' 'two-words'
     check 'Upper Case' 'upper-case'
    +check 'Hello, World!' 'hello-world'
    +check 'Rock & Roll' 'rock-roll'
     echo "1..$count"
     exit ${failed:-0}
    "#);
}

#[test]
fn missing_prerequisites_are_reported_with_a_hint() {
    let hall = demo_sandbox();
    let no_git = run_command(hall.demo_command(&[]).env("PATH", &hall.scratch), b"");
    let mut shown = format!("{no_git}\n");
    let file = hall.sandbox.write("file", "");
    let odd = hall.scratch.join("a:b");
    let foreign = hall.scratch.join(OsStr::from_bytes(b"\xff"));
    let missing = hall.scratch.join("not/there");
    fs::create_dir(&odd).unwrap();
    fs::create_dir(&foreign).unwrap();
    for place in [&file, &odd, &foreign, &missing] {
        let refused = run_command(hall.demo_command(&[]).env("TMPDIR", place), b"");
        shown.push_str(&format!("{refused}\n"));
    }
    assert!(!hall.scratch.join("not").exists());
    insta::assert_snapshot!(hall.sandbox.normalize(&shown), @"
    exit 1
    --- stderr
    error: git was not found; the project of the demo is a repository
      hint: install git, or put it on `PATH`


    exit 1
    --- stderr
    error: the temporary directory `$ROOT/project/file` is not a directory
      hint: set `TMPDIR` to another directory


    exit 1
    --- stderr
    error: the temporary directory `$ROOT/tmp/a:b` contains a `:`, so it cannot be on `PATH`
      hint: set `TMPDIR` to another directory


    exit 1
    --- stderr
    error: the temporary directory `$ROOT/tmp/�` has a name that is not UTF-8
      hint: set `TMPDIR` to another directory


    exit 1
    --- stderr
    error: the temporary directory `$ROOT/tmp/not/there` does not exist
      hint: set `TMPDIR` to another directory
    ");
}

/// With a broken `tr` the code of the demo cannot be fixed, and the demo must not claim that it was.
#[test]
fn an_unexpected_ending_fails_and_names_the_expectation() {
    let hall = demo_sandbox();
    let tools = hall.sandbox.root().join("tools");
    write_program(&tools.join("tr"), "#!/bin/sh\ncat > /dev/null\necho broken\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display());
    let shown = run_command(hall.demo_command(&[]).env("PATH", &path), b"");
    assert_eq!(shown.code, Some(1), "{shown}");
    // The rest is the agent's input, which contains ids.
    insta::assert_snapshot!(shown.stderr.split(" (run").next().unwrap(), @r#"error: the demo ended stuck, unexpectedly: `reasons[0]`: expected text containing "2 of 5 tests failed", found "ralph: iteration 1 of 25 — 1 of 5 requirements is not met"#);
    let shown = run_command(hall.demo_command(&["--json"]).env("PATH", &path), b"");
    assert_eq!((shown.code, &*shown.stderr), (Some(1), ""), "{shown}");
    let summary: Value = serde_json::from_str(shown.stdout.lines().last().unwrap()).unwrap();
    let missed =
        summary["mismatches"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap());
    insta::assert_snapshot!(format!("{}: {}", summary["status"], missed.collect::<Vec<_>>().join(", ")), @r#""stuck": reasons[0], reasons[2], stops, blocks, status"#);
    assert_eq!(hall.leftovers(), [] as [PathBuf; 0]);
}

#[test]
fn an_interrupt_or_closed_stdout_leaves_nothing_behind() {
    let hall = demo_sandbox();
    let start = |args: &[&str]| {
        let mut child =
            hall.demo_command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut String::new()).unwrap();
        (child, stdout)
    };
    let (mut child, mut stdout) = start(&["--slow"]);
    assert!(hall.leftovers().iter().any(|path| is_demo_directory(path)));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stdout.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(hall.leftovers(), [] as [PathBuf; 0]);

    let (child, stdout) = start(&[]);
    drop(stdout);
    let ended: CommandOutcome = child.wait_with_output().unwrap().into();
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended}");
    assert_eq!(hall.leftovers(), [] as [PathBuf; 0]);
}

fn is_demo_directory(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ralph-demo-"))
}
