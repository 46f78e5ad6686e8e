//! Output of the commands that people type: `start`, `status`, `why`, `log`, help and usage errors, and the reference
//! `docs/cli.md`.

use crate::sandbox::{SESSION, Sandbox, run_command};
use insta::assert_snapshot;
use std::os::unix::ffi::OsStrExt;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"\d\d:\d\d:\d\d", "[time]");
    settings.add_filter(r"\b\d+ (ms|s)\b", "[duration]");
    settings.add_filter(r#""(took_ms|elapsed_ms)":\d+"#, r#""$1":0"#);
    settings.add_filter(r#""(state|signature|prev)":"[0-9a-f]{16,32}""#, r#""$1":"[hash]""#);
    settings
}

/// R-U2b: the output of `start` names the run, its limits, its requirements, the session, and how to cancel.
#[test]
fn start_reports_the_run_and_its_limits() {
    let sandbox = Sandbox::new();
    sandbox.write("loops/csv/feature_list.json", r#"[{"id":1}]"#);
    let mut command = sandbox.command();
    command
        .args([
            "start",
            "--session",
            SESSION,
            "--features",
            "loops/csv",
            "--checklist",
            "--max-cost-usd",
            "1.50",
        ])
        .args(PROMISE_ARGS);
    let started =
        run_command(&mut command, b"\n\nmake the parser handle nested quotes\nand more\n");
    assert_snapshot!(sandbox.normalize(&started.to_string()), @"
    exit 0
    --- stdout
    [run]  started     make the parser handle nested quotes
          session 5999882c-e786-462c-84d4-07d1c65b5e76
          limits  25 iterations · 8 h · $1.50 · stuck at the 3rd stop without progress
          list    `$ROOT/project/loops/csv`
          promise <promise>DONE</promise>
          tasks   every item of the newest task list
          note    the only item has no check, so the best result is `claimed`
          stop it with `ralph cancel [run]`
    ");
}

/// `--version` names the build and the formats on disk; `-V` is one line for scripts.
#[test]
fn the_version_names_commit_target_and_formats() {
    let sandbox = Sandbox::new();
    let shown = sandbox.ralph(["--version"]).stdout;
    let commit = regex::Regex::new(r"(?m)^(commit   )([0-9a-f]{7,64}|unknown)$").unwrap();
    let target = regex::Regex::new(r"(?m)^(target   )[a-z0-9_]+(-[a-z0-9_]+){2,3}$").unwrap();
    let shown = target.replace(&shown, "$1[target]").into_owned();
    assert_snapshot!(commit.replace(&shown, "$1[commit]"), @"
    ralph 0.1.0
    commit   [commit]
    target   [target]
    formats  run 2, session 1, approval 1, spending 1
    ");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(sandbox.ralph(["-V"]).stdout, format!("ralph {version}\n"));
    // A build in a clone knows its commit.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(env!("RALPH_COMMIT") == "unknown", !root.join(".git").exists());
}

/// R-U2b, R-L2a: a failed start prints a hint, exits with code 1 and creates no run.
#[test]
fn a_failed_start_creates_no_run() {
    let sandbox = Sandbox::new();
    sandbox.write("empty/feature_list.json", "[]");
    sandbox.write("broken/feature_list.json", "{");
    let calls: &[&[&str]] = &[
        &["--session", "a"],
        &["--goal-file", "-"],
        &["--session", "../x", "--goal-file", "-"],
        &["--session", "a", "--goal-file", "-", "--max-iterations", "0", "--max-duration", "0s"],
        &["--session", "a", "--goal-file", "-", "--max-iterations=-3"],
        &["--session", "a", "--goal-file", "-", "--max-iteration", "3"],
        &["--session", "a", "--goal-file", "-", "--max-duration", "8"],
        &["--session", "a", "--goal-file", "-", "--stuck-after", "1"],
        &["--session", "a", "--goal-file", "nowhere.md"],
        &["--session", "a", "--features", "nowhere"],
        &["--session", "a", "--features", "empty"],
        &["--session", "a", "--features", "broken"],
        &["--session", "a", "--goal-file", "-", "fix", "the", "tests"],
        &["--session", "a", "--goal-file", "-", "--completion-promise", " "],
    ];
    let mut shown = String::new();
    for args in calls {
        let refused = sandbox.ralph_with_input([&["start"], *args].concat(), b"goal");
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{args:?}: {refused}");
        shown.push_str(&format!(
            "$ ralph start {}\n{}",
            args.join(" "),
            sandbox.normalize(&refused.stderr)
        ));
    }
    assert!(!sandbox.ralph_home("").exists());
    assert_snapshot!(shown, @r#"
    $ ralph start --session a
    error: there is nothing to hold the agent to
      hint: give a goal with `--goal-file`, a list with `--features`, `--checklist` or `--completion-promise`$ ralph start --goal-file -
    error: no session given, and none without a run was active here in the last 30 minutes
      hint: type `/ralph:goal …` in the session, give `--session ID`, or start one with `ralph run "…"`$ ralph start --session ../x --goal-file -
    error: `../x` cannot be a session id
      hint: an id is 1 to 128 letters, digits, `_` and `-`$ ralph start --session a --goal-file - --max-iterations 0 --max-duration 0s
    error: a run needs a limit on iterations or on time
      hint: set `--max-iterations` or `--max-duration`; 0 means no limit$ ralph start --session a --goal-file - --max-iterations=-3
    error: `--max-iterations` cannot be `-3`
      hint: expected a whole number$ ralph start --session a --goal-file - --max-iteration 3
    error: unknown option `--max-iteration`
      hint: did you mean `--max-iterations`?$ ralph start --session a --goal-file - --max-duration 8
    error: `--max-duration` cannot be `8`
      hint: expected a duration such as `90m` or `8h`$ ralph start --session a --goal-file - --stuck-after 1
    error: `--stuck-after 1` would end the run at its first stop
      hint: use 2 or more$ ralph start --session a --goal-file nowhere.md
    error: cannot read `$ROOT/project/nowhere.md`
      caused by: No such file or directory (os error 2)
      hint: check the path$ ralph start --session a --features nowhere
    error: `nowhere` is not a directory
      hint: check the path$ ralph start --session a --features empty
    error: `$ROOT/project/empty/feature_list.json` contains no items
      hint: a features directory holds `feature_list.json` with a list of `{id, description, steps, passes}`$ ralph start --session a --features broken
    error: cannot read `$ROOT/project/broken/feature_list.json`: line 1, column 1: EOF while parsing an object
      hint: a features directory holds `feature_list.json` with a list of `{id, description, steps, passes}`$ ralph start --session a --goal-file - fix the tests
    error: unknown argument `the`
      hint: give the goal with `--goal-file FILE`, or on stdin with `--goal-file -`$ ralph start --session a --goal-file - --completion-promise  
    error: `--completion-promise` needs 1 to 200 printable characters without `<` and `>`
      hint: choose a short phrase that the agent would not write by chance
    "#);
}

#[test]
fn a_second_start_for_the_same_session_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    let again =
        sandbox.ralph_with_input(["start", "--session", SESSION, "--goal-file", "-"], b"other");
    assert_snapshot!(sandbox.normalize(&again.to_string()), @"
    exit 1
    --- stderr
    error: session `5999882c-e786-462c-84d4-07d1c65b5e76` is already held by run `[run]`
      hint: `/ralph:cancel` in its session or `ralph cancel [run]` ends it, `ralph why [run]` explains its state
    ");
}

/// R-U2a: every decision can be explained later: inputs, requirements, rule, counters.
#[test]
fn why_and_log_explain_every_decision() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    sandbox.write_state(
        &format!("{SESSION}/tasks/1.json"),
        r#"{"status":"pending","subject":"write docs"}"#,
    );
    sandbox.send_stop(SESSION, "");
    sandbox
        .send_stop(SESSION, r#","background_tasks":[{"type":"subagent","description":"review"}]"#);
    sandbox.write_state(
        &format!("{SESSION}/tasks/1.json"),
        r#"{"status":"completed","subject":"write docs"}"#,
    );
    sandbox.send_stop(SESSION, r#","last_assistant_message":"<promise>DONE</promise>""#);
    snapshot_settings().bind(|| {
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["why", &run]).stdout), @r#"
        [time]  claimed   rule `claimed`      all 2 requirements are claimed to be met after 1 iteration and [duration]; nothing measured it   not charged · [duration]
                  ✓ promise, tasks
        [time]  let go    rule `waiting`      1 background task pending: subagent "review"   not charged · [duration]
        [time]  held      rule `block`        2 not met   iteration 1 · [duration]
                  ✗ promise              the last message does not give the promise
                  ✗ tasks                1 of 1 task is open
                    write docs
        next: review it before you rely on it; `ralph gate detect` proposes gates that could measure it
        "#);
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["why", SESSION, "--last", "1", "--json"]).stdout), @r#"{"v":1,"name":"[run]","seq":3,"at":"[time]","kind":"ended","stop":2,"iteration":1,"text":"claimed: all 2 requirements are claimed to be met after 1 iteration and [duration]; nothing measured it","rule":"claimed","reason":null,"gates_ms":null,"cost_usd":null,"checkpoint":null,"met_count":2,"requirements":2,"outcome":"claimed","because":"all 2 requirements are claimed to be met after 1 iteration and [duration]; nothing measured it","charged":false,"iteration_before":1,"iteration_after":1,"unmet":0,"unknown":0,"pending":0,"open":[],"met":["promise","tasks"],"took_ms":0,"state":null,"tampering":null}"#);
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["log"]).stdout), @r#"
        [time]  started    make it work (25 iterations · 8 h · $20 · stuck at the 3rd stop without progress)
        [time]  held       2 not met (rule `block`)
        [time]  let go     1 background task pending: subagent "review" (rule `waiting`)
        [time]  claimed    all 2 requirements are claimed to be met after 1 iteration and [duration]; nothing measured it (rule `claimed`)
        "#);
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["status"]).stdout), @"[run]  claimed       make it work  (just now, 1 iteration)");
    });
}

