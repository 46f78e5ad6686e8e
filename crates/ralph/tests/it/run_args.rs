//! `ralph run` before anything is started: mistakes, refusals, and what would be done.

use crate::sandbox::{Ended, Sandbox, program, write_at};
use insta::assert_snapshot;
use std::fs;

const POLICY: &str = r#"
[[gate]]
name = "tests"
run = ["sh", "-c", "exit 0"]
report = "none"
min_tests = 0
"#;

/// A machine with an agent that says when it was started.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let bin = sandbox.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    program(&bin.join("claude"), "#!/bin/sh\ntouch \"$(dirname \"$0\")/was-run\"\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    sandbox.env("PATH", &path)
}

fn approved() -> Sandbox {
    let sandbox = sandbox();
    sandbox.write("ralph.toml", POLICY);
    sandbox.commit();
    sandbox.trust();
    sandbox
}

/// What was said, and that nothing else came of it.
fn refused(sandbox: &Sandbox, words: &[&str]) -> String {
    let before = sandbox.snapshot();
    let ended = sandbox.ralph(std::iter::once("run").chain(words.iter().copied()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}: {ended}");
    assert_eq!(sandbox.snapshot(), before, "{words:?}");
    assert!(!fs::exists(sandbox.root().join("bin/was-run")).unwrap(), "{words:?}");
    format!("{}\n{}\n", words.join(" "), sandbox.tidy(&ended.stderr))
}

fn planned(sandbox: &Sandbox, words: &[&str]) -> Ended {
    let before = sandbox.snapshot();
    let ended = sandbox.ralph(["run", "--dry-run"].into_iter().chain(words.iter().copied()));
    assert_eq!(sandbox.snapshot(), before, "{words:?}");
    assert!(!fs::exists(sandbox.root().join("bin/was-run")).unwrap(), "{words:?}");
    ended
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let sandbox = approved();
    let told: String = [
        &[][..],
        &[""],
        &["a goal", "--loop", "csv"],
        &["a goal", "--goal-file", "goal.md"],
        &["--resume", "k7f2", "--queue", "goals"],
        &["--resume", "k7f2"],
        &["--resume", "k7f2", "--max-cost", "5"],
        &["--resume", "k7f2", "--", "--debug"],
        &["--loop", "csv"],
        &["--goal-file", "missing.md"],
        &["a goal", "--parallel", "2"],
        &["a goal", "--wait-for-checks", "30m"],
        &["a goal", "--handover-at", "80"],
        &["a goal", "--max-tokens", "many"],
        &["a goal", "--sessions", "forever"],
        &["a goal", "--model", "--bare"],
        &["a goal", "--max-iteration", "3"],
        &["a goal", "--permission-mode", "acceptEdits"],
        &["a goal", "--max-cost", "-5"],
        &["a goal", "--pr"],
        &["a goal", "--pr", "--dry-run"],
        &["a goal", "--max-iterations", "0", "--max-duration", "0s"],
        &["a goal", "--idle-after", "0"],
        &["a goal", "--json", "--quiet"],
        &["a goal", "--agent-program", "no-such-agent"],
        &["a goal", "--agent-program", "./README.md"],
        &["a goal", "--", "fix it"],
        &["a goal", "--", "--session-id", "x"],
        &["a goal", "--", "--max-budget-usd=3"],
        &["a goal", "--", "-dp"],
    ]
    .into_iter()
    .map(|words| refused(&sandbox, words))
    .collect();
    assert_snapshot!(told, @r#"

    error: it is not said what is to be done
      hint: `ralph run "what is to be reached"`, or `--goal-file`, `--loop`, `--plan` or `--features`

    error: the goal is empty
      hint: write what is to be reached
    a goal --loop csv
    error: `GOAL` and `--loop` do not go together
      hint: run `ralph run --help`
    a goal --goal-file goal.md
    error: `GOAL` and `--goal-file` do not go together
      hint: run `ralph run --help`
    --resume k7f2 --queue goals
    error: `--resume` and `--queue` do not go together
      hint: run `ralph run --help`
    --resume k7f2
    error: `k7f2` is neither a run nor a session that ralph knows
      hint: `ralph status --all` lists all runs
    --resume k7f2 --max-cost 5
    error: `--max-cost` was settled when the run started
      hint: `ralph limits RUN` sets other limits; the rest of it stays
    --resume k7f2 -- --debug
    error: what comes after `--` was settled when the run started
      hint: `ralph limits RUN` sets other limits; the rest of it stays
    --loop csv
    error: there is no loop `csv`
      hint: `ralph loop new NAME` creates one
    --goal-file missing.md
    error: cannot read `$ROOT/project/missing.md`
      caused by: No such file or directory (os error 2)
      hint: check the path
    a goal --parallel 2
    error: `--parallel` needs more goals than one
      hint: `--queue` names them; one goal is worked on by one agent
    a goal --wait-for-checks 30m
    error: `--pr` is missing
      hint: run `ralph run --help`
    a goal --handover-at 80
    error: `--handover-at` cannot be `80`
      hint: a share from 0.1 to 0.99 is needed, such as `0.8`
    a goal --max-tokens many
    error: `--max-tokens` cannot be `many`
      hint: expected a number such as `500k` or `2M`
    a goal --sessions forever
    error: `--sessions` cannot be `forever`
      hint: possible values: hybrid, same-session, fresh-per-feature
    a goal --model --bare
    error: unknown option `--bare`
      hint: did you mean `--parallel`?
    a goal --max-iteration 3
    error: unknown option `--max-iteration`
      hint: did you mean `--max-iterations`?
    a goal --permission-mode acceptEdits
    error: unknown option `--permission-mode`
      hint: put the agent's flags after `--`, as in `ralph run "…" -- --permission-mode acceptEdits`
    a goal --max-cost -5
    error: `--max-cost-usd` cannot be `-5`
      hint: expected a positive amount such as `20`; 0 means no limit
    a goal --pr
    error: no pull request could be opened
      caused by: the repository has no remote to push to
      hint: add one: `git remote add origin URL`, or run without `--pr`
    a goal --pr --dry-run
    error: no pull request could be opened
      caused by: the repository has no remote to push to
      hint: add one: `git remote add origin URL`, or run without `--pr`
    a goal --max-iterations 0 --max-duration 0s
    error: a run needs a limit on iterations or on time
      hint: set `--max-iterations` or `--max-duration`; 0 means no limit
    a goal --idle-after 0
    error: `--idle-after` cannot be `0`
      hint: 1s is the least
    a goal --json --quiet
    error: `--json` and `--quiet` do not go together
      hint: run `ralph run --help`
    a goal --agent-program no-such-agent
    error: the agent `no-such-agent` was not found
      hint: name a program that can be run
    a goal --agent-program ./README.md
    error: the agent `./README.md` was not found
      hint: name a program that can be run
    a goal -- fix it
    error: `fix it` is no flag of the agent
      hint: the goal comes before the `--`
    a goal -- --session-id x
    error: `--session-id` cannot be given to the agent
      hint: ralph names its sessions itself
    a goal -- --max-budget-usd=3
    error: `--max-budget-usd` cannot be given to the agent
      hint: `--max-cost` before the `--` bounds all sessions together
    a goal -- -dp
    error: `-p` cannot be given to the agent
      hint: ralph gives it, and talks with the agent over it
    "#);
}

/// R-S8a: permissions are switched off by a person, in so many words, for this run, or not at all.
#[test]
fn permissions_are_skipped_only_when_a_person_says_so_twice() {
    let sandbox = approved();
    let mut told = String::new();
    for flags in [
        &["--dangerously-skip-permissions"][..],
        &["--allow-dangerously-skip-permissions"],
        &["--permission-mode", "bypassPermissions"],
    ] {
        told.push_str(&refused(&sandbox, &[&["a goal", "--"], flags].concat()));
    }
    told.push_str(&refused(&sandbox, &["a goal", "--allow-skip-permissions"]));
    assert_snapshot!(told, @"
    a goal -- --dangerously-skip-permissions
    error: the agent's flags switch off its permission prompts
      hint: `--allow-skip-permissions` before the `--` agrees to it for this run; only do so in a container or a virtual machine
    a goal -- --allow-dangerously-skip-permissions
    error: the agent's flags switch off its permission prompts
      hint: `--allow-skip-permissions` before the `--` agrees to it for this run; only do so in a container or a virtual machine
    a goal -- --permission-mode bypassPermissions
    error: the agent's flags switch off its permission prompts
      hint: `--allow-skip-permissions` before the `--` agrees to it for this run; only do so in a container or a virtual machine
    a goal --allow-skip-permissions
    error: `--allow-skip-permissions` has nothing to allow
      hint: ralph adds no such flag itself: `-- --permission-mode bypassPermissions` asks for it
    ");
    let agreed =
        ["a goal", "--allow-skip-permissions", "--", "--permission-mode", "bypassPermissions"];
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &agreed).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      gates     tests  sh -c 'exit 0'
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}' --permission-mode bypassPermissions
      note      the agent asks for no permissions in this run: let it work in a container or a virtual machine, without your keys
    nothing was started
    "#);
    for words in [&["a goal"][..], &["a goal", "--yes"], &["a goal", "--", "--debug"]] {
        let shown = planned(&sandbox, words).to_string();
        let mut done = shown.lines().filter(|line| !line.starts_with("  note "));
        assert!(!done.any(|line| line.contains("ermission")), "{shown}");
    }
}

#[test]
fn an_agent_drives_no_agents() {
    let sandbox = approved().env("CLAUDECODE", "1");
    assert_snapshot!(refused(&sandbox, &["a goal"]), @"
    a goal
    error: an agent may not start a run that drives agents
      hint: ask a person to do this in their own terminal
    ");
    assert_snapshot!(refused(&sandbox, &["a goal", "--dry-run"]), @"
    a goal --dry-run
    error: an agent may not start a run that drives agents
      hint: ask a person to do this in their own terminal
    ");
}

#[test]
fn nothing_begins_where_nobody_is_held() {
    let sandbox = approved().env("RALPH_OFF", "1");
    assert_snapshot!(refused(&sandbox, &["a goal"]), @"
    a goal
    error: nobody would be held: `RALPH_OFF` is set
      hint: take that back first
    ");
}

/// Nothing of a repository runs before a person approved exactly that.
#[test]
fn what_nobody_approved_starts_nothing() {
    let sandbox = sandbox();
    sandbox.write("ralph.toml", POLICY);
    assert_snapshot!(refused(&sandbox, &["a goal"]), @"
    a goal
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
    // Somebody's word for gates that were found is none for a policy that is there.
    assert_snapshot!(refused(&sandbox, &["a goal", "--yes"]), @"
    a goal --yes
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
}

#[test]
fn gates_that_were_found_are_agreed_to_first() {
    let sandbox = sandbox();
    program(&sandbox.root().join("bin/npm"), "#!/bin/sh\nexit 1\n");
    sandbox.write("package.json", r#"{"scripts": {"test": "./all.sh"}}"#);
    assert_snapshot!(refused(&sandbox, &["a goal"]), @"
    a goal
    error: nobody approved the gates that were found: tests
      hint: `ralph init` shows what they run, and asks; `--yes` takes them as they are, `--no-gates` does without
    ");
    assert_snapshot!(refused(&sandbox, &["a goal", "--worktree", "--yes"]), @"
    a goal --worktree --yes
    error: the project has no `ralph.toml`, and a work tree begins at a commit
      hint: `ralph gate detect --write` makes it; commit it, and approve it with `ralph trust`
    ");
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &["a goal"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      gates     tests  npm test
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      nobody approved these gates yet: a start asks, and writes `$ROOT/project/ralph.toml`; `--yes` agrees
    nothing was started
    "#);
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &["a goal", "--no-gates"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit
    nothing was started
    "#);
}

/// A file that a gate names is sealed. Whoever is to change it is told before the night, and so is what a list can come
/// to.
#[test]
fn a_dry_run_says_what_is_sealed_and_what_can_come_of_it() {
    let sandbox = sandbox();
    let gate = "[[gate]]\nname = \"tests\"\nshell = \"grep -q goodbye NOTES.md\"\n";
    sandbox.write("ralph.toml", gate);
    sandbox.write("NOTES.md", "hello\n");
    sandbox.write("PLAN.md", "- [ ] say goodbye\n");
    sandbox.commit();
    sandbox.trust();
    let goal = ["Let NOTES.md say goodbye, and README.md too."];
    let told = [planned(&sandbox, &goal), planned(&sandbox, &["--plan", "PLAN.md"])];
    let told = told.map(|ended| ended.to_string()).concat();
    assert_snapshot!(sandbox.tidy(&told), @r#"
    exit 0
    --- stdout
    would start  Let NOTES.md say goodbye, and README.md too.
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      gates     tests  /bin/sh -c 'grep -q goodbye NOTES.md'
      sealed    `NOTES.md`; a change of any of it holds the agent
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the goal is about `NOTES.md`, which is sealed, because a gate names it: a change of it holds the agent. A gate that only looks, such as `run = ["grep", …]`, seals nothing
    nothing was started

    exit 0
    --- stdout
    would start  everything in PLAN.md
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      plan      `$ROOT/project/PLAN.md`
      gates     tests  /bin/sh -c 'grep -q goodbye NOTES.md'
      sealed    `NOTES.md`; a change of any of it holds the agent
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    // What only looks at a file seals nothing.
    let gate = "[[gate]]\nname = \"tests\"\nrun = [\"grep\", \"-q\", \"goodbye\", \"NOTES.md\"]\n";
    sandbox.write("ralph.toml", gate);
    sandbox.trust();
    let told = planned(&sandbox, &goal).stdout;
    let told: Vec<_> = told.lines().filter(|line| line.contains("NOTES.md")).collect();
    assert_snapshot!(told.join("\n"), @"
    would start  Let NOTES.md say goodbye, and README.md too.
      gates     tests  grep -q goodbye NOTES.md
    ");
}

#[test]
fn a_dry_run_says_everything_and_does_nothing() {
    let sandbox = approved().env("DEPLOY_TOKEN", "ghp_0123456789abcdef");
    let words = [
        "make the parser handle nested quotes",
        "--max-iterations=40",
        "--max-cost=12.50",
        "--max-tokens=2M",
        "--handover-at=75%",
        "--sessions=fresh-per-feature",
        "--model=sonnet",
        "--stronger-model=opus",
        "--wait-for-limits=6h",
        "--worktree",
        "--",
        "--append-system-prompt",
        "the token is ghp_0123456789abcdef",
    ];
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &words).to_string()), @r#"
    exit 0
    --- stdout
    would start  make the parser handle nested quotes
      project   `$ROOT/project`
      limits    40 iterations · 8 h · $12.50 · 2 M tokens · stuck after 3 stops without progress
      gates     tests  sh -c 'exit 0'
      sessions  a fresh one when something was met, or the context is 75 % full
      waits     up to 6 h for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      stuck     then `opus` is tried
      worktree  one of its own, and a branch; merged when the merged tree is verified
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --model sonnet --max-budget-usd 12.500000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1040"}}' --append-system-prompt 'the token is [redacted]'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
    nothing was started
    "#);
    let with_json = [&["--json"], &words[..]].concat();
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &with_json).to_string()), @r#"
    exit 0
    --- stdout
    {"v":1,"event":"planned","run":null,"title":"make the parser handle nested quotes","project":"$ROOT/project","max_iterations":40,"max_duration_ms":28800000,"max_cost_usd":12.5,"max_tokens":2000000,"handover_at":0.75,"gates":[{"gate":"tests","command":"sh -c 'exit 0'"}],"approved":true,"sealed":[],"argv":["$ROOT/bin/claude","-p","--input-format","stream-json","--output-format","stream-json","--verbose","--session-id","NEW","--model","sonnet","--max-budget-usd","12.500000","--settings","{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"1040\"}}","--append-system-prompt","the token is [redacted]"],"worktree":"merge","notes":["no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit"]}
    "#);
}

#[test]
fn a_loop_is_its_prompt_and_its_list() {
    let sandbox = sandbox();
    let made = sandbox.ralph(["loop", "new", "csv", "--goal", "Read and write CSV"]);
    assert_eq!(made.code, Some(0), "{made}");
    let list = sandbox.project().join(".claude/data/ralph-loops/csv/feature_list.json");
    let checked = r#"{"features": [{"id": 1, "description": "x", "steps": [], "passes": false, "verify": ["true"]}]}"#;
    let unchecked = fs::read(&list).unwrap();
    fs::write(&list, checked).unwrap();
    assert_snapshot!(refused(&sandbox, &["--loop", "csv"]), @"
    --loop csv
    error: the commands in `.claude/data/ralph-loops/csv/feature_list.json` are not approved, so nothing was started
      hint: `ralph trust --features .claude/data/ralph-loops/csv` shows what would run and asks for approval
    ");
    fs::write(&list, unchecked).unwrap();
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &["--loop", "csv"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  csv
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      list      `$ROOT/project/.claude/data/ralph-loops/csv`
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    let plan = ["--plan", "PLAN.md", "--pr", "--wait-for-checks", "30m"];
    write_at(&sandbox.project().join("PLAN.md"), "- [ ] one\n");
    assert_snapshot!(refused(&sandbox, &[&plan[..], &["--dry-run"]].concat()), @"
    --plan PLAN.md --pr --wait-for-checks 30m --dry-run
    error: no pull request could be opened
      caused by: the repository has no remote to push to
      hint: add one: `git remote add origin URL`, or run without `--pr`
    ");
    sandbox.git(&["remote", "add", "origin", "https://github.com/you/project.git"]);
    let said = r#"{"full_name":"you/project","default_branch":"main"}"#;
    program(&sandbox.root().join("bin/gh"), &format!("#!/bin/sh\necho '{said}'\n"));
    assert_snapshot!(sandbox.tidy(&planned(&sandbox, &plan).to_string()), @r#"
    exit 0
    --- stdout
    would start  everything in PLAN.md
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck after 3 stops without progress
      plan      `$ROOT/project/PLAN.md`
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for errors of the network; 10 min for a sign of life
      worktree  one of its own, and a branch; then a pull request, whose checks have 30 min
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    let elsewhere =
        Sandbox::named("plain").env("PATH", &format!("{}/bin:/usr/bin", sandbox.root().display()));
    let refused = elsewhere.ralph(["run", "a goal", "--worktree"]);
    assert_snapshot!(elsewhere.tidy(&refused.to_string()), @"
    exit 1
    --- stderr
    error: `$ROOT/plain` is in no git repository, so it can have no work tree
      hint: `git init` creates one; it needs a first commit
    ");
}

/// A run that somebody else drives is not taken from them.
#[test]
fn only_driven_runs_are_gone_on_with() {
    let sandbox = approved();
    let run = sandbox.start(["--no-gates", "--completion-promise", "DONE"]);
    let told = refused(&sandbox, &["--resume", &run]);
    assert_snapshot!(told.replace(&run, "$RUN"), @"
    --resume $RUN
    error: run `[run]` is driven by whoever opened its session
      hint: `ralph resume [run]` resumes it
    ");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let told = refused(&sandbox, &["--resume", &run]);
    assert_snapshot!(told.replace(&run, "$RUN"), @"
    --resume $RUN
    error: run `[run]` has ended: cancelled
      hint: start a new run with `ralph start`
    ");
}

#[test]
fn help_is_all_there_is_to_know() {
    let help = sandbox().ralph(["run", "--help"]);
    assert_snapshot!(help.to_string(), @r#"
    exit 0
    --- stdout
    Drive the agent itself until the work is done: over as many sessions as it takes, through the night

    Usage: ralph run [OPTIONS] [GOAL] [-- <AGENT FLAGS>...]

    Arguments:
      [GOAL]
              What is to be reached, in a sentence or more

      [AGENT FLAGS]...
              Flags for the agent, as they are

    Options:
          --goal-file <FILE>
              Read the goal from this file, or from stdin with `-`

          --loop <NAME>
              Work through a loop: its `RALPH_PROMPT.md` is the goal, its list what has to be met

          --resume <RUN>
              Go on with a run that was parked, interrupted or killed

          --fork <SESSION|RUN>
              Begin with a copy of this session, or of the last one of this run; without a goal, a run
              that has ended goes on so: with its goal, lists and flags, and as much again of its limits

          --queue <FILE|DIR>
              Work through a list of goals: a file, or a directory with a file for each

          --parallel <N>
              How many goals of the queue are worked on at once

          --max-iterations <N>
              How often the agent may be held; 0 is without limit [default: the policy's, or 25]

          --min-iterations <N>
              Hold the agent at least this often, to polish, even when everything is met

          --max-duration <DURATION>
              How long the run may take, such as `90m`; `0s` is without limit [default: the policy's, or
              8h]

          --max-cost-usd <USD>
              How much may be spent from now on, in USD; 0 is without limit [default: the policy's, or
              20]
              
              [alias: --max-cost]

          --stuck-after <N>
              End the run when this many stops in a row brought nothing new [default: the policy's, or
              3]

          --max-tokens <N>
              How many tokens all sessions may use together, such as `2M`; 0 is without limit

          --handover-at <SHARE>
              How full the context is when a fresh session takes over [default: the policy's, or 0.8]

          --sessions <WHEN>
              When a fresh session takes over

              Possible values:
              - hybrid:            When the context is nearly full
              - same-session:      Never
              - fresh-per-feature: Also whenever something of the contract was met

          --model <MODEL>
              The model; by default the agent's own choice

          --stronger-model <MODEL>
              The model that is tried when nothing else moved the work

          --agent <AGENT>
              Which agent is driven
              
              [possible values: claude]

          --agent-program <PATH>
              The agent's program; by default the one on `PATH`

          --wait-for-limits <DURATION>
              Wait for rate limits to be lifted, all waits together no longer than this; by default not
              at all

          --idle-after <DURATION>
              Without a sign of life for this long the agent is asked, after as long again restarted
              [default: 10m]

          --plan <FILE>
              A Markdown file whose unticked items are to be done; may be given more than once

          --features <DIR>
              A directory with `feature_list.json`; may be given more than once

          --no-gates
              Leave the project's policy and its gates out of this run

          --complexity <N>
              How complex the work is, from 0 to 10: gates with a higher `min_complexity` do not count

          --worktree
              Work in a git work tree and on a branch of its own; merged when the merged tree is
              verified

          --pr
              As `--worktree`, but open a pull request with the report instead of merging

          --wait-for-checks <DURATION>
              Wait so long for the checks of the pull request, and count them as a gate

          --project <DIR>
              The project; by default the nearest directory upwards that has a policy, or the repository

          --dry-run
              Only show what would be done

      -y, --yes
              Do not ask: where the project has no policy, write the gates that were found and approve
              them

          --json
              Print one JSON object per event

      -q, --quiet
              Print only how it ended

          --allow-skip-permissions
              Let the agent's flags of this run switch off its permission prompts

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      ralph run "make the parser handle nested quotes"
      ralph run --goal-file goal.md --max-duration 8h --max-cost 20 --wait-for-limits 6h
      ralph run --loop csv --worktree
      ralph run --resume k7f2
      ralph run --resume k7f2 --wait-for-limits 6h
      ralph run --fork k7f2 --max-cost 40
      ralph run "now do it" --fork 0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa
      ralph run --queue goals.md --parallel 2
      ralph run "upgrade to axum 0.8" --dry-run -- --permission-mode acceptEdits

    ralph starts the agent and answers its stops itself: nothing has to be installed for it. What is
    met, spent and counted is kept over all sessions of a run. Ctrl-C once lets the turn end, twice
    ends it now; `--resume` goes on from either. The exit code says how it ended: 0 verified,
    2 exhausted, 3 claimed, 4 stuck, 5 needs_human, 6 needs_review, 7 gate_broken, 8 rate_limited,
    9 overridden, 10 crashed, 130 cancelled, 1 anything else.
    "#);
}
