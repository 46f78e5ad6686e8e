//! Which proven work is merged by `ralph run --worktree` and by a queue, and what its proof compares with when the
//! target branch has moved.

use crate::prove::adder;
use crate::sandbox::{CommandOutcome, Sandbox, run_command, write_file, write_program};
use insta::assert_snapshot;
use regex::Regex;
use std::process::Command;

const LONGER_SUM: &str = "sum=0; for one; do sum=$((sum + one)); done; echo $sum";
const QUEUE: &str = "[[task]]\nname = \"sum\"\ngoal = \"Add many numbers.\"\n";
/// The agent is held once for the missing test, so there are two turns.
const WORK_WITHOUT_TEST: &[&str] = &["echo '$CODE' > add.sh", "true"];
const WORK_WITH_TEST: &str =
    r#"echo '$CODE' > add.sh; echo 'test "$(sh add.sh 1 2 3)" = 6' > tests/three.sh"#;

/// A scenario in which the agent runs one of these commands in each turn. `$CODE` is a sum of many numbers, and
/// `$PROJECT` the checkout of the target branch.
fn write_agent(sandbox: &Sandbox, turns: &[&str]) {
    let project = sandbox.project().display().to_string();
    let turn = |command: &&str| {
        let command = command.replace("$CODE", LONGER_SUM).replace("$PROJECT", &project);
        format!(
            "[[step]]\ntools = [{{ run = {} }}]\n[[step]]\nagent = \"It is done.\"\n",
            toml_string(&command)
        )
    };
    let steps: String = turns.iter().map(turn).collect();
    let root = sandbox.root();
    let scenario = format!("name = \"sum\"\nonly = \"pretend\"\n{steps}");
    write_file(&root.join("scenario.toml"), scenario);
    let script = format!(
        "#!/bin/sh\nexec '{ralph}' pretend --scenario '{root}'/scenario.toml --position '{root}'/position.json -- \"$@\"\n",
        ralph = env!("CARGO_BIN_EXE_ralph"),
        root = root.display(),
    );
    write_program(&root.join("agent"), &script);
}

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn run_agent(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    let mut command = sandbox.command();
    command.args(["run", "--quiet", "--agent-program", "../agent", "--allow-skip-permissions"]);
    command.args(args).args(["--", "--permission-mode", "bypassPermissions"]);
    run_command(&mut command, b"")
}

fn run_in_worktree(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    run_agent(sandbox, &[&["Add many numbers.", "--worktree"], args].concat())
}

/// The file as the target branch has it.
fn read_target(sandbox: &Sandbox, path: &str) -> String {
    let mut git = Command::new("git");
    git.args(["show", &format!("main:{path}")]).current_dir(sandbox.project());
    String::from_utf8(git.output().unwrap().stdout).unwrap()
}

fn is_merged(sandbox: &Sandbox) -> bool {
    read_target(sandbox, "add.sh").contains("for one")
}