#[test]
fn status_shows_runs_and_faults() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.ralph(["status"]).stdout, @r#"no runs; `/ralph:goal …` in a session, or `ralph run "…"`, starts one"#);
    sandbox.start_run(PROMISE_ARGS);
    sandbox.run_hook("garbage");
    sandbox.send_stop(SESSION, "");
    snapshot_settings().bind(|| {
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["status"]).stdout), @r"
        [run]  working       make it work
              claude 5999882c · iteration 1 of 25 · [duration] of 8 h
              ✗ promise

        faults in ralph itself, newest first:
          ? [time]  input fault: the event on stdin could not be read: it is not a valid JSON event (line 1, column 1)
          `ralph status --clear-trouble` clears these
        ");
        assert_snapshot!(sandbox.normalize(&sandbox.ralph(["status", "--json"]).stdout), @r#"{"v":1,"off":null,"runs":[{"run":"[run]","status":"working","title":"make it work","project":"$ROOT/project","project_name":"project","branch":null,"started_at":"[time]","last_seen_at":"[time]","iteration":1,"max_iterations":25,"elapsed_ms":0,"max_duration_ms":28800000,"spent_usd":null,"cost_basis":"unknown","max_cost_usd":20.0,"met_count":0,"requirements":1,"open_names":["promise"],"trend":[1],"context_share":null,"sessions":1,"note":null,"until":null,"unprotected":null,"seq":1,"last_stop":"held","session":"5999882c-e786-462c-84d4-07d1c65b5e76","context_tokens":null,"trouble":null,"tampering":null,"checks_at_base":null,"unmet":1,"unknown":0,"pending":0,"open":[{"name":"promise","stage":"correctness","standing":"unmet","note":"the last message does not give the promise","findings":0,"signature":"[hash]"}]}],"held":[],"unreadable":[],"faults":[{"at":"[time]","kind":"input","what":"the event on stdin could not be read: it is not a valid JSON event (line 1, column 1)","run":null,"session":null}]}"#);
    });
}

