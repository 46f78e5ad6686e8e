//! `ralph init` and `ralph uninstall`: their output, and the files before, between and after.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, read_files, run_command, write_file};
use insta::assert_snapshot;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LOCAL_SETTINGS: &str = ".claude/settings.local.json";
const SHARED_SETTINGS: &str = ".claude/settings.json";

/// A project for which one gate is proposed, with ralph on `PATH` at a stable path.
fn project_with_npm() -> Sandbox {
    let sandbox = install_tools(Sandbox::new());
    sandbox.commit();
    sandbox
}

fn install_tools(sandbox: Sandbox) -> Sandbox {
    let bin = sandbox.root().join("bin");
    let npm = write_file(&bin.join("npm"), "#!/bin/sh\ntouch was-run\n");
    fs::set_permissions(npm, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_ralph"), bin.join("ralph")).unwrap();
    sandbox.write("package.json", r#"{"scripts": {"test": "./all.sh"}}"#);
    sandbox.write("node_modules/.keep", "");
    sandbox.write(".gitignore", "node_modules\n");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    sandbox.env("PATH", &path)
}

/// Runs a command in a terminal and answers its question. `before_answer` is called when the question appears.
fn answer_on_terminal(
    sandbox: &Sandbox,
    line: &str,
    answer: &str,
    before_answer: impl FnOnce(),
) -> CommandOutcome {
    let mut command = Command::new("script");
    let line = format!("{}/bin/ralph {line}", sandbox.root().display());
    command.args(["--quiet", "--echo", "never", "--return", "--command", &line, "/dev/null"]);
    command
        .env_clear()
        .env("HOME", sandbox.home())
        .env("PATH", format!("{}/bin:/usr/bin:/bin", sandbox.root().display()))
        .env("NO_COLOR", "1")
        .current_dir(sandbox.project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    let mut byte = [0];
    let is_asked =
        |output: &[u8]| [&b"[y/N] "[..], b"[N]o: "].iter().any(|end| output.ends_with(end));
    while !is_asked(&output) && stdout.read(&mut byte).unwrap() == 1 {
        output.push(byte[0]);
    }
    before_answer();
    child.stdin.take().unwrap().write_all(answer.as_bytes()).ok();
    stdout.read_to_end(&mut output).unwrap();
    let mut ended: CommandOutcome = child.wait_with_output().unwrap().into();
    ended.stdout = String::from_utf8(output).unwrap().replace('\r', "");
    ended
}

/// Drops the note that ralph is in a temporary directory, which applies only to sandboxes.
fn normalize_output(sandbox: &Sandbox, shown: &impl ToString) -> String {
    let shown = sandbox.normalize(&shown.to_string());
    let is_doubt = |line: &str| line.contains("may disappear");
    let lines: Vec<_> = shown.lines().filter(|line| !is_doubt(line)).collect();
    lines.join("\n")
}

/// Paths and contents of the project's files, and whether `.claude` exists.
fn project_tree(sandbox: &Sandbox) -> Vec<(PathBuf, Vec<u8>)> {
    let is_git = |path: &Path| path.starts_with(sandbox.project().join(".git"));
    let mut found = read_files(sandbox.project());
    found.retain(|(path, _)| !is_git(path));
    found.push((
        sandbox.project().join(".claude"),
        vec![u8::from(sandbox.project().join(".claude").exists())],
    ));
    found
}

fn ralph_succeeds(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.ralph(args);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{args:?}: {ended}");
    ended.stdout
}

fn read_text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// R-D2c, R-S3a: a summary and every command to approve are shown before the question, and every change on request.
#[test]
fn every_change_is_shown_and_confirmed_once() {
    let sandbox = project_with_npm();
    let before = project_tree(&sandbox);
    let no = answer_on_terminal(&sandbox, "init", "d\nn\n", || ());
    assert_snapshot!(normalize_output(&sandbox, &no));
    assert_eq!(project_tree(&sandbox), before);
    assert!(!sandbox.ralph_home("install").exists());

    let yes = answer_on_terminal(&sandbox, "init", "y\n", || ());
    let shown = normalize_output(&sandbox, &yes);
    let (_, after) = shown.split_once("[N]o: ").unwrap();
    assert_snapshot!(after, @r"
    note: git does not ignore `.claude/settings.local.json`, which is personal; paste `echo /.claude/settings.local.json >> $ROOT/project/.git/info/exclude` to change that
    created `$ROOT/project/.claude/settings.local.json`
    created `$ROOT/project/ralph.toml`
    created 18 commands
    approved; any change of a gate needs a new approval
    next: start `claude` in `$ROOT/project` and work, or type `/ralph:goal …`; `ralph uninstall` removes all of it
    ");
    assert_eq!(sandbox.ralph(["trust"]).code, Some(0), "the gates are approved");
    assert!(!sandbox.project().join("was-run").exists(), "no tool was run");

    assert_snapshot!(normalize_output(&sandbox, &sandbox.ralph(["init"])), @r#"
    exit 0
    --- stdout
    $ROOT/project

    already set up; gates: they hold every session (`[session] gates = "every"`)
    "#);
    let out = answer_on_terminal(&sandbox, "uninstall", "y\n", || ());
    assert_snapshot!(normalize_output(&sandbox, &out), @r"
    exit 0
    --- stdout
    $ROOT/project

    remove commands in `$ROOT/home/.claude/commands`: /ralph:approve /ralph:ask /ralph:cancel /ralph:goal /ralph:limits /ralph:loop /ralph:off /ralph:on /ralph:orchestrator /ralph:pause /ralph:plan /ralph:resume /ralph:status /ralph:tell /ralph:verify /ralph:waive /ralph:why /ralph-loop

    remove `$ROOT/project/.claude/settings.local.json`, which `ralph init` created

    remove `$ROOT/project/ralph.toml`, which `ralph init` created

    remove this? [y/N] removed `$ROOT/project/.claude/settings.local.json`
    removed `$ROOT/project/ralph.toml`
    removed 18 commands
    its gates are no longer approved
    no run of this project is left; your settings and approvals stay in `$ROOT/home/.ralph`
    ");
    assert_eq!(project_tree(&sandbox), before);
    assert_eq!(sandbox.ralph(["trust", "--json"]).code, Some(0), "nothing is left to approve");
    assert_snapshot!(normalize_output(&sandbox, &sandbox.ralph(["uninstall"])), @"
    exit 0
    --- stdout
    $ROOT/project
    ralph is not in the settings of this project
    no run of this project is left; your settings and approvals stay in `$ROOT/home/.ralph`
    ");
}

/// A policy of `ralph gate add` does not choose the sessions. A later `init` offers the choice, keeps what a person wrote,
/// and `uninstall` restores it.
#[test]
fn a_later_init_offers_the_choice_of_sessions() {
    let sandbox = project_with_npm();
    ralph_succeeds(&sandbox, &["gate", "add", "npm test", "--yes"]);
    let policy = sandbox.project().join("ralph.toml");
    fs::write(&policy, format!("{}# mine", read_text(&policy))).unwrap();
    sandbox.approve_policy();
    let before = read_text(&policy);
    let scripted = ralph_succeeds(&sandbox, &["init", "--yes"]);
    assert!(scripted.contains("note: `[session] gates` is not set"), "{scripted}");
    assert_eq!(read_text(&policy), before, "a script has not seen the question");

    let chosen = answer_on_terminal(&sandbox, "init", "x\ng\n", || ());
    assert_snapshot!(normalize_output(&sandbox, &chosen), @r"
    exit 0
    --- stdout
    $ROOT/project

    edit    ralph.toml                      gates for every session, and for goals

    gates:
      npm-test
        npm test
        → $ROOT/bin/npm

    sealed in a run, so that its agent cannot change them:
      `package.json: scripts.test` (gate npm-test runs it)


    write this and approve these gates? [y]es · [g]oals only · [d]iff · [N]o: `x` is not an answer; type y, g, d or n
    write this and approve these gates? [y]es · [g]oals only · [d]iff · [N]o: edited  `$ROOT/project/ralph.toml`
    approved; any change of a gate needs a new approval
    next: start `claude` in `$ROOT/project` and type `/ralph:goal …`; `ralph uninstall` removes all of it
    ");
    assert_eq!(sandbox.ralph(["trust"]).code, Some(0), "the policy is approved");
    let after = read_text(&policy);
    assert_snapshot!(after.strip_prefix(&before).unwrap(), @r#"


    # `every`: no session stops with work that makes a gate worse. `goal`: the gates hold only sessions with a goal.
    [session]
    gates = "goal"
    "#);
    let again = sandbox.ralph(["init"]);
    assert_snapshot!(normalize_output(&sandbox, &again), @r#"
    exit 0
    --- stdout
    $ROOT/project

    already set up; gates: they hold only sessions with a goal (`[session] gates = "goal"`)
    "#);
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(read_text(&policy), before);
    ralph_succeeds(&sandbox, &["init", "--yes", "--session-gates", "every"]);
    assert!(read_text(&policy).ends_with("gates = \"every\"\n"));
}

/// A terminal that reports its width gets whole words, and no text is lost.
#[test]
fn a_narrow_terminal_breaks_no_words() {
    let sandbox = project_with_npm();
    let ralph = sandbox.root().join("bin/ralph");
    let mut piped = Command::new(&ralph);
    piped.args(["init", "--dry-run"]);
    let mut sized = Command::new("script");
    let line = format!("stty cols 60; {} init --dry-run", ralph.display());
    sized.args(["--quiet", "--echo", "never", "--return", "--command", &line, "/dev/null"]);
    let [piped, shown] = [piped, sized].map(|mut command| {
        command
            .env_clear()
            .env("HOME", sandbox.home())
            .env("PATH", format!("{}/bin:/usr/bin:/bin", sandbox.root().display()))
            .env("NO_COLOR", "1")
            .current_dir(sandbox.project());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    });
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(words(&shown), words(&piped));
    let too_wide: Vec<_> = shown
        .lines()
        .filter(|line| line.trim_end().chars().count() > 60 && line.trim().contains(' '))
        .collect();
    assert_eq!(too_wide, [""; 0]);
    assert!(piped.lines().any(|line| line.chars().count() > 60), "{piped}");
}

/// Neither the root nor a home directory is a project.
#[test]
fn a_directory_that_is_no_project_is_refused() {
    let sandbox = project_with_npm();
    let home = sandbox.home().to_str().unwrap().to_string();
    let refusals = ["/", &home].map(|directory| {
        let refused = sandbox.ralph(["init", "--yes", "--project", directory]);
        sandbox.normalize(&refused.to_string())
    });
    assert_snapshot!(refusals.join("\n"), @r"
    exit 1
    --- stderr
    error: `/` is not a project
      hint: change to the directory of a project; `ralph init --scope user` installs the hooks for all of them

    exit 1
    --- stderr
    error: `$ROOT/home` is not a project
      hint: change to the directory of a project; `ralph init --scope user` installs the hooks for all of them
    ");
    ralph_succeeds(&sandbox, &["init", "--yes", "--scope", "user", "--project", &home]);
}

/// R-D2c: `uninstall` restores every file byte for byte, for every scope and option.
#[test]
fn uninstall_restores_every_file() {
    let odd = "\u{feff}{\r\n\t// mine\r\n\t\"hooks\": {\"Stop\": [ ]},\r\n\t\"x\": 1,\r\n}";
    let options = [&[][..], &["--minimal"], &["--warm", "--statusline", "--replace"]];
    let mut options = options.into_iter().cycle();
    let scopes = [
        ("local", LOCAL_SETTINGS),
        ("project", SHARED_SETTINGS),
        ("user", "../home/.claude/settings.json"),
    ];
    for (scope, path) in scopes {
        for before in [None, Some(""), Some("{}"), Some(odd), Some("{\"model\":\"opus\"}")] {
            let sandbox = install_tools(Sandbox::without_git("project"));
            let settings = sandbox.project().join(path);
            if let Some(before) = before {
                write_file(&settings, before);
                fs::set_permissions(&settings, fs::Permissions::from_mode(0o640)).unwrap();
            }
            let both = || (project_tree(&sandbox), read_files(&sandbox.home().join(".claude")));
            let at_first = both();
            let init = [&["init", "--yes", "--scope", scope], options.next().unwrap()].concat();
            ralph_succeeds(&sandbox, &init);
            let between = both();
            assert_ne!(between, at_first);
            ralph_succeeds(&sandbox, &init);
            assert_eq!(both(), between, "a second init changes nothing");
            ralph_succeeds(&sandbox, &["uninstall", "--yes", "--scope", scope]);
            assert_eq!(both(), at_first, "{before:?} {init:?}");
            let mode = fs::metadata(&settings).ok().map(|found| found.permissions().mode() & 0o777);
            assert_eq!(mode, before.map(|_| 0o640));
            ralph_succeeds(&sandbox, &["uninstall", "--yes", "--scope", scope]);
            assert_eq!(
                read_files(&sandbox.ralph_home("install")).len(),
                1,
                "only the lock file is left"
            );
        }
    }
}

/// R-D2c: if a file was changed since, only ralph's entries are removed from it. A changed policy is kept.
#[test]
fn uninstall_keeps_later_changes() {
    let sandbox = project_with_npm();
    sandbox.write(LOCAL_SETTINGS, "{\n  \"model\": \"opus\" // mine\n}\n");
    ralph_succeeds(&sandbox, &["init", "--yes"]);
    let settings =
        read_text(sandbox.project().join(LOCAL_SETTINGS)).replace("\"opus\"", "\"haiku\"");
    sandbox.write(LOCAL_SETTINGS, settings);
    let policy = read_text(sandbox.project().join("ralph.toml")) + "\n# mine\n";
    sandbox.write("ralph.toml", &policy);
    assert_snapshot!(normalize_output(&sandbox, &sandbox.ralph(["uninstall", "--yes"])), @r#"
    exit 0
    --- stdout
    $ROOT/project

    remove commands in `$ROOT/home/.claude/commands`: /ralph:approve /ralph:ask /ralph:cancel /ralph:goal /ralph:limits /ralph:loop /ralph:off /ralph:on /ralph:orchestrator /ralph:pause /ralph:plan /ralph:resume /ralph:status /ralph:tell /ralph:verify /ralph:waive /ralph:why /ralph-loop

    --- $ROOT/project/.claude/settings.local.json
    +++ $ROOT/project/.claude/settings.local.json
    @@ -1,21 +1,3 @@
     {
    -  "model": "haiku", // mine
    -  "hooks": {
    -    "Stop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 600s", "timeout": 630, "statusMessage": "ralph is checking the work" }] }],
    -    "SubagentStop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 600s", "timeout": 630, "statusMessage": "ralph is checking the work" }] }],
    -    "TaskCompleted": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 600s", "timeout": 630, "statusMessage": "ralph is checking the work" }] }],
    -    "TeammateIdle": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 600s", "timeout": 630, "statusMessage": "ralph is checking the work" }] }],
    -    "TaskCreated": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    -    "StopFailure": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 10 }] }],
    -    "SessionStart": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    -    "SessionEnd": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 5 }] }],
    -    "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }],
    -    "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }],
    -    "PreToolUse": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 10 }] }],
    -    "PreCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    -    "PostCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }]
    -  },
    -  "env": {
    -    "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
    -  }
    +  "model": "haiku" // mine
     }

    note: `ralph.toml` stays: it was edited since

    edited  `$ROOT/project/.claude/settings.local.json`
    removed 18 commands
    these stay:
      policy                                  1     709 B  `rm $ROOT/project/ralph.toml`
    your settings and approvals stay in `$ROOT/home/.ralph`
    "#);
    assert_eq!(
        read_text(sandbox.project().join(LOCAL_SETTINGS)),
        "{\n  \"model\": \"haiku\" // mine\n}\n"
    );
    assert_eq!(read_text(sandbox.project().join("ralph.toml")), policy);

    // The same if the install record is lost.
    ralph_succeeds(&sandbox, &["init", "--yes"]);
    fs::remove_dir_all(sandbox.ralph_home("install")).unwrap();
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    let left = read_text(sandbox.project().join(LOCAL_SETTINGS));
    assert_snapshot!(left, @r#"
    {
      "model": "haiku", // mine
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
}

/// With another option or gate, `init` updates its entries, and `uninstall` still restores the original files.
#[test]
fn a_repeated_init_updates_its_entries() {
    let sandbox = project_with_npm();
    let before = project_tree(&sandbox);
    ralph_succeeds(&sandbox, &["init", "--yes", "--minimal", "--no-gates", "--statusline"]);
    let changed = |shown: &str| {
        let lines = shown.lines().filter(|line| line.starts_with(['+', '-']));
        sandbox.normalize(&lines.collect::<Vec<_>>().join("\n"))
    };
    let more = ralph_succeeds(&sandbox, &["init", "--dry-run", "--warm", "--no-gates"]);
    assert_snapshot!(changed(&more), @r#"
    --- $ROOT/project/.claude/settings.local.json
    +++ $ROOT/project/.claude/settings.local.json
    +    "TaskCompleted": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    +    "TeammateIdle": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    +    "TaskCreated": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    +    "SessionEnd": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 5 }] }],
    -    "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }]
    +    "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }],
    +    "PreToolUse": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 10 }] }],
    +    "PreCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    +    "PostCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    +    "PostToolUse": [{ "matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30, "async": true }] }]
    "#);
    ralph_succeeds(&sandbox, &["init", "--yes", "--warm", "--no-gates"]);
    sandbox.write("ralph.toml", "[[gate]]\nname = \"slow\"\nrun = [\"true\"]\ntimeout = \"20m\"\n");
    let slower = ralph_succeeds(&sandbox, &["init", "--dry-run", "--minimal"]);
    assert_snapshot!(changed(&slower), @r#"
    --- $ROOT/project/.claude/settings.local.json
    +++ $ROOT/project/.claude/settings.local.json
    -    "Stop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    -    "SubagentStop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    -    "TaskCompleted": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    -    "TeammateIdle": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
    -    "TaskCreated": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    +    "Stop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 1200s", "timeout": 1230, "statusMessage": "ralph is checking the work" }] }],
    +    "SubagentStop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude --deadline 1200s", "timeout": 1230, "statusMessage": "ralph is checking the work" }] }],
    -    "SessionEnd": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 5 }] }],
    -    "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }],
    -    "PreToolUse": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 10 }] }],
    -    "PreCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    -    "PostCompact": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
    -    "PostToolUse": [{ "matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30, "async": true }] }]
    +    "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }]
    "#);
    ralph_succeeds(&sandbox, &["init", "--yes", "--minimal"]);
    fs::remove_file(sandbox.project().join("ralph.toml")).unwrap();
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(project_tree(&sandbox), before);
}

/// Settings of a version that registered no status messages are updated, and removed like any other. `ralph doctor` has
/// no objection to them.
#[test]
fn settings_without_status_messages_are_updated_and_removed() {
    const MESSAGE: &str = r#", "statusMessage": "ralph is checking the work""#;
    let sandbox = project_with_npm();
    let before = project_tree(&sandbox);
    let init = ["init", "--yes", "--no-gates"];
    ralph_succeeds(&sandbox, &init);
    let current = read_text(sandbox.project().join(LOCAL_SETTINGS));
    let events = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("statusMessage"));
        lines.filter_map(|line| line.split('"').nth(1)).collect::<Vec<_>>().join(" ")
    };
    assert_snapshot!(events(&current), @"Stop SubagentStop TaskCompleted TeammateIdle");
    let old = current.replace(MESSAGE, "");
    assert!(!old.contains("statusMessage"));
    let checks = |sandbox: &Sandbox| {
        let found = sandbox.ralph(["doctor", "--json"]).stdout;
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let checks = found["checks"].as_array().unwrap().iter();
        let checks = checks.filter(|check| check["name"].as_str().unwrap().contains("hook"));
        checks.map(|check| format!("{} {}", check["name"], check["status"])).collect::<Vec<_>>()
    };
    let healthy = checks(&sandbox);
    sandbox.write(LOCAL_SETTINGS, &old);
    assert_eq!(checks(&sandbox), healthy);
    ralph_succeeds(&sandbox, &init);
    assert_eq!(read_text(sandbox.project().join(LOCAL_SETTINGS)), current);
    sandbox.write(LOCAL_SETTINGS, &old);
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(project_tree(&sandbox), before);
}