fn normalize(sandbox: &Sandbox, outcome: &CommandOutcome) -> String {
    let mut text = sandbox.normalize(&outcome.to_string());
    for (pattern, with) in [
        (r"\bq[0-9a-f]{7}\b", "[queue]"),
        (r"\b[0-9a-f]{7}([0-9a-f]{3})?\b", "[commit]"),
        (r"[≈ ]*\$[0-9.]+", " $$X"),
        (r"\b\d+(\.\d)? m?s\b", "[time]"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// R-V1a: work that ended `green` stays on its branch, and the report has the command that merges it.
#[test]
fn green_work_is_not_merged_by_default() {
    let sandbox = adder();
    write_agent(&sandbox, WORK_WITHOUT_TEST);
    let ended = run_in_worktree(&sandbox, &[]);
    assert!(!is_merged(&sandbox), "{ended}");
    assert_snapshot!(normalize(&sandbox, &ended), @"
    exit 11
    --- stdout
    green: Add many numbers. — no test fails without the change, 1 iteration, [time], $X
    ✓ met     a change, policy, tools, nothing hidden, suite, suite (clean checkout)
      why     no test fails without the change; 2 old tests pass on the new code; all 6 requirements are met after 1 iteration and [time]; the agent says: “It is done.”
      files   `add.sh`
      commits [commit] Add many numbers.
      saved   as checkpoint 1
      tree    not merged: branch `ralph/[run]`, work tree `$ROOT/home/ralph-worktrees/[run]/project`; `git -C $ROOT/home/ralph-worktrees/[run]/project diff [commit]` shows it, `git -C $ROOT/project merge ralph/[run]` merges it
      next    review the change (`ralph checkpoint diff [run]`, `ralph why [run]`), then run `ralph accept [run]`, or undo it
      report  `$ROOT/home/.ralph/runs/[run]/report.html`
    ");

    let sandbox = adder();
    write_agent(&sandbox, WORK_WITHOUT_TEST);
    write_file(&sandbox.root().join("queue.toml"), QUEUE);
    let ended = run_agent(&sandbox, &["--queue", "../queue.toml"]);
    assert!(!is_merged(&sandbox), "{ended}");
    assert_snapshot!(normalize(&sandbox, &ended), @"
    exit 11
    --- stdout
    ✗ sum  [run]  green $X
            no test fails without the change; 2 old tests pass on the new code; all 6 requirements are met after 1 iteration and [time]; the agent says: “It is done.”; not merged: branch `ralph/[run]`, work tree `$ROOT/home/ralph-worktrees/[run]/project`; `git -C $ROOT/home/ralph-worktrees/[run]/project diff [commit]` shows it, `git -C $ROOT/project merge ralph/[run]` merges it

    not done: queue.toml — 0 of 1 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left
            a run that has ended is not repeated: change the goal or limits of its task to start another
    ");
}

/// R-V1a: `--accept green` merges green work, from a work tree and from a queue.
#[test]
fn green_work_is_merged_if_a_person_accepts_green() {
    let sandbox = adder();
    write_agent(&sandbox, WORK_WITHOUT_TEST);
    let ended = run_in_worktree(&sandbox, &["--accept", "green"]);
    assert!(is_merged(&sandbox), "{ended}");
    assert_snapshot!(normalize(&sandbox, &ended), @"
    exit 11
    --- stdout
    green: Add many numbers. — no test fails without the change, 1 iteration, [time], $X
    ✓ met     a change, policy, tools, nothing hidden, suite, suite (clean checkout)
      why     no test fails without the change; 2 old tests pass on the new code; all 6 requirements are met after 1 iteration and [time]; the agent says: “It is done.”
      files   `add.sh`
      commits [commit] Add many numbers.
      saved   as checkpoint 1
      tree    merged into `main` as [commit]
      next    review the change (`ralph checkpoint diff [run]`, `ralph why [run]`), then run `ralph accept [run]`, or undo it
      report  `$ROOT/home/.ralph/runs/[run]/report.html`
    ");
    // Nothing is left to merge.
    let (accepted, _) = sandbox.ralph_typing(["accept", "--why", "read it"], str::to_string);
    assert_snapshot!(normalize(&sandbox, &accepted), @"
    exit 0
    --- stdout
    [run]  verified (accepted by a person: read it)
    ");

    let sandbox = adder();
    write_agent(&sandbox, WORK_WITHOUT_TEST);
    write_file(&sandbox.root().join("queue.toml"), QUEUE);
    let ended = run_agent(&sandbox, &["--queue", "../queue.toml", "--accept", "green"]);
    assert!(is_merged(&sandbox), "{ended}");
    assert_snapshot!(normalize(&sandbox, &ended), @"
    exit 0
    --- stdout
    ✓ sum  [run]  landed green $X

    green: queue.toml — 1 of 1 tasks landed, [time], $X
    ");
}

/// The tests need a package that is installed in the project. Git does not check it out, and an agent that installs it
/// again could not end `verified`.
#[test]
fn a_work_tree_has_the_packages_of_the_project() {
    let sandbox = adder();
    write_file(&sandbox.project().join(".git/info/exclude"), "node_modules\n");
    write_file(&sandbox.project().join("node_modules/sum/index.js"), "");
    let test = WORK_WITH_TEST.replace("'test \"", "'test -f node_modules/sum/index.js && test \"");
    write_agent(&sandbox, &[&test]);
    let ended = run_in_worktree(&sandbox, &[]);
    assert!(is_merged(&sandbox), "{ended}");
    assert!(read_target(&sandbox, "tests/three.sh").contains("node_modules/sum"), "{ended}");
}

/// R-V1a: `[verify] accept = "green"` does the same for every run of the project.
#[test]
fn green_work_is_merged_if_the_policy_accepts_green() {
    for args in [&["Add many numbers.", "--worktree"][..], &["--queue", "../queue.toml"]] {
        let sandbox = adder();
        let policy = std::fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
        sandbox.write("ralph.toml", format!("{policy}[verify]\naccept = \"green\"\n"));
        sandbox.approve_policy();
        sandbox.commit();
        write_agent(&sandbox, WORK_WITHOUT_TEST);
        write_file(&sandbox.root().join("queue.toml"), QUEUE);
        let ended = run_agent(&sandbox, args);
        assert!(is_merged(&sandbox), "{ended}");
    }
}

/// Commits to the target branch while the agent works.
fn meanwhile(change: &str) -> String {
    format!(
        "(cd '$PROJECT' && {change} && git add --all && git -c user.name=t -c user.email=t@t commit --quiet -m meanwhile)"
    )
}

/// The first word of the final report.
fn final_status(outcome: &CommandOutcome) -> &str {
    outcome.stdout.split(':').next().unwrap_or_default()
}

/// R-V1a: tests that others merged while the run worked prove nothing about its work.
#[test]
fn tests_of_others_do_not_verify_the_work() {
    let sandbox = adder();
    let feature = meanwhile("echo 'echo hello' > greet.sh && echo 'sh greet.sh' > tests/greets.sh");
    write_agent(&sandbox, &[&format!("{}; {feature}", WORK_WITHOUT_TEST[0]), "true"]);
    let ended = run_in_worktree(&sandbox, &[]);
    assert_eq!((final_status(&ended), is_merged(&sandbox)), ("green", false), "{ended}");
}

/// R-V1a: an agent that merges the tests of others itself does not pass them off as its own either.
#[test]
fn tests_of_others_that_the_agent_merges_do_not_verify_the_work() {
    let sandbox = adder();
    let feature = meanwhile("echo 'echo hello' > greet.sh && echo 'sh greet.sh' > tests/greets.sh");
    let commit = "git -c user.name=t -c user.email=t@t commit --quiet --all -m sum";
    let merge = "git -c user.name=t -c user.email=t@t merge --quiet --no-edit main";
    write_agent(
        &sandbox,
        &[&format!("{}; {feature}; {commit}; {merge}", WORK_WITHOUT_TEST[0]), "true"],
    );
    let ended = run_in_worktree(&sandbox, &[]);
    assert_eq!((final_status(&ended), is_merged(&sandbox)), ("green", false), "{ended}");
}

/// R-V1b: old tests of merged work are those of the target, so a test that others changed needs no review.
#[test]
fn tests_that_others_changed_count_as_they_are_on_the_target() {
    let sandbox = adder();
    let change = meanwhile(
        "echo 'echo hello' > greet.sh && echo 'sh greet.sh' > tests/zero.sh && rm tests/adds.sh",
    );
    write_agent(&sandbox, &[&format!("{WORK_WITH_TEST}; {change}")]);
    let ended = run_in_worktree(&sandbox, &[]);
    assert_eq!((final_status(&ended), is_merged(&sandbox)), ("verified", true), "{ended}");
    assert!(read_target(&sandbox, "tests/zero.sh").contains("greet"));
}

/// R-V1b: an agent that weakens the tests on the target branch is judged by those of its base.
#[test]
fn tests_that_the_agent_weakens_on_the_target_do_not_count() {
    let sandbox = adder();
    let weaken = "echo true > tests/adds.sh; echo true > tests/zero.sh";
    let work = format!(
        "echo 'echo 6' > add.sh; {}; {weaken}; {}",
        r#"echo 'test "$(sh add.sh 1 2 3)" = 6' > tests/three.sh"#,
        meanwhile(&weaken.replace(';', " &&")),
    );
    write_agent(&sandbox, &[&work, "true"]);
    let ended = run_in_worktree(&sandbox, &[]);
    assert_eq!((final_status(&ended), is_merged(&sandbox)), ("needs_review", false), "{ended}");
}
