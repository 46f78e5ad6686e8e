//! The final report of `ralph run`: the judged commit, where unlanded work is, and the suggested next command.

use crate::runner::{GOAL, RunnerSandbox};
use crate::sandbox::{CommandOutcome, Sandbox};
use insta::assert_snapshot;
use std::fs;

const PERMISSION_FLAGS: [&str; 5] =
    ["--", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
const EDIT_STEP: &str = r#"tools = [{ edit = "main.sh", old = "hello", new = "goodbye" }]"#;
const COMMIT_COMMAND: &str =
    "git add -A && git -c user.name=t -c user.email=t@t commit -qm goodbye";

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d\d:\d\d:\d\d", "[time]");
    settings.add_filter(r"(?m)^- \d\d:\d\d ", "- [time] ");
    settings.add_filter(r"\b\d+ (ms|s)\b", "[duration]");
    settings.add_filter(r"\b[0-9a-f]{7,40}\b", "[id]");
    settings.add_filter(r"\$\d[\d.]*", "[money]");
    settings
}

/// Runs with `--quiet`, so that only the final report is printed.
fn run_quietly(runner: &RunnerSandbox, args: &[&str]) -> CommandOutcome {
    let mut command = runner.sandbox.command();
    command.args(["run", "--quiet", "--agent-program"]).arg(runner.root_path("agent")).args(args);
    crate::sandbox::run_command(&mut command, b"")
}

fn normalized_report(runner: &RunnerSandbox, text: &str) -> String {
    let root = fs::canonicalize(runner.sandbox.root()).unwrap();
    text.replace(root.to_str().unwrap(), "$ROOT").replace(&runner.run_id(), "$RUN")
}

