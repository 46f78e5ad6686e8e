//! Every row was verified against the client, 2.1.325, unless noted otherwise.

use serde_json::json;

use super::*;

fn plugin(name: &str) -> HookSettingsSource {
    HookSettingsSource::Plugin {
        name: name.to_owned(),
        marketplace: "inline".to_owned(),
        root: format!("/plugins/{name}"),
    }
}

fn load_texts(layers: &[(HookSettingsSource, String)]) -> LoadedHookSettings {
    let layers: Vec<_> = layers
        .iter()
        .map(|(source, text)| HookSettingsFile { source: source.clone(), text })
        .collect();
    load(&layers)
}

fn run(name: &str) -> Value {
    json!({"type": "command", "command": name})
}

fn with(name: &str, more: &Value) -> Value {
    let mut entry = run(name);
    if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
        entry.extend(more.clone());
    }
    entry
}

fn stop(groups: &Value) -> String {
    json!({"hooks": {"Stop": groups}}).to_string()
}

fn stop_with(entries: &Value) -> String {
    stop(&json!([{"hooks": entries}]))
}

fn commands(handlers: &[&RegisteredHandler]) -> Vec<String> {
    handlers
        .iter()
        .map(|handler| match &handler.kind {
            HandlerKind::Command { command, args } => {
                args.iter().fold(command.clone(), |line, args| format!("{line} {}", args.join(" ")))
            }
            HandlerKind::Evaluator(asked) => {
                let model = asked.model.as_deref().unwrap_or("the session's model");
                format!("({} {:?} of {model})", asked.kind.name(), asked.prompt)
            }
            HandlerKind::Unsupported(kind) => format!("({kind})"),
        })
        .collect()
}

fn notices(loaded: &LoadedHookSettings) -> Vec<String> {
    loaded.notices.iter().map(SettingsNotice::to_string).collect()
}

#[test]
fn a_handler_has_all_fields_of_its_entry() {
    let text = json!({"hooks": {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [
        {"type": "command", "command": "/a", "args": ["b"], "timeout": 0.5, "async": true, "if": "Edit(*.rs)",
         "once": true, "statusMessage": "s", "unknown": 1},
        {"type": "prompt", "prompt": "is it so?"},
    ]}]}});
    let loaded = load_texts(&[(HookSettingsSource::Local, text.to_string())]);
    let handler = RegisteredHandler {
        event: "PreToolUse".to_owned(),
        kind: HandlerKind::Command { command: "/a".to_owned(), args: Some(vec!["b".to_owned()]) },
        timeout: Some(0.5),
        mode: HandlerMode::Async,
        source: HookSettingsSource::Local,
        matcher: HookMatcher::Names(vec!["Edit".to_owned(), "Write".to_owned()]),
        condition: Some("Edit(*.rs)".to_owned()),
    };
    let prompt = RegisteredHandler {
        kind: HandlerKind::Evaluator(EvaluatorHandler {
            kind: EvaluatorKind::Prompt,
            prompt: "is it so?".to_owned(),
            model: None,
            continues_on_block: false,
        }),
        timeout: None,
        mode: HandlerMode::Awaited,
        condition: None,
        ..handler.clone()
    };
    assert_eq!(
        loaded,
        LoadedHookSettings { handlers: vec![handler, prompt], ..LoadedHookSettings::default() }
    );
}

/// As observed: `async` has no effect, and another model or timeout does not make another handler.
#[test]
fn handlers_that_ask_a_model() {
    let loaded = load_texts(&[(
        HookSettingsSource::Project,
        stop_with(&json!([
            {"type": "prompt", "prompt": "one?", "async": true, "timeout": 3},
            {"type": "prompt", "prompt": "one?", "model": "claude-haiku-4-5"},
            {"type": "agent", "prompt": "one?", "continueOnBlock": true},
            {"type": "http", "url": "http://127.0.0.1/"},
            {"type": "prompt", "prompt": "two?", "model": 5},
            {"type": "agent", "prompt": "three?", "continueOnBlock": "yes"},
        ])),
    )]);
    let handlers = loaded.handlers("Stop", None);
    assert_eq!(
        commands(&handlers),
        [
            "(prompt \"one?\" of claude-haiku-4-5)",
            "(agent \"one?\" of the session's model)",
            "(http)"
        ]
    );
    assert!(handlers.iter().all(|handler| handler.mode == HandlerMode::Awaited));
    let timeouts: Vec<f64> = handlers.iter().map(|handler| loaded.timeout(handler)).collect();
    assert_eq!(timeouts, [30.0, 60.0, 600.0]);
    assert_eq!(
        notices(&loaded),
        [
            "project: Stop[0].hooks[4] has an invalid `model` (expected a string); the client ignores it",
            "project: Stop[0].hooks[5] has an invalid `continueOnBlock` (expected true or false); the client ignores it",
        ]
    );
}

