//! Goals: an agent gets the whole goal or none. One that is too long, or that cannot be read, is an error.

use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, write_file};
use insta::assert_snapshot;
use std::fs;

/// One byte more than a goal may have.
fn long_goal() -> String {
    "a".repeat(2 * 1024 * 1024 + 1)
}

/// Wherever a goal comes from, there is one bound, and the error says what to do.
#[test]
fn a_goal_that_is_too_long_is_rejected_wherever_it_comes_from() {
    let sandbox = Sandbox::new();
    let goal = long_goal();
    sandbox.write("goal.md", &goal);
    sandbox.write("queue.toml", "[[task]]\nname = \"a\"\ngoal_file = \"goal.md\"\n");
    sandbox.write(".ralph/PROMPT.md", &goal);
    let start = ["start", "--session", SESSION, "--goal-file"];
    let loop_new = ["loop", "new", "csv", "--goal", "-"];
    let run = ["run", "--agent-program", "/bin/true", "--no-gates"];
    let commands: [(&[&str], &str); 6] = [
        (&[&start[..], &["goal.md"]].concat(), ""),
        (&[&start[..], &["-"]].concat(), &goal),
        (&loop_new, &goal),
        (&[&run[..], &["--goal-file", "goal.md"]].concat(), ""),
        (&[&run[..], &["--queue", "queue.toml"]].concat(), ""),
        (&["import"], ""),
    ];
    let mut shown = String::new();
    for (words, stdin) in commands {
        let ended = sandbox.ralph_with_input(words, stdin.as_bytes());
        shown.push_str(&format!("$ ralph {}\n{ended}\n", words.join(" ")));
    }
    let typed = sandbox.send_prompt(SESSION, &format!("/ralph:goal {goal}"));
    shown.push_str(&format!("/ralph:goal aaa…\n{}\n", typed.prompt_answer()));
    assert_snapshot!(sandbox.normalize(&shown), @r#"
    $ ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --goal-file goal.md
    exit 1
    --- stderr
    error: `goal.md`: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal


    $ ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --goal-file -
    exit 1
    --- stderr
    error: stdin: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal


    $ ralph loop new csv --goal -
    exit 1
    --- stderr
    error: stdin: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal


    $ ralph run --agent-program /bin/true --no-gates --goal-file goal.md
    exit 1
    --- stderr
    error: `goal.md`: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal


    $ ralph run --agent-program /bin/true --no-gates --queue queue.toml
    exit 1
    --- stderr
    error: `goal.md`: the goal is longer than 2 MiB
     --> $ROOT/project/queue.toml:3:13
      |
    3 | goal_file = "goal.md"
      |             ^^^^^^^^^
      |
      = hint: put long material into files of the project and name them in the goal

    error: 1 problem in the queue


    $ ralph import
    exit 1
    --- stderr
    error: the imported files: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal


    /ralph:goal aaa…
    ralph: the goal is longer than 2 MiB
      hint: put long material into files of the project and name them in the goal
    "#);
    let runs = fs::read_dir(sandbox.ralph_home("runs")).map_or(0, Iterator::count);
    assert_eq!(runs, 0, "nothing was started");
}

/// The largest goal reaches the agent with its last word.
#[test]
fn the_longest_goal_reaches_the_agent_whole() {
    let runner = RunnerSandbox::new("[[step]]\nagent = \"I look.\"\n");
    let agent = fs::read_to_string(runner.root_path("agent")).unwrap();
    let prompts = runner.root_path("prompts");
    let agent = agent.replace("exec ", &format!("tee {} | exec ", prompts.display()));
    fs::write(runner.root_path("agent"), agent).unwrap();
    let end = " and end with the last word";
    let goal = format!("{}{end}", "a ".repeat((1024 * 1024 - end.len()) / 2));
    runner.sandbox.write("goal.md", &goal);
    let args = ["--goal-file", "goal.md", "--max-iterations", "1", "--allow-skip-permissions"];
    let flags = ["--", "--dangerously-skip-permissions"];
    let ended =
        crate::sandbox::run_command(&mut runner.json_command(&[&args[..], &flags].concat()), b"");
    let prompts = fs::read_to_string(prompts).unwrap_or_default();
    assert!(prompts.contains(&goal), "{} bytes arrived: {ended}", prompts.len());
}

/// A run whose goal is gone is not continued without it.
#[test]
fn a_goal_that_cannot_be_read_is_an_error_that_names_the_file() {
    let runner = RunnerSandbox::new("[[step]]\nagent = \"I look.\"\n");
    runner.start(&["--max-iterations", "1"]);
    let run = runner.run_id();
    let goal = runner.sandbox.ralph_home(&format!("runs/{run}/goal.txt"));
    let fork = || runner.sandbox.ralph(["run", "--fork", &run, "--quiet"]).to_string();
    fs::remove_file(&goal).unwrap();
    let missing = fork();
    write_file(&goal, "Let main.sh");
    let shown = format!("{missing}\n{}", fork()).replace(&run, "[run]");
    assert_snapshot!(runner.sandbox.normalize(&shown), @r#"
    exit 1
    --- stderr
    error: the goal of run `[run]` cannot be read
      caused by: cannot read `$ROOT/home/.ralph/runs/[run]/goal.txt`
      caused by: No such file or directory (os error 2)
      hint: restore the file, or give the goal again: `ralph run "…"`


    exit 1
    --- stderr
    error: the goal of run `[run]` is not the one it started with: `$ROOT/home/.ralph/runs/[run]/goal.txt` was changed
      hint: restore the file, or give the goal again: `ralph run "…"`
    "#);
}

/// A fresh session does not take over work whose goal is gone.
#[test]
fn nothing_is_handed_over_without_the_goal() {
    let runner = RunnerSandbox::new(
        "[[step]]\nagent = \"I look.\"\nusage = { input = 850000 }\n[[step]]\nagent = \"I note.\"\n",
    );
    let agent = fs::read_to_string(runner.root_path("agent")).unwrap();
    let goals = runner.sandbox.ralph_home("runs/*/goal.txt");
    let agent = agent.replace("exec ", &format!("rm {}\nexec ", goals.display()));
    fs::write(runner.root_path("agent"), agent).unwrap();
    let ended = runner.start(&[]);
    assert_eq!(RunnerSandbox::events_named(&ended, "session").len(), 1, "{ended}");
    assert_snapshot!(runner.sandbox.normalize(&ended.stderr), @"
    error: the run failed
      caused by: the goal of run `[run]` cannot be read
      caused by: cannot read `$ROOT/home/.ralph/runs/[run]/goal.txt`
      caused by: No such file or directory (os error 2)
      hint: restore the file, then `ralph run --resume RUN` continues it
    ");
}

/// The block of a stop tells the agent that the goal is missing, and `ralph status` tells the person.
#[test]
fn a_stop_reports_a_goal_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    fs::remove_file(sandbox.ralph_home(&format!("runs/{run}/goal.txt"))).unwrap();
    let stop = sandbox.send_stop(SESSION, "").to_string();
    let status = sandbox.ralph(["status"]).stdout;
    let varying = regex::Regex::new(r"\d+ ms|\d\d:\d\d:\d\d").unwrap();
    let status = varying.replace_all(&status, "[time]");
    let shown = format!("{stop}\n{status}").replace(&run, "[run]");
    assert_snapshot!(sandbox.normalize(&shown), @"
    exit 2
    --- stdout
    {}
    --- stderr
    ralph: iteration 1 of 25 — 1 of 1 requirement is not met (run [run])

    ✗ ralph's own files were changed: the goal of run `[run]` cannot be read: cannot read `$ROOT/home/.ralph/runs/[run]/goal.txt`: No such file or directory (os error 2). ralph restored what it could; leave them alone

    ┌ 00000000 the goal, in the person's words
    │ (ralph cannot show the goal: the goal of run `[run]` cannot be read: cannot read `$ROOT/home/.ralph/runs/[run]/goal.txt`: No such file or directory (os error 2). Ask the person for it with `ralph ask`.)
    └ 00000000

    ✗ promise (correctness): the last message does not give the promise

    Next: When, and only when, the goal is really reached, end your message with the line <promise>DONE</promise>
    Then stop again


    [run]  working       make it work
          claude 5999882c · iteration 1 of 25 · [time] of 8 h
          ✗ promise
          ? [time]  file fault: the goal of run `[run]` cannot be read: cannot read `$ROOT/home/.ralph/runs/[run]/goal.txt`: No such file or directory (os error 2)
    ");
}

/// A client without task tools never has a task list. The agent is asked for one once; then the run ends, because it
/// could never be met.
#[test]
fn a_task_list_that_never_appears_ends_the_run() {
    let sandbox = Sandbox::new();
    sandbox.write("main.rs", "hello\n");
    sandbox.commit();
    let run = sandbox.start_run(["--tasks"]);
    let asked = sandbox.send_stop(SESSION, r#","last_assistant_message":"done""#);
    assert!(asked.stderr.contains("If you have no task tools, say so and stop again"), "{asked}");
    sandbox.write("main.rs", "progress\n");
    let ended = sandbox.send_stop(SESSION, r#","last_assistant_message":"I have none""#);
    assert_snapshot!(sandbox.normalize(&ended.notice()), @"ralph: gate_broken: the client's task list — client tasks gave no result twice in a row: the client has no task list for this session, perhaps because its model has no task tools; a goal without `--tasks` needs none (run [run]); `ralph why [run]` shows what broke; fix it, then run `/ralph:goal` again");
    assert_eq!(sandbox.run_status(&run).0, "gate_broken");
}