/// R-H3b, R-H2b: the registered commands run as the host runs them, wherever home and project are.
#[test]
fn the_registered_command_runs_in_an_empty_environment() {
    let sandbox = Sandbox::without_git("my 'pröject' $HOME");
    let bin = sandbox.root().join("Jürgen's \"bin\" $x");
    fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_ralph"), bin.join("ralph")).unwrap();
    let home = sandbox.root().join("höme of a user");
    fs::create_dir_all(&home).unwrap();
    let sandbox = sandbox.env("PATH", &format!("{}:/usr/bin:/bin", bin.display()));
    let sandbox = sandbox.env("HOME", &home.display().to_string());
    ralph_succeeds(&sandbox, &["init", "--yes", "--no-gates", "--warm"]);
    sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    let settings: serde_json::Value =
        serde_json::from_str(&read_text(sandbox.project().join(LOCAL_SETTINGS))).unwrap();
    let hooks = settings["hooks"].as_object().unwrap();
    assert_eq!(hooks.len(), 14);
    for (event, groups) in hooks {
        let command = groups[0]["hooks"][0]["command"].as_str().unwrap();
        let mut host = Command::new("/bin/sh");
        host.env_clear().env("HOME", &home).args(["-c", command]).current_dir("/");
        let input = sandbox.stop_event(SESSION, "").replace("\"Stop\"", &format!("\"{event}\""));
        let answer = run_command(&mut host, input.as_bytes());
        match &**event {
            "Stop" => assert!(answer.is_block(), "{command}: {answer}"),
            _ => assert_eq!(answer.code, Some(0), "{event}: {command}: {answer}"),
        }
    }
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(read_files(sandbox.project()), []);
}

