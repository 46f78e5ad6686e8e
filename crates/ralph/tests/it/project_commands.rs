//! Commands without a name mean the run of the project of the current directory.

use crate::runner::RunnerSandbox;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, run_command};
use insta::assert_snapshot;
use std::fs;
use std::path::{Path, PathBuf};

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];

fn ralph_in(sandbox: &Sandbox, directory: &Path, args: &[&str]) -> CommandOutcome {
    run_command(sandbox.command().args(args).current_dir(directory), b"")
}

/// A second repository, with a run.
fn other_project(sandbox: &Sandbox, name: &str) -> (PathBuf, String) {
    let directory = sandbox.root().join(name);
    fs::create_dir_all(directory.join(".git")).unwrap();
    let project = directory.display().to_string();
    let args = [&PROMISE_ARGS[..], &["--project", &project]].concat();
    (directory, sandbox.start_run_for(&format!("session-in-{name}"), args))
}

/// R-U2a: every command that takes a run means that of the project, in its subdirectories too, and never another's.
#[test]
fn a_command_without_a_name_means_the_run_of_this_project() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    sandbox.send_stop(SESSION, "");
    let (_, other) = other_project(&sandbox, "other");
    let below = sandbox.project().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let calls: &[&[&str]] = &[
        &["why"],
        &["log"],
        &["status"],
        &["limits"],
        &["verify"],
        &["tell", "look at the parser"],
        &["pause"],
        &["resume"],
        &["checkpoint", "make"],
        &["list", "checkpoints"],
        &["checkpoint", "diff", "0"],
        &["checkpoint", "restore", "0", "--dry-run"],
        &["wait"],
        &["cancel"],
    ];
    for args in calls {
        let done = ralph_in(&sandbox, &below, args);
        // The promise is not given yet.
        let expected = i32::from(*args == ["verify"]);
        assert_eq!(done.code, Some(expected), "{args:?}: {done}");
        assert!(!done.stdout.contains(&other), "{args:?}: {done}");
    }
    assert_eq!(sandbox.run_status(&run).0, "cancelled");
    assert_eq!(sandbox.run_status(&other).0, "armed");
}

#[test]
fn the_only_run_in_progress_is_meant_or_else_the_latest() {
    let sandbox = Sandbox::new();
    let first = sandbox.start_run(PROMISE_ARGS);
    let second = sandbox.start_run_for("second", PROMISE_ARGS);
    let refused = sandbox.ralph(["pause"]).stderr;
    let named = refused.contains(&format!("`{first}`")) && refused.contains(&format!("`{second}`"));
    assert!(named, "{refused}");
    assert_snapshot!(sandbox.normalize(&refused), @"
    error: 2 runs of this project could be meant: `[run]`, `[run]`
      hint: name one of them; `ralph status` shows their state
    ");
    assert_eq!(sandbox.ralph(["cancel", &first]).code, Some(0));
    assert!(sandbox.ralph(["pause"]).stdout.starts_with(&second));
    // A paused run is resumed, not the one that is active.
    sandbox.start_run_for("third", PROMISE_ARGS);
    assert!(sandbox.ralph(["resume"]).stdout.starts_with(&second));
    // An agent means its own run, whichever others there are.
    let mut command = sandbox.command();
    command.args(["why"]).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "second");
    let shown = run_command(&mut command, b"").stdout;
    assert!(shown.contains(&second), "{shown}");
}