#[test]
fn handlers_start_in_the_order_of_their_layers() {
    let loaded = load_texts(&[
        (plugin("b"), stop_with(&json!([run("plugin b")]))),
        (plugin("a"), stop_with(&json!([run("plugin a")]))),
        (HookSettingsSource::Flag, stop_with(&json!([run("flag")]))),
        (HookSettingsSource::Local, stop_with(&json!([run("local")]))),
        (
            HookSettingsSource::Project,
            stop(&json!([{"hooks": [run("project 1")]}, {"hooks": [run("project 2")]}])),
        ),
        (HookSettingsSource::User, stop_with(&json!([run("user")]))),
    ]);
    assert_eq!(
        commands(&loaded.handlers("Stop", None)),
        ["user", "project 1", "project 2", "local", "flag", "plugin b", "plugin a"]
    );
    assert_eq!(notices(&loaded), [""; 0]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn an_invalid_file_is_ignored() {
    let hooks = stop_with(&json!([run("p")]));
    let with_hooks = |setting: &str| hooks.replacen('{', &format!("{{{setting},"), 1);
    for (text, ran, wanted) in [
        (String::new(), &["user"][..], &[][..]),
        (format!("\u{feff}{hooks}"), &["user", "p"], &[]),
        (
            "{nope".to_owned(),
            &["user"],
            &[
                "project: not a JSON object (key must be a string at line 1 column 2); the client ignores the whole file",
            ],
        ),
        (
            hooks.replacen('{', "{// why\n", 1),
            &["user"],
            &[
                "project: not a JSON object (key must be a string at line 1 column 2); the client ignores the whole file",
            ],
        ),
        (
            "[]".to_owned(),
            &["user"],
            &["project: not a JSON object (another type); the client ignores the whole file"],
        ),
        (
            "null".to_owned(),
            &["user"],
            &["project: not a JSON object (another type); the client ignores the whole file"],
        ),
        (with_hooks(r#""zzz":1"#), &["user", "p"], &[]),
        (with_hooks(r#""permissions":{"allow":["((("]}"#), &["user", "p"], &[]),
        (
            with_hooks(r#""permissions":4"#),
            &["user"],
            &[
                "project: `permissions` is not an object of lists; the client ignores the whole file",
            ],
        ),
        (
            with_hooks(r#""permissions":{"allow":"x"}"#),
            &["user"],
            &[
                "project: `permissions` is not an object of lists; the client ignores the whole file",
            ],
        ),
        (
            with_hooks(r#""env":"x""#),
            &["user"],
            &["project: `env` is not an object; the client ignores the whole file"],
        ),
        (
            with_hooks(r#""model":1"#),
            &["user"],
            &["project: `model` is not a string; the client ignores the whole file"],
        ),
        (
            with_hooks(r#""disableAllHooks":"true""#),
            &["user"],
            &["project: `disableAllHooks` is not true or false; the client ignores the whole file"],
        ),
        (
            with_hooks(r#""disableAllHooks":null"#),
            &["user"],
            &["project: `disableAllHooks` is not true or false; the client ignores the whole file"],
        ),
    ] {
        let loaded = load_texts(&[
            (HookSettingsSource::User, stop_with(&json!([run("user")]))),
            (HookSettingsSource::Project, text.clone()),
        ]);
        assert_eq!(commands(&loaded.handlers("Stop", None)), ran, "{text}");
        assert_eq!(notices(&loaded), wanted, "{text}");
    }
}

#[test]
fn only_the_invalid_entry_is_ignored() {
    for (entry, why) in [
        (json!("x"), "is not an object"),
        (json!({"command": "x"}), "has no `type`"),
        (json!({"type": "bogus", "command": "x"}), "has the unknown type `bogus`"),
        (json!({"type": "command"}), "has no `command` string"),
        (json!({"type": "command", "command": 4}), "has no `command` string"),
        (json!({"type": "prompt"}), "has no `prompt` string"),
        (json!({"type": "agent"}), "has no `prompt` string"),
        (json!({"type": "http"}), "has no `url` string"),
        (json!({"type": "mcp_tool"}), "has no `server` string"),
        (
            with("x", &json!({"timeout": "5"})),
            "has an invalid `timeout` (expected a positive number)",
        ),
        (
            with("x", &json!({"timeout": 0})),
            "has an invalid `timeout` (expected a positive number)",
        ),
        (
            with("x", &json!({"timeout": -5})),
            "has an invalid `timeout` (expected a positive number)",
        ),
        (
            with("x", &json!({"timeout": null})),
            "has an invalid `timeout` (expected a positive number)",
        ),
        (with("x", &json!({"async": "yes"})), "has an invalid `async` (expected true or false)"),
        (
            with("x", &json!({"asyncRewake": "x"})),
            "has an invalid `asyncRewake` (expected true or false)",
        ),
        (with("x", &json!({"once": 1})), "has an invalid `once` (expected true or false)"),
        (with("x", &json!({"args": "x"})), "has an invalid `args` (expected a list of strings)"),
        (with("x", &json!({"args": [1]})), "has an invalid `args` (expected a list of strings)"),
        (with("x", &json!({"args": null})), "has an invalid `args` (expected a list of strings)"),
        (with("x", &json!({"if": null})), "has an invalid `if` (expected a string)"),
        (
            with("x", &json!({"statusMessage": 4})),
            "has an invalid `statusMessage` (expected a string)",
        ),
        (
            with("x", &json!({"rewakeMessage": 4})),
            "has an invalid `rewakeMessage` (expected a string)",
        ),
        (
            with("x", &json!({"shell": "zsh"})),
            "has an invalid `shell` (expected `bash` or `powershell`)",
        ),
        (with("x", &json!({"onFailure": "x"})), "has an invalid `onFailure` (expected `block`)"),
    ] {
        let text = stop(&json!([{"hooks": [entry, run("p1")]}, {"hooks": [run("p2")]}]));
        for source in [HookSettingsSource::Flag, plugin("a")] {
            let loaded = load_texts(&[(source.clone(), text.clone())]);
            assert_eq!(commands(&loaded.handlers("Stop", None)), ["p1", "p2"], "{text}");
            assert_eq!(
                notices(&loaded),
                [format!("{source}: Stop[0].hooks[0] {why}; the client ignores it")]
            );
        }
    }
}

#[test]
fn only_the_invalid_group_is_ignored() {
    for (group, why) in [
        (json!("x"), "is not an object"),
        (json!({"matcher": "x"}), "has no `hooks` list"),
        (run("flat"), "has no `hooks` list"),
        (
            json!({"matcher": 4, "hooks": [run("p1")]}),
            "has an invalid `matcher` (expected a string)",
        ),
        (
            json!({"matcher": null, "hooks": [run("p1")]}),
            "has an invalid `matcher` (expected a string)",
        ),
    ] {
        let loaded = load_texts(&[(
            HookSettingsSource::Project,
            stop(&json!([group, {"hooks": [run("p2")]}])),
        )]);
        assert_eq!(commands(&loaded.handlers("Stop", None)), ["p2"], "{group}");
        assert_eq!(notices(&loaded), [format!("project: Stop[0] {why}; the client ignores it")]);
    }
    for (text, wanted) in [
        (
            json!({"hooks": [], "env": {"A": "1"}}),
            "project: no `hooks` object, so there are no hooks",
        ),
        (
            json!({"hooks": null, "env": {"A": "1"}}),
            "project: no `hooks` object, so there are no hooks",
        ),
        (
            json!({"hooks": {"Stop": {}}, "env": {"A": "1"}}),
            "project: Stop is not a list; the client ignores it",
        ),
        (json!({"hooks": {"Nope": 4}, "env": {"A": "1"}}), "project: `Nope` is not an event"),
    ] {
        let loaded = load_texts(&[(HookSettingsSource::Project, text.to_string())]);
        assert_eq!(notices(&loaded), [wanted]);
        assert_eq!(loaded.env, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
    }
}

#[test]
fn a_plugin_without_hooks_gives_a_notice() {
    let loaded = load_texts(&[(plugin("a"), json!({"Stop": []}).to_string())]);
    assert_eq!(notices(&loaded), ["plugin a: no `hooks` object, so there are no hooks"]);
}

#[test]
fn the_last_layer_that_sets_it_disables_all_hooks() {
    for (layers, ran) in [
        (&[(HookSettingsSource::Project, true)][..], 0),
        (&[(HookSettingsSource::User, true)], 0),
        (&[(HookSettingsSource::Local, true)], 0),
        (&[(HookSettingsSource::Flag, true)], 0),
        (&[(HookSettingsSource::Project, true), (HookSettingsSource::Local, false)], 2),
        (&[(HookSettingsSource::User, true), (HookSettingsSource::Project, false)], 2),
        (&[(HookSettingsSource::Project, true), (HookSettingsSource::Flag, false)], 2),
        (&[(plugin("x"), true)], 2),
    ] {
        let mut texts: Vec<_> = layers
            .iter()
            .map(|(source, disable)| {
                (source.clone(), json!({"disableAllHooks": disable}).to_string())
            })
            .collect();
        texts.push((HookSettingsSource::Flag, stop_with(&json!([run("flag")]))));
        texts.push((plugin("a"), stop_with(&json!([run("plugin")]))));
        let loaded = load_texts(&texts);
        assert_eq!(loaded.handlers("Stop", None).len(), ran, "{layers:?}");
        assert_eq!(loaded.disabled, ran == 0);
        let disabled = loaded
            .notices
            .iter()
            .filter(|notice| notice.problem == SettingsProblem::Disabled)
            .count();
        assert_eq!(disabled, usize::from(ran == 0));
    }
}

#[test]
fn identical_handlers_run_once() {
    let same = |entries: &Value| vec![(HookSettingsSource::Project, stop_with(entries))];
    let x = stop_with(&json!([run("x")]));
    for (layers, ran) in [
        (same(&json!([run("x"), run("x")])), &["x"][..]),
        (
            vec![(HookSettingsSource::User, x.clone()), (HookSettingsSource::Project, x.clone())],
            &["x"],
        ),
        (same(&json!([run("x"), with("x", &json!({"timeout": 5}))])), &["x"]),
        (same(&json!([run("x"), with("x", &json!({"statusMessage": "s"}))])), &["x"]),
        (same(&json!([run("x"), with("x", &json!({"async": true}))])), &["x"]),
        (vec![(HookSettingsSource::Project, x.clone()), (plugin("a"), x.clone())], &["x", "x"]),
        (vec![(plugin("a"), x.clone()), (plugin("b"), x.clone())], &["x", "x"]),
        (vec![(plugin("a"), stop_with(&json!([run("x"), run("x")])))], &["x"]),
        (
            same(&json!([with("x", &json!({"args": ["a"]})), with("x", &json!({"args": ["a"]}))])),
            &["x a"],
        ),
        (
            same(&json!([with("x", &json!({"args": ["a"]})), with("x", &json!({"args": ["b"]}))])),
            &["x a", "x b"],
        ),
        (same(&json!([run("x"), with("x", &json!({"args": []}))])), &["x", "x "]),
    ] {
        assert_eq!(commands(&load_texts(&layers).handlers("Stop", None)), ran, "{layers:?}");
    }
}

/// The first determines the position, the last the settings.
#[test]
fn the_last_of_identical_handlers_wins() {
    let text = stop_with(&json!([
        with("x", &json!({"timeout": 1})),
        run("y"),
        with("x", &json!({"timeout": 2}))
    ]));
    let loaded = load_texts(&[(HookSettingsSource::User, text)]);
    let limits: Vec<_> = loaded
        .handlers("Stop", None)
        .iter()
        .map(|handler| (commands(&[handler]), loaded.timeout(handler)))
        .collect();
    assert_eq!(limits, [(vec!["x".to_owned()], 2.0), (vec!["y".to_owned()], 600.0)]);
}

#[test]
fn matchers_apply_only_to_events_with_a_subject() {
    let chosen = |event: &str, matcher: &str, subject: &str| {
        let text =
            json!({"hooks": {event: [{"matcher": matcher, "hooks": [run("x")]}]}}).to_string();
        load_texts(&[(HookSettingsSource::Project, text)]).handlers(event, Some(subject)).len() == 1
    };
    for (event, subject, yes, no) in [
        ("PreToolUse", "Agent", &["Agent", "Task", "Task|x", "^Task$"][..], &["Agen"][..]),
        ("PostToolUse", "Bash", &["Bash"], &["Bas", "Edit"]),
        ("PostToolUseFailure", "Bash", &["Bash"], &["x"]),
        (
            "SessionStart",
            "startup",
            &["startup", "start.*", "resume|startup", "*"],
            &["start", "resume"],
        ),
        ("SessionEnd", "other", &["other", "oth.*", "*"], &["oth", "clear"]),
        ("Setup", "init", &["init", "ini.*"], &["maintenance"]),
        ("StopFailure", "server_error", &["server_error", "server.*", "*"], &["x", "server"]),
        ("PreCompact", "manual", &["manual", "man.*"], &["auto", "man"]),
        ("PostCompact", "manual", &["manual", "man.*"], &["auto", "man"]),
        ("SubagentStop", "general-purpose", &["general-purpose"], &["Task", "general"]),
        ("UserPromptExpansion", "foo", &["foo", "fo.*"], &["fo", "x"]),
        ("Stop", "x", &["x", "*", ".", "Bash", "["], &[]),
        ("UserPromptSubmit", "hi", &["hi", "x", "*"], &[]),
        ("PostToolBatch", "Bash", &["Bash", "x", "*"], &[]),
    ] {
        for (matchers, wanted) in [(yes, true), (no, false)] {
            for matcher in matchers {
                assert_eq!(chosen(event, matcher, subject), wanted, "{event} {matcher} {subject}");
            }
        }
    }
}

#[test]
fn an_unsupported_matcher_gives_a_notice() {
    let text = json!({"hooks": {"PreToolUse": [{"matcher": "*Bash", "hooks": [run("x")]}],
                                "Stop": [{"matcher": "*Bash", "hooks": [run("x")]}]}});
    let loaded = load_texts(&[(HookSettingsSource::Project, text.to_string())]);
    assert_eq!(
        notices(&loaded),
        ["project: matcher `*Bash` matches nothing: not a regular expression"]
    );
}

/// The caller compares the pattern of the rule, because only it has the call.
#[test]
fn a_condition_needs_a_tool_call() {
    let chosen = |event: &str, rule: &str, subject: Option<&str>| {
        let text =
            json!({"hooks": {event: [{"hooks": [with("x", &json!({"if": rule}))]}]}}).to_string();
        load_texts(&[(HookSettingsSource::Project, text)]).handlers(event, subject).len()
    };
    for (event, rule, subject, ran) in [
        ("Stop", "Bash(echo *)", None, 0),
        ("Stop", "", None, 1),
        ("PreToolUse", "Bash(echo *)", Some("Bash"), 1),
        ("PreToolUse", "Bash", Some("Bash"), 1),
        ("PreToolUse", "Edit(*.rs)", Some("Bash"), 0),
        ("SessionStart", "startup", Some("startup"), 0),
    ] {
        assert_eq!(chosen(event, rule, subject), ran, "{event} {rule}");
    }
}

#[test]
fn settings_add_to_the_environment() {
    let loaded = load_texts(&[
        (HookSettingsSource::Project, json!({"env": {"A": "project"}}).to_string()),
        (HookSettingsSource::User, json!({"env": {"A": "user", "B": "user"}}).to_string()),
        (
            HookSettingsSource::Local,
            json!({"env": {"B": "local", "D": 7, "E": null, "F": true, "G": {}, "H": [1, 2], "I": 1.5}}).to_string(),
        ),
        (plugin("a"), json!({"hooks": {}, "env": {"A": "plugin"}}).to_string()),
    ]);
    let env: Vec<_> = loaded.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        env,
        ["A=project", "B=local", "D=7", "E=null", "F=true", "G=[object Object]", "H=1,2", "I=1.5"]
    );
}

/// As documented; `SessionEnd` was verified against the client.
#[test]
fn the_default_timeout_depends_on_the_event() {
    for (event, source, timeouts, wanted) in [
        ("Stop", HookSettingsSource::User, [json!({}), json!({"timeout": 5})], [600.0, 5.0]),
        (
            "UserPromptSubmit",
            HookSettingsSource::User,
            [json!({}), json!({"timeout": 60})],
            [30.0, 60.0],
        ),
        (
            "MessageDisplay",
            HookSettingsSource::User,
            [json!({}), json!({"timeout": 5})],
            [10.0, 5.0],
        ),
        ("SessionEnd", HookSettingsSource::User, [json!({}), json!({})], [1.5, 1.5]),
        ("SessionEnd", HookSettingsSource::User, [json!({}), json!({"timeout": 10})], [10.0, 10.0]),
        ("SessionEnd", HookSettingsSource::User, [json!({}), json!({"timeout": 1})], [1.5, 1.0]),
        ("SessionEnd", plugin("a"), [json!({}), json!({"timeout": 10})], [1.5, 1.5]),
    ] {
        let entries: Vec<_> =
            ["x", "y"].iter().zip(&timeouts).map(|(name, more)| with(name, more)).collect();
        let text = json!({"hooks": {event: [{"hooks": entries}]}}).to_string();
        let loaded = load_texts(&[(source, text)]);
        let limits: Vec<_> = loaded
            .handlers(event, None)
            .into_iter()
            .map(|handler| loaded.timeout(handler))
            .collect();
        assert_eq!(limits, wanted, "{event} {timeouts:?}");
    }
}
