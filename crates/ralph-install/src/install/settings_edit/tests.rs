use std::path::Path;

use insta::assert_snapshot;
use proptest::prelude::*;
use ralph_host::client_settings::NativeJudgeKind;
use ralph_host::default_host;

use super::*;
use crate::install::jsonc::BYTE_ORDER_MARK;
use crate::install::program_path::RalphProgram;
use crate::install::registration::{self, GateWarming, HookExtent, RegistrationChoice};

/// Two hooks are enough to test where they are inserted.
fn two_hooks() -> WantedSettings {
    let program = RalphProgram::from_path(Path::new("/opt/ralph")).unwrap();
    let choice =
        RegistrationChoice { extent: HookExtent::Minimal, warming: GateWarming::Off, gates_ms: 0 };
    let entries = registration::hook_entries(default_host(), &program, choice);
    WantedSettings {
        entries: entries.into_iter().take(2).collect(),
        judge: None,
        cap: BlockCapSetting::for_limit(default_host(), Some(25)),
        status_line: None,
        disable: Vec::new(),
        cut: Vec::new(),
    }
}

fn all_hooks() -> WantedSettings {
    let program = RalphProgram::from_path(Path::new("/opt/ralph")).unwrap();
    let choice = RegistrationChoice {
        extent: HookExtent::Full,
        warming: GateWarming::AfterEdits,
        gates_ms: 0,
    };
    WantedSettings {
        entries: registration::hook_entries(default_host(), &program, choice),
        judge: Some(native_judge::preset(default_host(), NativeJudgeKind::Prompt)),
        status_line: Some(program.status_line_command()),
        disable: vec!["ralph-loop@official".to_string()],
        ..two_hooks()
    }
}

/// The text with ralph added, after checking that it can be removed again.
fn add_and_remove(text: &str, wanted: &WantedSettings) -> String {
    let (bytes, trace) = add_ralph(default_host(), text.as_bytes(), wanted).unwrap();
    let shown = String::from_utf8(bytes.clone()).unwrap();
    let again = remove_ralph(default_host(), &bytes, Some(&trace)).unwrap();
    assert_eq!(String::from_utf8(again).unwrap(), text, "out of\n{shown}");
    assert!(
        is_installed(default_host(), &bytes, &WantedSettings { cut: Vec::new(), ..wanted.clone() }),
        "{shown}"
    );
    assert!(!is_installed(default_host(), text.as_bytes(), wanted));
    shown
}

