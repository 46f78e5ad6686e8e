use super::*;
use crate::scenario::{self, ScriptedToolCall};
use crate::transcript::{
    AnswerBlock, ClientSessionPaths, DEFAULT_MODEL, IdGenerator, StopHookInfo, StopHookSummary,
    TranscriptWriter, WrittenAnswer, WrittenPromptOrigin, WrittenToolOutcome, WrittenToolResult,
};
use serde_json::json;
use std::fmt::Write as _;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures/transcripts").join(name)
}

/// The text of the scenario and the notes. Checks that the text parses to the same scenario.
fn show_recording(path: &Path) -> String {
    match record_transcript(path) {
        Ok(recording) => {
            let text = scenario::write(&recording.scenario);
            let read = scenario::parse(&text, Path::new("recorded.toml"));
            assert_eq!(read.unwrap(), recording.scenario, "{text}");
            let mut out = text;
            for note in recording.notes {
                write!(out, "\n# {note}").unwrap();
            }
            out
        }
        Err(error) => error.to_string(),
    }
}

fn shown_lines(lines: &[serde_json::Value]) -> String {
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    shown_bytes(lines.join("\n").as_bytes())
}

fn shown_bytes(bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.jsonl");
    fs::replace_with_mode(&path, bytes, fs::SharedFileMode::Ordinary).unwrap();
    show_recording(&path).replace(&*directory.path().to_string_lossy(), "DIR")
}

/// Several recorded sessions, one after another.
fn shown_fixtures(names: &[&str]) -> String {
    let shown: Vec<_> =
        names.iter().map(|name| show_recording(&fixture(&format!("{name}.jsonl")))).collect();
    shown.join("\n\n# ———\n")
}

