//! The host's wire format: any input is parsed without failing, and answers are exact to the byte.

use crate::scenario::check;
use ralph_core::event::{
    CompactionEvent, CompactionMoment, HookEvent, IgnoredEvent, PendingWork, PendingWorkKind,
    PromptEvent, ReplyOccasion, SessionEndEvent, SessionStartEvent, StopEvent, StopFailureEvent,
    SubagentStopEvent, TaskEvent, TeammateIdleEvent, ToolCallEvent, ToolDoneEvent,
};
use ralph_core::id::SessionId;
use ralph_core::status::RunStatus;
use ralph_core::verdict::Verdict;
use ralph_host::claude::PROFILE;
use ralph_host::{BlockStyle, HookReply, MalformedEvent, host_named};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const STYLES: [BlockStyle; 3] = [BlockStyle::Exit2, BlockStyle::Context, BlockStyle::Json];

fn parse(input: &[u8]) -> Result<HookEvent, MalformedEvent> {
    (PROFILE.parse_event)(input)
}

fn payloads() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let captured = root.join("../../fixtures/hosts/claude-code/2.1.325/stdin");
    let mut paths: Vec<_> =
        captured.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[expect(clippy::disallowed_methods, reason = "a fixture of a few hundred bytes, in a test")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn shown(parsed: &Result<HookEvent, MalformedEvent>) -> String {
    let session = |id: &Option<SessionId>| {
        id.as_ref().map_or_else(|| "no session".to_owned(), |id| id.short().to_owned())
    };
    match parsed {
        Err(malformed) => format!("malformed: {}", malformed.why),
        Ok(HookEvent::Unknown) => "unknown".to_owned(),
        Ok(HookEvent::Ignored(IgnoredEvent { session: id, name })) => {
            format!("{name} of {}", session(id))
        }
        Ok(HookEvent::StopFailure(StopFailureEvent { session: id, class, agent })) => {
            let of =
                agent.as_ref().map_or_else(|| session(id), |agent| format!("subagent {agent}"));
            format!("StopFailure of {of}: {class:?}")
        }
        Ok(HookEvent::SubagentStop(stop)) => subagent_shown(stop, &session(&stop.session)),
        Ok(HookEvent::Stop(stop)) => stop_shown(stop, &session(&stop.session)),
        Ok(HookEvent::Prompt(PromptEvent { session: id, id: prompt, text, moment, .. })) => {
            let prompt = if prompt.is_some() { " with an id" } else { "" };
            format!("{moment:?} in {}: {text:?}{prompt}", session(id))
        }
        Ok(HookEvent::SessionStart(SessionStartEvent { session: id, source, .. })) => {
            format!("SessionStart of {}: {source:?}", session(id))
        }
        Ok(HookEvent::SessionEnd(SessionEndEvent { session: id, reason, .. })) => {
            format!("SessionEnd of {}: {reason}", session(id))
        }
        Ok(HookEvent::Compaction(CompactionEvent { session: id, moment })) => match moment {
            CompactionMoment::Before => format!("before a compaction of {}", session(id)),
            CompactionMoment::After { summary } => {
                let summary = ralph_core::text::truncate(summary, 40);
                format!("after a compaction of {}: {summary:?}", session(id))
            }
        },
        Ok(HookEvent::ToolCall(ToolCallEvent { session: id, agent, tool, input, .. })) => {
            let agent = agent.as_ref().map(|agent| format!(" by {agent}")).unwrap_or_default();
            format!(
                "{tool} in {}{agent}: {}",
                session(id),
                ralph_core::text::truncate(input.get(), 60)
            )
        }
        Ok(HookEvent::ToolDone(ToolDoneEvent { session: id, tool })) => {
            format!("{tool} done in {}", session(id))
        }
        Ok(HookEvent::Task(TaskEvent { session: id, moment, id: task, subject, teammate })) => {
            format!("{moment:?} in {}: {task:?} {subject:?} {teammate:?}", session(id))
        }
        Ok(HookEvent::Idle(TeammateIdleEvent { session: id, teammate, agent })) => {
            format!("Idle in {}: {teammate:?} {agent:?}", session(id))
        }
    }
}

fn subagent_shown(stop: &SubagentStopEvent, session: &str) -> String {
    let kind = stop.agent_type.as_deref().unwrap_or("?");
    let mut out = format!(
        "SubagentStop of {} ({kind}) in {session}{}",
        stop.agent.as_deref().unwrap_or("?"),
        if stop.continuing { ", continuing" } else { "" }
    );
    for pending in &stop.pending {
        write!(out, ", pending {}", pending.what).unwrap();
    }
    out
}

fn stop_shown(stop: &StopEvent, session: &str) -> String {
    let mut out = format!("Stop of {session}");
    for (name, value) in [("in", &stop.cwd), ("said", &stop.last_message)] {
        if let Some(value) = value {
            write!(out, ", {name} {:?}", ralph_core::text::truncate(value, 40)).unwrap();
        }
    }
    for (name, is_there) in [
        ("continuing", stop.continuing),
        ("with a transcript", stop.transcript.is_some()),
        ("with a prompt", stop.prompt.is_some()),
    ] {
        if is_there {
            write!(out, ", {name}").unwrap();
        }
    }
    if let Some(trouble) = &stop.trouble {
        write!(out, ", {trouble:?}").unwrap();
    }
    for PendingWork { kind, what, .. } in &stop.pending {
        let kind = match kind {
            PendingWorkKind::Background => "background",
            PendingWorkKind::WakeUp => "wake-up",
        };
        write!(out, ", {kind}: {what}").unwrap();
    }
    out
}

#[test]
fn every_captured_payload_is_parsed() {
    let listed = payloads().iter().fold(String::new(), |mut out, path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        writeln!(out, "{name}: {}", shown(&parse(&read(path)))).unwrap();
        out
    });
    insta::assert_snapshot!(listed);
}