/// The report names a commit only if the gates passed on exactly that commit. A commit from before the start of the run
/// is not counted as its own, even if it was made in the same second.
#[test]
fn a_report_names_only_the_judged_commit() {
    let edits = format!("[[step]]\n{EDIT_STEP}\n\n[[step]]\nagent = \"Done.\"\n");
    let commits = format!(
        "[[step]]\n{EDIT_STEP}\n\n[[step]]\ntools = [{{ run = \"{COMMIT_COMMAND}\" }}]\n\n[[step]]\nagent = \"Done.\"\n"
    );
    let both = format!(
        "[[step]]\n{EDIT_STEP}\n\n[[step]]\ntools = [{{ run = \"{COMMIT_COMMAND}; echo x > notes.txt\" }}]\n\n[[step]]\nagent = \"Done.\"\n"
    );
    let mut reports = String::new();
    for steps in [edits, commits, both] {
        let runner = RunnerSandbox::new(&steps);
        let mine = ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty"];
        runner.sandbox.git(&[&mine[..], &["-m", "mine"]].concat());
        let ended = run_quietly(&runner, &[&[GOAL], &PERMISSION_FLAGS[..]].concat());
        reports.push_str(&normalized_report(&runner, &format!("{ended}\n")));
    }
    snapshot_settings().bind(|| assert_snapshot!(reports, @"
    exit 0
    --- stdout
    verified: Let main.sh say goodbye. — 1 gate on the work tree, not committed, 0 iterations, [duration], [money]
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.sh`
      work    1 path differs from the last commit
      saved   as checkpoint 1
      next    `git status && git diff HEAD`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`


    exit 0
    --- stdout
    verified: Let main.sh say goodbye. — 1 gate on [id], 0 iterations, [duration], [money]
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.sh`
      commits [id] goodbye
      saved   as checkpoint 1
      next    `git diff [id]`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`


    exit 0
    --- stdout
    verified: Let main.sh say goodbye. — 1 gate on the work tree, not committed, 0 iterations, [duration], [money]
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.sh`, `notes.txt`
      commits [id] goodbye
      work    1 path differs from the last commit
      saved   as checkpoint 1
      next    `git status && git diff [id]`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`
    "));
}

/// Missing permissions of the agent are shown in the notes before the run and in the report at the end, in text and
/// JSON.
#[test]
fn denied_permissions_are_reported() {
    let steps =
        format!("[[step]]\n{EDIT_STEP}\n\n[[step]]\nagent = \"I cannot.\"\nrepeat = \"forever\"\n");
    let runner = RunnerSandbox::new(&steps);
    let ended = run_quietly(&runner, &[GOAL]);
    snapshot_settings().bind(|| assert_snapshot!(normalized_report(&runner, &ended.to_string()), @"
    exit 4
    --- stdout
    stuck: Let main.sh say goodbye. — the last 3 stops made no progress on a change, tests, 2 of 5 not met; tried another approach, then a fresh session, 6 iterations over 2 sessions, [duration], [money]
    ✓ met     policy, tools, nothing hidden
    ✗ open    a change: the work tree has not changed since the run began
    ✗ open    tests: 1 finding, 1 pre-existing
    ✗ denied  1 tool call was not permitted: Edit; `-- --permission-mode acceptEdits` lets it edit
      saved   as checkpoint 0
      next    `ralph why $RUN`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`
    "));
    let id = runner.run_id();
    let lines = |args: &[&str]| {
        let shown = runner.sandbox.ralph(args).stdout;
        // The timeline of the report has the local time.
        let lines = shown.lines().filter(|line| {
            (line.contains("denied") && !line.starts_with("- ")) || line.contains("did not permit")
        });
        lines.map(|line| format!("{}: {line}", args[0])).collect::<Vec<_>>().join("\n")
    };
    let shown = [lines(&["why", &id]), lines(&["report", &id]), lines(&["log", &id])].join("\n");
    snapshot_settings().bind(|| assert_snapshot!(normalized_report(&runner, &shown), @"
    why: ? 1 tool call was denied: Edit (not permitted)
    why: next: the client did not permit Edit, and `ralph run --fork $RUN -- --permission-mode acceptEdits` continues with that allowed
    report: - **Next** `ralph why $RUN` shows what it is stuck on; the client did not permit Edit, and `ralph run --fork $RUN -- --permission-mode acceptEdits` continues with that allowed
    report: 4. a tool call was denied: `Edit (not permitted): Claude requested permissions to write to $ROOT/project/main.sh, but you haven't granted it yet.`
    log: [time]  denied     Edit (not permitted): Claude requested permissions to write to $ROOT/project/main.sh, but you haven't granted it yet.
    "));
    let runner = RunnerSandbox::new(&steps);
    let ended = crate::sandbox::run_command(&mut runner.json_command(&[GOAL]), b"");
    let (prepared, report) = (
        RunnerSandbox::events_named(&ended, "prepared"),
        RunnerSandbox::events_named(&ended, "ended"),
    );
    assert_snapshot!(format!("{}\n{}", prepared[0]["notes"], report[0]["denied"]), @r#"
    ["no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit"]
    [{"count":1,"tool":"Edit"}]
    "#);
    let dry = [GOAL, "--dry-run", "--agent-program", "/bin/true"];
    let dry = runner.sandbox.ralph([&["run"], &dry[..]].concat());
    let notes: String = dry.stdout.lines().filter(|line| line.contains("note ")).collect();
    assert_snapshot!(notes, @"  note      no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- --permission-mode acceptEdits` lets it edit");
}

/// `status` and `why` show where work that did not land is and how to take it. The log shows why a fresh session took
/// over.
#[test]
fn unlanded_work_is_located() {
    let steps = "[[step]]\ntools = [{ run = \"echo 'echo hm' > main.sh\" }]\n\n[[step]]\nagent = \"Done.\"\nrepeat = \"forever\"\n";
    let runner = RunnerSandbox::new(steps);
    let ended = run_quietly(&runner, &[&[GOAL, "--worktree"], &PERMISSION_FLAGS[..]].concat());
    let id = runner.run_id();
    let status = runner.sandbox.ralph(["status", &id]).stdout;
    let list = runner.sandbox.ralph(["status"]).stdout;
    let list: String = list.lines().filter(|line| line.contains("not merged")).collect();
    let why = runner.sandbox.ralph(["why", &id, "--last", "1"]).stdout;
    let why: Vec<_> = why.lines().rev().take(2).collect();
    let why = format!("{}\n{}", why[1], why[0]);
    let log = runner.sandbox.ralph(["log", &id]).stdout;
    let log: String = log.lines().filter(|line| line.contains("  moved ")).collect();
    let output =
        normalized_report(&runner, &format!("{ended}\n{status}\n{list}\n\n{why}\n{log}\n"));
    snapshot_settings().bind(|| assert_snapshot!(output, @"
    exit 4
    --- stdout
    stuck: Let main.sh say goodbye. — the last 3 stops made no progress on tests, 1 of 5 not met; tried another approach, then a fresh session, 6 iterations over 2 sessions, [duration], [money]
    ✓ met     a change, policy, tools, nothing hidden
    ✗ open    tests: 1 finding, 1 pre-existing
      files   `main.sh`
      saved   as checkpoint 1
      tree    not merged: branch `ralph/$RUN`, work tree `$ROOT/home/ralph-worktrees/$RUN/project`; 1 path not committed there: `git -C $ROOT/home/ralph-worktrees/$RUN/project diff [id]` and `git -C $ROOT/home/ralph-worktrees/$RUN/project status` show it; commit it, then `git -C $ROOT/project merge ralph/$RUN`
      next    `ralph why $RUN`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`


    $RUN  stuck         Let main.sh say goodbye.  (just now, 6 iterations over 2 sessions, [money])
          the last 3 stops made no progress on tests, 1 not met; tried another approach, then a fresh session
          next: `ralph why $RUN` shows what it is stuck on; help with that, then run `ralph run --fork $RUN`
          not merged: branch `ralph/$RUN`, work tree `$ROOT/home/ralph-worktrees/$RUN/project`; 1 path not committed there: `git -C $ROOT/home/ralph-worktrees/$RUN/project diff [id]` and `git -C $ROOT/home/ralph-worktrees/$RUN/project status` show it; commit it, then `git -C $ROOT/project merge ralph/$RUN`

          not merged; `ralph status $RUN` shows how to merge it

    not merged: branch `ralph/$RUN`, work tree `$ROOT/home/ralph-worktrees/$RUN/project`; 1 path not committed there: `git -C $ROOT/home/ralph-worktrees/$RUN/project diff [id]` and `git -C $ROOT/home/ralph-worktrees/$RUN/project status` show it; commit it, then `git -C $ROOT/project merge ralph/$RUN`
    next: help with that, then run `ralph run --fork $RUN`
    [time]  moved      session [id] takes over
    "));
}

/// The work tree of a merged run is removed, and everything is read from the repository that it came from. Nothing is
/// written there.
#[test]
fn merged_work_is_shown_from_the_repository_that_it_came_from() {
    let runner =
        RunnerSandbox::new(&format!("[[step]]\n{EDIT_STEP}\n\n[[step]]\nagent = \"Done.\"\n"));
    let ended = run_quietly(&runner, &[&[GOAL, "--worktree"], &PERMISSION_FLAGS[..]].concat());
    assert_eq!(ended.code, Some(0), "{ended}");
    let id = runner.run_id();
    assert!(!runner.sandbox.home().join("ralph-worktrees").join(&id).exists());
    let mut shown = String::new();
    for args in [
        &["list", "checkpoints", &id][..],
        &["checkpoint", "diff", &id],
        &["checkpoint", "diff", &id, "1"],
        &["checkpoint", "make", &id],
        &["checkpoint", "restore", &id, "0", "--yes"],
    ] {
        let shown_args = args.join(" ");
        shown.push_str(&format!("$ ralph {shown_args}\n{}\n", runner.sandbox.ralph(args)));
    }
    let report = runner.sandbox.ralph(["report", &id]).stdout;
    let is_shown = |section: &&str| {
        ["What that rests on", "What happened", "Changes by file", "Check it"]
            .iter()
            .any(|title| section.starts_with(title))
    };
    for section in report.split("\n## ").filter(is_shown) {
        shown.push_str(&format!("## {section}\n"));
    }
    let shown = normalized_report(&runner, &shown);
    snapshot_settings().bind(|| assert_snapshot!(shown, @r"
    $ ralph list checkpoints $RUN
    exit 0
    --- stdout
    $RUN  2 checkpoints of `$ROOT/project`
            0  [time]  start of the run
            1  [time]  iteration 1


    $ ralph checkpoint diff $RUN
    exit 0
    --- stdout
    diff --git a/main.sh b/main.sh
    index [id]..[id] 100644
    --- a/main.sh
    +++ b/main.sh
    @@ -1 +1 @@
    -echo hello
    +echo goodbye

    --- stderr
    run `$RUN` has ended: comparing its checkpoints 0 and 1


    $ ralph checkpoint diff $RUN 1
    exit 1
    --- stderr
    error: the work tree of run `$RUN` was removed, so it has no current files
      hint: `ralph checkpoint diff $RUN` compares its checkpoints


    $ ralph checkpoint make $RUN
    exit 1
    --- stderr
    error: the work tree of run `$RUN` was removed, so it has no current files
      hint: `ralph checkpoint diff $RUN` compares its checkpoints


    $ ralph checkpoint restore $RUN 0 --yes
    exit 1
    --- stderr
    error: the work tree of run `$RUN` was removed, so nothing can be restored in it
      hint: `git -C $ROOT/project worktree add --detach ../project-$RUN-0 refs/ralph/$RUN/0` writes the files of the checkpoint to a directory of their own


    ## What that rests on

    - **Measured** 6 of 6 requirements met, at stop 3 ([time]) on checkpoint 1
    - 2 of 2 gate results passed; measured in a clean checkout
    - all 6 requirements are met after 0 iterations and [duration]; 1 check passes on the new code; 1 check fails without the change
    - **On** commit `[id]` (checkpoint 1, `[id]`, tree `[id]`)
    - **Policy** `[id]`, approved before the start
    - **Journal** 8 lines, unbroken, last hash `[id]`
    - **Next** review the change: `ralph checkpoint diff $RUN`

    ## What happened

    - [time] started: `Let main.sh say goodbye.`
    - [time] runner: session [id] starts
    - [time] stop 1, let go: all 5 requirements are met after 0 iterations and [duration]
    - [time] stop 2, let go: all 6 requirements are met after 0 iterations and [duration]; 1 check passes on the new code; 1 check fails without the change
    - [time] runner: merged into `main` as [id]
    - [time] stop 3, ended: verified: all 6 requirements are met after 0 iterations and [duration]; 1 check passes on the new code; 1 check fails without the change

    ## Changes by file

    1 file, +1 −1

    | File | Added | Removed |
    |---|--:|--:|
    | `main.sh` | +1 | −1 |

    ## Check it

    ```sh
    ralph why $RUN
    git diff [id] [id]
    ralph report $RUN --attest --out $RUN.intoto.json
    ralph verify-report $RUN.intoto.json
    ```
    "));
    assert_eq!(
        fs::read_to_string(runner.sandbox.project().join("main.sh")).unwrap(),
        "echo goodbye\n"
    );
    // The command of the hint.
    let copy = ["worktree", "add", "--detach", "../copy", &format!("refs/ralph/{id}/0")];
    runner.sandbox.git(&copy);
    let copied = fs::read_to_string(runner.root_path("copy/main.sh")).unwrap();
    assert_eq!(copied, "echo hello\n");
}

/// The suggested next command fits the reason for the ending.
#[test]
fn the_next_step_fits_the_ending() {
    let login = "[[step]]\nerror = { status = 401, type = \"authentication_error\", message = \"invalid x-api-key\" }\n";
    let runner = RunnerSandbox::new(login);
    let mut reports = normalized_report(
        &runner,
        &run_quietly(&runner, &[&[GOAL], &PERMISSION_FLAGS[..]].concat()).to_string(),
    );

    let meanwhile = "cd $PROJECT && echo 'echo bonjour' > main.sh && git -c user.name=t -c user.email=t@t commit -qam mine";
    let sandbox = Sandbox::new();
    let meanwhile = meanwhile.replace("$PROJECT", sandbox.project().to_str().unwrap());
    let steps = format!(
        "[[step]]\n{EDIT_STEP}\n\n[[step]]\ntools = [{{ run = \"{meanwhile}\" }}]\n\n[[step]]\nagent = \"Done.\"\n"
    );
    let runner = RunnerSandbox::with_client_flags(sandbox, &steps, "");
    let ended = run_quietly(&runner, &[&[GOAL, "--worktree"], &PERMISSION_FLAGS[..]].concat());
    reports.push_str(&normalized_report(&runner, &format!("\n{ended}")));
    snapshot_settings().bind(|| assert_snapshot!(reports, @"
    exit 5
    --- stdout
    needs_human: Let main.sh say goodbye. — the provider rejected the login: Failed to authenticate. API Error: 401 invalid x-api-key, 0 iterations, [duration], [money]
      saved   as checkpoint 0
      next    `claude /login` or set its API key, then `ralph run --resume $RUN`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`


    exit 5
    --- stdout
    needs_human: Let main.sh say goodbye. — it conflicts with `main` in main.sh; branch `ralph/$RUN` and work tree `$ROOT/home/ralph-worktrees/$RUN/project` are kept; see `git -C $ROOT/project diff [id]...ralph/$RUN`, 0 iterations, [duration], [money]
    ✓ met     a change, policy, tools, nothing hidden, tests, tests (clean checkout)
      files   `main.sh`
      commits [id] Let main.sh say goodbye.
      saved   as checkpoint 1
      next    `git -C $ROOT/home/ralph-worktrees/$RUN/project merge main`, resolve and commit there, then `ralph run --resume $RUN`
      report  `$ROOT/home/.ralph/runs/$RUN/report.html`
    "));
}

/// The client reports no cost for a turn in which agent and runner were killed, so its cost is estimated.
#[test]
fn estimated_cost_is_marked() {
    let runner = RunnerSandbox::new(&format!(
        "[[step]]\nagent = \"Done.\"\n\n[[step]]\ntools = [{{ run = \"sleep 600\" }}]\n\n[[step]]\n{EDIT_STEP}\n\n[[step]]\nagent = \"Now it does.\"\n"
    ));
    let (mut child, _events) = runner.start_until(&[], "tool");
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = run_quietly(&runner, &["--resume", &runner.run_id()]);
    let first = ended.stdout.lines().next().unwrap_or_default();
    let (_, money) = first.split_once('$').unwrap();
    assert_snapshot!(format!("${money}"), @"$0.0032 partly assumed");
}
