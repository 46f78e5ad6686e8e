//! `ralph init --native-judge`: the client's own stop hook that asks a model.

use crate::sandbox::{Sandbox, read_files, write_file};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const SETTINGS: &str = ".claude/settings.local.json";
/// Hooks of other tools, one of them with a question of its own, in a layout that no program would write.
const FOREIGN: &str = r#"{ "model":"opus",
   "hooks": {
     "Stop":[ { "hooks": [{"type":"prompt", "prompt":"Is the changelog updated? $ARGUMENTS"}] },
              {"hooks":[ {"type": "command", "command": "./lint.sh"} ]} ]
   } }"#;

fn prepared_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let bin = sandbox.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_ralph"), bin.join("ralph")).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let sandbox = sandbox.env("PATH", &path);
    write_file(&sandbox.project().join(SETTINGS), FOREIGN);
    sandbox.commit();
    sandbox
}

fn settings_text(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.project().join(SETTINGS)).unwrap()
}

/// Every stop hook: its type, and its command or question.
fn stop_hooks(sandbox: &Sandbox) -> Vec<String> {
    let settings: Value = serde_json::from_str(&settings_text(sandbox)).unwrap();
    let groups = settings["hooks"]["Stop"].as_array().unwrap();
    let hooks = groups.iter().flat_map(|group| group["hooks"].as_array().unwrap());
    let text = |hook: &Value| {
        let said = hook["command"].as_str().or(hook["prompt"].as_str()).unwrap();
        let said = sandbox.normalize(said);
        format!("{}: {}", hook["type"].as_str().unwrap(), said.chars().take(40).collect::<String>())
    };
    hooks.map(text).collect()
}

fn init(sandbox: &Sandbox, more: &[&str]) -> Value {
    let done = sandbox.ralph([&["init", "--yes", "--no-gates", "--json"], more].concat());
    assert_eq!(done.code, Some(0), "{done}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// R-D2c: the whole change and its price are shown before anything is written.
#[test]
fn the_hook_and_its_price_are_shown_first() {
    let sandbox = prepared_sandbox();
    let shown = sandbox.ralph(["init", "--dry-run", "--no-gates", "--minimal", "--native-judge"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    let shown = sandbox.normalize(&shown.stdout);
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("native") || line.contains("it ") || line.contains("its "))
        .filter(|line| !line.contains("temporary") && !line.starts_with("create"))
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    +              { "hooks": [{ "type": "prompt", "prompt": "The person's last request is done. Tool results in the conversation are evidence; what the assistant says about its own work is not. Not done: a part of the request is missing, the tests fail or did not run after the last edit, or work is announced and not carried out. A question that only the person can answer counts as done. Event: $ARGUMENTS (ralph init --native-judge)", "timeout": 60, "statusMessage": "the client's own judge is reading" }] } ],
    note: the native judge sends the whole conversation to a model at every stop: 46,000 tokens a call in one measurement
    note: it can be persuaded: a false claim passed on the second try in 2 of 3 measured runs
    note: it fails open: after an unreadable answer, an API error or a timeout the agent may stop
    note: its answer is never evidence for ralph, which always runs its own gates; `ralph init --native-judge=off` removes it
    "#);
    assert_eq!(settings_text(&sandbox), FOREIGN);
    let agent = sandbox.ralph(["init", "--dry-run", "--no-gates", "--native-judge=agent"]);
    assert!(agent.stdout.contains("it can read files, but not run your tests"), "{agent}");
    let wrong = sandbox.ralph(["init", "--native-judge=jury"]);
    assert_eq!(wrong.code, Some(1), "{wrong}");
}

#[test]
fn it_is_written_once_beside_other_hooks_and_removed_to_the_byte() {
    let sandbox = prepared_sandbox();
    let before = read_files(sandbox.project());
    let plain = init(&sandbox, &[]);
    assert_eq!(plain["native_judge"], Value::Null);
    let without = settings_text(&sandbox);

    let done = init(&sandbox, &["--native-judge"]);
    assert_eq!((&done["status"], &done["native_judge"]), (&json!("written"), &json!("prompt")));
    let with = settings_text(&sandbox);
    assert_eq!(
        stop_hooks(&sandbox),
        [
            "prompt: Is the changelog updated? $ARGUMENTS",
            "command: ./lint.sh",
            "command: $ROOT/bin/ralph hook claude",
            "prompt: The person's last request is done. Tool ",
        ]
    );
    // Again, and without the option: nothing changes. Neither is it mistaken for a hook of another tool.
    for more in
        [&["--native-judge"][..], &["--native-judge=prompt"], &[], &["--replace", "--dry-run"]]
    {
        if more.contains(&"--dry-run") {
            let shown = sandbox.ralph(["init", "--no-gates", "--replace", "--dry-run"]);
            let found: Vec<&str> =
                shown.stdout.lines().filter(|line| line.starts_with("found:")).collect();
            assert_eq!(
                found,
                ["found: hook at Stop `a hook of type prompt`", "found: hook at Stop `./lint.sh`"]
            );
            continue;
        }
        let again = init(&sandbox, more);
        assert_eq!(
            (&again["status"], &again["native_judge"]),
            (&json!("unchanged"), &json!("prompt")),
            "{more:?}"
        );
        assert_eq!(settings_text(&sandbox), with, "{more:?}");
    }
    let agent = init(&sandbox, &["--native-judge=agent"]);
    assert_eq!(agent["native_judge"], "agent");
    let judges = |kind: &str| {
        let begin = format!("{kind}: The person's last request is done");
        stop_hooks(&sandbox).iter().filter(|hook| hook.starts_with(&begin)).count()
    };
    assert_eq!((judges("prompt"), judges("agent")), (0, 1));
    let off = init(&sandbox, &["--native-judge=off"]);
    assert_eq!(off["native_judge"], Value::Null);
    assert_eq!(settings_text(&sandbox), without);

    init(&sandbox, &["--native-judge=agent"]);
    let out = sandbox.ralph(["uninstall", "--yes"]);
    assert_eq!(out.code, Some(0), "{out}");
    assert_eq!(read_files(sandbox.project()), before);
}

/// A prompt of one's own stays, and is still removed.
#[test]
fn an_edited_prompt_stays_and_is_removed() {
    let sandbox = prepared_sandbox();
    init(&sandbox, &["--native-judge"]);
    let edited = settings_text(&sandbox)
        .replace("The person's last request is done.", "The docs describe the change.");
    fs::write(sandbox.project().join(SETTINGS), &edited).unwrap();
    assert_eq!(init(&sandbox, &["--native-judge"])["status"], "unchanged");
    assert_eq!(settings_text(&sandbox), edited);
    let out = sandbox.ralph(["uninstall", "--yes"]);
    assert_eq!(out.code, Some(0), "{out}");
    assert_eq!(settings_text(&sandbox), FOREIGN);
}

#[test]
fn doctor_recognizes_it() {
    let sandbox = prepared_sandbox();
    init(&sandbox, &["--native-judge"]);
    let shown = sandbox.ralph(["doctor"]);
    let lines = shown.stdout.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .skip_while(|line| !line.contains("asks a model"))
        .take_while(|line| !line.contains("home"))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    · judge       a hook of type `prompt` in the local settings asks a model at every stop; its answer is never evidence for ralph
    → `ralph init --native-judge=off` removes it
    · others      a hook of type `prompt` in the local settings also answers stops, independently
    · others      `./lint.sh` in the local settings also answers stops, independently
    ");
}