/// People who test a hook by hand send payloads like these.
#[test]
fn a_payload_with_only_the_stop_flag_is_a_stop() {
    let bare = [
        r#"{"stop_hook_active": true}"#,
        r#"{"stop_hook_active": false, "session_id": "test-456"}"#,
        r#"{"stop_hook_active": "yes", "session_id": "test-456"}"#,
        r#"{"stop_hook_active": null, "session_id": "test-456"}"#,
        r#"{"session_id": "test-456"}"#,
    ];
    let listed = bare.iter().fold(String::new(), |mut out, payload| {
        writeln!(out, "{payload}: {}", shown(&parse(payload.as_bytes()))).unwrap();
        out
    });
    check!(listed, @r#"
    {"stop_hook_active": true}: Stop of no session, continuing
    {"stop_hook_active": false, "session_id": "test-456"}: Stop of test-456
    {"stop_hook_active": "yes", "session_id": "test-456"}: Stop of test-456
    {"stop_hook_active": null, "session_id": "test-456"}: unknown
    {"session_id": "test-456"}: unknown
    "#);
}

/// R-L6a: the client's error classes, as it sends them.
#[test]
fn error_classes_of_the_client_are_recognised() {
    let words = [
        "rate_limit",
        "overloaded_error",
        "authentication_failed",
        "billing_error",
        "invalid_request",
        "model_not_found",
        "prompt_too_long",
        "max_output_tokens",
        "server_error",
        "aborted_streaming",
        "end_turn",
        "refusal",
        "solar\u{1b}[31m_flare",
        "",
    ];
    let listed = words.iter().fold(String::new(), |mut out, word| {
        let word = serde_json::to_string(word).unwrap();
        let failure = format!(r#"{{"hook_event_name":"StopFailure","error":{word}}}"#);
        let stop = format!(r#"{{"hook_event_name":"Stop","stop_reason":{word}}}"#);
        let (failure, stop) = (shown(&parse(failure.as_bytes())), shown(&parse(stop.as_bytes())));
        writeln!(out, "{word}: {failure} | {stop}").unwrap();
        out
    });
    check!(listed, @r#"
    "rate_limit": StopFailure of no session: RateLimit | Stop of no session, RateLimit
    "overloaded_error": StopFailure of no session: Overloaded | Stop of no session, Overloaded
    "authentication_failed": StopFailure of no session: Authentication | Stop of no session, Authentication
    "billing_error": StopFailure of no session: Billing | Stop of no session, Billing
    "invalid_request": StopFailure of no session: InvalidRequest | Stop of no session, InvalidRequest
    "model_not_found": StopFailure of no session: InvalidRequest | Stop of no session, InvalidRequest
    "prompt_too_long": StopFailure of no session: ContextFull | Stop of no session, ContextFull
    "max_output_tokens": StopFailure of no session: OutputLimit | Stop of no session, OutputLimit
    "server_error": StopFailure of no session: Server | Stop of no session, Server
    "aborted_streaming": StopFailure of no session: Interrupted | Stop of no session, Interrupted
    "end_turn": StopFailure of no session: Unknown("end_turn") | Stop of no session
    "refusal": StopFailure of no session: Unknown("refusal") | Stop of no session
    "solar\u001b[31m_flare": StopFailure of no session: Unknown("solar_flare") | Stop of no session, Unknown("solar_flare")
    "": StopFailure of no session: Unknown("unknown") | Stop of no session
    "#);
    let too_long = br#"{"hook_event_name":"StopFailure","error":"invalid_request","error_details":"400 prompt is too long: 9"}"#;
    check!(shown(&parse(too_long)), @"StopFailure of no session: ContextFull");
}

/// R-H1d: any input is parsed or rejected, and never makes ralph fail.
#[test]
fn hostile_input_is_rejected_or_parsed() {
    let inputs: [(&str, &[u8]); 22] = [
        ("empty", b""),
        ("blank", b" \r\n\t"),
        ("a mark alone", b"\xef\xbb\xbf"),
        ("null", b"null"),
        ("true", b"true"),
        ("number", b"42"),
        ("string", b"\"Stop\""),
        ("empty list", b"[]"),
        (
            "an event as a list",
            br#"["Stop","s1",null,null,null,null,null,false,null,null,null,null,null,null]"#,
        ),
        ("empty object", b"{}"),
        ("cut off", br#"{"hook_event_name":"Stop","session_id":"#),
        ("two objects", b"{} {}"),
        ("words after it", br#"{"hook_event_name":"Stop"} ok"#),
        ("not utf-8", b"{\"hook_event_name\":\"Stop\",\"cwd\":\"\xff\xfe\"}"),
        ("utf-16", b"\xff\xfe{\0}\0"),
        ("a mark before it", b"\xef\xbb\xbf{\"hook_event_name\":\"Stop\",\"session_id\":\"s1\"}"),
        ("duplicate keys", br#"{"hook_event_name":"Stop","session_id":"a","session_id":"b"}"#),
        (
            "unknown fields",
            br#"{"hook_event_name":"Stop","session_id":"s1","new":{"a":[1]},"v":2}"#,
        ),
        ("unknown event", br#"{"hook_event_name":"Tomorrow","session_id":"s1"}"#),
        ("half a surrogate", br#"{"hook_event_name":"Stop","session_id":"s1","cwd":"\ud800"}"#),
        ("a path as id", br#"{"hook_event_name":"Stop","session_id":"../../etc"}"#),
        ("a NUL in the id", br#"{"hook_event_name":"Stop","session_id":"s\u0000"}"#),
    ];
    let listed = inputs.iter().fold(String::new(), |mut out, (what, input)| {
        writeln!(out, "{what}: {}", shown(&parse(input))).unwrap();
        out
    });
    check!(listed, @"
    empty: malformed: it is empty
    blank: malformed: it is empty
    a mark alone: malformed: it is empty
    null: malformed: it is not a valid JSON event (line 1, column 4)
    true: malformed: it is not a valid JSON event (line 1, column 4)
    number: malformed: it is not a valid JSON event (line 1, column 2)
    string: malformed: it is not a valid JSON event (line 1, column 6)
    empty list: malformed: it is a JSON list, not an object
    an event as a list: malformed: it is a JSON list, not an object
    empty object: unknown
    cut off: malformed: it is incomplete
    two objects: malformed: it is not a valid JSON event (line 1, column 4)
    words after it: malformed: it is not a valid JSON event (line 1, column 28)
    not utf-8: malformed: it is not a valid JSON event (line 1, column 34)
    utf-16: malformed: it is not a valid JSON event (line 1, column 1)
    a mark before it: Stop of s1
    duplicate keys: malformed: it is not a valid JSON event (line 1, column 55)
    unknown fields: Stop of s1
    unknown event: unknown
    half a surrogate: Stop of s1
    a path as id: Stop of no session
    a NUL in the id: Stop of no session
    ");
}

const FIELDS: [&str; 13] = [
    "session_id",
    "transcript_path",
    "cwd",
    "prompt_id",
    "agent_id",
    "agent_type",
    "stop_hook_active",
    "last_assistant_message",
    "stop_reason",
    "error",
    "error_details",
    "background_tasks",
    "session_crons",
];

const LISTS: [&str; 2] = ["background_tasks", "session_crons"];

/// R-H1d: a field of an unexpected type counts as missing and does not affect the others.
#[test]
fn a_field_of_an_unexpected_type_is_absent() {
    let wrong = ["null", "7", "-1e999", "[]", "{}", "[[[]]]", r#"[7, "x", null, {}]"#, "false"];
    for event in ["Stop", "SubagentStop", "StopFailure", "PreToolUse"] {
        let bare = format!(r#"{{"hook_event_name":"{event}"}}"#);
        let bare = shown(&parse(bare.as_bytes()));
        for field in FIELDS {
            for value in wrong {
                let payload = format!(r#"{{"{field}":{value},"hook_event_name":"{event}"}}"#);
                let found = shown(&parse(payload.as_bytes()));
                let odd_list = value.starts_with("[7") || value.starts_with("[[");
                if event == "SubagentStop" && LISTS.contains(&field) && odd_list {
                    assert!(found.starts_with("SubagentStop of ? (?) in no session, pending "));
                } else if event == "Stop" && field == "background_tasks" && odd_list {
                    assert!(found.starts_with("Stop of no session, background: "), "{payload}");
                } else if event == "Stop" && field == "session_crons" && odd_list {
                    assert!(found.starts_with("Stop of no session, wake-up: "), "{payload}");
                } else {
                    assert_eq!(found, bare, "{payload}");
                }
            }
        }
    }
    for value in wrong {
        let payload = format!(r#"{{"hook_event_name":{value},"stop_hook_active":true}}"#);
        assert_eq!(
            shown(&parse(payload.as_bytes())),
            "Stop of no session, continuing",
            "{payload}"
        );
    }
}

/// R-H1d: neither deep nesting nor length breaks the parser.
#[test]
fn deeply_nested_and_long_input_is_parsed() {
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    let long = "ä\\u0000\\n".repeat(125_000);
    for field in FIELDS {
        for value in [
            deep("[", "]"),
            format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)),
            format!("\"{long}\""),
            format!("[{}{{}}]", "{},".repeat(300_000)),
        ] {
            for event in ["Stop", "SubagentStop", "StopFailure"] {
                let payload = format!(r#"{{"{field}":{value},"hook_event_name":"{event}"}}"#);
                let Ok(event) = parse(payload.as_bytes()) else { panic!("{field}") };
                if let HookEvent::Stop(stop) = event {
                    assert!(stop.pending.len() <= 100, "{field}");
                    assert!(stop.pending.iter().all(|one| one.what.chars().count() <= 120));
                }
            }
        }
    }
    let never_closed = format!(r#"{{"hook_event_name":{}"#, "[".repeat(1_000_000));
    check!(shown(&parse(never_closed.as_bytes())), @"malformed: it is incomplete");
}

#[test]
fn no_prefix_and_no_changed_byte_of_a_payload_panics() {
    for path in payloads() {
        let good = read(&path);
        let body = good.trim_ascii_end();
        for length in 0..body.len() {
            assert!(parse(&body[..length]).is_err(), "{}: {length}", path.display());
        }
        for at in 0..good.len() {
            for byte in [0, b'"', b'[', b'}', b'9', 0xff] {
                let mut changed = good.clone();
                changed[at] = byte;
                let why = parse(&changed).map_or_else(|malformed| malformed.why, |_| String::new());
                assert!(why.len() <= 80, "{why}");
            }
        }
    }
}

fn bytes(reply: &HookReply) -> String {
    format!(
        "exit {} stdout {:?} stderr {:?}",
        reply.exit,
        String::from_utf8_lossy(&reply.stdout),
        String::from_utf8_lossy(&reply.stderr)
    )
}

fn end(status: RunStatus, notice: &str) -> Verdict {
    Verdict::EndRun { status, notice: notice.into(), ring_bell: false }
}

/// R-H1a, R-U1c: every verdict in every style, to the byte. A plain allow is zero bytes.
#[test]
fn every_verdict_in_every_style() {
    let verdicts = [
        Verdict::Allow,
        Verdict::AllowWithNotice("ralph: run k7f2 is orphaned".into()),
        Verdict::Block { reason: "1 of 2 — \"tests\"\nno such file\u{1}".into() },
        end(RunStatus::Verified, "ralph: verified (run k7f2)"),
        end(RunStatus::Stuck, "ralph: stuck \\ (run k7f2)"),
        end(RunStatus::Stuck, "ralph: stuck (run k7f2)").with_bell(true),
        Verdict::Allow.with_bell(true),
    ];
    let mut listed = String::new();
    for verdict in &verdicts {
        for style in STYLES {
            let reply = (PROFILE.render_verdict)(style, ReplyOccasion::Stop, verdict);
            writeln!(listed, "{style:?}: {}", bytes(&reply)).unwrap();
        }
    }
    check!(listed, @r#"
    Exit2: exit 0 stdout "" stderr ""
    Context: exit 0 stdout "" stderr ""
    Json: exit 0 stdout "" stderr ""
    Exit2: exit 0 stdout "{\"systemMessage\":\"ralph: run k7f2 is orphaned\"}" stderr ""
    Context: exit 0 stdout "{\"systemMessage\":\"ralph: run k7f2 is orphaned\"}" stderr ""
    Json: exit 0 stdout "{\"systemMessage\":\"ralph: run k7f2 is orphaned\"}" stderr ""
    Exit2: exit 2 stdout "{}" stderr "1 of 2 — \"tests\"\nno such file\u{1}\n"
    Context: exit 0 stdout "{\"hookSpecificOutput\":{\"hookEventName\":\"Stop\",\"additionalContext\":\"1 of 2 — \\\"tests\\\"\\nno such file\\u0001\"}}" stderr ""
    Json: exit 0 stdout "{\"decision\":\"block\",\"reason\":\"1 of 2 — \\\"tests\\\"\\nno such file\\u0001\"}" stderr ""
    Exit2: exit 0 stdout "{\"systemMessage\":\"ralph: verified (run k7f2)\"}" stderr ""
    Context: exit 0 stdout "{\"systemMessage\":\"ralph: verified (run k7f2)\"}" stderr ""
    Json: exit 0 stdout "{\"systemMessage\":\"ralph: verified (run k7f2)\"}" stderr ""
    Exit2: exit 0 stdout "{\"systemMessage\":\"ralph: stuck \\\\ (run k7f2)\"}" stderr ""
    Context: exit 0 stdout "{\"systemMessage\":\"ralph: stuck \\\\ (run k7f2)\"}" stderr ""
    Json: exit 0 stdout "{\"systemMessage\":\"ralph: stuck \\\\ (run k7f2)\"}" stderr ""
    Exit2: exit 0 stdout "{\"systemMessage\":\"ralph: stuck (run k7f2)\",\"terminalSequence\":\"\\u0007\"}" stderr ""
    Context: exit 0 stdout "{\"systemMessage\":\"ralph: stuck (run k7f2)\",\"terminalSequence\":\"\\u0007\"}" stderr ""
    Json: exit 0 stdout "{\"systemMessage\":\"ralph: stuck (run k7f2)\",\"terminalSequence\":\"\\u0007\"}" stderr ""
    Exit2: exit 0 stdout "" stderr ""
    Context: exit 0 stdout "" stderr ""
    Json: exit 0 stdout "" stderr ""
    "#);
    for style in STYLES {
        assert_eq!(
            (PROFILE.render_verdict)(style, ReplyOccasion::Stop, &Verdict::Allow),
            HookReply::default()
        );
        for status in RunStatus::ALL {
            let end = end(status, "ralph");
            let reply = (PROFILE.render_verdict)(style, ReplyOccasion::Stop, &end);
            assert_eq!(bytes(&reply), r#"exit 0 stdout "{\"systemMessage\":\"ralph\"}" stderr """#);
        }
    }
}

/// The client replaces a longer context with a preview and a path.
#[test]
fn a_context_is_never_longer_than_the_client_shows() {
    let reply = (PROFILE.render_verdict)(
        BlockStyle::Context,
        ReplyOccasion::Stop,
        &Verdict::Block { reason: "ä".repeat(20_000) },
    );
    let value: serde_json::Value = serde_json::from_slice(&reply.stdout).unwrap();
    let context = value["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert_eq!(context, format!("{}…", "ä".repeat(9_999)));
}

#[test]
fn hosts_and_styles_have_names() {
    let styles = ["exit2", "context", "json", "Exit2", ""].map(BlockStyle::parse_name);
    let expected =
        [Some(BlockStyle::Exit2), Some(BlockStyle::Context), Some(BlockStyle::Json), None, None];
    assert_eq!(styles, expected);
    assert_eq!(
        ["claude", "codex", ""].map(|name| host_named(name).map(|host| host.name)),
        [Some("claude"), None, None]
    );
}