#[test]
fn stops_and_block_reasons_become_expectations() {
    insta::assert_snapshot!(shown_fixtures(&["stop-exit2", "stop-json-block"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [[step]]
    agent = "second answer"

    [expect]
    stops = 2
    blocks = 1
    reasons = [
      """
    REASON-A line1
    line2""",
    ]

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop

    # ———
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [[step]]
    agent = "second answer"

    [expect]
    stops = 2
    blocks = 1
    reasons = ["REASON-B"]

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn a_stop_that_was_not_blocked_is_expected_not_to_be_blocked() {
    insta::assert_snapshot!(shown_fixtures(&["stop-continue-false", "stop-exit1", "stop-timeout"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop

    # ———
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop

    # ———
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn context_alone_counts_as_a_block() {
    insta::assert_snapshot!(shown_fixtures(&["stop-additionalContext"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "first answer"

    [[step]]
    agent = "second answer"

    [expect]
    stops = 2
    blocks = 1
    reasons = ["ADDCTX-K3"]

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn an_overridden_block_does_not_count() {
    let recording = record_transcript(&fixture("stop-cap.jsonl")).unwrap();
    insta::assert_debug_snapshot!(recording.scenario.expect, @r#"
    ScenarioExpectations {
        endings: None,
        results: None,
        stops: Some(
            9,
        ),
        blocks: Some(
            8,
        ),
        requests: None,
        reasons: Some(
            [
                "REASON 1",
                "REASON 2",
                "REASON 3",
                "REASON 4",
                "REASON 5",
                "REASON 6",
                "REASON 7",
                "REASON 8",
            ],
        ),
        events: None,
        exit: None,
        files: {},
        says: {},
        absent: [],
        screen: [],
        status: None,
        iterations: None,
        sessions: None,
        output: [],
        told: {},
    }
    "#);
}

#[test]
fn tool_calls_use_the_shorthand() {
    insta::assert_snapshot!(shown_fixtures(&["tools-and-hooks"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "w"
    tools = [{ write = "a.txt", text = """
    one
    two
    """ }]

    [[step]]
    tools = [{ read = "a.txt" }]

    [[step]]
    tools = [{ edit = "a.txt", old = "two", new = "three" }]

    [[step]]
    tools = [{ run = "echo out; echo err >&2; exit 3" }]

    [[step]]
    tools = [{ run = "echo DENYME" }]

    [[step]]
    tools = [
      { run = "true" },
      { tool = "Nope", input = {} },
    ]

    [[step]]
    agent = "done"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: echo '{"systemMessage":"SYS"}'
    "#);
}

#[test]
fn other_tool_calls_keep_their_input() {
    insta::assert_snapshot!(shown_fixtures(&["task-tools"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    tools = [{ tool = "ToolSearch", input = { query = "select:TaskCreate,TaskUpdate,TaskList,TaskGet" } }]

    [[step]]
    tools = [{ tool = "TaskCreate", input = { activeForm = "Doing task A", description = "desc of task A", subject = "task A" } }]

    [[step]]
    tools = [{ tool = "TaskCreate", input = { activeForm = "Doing task B", description = "desc of task B", subject = "task B" } }]

    [[step]]
    tools = [{ tool = "TaskUpdate", input = { status = "in_progress", taskId = "1" } }]

    [[step]]
    tools = [{ tool = "TaskUpdate", input = { status = "completed", taskId = "1" } }]

    [[step]]
    tools = [{ tool = "TaskList", input = {} }]

    [[step]]
    agent = "leaving with B open"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn errors_and_interruptions_become_steps() {
    let names = ["api-error-529", "interrupted-tools", "interrupted-answer"];
    insta::assert_snapshot!(shown_fixtures(&names), @r#"
    name = "hello"

    [[step]]
    person = "hello"

    [[step]]
    error = { status = 529, type = "overloaded_error", message = "Overloaded" }


    # ———
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "w"
    tools = [{ run = "python3 -c 'import time; time.sleep(30)'" }]
    interrupt = "tools"


    # ———
    name = "hello"

    [[step]]
    person = "hello"

    [[step]]
    interrupt = "answer"
    "#);
}

#[test]
fn a_continued_session_becomes_a_resume_step() {
    insta::assert_snapshot!(shown_fixtures(&["resumed", "sigkill-then-resume"]));
}

#[test]
fn the_summary_of_a_compaction_is_kept() {
    insta::assert_snapshot!(shown_fixtures(&["manual-compaction", "auto-compaction"]));
}

#[test]
fn a_task_notification_is_not_a_prompt() {
    insta::assert_snapshot!(shown_fixtures(&["background-shell"]), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "start bg"
    tools = [{ run = "sleep 4; echo bgdone", background = true }]

    [[step]]
    agent = "stopping while bg runs"

    [[step]]
    agent = "after bg notification"

    [expect]
    stops = 2
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn subagents_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.jsonl");
    let agents = directory.path().join("s/subagents");
    fs::create_private_dir(&agents).unwrap();
    let copy = |from: &str, to: &Path| {
        fs::replace_with_mode(
            to,
            &fs::read(&fixture(from), 1 << 20).unwrap(),
            fs::SharedFileMode::Ordinary,
        )
        .unwrap();
    };
    copy("subagent-foreground-blocked.jsonl", &path);
    copy("subagent-foreground-blocked.subagent.jsonl", &agents.join("agent-a1.jsonl"));
    copy("subagent-foreground-blocked.subagent.meta.json", &agents.join("agent-a1.meta.json"));
    insta::assert_snapshot!(show_recording(&path), @r#"
    name = "hello"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "hello"

    [[step]]
    agent = "delegating"
    tools = [{ agent = "SUBPROMPT please work", background = false }]

    [[step]]
    agent = "main done"

    [[subagent]]
    prompt = "SUBPROMPT please work"

    [[subagent.step]]
    agent = "sub working"
    tools = [{ run = "echo sub" }]

    [[subagent.step]]
    agent = "sub report 3"

    [[subagent.step]]
    agent = "sub report 4"

    [[subagent.step]]
    agent = "sub report 5"

    [expect]
    stops = 1
    blocks = 0

    # stop hook: /usr/bin/python3 /home/user/lab/hook.py Stop
    "#);
}

#[test]
fn hostile_and_broken_lines_are_handled() {
    let person = |text: &str| json!({"type": "user", "cwd": "/p", "message": {"content": text}});
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let deep: serde_json::Value = serde_json::from_str(&deep).unwrap();
    let says = |id: &str, block: serde_json::Value| json!({"type": "assistant", "message": {"id": id, "model": "m", "content": [block]}});
    let tool = |input: serde_json::Value| json!({"type": "tool_use", "name": "Odd \u{1b}[1m", "input": input});
    let lines = [
        person("\u{1b}]0;title\u{7}\u{0} \u{202e}rm -rf"),
        says("1", json!({"type": "thinking", "thinking": "hm"})),
        says("1", json!({"type": "text", "text": "one\r\n\"\"\"\\"})),
        says("2", json!({"type": "text", "text": "in between"})),
        says(
            "1",
            tool(
                json!({"none": null, "list": [null, 1, u64::MAX], "deep": deep, "/p/x": "/p/x /pp/x /p"}),
            ),
        ),
        says("3", tool(json!("no object"))),
        says(
            "3",
            json!({"type": "tool_use", "name": "Write", "input": {"file_path": "/etc/passwd", "content": ""}}),
        ),
        json!({"type": "assistant", "message": 7}),
        json!({"type": "user", "message": {"content": 7}}),
        json!({"type": 7}),
        json!([]),
        json!({"type": "assistant", "isSidechain": true, "message": {"id": "9", "model": "m", "content": "not ours"}}),
    ];
    insta::assert_snapshot!(shown_lines(&lines), @r#"
    name = "\u001b]0;title\u0007\u0000 \u202erm -rf"

    [client]
    model = "m"

    [[step]]
    person = "\u001b]0;title\u0007\u0000 \u202erm -rf"

    [[step]]
    agent = """
    one\r
    ""\"\\"""
    tools = [{ tool = "Odd \u001b[1m", input = { "/p/x" = "x /pp/x .", deep = [[[[[[[[[[[[[[[[[[[[[[[["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"]]]]]]]]]]]]]]]]]]]]]]]], list = [1, 1.8446744073709552e19] } }]
    usage = { input = 0, output = 0 }

    [[step]]
    agent = "in between"
    usage = { input = 0, output = 0 }

    [[step]]
    tools = [
      { tool = "Odd \u001b[1m", input = {} },
      { write = "/etc/passwd", text = "" },
    ]
    usage = { input = 0, output = 0 }

    # unreadable lines: 2
    # tool calls with files outside the project: 1
    "#);
    for (bytes, expected) in [
        (&b""[..], "`DIR/session.jsonl` is not a transcript: none of its lines can be parsed"),
        (
            b"\xff\xfe\n{\n",
            "`DIR/session.jsonl` is not a transcript: none of its lines can be parsed",
        ),
        (b"{\"type\":\"mode\"}", "`DIR/session.jsonl` contains no prompt"),
    ] {
        assert_eq!(shown_bytes(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn paths_of_the_project_become_relative() {
    for (text, expected) in [
        ("/home/u/p/src/a.rs", "src/a.rs"),
        ("/home/u/p", "."),
        ("/home/u/p/", "./"),
        ("cd /home/u/p && ls /home/u/p/x", "cd . && ls x"),
        ("cat '/home/u/p/x'>\"/home/u/p/y\"", "cat 'x'>\"y\""),
        ("/home/u/project/x", "/home/u/project/x"),
        ("/home/u/p.bak", "/home/u/p.bak"),
        ("/mnt/home/u/p/x", "/mnt/home/u/p/x"),
        ("/home/u/p/.git", ".git"),
        ("ä/home/u/p/x", "ä/home/u/p/x"),
    ] {
        assert_eq!(recorded_tools::make_paths_relative(text, "/home/u/p"), expected, "{text}");
    }
    for cwd in ["", "/", "//", "relative"] {
        assert_eq!(
            recorded_tools::make_paths_relative("/a//b relative", cwd),
            "/a//b relative",
            "{cwd}"
        );
    }
}

#[test]
fn a_call_that_the_shorthand_cannot_express_keeps_its_input() {
    for (name, input, is_other) in [
        ("Bash", json!({"command": "x", "timeout": 5}), false),
        ("Bash", json!({"command": "x", "dangerouslyDisableSandbox": true}), true),
        (
            "Edit",
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true}),
            true,
        ),
        ("Read", json!({"file_path": "a", "limit": 3}), true),
        ("Write", json!({"file_path": "a", "content": 5}), true),
        ("Task", json!({"prompt": "x", "description": "y"}), false),
        ("Agent", json!({"prompt": "x", "description": "y", "model": "haiku"}), true),
        ("Glob", json!({"pattern": "*"}), true),
    ] {
        let call = recorded_tools::scenario_call(name, &input, "/p");
        assert_eq!(matches!(call, ScriptedToolCall::Other { .. }), is_other, "{name} {input}");
    }
}

#[test]
fn a_session_that_is_too_long_is_cut_and_still_parses() {
    let line = |text: &str| json!({"type": "user", "message": {"content": text}}).to_string();
    let long = "\u{1}".repeat(100_000);
    let lines: Vec<_> = (0..20).map(|_| line(&long)).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.jsonl");
    fs::replace_with_mode(&path, lines.join("\n").as_bytes(), fs::SharedFileMode::Ordinary)
        .unwrap();
    let recording = record_transcript(&path).unwrap();
    let text = scenario::write(&recording.scenario);
    assert!(text.len() < 4 * 1024 * 1024, "{}", text.len());
    assert_eq!((recording.scenario.steps.len(), recording.unreadable_lines), (6, 0));
    assert_eq!(recording.notes, ["the session is too long for a scenario; its end was cut off"]);
}

#[test]
fn feedback_beside_continue_false_is_not_a_block() {
    let lines = [
        json!({"type": "user", "message": {"content": "go"}}),
        json!({"type": "user", "isMeta": true, "message": {"content": "Stop hook feedback:\nnot yet"}}),
        json!({"type": "system", "subtype": "stop_hook_summary", "preventedContinuation": true}),
    ];
    insta::assert_snapshot!(shown_lines(&lines), @r#"
    name = "go"

    [[step]]
    person = "go"

    [expect]
    stops = 1
    blocks = 0
    "#);
    // Without stop summaries (older clients), feedback is counted instead.
    insta::assert_snapshot!(shown_lines(&lines[..2]), @r#"
    name = "go"

    [[step]]
    person = "go"

    [expect]
    blocks = 1
    reasons = ["not yet"]
    "#);
}

/// The transcript of the simulated client is recorded like one of the real client.
#[test]
fn a_simulated_session_can_be_recorded() {
    let home = tempfile::tempdir().unwrap();
    let place = ClientSessionPaths { home: home.path(), project: Path::new("/p"), session: "s-1" };
    let mut transcript = TranscriptWriter::open(&place, IdGenerator::seeded(1)).unwrap();
    transcript.write_queued_prompt("go").unwrap();
    transcript.begin_prompt();
    transcript.write_prompt("go", WrittenPromptOrigin::Person).unwrap();
    let input = json!({"file_path": "/p/a", "content": "x"});
    let blocks = [
        AnswerBlock::Text { text: "writing" },
        AnswerBlock::ToolUse { id: "t1", name: "Write", input: &input },
    ];
    let answer = WrittenAnswer {
        id: "m1",
        request: "r1",
        model: DEFAULT_MODEL,
        blocks: &blocks,
        stop_reason: "tool_use",
        usage: scenario::ScriptedUsage::default(),
    };
    transcript.write_answer(&answer).unwrap();
    let done = json!({});
    let outcome = WrittenToolOutcome::Done(&done);
    transcript
        .write_tool_result(&WrittenToolResult { id: "t1", name: "Write", text: "written", outcome })
        .unwrap();
    let blocks = [AnswerBlock::Text { text: "done" }];
    let answer = WrittenAnswer { id: "m2", blocks: &blocks, stop_reason: "end_turn", ..answer };
    transcript.write_answer(&answer).unwrap();
    transcript.write_feedback("Stop hook feedback:\n[check]: not yet").unwrap();
    transcript
        .write_stop_summary(&StopHookSummary {
            tool_use_id: "s",
            infos: &[StopHookInfo {
                command: "check".to_owned(),
                prompt_text: None,
                duration_ms: None,
            }],
            errors: &["[check]: not yet".to_owned()],
            context: &[],
            stopped: None,
            has_output: true,
        })
        .unwrap();
    transcript.close().unwrap();
    insta::assert_snapshot!(show_recording(transcript.path()), @r#"
    name = "go"

    [client]
    model = "claude-opus-5-5"

    [[step]]
    person = "go"

    [[step]]
    agent = "writing"
    tools = [{ write = "a", text = "x" }]

    [[step]]
    agent = "done"

    [expect]
    stops = 1
    blocks = 1
    reasons = ["not yet"]

    # stop hook: check
    "#);
}
