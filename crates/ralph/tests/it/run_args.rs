//! `ralph run` before an agent is started: usage errors, refusals and `--dry-run`.

use crate::sandbox::{CommandOutcome, Sandbox, write_file, write_program};
use insta::assert_snapshot;
use std::fs;

const GATE_POLICY: &str = r#"
[[gate]]
name = "tests"
run = ["sh", "-c", "exit 0"]
report = "none"
min_tests = 0
"#;

/// A machine with an agent program that leaves a file when it is started.
fn sandbox_with_agent() -> Sandbox {
    let sandbox = Sandbox::new();
    let bin = sandbox.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    write_program(&bin.join("claude"), "#!/bin/sh\ntouch \"$(dirname \"$0\")/was-run\"\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    sandbox.env("PATH", &path)
}

fn sandbox_with_approved_policy() -> Sandbox {
    let sandbox = sandbox_with_agent();
    sandbox.write("ralph.toml", GATE_POLICY);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// The error of a refused command. Asserts that nothing was written and no agent was started.
fn refused_run(sandbox: &Sandbox, words: &[&str]) -> String {
    let before = sandbox.read_state();
    let ended = sandbox.ralph(std::iter::once("run").chain(words.iter().copied()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}: {ended}");
    assert_eq!(sandbox.read_state(), before, "{words:?}");
    assert!(!fs::exists(sandbox.root().join("bin/was-run")).unwrap(), "{words:?}");
    format!("{}\n{}\n", words.join(" "), sandbox.normalize(&ended.stderr))
}

fn dry_run(sandbox: &Sandbox, words: &[&str]) -> CommandOutcome {
    let before = sandbox.read_state();
    let ended = sandbox.ralph(["run", "--dry-run"].into_iter().chain(words.iter().copied()));
    assert_eq!(sandbox.read_state(), before, "{words:?}");
    assert!(!fs::exists(sandbox.root().join("bin/was-run")).unwrap(), "{words:?}");
    ended
}

#[test]
fn usage_errors_come_with_a_hint() {
    let sandbox = sandbox_with_approved_policy();
    let errors: String = [
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
        &["a goal", "--max-iterations", "-1"],
        &["a goal", "--max-iterations", "4294967296"],
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
    .map(|words| refused_run(&sandbox, words))
    .collect();
    assert_snapshot!(errors);
}

/// R-S8a: permissions are skipped only if a person says so explicitly for this run.
#[test]
fn permissions_are_skipped_only_with_both_flags() {
    let sandbox = sandbox_with_approved_policy();
    let mut errors = String::new();
    for flags in [
        &["--dangerously-skip-permissions"][..],
        &["--allow-dangerously-skip-permissions"],
        &["--permission-mode", "bypassPermissions"],
    ] {
        errors.push_str(&refused_run(&sandbox, &[&["a goal", "--"], flags].concat()));
    }
    errors.push_str(&refused_run(&sandbox, &["a goal", "--allow-skip-permissions"]));
    assert_snapshot!(errors, @"
    a goal -- --dangerously-skip-permissions
    error: the agent's flags disable its permission prompts
      hint: add `--allow-skip-permissions` before the `--` to allow it for this run; only do so in a container or a virtual machine
    a goal -- --allow-dangerously-skip-permissions
    error: the agent's flags disable its permission prompts
      hint: add `--allow-skip-permissions` before the `--` to allow it for this run; only do so in a container or a virtual machine
    a goal -- --permission-mode bypassPermissions
    error: the agent's flags disable its permission prompts
      hint: add `--allow-skip-permissions` before the `--` to allow it for this run; only do so in a container or a virtual machine
    a goal --allow-skip-permissions
    error: `--allow-skip-permissions` has nothing to allow
      hint: ralph adds no such flag itself; add `-- --permission-mode bypassPermissions`
    ");
    let agreed =
        ["a goal", "--allow-skip-permissions", "--", "--permission-mode", "bypassPermissions"];
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &agreed).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      gates     tests  sh -c 'exit 0'
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}' --permission-mode bypassPermissions
      note      the agent runs without permission prompts: use a container or a virtual machine, without your keys
    nothing was started
    "#);
    for words in [&["a goal"][..], &["a goal", "--yes"], &["a goal", "--", "--debug"]] {
        let shown = dry_run(&sandbox, words).to_string();
        let mut done = shown.lines().filter(|line| !line.starts_with("  note "));
        // A yes lets the agent edit files, and nothing else.
        let is_more =
            |line: &str| line.replace("--permission-mode acceptEdits", "").contains("ermission");
        assert!(!done.any(is_more), "{shown}");
    }
}

#[test]
fn an_agent_cannot_start_a_runner() {
    let sandbox = sandbox_with_approved_policy().env("CLAUDECODE", "1");
    assert_snapshot!(refused_run(&sandbox, &["a goal"]), @"
    a goal
    error: an agent may not start a run that drives agents
      hint: ask a person to do this in their own terminal
    ");
    assert_snapshot!(refused_run(&sandbox, &["a goal", "--dry-run"]), @"
    a goal --dry-run
    error: an agent may not start a run that drives agents
      hint: ask a person to do this in their own terminal
    ");
}

#[test]
fn no_run_starts_while_ralph_is_off() {
    let sandbox = sandbox_with_approved_policy().env("RALPH_OFF", "1");
    assert_snapshot!(refused_run(&sandbox, &["a goal"]), @"
    a goal
    error: ralph is off: `RALPH_OFF` is set
      hint: `unset RALPH_OFF`
    ");
}

/// No repository command runs until a person has approved it.
#[test]
fn an_unapproved_policy_starts_no_run() {
    let sandbox = sandbox_with_agent();
    sandbox.write("ralph.toml", GATE_POLICY);
    assert_snapshot!(refused_run(&sandbox, &["a goal"]), @"
    a goal
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
    // `--yes` accepts detected gates, but does not approve an existing policy.
    assert_snapshot!(refused_run(&sandbox, &["a goal", "--yes"]), @"
    a goal --yes
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
}

#[test]
fn detected_gates_need_consent() {
    let sandbox = sandbox_with_agent();
    write_program(&sandbox.root().join("bin/npm"), "#!/bin/sh\nexit 1\n");
    sandbox.write("package.json", r#"{"scripts": {"test": "./all.sh"}}"#);
    assert_snapshot!(refused_run(&sandbox, &["a goal"]), @"
    a goal
    error: the detected gates are not approved: tests; not a terminal, so I can't ask
      hint: paste `ralph run --dry-run 'a goal'` to see everything, `ralph run --yes 'a goal'` to approve the gates and let the agent edit files
    ");
    assert_snapshot!(refused_run(&sandbox, &["a goal", "--worktree", "--yes"]), @"
    a goal --worktree --yes
    error: the project has no `ralph.toml`, and a work tree starts from a commit
      hint: `ralph gate detect --write` creates it; commit it, and approve it with `ralph trust`
    ");
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &["a goal"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      gates     tests  npm test
      sealed    `package.json: scripts.test` (gate tests runs it); any change blocks every stop
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      these gates are not approved yet: a start asks and writes `$ROOT/project/ralph.toml`; `--yes` approves
    nothing was started
    "#);
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &["a goal", "--no-gates"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  a goal
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit
    nothing was started
    "#);
}

/// A file that a gate's command executes is sealed. `--dry-run` warns if the goal mentions it, and shows which
/// statuses a list can reach.
#[test]
fn a_dry_run_shows_sealed_files_and_possible_endings() {
    let sandbox = sandbox_with_agent();
    let gate = "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"NOTES.md\"]\n";
    sandbox.write("ralph.toml", gate);
    sandbox.write("NOTES.md", "hello\n");
    sandbox.write("PLAN.md", "- [ ] say goodbye\n");
    sandbox.commit();
    sandbox.approve_policy();
    let goal = ["Let NOTES.md say goodbye, and README.md too."];
    let output = [dry_run(&sandbox, &goal), dry_run(&sandbox, &["--plan", "PLAN.md"])];
    let output = output.map(|ended| ended.to_string()).concat();
    assert_snapshot!(sandbox.normalize(&output), @r#"
    exit 0
    --- stdout
    would start  Let NOTES.md say goodbye, and README.md too.
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      gates     tests  sh NOTES.md
      sealed    `NOTES.md` (gate tests names it); any change blocks every stop
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the goal names `NOTES.md`, which is sealed because gate tests names it: a change to it blocks every stop. `--may-change` allows it; a command that only reads the file, such as `grep`, does not seal it
    nothing was started

    exit 0
    --- stdout
    would start  everything in PLAN.md
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      plan      `$ROOT/project/PLAN.md`
      gates     tests  sh NOTES.md
      sealed    `NOTES.md` (gate tests names it); any change blocks every stop
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    // A file that a command only reads is not sealed.
    let gate = "[[gate]]\nname = \"tests\"\nshell = \"grep -q goodbye NOTES.md\"\n";
    sandbox.write("ralph.toml", gate);
    sandbox.approve_policy();
    let output = dry_run(&sandbox, &goal).stdout;
    let output: Vec<_> = output.lines().filter(|line| line.contains("NOTES.md")).collect();
    assert_snapshot!(output.join("\n"), @"
    would start  Let NOTES.md say goodbye, and README.md too.
      gates     tests  /bin/sh -c 'grep -q goodbye NOTES.md'
    ");
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let sandbox = sandbox_with_approved_policy().env("DEPLOY_TOKEN", "ghp_0123456789abcdef");
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
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &words).to_string()), @r#"
    exit 0
    --- stdout
    would start  make the parser handle nested quotes
      project   `$ROOT/project`
      limits    40 iterations · 8 h · $12.50 · 2 M tokens · stuck at the 3rd stop without progress
      gates     tests  sh -c 'exit 0'
      sessions  a fresh one when a requirement is met, or the context is 75 % full
      waits     up to 6 h for rate limits, up to 1 h for network errors; 10 min for a sign of life
      stuck     then `opus` is tried
      worktree  a separate one with its own branch; merged when the merged tree is verified
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --model sonnet --max-budget-usd 12.500000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1040"}}' --append-system-prompt 'the token is [redacted]'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
    nothing was started
    "#);
    let with_json = [&["--json"], &words[..]].concat();
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &with_json).to_string()), @r#"
    exit 0
    --- stdout
    {"v":1,"event":"planned","run":null,"title":"make the parser handle nested quotes","project":"$ROOT/project","max_iterations":40,"max_duration_ms":28800000,"max_cost_usd":12.5,"max_tokens":2000000,"handover_at":0.75,"stuck_after":3,"gates":[{"gate":"tests","command":"sh -c 'exit 0'"}],"approved":true,"sealed":[],"argv":["$ROOT/bin/claude","-p","--input-format","stream-json","--output-format","stream-json","--verbose","--session-id","NEW","--model","sonnet","--max-budget-usd","12.500000","--settings","{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"1040\"}}","--append-system-prompt","the token is [redacted]"],"worktree":"merge","notes":["no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit"]}
    "#);
}

#[test]
fn a_loop_provides_goal_and_feature_list() {
    let sandbox = sandbox_with_agent();
    let made = sandbox.ralph(["loop", "new", "csv", "--goal", "Read and write CSV"]);
    assert_eq!(made.code, Some(0), "{made}");
    let list = sandbox.project().join(".claude/data/ralph-loops/csv/feature_list.json");
    let checked = r#"{"features": [{"id": 1, "description": "x", "steps": [], "passes": false, "verify": ["true"]}]}"#;
    let unchecked = fs::read(&list).unwrap();
    fs::write(&list, checked).unwrap();
    assert_snapshot!(refused_run(&sandbox, &["--loop", "csv"]), @"
    --loop csv
    error: the commands in `.claude/data/ralph-loops/csv/feature_list.json` are not approved, so nothing was started
      hint: `ralph trust --features .claude/data/ralph-loops/csv` shows what would run and asks for approval
    ");
    fs::write(&list, unchecked).unwrap();
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &["--loop", "csv"]).to_string()), @r#"
    exit 0
    --- stdout
    would start  csv
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      list      `$ROOT/project/.claude/data/ralph-loops/csv`
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    let plan = ["--plan", "PLAN.md", "--pr", "--wait-for-checks", "30m"];
    write_file(&sandbox.project().join("PLAN.md"), "- [ ] one\n");
    assert_snapshot!(refused_run(&sandbox, &[&plan[..], &["--dry-run"]].concat()), @"
    --plan PLAN.md --pr --wait-for-checks 30m --dry-run
    error: cannot open a pull request
      caused by: the repository has no remote to push to
      hint: add one: `git remote add origin URL`, or run without `--pr`
    ");
    sandbox.git(&["remote", "add", "origin", "https://github.com/you/project.git"]);
    let repository = r#"{"full_name":"you/project","default_branch":"main"}"#;
    write_program(&sandbox.root().join("bin/gh"), &format!("#!/bin/sh\necho '{repository}'\n"));
    assert_snapshot!(sandbox.normalize(&dry_run(&sandbox, &plan).to_string()), @r#"
    exit 0
    --- stdout
    would start  everything in PLAN.md
      project   `$ROOT/project`
      limits    25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
      plan      `$ROOT/project/PLAN.md`
      sessions  a fresh one when the context is 80 % full
      waits     not for rate limits, up to 1 h for network errors; 10 min for a sign of life
      worktree  a separate one with its own branch; then a pull request, with 30 min for its checks
      agent     $ROOT/bin/claude -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 20.000000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}'
      note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit
      note      the only item has no check, so the best result is `claimed`
    nothing was started
    "#);
    let elsewhere = Sandbox::without_git("plain")
        .env("PATH", &format!("{}/bin:/usr/bin", sandbox.root().display()));
    let refused = elsewhere.ralph(["run", "a goal", "--worktree"]);
    assert_snapshot!(elsewhere.normalize(&refused.to_string()), @r#"
    exit 1
    --- stderr
    error: `$ROOT/plain` is not in a git repository, so it cannot have a work tree
      hint: paste: git init && git add -A && git commit -m "Start"
    "#);
}

/// `--resume` refuses runs that no runner drives.
#[test]
fn only_driven_runs_can_be_resumed() {
    let sandbox = sandbox_with_approved_policy();
    let run = sandbox.start_run(["--no-gates", "--completion-promise", "DONE"]);
    let error = refused_run(&sandbox, &["--resume", &run]);
    assert_snapshot!(error.replace(&run, "$RUN"), @"
    --resume $RUN
    error: run `[run]` is not driven by ralph but by its own session
      hint: `ralph resume [run]` resumes it
    ");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let error = refused_run(&sandbox, &["--resume", &run]);
    assert_snapshot!(error.replace(&run, "$RUN"), @r#"
    --resume $RUN
    error: run `[run]` has ended: cancelled
      hint: start a new run with `ralph run "…"`, or with `/ralph:goal …` in a session
    "#);
}

#[test]
fn help_lists_every_option() {
    let help = sandbox_with_agent().ralph(["run", "--help"]);
    assert_snapshot!(help.to_string());
}