/// Where ralph knows no run, reading commands show all projects and say so; others change nothing.
#[test]
fn a_directory_without_runs_shows_all_projects() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    sandbox.send_stop(SESSION, "");
    let elsewhere = sandbox.root().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let mut shown = String::new();
    for args in [&["status"][..], &["log"], &["why"], &["pause"], &["tell", "stop it"]] {
        let ended = ralph_in(&sandbox, &elsewhere, args);
        shown.push_str(&format!("$ ralph {}\n{ended}\n", args.join(" ")));
    }
    insta::with_settings!({filters => vec![(r"\d\d:\d\d:\d\d", "[time]"), (r"\b\d+ (ms|s)\b", "[duration]")]}, {
        assert_snapshot!(sandbox.normalize(&shown), @r"
        $ ralph status
        exit 0
        --- stdout
        note: no runs in `$ROOT/elsewhere`; this is about all projects
        [run]  working       make it work
              claude 5999882c · iteration 1 of 25 · [duration] of 8 h
              ✗ promise


        $ ralph log
        exit 0
        --- stdout
        [time]  started    make it work (25 iterations · 8 h · $20 · stuck at the 3rd stop without progress)
        [time]  held       1 not met (rule `block`)

        --- stderr
        note: no runs in `$ROOT/elsewhere`; this is about all projects


        $ ralph why
        exit 1
        --- stderr
        error: no decisions yet in `$ROOT/elsewhere`
          hint: `ralph why --all` shows the last ones of all projects


        $ ralph pause
        exit 1
        --- stderr
        error: there is no run in `$ROOT/elsewhere`
          hint: name a run of another project; `ralph status --all` lists them


        $ ralph tell stop it
        exit 1
        --- stderr
        error: there is no run in `$ROOT/elsewhere`
          hint: name a run of another project; `ralph status --all` lists them
        ");
    });
    assert_eq!(sandbox.run_status(&run).0, "held");
}

#[test]
fn status_counts_what_it_leaves_out() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let (_, other) = other_project(&sandbox, "other");
    let shown = sandbox.normalize(&sandbox.ralph(["status"]).stdout);
    assert_snapshot!(shown.lines().last().unwrap_or_default(), @"1 run in progress in other projects (1 working); `ralph watch` shows all");
    // A question ends a run that is not driven, and the run waits for a person.
    let asked = sandbox.ralph(["ask", "--run", &other, "which word?"]);
    assert_eq!(asked.code, Some(0), "{asked}");
    sandbox.send_stop("session-in-other", "");
    let shown = sandbox.normalize(&sandbox.ralph(["status"]).stdout);
    assert_snapshot!(shown.lines().last().unwrap_or_default(), @"1 run in other projects (1 ended and waits for you); `ralph watch` shows all");
    let all: serde_json::Value =
        serde_json::from_str(&sandbox.ralph(["list", "runs", "--all", "--json"]).stdout).unwrap();
    assert_eq!(all["runs"].as_array().map(Vec::len), Some(2));
    let here: serde_json::Value =
        serde_json::from_str(&sandbox.ralph(["list", "runs", "--json"]).stdout).unwrap();
    assert_eq!(here["runs"].as_array().map(Vec::len), Some(1));
}

/// The board of one project has nothing of the others, also not among what ended.
#[test]
fn the_board_of_a_project_leaves_out_the_others() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let (_, other) = other_project(&sandbox, "other");
    assert_eq!(sandbox.ralph(["cancel", &other]).code, Some(0));
    let head = |args: &[&str]| {
        let shown = sandbox.ralph(args).stdout;
        let line = shown.lines().next().unwrap_or_default();
        line.split(" ended").next().unwrap_or_default().trim().to_string()
    };
    let heads = [head(&["watch", "--once"]), head(&["watch", "--once", "--project"])];
    assert_snapshot!(heads.join("\n"), @r"
    ralph  0 wait for you · 1 working · 1
    ralph  0 wait for you · 1 working · 0
    ");
}

