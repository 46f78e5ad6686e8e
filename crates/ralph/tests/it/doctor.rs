//! `ralph doctor`: its output and repairs for each kind of broken setup, and the `unprotected` state that `ralph status`
//! shows.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, run_command, write_file, write_program};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

const LOCAL_SETTINGS: &str = ".claude/settings.local.json";
const GATE_POLICY: &str = "[[gate]]\nname = \"tests\"\nstage = \"correctness\"\nrun = [\"check-all\"]\ntimeout = \"5m\"\n";
const GOAL_FROM_STDIN: [&str; 2] = ["--goal-file", "-"];

/// A project with an approved gate, and hooks registered by `ralph init`.
fn healthy_sandbox() -> Sandbox {
    set_up_healthy(Sandbox::new(), &[])
}

fn set_up_healthy(sandbox: Sandbox, init: &[&str]) -> Sandbox {
    let bin = sandbox.root().join("bin");
    write_program(&bin.join("check-all"), "#!/bin/sh\nexit 0\n");
    fs::create_dir_all(sandbox.root().join("other")).unwrap();
    symlink(env!("CARGO_BIN_EXE_ralph"), bin.join("ralph")).unwrap();
    sandbox.write("ralph.toml", GATE_POLICY);
    let path =
        format!("{}:{}:/usr/bin:/bin", bin.display(), sandbox.root().join("other").display());
    let sandbox = sandbox.env("PATH", &path);
    sandbox.approve_policy();
    let done = sandbox.ralph([&["init", "--yes", "--no-gates"], init].concat());
    assert_eq!(done.code, Some(0), "{done}");
    sandbox
}

fn ralph_link(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("bin/ralph")
}

/// Drops the note that ralph is in a temporary directory, which applies only to sandboxes.
fn normalize_lines(sandbox: &Sandbox, text: &str) -> Vec<String> {
    let text = sandbox.normalize(text);
    let mut lines: Vec<String> = Vec::new();
    let mut is_doubt = false;
    for line in text.lines() {
        let is_fix = line.trim_start().starts_with('→');
        is_doubt = if is_fix { is_doubt } else { line.contains("in a temporary directory") };
        if !is_doubt {
            lines.push(line.to_string());
        }
    }
    lines
}

fn run_doctor(sandbox: &Sandbox) -> CommandOutcome {
    let ended = sandbox.ralph(["doctor"]);
    assert_eq!(ended.stderr, "", "{ended}");
    ended
}

/// Lines of `before` that are gone, then lines that are new in `after`.
fn line_changes(before: &[String], after: &[String]) -> String {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}\n"));
    let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}\n"));
    gone.chain(new).collect()
}

/// Exit code of `ralph doctor` after the breakage, and how its output changed.
fn report_after_breaking(sandbox: &Sandbox, break_it: impl FnOnce()) -> String {
    let before = run_doctor(sandbox);
    assert_eq!(before.code, Some(0), "{before}");
    break_it();
    let after = run_doctor(sandbox);
    let code = after.code.unwrap();
    let (before, after) =
        (normalize_lines(sandbox, &before.stdout), normalize_lines(sandbox, &after.stdout));
    format!("exit {code}\n{}", line_changes(&before, &after))
}

/// The repairs that `--fix` reports. Asserts that `ralph doctor` then prints the same as before the breakage.
fn apply_fix(sandbox: &Sandbox, healthy: &[String]) -> String {
    let fixed = sandbox.ralph(["doctor", "--fix"]);
    let after = normalize_lines(sandbox, &run_doctor(sandbox).stdout);
    assert_eq!((line_changes(healthy, &after).as_str(), fixed.code), ("", Some(0)), "{fixed}");
    line_changes(healthy, &normalize_lines(sandbox, &fixed.stdout))
}

fn current_report(sandbox: &Sandbox) -> Vec<String> {
    normalize_lines(sandbox, &run_doctor(sandbox).stdout)
}

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let version = format!("ralph {}", env!("CARGO_PKG_VERSION").replace('.', "[.]"));
    settings.add_filter(&version, "ralph [version]");
    settings.add_filter(r"`(/bin/)?sh: [^`]*`", "`[the shell's words]`");
    settings
}

fn edit_json(sandbox: &Sandbox, path: &str, change: impl FnOnce(&mut Value)) {
    let path = sandbox.project().join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_string());
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    write_file(&path, serde_json::to_string_pretty(&value).unwrap());
}