#[test]
fn unknown_commands_and_options_get_a_suggestion() {
    let sandbox = Sandbox::new();
    let mut shown = String::new();
    for args in [
        &["statuss"][..],
        &["status", "--jsno"],
        &["why", "nope"],
        &["log"],
        &["cancel"],
        &["gate", "lits"],
        &["status", "--watch"],
        &["start", "--max-iterations", "many"],
        &["checkpoint", "restore"],
        &["gate", "explain"],
        &["feature", "claim"],
        &["orchestrator", "set"],
        &["run", "do", "it"],
        &["stop"],
        &["run", "it", "--max-cost", "abc"],
    ] {
        let refused = sandbox.ralph(args);
        assert_eq!(refused.code, Some(1), "{args:?}: {refused}");
        let stderr = sandbox.normalize(&refused.stderr);
        shown.push_str(&format!("$ ralph {}\n{}\n", args.join(" "), stderr.trim_end()));
    }
    assert_snapshot!(shown, @r#"
    $ ralph statuss
    error: unknown command `statuss`
      hint: did you mean `status`?
    $ ralph status --jsno
    error: unknown option `--jsno`
      hint: did you mean `--json`?
    $ ralph why nope
    error: `nope` is neither a run nor a session that ralph knows
      hint: `ralph status --all` lists runs and sessions
    $ ralph log
    error: there is no run yet
      hint: `ralph run --help` shows how to start one
    $ ralph cancel
    error: there is no run in `$ROOT/project`
      hint: `ralph run "…"` starts one, `ralph start "…"` holds an open session
    $ ralph gate lits
    error: unknown command `lits`
      hint: did you mean `list`?
    $ ralph status --watch
    error: `--watch` needs a terminal
      hint: `ralph status` shows the state once, `ralph log --follow` prints what happens
    $ ralph start --max-iterations many
    error: `--max-iterations` cannot be `many`
      hint: expected a whole number
    $ ralph checkpoint restore
    error: `RUN|SESSION` is missing
      hint: run `ralph checkpoint restore --help`
    $ ralph gate explain
    error: `NAME` is missing
      hint: run `ralph gate explain --help`
    $ ralph feature claim
    error: `ID` is missing
      hint: run `ralph feature claim --help`
    $ ralph orchestrator set
    error: `CONDITION` is missing
      hint: run `ralph orchestrator set --help`
    $ ralph run do it
    error: unknown argument `it`
      hint: quote the goal, as in `ralph run "fix the tests"`
    $ ralph stop
    error: unknown command `stop`
      hint: `ralph cancel RUN` ends a run, `ralph pause RUN` suspends it
    $ ralph run it --max-cost abc
    error: `--max-cost` cannot be `abc`
      hint: expected an amount such as `20` or `1.50`
    "#);
    let invalid = std::ffi::OsStr::from_bytes(b"\xff");
    let refused = sandbox.ralph(["limits".as_ref(), invalid]);
    assert_snapshot!(refused, @"
    exit 1
    --- stderr
    error: an argument is not valid UTF-8
      hint: run `ralph limits --help`
    ");
}

/// A hint names the help of the innermost command, or an example with all that is missing.
#[test]
fn a_usage_error_names_the_help_that_helps() {
    let sandbox = Sandbox::new();
    let mut out = String::new();
    for args in [
        &["judge", "bench", "--judge", "a", "--kind", "plan"][..],
        &["memory", "forget", "x", "--yes"],
        &["memory", "forget", "--everything"],
        &["statsu"],
        &["runs"],
        &["gates"],
        &["trust", "--yes"],
        &["approve", "implement"],
        &["serve", "--port", "abc"],
        &["serve", "--bind", "0.0.0.300"],
        &["memory", "add", ""],
        &["waive", "review"],
        &["verify-report", "none.json"],
    ] {
        out.push_str(&format!("{}\n", sandbox.ralph(args).stderr));
    }
    assert_snapshot!(sandbox.normalize(&out), @r#"
    error: `--judge` and `--kind` cannot be used together
      hint: run `ralph judge bench --help`

    error: no lesson or note with the id `x`
      hint: `ralph memory list` shows the ids

    error: unknown option `--everything`
      hint: run `ralph memory forget --help`

    error: unknown command `statsu`
      hint: did you mean `status`?

    error: unknown command `runs`
      hint: `ralph list runs` lists the runs

    error: unknown command `gates`
      hint: `ralph list gates` lists the gates

    error: unknown option `--yes`
      hint: `ralph trust --hash HASH` approves this hash without asking; `ralph trust` shows it

    error: `implement` is neither a run nor a session that ralph knows
      hint: give the run first: `ralph approve RUN implement`

    error: `--port` cannot be `abc`
      hint: expected a number from 0 to 65535

    error: `--bind` cannot be `0.0.0.300`
      hint: expected an IP address, such as `0.0.0.0` or `::1`

    error: the learning is empty
      hint: give the text: `ralph memory add "…"`

    error: `--why` and `--until` are missing
      hint: say until when and why: `ralph waive tests --until 2h --why "the service is down"`

    error: cannot read the statement
      caused by: cannot read `none.json`
      caused by: No such file or directory (os error 2)
      hint: `ralph report RUN --attest --out FILE` writes one
    "#);
}

#[test]
fn log_follow_ends_with_the_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    // With a timeout, a log that does not end fails the test instead of hanging it.
    let mut follow = std::process::Command::new("timeout");
    follow.arg("60").arg(env!("CARGO_BIN_EXE_ralph")).args(["log", &run, "--follow", "--json"]);
    follow.env_clear().env("HOME", sandbox.home()).env("PATH", "/usr/bin:/bin");
    let following = crate::sandbox::spawn_with_input(&mut follow, b"");
    sandbox.send_stop(SESSION, "");
    sandbox.send_stop(SESSION, r#","last_assistant_message":"<promise>DONE</promise>""#);
    let shown = String::from_utf8(following.wait_with_output().unwrap().stdout).unwrap();
    let kinds: Vec<_> = shown
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|entry| {
            (
                entry["seq"].as_u64().unwrap(),
                entry["change"].as_object().unwrap().keys().next().unwrap().clone(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [(0, "started".to_string()), (1, "decided".to_string()), (2, "decided".to_string())]
    );
}

#[test]
fn help_completions_and_manual_are_available() {
    let sandbox = Sandbox::new();
    for command in [
        "start",
        "run",
        "status",
        "why",
        "log",
        "pause",
        "resume",
        "cancel",
        "pipeline",
        "config",
        "explain",
        "trust",
        "completions",
        "man",
    ] {
        let help = sandbox.ralph([command, "--help"]);
        assert_eq!(help.code, Some(0), "{help}");
        assert!(help.stdout.contains("Usage: ralph"), "{help}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.ralph(["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains("cancel"), "{shell}");
    }
    let page = sandbox.ralph(["man"]);
    assert!(page.code == Some(0) && page.stdout.contains(".TH ralph 1"), "{page}");
    let page = sandbox.ralph(["man", "start"]);
    assert!(page.code == Some(0) && page.stdout.contains(".TH ralph-start 1"), "{page}");
    assert_eq!(sandbox.ralph(["man", "nope"]).code, Some(1));
}

/// The state is drawn until Ctrl-C, and stays on the terminal afterwards.
#[test]
fn status_is_watched_until_ctrl_c() {
    use std::io::{Read, Write};
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let mut command = sandbox.tool_command("/usr/bin/script");
    let line = format!("exec {} status --watch", env!("CARGO_BIN_EXE_ralph"));
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", "xterm");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut seen, mut block) = (String::new(), [0; 4096]);
    let mut is_interrupted = false;
    loop {
        let count = screen.read(&mut block).unwrap_or(0);
        if count == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&block[..count]));
        if !is_interrupted && seen.contains(&run) {
            is_interrupted = true;
            keyboard.write_all(b"\x03").unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{seen:?}");
    let (drawn, after) = seen.split_once("\x1b[?1049l").unwrap();
    assert!(drawn.starts_with("\x1b[?1049h\x1b[H\x1b[2J") && after.contains(&run), "{seen:?}");
}

#[test]
fn colour_is_only_for_terminals() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    for (name, value, coloured) in
        [("X", "", false), ("CLICOLOR_FORCE", "1", true), ("NO_COLOR", "1", false)]
    {
        let mut command = sandbox.command();
        let shown = run_command(command.arg("status").env(name, value), b"");
        assert_eq!(shown.stdout.contains('\u{1b}'), coloured, "{name}: {shown}");
    }
    // The option has precedence over the environment, wherever it stands.
    let calls: [(&[&str], &str, bool); 5] = [
        (&["--color", "always", "status"], "NO_COLOR", true),
        (&["status", "--color=always"], "X", true),
        (&["--color", "never", "status"], "CLICOLOR_FORCE", false),
        (&["--color", "auto", "status"], "CLICOLOR_FORCE", true),
        (&["--color", "auto", "status"], "X", false),
    ];
    for (args, name, coloured) in calls {
        let shown = run_command(sandbox.command().args(args).env(name, "1"), b"");
        assert_eq!(shown.stdout.contains('\u{1b}'), coloured, "{args:?} {name}: {shown}");
    }
    let wrong = sandbox.ralph(["--color", "always", "statuss"]);
    assert!(wrong.stderr.contains('\u{1b}') && wrong.stderr.contains("did you mean"), "{wrong}");
}

/// Runs are listed with their project if there are several; for one project it would only be noise.
#[test]
fn status_names_the_projects_if_there_are_several() {
    let sandbox = Sandbox::new();
    sandbox.start_run(PROMISE_ARGS);
    assert!(!sandbox.ralph(["status"]).stdout.contains(" in `"));
    let place = sandbox.root().join("elsewhere");
    std::fs::create_dir_all(&place).unwrap();
    let place = place.display().to_string();
    sandbox.start_run_for("other", [&PROMISE_ARGS[..], &["--project", &place]].concat());
    let shown = sandbox.normalize(&sandbox.ralph(["status", "--all"]).stdout);
    let named: Vec<_> = shown.lines().filter(|line| line.contains(" in `")).collect();
    assert_eq!(named, ["      in `$ROOT/elsewhere`", "      in `$ROOT/project`"]);
}

/// The commands that a help lists: below `Commands:`, or in the groups of the whole program.
fn listed_commands(help: &str) -> Vec<&str> {
    let mut is_listing = false;
    let mut names = Vec::new();
    for line in help.lines().take_while(|line| !["Options:", "Arguments:"].contains(line)) {
        let is_heading = !line.starts_with(' ') && line.ends_with(':');
        is_listing = is_heading || is_listing && line.starts_with("  ");
        names.extend(line.split_whitespace().next().filter(|_| is_listing && !is_heading));
    }
    names
}

/// Adds the help of a command and of every subcommand that it lists, so that the reference lacks none.
fn add_reference(sandbox: &Sandbox, command: &str, page: &mut String) {
    let help = sandbox.ralph(command.split_whitespace().skip(1).chain(["--help"]));
    assert_eq!(help.code, Some(0), "{help}");
    page.push_str(&format!("\n## `{command}`\n\n```text\n{}```\n", help.stdout));
    for name in listed_commands(&help.stdout) {
        add_reference(sandbox, &format!("{command} {name}"), page);
    }
}

/// The reference is generated from `--help`. `RALPH_GENERATE=1 cargo test` rewrites it.
#[test]
fn the_command_reference_is_current() {
    let sandbox = Sandbox::new();
    let mut page = String::from(
        "# Commands\n\nWritten by `RALPH_GENERATE=1 cargo test -p ralph reference`. Do not edit.\n",
    );
    add_reference(&sandbox, "ralph", &mut page);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    if std::env::var_os("RALPH_GENERATE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap_or_default(),
        page,
        "docs/cli.md is out of date"
    );
}