/// A name that nothing has gets the most similar one as a suggestion, and never does anything.
#[test]
fn unknown_names_get_a_suggestion() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let wrong = format!("{}{}", &run[..3], if run.ends_with('0') { "1" } else { "0" });
    let mut shown = String::new();
    for args in [
        &["why", &wrong][..],
        &["cancel", &wrong],
        &["tell", &wrong, "look at it"],
        &["tell", "zzzz", "hi"],
        &["tell", &run],
        &["waive", "test", "--until", "2h", "--why", "slow"],
    ] {
        let refused = sandbox.ralph(args);
        assert_eq!(refused.code, Some(1), "{args:?}: {refused}");
        shown.push_str(&refused.stderr);
    }
    assert_snapshot!(sandbox.normalize(&shown.replace(&wrong, "[wrong]")), @r#"
    error: `[wrong]` is neither a run nor a session that ralph knows
      hint: did you mean `[run]`? `ralph status --all` lists runs and sessions
    error: `[wrong]` is neither a run nor a session that ralph knows
      hint: did you mean `[run]`? `ralph status --all` lists runs and sessions
    error: `[wrong]` is neither a run nor a session that ralph knows
      hint: did you mean `[run]`? `ralph status --all` lists runs and sessions
    error: `zzzz` is neither a run nor a session that ralph knows
      hint: `ralph status --all` lists runs; to send these words to the run of this project, quote them as one
    error: the message to run `[run]` is missing
      hint: give the text: `ralph tell [run] "…"`
    error: run `[run]` has no requirement `test`
      hint: did you mean `tests`?
    "#);
    assert_eq!(sandbox.run_status(&run).0, "armed");
}

/// `ralph` alone shows the state of the project, and a command that is the next step.
#[test]
fn without_a_command_the_project_is_shown() {
    let sandbox = Sandbox::new();
    let mut shown = String::new();
    let mut show = |what: &str| {
        let ended = sandbox.ralph([""; 0]);
        assert_eq!(ended.code, Some(0), "{ended}");
        shown.push_str(&format!("-- {what}\n{}\n", sandbox.normalize(&ended.stdout)));
    };
    show("a new project");
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"./t.sh\"]\n");
    sandbox.commit();
    show("with a policy");
    sandbox.approve_policy();
    show("approved");
    let run = sandbox.start_run(["--goal-file", "-"]);
    show("with a run");
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    show("paused");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    show("cancelled");
    assert_snapshot!(shown, @r#"
    -- a new project
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ? gates    none
      · runs     none yet

    next:  ralph init
    -- with a policy
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ? gates    1 gate, not approved in this form
      · runs     none yet

    next:  ralph trust
    -- approved
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ✓ gates    1 gate, approved; they hold sessions with a goal
      · runs     none yet

    next:  ralph run "…"
    -- with a run
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ✓ gates    1 gate, approved; they hold sessions with a goal
      · run      [run]  working  make it work

    next:  ralph init
    -- paused
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ✓ gates    1 gate, approved; they hold sessions with a goal
      · run      [run]  paused  make it work

    next:  ralph resume [run]
    -- cancelled
    $ROOT/project
      ? hooks    not installed; `ralph run` works without them
      ✓ gates    1 gate, approved; they hold sessions with a goal
      · last run [run]  cancelled  make it work  (just now, 0 iterations)

    next:  ralph run "…"
    "#);
}

