//! Writes the same sessions as the recorded ones and compares them line by line.

use super::*;
use crate::scenario::ScriptedUsage;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;

const HOOK: &str = "/usr/bin/python3 /home/user/lab/hook.py Stop";
const STOP_ID: &str = "c7f52f49-41de-45ce-9977-059a46b7fa59";

fn recorded(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/captures/transcripts")
        .join(name);
    String::from_utf8(fs::read(&path, 1 << 20).unwrap()).unwrap()
}

struct TranscriptScene {
    directory: tempfile::TempDir,
    session: &'static str,
}

impl TranscriptScene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, session: "5999882c-e786-462c-84d4-07d1c65b5e76" }
    }

    fn place(&self) -> ClientSessionPaths<'_> {
        let project = Path::new("/home/user/project");
        ClientSessionPaths { home: self.directory.path(), project, session: self.session }
    }

    fn open(&self) -> TranscriptWriter {
        TranscriptWriter::open(&self.place(), IdGenerator::seeded(1)).unwrap()
    }

    fn text(&self) -> String {
        text(&self.place().transcript())
    }
}

fn text(path: &Path) -> String {
    String::from_utf8(fs::read(path, 1 << 24).unwrap()).unwrap()
}

fn begin(transcript: &mut TranscriptWriter, prompt: &str) {
    transcript.write_queued_prompt(prompt).unwrap();
    transcript.begin_prompt();
    transcript.write_prompt(prompt, WrittenPromptOrigin::Person).unwrap();
}

fn say(transcript: &mut TranscriptWriter, blocks: &[AnswerBlock<'_>]) {
    let is_call = blocks.iter().any(|block| matches!(block, AnswerBlock::ToolUse { .. }));
    transcript
        .write_answer(&WrittenAnswer {
            id: "msg_fake_000001",
            request: "req_fake_000001",
            model: DEFAULT_MODEL,
            blocks,
            stop_reason: if is_call { "tool_use" } else { "end_turn" },
            usage: ScriptedUsage::default(),
        })
        .unwrap();
}

fn text_block(text: &str) -> AnswerBlock<'_> {
    AnswerBlock::Text { text }
}

fn call<'a>(id: &'a str, name: &'a str, input: &'a Value) -> AnswerBlock<'a> {
    AnswerBlock::ToolUse { id, name, input }
}

fn attach(transcript: &mut TranscriptWriter, attached: HookAttachmentKind<'_>) {
    let stop = HookAttachment { event: "Stop", name: "Stop", tool_use_id: STOP_ID, kind: attached };
    transcript.write_attachment(&stop).unwrap();
}

#[derive(Default)]
struct TestStopSummary {
    error: Option<&'static str>,
    context: Option<&'static str>,
    stopped: Option<&'static str>,
    is_blocked: bool,
    is_silent: bool,
}

fn sum(transcript: &mut TranscriptWriter, summed: &TestStopSummary) {
    let duration_ms = (!summed.is_blocked).then_some(36);
    let owned = |text: Option<&str>| text.map(str::to_owned).into_iter().collect::<Vec<_>>();
    transcript
        .write_stop_summary(&StopHookSummary {
            tool_use_id: STOP_ID,
            infos: &[StopHookInfo { command: HOOK.to_owned(), prompt_text: None, duration_ms }],
            errors: &owned(summed.error),
            context: &owned(summed.context),
            stopped: summed.stopped,
            has_output: !summed.is_silent,
        })
        .unwrap();
}

fn silent(transcript: &mut TranscriptWriter) {
    sum(transcript, &TestStopSummary { is_silent: true, ..TestStopSummary::default() });
}

fn ended<'a>(stdout: &'a str, stderr: &'a str) -> AttachedHookOutput<'a> {
    AttachedHookOutput { command: HOOK, stdout, stderr, exit_code: 0, duration_ms: 118 }
}

fn run(id: &str, transcript: &mut TranscriptWriter, structured: &Value) {
    let outcome = WrittenToolOutcome::Done(structured);
    transcript
        .write_tool_result(&WrittenToolResult { id, name: "Bash", text: "hi", outcome })
        .unwrap();
}