/// R-D2c: comments, order, unknown keys, other tools' hooks and formatting stay.
#[test]
fn existing_content_is_preserved() {
    assert_snapshot!(add_and_remove("", &two_hooks()), @r#"
    {
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
    assert_snapshot!(add_and_remove("{\n}\n", &two_hooks()), @r#"
    {
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
    assert_snapshot!(add_and_remove("{ // mine\n}", &two_hooks()), @r#"
    { // mine
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
    assert_snapshot!(add_and_remove("// mine\n", &two_hooks()), @r#"
    // mine
    {
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
    assert_snapshot!(add_and_remove("{\"model\":\"opus\",\"env\":{}}\n", &two_hooks()), @r#"{"model":"opus","env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"},"hooks": {"Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }], "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]}}"#);
}

/// R-D2c: new entries follow the formatting of the existing ones.
#[test]
fn new_entries_follow_existing_formatting() {
    let text = r#"{
    // how it looks
    "theme": "dark",
    "hooks": {
        "Stop": [
            {
                "hooks": [{"type": "command", "command": "./mine.sh"}] // mine
            } // the last one
        ],
        "PreToolUse": []
    },
    "env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "8", "A": "1"}, // end
    "zoo": [1, 2,],
}
"#;
    assert_snapshot!(add_and_remove(text, &two_hooks()), @r#"
    {
        // how it looks
        "theme": "dark",
        "hooks": {
            "Stop": [
                {
                    "hooks": [{"type": "command", "command": "./mine.sh"}] // mine
                }, // the last one
                { "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }
            ],
            "PreToolUse": [],
            "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
        },
        "env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30", "A": "1"}, // end
        "zoo": [1, 2,],
    }
    "#);
}

#[test]
fn tabs_line_ends_and_byte_order_marks_are_preserved() {
    let text = "\u{feff}{\r\n\t\"model\": \"opus\"\r\n}\r\n";
    let shown = add_and_remove(text, &two_hooks());
    assert_snapshot!(shown.replace('\u{feff}', "BOM ").replace("\r\n", "CRLF\n").replace('\t', "TAB "), @r#"
    BOM {CRLF
    TAB "model": "opus",CRLF
    TAB "hooks": {CRLF
    TAB TAB "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],CRLF
    TAB TAB "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]CRLF
    TAB },CRLF
    TAB "env": {CRLF
    TAB TAB "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"CRLF
    TAB }CRLF
    }CRLF
    "#);
}

#[test]
fn all_entries_together() {
    assert_snapshot!(add_and_remove("{}\n", &all_hooks()), @r#"
    {
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }, { "hooks": [{ "type": "prompt", "prompt": "The person's last request is done. Tool results in the conversation are evidence; what the assistant says about its own work is not. Not done: a part of the request is missing, the tests fail or did not run after the last edit, or work is announced and not carried out. A question that only the person can answer counts as done. Event: $ARGUMENTS (ralph init --native-judge)", "timeout": 60, "statusMessage": "the client's own judge is reading" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "TaskCompleted": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "TeammateIdle": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }],
        "TaskCreated": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 30 }] }],
        "StopFailure": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 10 }] }],
        "SessionStart": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 30 }] }],
        "SessionEnd": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 5 }] }],
        "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600 }] }],
        "UserPromptExpansion": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600 }] }],
        "PreToolUse": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 10 }] }],
        "PreCompact": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 30 }] }],
        "PostCompact": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 30 }] }],
        "PostToolUse": [{ "matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 30, "async": true }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      },
      "statusLine": { "type": "command", "command": "/opt/ralph statusline", "refreshInterval": 2 },
      "enabledPlugins": {
        "ralph-loop@official": false
      }
    }
    "#);
    let there = r#"{
  "statusLine": { "type": "command", "command": "mine" },
  "enabledPlugins": { "ralph-loop@official": true },
  "env": { "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "0" }
}
"#;
    let everything = WantedSettings { entries: two_hooks().entries, ..all_hooks() };
    assert_snapshot!(add_and_remove(there, &everything), @r#"
    {
      "statusLine": { "type": "command", "command": "mine" },
      "enabledPlugins": { "ralph-loop@official": false },
      "env": { "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "0" },
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }, { "hooks": [{ "type": "prompt", "prompt": "The person's last request is done. Tool results in the conversation are evidence; what the assistant says about its own work is not. Not done: a part of the request is missing, the tests fail or did not run after the last edit, or work is announced and not carried out. A question that only the person can answer counts as done. Event: $ARGUMENTS (ralph init --native-judge)", "timeout": 60, "statusMessage": "the client's own judge is reading" }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      }
    }
    "#);
}

#[test]
fn removed_foreign_hooks_are_restored() {
    let text = r#"{
  "hooks": {
    "Stop": [
      { "hooks": [{ "type": "command", "command": "a.sh" }] }, // a
      { "hooks": [{ "type": "command", "command": "b.sh" }] }
    ],
    "SubagentStop": [{ "hooks": [{ "type": "command", "command": "c.sh" }] }]
  }
}
"#;
    let cut = [("Stop", 0), ("Stop", 1), ("SubagentStop", 0)];
    let cut = cut.map(|(event, index)| (event.to_string(), index)).to_vec();
    let wanted = WantedSettings { cut, ..two_hooks() };
    assert_snapshot!(add_and_remove(text, &wanted), @r#"
    {
      "hooks": {
        "Stop": [ // a
          { "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }
        ],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "/opt/ralph hook claude", "timeout": 600, "statusMessage": "ralph is checking the work" }] }]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);

    // Also into a list that was edited since.
    let (bytes, trace) = add_ralph(default_host(), text.as_bytes(), &wanted).unwrap();
    let edited = String::from_utf8(bytes).unwrap();
    let touched = edited.replacen("\"Stop\": [", "\"Stop\": [{ \"hooks\": [] },", 1);
    let stripped = remove_ralph(default_host(), touched.as_bytes(), Some(&trace)).unwrap();
    assert_snapshot!(String::from_utf8(stripped).unwrap(), @r#"
    {
      "hooks": {
        "Stop": [{ "hooks": [] }, { "hooks": [{ "type": "command", "command": "a.sh" }] }, { "hooks": [{ "type": "command", "command": "b.sh" }] } // a
        ],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "c.sh" }] }]
      }
    }
    "#);
}