/// R-D2c: settings that cannot be edited safely are refused with the location of the problem, and nothing is written.
#[test]
fn unusable_settings_are_refused_and_not_changed() {
    let mut shown = String::new();
    for text in [
        &b"{\n  \"hooks\": {\n"[..],
        b"[1]",
        b"{\"hooks\": []}",
        b"{\"hooks\": {\"Stop\": \"x\"}}",
        b"{\"env\": []}",
        b"{\"a\": \"\xfc\"}",
    ] {
        let sandbox = project_with_npm();
        sandbox.write(LOCAL_SETTINGS, text);
        let before = project_tree(&sandbox);
        let refused = sandbox.ralph(["init", "--yes"]);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{refused}");
        assert_eq!((project_tree(&sandbox), sandbox.ralph_home("").exists()), (before, false));
        shown.push_str(&format!("{}\n", normalize_output(&sandbox, &refused.stderr)));
    }
    let sandbox = project_with_npm();
    let settings = sandbox.write(LOCAL_SETTINGS, "{}");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o444)).unwrap();
    shown.push_str(&format!(
        "{}\n",
        normalize_output(&sandbox, &sandbox.ralph(["init", "--yes"]).stderr)
    ));
    fs::remove_file(&settings).unwrap();
    symlink("nowhere.json", &settings).unwrap();
    shown.push_str(&format!(
        "{}\n",
        normalize_output(&sandbox, &sandbox.ralph(["init", "--yes"]).stderr)
    ));
    let agent = sandbox.env("CLAUDECODE", "1");
    shown.push_str(&format!(
        "{}\n",
        normalize_output(&agent, &agent.ralph(["init", "--yes"]).stderr)
    ));
    shown.push_str(&format!(
        "{}\n",
        normalize_output(&agent, &agent.ralph(["uninstall", "--yes"]).stderr)
    ));
    assert_snapshot!(shown, @"
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 2, column 12: unterminated object
      hint: nothing was written; fix it by hand, then try again
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 1, column 1: settings must be an object, `{…}`
      hint: nothing was written; fix it by hand, then try again
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 1, column 11: `hooks` must be an object
      hint: nothing was written; fix it by hand, then try again
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 1, column 20: `hooks.Stop` must be a list
      hint: nothing was written; fix it by hand, then try again
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 1, column 9: `env` must be an object
      hint: nothing was written; fix it by hand, then try again
    error: cannot edit `$ROOT/project/.claude/settings.local.json`
      caused by: line 1, column 8: not UTF-8
      hint: nothing was written; fix it by hand, then try again
    error: `$ROOT/project/.claude/settings.local.json` is read-only
      hint: nothing was written; `chmod u+w` it, or choose another `--scope`
    error: `$ROOT/project/.claude/settings.local.json` is a broken symlink
      hint: nothing was written; remove the link or fix it
    error: an agent may not install or remove ralph
      hint: ask a person to do this in their own terminal; `--dry-run` shows what would change
    error: an agent may not install or remove ralph
      hint: ask a person to do this in their own terminal; `--dry-run` shows what would change
    ");
}