fn bash_result() -> Value {
    json!({"stdout": "hi", "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false})
}

fn block(transcript: &mut TranscriptWriter, reason: &'static str) {
    transcript.write_feedback(&format!("Stop hook feedback:\n{reason}")).unwrap();
    attach(transcript, HookAttachmentKind::BlockingError { reason, command: HOOK });
    sum(
        transcript,
        &TestStopSummary { error: Some(reason), is_blocked: true, ..TestStopSummary::default() },
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn sessions_with_stops_have_the_recorded_shape() {
    type SessionStory = fn(&mut TranscriptWriter);
    let stories: [(&str, SessionStory); 8] = [
        ("stop-exit2.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            to.write_feedback("Stop hook feedback:\n[hook]: REASON-A").unwrap();
            sum(
                to,
                &TestStopSummary {
                    error: Some("[hook]: A"),
                    is_blocked: true,
                    ..TestStopSummary::default()
                },
            );
            say(to, &[text_block("second answer")]);
            silent(to);
        }),
        ("stop-json-block.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            block(to, "REASON-B");
            say(to, &[text_block("second answer")]);
            silent(to);
        }),
        ("stop-continue-false.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            attach(to, HookAttachmentKind::StoppedContinuation { message: "STOPREASON-C" });
            attach(to, HookAttachmentKind::Success { content: "", ended: ended("{}", "") });
            sum(
                to,
                &TestStopSummary { stopped: Some("STOPREASON-C"), ..TestStopSummary::default() },
            );
        }),
        ("stop-timeout.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            let timeout_ms = Some(2000);
            attach(
                to,
                HookAttachmentKind::Cancelled { command: HOOK, duration_ms: 2075, timeout_ms },
            );
            silent(to);
        }),
        ("stop-exit1.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            let stderr = "Failed with non-blocking status code: ERR-D";
            attach(to, HookAttachmentKind::NonBlockingError { ended: ended("OUT-D", stderr) });
            sum(to, &TestStopSummary { error: Some("Failed"), ..TestStopSummary::default() });
        }),
        ("stop-additionalContext.jsonl", |to| {
            say(to, &[text_block("first answer")]);
            attach(to, HookAttachmentKind::Success { content: "", ended: ended("{}", "") });
            let content = &["ADDCTX-K3".to_owned()];
            attach(to, HookAttachmentKind::AdditionalContext { content });
            sum(to, &TestStopSummary { context: Some("ADDCTX-K3"), ..TestStopSummary::default() });
            say(to, &[text_block("second answer")]);
            silent(to);
        }),
        ("stop-cap.jsonl", |to| {
            for _ in 0..9 {
                say(to, &[text_block("answer")]);
                block(to, "REASON");
            }
            to.write_warning("A hook blocked the turn from ending 9 consecutive times").unwrap();
        }),
        ("tool-and-stop.jsonl", |to| {
            let input = json!({"command": "echo hi", "description": "say hi"});
            say(to, &[text_block("running"), call("toolu_1", "Bash", &input)]);
            run("toolu_1", to, &bash_result());
            say(to, &[text_block("All finished.")]);
            silent(to);
        }),
    ];
    for (name, tell) in stories {
        let scene = TranscriptScene::new();
        let mut transcript = scene.open();
        begin(&mut transcript, "hello");
        tell(&mut transcript);
        transcript.close().unwrap();
        assert_eq!(shapes(&scene.text()), shapes(&recorded(name)), "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn tools_and_their_hooks_have_the_recorded_shape() {
    let scene = TranscriptScene::new();
    let mut to = scene.open();
    let of = |event, name, attached| HookAttachment {
        event,
        name,
        tool_use_id: STOP_ID,
        kind: attached,
    };
    to.write_queued_prompt("hello").unwrap();
    let started = HookAttachmentKind::Success { content: "START", ended: ended("START\n", "") };
    to.write_attachment(&of("SessionStart", "SessionStart:startup", started)).unwrap();
    to.begin_prompt();
    to.write_prompt("hello", WrittenPromptOrigin::Person).unwrap();
    let content = &["UPS".to_owned()];
    let added = HookAttachmentKind::AdditionalContext { content };
    to.write_attachment(&of("UserPromptSubmit", "UserPromptSubmit", added)).unwrap();
    let path = "/home/user/project/a.txt";
    let write = json!({"file_path": path, "content": "one\ntwo\n"});
    say(&mut to, &[text_block("w"), call("t1", "Write", &write)]);
    let created = json!({"type": "create", "filePath": path, "content": "", "structuredPatch": [], "originalFile": null,
        "userModified": false});
    let answer = |id, name, text, outcome| WrittenToolResult { id, name, text, outcome };
    to.write_tool_result(&answer(
        "t1",
        "Write",
        "File created",
        WrittenToolOutcome::Done(&created),
    ))
    .unwrap();
    let blocked = HookAttachmentKind::BlockingError { reason: "POSTBLOCK", command: HOOK };
    to.write_attachment(&of("PostToolUse", "PostToolUse:Write", blocked)).unwrap();
    let read = json!({"file_path": path});
    say(&mut to, &[call("t2", "Read", &read)]);
    let file = json!({"type": "text", "file": {"filePath": path, "content": "", "numLines": 3, "startLine": 1,
        "totalLines": 3}});
    to.write_tool_result(&answer("t2", "Read", "1\tone", WrittenToolOutcome::Done(&file))).unwrap();
    let edit =
        json!({"replace_all": false, "file_path": path, "old_string": "two", "new_string": "3"});
    say(&mut to, &[call("t3", "Edit", &edit)]);
    let hunks = json!([{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" one", "-two", "+3"]}]);
    let edited = json!({"filePath": path, "oldString": "two", "newString": "3", "originalFile": "", "structuredPatch": hunks,
        "userModified": false, "replaceAll": false});
    to.write_tool_result(&answer("t3", "Edit", "updated", WrittenToolOutcome::Done(&edited)))
        .unwrap();
    let command = json!({"command": "exit 3", "description": "fail"});
    say(&mut to, &[call("t4", "Bash", &command)]);
    to.write_tool_result(&answer("t4", "Bash", "Exit code 3\nout", WrittenToolOutcome::Failed))
        .unwrap();
    say(&mut to, &[call("t5", "Bash", &command)]);
    to.write_tool_result(&answer(
        "t5",
        "Bash",
        "PreToolUse:Bash hook error",
        WrittenToolOutcome::Denied,
    ))
    .unwrap();
    let nothing = json!({});
    say(&mut to, &[call("t6", "Bash", &command), call("t7", "Nope", &nothing)]);
    let unknown = "<tool_use_error>Error: No such tool available: Nope</tool_use_error>";
    to.write_tool_result(&answer("t7", "Nope", unknown, WrittenToolOutcome::InvalidCall)).unwrap();
    let ran = bash_result();
    to.write_tool_result(&answer("t6", "Bash", "", WrittenToolOutcome::Done(&ran))).unwrap();
    say(&mut to, &[text_block("done")]);
    attach(&mut to, HookAttachmentKind::Success { content: "", ended: ended("{}", "") });
    attach(&mut to, HookAttachmentKind::SystemMessage { content: "SYS" });
    sum(&mut to, &TestStopSummary::default());
    to.close().unwrap();
    assert_eq!(shapes(&scene.text()), shapes(&recorded("tools-and-hooks.jsonl")));
    let lines: Vec<Value> =
        scene.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answers: Vec<_> =
        lines.iter().filter(|line| line["sourceToolAssistantUUID"].is_string()).collect();
    assert_eq!(answers.len(), 7);
    for line in answers {
        assert_eq!(line["parentUuid"], line["sourceToolAssistantUUID"]);
    }
}