#[test]
fn refused_edits_have_a_position() {
    let errors = [
        "[]",
        "{\n  \"hooks\": []\n}",
        "{\"hooks\": {\n\"Stop\": {}}}",
        "{\"env\": null}",
        "{\"enabledPlugins\": 1}",
        "{\"a\": }",
        "{\"hooks\": {}, \"hooks\": 7}",
    ]
    .map(|text| add_ralph(default_host(), text.as_bytes(), &two_hooks()).unwrap_err().to_string());
    insta::assert_debug_snapshot!(errors, @r#"
    [
        "line 1, column 1: settings must be an object, `{…}`",
        "line 2, column 12: `hooks` must be an object",
        "line 2, column 9: `hooks.Stop` must be a list",
        "line 1, column 9: `env` must be an object",
        "line 1, column 20: `enabledPlugins` must be an object",
        "line 1, column 7: unexpected close brace",
        "line 1, column 24: `hooks` must be an object",
    ]
    "#);
    assert_eq!(
        add_ralph(default_host(), b"{\"a\": \"\xff\"}", &two_hooks()).unwrap_err().to_string(),
        "line 1, column 8: not UTF-8"
    );
}

/// R-D2c: later edits stay, and ralph's entries are removed.
#[test]
fn removal_keeps_later_edits() {
    let (bytes, trace) =
        add_ralph(default_host(), b"{\n  \"model\": \"opus\"\n}\n", &two_hooks()).unwrap();
    let edited = String::from_utf8(bytes).unwrap();
    let group = |command: &str| {
        format!(r#"{{ "hooks": [{{ "type": "command", "command": "{command}" }}] }}"#)
    };
    let mine = group("mine.sh");
    let mut shown = String::new();
    for touched in [
        edited.replace("\"opus\"", "\"haiku\""),
        edited.replacen("\"Stop\": [", &format!("\"Stop\": [{mine}, "), 1),
        edited.replacen(" }] }]", &format!(" }}] }}, {mine}]"), 1),
        edited.replace("\"30\"", "\"99\""),
        edited.replacen(
            "[{ \"type\"",
            "[{ \"type\": \"command\", \"command\": \"mine.sh\" }, { \"type\"",
            1,
        ),
        serde_json::to_string(&SettingsDocument::read(edited.as_bytes()).unwrap().value()).unwrap(),
    ] {
        assert_ne!(touched, edited);
        let stripped = remove_ralph(default_host(), touched.as_bytes(), Some(&trace)).unwrap();
        shown.push_str(&format!("{}---\n", String::from_utf8(stripped).unwrap()));
    }
    assert_snapshot!(shown, @r#"
    {
      "model": "haiku"
    }
    ---
    {
      "model": "opus",
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "mine.sh" }] }]
      }
    }
    ---
    {
      "model": "opus",
      "hooks": {
        "Stop": [ { "hooks": [{ "type": "command", "command": "mine.sh" }] }]
      }
    }
    ---
    {
      "model": "opus",
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "99"
      }
    }
    ---
    {
      "model": "opus",
      "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "mine.sh" }] }]
      }
    }
    ---
    {"model":"opus"}---
    "#);

    let without_trace = remove_ralph(default_host(), edited.as_bytes(), None).unwrap();
    assert_snapshot!(String::from_utf8(without_trace).unwrap(), @r#"
    {
      "model": "opus",
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "30"
      }
    }
    "#);
}

#[test]
fn empty_settings_are_recognised() {
    for (text, expected) in [
        ("{}", true),
        (" {\n} \n", true),
        ("", true),
        ("{} // mine", false),
        ("{ /* mine */ }", false),
        ("{\"a\": 1}", false),
        ("[]", false),
    ] {
        assert_eq!(is_empty_settings(text.as_bytes()), expected, "{text}");
    }
}

/// A settings value, written with arbitrary spacing and comments.
#[derive(Clone, Debug)]
enum SettingsNode {
    Leaf(&'static str),
    List(Vec<SettingsNode>),
    Object(Vec<(&'static str, SettingsNode)>),
}

struct SettingsWriter<'a> {
    text: String,
    noise: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl SettingsWriter<'_> {
    fn space(&mut self) {
        const SPACES: [&str; 12] = [
            "",
            "",
            "",
            " ",
            "  ",
            "\n",
            "\n  ",
            "\r\n\t",
            " // c, }\n",
            "/* ] */",
            "/* a\n, */",
            "//\n",
        ];
        let noise = self.noise.next().copied().unwrap_or_default();
        self.text.push_str(SPACES[usize::from(noise) % SPACES.len()]);
    }

    fn entries(
        &mut self,
        (open, close): (char, char),
        entries: usize,
        mut each: impl FnMut(&mut Self, usize),
    ) {
        self.text.push(open);
        for n in 0..entries {
            self.space();
            each(self, n);
            self.space();
            let is_last = n + 1 == entries;
            if !is_last || self.noise.next().is_some_and(|noise| noise % 5 == 0) {
                self.text.push(',');
            }
        }
        self.space();
        self.text.push(close);
    }

    fn node(&mut self, node: &SettingsNode) {
        match node {
            SettingsNode::Leaf(text) => self.text.push_str(text),
            SettingsNode::List(list) => {
                self.entries(('[', ']'), list.len(), |pen, n| pen.node(&list[n]));
            }
            SettingsNode::Object(fields) => self.entries(('{', '}'), fields.len(), |pen, n| {
                let (name, value) = &fields[n];
                pen.text.push_str(&format!("\"{name}\""));
                pen.space();
                pen.text.push(':');
                pen.space();
                pen.node(value);
            }),
        }
    }
}

fn leaf() -> impl Strategy<Value = SettingsNode> {
    prop::sample::select(vec!["1", "null", "true", "\"x, ] // y\"", "-0.5e3", "\"\\u00fc\\\"\""])
        .prop_map(SettingsNode::Leaf)
}

fn any_node() -> impl Strategy<Value = SettingsNode> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(SettingsNode::List),
            prop::collection::vec((prop::sample::select(vec!["a", "b"]), inner), 0..3)
                .prop_map(distinct),
        ]
    })
}