/// R-H2c: in a working setup every hook command is executed and an unfinished trial run is held. R-H3b: also with
/// spaces, quotes and umlauts in paths.
#[test]
fn a_working_setup_passes_every_check() {
    let sandbox = healthy_sandbox();
    snapshot_settings().bind(|| {
        assert_snapshot!(current_report(&sandbox).join("\n"), @"
        ✓ settings    local: `$ROOT/project/.claude/settings.local.json` is loaded
        ✓ registered  13 of 13 events, in the local settings
        ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        ✓ holds       it holds an unfinished run
        ✓ version     `$ROOT/bin/ralph` is ralph [version]
        ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        ✓ cap         the client allows 30 consecutive blocks
        ✓ home        `$ROOT/home/.ralph` is writable, by you only
        ✓ policy      `$ROOT/project/ralph.toml`, 1 gate
        ✓ trust       a person approved what the policy runs
        ✓ tools       every gate's program was found
        ✓ git         `$ROOT/project` is a repository
        · client      `claude` is not on the `PATH`

        no problems found
        ");
    });
    assert_eq!(run_doctor(&sandbox).code, Some(0));
    assert!(!sandbox.ralph_home("runs").exists(), "no real run is created");

    let before = sandbox.read_state();
    sandbox.write(".claude/data/ralph-loops/current/feature_list.json", r#"[{"id": 1}]"#);
    assert_eq!(run_doctor(&sandbox).code, Some(0), "a loop without an owner is not adopted");
    assert_eq!(sandbox.read_state(), before);

    let odd = Sandbox::without_git("it's ä project/$HOME `x`");
    odd.git(&["init", "--quiet"]);
    let odd = set_up_healthy(odd, &[]);
    let link = odd.root().join("bin/it's ä \"ralph\"");
    fs::create_dir_all(&link).unwrap();
    symlink(env!("CARGO_BIN_EXE_ralph"), link.join("ralph")).unwrap();
    let command = format!(
        "'{}' hook claude",
        link.join("ralph").display().to_string().replace('\'', r"'\''")
    );
    edit_json(&odd, LOCAL_SETTINGS, |value| {
        for groups in value["hooks"].as_object_mut().unwrap().values_mut() {
            groups[0]["hooks"][0]["command"] = json!(command);
        }
    });
    assert_eq!(run_doctor(&odd).code, Some(0), "{}", run_doctor(&odd));
}

/// R-H2c: a hook program that was moved or is not executable is reported.
#[test]
fn a_missing_hook_program_is_reported() {
    let sandbox = healthy_sandbox();
    let healthy = current_report(&sandbox);
    let (here, there) = (ralph_link(&sandbox), sandbox.root().join("other/ralph"));
    let moved = report_after_breaking(&sandbox, || fs::rename(&here, &there).unwrap());
    let repaired = sandbox.ralph(["doctor", "--fix"]);
    snapshot_settings().bind(|| {
        assert_snapshot!(moved, @"
        exit 1
        - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        - ✓ holds       it holds an unfinished run
        - ✓ version     `$ROOT/bin/ralph` is ralph [version]
        - no problems found
        + ✗ hook        not fired: `$ROOT/bin/ralph hook claude` in the local settings (all 13 events): exit code 127, not found: `[the shell's words]`
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        ");
        let shown = line_changes(&healthy, &normalize_lines(&sandbox, &repaired.stdout));
        assert_snapshot!(format!("exit {}\n{shown}", repaired.code.unwrap()), @"
        exit 0
        - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        - ✓ version     `$ROOT/bin/ralph` is ralph [version]
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        + ✓ hook        fired: `$ROOT/other/ralph hook claude` in the local settings, 13 events
        + ✓ version     `$ROOT/other/ralph` is ralph [version]
        ");
    });

    let sandbox = self::healthy_sandbox();
    let there = sandbox.root().join("other/ralph");
    let not_executable = report_after_breaking(&sandbox, || {
        fs::rename(ralph_link(&sandbox), &there).unwrap();
        fs::write(ralph_link(&sandbox), "#!/bin/sh\n").unwrap();
    });
    snapshot_settings().bind(|| assert_snapshot!(not_executable, @"
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    - no problems found
    + ✗ hook        not fired: `$ROOT/bin/ralph hook claude` in the local settings (all 13 events): exit code 126, not executable: `[the shell's words]`
    +               → `ralph init`
    + ? version     `$ROOT/bin/ralph` did not report a version
    + 1 problem found; `ralph doctor --fix` repairs it
    "));
}

/// R-H2c: answers that the host would misread are reported.
#[test]
fn a_malformed_hook_answer_is_reported() {
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let mut shown = String::new();
    for (what, text) in [
        ("banner", format!("echo welcome\nexec {ralph} hook claude\n")),
        ("blocks", "cat > /dev/null; echo no >&2; exit 2 # ralph hook claude\n".to_string()),
        ("fails", "echo usage: wrong >&2; exit 1 # ralph hook claude\n".to_string()),
        ("lets go", "cat > /dev/null; exit 0 # ralph hook claude\n".to_string()),
        ("killed", "kill -9 $$ # ralph hook claude\n".to_string()),
    ] {
        let sandbox = healthy_sandbox();
        let wrapper = sandbox.root().join("bin/wrapper");
        write_program(&wrapper, &format!("#!/bin/sh\n{text}"));
        shown.push_str(&format!("-- {what}: "));
        shown.push_str(&report_after_breaking(&sandbox, || {
            edit_json(&sandbox, LOCAL_SETTINGS, |value| {
                value["hooks"]["Stop"][0]["hooks"][0]["command"] = json!(wrapper);
            });
        }));
    }
    snapshot_settings().bind(|| assert_snapshot!(shown, @"
    -- banner: exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✗ wrapper     wrong shape: `$ROOT/bin/wrapper` in the local settings (Stop): it prints `welcome`, but should print nothing
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    -- blocks: exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✗ wrapper     wrong shape: `$ROOT/bin/wrapper` in the local settings (Stop): exit code 2, which blocks, in a session that no run holds: `no`
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    -- fails: exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✗ wrapper     wrong shape: `$ROOT/bin/wrapper` in the local settings (Stop): exit code 1, which the client treats as an error: `usage: wrong`
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    -- lets go: exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✓ wrapper     fired: `$ROOT/bin/wrapper` in the local settings, 1 event
    + ✗ holds       wrong shape: `$ROOT/bin/wrapper` in the local settings at a stop of a run: it did not hold an unfinished run: exit code 0, ``
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    -- killed: exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✗ wrapper     not fired: `$ROOT/bin/wrapper` in the local settings (Stop): killed by signal 9
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    "));
}

/// Hooks from the repository's settings are not executed until the person trusts the project in the client.
#[test]
fn an_untrusted_repository_hook_is_not_executed() {
    let sandbox = healthy_sandbox();
    let shared = ".claude/settings.json";
    let mut shown = String::new();
    sandbox.write("ralph", format!("#!/bin/sh\ntouch {}\n", sandbox.root().join("ran").display()));
    fs::set_permissions(sandbox.project().join("ralph"), fs::Permissions::from_mode(0o755))
        .unwrap();
    for command in [
        "./ralph hook claude".to_string(),
        format!("{} hook claude", sandbox.project().join("ralph").display()),
        format!("{} hook claude; ./ralph", ralph_link(&sandbox).display()),
        "sh -c './ralph; ralph hook claude'".to_string(),
        "\"$CLAUDE_PROJECT_DIR\"/ralph hook claude".to_string(),
    ] {
        let hook = json!({"type": "command", "command": command, "timeout": 600});
        let settings = json!({"hooks": {"SessionEnd": [{"hooks": [hook]}]}});
        sandbox.write(shared, settings.to_string());
        let lines = normalize_lines(&sandbox, &run_doctor(&sandbox).stdout);
        let lines =
            lines.iter().filter(|line| line.contains("not tried") || line.contains("not fired"));
        shown.extend(lines.map(|line| format!("{line}\n")));
        assert!(!sandbox.root().join("ran").exists(), "{command}");
    }
    let wrapper = sandbox.root().join("bin/wrapper");
    let ran = sandbox.root().join("ran");
    write_program(
        &wrapper,
        &format!("#!/bin/sh\n[ \"$X\" ] && touch {}\nexit 0 # ralph hook claude\n", ran.display()),
    );
    let hook = json!({"type": "command", "command": wrapper, "timeout": 600});
    let own = json!({"hooks": {"SessionEnd": [{"hooks": [hook]}]}});
    write_file(&sandbox.home().join(".claude/settings.json"), own.to_string());
    sandbox.write(shared, r#"{"env": {"X": "1"}}"#);
    run_doctor(&sandbox);
    assert!(!ran.exists(), "the repository's settings do not set variables either");
    snapshot_settings().bind(|| assert_snapshot!(shown, @r#"
    ? hook        not tried: `./ralph hook claude` in the project settings; the client does not trust this project
    ? hook        not tried: `$ROOT/project/ralph hook claude` in the project settings; the client does not trust this project
    ? wrapper     not tried: `$ROOT/bin/ralph hook claude; ./ralph` in the project settings; the client does not trust this project
    ? wrapper     not tried: `sh -c './ralph; ralph hook claude'` in the project settings; the client does not trust this project
    ? hook        not tried: `"$CLAUDE_PROJECT_DIR"/ralph hook claude` in the project settings; the client does not trust this project
    "#));
    let project = fs::canonicalize(sandbox.project()).unwrap();
    let trusted =
        json!({"projects": {project.to_str().unwrap(): {"hasTrustDialogAccepted": true}}});
    write_file(&sandbox.home().join(".claude.json"), trusted.to_string());
    run_doctor(&sandbox);
    assert!(sandbox.root().join("ran").exists(), "executed once the project is trusted");
}

/// `ralph doctor` waits for a hook no longer than the client would.
#[test]
fn a_hanging_hook_is_reported_as_timed_out() {
    let sandbox = healthy_sandbox();
    let wrapper = sandbox.root().join("bin/wrapper");
    write_program(&wrapper, "#!/bin/sh\nexec sleep 600 # ralph hook claude\n");
    let shown = report_after_breaking(&sandbox, || {
        edit_json(&sandbox, LOCAL_SETTINGS, |value| {
            let hook = &mut value["hooks"]["SessionEnd"][0]["hooks"][0];
            hook["command"] = json!(wrapper);
            hook["timeout"] = json!(0.2);
        });
    });
    snapshot_settings().bind(|| assert_snapshot!(shown, @"
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - no problems found
    + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
    + ✗ wrapper     not fired: `$ROOT/bin/wrapper` in the local settings (SessionEnd): it did not answer before its timeout
    +               → remove it from the local settings, then `ralph init`
    + · path        `$ROOT/bin/wrapper` calls ralph through a wrapper
    + 1 problem found
    "));
}

/// R-D3c: a timeout that is missing, given in milliseconds, or shorter than the gates need.
#[test]
fn an_unsuitable_timeout_is_reported_and_fixed() {
    let sandbox = healthy_sandbox();
    let healthy = current_report(&sandbox);
    let original = fs::read(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    let mut shown = String::new();
    for (what, timeout) in [
        ("missing", Value::Null),
        ("milliseconds", json!(600_000)),
        ("too small", json!(60)),
        ("just too small", json!(570)),
    ] {
        shown.push_str(&format!("-- {what}: "));
        shown.push_str(&report_after_breaking(&sandbox, || {
            edit_json(&sandbox, LOCAL_SETTINGS, |value| {
                let hook = value["hooks"]["Stop"][0]["hooks"][0].as_object_mut().unwrap();
                hook.remove("timeout");
                if !timeout.is_null() {
                    hook.insert("timeout".to_string(), timeout.clone());
                }
            });
        }));
        shown.push_str(&apply_fix(&sandbox, &healthy));
        write_file(&sandbox.project().join(LOCAL_SETTINGS), &original);
    }
    let slow = report_after_breaking(&sandbox, || {
        sandbox.write("ralph.toml", GATE_POLICY.replace("5m", "50m"));
        sandbox.approve_policy();
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(shown, @"
        -- missing: exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - no problems found
        + ✗ timeout     Stop, no timeout is set: `$ROOT/bin/ralph hook claude` in the local settings
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        -- milliseconds: exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - no problems found
        + ✗ timeout     Stop, 600000 seconds look like milliseconds: `$ROOT/bin/ralph hook claude` in the local settings
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        -- too small: exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - no problems found
        + ✗ timeout     Stop, 60 s, but the hook takes up to 570 s to answer: `$ROOT/bin/ralph hook claude` in the local settings
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        -- just too small: exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - no problems found
        + ✗ timeout     Stop, 570 s, but the hook takes up to 570 s to answer: `$ROOT/bin/ralph hook claude` in the local settings
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        ");
        assert_snapshot!(slow, @"
        exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - no problems found
        + ✗ timeout     Stop, SubagentStop, TaskCompleted, TeammateIdle, 600 s, but the gates need 3030 s: `$ROOT/bin/ralph hook claude` in the local settings
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        ");
    });
}

/// R-S4d: settings that the client ignores, and settings that disable hooks.
#[test]
fn settings_that_disable_hooks_are_reported() {
    let sandbox = healthy_sandbox();
    let original = fs::read_to_string(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    let mut shown = String::new();
    for (what, text) in [
        ("cut off", original[..original.len() - 4].to_string()),
        ("comments", original.replacen('{', "{ // ours\n", 1)),
        ("a wrong type", original.replacen('{', "{\"permissions\": 7,", 1)),
        ("switched off", original.replacen('{', "{\"disableAllHooks\": true,", 1)),
        ("ralph off", original.replacen("\"env\": {", "\"env\": {\"RALPH_OFF\": \"1\",", 1)),
        (
            "another home",
            original.replacen("\"env\": {", "\"env\": {\"RALPH_HOME\": \"/srv/x\",", 1),
        ),
        ("an odd entry", original.replacen("\"Stop\": [", "\"Stop\": [7, ", 1)),
    ] {
        assert_ne!(text, original, "{what}");
        shown.push_str(&format!("-- {what}: "));
        shown.push_str(&report_after_breaking(&sandbox, || {
            sandbox.write(LOCAL_SETTINGS, &text);
        }));
        sandbox.write(LOCAL_SETTINGS, &original);
    }
    shown.push_str("-- overruled: ");
    shown.push_str(&report_after_breaking(&sandbox, || {
        write_file(&sandbox.home().join(".claude/settings.json"), r#"{"disableAllHooks": true}"#);
        sandbox.write(LOCAL_SETTINGS, original.replacen('{', "{\"disableAllHooks\": false,", 1));
    }));
    snapshot_settings().bind(|| assert_snapshot!(shown));
}

/// R-D2b: if two hooks handle one event, both are named, whichever settings they come from.
#[test]
fn duplicate_hooks_are_reported() {
    let sandbox = healthy_sandbox();
    let market = sandbox.root().join("market");
    write_file(
        &market.join(".claude-plugin/marketplace.json"),
        r#"{"name": "m", "plugins": [{"name": "ralph", "source": "./plugin"}]}"#,
    );
    write_file(
        &market.join("plugin/hooks/hooks.json"),
        json!({"hooks": {"Stop": [{"hooks": [{
            "type": "command", "command": ralph_link(&sandbox), "args": ["hook", "claude"], "timeout": 600,
        }]}]}})
        .to_string(),
    );
    let user = sandbox.home().join(".claude/settings.json");
    let plugin = report_after_breaking(&sandbox, || {
        let source = json!({"source": {"source": "directory", "path": market}});
        let settings =
            json!({"enabledPlugins": {"ralph@m": true}, "extraKnownMarketplaces": {"m": source}});
        write_file(&user, settings.to_string());
    });
    write_file(&user, "{}");
    let stop = |command: String| {
        let hook = json!({"type": "command", "command": command, "timeout": 600});
        json!({"hooks": {"Stop": [{"hooks": [hook]}]}}).to_string()
    };
    let same = report_after_breaking(&sandbox, || {
        write_file(&user, stop(format!("{} hook claude", ralph_link(&sandbox).display())));
    });
    write_file(&user, "{}");
    let others = report_after_breaking(&sandbox, || {
        write_file(&user, stop("/opt/other/stop.sh --loop".to_string()));
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(plugin, @"
        exit 1
        - ✓ registered  13 of 13 events, in the local settings
        - no problems found
        + ✓ settings    user: `$ROOT/home/.claude/settings.json` is loaded
        + ✓ registered  13 of 13 events, in the local settings, plugin `ralph@m`
        + ✗ once        two ralph hooks answer `Stop`: `$ROOT/bin/ralph hook claude` in the local settings and `$ROOT/bin/ralph hook claude` in the plugin `ralph@m`
        +               → `ralph uninstall --scope local` removes one of them
        + ✓ plugin hook fired: `$ROOT/bin/ralph hook claude` in the plugin `ralph@m`, 1 event
        + 1 problem found
        ");
        assert_snapshot!(same, @"
        exit 0
        - ✓ registered  13 of 13 events, in the local settings
        + ✓ registered  13 of 13 events, in the user settings, local settings
        + · once        registered twice, runs once: `Stop`, `$ROOT/bin/ralph hook claude` in the user settings and `$ROOT/bin/ralph hook claude` in the local settings
        + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the user settings, 1 event
        ");
        assert_snapshot!(others, @"
        exit 0
        + · others      `/opt/other/stop.sh --loop` in the user settings also answers stops, independently
        ");
    });
}

/// This repository's plugin, with and without the program that it looks for.
#[test]
fn the_plugin_works_only_with_its_program() {
    let sandbox = healthy_sandbox();
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = json!({"source": {"source": "directory", "path": repository}});
    let enabled = json!({
        "enabledPlugins": {"ralph@ralph": true},
        "extraKnownMarketplaces": {"ralph": source},
    });
    sandbox.write(LOCAL_SETTINGS, r#"{"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"}}"#);
    write_file(&sandbox.home().join(".claude/settings.json"), enabled.to_string());
    let with = current_report(&sandbox);
    let without = report_after_breaking(&sandbox, || {
        fs::remove_file(sandbox.ralph_home("bin/ralph")).unwrap();
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(with.join("\n"), @"
        ✓ settings    user: `$ROOT/home/.claude/settings.json` is loaded
        ✓ settings    local: `$ROOT/project/.claude/settings.local.json` is loaded
        ✓ registered  13 of 13 events, in the plugin `ralph@ralph`
        ✓ plugin hook fired: `[ ! -x ~/.ralph/bin/ralph ] || exec ~/.ralph/bin/ralph hook claude` in the plugin `ralph@ralph`, 13 events
        ✓ holds       it holds an unfinished run
        · path        `[ ! -x ~/.ralph/bin/ralph ] || exec ~/.ralph/bin/ralph hook claude` calls ralph through a wrapper
        ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        ✓ cap         the client allows 30 consecutive blocks
        ✓ home        `$ROOT/home/.ralph` is writable, by you only
        ✓ policy      `$ROOT/project/ralph.toml`, 1 gate
        ✓ trust       a person approved what the policy runs
        ✓ tools       every gate's program was found
        ✓ git         `$ROOT/project` is a repository
        · client      `claude` is not on the `PATH`

        no problems found
        ");
        assert_snapshot!(without, @"
        exit 1
        - ✓ holds       it holds an unfinished run
        - no problems found
        + ✗ holds       wrong shape: `[ ! -x ~/.ralph/bin/ralph ] || exec ~/.ralph/bin/ralph hook claude` in the plugin `ralph@ralph` at a stop of a run: it did not hold an unfinished run: exit code 0, ``
        +               → `ralph init --plugin`
        + 1 problem found
        ");
    });
}

/// Events without a registered hook are reported, with the features that depend on them.
#[test]
fn missing_events_are_reported_and_fixed() {
    let sandbox = healthy_sandbox();
    let healthy = current_report(&sandbox);
    let take_out = |event: &'static str| {
        edit_json(&sandbox, LOCAL_SETTINGS, |value| {
            value["hooks"].as_object_mut().unwrap().remove(event);
        });
    };
    let stop = report_after_breaking(&sandbox, || take_out("Stop"));
    let stop_fixed = apply_fix(&sandbox, &healthy);
    let other = report_after_breaking(&sandbox, || {
        take_out("SessionStart");
        take_out("PreCompact");
    });
    let other_fixed = apply_fix(&sandbox, &healthy);
    let all = report_after_breaking(&sandbox, || {
        fs::remove_file(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(format!("{stop}{stop_fixed}"), @"
        exit 1
        - ✓ registered  13 of 13 events, in the local settings
        - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        - ✓ holds       it holds an unfinished run
        - no problems found
        + ✗ registered  `Stop` is missing from the local settings, so no session is held
        +               → `ralph init`
        + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 12 events
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        ");
        assert_snapshot!(format!("{other}{other_fixed}"), @"
        exit 0
        - ✓ registered  13 of 13 events, in the local settings
        - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        + ✓ registered  11 of 13 events, in the local settings
        + · registered  `SessionStart` is not registered: a resumed or cleared session loses its run
        +               → `ralph init`
        + · registered  `PreCompact` is not registered: nothing is saved before the conversation is compacted
        +               → `ralph init`
        + ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 11 events
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        ");
        assert_snapshot!(all, @"
        exit 1
        - ✓ settings    local: `$ROOT/project/.claude/settings.local.json` is loaded
        - ✓ registered  13 of 13 events, in the local settings
        - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        - ✓ holds       it holds an unfinished run
        - ✓ version     `$ROOT/bin/ralph` is ralph [version]
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - ✓ cap         the client allows 30 consecutive blocks
        - no problems found
        + · settings    the client has no settings for this project
        + ✗ registered  no settings file or plugin calls ralph, so no session is held
        +               → `ralph init`
        + 1 problem found
        ");
    });
    let minimal = set_up_healthy(Sandbox::new(), &["--minimal"]);
    let before = fs::read(minimal.project().join(LOCAL_SETTINGS)).unwrap();
    let done = minimal.ralph(["doctor", "--fix"]);
    assert_eq!(done.code, Some(0), "{done}");
    assert_eq!(
        fs::read(minimal.project().join(LOCAL_SETTINGS)).unwrap(),
        before,
        "`--minimal` is respected"
    );
}

/// R-L9b: the client's cap on consecutive blocks is lower than the limit of the policy or of a run.
#[test]
fn a_low_block_cap_is_reported_and_fixed() {
    let sandbox = healthy_sandbox();
    let healthy = current_report(&sandbox);
    let set = |cap: &str| {
        edit_json(&sandbox, LOCAL_SETTINGS, |value| {
            value["env"]["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"] = json!(cap);
        });
    };
    let low = report_after_breaking(&sandbox, || set("8"));
    let low_fixed = apply_fix(&sandbox, &healthy);
    let none = report_after_breaking(&sandbox, || set("0"));
    set("30");
    let run = report_after_breaking(&sandbox, || {
        sandbox.start_run_for(
            SESSION,
            [&GOAL_FROM_STDIN[..], &["--max-iterations", "100", "--no-gates"]].concat(),
        );
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(format!("{low}{low_fixed}"), @"
        exit 1
        - ✓ cap         the client allows 30 consecutive blocks
        - no problems found
        + ✗ cap         the client overrides ralph after 8 consecutive blocks (in `$ROOT/project/.claude/settings.local.json`), but the policy allows 25
        +               → `ralph init`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: updated the registration in `$ROOT/project/.claude/settings.local.json`
        ");
        assert_snapshot!(none, @"
        exit 0
        - ✓ cap         the client allows 30 consecutive blocks
        + ✓ cap         the client allows any number of consecutive blocks
        ");
        assert_snapshot!(run, @r#"
        exit 1
        - ✓ cap         the client allows 30 consecutive blocks
        - no problems found
        + ✗ cap         the client overrides ralph after 30 consecutive blocks (in `$ROOT/project/.claude/settings.local.json`), but run [run] allows 100
        +               → set `CLAUDE_CODE_STOP_HOOK_BLOCK_CAP` to `"105"` under `env` in the settings
        + ✓ run         [run] (make it work) is active
        + 1 problem found
        "#);
    });
}

/// Hook commands with paths that break later or in other directories. R-H2b: no build and no plugin directory.
#[test]
fn a_fragile_hook_path_is_reported() {
    let sandbox = healthy_sandbox();
    let original = fs::read(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    let mut shown = String::new();
    for directory in ["target/release", "home/.claude/plugins/cache/m/ralph/0.1.0"] {
        let place = sandbox.root().join(directory);
        fs::create_dir_all(&place).unwrap();
        symlink(env!("CARGO_BIN_EXE_ralph"), place.join("ralph")).unwrap();
    }
    let real = env!("CARGO_BIN_EXE_ralph");
    let old = format!("#!/bin/sh\n[ \"$1\" = hook ] && exec {real} \"$@\"\necho ralph 0.0.1\n");
    write_program(&sandbox.root().join("old/ralph"), &old);
    let register = |command: String| {
        edit_json(&sandbox, LOCAL_SETTINGS, |value| {
            for groups in value["hooks"].as_object_mut().unwrap().values_mut() {
                groups[0]["hooks"][0]["command"] = json!(command);
            }
        });
    };
    let root = sandbox.root().display();
    for command in [
        format!("{root}/target/release/ralph hook claude"),
        format!("{root}/home/.claude/plugins/cache/m/ralph/0.1.0/ralph hook claude"),
        "ralph hook claude".to_string(),
        format!("{root}/old/ralph hook claude"),
        "\"$HOME\"/../bin/ralph hook claude".to_string(),
    ] {
        shown.push_str(&report_after_breaking(&sandbox, || register(command)));
        write_file(&sandbox.project().join(LOCAL_SETTINGS), &original);
    }
    snapshot_settings().bind(|| assert_snapshot!(shown, @r#"
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    - no problems found
    + ✓ hook        fired: `$ROOT/target/release/ralph hook claude` in the local settings, 13 events
    + ✗ path        `$ROOT/target/release/ralph` may disappear: it is in a build directory, which the next build may replace
    +               → install ralph, then `ralph init`
    + ✓ version     `$ROOT/target/release/ralph` is ralph [version]
    + 1 problem found
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    - no problems found
    + ✓ hook        fired: `$ROOT/home/.claude/plugins/cache/m/ralph/0.1.0/ralph hook claude` in the local settings, 13 events
    + ✗ path        `$ROOT/home/.claude/plugins/cache/m/ralph/0.1.0/ralph` may disappear: it is in a plugin's directory, which an upgrade replaces
    +               → install ralph, then `ralph init`
    + ✓ version     `$ROOT/home/.claude/plugins/cache/m/ralph/0.1.0/ralph` is ralph [version]
    + 1 problem found
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ holds       it holds an unfinished run
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    - no problems found
    + ✗ hook        not fired: `ralph hook claude` in the local settings (all 13 events): exit code 127, not found: `[the shell's words]`
    +               → `ralph init`
    + ✗ path        `ralph` is not an absolute path, so another program may run
    +               → `ralph init`
    + 2 problems found; `ralph doctor --fix` repairs them
    exit 1
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    - no problems found
    + ✓ hook        fired: `$ROOT/old/ralph hook claude` in the local settings, 13 events
    + ✗ version     `$ROOT/old/ralph` is ralph 0.0.1, but this is ralph [version]
    +               → `ralph init` registers this one
    + 1 problem found
    exit 0
    - ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
    - ✓ version     `$ROOT/bin/ralph` is ralph [version]
    + ✓ hook        fired: `"$HOME"/../bin/ralph hook claude` in the local settings, 13 events
    + ✓ version     `$ROOT/home/../bin/ralph` is ralph [version]
    "#));
}

/// Permissions and location of ralph's home, and leftovers in it.
#[test]
fn problems_of_the_home_directory_are_reported() {
    let sandbox = healthy_sandbox();
    let healthy = current_report(&sandbox);
    let home = sandbox.ralph_home("");
    let mode = |mode| fs::set_permissions(&home, fs::Permissions::from_mode(mode)).unwrap();
    let open = report_after_breaking(&sandbox, || mode(0o777));
    let open_fixed = apply_fix(&sandbox, &healthy);
    let switch = report_after_breaking(&sandbox, || {
        write_file(&home.join("off"), "");
    });
    fs::remove_file(home.join("off")).unwrap();
    let trouble = report_after_breaking(&sandbox, || {
        sandbox.run_hook("not json");
        write_file(&home.join("sessions/s1.quarantined-17"), "{");
    });
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(60 * 24);
    let stale = report_after_breaking(&sandbox, || {
        fs::create_dir_all(home.join("scratch/00ff/deep")).unwrap();
        fs::File::open(home.join("scratch/00ff")).unwrap().set_modified(old).unwrap();
        fs::create_dir_all(home.join("scratch/fresh")).unwrap();
    });
    let cleared = sandbox.ralph(["doctor", "--fix"]);
    assert_eq!(cleared.code, Some(0), "{cleared}");
    assert!(!home.join("scratch/00ff").exists() && home.join("scratch/fresh").exists());
    let unlisted = report_after_breaking(&sandbox, || {
        fs::rename(home.join("scratch"), home.join("scratch-before")).unwrap();
        symlink("scratch", home.join("scratch")).unwrap();
        fs::create_dir_all(home.join("trust")).unwrap();
        fs::rename(home.join("trust"), home.join("trust-before")).unwrap();
        symlink("trust", home.join("trust")).unwrap();
    });
    for name in ["scratch", "trust"] {
        fs::remove_file(home.join(name)).unwrap();
        fs::rename(home.join(format!("{name}-before")), home.join(name)).unwrap();
    }
    let elsewhere = sandbox.root().join("elsewhere");
    let linked = report_after_breaking(&sandbox, || {
        fs::rename(&home, &elsewhere).unwrap();
        symlink(&elsewhere, sandbox.home().join(".ralph")).unwrap();
    });
    fs::remove_dir_all(&elsewhere).unwrap();
    let nowhere = run_doctor(&sandbox);
    let nowhere: Vec<_> = normalize_lines(&sandbox, &nowhere.stdout);
    let nowhere: Vec<_> = nowhere.iter().filter(|line| line.contains("broken symlink")).collect();
    snapshot_settings().bind(|| {
        assert_snapshot!(format!("{open}{open_fixed}"), @"
        exit 1
        - ✓ home        `$ROOT/home/.ralph` is writable, by you only
        - no problems found
        + ✗ home        `$ROOT/home/.ralph` is accessible to other users (mode 777)
        +               → `chmod 700 $ROOT/home/.ralph`
        + 1 problem found; `ralph doctor --fix` repairs it
        + fixed: made `$ROOT/home/.ralph` private
        ");
        assert_snapshot!(switch, @"
        exit 1
        - no problems found
        + ✗ switch      `$ROOT/home/.ralph/off` exists, so no session is held
        +               → `rm $ROOT/home/.ralph/off`
        + 1 problem found
        ");
        assert_snapshot!(trouble, @"
        exit 0
        + ? trouble     ralph recorded a fault: the event on stdin could not be read: it is not a valid JSON event (line 1, column 2)
        +               → `ralph status` shows it, `ralph status --clear-trouble` clears it
        + ? quarantine  an unreadable file was kept as `$ROOT/home/.ralph/sessions/s1.quarantined-17`
        +               → inspect it, then `rm $ROOT/home/.ralph/sessions/s1.quarantined-17`
        ");
        assert_snapshot!(stale, @"
        exit 0
        + · scratch     1 directory left by killed gates
        +               → `ralph doctor --fix` removes them
        ");
        assert_snapshot!(unlisted, @"
        exit 1
        - ? quarantine  an unreadable file was kept as `$ROOT/home/.ralph/sessions/s1.quarantined-17`
        -               → inspect it, then `rm $ROOT/home/.ralph/sessions/s1.quarantined-17`
        - ✓ trust       a person approved what the policy runs
        - no problems found
        + ? quarantine  cannot list `$ROOT/home/.ralph/trust`: Too many levels of symbolic links (os error 40)
        + ? scratch     cannot list `$ROOT/home/.ralph/scratch`: Too many levels of symbolic links (os error 40)
        + ✗ trust       the current policy is not approved, so no run can start with it
        +               → `ralph trust`
        + 1 problem found
        ");
        assert_snapshot!(linked, @"
        exit 0
        + · home        `$ROOT/home/.ralph` is a symlink to `$ROOT/elsewhere`
        ");
        assert_snapshot!(format!("{nowhere:?}"), @r#"["✗ home        `$ROOT/home/.ralph` is a broken symlink, so no run can be stored"]"#);
    });
}

/// The policy must be valid and approved, and its tools must exist.
#[test]
fn an_unusable_policy_is_reported() {
    let sandbox = healthy_sandbox();
    let untrusted = report_after_breaking(&sandbox, || {
        sandbox.write("ralph.toml", GATE_POLICY.replace("5m", "4m"));
    });
    sandbox.write("ralph.toml", GATE_POLICY);
    let tool = report_after_breaking(&sandbox, || {
        fs::remove_file(sandbox.root().join("bin/check-all")).unwrap();
    });
    write_program(&sandbox.root().join("bin/check-all"), "#!/bin/sh\n");
    let shell = report_after_breaking(&sandbox, || {
        sandbox.write(
            "ralph.toml",
            GATE_POLICY.replace("run = [\"check-all\"]", "shell = \"nosuch --all | tee x\""),
        );
        sandbox.approve_policy();
    });
    sandbox.write("ralph.toml", GATE_POLICY);
    let garbled = report_after_breaking(&sandbox, || {
        sandbox.write("ralph.toml", GATE_POLICY.replace("timeout", "timeot"));
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(untrusted, @"
        exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - ✓ trust       a person approved what the policy runs
        - no problems found
        + ✓ timeout     the client waits long enough for every hook; gates may take 4 min
        + ✗ trust       the current policy is not approved, so no run can start with it
        +               → `ralph trust`
        + 1 problem found
        ");
        assert_snapshot!(tool, @"
        exit 1
        - ✓ tools       every gate's program was found
        - no problems found
        + ✗ tools       not found: `check-all` for gate `tests`
        +               → install it, then `ralph trust` records its path
        + 1 problem found
        ");
        assert_snapshot!(shell, @"
        exit 1
        - ✓ tools       every gate's program was found
        - no problems found
        + ✗ tools       not found: `nosuch` for gate `tests`
        +               → install it, then `ralph trust` records its path
        + 1 problem found
        ");
        assert_snapshot!(garbled, @r"
        exit 1
        - ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        - ✓ policy      `$ROOT/project/ralph.toml`, 1 gate
        - ✓ trust       a person approved what the policy runs
        - ✓ tools       every gate's program was found
        - no problems found
        + ✓ timeout     the client waits long enough for every hook
        + ✗ policy      line 5 of `$ROOT/project/ralph.toml`: unknown key `timeot`; did you mean `timeout`?
        +               → fix it; `ralph config` shows every problem
        + 1 problem found
        ");
    });
}

/// Runs whose session or project no longer exists.
#[test]
fn orphaned_runs_are_reported() {
    let sandbox = healthy_sandbox();
    let orphaned = report_after_breaking(&sandbox, || {
        let mut owner = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        sandbox.start_run([&GOAL_FROM_STDIN[..], &["--no-gates"]].concat());
        let mut command = sandbox.command();
        command.args(["hook", "claude"]).env("CLAUDE_PID", owner.id().to_string());
        assert!(run_command(&mut command, sandbox.stop_event(SESSION, "").as_bytes()).is_block());
        owner.kill().unwrap();
        owner.wait().unwrap();
    });
    let run = fs::read_dir(sandbox.ralph_home("runs")).unwrap().next().unwrap().unwrap();
    sandbox.ralph(["cancel", run.file_name().to_str().unwrap()]);
    let gone = report_after_breaking(&sandbox, || {
        let place = sandbox.root().join("elsewhere");
        fs::create_dir_all(&place).unwrap();
        let place_name = place.display().to_string();
        sandbox.start_run_for(
            "other",
            [&GOAL_FROM_STDIN[..], &["--no-gates", "--project", &place_name]].concat(),
        );
        fs::remove_dir_all(&place).unwrap();
    });
    snapshot_settings().bind(|| {
        assert_snapshot!(orphaned, @"
        exit 1
        - no problems found
        + ✗ run         [run] (make it work) is orphaned: its session is gone
        +               → `ralph resume [run]` continues it, `ralph cancel [run]` ends it
        + 1 problem found
        ");
        assert_snapshot!(gone, @"
        exit 1
        - no problems found
        + ✗ run         [run] (make it work) works in `$ROOT/elsewhere`, which no longer exists
        +               → `ralph cancel [run]`
        + 1 problem found
        ");
    });
}

/// R-S4d, R-H2a: a run is `unprotected` as soon as its hooks are gone, or if its session never sends an event.
#[test]
fn a_run_without_hook_events_is_unprotected() {
    let sandbox = healthy_sandbox();
    let run = sandbox.start_run([&GOAL_FROM_STDIN[..], &["--no-gates"]].concat());
    assert_eq!(sandbox.run_status(&run).0, "armed");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.run_status(&run).0, "held");
    let original = fs::read_to_string(sandbox.project().join(LOCAL_SETTINGS)).unwrap();
    sandbox.write(LOCAL_SETTINGS, "{}");
    let mut shown = sandbox.normalize(&sandbox.ralph(["status"]).stdout);
    sandbox.write(LOCAL_SETTINGS, original.replacen('{', "{\"disableAllHooks\": true,", 1));
    shown.push_str(&format!("\n{}", sandbox.normalize(&sandbox.ralph(["status"]).stdout)));
    let status = sandbox.status();
    let run_json = &status["runs"][0];
    let fields = format!("\n{} {}", run_json["status"], run_json["unprotected"]);
    shown.push_str(&sandbox.normalize(&fields));
    shown.push_str(&format!(
        "\n{}",
        normalize_lines(&sandbox, &run_doctor(&sandbox).stdout).join("\n")
    ));
    sandbox.write(LOCAL_SETTINGS, &original);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.run_status(&run).0, "held");

    let silent = self::healthy_sandbox();
    let run = silent.start_run([&GOAL_FROM_STDIN[..], &["--no-gates"]].concat());
    let directory = silent.ralph_home("runs").join(&run);
    let journal = fs::read_to_string(directory.join("journal.jsonl")).unwrap();
    let mut first: Value = serde_json::from_str(&journal).unwrap();
    let then = first["at_ms"].as_u64().unwrap() - 10 * 60_000;
    first["at_ms"] = then.into();
    first["change"]["started"]["started_ms"] = then.into();
    fs::write(directory.join("journal.jsonl"), format!("{first}\n")).unwrap();
    for derived in ["run.json", "state.json", "count"] {
        fs::remove_file(directory.join(derived)).unwrap();
    }
    shown.push_str(&format!("\n{}", silent.normalize(&silent.ralph(["status"]).stdout)));
    let board = silent.normalize(&silent.ralph(["watch", "--once"]).stdout).replace(&run, "[run]");
    // Its first line has the time since when ended runs are shown.
    shown.extend(board.lines().skip(1).map(|line| format!("\n{line}")));
    let mut settings = snapshot_settings();
    settings
        .add_filter(r#"\\?"?`?\$ROOT/project/.claude/settings.local.json`?\\?"?"#, "[settings]");
    settings.add_filter(r"\d+ (ms|s) of", "[duration] of");
    settings.bind(|| {
        assert_snapshot!(shown, @r#"
        [run]  unprotected   make it work
              claude 5999882c · iteration 1 of 25 · [duration] of 8 h
              ✗ unprotected: no settings file or plugin calls ralph at a stop
                `ralph init` in its project
              ✗ goal
        [run]  unprotected   make it work
              claude 5999882c · iteration 1 of 25 · [duration] of 8 h
              ✗ unprotected: `disableAllHooks` in [settings]
                remove `disableAllHooks` from [settings]
              ✗ goal
        "unprotected" "`disableAllHooks` in [settings]
        ✓ settings    local: [settings] is loaded
        ✗ hooks on    `disableAllHooks` in [settings] disables every hook
                      → remove `disableAllHooks` from [settings]
        ✓ registered  13 of 13 events, in the local settings
        ✓ hook        fired: `$ROOT/bin/ralph hook claude` in the local settings, 13 events
        ✓ holds       it holds an unfinished run
        ✓ version     `$ROOT/bin/ralph` is ralph [version]
        ✓ timeout     the client waits long enough for every hook; gates may take 5 min
        ✓ cap         the client allows 30 consecutive blocks
        ✓ home        `$ROOT/home/.ralph` is writable, by you only
        ✗ run         [run] (make it work) is unprotected: `disableAllHooks` in [settings]
                      → remove `disableAllHooks` from [settings]
        ✓ policy      `$ROOT/project/ralph.toml`, 1 gate
        ✓ trust       a person approved what the policy runs
        ✓ tools       every gate's program was found
        ✓ git         `$ROOT/project` is a repository
        · client      `claude` is not on the `PATH`

        2 problems found
        [run]  unprotected   make it work
              claude 5999882c · iteration 0 of 25 · 10 min of 8 h
              ✗ unprotected: no event of its session has ever arrived
                `ralph doctor` in its project tests the hooks

         WAITING FOR YOU                                                iter.      cost
        ▌u [run]  unprotected  make it work                 project       0/25
            no event of its session has ever arrived; `ralph doctor` in its project tes…
        "#);
    });
}

/// `--json` prints one object. An agent may not use `--fix`.
#[test]
fn json_output_is_one_object_and_agents_cannot_fix() {
    let sandbox = healthy_sandbox();
    fs::set_permissions(sandbox.ralph_home(""), fs::Permissions::from_mode(0o755)).unwrap();
    let found = sandbox.ralph(["doctor", "--json"]);
    let value: Value = serde_json::from_str(&found.stdout).unwrap();
    let bad: Vec<_> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["status"] == "bad")
        .collect();
    let head = found.stdout.split("\"checks\"").next().unwrap();
    let shown = format!("exit {}\n{}\n{bad:#?}", found.code.unwrap(), sandbox.normalize(head));
    let mut agent = sandbox.command();
    agent.args(["doctor", "--fix"]).env("CLAUDECODE", "1");
    let refused = run_command(&mut agent, b"");
    snapshot_settings().bind(|| {
        assert_snapshot!(sandbox.normalize(&shown), @r#"
        exit 1
        {"v":1,"project":"$ROOT/project","wrong":1,"fixed":[],"failed":[],
        [
            Object {
                "fix": String("`chmod 700 $ROOT/home/.ralph`"),
                "name": String("home"),
                "repairable": Bool(true),
                "status": String("bad"),
                "what": String("`$ROOT/home/.ralph` is accessible to other users (mode 755)"),
            },
        ]
        "#);
        assert_snapshot!(refused, @"
        exit 1
        --- stderr
        error: an agent may not repair ralph
          hint: ask a person to do this in their own terminal; without `--fix` nothing changes
        ");
    });
}