#[test]
fn errors_and_interruptions_have_the_recorded_shape() {
    let scene = TranscriptScene::new();
    let mut to = scene.open();
    begin(&mut to, "hello");
    to.write_api_error(&WrittenApiError {
        status: Some(529),
        kind: Some("overloaded_error"),
        error: "server_error",
        request: "req_fake_000001",
        text: "API Error: 529 Overloaded.",
    })
    .unwrap();
    to.close().unwrap();
    assert_eq!(shapes(&scene.text()), shapes(&recorded("api-error-529.jsonl")));

    // The interrupted client wrote its last lines first, so the order is ignored.
    let scene = TranscriptScene::new();
    let mut to = scene.open();
    begin(&mut to, "hello");
    let command = json!({"command": "x", "description": "wait"});
    say(&mut to, &[text_block("w"), call("t1", "Bash", &command)]);
    let (text, outcome) = ("The user doesn't want…", WrittenToolOutcome::Interrupted);
    to.write_tool_result(&WrittenToolResult { id: "t1", name: "Bash", text, outcome }).unwrap();
    to.write_interruption("[Request interrupted by user for tool use]").unwrap();
    to.close().unwrap();
    let order = |text: &str| {
        let mut lines: Vec<_> = shapes(text).lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    assert_eq!(order(&scene.text()), order(&recorded("interrupted-tools.jsonl")));
}

#[test]
fn a_subagent_has_a_separate_file() {
    for (recorded_as, background) in
        [("subagent-foreground-blocked", false), ("subagent-background", true)]
    {
        let scene = TranscriptScene::new();
        let mut main = scene.open();
        begin(&mut main, "hello");
        let agent = SidechainAgent {
            id: "a992fcbb72ecc398e".to_owned(),
            kind: "general-purpose".to_owned(),
            description: "sub task".to_owned(),
            tool_use_id: "toolu_fake_0001_01".to_owned(),
            background,
        };
        let mut to = main.open_sidechain(agent).unwrap();
        to.write_prompt("SUBPROMPT please work", WrittenPromptOrigin::Agent).unwrap();
        let input = json!({"command": "echo sub", "description": "d"});
        say(&mut to, &[text_block("sub working"), call("toolu_2", "Bash", &input)]);
        run("toolu_2", &mut to, &bash_result());
        say(&mut to, &[text_block("sub report 3")]);
        if !background {
            to.write_feedback("Stop hook feedback:\n[hook]: SUBREASON1").unwrap();
            say(&mut to, &[text_block("sub report 4")]);
            to.write_feedback("Stop hook feedback:\nSUBREASON2").unwrap();
            attach(
                &mut to,
                HookAttachmentKind::BlockingError { reason: "SUBREASON2", command: HOOK },
            );
            say(&mut to, &[text_block("sub report 5")]);
        }
        main.finish_sidechain(&to).unwrap();
        let expected = recorded(&format!("{recorded_as}.subagent.jsonl"));
        assert_eq!(shapes(&text(to.path())), shapes(&expected), "{recorded_as}");
        let meta = recorded(&format!("{recorded_as}.subagent.meta.json"));
        assert_eq!(text(&to.path().with_extension("meta.json")), meta, "{recorded_as}");
        main.close().unwrap();
        let text = scene.text();
        let cost: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let (tokens, usd) = if background { (200, 0.0016) } else { (400, 0.0032) };
        assert_eq!(cost["modelUsage"][DEFAULT_MODEL]["inputTokens"], tokens);
        assert_eq!(cost["totalCostUSD"], usd);
    }
}

#[test]
fn a_compaction_and_a_background_task_have_the_recorded_shape() {
    let lines = |text: &str, wanted: fn(&Value) -> bool| -> String {
        let is_wanted = |line: &&str| wanted(&serde_json::from_str(line).unwrap());
        text.lines().filter(is_wanted).collect::<Vec<_>>().join("\n")
    };
    let is_compaction =
        |line: &Value| line["subtype"] == "compact_boundary" || line["isCompactSummary"] == true;
    for (name, trigger) in [
        ("auto-compaction.jsonl", CompactionTrigger::Auto),
        ("manual-compaction.jsonl", CompactionTrigger::Manual),
    ] {
        let scene = TranscriptScene::new();
        let mut to = scene.open();
        begin(&mut to, "hello");
        say(&mut to, &[text_block("long")]);
        to.write_compaction(&WrittenCompaction {
            trigger,
            tokens_before: 90_081,
            tokens_after: 2644,
            duration_ms: 209,
            summary: "This session is being continued",
        })
        .unwrap();
        let sorted = |text: &str| {
            // The length of the id arrays depends on the number of messages.
            LineShape::sorted(&lines(text, is_compaction))
                .replace("[string, string, string]", "[string]")
                .replace("[string, string]", "[string]")
                // Only the client reads which turns were summarized.
                .replace(" summarizedTurnPromptUuids: [string],", "")
        };
        assert_eq!(sorted(&scene.text()), sorted(&recorded(name)), "{name}");
    }
    let scene = TranscriptScene::new();
    let mut to = scene.open();
    begin(&mut to, "hello");
    to.write_queued_prompt("<task-notification>").unwrap();
    to.begin_prompt();
    to.write_prompt("<task-notification>", WrittenPromptOrigin::Task).unwrap();
    let is_task = |line: &Value| line["origin"]["kind"] == "task-notification";
    let expected = lines(&recorded("background-shell.jsonl"), is_task);
    assert_eq!(shapes(&lines(&scene.text(), is_task)), shapes(&expected));
}

/// A readable outline of a session: one line for each of its lines.
fn outline(text: &str) -> String {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let short = |key: &str| line[key].as_str().map_or("-", |id| &id[..4]).to_owned();
        let session = line["sessionId"].as_str().unwrap();
        let turn = line["turnPosition"]["turnIndex"].as_u64();
        let turn = turn.map(|turn| format!(" turn {turn}")).unwrap_or_default();
        let cost = line["totalCostUSD"].as_f64();
        let cost = cost.map(|cost| format!(" ${cost}")).unwrap_or_default();
        let kind = line["type"].as_str().unwrap();
        format!("{} {} <- {} {kind}{turn}{cost}", &session[..4], short("uuid"), short("parentUuid"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_session_is_continued_and_forked() {
    let scene = TranscriptScene::new();
    for prompt in ["one", "two"] {
        let mut to = TranscriptWriter::open(
            &scene.place(),
            IdGenerator::seeded(prompt.len() as u64 + u64::from(prompt.as_bytes()[0])),
        )
        .unwrap();
        begin(&mut to, prompt);
        say(&mut to, &[text_block("answer")]);
        to.close().unwrap();
    }
    let fork = "00000000-e786-462c-84d4-07d1c65b5e76";
    let mut to = TranscriptWriter::fork(&scene.place(), fork, IdGenerator::seeded(9)).unwrap();
    begin(&mut to, "three");
    to.close().unwrap();
    insta::assert_snapshot!(format!("{}\n\n{}", outline(&scene.text()), outline(&text(to.path()))), @"
    5999 - <- - queue-operation
    5999 - <- - queue-operation
    5999 c151 <- - user turn 1
    5999 b073 <- c151 assistant
    5999 - <- - last-prompt
    5999 - <- - cost-state $0.0008
    5999 - <- - queue-operation
    5999 - <- - queue-operation
    5999 13b4 <- b073 user turn 2
    5999 46ba <- 13b4 assistant
    5999 - <- - last-prompt
    5999 - <- - cost-state $0.0016

    0000 c151 <- - user turn 1
    0000 b073 <- c151 assistant
    0000 13b4 <- b073 user turn 2
    0000 46ba <- 13b4 assistant
    0000 - <- - queue-operation
    0000 - <- - queue-operation
    0000 c8e9 <- 46ba user turn 3
    0000 - <- - last-prompt
    0000 - <- - cost-state $0.0016
    ");
}

#[test]
fn rejects_ids_with_path_separators() {
    let scene = TranscriptScene::new();
    let place = ClientSessionPaths { session: "../../x", ..scene.place() };
    let error = TranscriptWriter::open(&place, IdGenerator::seeded(1)).unwrap_err();
    let shown = error.to_string().replace(&*scene.directory.path().to_string_lossy(), "HOME");
    insta::assert_snapshot!(shown, @"cannot write `HOME/.claude/projects/-home-user-project/../../x.jsonl`");
    let agent = SidechainAgent {
        id: "/etc".to_owned(),
        kind: String::new(),
        description: String::new(),
        tool_use_id: String::new(),
        background: false,
    };
    assert!(scene.open().open_sidechain(agent).is_err());
}

/// Ralph's transcript reader shares no code with the writer.
#[test]
fn ralph_can_read_what_the_simulator_writes() {
    let scene = TranscriptScene::new();
    let mut to = scene.open();
    begin(&mut to, "hello");
    say(&mut to, &[text_block("- [x] one\n- [ ] two")]);
    say(&mut to, &[text_block("done")]);
    to.write_api_error(&WrittenApiError {
        status: Some(500),
        kind: Some("api_error"),
        error: "server_error",
        request: "req_1",
        text: "API Error: 500 Internal.",
    })
    .unwrap();
    to.close().unwrap();
    let chunk = ralph_sys::tail::read_lines_from(to.path(), 0, 1 << 20).unwrap();
    let mut seen = ralph_host::transcript_summary::TranscriptSummary::default();
    chunk
        .lines()
        .for_each(|line| seen.add((ralph_host::claude::PROFILE.parse_transcript_line)(line)));
    insta::assert_debug_snapshot!(seen, @r#"
    TranscriptSummary {
        context_tokens: Some(
            120,
        ),
        context_window: Some(
            1000000,
        ),
        last_assistant: Some(
            LastAssistantMessage {
                text: Some(
                    "API Error: 500 Internal.",
                ),
                api_error: true,
            },
        ),
        tool_calls: 0,
        writing_calls: 0,
        saw_blocked_stop: false,
        checklist: Some(
            Checklist {
                items: [
                    ChecklistItem {
                        text: "one",
                        done: true,
                    },
                    ChecklistItem {
                        text: "two",
                        done: false,
                    },
                ],
            },
        ),
        interrupted: false,
        overridden: false,
        queue: TypedMessageQueue {
            old: 0,
            new: [],
        },
    }
    "#);
}

/// The JSON types of all values of a line, with its keys in order.
enum LineShape {
    Leaf(&'static str),
    List(Vec<LineShape>),
    Object(Vec<(String, LineShape)>),
}

/// Objects whose keys we sort, unlike the client.
const SORTED: [&str; 2] = ["input", "toolUseResult"];

fn shapes(text: &str) -> String {
    let shape = |line: &str| serde_json::from_str::<LineShape>(line).unwrap().to_string();
    text.lines().map(shape).collect::<Vec<_>>().join("\n")
}

impl LineShape {
    fn sorted(text: &str) -> String {
        let shape = |line: &str| {
            let mut shape = serde_json::from_str::<Self>(line).unwrap();
            shape.sort();
            shape.to_string()
        };
        text.lines().map(shape).collect::<Vec<_>>().join("\n")
    }

    fn sort(&mut self) {
        match self {
            Self::Leaf(_) => {}
            Self::List(items) => items.iter_mut().for_each(Self::sort),
            Self::Object(fields) => {
                fields.sort_by(|(one, _), (other, _)| one.cmp(other));
                for (_, shape) in fields {
                    shape.sort();
                }
            }
        }
    }
}

impl fmt::Display for LineShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(kind) => f.write_str(kind),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Object(fields) => {
                let fields = fields.iter().map(|(key, shape)| format!(" {key}: {shape},"));
                write!(f, "{{{} }}", fields.collect::<String>())
            }
        }
    }
}

impl<'de> Deserialize<'de> for LineShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LineShapeVisitor)
    }
}

struct LineShapeVisitor;

impl<'de> Visitor<'de> for LineShapeVisitor {
    type Value = LineShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<LineShape, E> {
        Ok(LineShape::Leaf("flag"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<LineShape, E> {
        Ok(LineShape::Leaf("number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<LineShape, E> {
        Ok(LineShape::Leaf("number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<LineShape, E> {
        Ok(LineShape::Leaf("string"))
    }

    fn visit_unit<E>(self) -> Result<LineShape, E> {
        Ok(LineShape::Leaf("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LineShape, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(LineShape::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineShape, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, mut shape)) = map.next_entry::<String, LineShape>()? {
            if SORTED.contains(&&*key) {
                shape.sort();
            }
            fields.push((key, shape));
        }
        Ok(LineShape::Object(fields))
    }
}