fn distinct(fields: Vec<(&'static str, SettingsNode)>) -> SettingsNode {
    let mut kept: Vec<(&'static str, SettingsNode)> = Vec::new();
    for (name, value) in fields {
        if !kept.iter().any(|(other, _)| *other == name) {
            kept.push((name, value));
        }
    }
    SettingsNode::Object(kept)
}

fn any_settings() -> impl Strategy<Value = String> {
    let lists = prop::collection::vec(any_node(), 0..3).prop_map(SettingsNode::List);
    let events = prop::sample::select(vec!["Stop", "SubagentStop", "Other"]);
    let hooks = prop::collection::vec((events, lists), 0..3).prop_map(distinct);
    let variables = prop::sample::select(vec![default_host().variables.block_cap, "A"]);
    let env = prop::collection::vec((variables, leaf()), 0..3).prop_map(distinct);
    let plugins = prop::sample::select(vec!["ralph-loop@official", "b@c"]);
    let plugins = prop::collection::vec((plugins, leaf()), 0..2).prop_map(distinct);
    let field = prop_oneof![
        hooks.prop_map(|hooks| ("hooks", hooks)),
        env.prop_map(|env| ("env", env)),
        plugins.prop_map(|plugins| ("enabledPlugins", plugins)),
        any_node().prop_map(|node| ("statusLine", node)),
        any_node().prop_map(|node| ("other", node)),
    ];
    let root = prop::collection::vec(field, 0..5).prop_map(distinct);
    (root, prop::collection::vec(any::<u8>(), 1..40), any::<bool>()).prop_map(
        |(root, noise, mark)| {
            let mut pen = SettingsWriter { text: String::new(), noise: noise.iter().cycle() };
            if mark {
                pen.text.push(BYTE_ORDER_MARK);
            }
            pen.space();
            pen.node(&root);
            pen.space();
            pen.text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// R-D2c: for any formatting, adding and removing ralph restores the text, also if something else was edited in
    /// between.
    #[test]
    fn removal_restores_the_text(text in any_settings()) {
        let wanted = WantedSettings { entries: two_hooks().entries, ..all_hooks() };
        let (edited, trace) = add_ralph(default_host(), text.as_bytes(), &wanted).unwrap();
        let stripped = remove_ralph(default_host(), &edited, Some(&trace)).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&stripped), &*text, "out of {}", String::from_utf8_lossy(&edited));

        let edited = String::from_utf8(edited).unwrap();
        let insert = |text: &str| {
            let document = SettingsDocument::read(text.as_bytes()).unwrap();
            let at = text.len() - document.text().len() + document.text().find('{').unwrap() + 1;
            let inside = document.inside(&[]).unwrap().to_string();
            (document.len(&[]) > Some(0) && !document.text()[..at].contains('/'))
                .then(|| text.replacen(&inside, &format!("\"new\": 1,{inside}"), 1))
        };
        if let (Some(text), Some(edited)) = (insert(&text), insert(&edited)) {
            let stripped = remove_ralph(default_host(), edited.as_bytes(), Some(&trace)).unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&stripped), &*text);
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,60}") {
        if let Ok((edited, trace)) = add_ralph(default_host(), text.as_bytes(), &two_hooks()) {
            prop_assert_eq!(remove_ralph(default_host(), &edited, Some(&trace)).unwrap(), text.as_bytes());
        }
        remove_ralph(default_host(), text.as_bytes(), None).ok();
    }
}
