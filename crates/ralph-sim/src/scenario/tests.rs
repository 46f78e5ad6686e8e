//! Error messages with their locations, and round trips through the writer.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

pub(super) fn mistakes(text: &str) -> String {
    match parse(text, Path::new("/scenarios/one.toml")) {
        Ok(_) => "no mistake".to_owned(),
        Err(ScenarioError::Invalid(problems)) => {
            let shown = problems.iter().map(|problem| {
                let before = problem.source.get(..problem.span.start).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                let place = problem.source.get(problem.span.clone()).unwrap_or("?");
                let hint = problem.hint.as_deref().map(|hint| format!("\n   {hint}"));
                let hint = hint.unwrap_or_default();
                format!("{line}: {place:?}\n   {}{hint}", problem.message)
            });
            shown.collect::<Vec<_>>().join("\n")
        }
        Err(other) => other.to_string(),
    }
}

/// A scenario with the required prompt on its first line.
fn with_prompt(rest: &str) -> String {
    format!("step = [{{ person = \"go\" }}]\n{rest}")
}

#[test]
fn keys_and_types_are_checked() {
    let cases = [
        "nmae = 'x'",
        "colour = 'x'",
        "name = 5",
        "name = true",
        "name = ['x']",
        "setup = 'make'",
        "summary = { text = 'x' }",
        "[client]\nmax_turn = 3",
        "[client]\nmax_turns = -3",
        "[client]\nsession = '../x'",
        "[[hook]]\ncommand = 'x'",
        "[[hook]]\nevent = 'Stop'\ncommand = 'x'\nin = 'projct'",
        "[[hook]]\nevent = 'Stop'\ncommand = 'x'\ntimeout = '5'",
        "[[plugin]]\nname = 'a/b'",
        "[[subagent]]\nprompt = 'p'\nstep = [{ agent = 'x', repeat = 'often' }]",
        "[[subagent]]\nprompt = 'p'\nstep = [{ agent = 'x', repeat = 0 }]",
        "[[subagent]]\nprompt = 'p'\nstep = [{ agent = 'x', interrupt = 'now' }]",
        "[expect]\nstop = 1",
        "[expect]\nfiles = 'a'",
    ];
    let shown = cases.map(|case| format!("{}\n", mistakes(&with_prompt(case))));
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn events_and_hooks_are_checked() {
    let cases = [
        "[[hook]]\nevent = 'Stopp'\ncommand = 'x'",
        "[[hook]]\nevent = 'OnSave'\ncommand = 'x'",
        "[[hook]]\nevent = 'Stop'",
        "[[hook]]\nevent = 'Stop'\ncommand = 'x'\nscript = 'y'",
        "[[hook]]\nevent = 'Stop'\nscript = 'y'\nargs = ['z']",
        "[[plugin]]\nname = 'p'\nhook = [{ event = 'Stop' }]",
    ];
    let shown = cases.map(|case| format!("{}\n", mistakes(&with_prompt(case))));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    3: "'Stopp'"
       unknown event `Stopp`
       did you mean `Stop`?

    3: "'OnSave'"
       unknown event `OnSave`
       expected one of SessionStart, UserPromptSubmit, UserPromptExpansion, PreToolUse, PostToolUse, PostToolUseFailure, PostToolBatch, Stop, SubagentStart, SubagentStop, TaskCreated, TaskCompleted, TeammateIdle, PreCompact, PostCompact, StopFailure, SessionEnd, Notification

    3: "'Stop'"
       this hook has no command
       use `command`, with or without `args`, or `script`, `prompt` or `agent`

    3: "'Stop'"
       this hook has both `command` and `script`
       use `command`, with or without `args`, or `script`, `prompt` or `agent`

    3: "'Stop'"
       `args` needs `command`
       use `command`, with or without `args`, or `script`, `prompt` or `agent`

    4: "'Stop'"
       this hook has no command
       use `command`, with or without `args`, or `script`, `prompt` or `agent`
    "#);
}

#[test]
fn a_step_does_exactly_one_thing() {
    let cases = [
        "",
        "[[step]]\nagent = 'x'",
        "[[step]]\nperson = 'x'\nagent = 'y'",
        "[[step]]\nperson = 'x'\n[[step]]\nsession = 'resume'\nagent = 'y'",
        "[[step]]\nperson = 'x'\n[[step]]\n[[step]]\ndelay_ms = 5",
        "[[step]]\nperson = 'x'\n[[step]]\ntools = [{ run = 'x', read = 'y' }, { text = 'z' }, { input = {} }]",
        "[[step]]\nperson = 'x'\n[[subagent]]\nprompt = 'p'\nstep = [{ person = 'y' }]",
        "[[step]]\nperson = 'x'\n[[step]]\nerror = { status = 529 }",
        "[[step]]\nperson = 'x'\nusage = { input = 1 }\n[[step]]\nsession = 'fork'\nrepeat = 2",
        "[[step]]\nperson = 'x'\n[[step]]\ntools = [{ run = 'x', text = 'y' }, { read = 'x', background = true }]",
    ];
    let shown = cases.map(|case| format!("{}\n", mistakes(case)));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    1: ""
       this scenario has no prompt
       begin with a `[[step]]` that has `person = "…"`

    1: ""
       this scenario has no prompt
       begin with a `[[step]]` that has `person = "…"`

    1: "[[step]]"
       this is more than one step
       use one of `person`, `session`, or `agent` with its `tools`

    3: "[[step]]"
       this is more than one step
       use one of `person`, `session`, or `agent` with its `tools`

    3: "[[step]]"
       this step does nothing
       use one of `person`, `session`, or `agent` with its `tools`
    4: "[[step]]"
       this step does nothing
       use one of `person`, `session`, or `agent` with its `tools`

    4: "{ run = 'x', read = 'y' }"
       this is more than one tool call
       use one of `run`, `write`, `edit`, `read`, `agent` and `tool`
    4: "{ text = 'z' }"
       this calls no tool
       use one of `run`, `write`, `edit`, `read`, `agent` and `tool`
    4: "{ input = {} }"
       this calls no tool
       use one of `run`, `write`, `edit`, `read`, `agent` and `tool`

    5: "{ person = 'y' }"
       this step is not allowed in a subagent
       use `agent` steps

    4: "{ status = 529 }"
       missing key `type`

    1: "[[step]]"
       `usage` is only for agent steps
    4: "[[step]]"
       `repeat` is only for agent steps

    4: "{ run = 'x', text = 'y' }"
       `text` is only for `write`
    4: "{ read = 'x', background = true }"
       `background` is only for `run` and `agent`
    "#);
}

#[test]
fn limits_of_prompts_directories_and_plugins() {
    let forever = "[[step]]\nperson = \"Go.\"\nrepeat = \"forever\"";
    let large = "[[step]]\nperson = \"Go.\"\nrepeat = 4000000000";
    let out = "[client]\ndirectory = \"../x\"\n[[step]]\nperson = \"Go.\"";
    let both = "[[plugin]]\nname = \"p\"\ncopy = \"no\"\n[[plugin.hook]]\nevent = \"Stop\"\ncommand = \"x\"\n[[step]]\nperson = \"Go.\"";
    insta::assert_snapshot!([forever, large, out, both].map(mistakes).join("\n\n"), @r#"
    3: "\"forever\""
       a prompt has at most 4194304 bytes

    3: "4000000000"
       a prompt has at most 4194304 bytes

    2: "\"../x\""
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`

    3: "\"no\""
       this plugin has both `copy` and hooks
       use either `copy` or `[[plugin.hook]]`
    3: "\"no\""
       directory `/scenarios/no` does not exist
       the path is relative to the scenario file
    "#);
    let scenario = parse("[[step]]\nperson = \"Go.\"\nrepeat = 3", Path::new("one.toml")).unwrap();
    assert_eq!(scenario.steps, [ScenarioStep::Person("Go.Go.Go.".to_owned())]);
}

#[test]
fn only_the_fake_client_crashes_hangs_and_has_limits() {
    let text = "\
        [[step]]\ncrash = \"stop\"\n[[step]]\nagent = \"x\"\ncrash = { at = \"idle\", exit = 3 }\n[[step]]\nhang = \"client\"\n\
        [[step]]\nrate_limit = { resets_in_ms = 5 }\n[[step]]\nerror = { status = 0, type = \"\", message = \"\" }\n";
    insta::assert_snapshot!(mistakes(text), @r#"
    1: ""
       this scenario has no prompt
       begin with a `[[step]]` that has `person = "…"`
    2: "\"stop\""
       only the fake client supports this
       set `only = "pretend"`
    5: "{ at = \"idle\", exit = 3 }"
       only the fake client supports this
       set `only = "pretend"`
    7: "\"client\""
       only the fake client supports this
       set `only = "pretend"`
    9: "{ resets_in_ms = 5 }"
       only the fake client supports this
       set `only = "pretend"`
    11: "0"
       only the fake client supports this
       set `only = "pretend"`
    "#);
    let text = format!("only = \"pretend\"\n{text}");
    assert_eq!(mistakes(&text), "no mistake");
    let scenario = parse(&text, Path::new("one.toml")).unwrap();
    assert_eq!(parse(&write(&scenario), Path::new("one.toml")).unwrap(), scenario);
    let wrong = [
        "crash = \"never\"",
        "crash = { at = \"stop\" }",
        "crash = \"stop\"\nhang = \"answer\"",
        "hang = \"forever\"",
        "rate_limit = { status = \"reject\" }",
        "rate_limit = { resets = 5 }",
        "person = \"x\"\ncrash = \"stop\"",
    ];
    let wrong = wrong.map(|keys| mistakes(&format!("only = \"pretend\"\n[[step]]\n{keys}")));
    insta::assert_snapshot!(wrong.join("\n"), @r#"
    3: "\"never\""
       expected a point in a turn, or { at = "…", exit = 1 }
    3: "{ at = \"stop\" }"
       expected a point in a turn, or { at = "…", exit = 1 }
    4: "\"answer\""
       a turn cannot both crash and hang
       use either `crash` or `hang`
    3: "\"forever\""
       unknown value `forever`
       expected one of `answer`, `client`
    3: "\"reject\""
       unknown rate limit status `reject`
       did you mean `rejected`?
    3: "resets"
       unknown key `resets`
       expected one of `status`, `type`, `resets_in_ms`, `used_percent`
    2: "[[step]]"
       this is more than one step
       use one of `person`, `session`, or `agent` with its `tools`
    "#);
}

#[test]
fn only_a_terminal_has_a_screen() {
    let text =
        "[[step]]\nperson = \"Go.\"\n[[step]]\nscreen = \"held\"\n[expect]\nscreen = [\"held\"]\n";
    insta::assert_snapshot!(mistakes(text), @r#"
    3: "[[step]]"
       `screen` needs a terminal
       set `only = "terminal"`
    6: "[\"held\"]"
       `screen` needs a terminal
       set `only = "terminal"`
    "#);
    assert_eq!(mistakes(&format!("only = \"terminal\"\n{text}")), "no mistake");
}

#[test]
fn a_shell_command_has_at_most_one_question_with_its_answer() {
    assert_eq!(
        mistakes("only = \"terminal\"\n[[step]]\nshell = \"a\"\nasks = \"?\"\nanswer = \"y\"\n"),
        "no mistake"
    );
    let wrong = [
        "shell = \"a\"\nasks = \"?\"",
        "person = \"a\"\nasks = \"?\"\nanswer = \"y\"",
        "shell = \"a\"\nscreen = \"b\"",
        "shell = \"a\"\nagent = \"b\"",
        "shell = \"a\"\nkeys = [\"q\"]",
    ];
    let wrong = wrong.map(|keys| mistakes(&format!("only = \"terminal\"\n[[step]]\n{keys}")));
    let simulated = mistakes("[[step]]\nshell = \"a\"");
    insta::assert_snapshot!(format!("{}\n{simulated}", wrong.join("\n")), @r#"
    2: "[[step]]"
       `asks` and `answer` are for one question of a `shell` command
       use both beside `shell`, or neither
    2: "[[step]]"
       `asks` and `answer` are for one question of a `shell` command
       use both beside `shell`, or neither
    2: "[[step]]"
       this is more than one step
       use one of `person`, `session`, or `agent` with its `tools`
    2: "[[step]]"
       this is more than one step
       use one of `person`, `session`, or `agent` with its `tools`
    2: "[[step]]"
       `keys` are pressed once the terminal shows a text
       add `screen`, the text to wait for
    1: "[[step]]"
       `shell` needs a terminal
       set `only = "terminal"`
    "#);
}

#[test]
fn contradictory_expectations_are_errors() {
    let cases = [
        "stops = 1\nblocks = 2",
        "requests = 1\nstops = 2",
        "blocks = 1\nreasons = ['a', 'b']",
        "endings = ['completed', 'completed']",
        "endings = ['complete']",
        "endings = ['well']",
        "events = ['Stop', 'Stoop']",
        "absent = ['a']\nfiles = { a = 'x' }",
        "stops = 1\nblocks = 2\nreasons = ['a', 'b', 'c']\nrequests = 0",
    ];
    let shown =
        cases.map(|case| format!("{}\n", mistakes(&with_prompt(&format!("[expect]\n{case}")))));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    4: "2"
       there cannot be more blocks (2) than stops (1)

    4: "2"
       there cannot be more stops (2) than requests (1)

    4: "['a', 'b']"
       there cannot be more reasons (2) than blocks (1)

    3: "'completed'"
       there cannot be more endings (2) than prompts (1)

    3: "'complete'"
       unknown ending `complete`
       did you mean `completed`?

    3: "'well'"
       unknown ending `well`
       expected one of completed, stop_hook_prevented, hook_stopped, tool_deferred, prompt_blocked, api_error, image_error, max_turns, aborted_streaming, aborted_tools

    3: "'Stoop'"
       unknown event `Stoop`
       did you mean `Stop`?

    3: "'a'"
       this file is expected both to exist and to be absent

    3: "1"
       there cannot be more stops (1) than requests (0)
    4: "2"
       there cannot be more blocks (2) than stops (1)
    5: "['a', 'b', 'c']"
       there cannot be more reasons (3) than blocks (2)
    "#);
    let background = "[[step]]\nperson = 'x'\n[[step]]\ntools = [{ run = 'x', background = true }]\n\
        [expect]\nendings = ['completed', 'completed']";
    assert_eq!(mistakes(background), "no mistake");
}

#[test]
fn files_stay_inside_the_scratch_directory() {
    let cases = [
        "copy = 'nowhere'",
        "[files]\n\"../x\" = ''",
        "[files]\n\"/etc/passwd\" = ''",
        "[home]\n\"\" = ''",
        "[expect]\nabsent = ['a/../../b']\nfiles = { \"./x\" = '' }",
    ];
    let shown = cases.map(|case| format!("{}\n", mistakes(&with_prompt(case))));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    2: "'nowhere'"
       directory `/scenarios/nowhere` does not exist
       the path is relative to the scenario file

    3: "\"../x\""
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`

    3: "\"/etc/passwd\""
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`

    3: "\"\""
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`

    3: "'a/../../b'"
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`
    4: "\"./x\""
       the path must stay inside the scratch directory
       use a relative path without `.` and `..`
    "#);
}

#[test]
fn toml_syntax_errors_have_a_location() {
    let cases = [
        "name = ",
        "name = 'x",
        "name = 'x'\nname = 'y'",
        "[[step]\nperson = 'x'",
        "person 'x'",
        "name = \"\\q\"",
        "\u{0}",
    ];
    let shown = cases.map(|case| format!("{}\n", mistakes(case)));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    1: ""
       string values must be quoted, expected literal string

    1: ""
       invalid literal string, expected `'`

    2: "name"
       duplicate key

    1: ""
       unclosed array table, expected `]`

    1: ""
       key with no value, expected `=`

    1: ""
       missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\`, `"`, `x`, `u`, `U`

    1: ""
       key with no value, expected `=`
    "#);
}

#[test]
fn errors_of_unreadable_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        ralph_sys::fs::replace_with_mode(&path, bytes, ralph_sys::fs::SharedFileMode::Ordinary)
            .unwrap();
        path
    };
    let cases = [
        directory.path().join("missing.toml"),
        directory.path().to_owned(),
        write("latin.toml", b"name = '\xe4'"),
        write("large.toml", &vec![b'#'; 4 * 1024 * 1024 + 1]),
    ];
    let shown = cases.map(|path| {
        let error = read(&path).unwrap_err();
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        let said = format!("{error}{}", source.unwrap_or_default());
        said.replace(&*directory.path().to_string_lossy(), "DIR")
    });
    insta::assert_snapshot!(shown.join("\n"), @"
    cannot read `DIR/missing.toml`: No such file or directory (os error 2)
    cannot read `DIR`: it is not a regular file
    `DIR/latin.toml` is not UTF-8
    cannot read `DIR/large.toml`: it is larger than 4194304 bytes
    ");
}

fn turn(text: &str) -> ScriptedTurn {
    ScriptedTurn { text: text.to_owned(), ..ScriptedTurn::default() }
}

#[expect(clippy::too_many_lines, reason = "a scenario with every key")]
fn rich() -> Scenario {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    let error = ScriptedApiError {
        status: 529,
        kind: "overloaded_error".to_owned(),
        message: "Busy".to_owned(),
    };
    let script = "#!/bin/sh\nprintf \"a\\n\" >&2\nexit 2\n";
    let hook = |run| ScenarioHook { event: "Stop".to_owned(), run, ..ScenarioHook::default() };
    Scenario {
        name: "An agent is held".to_owned(),
        only: Some(ScenarioPlayer::Terminal),
        client: ScenarioClient {
            session: Some("5999882c-e786-462c-84d4-07d1c65b5e76".to_owned()),
            directory: Some("my \"ö\" project".to_owned()),
            model: Some("claude-sonnet-5".to_owned()),
            autocompact: Some(100_000),
            max_turns: Some(9),
        },
        runner: None,
        env: map(&[("CAP", "3"), ("a.b", "x \"y\" 'z'")]),
        copy: None,
        files: map(&[("src/a.rs", "fn main() {}\n"), ("check.sh", script), ("empty", "")]),
        home: map(&[(".gitconfig", "[user]\n\tname = \"x\"\n")]),
        setup: vec!["git init".to_owned(), "true".to_owned()],
        settings: ScenarioSettings {
            user: Some(
                json!({"env": {"A": "1"}, "n": [1, 2.5, true, {}], "deep": {"x y": "z\nw"}}),
            ),
            project: None,
            local: Some(json!({})),
        },
        hooks: vec![
            ScenarioHook {
                timeout: Some(2.0),
                layer: ScenarioSettingsLayer::User,
                ..hook(ScenarioHookCommand::Script(script.to_owned()))
            },
            ScenarioHook {
                matcher: Some("Bash|Edit".to_owned()),
                is_async: true,
                timeout: Some(0.25),
                layer: ScenarioSettingsLayer::Flag,
                ..hook(ScenarioHookCommand::Program {
                    command: "x".to_owned(),
                    args: vec!["a b".to_owned()],
                })
            },
            hook(ScenarioHookCommand::Command("exit 2".to_owned())),
            hook(ScenarioHookCommand::Evaluator {
                kind: EvaluatorKind::Prompt,
                prompt: "Is it fixed? $ARGUMENTS".to_owned(),
                model: Some("claude-haiku-4-5".to_owned()),
            }),
            hook(ScenarioHookCommand::Evaluator {
                kind: EvaluatorKind::Agent,
                prompt: "Look.".to_owned(),
                model: None,
            }),
        ],
        plugins: vec![ScenarioPlugin {
            name: "p-1".to_owned(),
            copy: None,
            hooks: vec![hook(ScenarioHookCommand::Command("y".to_owned()))],
        }],
        steps: vec![
            ScenarioStep::Person("Make it work.\nThen stop.".to_owned()),
            ScenarioStep::Agent(ScriptedTurn {
                tools: vec![
                    ScriptedToolCall::Bash {
                        command: "make 'x' \"y\"".to_owned(),
                        background: true,
                    },
                    ScriptedToolCall::Write {
                        path: "a".to_owned(),
                        text: "one\n\"\"\"two\"\n'''".to_owned(),
                    },
                    ScriptedToolCall::Edit {
                        path: "a".to_owned(),
                        old: "x".to_owned(),
                        new: "\t\u{1b}[1m\r\u{202e}".to_owned(),
                    },
                    ScriptedToolCall::Read { path: "C:\\a".to_owned() },
                    ScriptedToolCall::Agent {
                        prompt: "look".to_owned(),
                        kind: "Explore".to_owned(),
                        background: false,
                    },
                    ScriptedToolCall::Other {
                        name: "Glob".to_owned(),
                        input: json!({"pattern": "**/*.rs", "n": 3}),
                    },
                ],
                usage: ScriptedUsage { input: 5, output: 6, cache_read: 7, cache_creation: 0 },
                delay_ms: 10,
                ..ScriptedTurn::default()
            }),
            ScenarioStep::Agent(ScriptedTurn {
                repeat: TurnRepeat::Forever,
                ..turn("still at it")
            }),
            ScenarioStep::Agent(ScriptedTurn {
                error: Some(error),
                repeat: TurnRepeat::Times(3),
                ..turn("")
            }),
            ScenarioStep::Session(SessionStep::Resume),
            ScenarioStep::Person("\n".to_owned()),
            ScenarioStep::Agent(turn("")),
            ScenarioStep::Agent(ScriptedTurn { interrupt: TurnInterrupt::Answer, ..turn("") }),
            ScenarioStep::Session(SessionStep::Fork),
            ScenarioStep::Session(SessionStep::New),
            ScenarioStep::Screen(ScreenStep { text: "a \"b\"".to_owned(), keys: Vec::new() }),
            ScenarioStep::Screen(ScreenStep {
                text: "Your answer".to_owned(),
                keys: vec!["keep it".to_owned(), "C-s".to_owned()],
            }),
            ScenarioStep::Shell(ShellStep {
                command: "ralph init".to_owned(),
                answer: Some(TypedAnswer { question: "[y/N]".to_owned(), text: "y".to_owned() }),
            }),
            ScenarioStep::Shell(ShellStep { command: "claude".to_owned(), answer: None }),
            ScenarioStep::Agent(ScriptedTurn {
                stop_reason: Some("max_tokens".to_owned()),
                interrupt: TurnInterrupt::Tools,
                ..turn("cut")
            }),
        ],
        subagents: vec![ScriptedSubagent {
            prompt: "look".to_owned(),
            turns: vec![turn("looked"), turn("again")],
        }],
        evaluators: vec![ScriptedSubagent {
            prompt: "Is it fixed?".to_owned(),
            turns: vec![turn("{\"ok\": true}")],
        }],
        summary: "<summary>short</summary>".to_owned(),
        expect: ScenarioExpectations {
            endings: Some(vec!["completed".to_owned(), "api_error".to_owned()]),
            results: Some(vec![String::new()]),
            stops: Some(3),
            blocks: Some(2),
            requests: Some(9),
            reasons: Some(vec!["tests fail".to_owned(), "lint".to_owned()]),
            events: Some(vec!["SessionStart".to_owned(), "Stop".to_owned()]),
            exit: Some(-1),
            files: map(&[("src/a.rs", "fn main() {}\n")]),
            says: map(&[("git log | wc -l", "0\n")]),
            absent: vec!["b".to_owned()],
            screen: vec!["held".to_owned()],
            ..ScenarioExpectations::default()
        },
    }
}

fn read_back(scenario: &Scenario) -> Scenario {
    let text = write(scenario);
    assert_eq!(mistakes(&text), "no mistake", "{text}");
    parse(&text, Path::new("one.toml")).unwrap()
}

#[test]
fn writes_readable_toml() {
    let small = Scenario {
        name: "small".to_owned(),
        steps: vec![ScenarioStep::Person("go".to_owned()), ScenarioStep::Agent(turn("Done."))],
        summary: scenario_parser::DEFAULT_SUMMARY.to_owned(),
        ..Scenario::default()
    };
    for scenario in [&small, &rich()] {
        assert_eq!(read_back(scenario), *scenario);
    }
    insta::assert_snapshot!(format!("{}\n# ———\n{}", write(&small), write(&rich())));
}

/// Text with every character that TOML treats specially.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("'''".to_owned()),
        Just("\"\"\"\"".to_owned()),
        Just("\\".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\u{0}\u{7f}\u{85}\u{feff}\u{e0041}".to_owned()),
        Just(" \t".to_owned()),
        "[ -~]{0,6}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|flag| json!(flag)),
        any::<i64>().prop_map(|number| json!(number)),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        text().prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
            proptest::collection::btree_map(text(), inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_written_scenario_parses_to_the_same_scenario(
        texts in proptest::collection::vec(text(), 5),
        fields in proptest::collection::btree_map(text(), value(), 0..4),
        timeout in proptest::option::of(0.0..1e6),
        usage in any::<[u32; 4]>(),
    ) {
        let [first, second, third, fourth, fifth] = <[String; 5]>::try_from(texts).unwrap();
        let input = json!(fields);
        let [input_tokens, output, cache_read, cache_creation] = usage.map(u64::from);
        let scenario = Scenario {
            name: first.clone(),
            env: BTreeMap::from([(second.clone(), third.clone())]),
            hooks: vec![ScenarioHook {
                event: "Stop".to_owned(),
                run: ScenarioHookCommand::Script(fourth.clone()),
                timeout,
                ..ScenarioHook::default()
            }],
            settings: ScenarioSettings { local: Some(input.clone()), ..ScenarioSettings::default() },
            steps: vec![
                ScenarioStep::Person(fifth.clone()),
                ScenarioStep::Agent(ScriptedTurn {
                    text: second.clone(),
                    tools: vec![
                        ScriptedToolCall::Other { name: third.clone(), input },
                        ScriptedToolCall::Edit { path: first, old: fourth, new: fifth },
                    ],
                    usage: ScriptedUsage { input: input_tokens, output, cache_read, cache_creation },
                    ..ScriptedTurn::default()
                }),
            ],
            summary: third,
            expect: ScenarioExpectations { reasons: Some(vec![second]), ..ScenarioExpectations::default() },
            ..Scenario::default()
        };
        prop_assert_eq!(read_back(&scenario), scenario);
    }
}
