//! The Claude Code plugin of this repository: its hooks, its texts, and that it does nothing without the program.

use crate::sandbox::{SESSION, Sandbox, run_command};
use ralph_core::slash_command::{self, SlashCommand};
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_install::install::program_path::RalphProgram;
use ralph_install::install::registration::{self, GateWarming, HookExtent, RegistrationChoice};
use ralph_install::install::{program_link, slash_commands};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DESCRIPTION: &str = "ralph's hooks; they do nothing if the program is not installed";
/// The command of the plugin's hooks. It does nothing if ralph is not installed.
const PLUGIN_HOOK_COMMAND: &str =
    "[ ! -x ~/.ralph/bin/ralph ] || exec ~/.ralph/bin/ralph hook claude";
/// Reports a missing program when a session starts.
const MISSING_PROGRAM_COMMAND: &str = r#"[ -x ~/.ralph/bin/ralph ] || echo '{"systemMessage": "ralph: the plugin is installed, but the program is not, so no session is held. In a checkout of ralph, run `cargo install --path crates/ralph`, then `ralph init --plugin`"}'"#;

/// Words that no text for an agent may contain.
const FORBIDDEN_WORDS: [&str; 11] = [
    "!",
    "must",
    "never give up",
    "important",
    "critical",
    "bypass",
    "workaround",
    "pretend",
    "sudo",
    "--force",
    "please",
];

fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read_json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(repository_path(path)).unwrap()).unwrap()
}

#[test]
fn the_marketplace_lists_the_plugin_with_matching_metadata() {
    let market = read_json(".claude-plugin/marketplace.json");
    let plugin = read_json("plugin/.claude-plugin/plugin.json");
    assert_eq!(market["plugins"].as_array().unwrap().len(), 1);
    let entry = &market["plugins"][0];
    assert_eq!(
        (&market["name"], &entry["name"], &entry["source"]),
        (&"ralph".into(), &"ralph".into(), &"./plugin".into())
    );
    assert_eq!(
        (&plugin["name"], &plugin["version"]),
        (&"ralph".into(), &env!("CARGO_PKG_VERSION").into())
    );
    assert_eq!(plugin["description"], entry["description"]);
}

/// The plugin's hooks are generated from the host's table of events, like the references in `docs`.
#[test]
fn the_plugin_hooks_reference_is_current() {
    let host: &HostProfile = &ralph_host::claude::PROFILE;
    let program = RalphProgram::from_path(Path::new("/ralph")).unwrap();
    let choice =
        RegistrationChoice { extent: HookExtent::Full, warming: GateWarming::Off, gates_ms: 0 };
    let events = registration::hook_entries(host, &program, choice).into_iter().map(|mut entry| {
        entry.command = PLUGIN_HOOK_COMMAND.to_owned();
        let mut groups = format!("      {}", (host.settings.render_hook)(&entry));
        if entry.event == "SessionStart" {
            entry.matcher = Some("startup|resume");
            entry.command = MISSING_PROGRAM_COMMAND.to_owned();
            entry.timeout = 5;
            groups.push_str(&format!(",\n      {}", (host.settings.render_hook)(&entry)));
        }
        format!("    \"{}\": [\n{groups}\n    ]", entry.event)
    });
    let events = events.collect::<Vec<_>>().join(",\n");
    let expected =
        format!("{{\n  \"description\": \"{DESCRIPTION}\",\n  \"hooks\": {{\n{events}\n  }}\n}}\n");
    let path = repository_path("plugin/hooks/hooks.json");
    if std::env::var_os("RALPH_GENERATE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        expected,
        "plugin/hooks/hooks.json is out of date: `RALPH_GENERATE=1 cargo test -p ralph reference`"
    );
}

/// Runs a command as the client does, without the sandbox's environment.
fn run_in_shell(sandbox: &Sandbox, command: &str, stdin: &str) -> crate::sandbox::CommandOutcome {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env_clear().env("HOME", sandbox.home());
    shell.env("PATH", "/usr/bin:/bin").current_dir(sandbox.project());
    run_command(&mut shell, stdin.as_bytes())
}