fn write_transcript(sandbox: &Sandbox, session: &str) -> PathBuf {
    let project = sandbox.project().display().to_string();
    let slug: String =
        project.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let path = sandbox.home().join(format!(".claude/projects/{slug}/{session}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{}\n").unwrap();
    path
}

/// A script can rely on the exit code, whatever it is that is verified, and reads every finding as JSON.
#[test]
fn verify_of_a_run_exits_with_what_it_found() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "ralph.toml",
        "[verify]\nproof = \"off\"\n\n[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n",
    );
    sandbox.write(
        "tests.sh",
        "cat state >&2\ngrep -q met state && exit 0\ngrep -q app state && exit 1\nexit 127\n",
    );
    sandbox.write("state", "met\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    let mut shown = String::new();
    for (state, code) in [
        ("app.c:1:2: error: first\napp.c:3:4: error: second\n", 1),
        ("nothing is known\n", 4),
        ("met again\n", 0),
    ] {
        sandbox.write("state", state);
        let ended = sandbox.ralph(["verify"]);
        shown.push_str(&format!("{ended}\n"));
        let json = sandbox.ralph(["verify", "--json"]);
        assert_eq!(json.code, Some(code), "{json}");
        let view: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        let requirements = view["requirements"].as_array().unwrap();
        let tests = requirements.iter().find(|one| one["name"] == "tests").unwrap();
        shown.push_str(&format!("{}: {tests}\n\n", view["state"]));
    }
    let key = regex::Regex::new("tests-[0-9a-f]{12}").unwrap();
    let shown = key.replace_all(&sandbox.normalize(&shown), "tests-[key]").into_owned();
    assert_snapshot!(shown, @r#"
    exit 1
    --- stdout
    run [run]: 1 of 6 requirements is not met
      ✗ tests (correctness): 2 findings
          app.c:1:2: first
          and 1 more
      ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ test integrity


    "unmet": {"evidence":null,"finding_count":2,"findings":[{"column":2,"file":"app.c","line":1,"message":"first","rule":null,"severity":"error","since":"new"},{"column":4,"file":"app.c","line":3,"message":"second","rule":null,"severity":"error","since":"new"}],"log":"$ROOT/home/.ralph/cache/logs/tests-[key].log","name":"tests","note":"2 findings","stage":"correctness","state":"unmet","weight":"required"}

    exit 4
    --- stdout
    run [run]: 1 of 6 requirements has no result
      ? tests (correctness): exit 127: a command was not found
      ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ test integrity


    "unknown": {"evidence":null,"finding_count":0,"findings":[],"log":null,"name":"tests","note":"exit 127: a command was not found","stage":"correctness","state":"unknown","weight":"required"}

    exit 0
    --- stdout
    run [run]: all 6 requirements are met in the current tree
      ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ test integrity  ✓ tests


    "met": {"evidence":"measured","finding_count":0,"findings":[],"log":null,"name":"tests","note":null,"stage":"correctness","state":"met","weight":"required"}
    "#);
}

/// Without a run that a stop would judge, `ralph verify` runs the gates of the project, if a person approved them.
#[test]
fn verify_without_a_run_runs_the_gates() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n");
    sandbox.write("tests.sh", "test -e done\n");
    sandbox.commit();
    let mut shown = String::new();
    let mut verify = |what: &str| {
        let ended = sandbox.ralph(["verify"]);
        shown.push_str(&format!("-- {what}\n{ended}\n"));
    };
    verify("not approved");
    sandbox.approve_policy();
    verify("fails");
    let run = sandbox.start_run(["--goal-file", "-"]);
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    sandbox.write("done", "");
    verify("after a run");
    insta::with_settings!({filters => vec![
        (r" +\b\d+(\.\d+)? (ms|s)\b", " [took]"),
    ]}, {
        assert_snapshot!(sandbox.normalize(&shown), @r"
        -- not approved
        exit 3
        --- stderr
        note: no run holds a session here; these are the gates of the project
        error: this policy is not approved, so nothing was run
          hint: `ralph trust` shows what would run and asks for approval


        -- fails
        exit 1
        --- stdout
        correctness
          ✗ tests [took]  1 finding
              exit 1, no output
              full log: `$ROOT/home/.ralph/cache/logs/tests-[key].log`

        0 of 1 gate passed, 1 failed

        --- stderr
        note: no run holds a session here; these are the gates of the project


        -- after a run
        exit 0
        --- stdout
        correctness
          ✓ tests [took]

        1 of 1 gate passed

        --- stderr
        note: no run holds a session here; these are the gates of the project
        ");
    });
}

/// While ralph is off, the next step is to switch it on.
#[test]
fn a_switched_off_ralph_suggests_to_switch_it_on() {
    let sandbox = Sandbox::new();
    let next = |sandbox: &Sandbox| {
        let shown = sandbox.ralph(Vec::<&str>::new()).stdout;
        sandbox.normalize(shown.lines().find(|line| line.starts_with("next:")).unwrap_or_default())
    };
    let on = next(&sandbox);
    let switch = sandbox.ralph_home("off");
    fs::create_dir_all(switch.parent().unwrap()).unwrap();
    fs::write(&switch, "").unwrap();
    let off = next(&sandbox);
    fs::remove_file(&switch).unwrap();
    let by_variable = next(&sandbox.env("RALPH_OFF", "1"));
    assert_snapshot!([on, off, by_variable].join("\n"), @r"
    next:  ralph init
    next:  rm $ROOT/home/.ralph/off
    next:  unset RALPH_OFF
    ");
}

/// A session of which nothing is known is not held: the run would wait for stops that never come.
#[test]
fn start_refuses_a_session_without_a_trace() {
    let sandbox = Sandbox::new();
    let start = |args: &[&str]| {
        let ended = sandbox.ralph([&["start", "make it work", "--session"][..], args].concat());
        format!("{}\n{}", args.join(" "), ended.stderr)
    };
    // Without any transcript on this machine, nothing can be said about a session.
    let mut shown = start(&["before"]);
    write_transcript(&sandbox, "real");
    shown.push_str(&start(&["nosuch"]));
    shown.push_str(&start(&["real"]));
    shown.push_str(&start(&["new", "--yes"]));
    assert_eq!(sandbox.ralph(["cancel", "before"]).code, Some(0));
    shown.push_str(&start(&["before"]));
    assert_snapshot!(sandbox.normalize(&shown), @r"
    before
    nosuch
    error: no session `nosuch` is known: it has no transcript, and no run held it
      hint: in Claude Code, `/status` shows the session's id; without a message it has no transcript yet, then add `--yes`
    real
    new --yes
    before
    ");
}

/// `ralph start "goal"` holds the only session that was active here lately.
#[test]
fn start_finds_the_only_active_session() {
    let sandbox = Sandbox::new();
    let mut shown = String::new();
    let mut start = |what: &str| {
        let ended = sandbox.ralph(["start", "make it work"]);
        shown.push_str(&format!("-- {what}\n{ended}\n"));
    };
    start("no session");
    let old = write_transcript(&sandbox, "yesterday");
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_hours(24);
    fs::File::options().write(true).open(&old).unwrap().set_modified(yesterday).unwrap();
    start("only an old one");
    write_transcript(&sandbox, SESSION);
    start("one");
    start("one, which a run holds");
    write_transcript(&sandbox, "second");
    write_transcript(&sandbox, "third");
    start("several");
    let shown = shown.replace(
        "`third` (just now), `second` (just now)",
        "`second` (just now), `third` (just now)",
    );
    assert_snapshot!(sandbox.normalize(&shown), @r#"
    -- no session
    exit 1
    --- stderr
    error: no session given, and none without a run was active here in the last 30 minutes
      hint: type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run "…"`


    -- only an old one
    exit 1
    --- stderr
    error: no session given, and none without a run was active here in the last 30 minutes
      hint: type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run "…"`


    -- one
    exit 0
    --- stdout
    [run]  started     make it work
          session 5999882c-e786-462c-84d4-07d1c65b5e76
          limits  25 iterations · 8 h · $20 · stuck at the 3rd stop without progress
          note    nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit
          stop it with `ralph cancel [run]`


    -- one, which a run holds
    exit 1
    --- stderr
    error: no session given, and none without a run was active here in the last 30 minutes
      hint: type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run "…"`


    -- several
    exit 1
    --- stderr
    error: 2 sessions were active here: `second` (just now), `third` (just now)
      hint: give `--session ID`; in Claude Code, `/status` shows the session's id
    "#);
    assert!(sandbox.send_stop(SESSION, "").is_block());
}

/// No person types in a session that `ralph run` started, and it is over when the run is.
#[test]
fn the_session_of_a_driven_run_is_not_open() {
    let runner = RunnerSandbox::new("[[step]]\ntools = [{ run = \"echo goodbye > main.sh\" }]\n");
    runner.start(&["--max-iterations", "1"]);
    let ended = runner.sandbox.ralph(["start", "make it work"]);
    assert_snapshot!(ended.to_string(), @r#"
    exit 1
    --- stderr
    error: no session given, and none without a run was active here in the last 30 minutes
      hint: type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run "…"`
    "#);
}