#[test]
fn a_symlinked_settings_file_stays_a_symlink() {
    let sandbox = project_with_npm();
    let elsewhere = write_file(&sandbox.root().join("dotfiles/settings.json"), "{\n}\n");
    let link = sandbox.home().join(".claude/settings.json");
    symlink(&elsewhere, &link).unwrap();
    ralph_succeeds(&sandbox, &["init", "--yes", "--scope", "user"]);
    assert_eq!(fs::read_link(&link).unwrap(), elsewhere);
    assert_ne!(read_text(&elsewhere), "{\n}\n");
    ralph_succeeds(&sandbox, &["uninstall", "--yes", "--scope", "user"]);
    assert_eq!(
        (fs::read_link(&link).unwrap(), read_text(&elsewhere)),
        (elsewhere.clone(), "{\n}\n".to_string())
    );
}

#[test]
fn a_change_during_the_question_is_not_overwritten() {
    let sandbox = project_with_npm();
    let settings = sandbox.write(LOCAL_SETTINGS, "{}\n");
    let shown = answer_on_terminal(&sandbox, "init", "y\n", || {
        fs::write(&settings, "{\"model\": \"opus\"}\n").unwrap();
    });
    let shown = normalize_output(&sandbox, &shown);
    let (_, after) = shown.split_once("[N]o: ").unwrap();
    assert_snapshot!(after, @"
    error: `$ROOT/project/.claude/settings.local.json` changed after it was shown
      hint: it was not overwritten; check it, then try again
    ");
    assert_eq!(read_text(&settings), "{\"model\": \"opus\"}\n");
    assert!(!sandbox.project().join("ralph.toml").exists());
}

/// Setups of other tools are reported, replaced with `--replace`, and restored by `uninstall`.
#[test]
fn other_setups_are_replaced_on_request_and_restored() {
    let sandbox = project_with_npm();
    let settings = r#"{
  "hooks": {
    "Stop": [
      { "hooks": [{ "type": "command", "command": "./keep-going.sh" }] }
    ],
    "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./guard.sh" }] }]
  }
}
"#;
    sandbox.write(SHARED_SETTINGS, settings);
    sandbox.write(".claude/ralph-loop.local.md", "---\nactive: true\n---\ngo on\n");
    sandbox.write(".claude/hookify.tests.local.md", "");
    write_file(
        &sandbox.home().join(".claude/settings.json"),
        r#"{"enabledPlugins": {"ralph-loop@official": true}}"#,
    );
    let before = project_tree(&sandbox);
    let scope = ["--scope", "project", "--no-gates", "--minimal"];
    let left = sandbox.ralph([&["init", "--dry-run"][..], &scope].concat());
    let found = |shown: &str| {
        let lines = shown.lines().filter(|line| line.starts_with("found"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(found(&normalize_output(&sandbox, &left)), @"
    found: plugin `ralph-loop@official`, enabled in the user settings; `--replace` disables it
    found: hook at Stop `./keep-going.sh`; `--replace` removes it
    found: an active loop in `$ROOT/project/.claude/ralph-loop.local.md`: `/cancel-ralph` in its session ends it
    found: hookify rules in `$ROOT/project/.claude/hookify.tests.local.md`, which stay in force
    ");
    ralph_succeeds(&sandbox, &[&["init", "--yes", "--replace"][..], &scope].concat());
    assert_snapshot!(sandbox.normalize(&read_text(sandbox.project().join(SHARED_SETTINGS))), @r#"
    {
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./guard.sh" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "StopFailure": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 10 }] }],
        "SessionStart": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 30 }] }],
        "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }],
        "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "$ROOT/bin/ralph hook claude", "timeout": 600 }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      },
      "enabledPlugins": {
        "ralph-loop@official": false
      }
    }
    "#);
    ralph_succeeds(&sandbox, &[&["init", "--yes", "--warm"][..], &scope].concat());
    let again = sandbox.ralph([&["init", "--dry-run"][..], &scope].concat());
    assert_snapshot!(found(&normalize_output(&sandbox, &again)), @"
    found: an active loop in `$ROOT/project/.claude/ralph-loop.local.md`: `/cancel-ralph` in its session ends it
    found: hookify rules in `$ROOT/project/.claude/hookify.tests.local.md`, which stay in force
    ");
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(project_tree(&sandbox), before);
}

/// R-D2c: the install record that `uninstall` needs, as documented in docs/files.md.
#[test]
fn the_install_record_is_complete() {
    let sandbox = project_with_npm();
    sandbox.write(SHARED_SETTINGS, "{\n  \"env\": {}\n}\n");
    ralph_succeeds(&sandbox, &["init", "--yes", "--minimal", "--no-gates", "--scope", "project"]);
    let kept = read_files(&sandbox.ralph_home("install"));
    let is_settings = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("settings.json\"");
    let (path, record) = kept
        .iter()
        .find(|(path, bytes)| path.ends_with("record.json") && is_settings(bytes))
        .unwrap();
    let before: Vec<_> = kept.iter().filter(|(other, _)| other.parent() == path.parent()).collect();
    assert_eq!(before.len(), 2);
    assert_eq!(before[0].1, b"{\n  \"env\": {}\n}\n");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[hash]");
    settings.add_filter(r"\b[0-9]{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.bind(|| {
        let record: serde_json::Value = serde_json::from_slice(record).unwrap();
        assert_snapshot!(sandbox.normalize(&record.to_string().replace("},{", "},\n{")), @r#"
        {"after":"[hash]","before":"[hash]","made_directories":0,"path":"$ROOT/project/.claude/settings.json","trace":{"blank":null,"containers":[{"inside":null,"path":["hooks"]},
        {"inside":null,"path":["hooks","Stop"]},
        {"inside":null,"path":["hooks","SubagentStop"]},
        {"inside":null,"path":["hooks","StopFailure"]},
        {"inside":null,"path":["hooks","SessionStart"]},
        {"inside":null,"path":["hooks","UserPromptSubmit"]},
        {"inside":null,"path":["hooks","UserPromptExpansion"]},
        {"inside":"","path":["env"]}],"cut":[],"values":[{"after":"\"30\"","before":null,"path":["env","CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"]}]},"v":1,"written_at":"[time]"}
        "#);
    });
}

/// The record is the only way back to the original file, so nothing is written or removed without it.
#[test]
fn a_record_that_cannot_be_read_is_neither_replaced_nor_removed() {
    let sandbox = project_with_npm();
    let hook = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./theirs"}]}]}}"#;
    sandbox.write(SHARED_SETTINGS, hook);
    let init = ["init", "--yes", "--no-gates", "--scope", "project", "--replace"];
    ralph_succeeds(&sandbox, &init);
    let kept = read_files(&sandbox.ralph_home("install"));
    let is_settings = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("settings.json\"");
    let (path, record) = kept
        .iter()
        .find(|(path, bytes)| path.ends_with("record.json") && is_settings(bytes))
        .unwrap();
    let newer = String::from_utf8_lossy(record).replace("\"v\": 1", "\"v\": 2");
    let mut errors = Vec::new();
    for damaged in [&record[..record.len() / 2], newer.as_bytes()] {
        fs::write(path, damaged).unwrap();
        let before = (project_tree(&sandbox), read_files(&sandbox.ralph_home("install")));
        for args in [&["uninstall", "--yes"][..], &[&init[..], &["--warm"]].concat()] {
            let refused = sandbox.ralph(args);
            errors.push(normalize_output(
                &sandbox,
                &refused.to_string().replace(
                    path.parent().unwrap().file_name().unwrap().to_str().unwrap(),
                    "[hash]",
                ),
            ));
            let after = (project_tree(&sandbox), read_files(&sandbox.ralph_home("install")));
            assert_eq!(after, before, "{args:?}");
        }
    }
    assert_eq!(errors[0], errors[1]);
    assert_eq!(errors[2], errors[3]);
    let position = regex::Regex::new(r"column \d+").unwrap();
    assert_snapshot!(position.replace(&errors[0], "column [N]"), @"
    exit 1
    --- stderr
    error: ralph's record of the files it changed cannot be read
      caused by: cannot read `$ROOT/home/.ralph/install/[hash]/record.json`
      caused by: EOF while parsing a value at line 63 column [N]
      hint: nothing was written; restore the original files, which are next to the record, then move its directory away
    ");
    assert_snapshot!(errors[2], @"
    exit 1
    --- stderr
    error: `$ROOT/home/.ralph/install/[hash]/record.json` was written by another version of ralph
      hint: nothing was written; use the version of ralph that installed it
    ");
    fs::write(path, record).unwrap();
    ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert_eq!(read_text(sandbox.project().join(SHARED_SETTINGS)), hook);
}

/// Unreadable settings do not count as missing.
#[test]
fn settings_in_an_inaccessible_directory_are_an_error() {
    let sandbox = project_with_npm();
    ralph_succeeds(&sandbox, &["init", "--yes", "--no-gates"]);
    let directory = sandbox.project().join(".claude");
    fs::rename(&directory, sandbox.project().join("elsewhere")).unwrap();
    symlink(".claude", &directory).unwrap();
    let kept = read_files(&sandbox.ralph_home("install"));
    let refused = sandbox.ralph(["uninstall", "--yes"]);
    assert_snapshot!(normalize_output(&sandbox, &refused), @"
    exit 1
    --- stderr
    error: cannot read `$ROOT/project/.claude/settings.json`
      caused by: Too many levels of symbolic links (os error 40)
    ");
    assert_eq!(read_files(&sandbox.ralph_home("install")), kept);
}

const ORIGINAL_SETTINGS: &str = "{\n  \"model\": \"opus\"\n}\n";

/// Settings and policy, with the sandbox's path masked.
fn settings_and_policy(sandbox: &Sandbox) -> [Option<String>; 2] {
    [LOCAL_SETTINGS, "ralph.toml"].map(|path| {
        let text = fs::read_to_string(sandbox.project().join(path)).ok()?;
        Some(text.replace(&*sandbox.root().to_string_lossy(), "$ROOT"))
    })
}

/// Whether the command failed because of the failpoint.
fn fails_with_failpoint(sandbox: &Sandbox, args: &[&str], fault: &str) -> bool {
    let mut command = sandbox.command();
    command.args(args).env("RALPH_FAILPOINT", fault);
    run_command(&mut command, b"").code != Some(0)
}

/// R-D2c: after a kill or a full disk at any point, each file is in its old or its new state, and both `init` and
/// `uninstall` continue from there.
#[test]
fn a_failure_at_any_point_leaves_the_old_or_the_new_state() {
    let whole = {
        let sandbox = install_tools(Sandbox::without_git("project"));
        sandbox.write(LOCAL_SETTINGS, ORIGINAL_SETTINGS);
        ralph_succeeds(&sandbox, &["init", "--yes"]);
        settings_and_policy(&sandbox)
    };
    for fault in ["kill", "enospc"] {
        let mut point = 1;
        loop {
            let sandbox = install_tools(Sandbox::without_git("project"));
            sandbox.write(LOCAL_SETTINGS, ORIGINAL_SETTINGS);
            let before = project_tree(&sandbox);
            let failed =
                fails_with_failpoint(&sandbox, &["init", "--yes"], &format!("{fault}:{point}"));
            let [settings, policy] = settings_and_policy(&sandbox);
            assert!(
                settings.as_deref() == Some(ORIGINAL_SETTINGS) || settings == whole[0],
                "{settings:?}"
            );
            assert!(policy.is_none() || policy == whole[1], "{fault}:{point}");
            if point % 2 == 0 {
                ralph_succeeds(&sandbox, &["init", "--yes"]);
            }
            fails_with_failpoint(
                &sandbox,
                &["uninstall", "--yes"],
                &format!("{fault}:{}", point / 2 + 1),
            );
            ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
            let mut after = project_tree(&sandbox);
            // Temporary files of interrupted writes.
            after.retain(|(path, _)| !path.to_string_lossy().contains(".ralph-tmp-"));
            assert_eq!(after, before, "{fault}:{point}");
            if !failed {
                break;
            }
            // The later points are all writes of slash-command files, so a sample is enough.
            point += if point < 30 { 1 } else { 9 };
        }
        assert!(point > 20, "{fault}:{point}");
    }
}

#[test]
fn json_output_is_one_object() {
    let sandbox = project_with_npm();
    let refused = sandbox.ralph(["init", "--json"]);
    assert_snapshot!(normalize_output(&sandbox, &refused), @r"
    exit 1
    --- stderr
    error: `--json` does not ask; nothing was written
      hint: `--dry-run` shows what would change, `--yes` skips the question
    ");
    let mut shown = String::new();
    for args in [&["init", "--yes", "--json", "--minimal"][..], &["uninstall", "--yes", "--json"]] {
        let mut json: serde_json::Value =
            serde_json::from_str(&ralph_succeeds(&sandbox, args)).unwrap();
        for file in json["files"].as_array_mut().unwrap() {
            let diff = file["diff"].as_str().unwrap().lines().take(2).collect::<Vec<_>>().join("|");
            file["diff"] = diff.into();
        }
        let notes = json["notes"].as_array_mut().unwrap();
        notes.retain(|note| !note.as_str().unwrap().contains("may disappear"));
        shown.push_str(&format!("{}\n", serde_json::to_string_pretty(&json).unwrap()));
    }
    assert_snapshot!("files_written_and_removed", sandbox.normalize(&shown));
}

/// `init` reports settings that the client would not load or that disable hooks.
#[test]
fn settings_that_disable_hooks_are_reported() {
    let sandbox = project_with_npm();
    sandbox.write(LOCAL_SETTINGS, "{\n  // mine\n}\n");
    sandbox.write(SHARED_SETTINGS, r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ralph hook claude"}]}]}}"#);
    write_file(&sandbox.home().join(".claude/settings.json"), "{");
    let shown = normalize_output(&sandbox, &sandbox.ralph(["init", "--dry-run", "--no-gates"]));
    let notes: Vec<_> = shown.lines().filter(|line| line.starts_with("note")).collect();
    assert_snapshot!(notes.join("\n"), @"
    note: the client ignores `$ROOT/home/.claude/settings.json`: line 1, column 1: unterminated object
    note: `disableAllHooks` in `$ROOT/project/.claude/settings.json` disables every hook
    note: ralph is also in `$ROOT/project/.claude/settings.json`: `ralph uninstall --scope project` removes it
    note: the client ignores `$ROOT/project/.claude/settings.local.json` and its hooks: it has comments or trailing commas
    ");
}

/// Slash commands are installed per user: uninstalling the last project removes them, and a user's own file is kept.
#[test]
fn slash_commands_are_removed_with_the_last_project() {
    let sandbox = project_with_npm();
    let commands = sandbox.home().join(".claude/commands");
    let other = sandbox.root().join("other");
    fs::create_dir_all(&other).unwrap();
    let there = ["--yes", "--no-gates", "--project", other.to_str().unwrap()];
    let own = commands.join("ralph/why.md");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "mine\n").unwrap();
    ralph_succeeds(&sandbox, &["init", "--yes", "--no-gates"]);
    ralph_succeeds(&sandbox, &[&["init"][..], &there].concat());
    assert_eq!(read_files(&commands).len(), 18);
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine\n");
    let kept = ralph_succeeds(&sandbox, &["uninstall", "--yes"]);
    assert!(kept.contains("the slash commands stay: ralph is installed elsewhere too"), "{kept}");
    assert_eq!(read_files(&commands).len(), 18);
    ralph_succeeds(&sandbox, &["uninstall", "--yes", "--project", other.to_str().unwrap()]);
    assert_eq!(read_files(&commands), [(own, b"mine\n".to_vec())]);
}

/// R-H2b: the plugin's hooks call a symlink in ralph's home, which every `init` updates.
#[test]
fn with_the_plugin_no_hooks_are_registered() {
    let sandbox = project_with_npm();
    ralph_succeeds(&sandbox, &["init", "--yes", "--plugin", "--no-gates"]);
    let text = fs::read_to_string(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    assert_snapshot!(text, @r#"
    {
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
    assert!(!sandbox.home().join(".claude/commands").exists());
    sandbox.write(".claude/settings.json", r#"{"enabledPlugins": {"ralph@ralph": true}}"#);
    let again = sandbox.ralph(["init", "--yes", "--plugin", "--no-gates"]).stdout;
    let advice: Vec<&str> = again
        .lines()
        .filter(|line| line.contains("--plugin") && !line.contains("install ralph"))
        .collect();
    assert_eq!(advice, Vec::<&str>::new());
    let linked = fs::canonicalize(sandbox.ralph_home("bin/ralph")).unwrap();
    assert_eq!(linked, fs::canonicalize(env!("CARGO_BIN_EXE_ralph")).unwrap());
}