/// Without the program the hooks do nothing, and the start of a session reports that it is missing.
#[test]
fn without_the_program_only_session_start_prints_a_notice() {
    let sandbox = Sandbox::new();
    let stop = sandbox.stop_event(SESSION, "");
    let quiet = run_in_shell(&sandbox, PLUGIN_HOOK_COMMAND, &stop);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(0), "", ""));
    let reported = run_in_shell(&sandbox, MISSING_PROGRAM_COMMAND, "{}");
    assert_eq!((reported.code, reported.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(reported.stdout.trim_end(), @r#"{"systemMessage": "ralph: the plugin is installed, but the program is not, so no session is held. In a checkout of ralph, run `cargo install --path crates/ralph`, then `ralph init --plugin`"}"#);
}

#[test]
fn with_the_program_the_plugin_holds_a_session() {
    let sandbox = Sandbox::new();
    let home = RalphHome::new(sandbox.home().join(".ralph"));
    program_link::refresh_link(&home, Path::new(env!("CARGO_BIN_EXE_ralph"))).unwrap();
    let stop = sandbox.stop_event(SESSION, "");
    let free = run_in_shell(&sandbox, PLUGIN_HOOK_COMMAND, &stop);
    assert_eq!((free.code, free.stdout.as_str(), free.stderr.as_str()), (Some(0), "", ""));
    sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    let held = run_in_shell(&sandbox, PLUGIN_HOOK_COMMAND, &stop);
    assert!(held.is_block(), "{held}");
    let quiet = run_in_shell(&sandbox, MISSING_PROGRAM_COMMAND, "{}");
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(0), "", ""));
}

/// The front matter as key-value pairs, and the body.
fn split_front_matter(text: &str) -> (Vec<(&str, &str)>, &str) {
    let (front, body) = text.strip_prefix("---\n").unwrap().split_once("\n---\n\n").unwrap();
    (front.lines().map(|line| line.split_once(": ").unwrap()).collect(), body)
}

#[test]
fn init_installs_every_command_of_the_plugin() {
    let mut there: Vec<String> = fs::read_dir(repository_path("plugin/commands"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut named: Vec<String> = slash_commands::COMMAND_FILES
        .iter()
        .map(|(path, _)| path.rsplit('/').next().unwrap().to_owned())
        .collect();
    named.sort();
    assert_eq!(named, there);
    for (path, text) in slash_commands::COMMAND_FILES {
        let file = repository_path("plugin/commands").join(path.rsplit('/').next().unwrap());
        assert_eq!(*text, fs::read_to_string(file).unwrap(), "{path}");
    }
}

/// ralph parses every slash command of the plugin, and only a person can invoke it, except `ask`.
#[test]
fn every_slash_command_is_known_and_only_for_people() {
    for (path, text) in slash_commands::COMMAND_FILES {
        let typed = format!("/{} x", path.trim_end_matches(".md").replace('/', ":"));
        let (front, body) = split_front_matter(text);
        let keys: Vec<_> = front.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys[0], "description", "{path}");
        let is_refused = front.contains(&("disable-model-invocation", "true"));
        match slash_command::parse(&typed) {
            Some(Ok(SlashCommand::Ask)) => assert!(!is_refused, "{path}"),
            Some(Ok(SlashCommand::Plan)) => assert!(is_refused, "{path}"),
            Some(Ok(SlashCommand::Start(_))) => {
                assert!(is_refused, "{path}");
                assert!(body.starts_with("$ARGUMENTS\n\n"), "{path}");
                assert!(
                    body.contains("`ralph ask \"…\"`")
                        && body.contains("`ralph wait \"…\" --for 20m`")
                        && body.contains("`ralph dispute REQUIREMENT \"…\"`")
                );
            }
            // The others take no argument, a run, or a subject.
            Some(Ok(SlashCommand::Resume(_) | SlashCommand::Tell(_)) | Err(_)) => {
                assert!(is_refused, "{path}");
                let alone = typed.trim_end_matches(" x");
                let is_tell =
                    matches!(slash_command::parse(&typed), Some(Ok(SlashCommand::Tell(_))));
                assert!(is_tell || matches!(slash_command::parse(alone), Some(Ok(_))), "{path}");
                assert!(body.contains(&format!("`{alone}`")), "{path}");
            }
            other => panic!("{path}: {other:?}"),
        }
        assert!(body.contains("`ralph doctor`"), "{path}");
    }
}

#[test]
fn command_texts_are_short_and_plain() {
    for (path, text) in slash_commands::COMMAND_FILES {
        let length = text.chars().count();
        assert!(length <= 1_500, "{path} has {length} characters");
        let lower = text.to_lowercase();
        for word in FORBIDDEN_WORDS {
            assert!(!lower.contains(&word.to_lowercase()), "{path} contains `{word}`");
        }
        assert!(
            !text.contains("`.\n") && !text.trim_end().ends_with("`."),
            "{path}: a full stop after something to copy"
        );
    }
}
