use super::*;
use crate::client_rules::handler_answer::{FinishedHookProcess, HookIdentity, handler_answer};
use crate::hook_answer::HookExit;
use crate::timeline::MessageRole;
use insta::assert_snapshot;
use ralph_sys::fs;

fn fixtures(kind: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../fixtures/hosts/claude-code/2.1.325").join(kind)
}

fn payload(name: &str) -> HookPayload {
    let path = fixtures("stdin").join(name).with_added_extension("json");
    HookPayload::parse(&fs::read(&path, MAX_PAYLOAD_BYTES).unwrap()).unwrap()
}

/// A finished hook: its command, its plugin, and its output.
struct FinishedHook<'a> {
    command: &'a str,
    plugin: Option<&'a str>,
    exit: HookExit,
    stdout: &'a str,
    stderr: &'a str,
}

fn said<'a>(code: i32, stdout: &'a str, stderr: &'a str) -> FinishedHook<'a> {
    FinishedHook { command: "hook", plugin: None, exit: HookExit::Code(code), stdout, stderr }
}

fn replay(payload: &HookPayload, hooks: &[FinishedHook<'_>]) -> ReplayReport {
    let answers = hooks.iter().map(|over| {
        let asked = HookIdentity {
            command: over.command.to_owned(),
            source: "project".to_owned(),
            plugin: over.plugin.map(str::to_owned),
        };
        let ended = FinishedHookProcess {
            exit: over.exit.clone(),
            stdout: over.stdout.replace("EVENT", payload.event()),
            stderr: over.stderr.to_owned(),
            ms: 0,
        };
        handler_answer(payload.event(), asked, ended)
    });
    assess_answers(payload, payload.dispatched_event(), answers.collect())
}

const GONE: &str = "FileNotFoundError: [Errno 2] No such file or directory: 'a'";
const BLOCK: &str = r#"{"decision":"block","reason":"R"}"#;
const CONTEXT: &str = r#"{"hookSpecificOutput":{"hookEventName":"EVENT","additionalContext":"C"}}"#;

/// Every hook answer that was tried on the client at a stop, with the observed decision.
fn answers() -> Vec<(&'static str, Vec<FinishedHook<'static>>, char)> {
    let foreign = r#"{"decision":"block","hookSpecificOutput":{"hookEventName":"Elsewhere"}}"#;
    let nameless = r#"{"decision":"block","hookSpecificOutput":{"additionalContext":"C"}}"#;
    vec![
        ("exit 2", vec![said(2, "", "no")], 'B'),
        ("exit 2, stderr mentions a missing file", vec![said(2, "", GONE)], '.'),
        ("the same with `{}` on stdout", vec![said(2, "{}", GONE)], 'B'),
        ("the same with a word on stdout", vec![said(2, "x", GONE)], 'B'),
        ("exit 2 without output", vec![said(2, "", "")], 'B'),
        ("block", vec![said(0, BLOCK, "")], 'B'),
        ("block without a reason", vec![said(0, r#"{"decision":"block"}"#, "")], 'B'),
        (
            "block for an empty reason",
            vec![said(0, r#"{"decision":"block","reason":""}"#, "")],
            'B',
        ),
        ("continue: false", vec![said(0, r#"{"continue":false,"stopReason":"S"}"#, "")], 'S'),
        (
            "continue: false, and a block",
            vec![said(0, r#"{"continue":false,"decision":"block"}"#, "")],
            'S',
        ),
        (
            "continue: false beside a block",
            vec![said(2, "", "no"), said(0, r#"{"continue":false}"#, "")],
            'S',
        ),
        ("exit 1", vec![said(1, "", "no")], '.'),
        ("exit 127", vec![said(127, "", "no")], '.'),
        ("nothing", vec![said(0, "", "")], '.'),
        ("plain text", vec![said(0, "done", "")], '.'),
        ("broken JSON", vec![said(0, r#"{"decision":"block""#, "")], '.'),
        ("text before JSON", vec![said(0, "log\n{\"decision\":\"block\"}", "")], '.'),
        ("text after JSON", vec![said(0, "{\"decision\":\"block\"}\nlog", "")], '.'),
        ("approve", vec![said(0, r#"{"decision":"approve","reason":"R"}"#, "")], '.'),
        ("block with unknown fields", vec![said(0, r#"{"decision":"block","mine":[1]}"#, "")], 'B'),
        ("decision: null", vec![said(0, r#"{"decision":null}"#, "")], '.'),
        ("decision: deny", vec![said(0, r#"{"decision":"deny"}"#, "")], '.'),
        ("reason: 42", vec![said(0, r#"{"decision":"block","reason":42}"#, "")], '.'),
        ("continue: \"false\"", vec![said(0, r#"{"continue":"false"}"#, "")], '.'),
        ("for another event", vec![said(0, foreign, "")], '.'),
        ("for no event", vec![said(0, nameless, "")], '.'),
        ("ok: false", vec![said(0, r#"{"ok":false,"reason":"R"}"#, "")], '.'),
        ("exit 1 and block", vec![said(1, BLOCK, "")], 'B'),
        ("exit 2 and block", vec![said(2, BLOCK, "no")], 'B'),
        ("exit 2 and approve", vec![said(2, r#"{"decision":"approve"}"#, "no")], 'B'),
        ("exit 2 and a wrong field", vec![said(2, r#"{"decision":null}"#, "no")], 'B'),
        ("exit 2 and continue: false", vec![said(2, r#"{"continue":false}"#, "no")], 'S'),
        ("timeout", vec![FinishedHook { exit: HookExit::TimedOut, ..said(0, "", "") }], '.'),
        (
            "one blocks, one approves",
            vec![said(2, "", "no"), said(0, r#"{"decision":"approve"}"#, "")],
            'B',
        ),
        ("both block", vec![said(2, "", "no"), said(0, BLOCK, "")], 'B'),
        ("systemMessage", vec![said(0, r#"{"systemMessage":"M"}"#, "")], '.'),
        ("additionalContext", vec![said(0, CONTEXT, "")], 'B'),
    ]
}

fn letter(decision: ReplayDecision) -> char {
    match decision {
        ReplayDecision::Allowed => '.',
        ReplayDecision::Blocked => 'B',
        ReplayDecision::Stopped => 'S',
        ReplayDecision::Killed => 'K',
    }
}

/// Every recorded event with every answer of [`answers`], in order. At stops the decision must be the observed one.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn decides_recorded_events_as_the_client_did() {
    let answers = answers();
    let names = fs::list(&fixtures("stdin"), 100).unwrap();
    assert_eq!(names.len(), 57);
    let mut table = String::new();
    for name in names {
        let name = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        let payload = payload(name);
        let mut row = String::new();
        for (answer, hooks, observed) in &answers {
            let found = letter(replay(&payload, hooks).decision);
            if matches!(payload.event(), "Stop" | "SubagentStop") {
                assert_eq!(found, *observed, "{answer}, at {name}");
            }
            row.push(found);
        }
        table.push_str(&format!("{name:<32} {row}\n"));
    }
    assert_snapshot!(table, @"
    ConfigChange                     BBBBBBBBSSS........B.......BBBBS.BB..
    CwdChanged                       .....................................
    DirectoryAdded                   .....................................
    Elicitation                      BBBBBBBBSSS........B.......BBBBS.BB..
    FileChanged                      .....................................
    InstructionsLoaded               .....................................
    MessageDisplay                   .....................................
    Notification.idle_prompt         .....................................
    Notification.permission_prompt   .....................................
    PermissionDenied                 .....................................
    PermissionRequest                BBBBBBBBSSS........B.......BBBBS.BB..
    PostCompact.auto                 .....................................
    PostCompact.manual               .....................................
    PostModelSwitch                  .....................................
    PostToolBatch                    SSSSSSSSSSS........S.......SSSSS.SS..
    PostToolUse                      BBBBBBBBSSS........B.......BBBBS.BB..
    PostToolUseFailure               BBBBBBBBSSS........B.......BBBBS.BB..
    PreCompact.auto                  BBBBBBBB.BB........B.......BBBBB.BB..
    PreCompact.manual                BBBBBBBB.BB........B.......BBBBB.BB..
    PreModelSwitch                   BBBBBBBBSSS........B.......BBBBS.BB..
    PreToolUse.hook-agent            BBBBBBBBSBB........B.......BBBBB.BB..
    PreToolUse.in-subagent           BBBBBBBBSBB........B.......BBBBB.BB..
    PreToolUse                       BBBBBBBBSBB........B.......BBBBB.BB..
    SessionEnd.clear                 .....................................
    SessionEnd.other                 .....................................
    SessionEnd.prompt_input_exit     .....................................
    SessionStart.clear               .....................................
    SessionStart.compact             .....................................
    SessionStart.fork                .....................................
    SessionStart.resume              .....................................
    SessionStart.startup             .....................................
    Setup                            .....................................
    Stop.after-block                 B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.background-shell            B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.background-subagent         B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.background-teammate         B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.cron                        B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.cwd-changed-by-agent        B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.first                       B.BBBBBBSSS........B.......BBBBS.BB.B
    Stop.scheduled-wakeup            B.BBBBBBSSS........B.......BBBBS.BB.B
    StopFailure.connection           .....................................
    StopFailure.hook-agent           .....................................
    StopFailure.in-compaction-agent  .....................................
    StopFailure.rate_limit           .....................................
    SubagentStart                    .....................................
    SubagentStop.after-block         B.BBBBBBSSS........B.......BBBBS.BB.B
    SubagentStop.background          B.BBBBBBSSS........B.......BBBBS.BB.B
    SubagentStop.hook-agent          B.BBBBBBSSS........B.......BBBBS.BB.B
    SubagentStop.teammate            B.BBBBBBSSS........B.......BBBBS.BB.B
    TaskCompleted                    B.BBBBBB.BB........B.......BBBBB.BB..
    TaskCreated                      BBBBBBBB.BB........B.......BBBBB.BB..
    TeammateIdle                     B.BBBBBBSSS........B.......BBBBS.BB..
    UserPromptExpansion              BBBBBBBBSSS........B.......BBBBS.BB..
    UserPromptSubmit                 BBBBBBBBSSS........B.......BBBBS.BB..
    UserPromptSubmit.task-notification BBBBBBBBSSS........B.......BBBBS.BB..
    WorktreeCreate                   BBBBBBBBSSS........B.......BBBBS.BB..
    WorktreeRemove                   .....................................
    ");
}

/// The texts of a recorded request.
fn recorded(name: &str) -> Vec<(MessageRole, String)> {
    let path = fixtures("api").join(name).with_added_extension("json");
    let messages: Vec<Value> =
        serde_json::from_slice(&fs::read(&path, MAX_PAYLOAD_BYTES).unwrap()).unwrap();
    let mut texts = Vec::new();
    for message in messages {
        let role =
            if message["role"] == "system" { MessageRole::System } else { MessageRole::User };
        if let Value::String(text) = &message["content"] {
            texts.push((role, text.clone()));
            continue;
        }
        for block in message["content"].as_array().unwrap() {
            texts.push((role, block["text"].as_str().unwrap().to_owned()));
        }
    }
    texts
}

#[test]
fn messages_to_the_model_equal_those_of_recorded_requests() {
    const STOP: &str = "/usr/bin/python3 /home/user/lab/hook.py Stop";
    const SUBAGENT: &str = "/usr/bin/python3 /home/user/lab/hook.py SubagentStop";
    const IDLE: &str = "/usr/bin/python3 /home/user/lab/hook.py TeammateIdle";
    const PLUGIN: &str =
        "/usr/bin/python3 /home/user/lab/plug/market/plugins/demo/hooks/h.py PluginStop";
    let by = |command, over| FinishedHook { command, ..over };
    let context =
        CONTEXT.replace('C', "ADDCTX-K3").replace("additionalADDCTX-K3ontext", "additionalContext");
    let both = r#"{"decision":"block","reason":"REASON-K4","hookSpecificOutput":{"hookEventName":"Stop","additionalContext":"ADDCTX-K4"}}"#;
    let block = |reason: &str| format!(r#"{{"decision":"block","reason":"{reason}"}}"#);
    let (b, jb, sub, idle) =
        (block("REASON-B"), block("REASON-JB"), block("SUBREASON2"), block("IDLE-JSON"));
    let two = vec![
        by("/usr/bin/python3 /home/user/lab/hook.py B", said(0, &jb, "")),
        by("/usr/bin/python3 /home/user/lab/hook.py A", said(2, "", "REASON-JA")),
    ];
    let plugin =
        FinishedHook { plugin: Some("demo@inline"), ..by(PLUGIN, said(2, "", "PLUGIN-EXIT2")) };
    let rows = [
        ("stop-exit2", "Stop.first", vec![by(STOP, said(2, "", "REASON-A line1\nline2"))]),
        ("stop-json-block", "Stop.first", vec![by(STOP, said(0, &b, ""))]),
        ("stop-additionalContext", "Stop.first", vec![by(STOP, said(0, &context, ""))]),
        ("stop-block-plus-additionalContext", "Stop.first", vec![by(STOP, said(0, both, ""))]),
        ("two-hooks-block", "Stop.first", two),
        (
            "subagentstop-exit2",
            "SubagentStop.background",
            vec![by(SUBAGENT, said(2, "", "SUBREASON1"))],
        ),
        (
            "subagentstop-json-block",
            "SubagentStop.background",
            vec![by(SUBAGENT, said(0, &sub, ""))],
        ),
        ("teammateidle-exit2", "TeammateIdle", vec![by(IDLE, said(2, "", "IDLE-NO keep working"))]),
        ("teammateidle-json", "TeammateIdle", vec![by(IDLE, said(0, &idle, ""))]),
        ("plugin-exit2", "Stop.first", vec![plugin]),
    ];
    for (request, event, hooks) in rows {
        let reads = replay(&payload(event), &hooks).reads;
        assert_eq!(merged(reads), recorded(request), "{request}");
    }
}

/// Joins texts as the client does: consecutive system texts become one, and a user text ends with a newline if another
/// follows.
fn merged(reads: Vec<TimelineMessage>) -> Vec<(MessageRole, String)> {
    let mut merged: Vec<(MessageRole, String)> = Vec::new();
    for said in reads {
        match merged.last_mut() {
            Some((MessageRole::System, text)) if said.role == MessageRole::System => {
                text.push_str("\n\n");
                text.push_str(&said.text);
                continue;
            }
            Some((MessageRole::User, text)) if said.role == MessageRole::User => text.push('\n'),
            Some(_) | None => {}
        }
        merged.push((said.role, said.text));
    }
    merged
}

#[test]
fn messages_of_other_events() {
    let rows = [
        ("PreToolUse", vec![said(2, "", "not here"), said(0, CONTEXT, "")]),
        (
            "PreToolUse",
            vec![said(
                0,
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"sure?"}}"#,
                "",
            )],
        ),
        ("PostToolUse", vec![said(2, "", "format it"), said(0, CONTEXT, "")]),
        ("UserPromptSubmit", vec![said(2, "", "not today")]),
        ("UserPromptSubmit", vec![said(0, "the date", ""), said(0, CONTEXT, "")]),
        ("SessionStart.resume", vec![said(0, "printed", ""), said(0, CONTEXT, "")]),
        ("TaskCompleted", vec![said(2, "", "untested"), said(0, r#"{"continue":false}"#, "")]),
        ("PreCompact.auto", vec![said(2, "", "not yet\n")]),
        ("PostToolBatch", vec![said(0, BLOCK, "")]),
        (
            "Notification.idle_prompt",
            vec![said(2, "", "no"), said(0, r#"{"systemMessage":"M"}"#, "")],
        ),
    ];
    let mut shown = String::new();
    for (name, hooks) in rows {
        let ReplayReport { decision, reads, person, .. } = replay(&payload(name), &hooks);
        shown.push_str(&format!("{name}: {decision:?}\n"));
        for said in reads {
            shown.push_str(&format!("  {:?}: {:?}\n", said.role, said.text));
        }
        for text in person {
            shown.push_str(&format!("  person: {text:?}\n"));
        }
    }
    assert_snapshot!(shown, @r#"
    PreToolUse: Blocked
      Tool: "PreToolUse:Bash hook error: [hook]: not here"
      System: "PreToolUse:Bash hook additional context: C"
    PreToolUse: Blocked
      Tool: "sure?"
      person: "(asked whether to allow the call; denied in a headless session)"
    PostToolUse: Blocked
      System: "PostToolUse:Bash hook blocking error from command: \"hook\": [hook]: format it"
      System: "PostToolUse:Bash hook additional context: C"
    UserPromptSubmit: Blocked
      person: "UserPromptSubmit operation blocked by hook:\n[hook]: not today\n\nOriginal prompt: do it"
    UserPromptSubmit: Allowed
      System: "UserPromptSubmit hook success: the date"
      System: "UserPromptSubmit hook additional context: C"
    SessionStart.resume: Allowed
      System: "SessionStart:resume hook success: printed"
      System: "SessionStart hook additional context: C"
    TaskCompleted: Blocked
      Tool: "TaskCompleted hook feedback:\n[hook]: untested"
    PreCompact.auto: Blocked
      person: "Compaction blocked by PreCompact hook: [hook]: not yet"
    PostToolBatch: Stopped
    Notification.idle_prompt: Allowed
      person: "Notification says: M"
    "#);
}

#[test]
fn a_payload_is_sent_on_one_line_with_its_fields_in_order() {
    let text = "\u{feff}{\n  \"z\": \"a \\\" b\\\\\",\r\n\t\"hook_event_name\" : \"Stop\",\n \"n\": 1.50e3 }\n\n";
    let payload = HookPayload::parse(text.as_bytes()).unwrap();
    let line = String::from_utf8(payload.line).unwrap();
    assert_eq!(line, "{\"z\":\"a \\\" b\\\\\",\"hook_event_name\":\"Stop\",\"n\":1.50e3}\n");
}

#[test]
fn rejects_payloads_that_are_not_events() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let rows = [
        ("", "not valid JSON"),
        (&deep, "not valid JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "no `hook_event_name`"),
        (r#"{"hook_event_name":7}"#, "no `hook_event_name`"),
        (r#"{"hook_event_name":"stop"}"#, "`stop` is not an event of the client"),
    ];
    for (text, wanted) in rows {
        assert_eq!(HookPayload::parse(text.as_bytes()).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn names_the_file_that_the_client_would_write_for_a_long_context() {
    let long = "x".repeat(10_001);
    let context = CONTEXT.replace(":\"C\"", &format!(":\"{long}\""));
    let reads = replay(&payload("Stop.first"), &[said(0, &context, "")]).reads;
    let text = &reads[0].text;
    let at = "/home/user/.claude/projects/-home-user-project/5999882c-e786-462c-84d4-07d1c65b5e76/tool-results/hook-";
    let (before, after) = text.split_once(at).unwrap();
    assert_eq!(
        before,
        "<system-reminder>\nStop hook additional context: <persisted-output>\nOutput too large (9.8KB). Full output saved to: "
    );
    assert!(
        after[36..].starts_with("-Stop-additionalContext.txt\n\nPreview (first 2KB):\nxxx"),
        "{after}"
    );
}
