use super::outgoing::{CallbackHook, callback_answer, initialize_request};
use super::*;
use crate::claude::recordings::{
    LIMIT_OVERAGE, LIMIT_REJECTED, LIMIT_WARNING, RECORDINGS, client_lines, recording,
};
use crate::stream::{AssistantBlock, PermissionReply, usage_permille};
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;

/// The parsed lines of a recording, one per line.
fn shown(name: &str) -> String {
    let lines: Vec<_> =
        client_lines(recording(name)).map(|line| brief(&parse_line(line.as_bytes()))).collect();
    lines.join("\n")
}

/// A line without ids and inputs that differ each time.
fn brief(line: &StreamLine) -> String {
    if let StreamLine::Callback { callback, .. } = line {
        return format!("Callback {callback}");
    }
    if let StreamLine::Result(end) = line {
        return format!(
            "Result {:?} {:?} {:?} {:?}",
            end.index, end.text, end.micro_usd, end.origin
        );
    }
    if let StreamLine::Answered { answer: Ok(answer), .. } = line {
        return format!("Answered {}", ralph_core::text::truncate(answer, 60));
    }
    ralph_core::text::truncate(&format!("{line:?}"), 320)
}

#[test]
fn a_background_agent_is_parsed() {
    insta::assert_snapshot!(shown("background-agent"), @r#"
    Answered {"commands":[],"agents":[],"output_style":"default","availa…
    Callback cb_UserPromptSubmit
    Init(StreamInit { session: Some(SessionId("2a7ec8a1-983f-46c6-96e7-cfd9924a2c8e")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000001"), model: Some("claude-opus-5-5"), blocks: [Call(AssistantToolCall { id: Some("toolu_fake_0001_00"), name: "Agent", gist: Text("d") })], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_PreToolUse
    Background([StreamTask { id: "abf26f31876b056e4", what: "d" }])
    Task(Started { id: "abf26f31876b056e4", what: "d", place: Background })
    Callback cb_SubagentStart
    Callback cb_PostToolUse
    ToolResults { parent: None, results: [StreamToolResult { call: Some("toolu_fake_0001_00"), is_error: false, text: "Async agent launched successfully. (This tool result is internal metadata — never quote or paste any part of it, including the agentId below, into a user-facing reply.)\nagentId: abf26f31876b056e4 (intern…
    Assistant(StreamAssistant { parent: Some("toolu_fake_0001_00"), message: Some("msg_fake_000002"), model: Some("claude-opus-5-5"), blocks: [Call(AssistantToolCall { id: Some("toolu_fake_0002_00"), name: "Bash", gist: Command("sleep 1.5; echo subhi") })], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creatio…
    Other
    Callback cb_PreToolUse
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000003"), model: Some("claude-opus-5-5"), blocks: [Text("main waits")], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(0) Some("main waits") Some(2400) None
    Callback cb_PostToolUse
    ToolResults { parent: Some("toolu_fake_0001_00"), results: [StreamToolResult { call: Some("toolu_fake_0002_00"), is_error: false, text: "subhi" }] }
    Assistant(StreamAssistant { parent: Some("toolu_fake_0001_00"), message: Some("msg_fake_000004"), model: Some("claude-opus-5-5"), blocks: [Text("sub final")], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_SubagentStop
    Other
    Task(Ended { id: "abf26f31876b056e4", status: "completed" })
    Background([])
    Callback cb_UserPromptSubmit
    Init(StreamInit { session: Some(SessionId("2a7ec8a1-983f-46c6-96e7-cfd9924a2c8e")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000005"), model: Some("claude-opus-5-5"), blocks: [Text("main after notification")], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(1) Some("main after notification") Some(103600) Some("task-notification")
    "#);
}

#[test]
fn a_question_is_parsed() {
    insta::assert_snapshot!(shown("question"), @r#"
    Answered {"commands":[],"agents":[],"output_style":"default","availa…
    Init(StreamInit { session: Some(SessionId("aa16510b-c339-4447-8c6b-3709ce54d260")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000001"), model: Some("claude-opus-5-5"), blocks: [Call(AssistantToolCall { id: Some("toolu_fake_0001_00"), name: "AskUserQuestion", gist: Text("{\"questions\":[{\"question\":\"Which?\",\"header\":\"Pick\",\"multiSelect\":false,\"options\":[{\"label\":\…
    Permission(ToolPermissionRequest { request: "405377a4-3dde-45e3-9e36-d6fd203c155c", tool: "AskUserQuestion", gist: Text("{\"questions\":[{\"question\":\"Which?\",\"header\":\"Pick\",\"options\":[{\"label\":\"A\",\"description\":\"a\"},{\"label\":\"B\",\"description\":\"b\"}],\"multiSelect\":false}]}"), input: "{\"ques…
    Callback cb_PermissionRequest
    ToolResults { parent: None, results: [StreamToolResult { call: Some("toolu_fake_0001_00"), is_error: false, text: "Your questions have been answered: \"Which?\"=\"B\". You can now continue with these answers in mind." }] }
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000002"), model: Some("claude-opus-5-5"), blocks: [Text("done")], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(0) Some("done") Some(1600) None
    "#);
}

#[test]
fn a_compaction_is_parsed() {
    insta::assert_snapshot!(shown("compaction"), @r#"
    Answered {"commands":[],"agents":[],"output_style":"default","availa…
    Callback cb_UserPromptSubmit
    Init(StreamInit { session: Some(SessionId("9b8d0ce8-859f-4d1f-a2c4-595760fba07d")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000001"), model: Some("claude-opus-5-5"), blocks: [Text("a")], usage: Some(TokenUsage { input: 1000, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(0) Some("a") Some(4200) None
    Callback cb_UserPromptSubmit
    Init(StreamInit { session: Some(SessionId("9b8d0ce8-859f-4d1f-a2c4-595760fba07d")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000002"), model: Some("claude-opus-5-5"), blocks: [Call(AssistantToolCall { id: Some("toolu_fake_0002_00"), name: "Bash", gist: Command("echo hi") })], usage: Some(TokenUsage { input: 90000, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_PreToolUse
    Callback cb_PostToolUse
    ToolResults { parent: None, results: [StreamToolResult { call: Some("toolu_fake_0002_00"), is_error: false, text: "hi" }] }
    Callback cb_PreCompact
    Other
    Callback cb_SubagentStop
    Callback cb_SubagentStop
    Callback cb_SessionStart
    Callback cb_PostCompact
    Other
    Compacted { before: Some(90011), after: Some(2587) }
    Other
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000005"), model: Some("claude-opus-5-5"), blocks: [Text("b")], usage: Some(TokenUsage { input: 3000, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(1) Some("b") Some(753000) None
    Callback cb_UserPromptSubmit
    Init(StreamInit { session: Some(SessionId("9b8d0ce8-859f-4d1f-a2c4-595760fba07d")), model: Some("claude-opus-5-5"), permission_mode: Some("bypassPermissions"), version: Some("2.1.325"), tools: 3 })
    Assistant(StreamAssistant { parent: None, message: Some("msg_fake_000006"), model: Some("claude-opus-5-5"), blocks: [Text("c")], usage: Some(TokenUsage { input: 100, cache_read: 0, cache_creation: 0, output: 1 }), error: None })
    Callback cb_Stop
    Result Some(2) Some("c") Some(753800) None
    "#);
}

#[test]
fn states_denials_fallbacks_retries_and_failed_hooks_are_parsed() {
    let mut seen = Vec::new();
    for name in [
        "background-shell-states",
        "permission-denied",
        "fallback",
        "status-429-retried",
        "hook-answer-invalid",
        "cap",
    ] {
        for line in client_lines(recording(name)) {
            let line = parse_line(line.as_bytes());
            let is_one = matches!(
                line,
                StreamLine::State(_)
                    | StreamLine::Background(_)
                    | StreamLine::Task(_)
                    | StreamLine::Denied { .. }
                    | StreamLine::Fallback { .. }
                    | StreamLine::Retry(_)
                    | StreamLine::HookFailed { .. }
                    | StreamLine::Overridden { .. }
            );
            if is_one {
                seen.push(format!("{line:?}"));
            }
        }
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    State(Running)
    Background([StreamTask { id: "bztmy64mc", what: "sleep 2; echo shellout" }])
    Task(Started { id: "bztmy64mc", what: "sleep 2; echo shellout", place: Background })
    State(Idle)
    Task(Ended { id: "bztmy64mc", status: "completed" })
    Background([])
    State(Running)
    State(Idle)
    Denied { tool: "Write", text: "Claude requested permissions to write to /home/user/project/x.txt, but you haven't granted it yet." }
    Retry(ApiRetry { attempt: Some(1), of: Some(10), delay_ms: Some(609), status: Some(529), error: Some("overloaded") })
    Retry(ApiRetry { attempt: Some(2), of: Some(10), delay_ms: Some(1159), status: Some(529), error: Some("overloaded") })
    Fallback { from: "claude-opus-5-5", to: "claude-sonnet-5-5" }
    Retry(ApiRetry { attempt: Some(1), of: Some(10), delay_ms: Some(534), status: Some(529), error: Some("overloaded") })
    Retry(ApiRetry { attempt: Some(2), of: Some(10), delay_ms: Some(1124), status: Some(529), error: Some("overloaded") })
    Fallback { from: "claude-opus-5-5", to: "claude-sonnet-5-5" }
    Retry(ApiRetry { attempt: Some(1), of: Some(2), delay_ms: Some(521), status: Some(429), error: Some("rate_limit") })
    Retry(ApiRetry { attempt: Some(2), of: Some(2), delay_ms: Some(1009), status: Some(429), error: Some("rate_limit") })
    HookFailed { text: "Stop: Hook callback cb_Stop failed: the SDK host replied with an error or an invalid answer. Its answer was treated as empty." }
    HookFailed { text: "Stop: Hook callback cb_Stop failed: the SDK host replied with an error or an invalid answer. Its answer was treated as empty." }
    HookFailed { text: "Stop: Hook callback cb_Stop failed: the SDK host replied with an error or an invalid answer. Its answer was treated as empty." }
    Overridden { text: "A hook blocked the turn from ending 4 consecutive times — overriding and ending turn. For Stop/SubagentStop hooks, check stop_hook_active in the input and return success while it's true. Set CLAUDE_CODE_STOP_HOOK_BLOCK_CAP to raise this limit." }
    "#);
}

#[test]
fn all_fields_of_a_result_are_parsed() {
    let results =
        client_lines(recording("background-agent")).map(|line| parse_line(line.as_bytes()));
    let last = results.filter(|line| matches!(line, StreamLine::Result(_))).last();
    insta::assert_snapshot!(format!("{last:?}").replace(", ", "\n"), @r#"
    Some(Result(TurnResult { session: Some(SessionId("2a7ec8a1-983f-46c6-96e7-cfd9924a2c8e"))
    outcome: Completed
    text: Some("main after notification")
    errors: []
    num_turns: Some(1)
    duration_ms: Some(64)
    micro_usd: Some(103600)
    usage: Some(TokenUsage { input: 100
    cache_read: 0
    cache_creation: 0
    output: 20 })
    models: [StreamModelUsage { model: "claude-opus-5-5"
    usage: TokenUsage { input: 500
    cache_read: 0
    cache_creation: 0
    output: 5080 }
    micro_usd: 103600
    window: Some(1000000) }]
    since: [StreamModelUsage { model: "claude-opus-5-5"
    usage: TokenUsage { input: 200
    cache_read: 0
    cache_creation: 0
    output: 5020 }
    micro_usd: 101200
    window: Some(1000000) }]
    denied: []
    index: Some(1)
    origin: Some("task-notification")
    answers: [] }))
    "#);
}

#[test]
fn rate_limits_are_parsed() {
    let lines: Vec<_> = [LIMIT_REJECTED, LIMIT_OVERAGE, LIMIT_WARNING]
        .map(|line| format!("{:?}", parse_line(line.as_bytes())))
        .into();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    RateLimit(RateLimitEvent { status: Rejected, resets_at_ms: Some(1794812400000), kind: Some("five_hour"), used_permille: Some(1000), is_overage: false })
    RateLimit(RateLimitEvent { status: Rejected, resets_at_ms: Some(1794812400000), kind: Some("five_hour"), used_permille: Some(1000), is_overage: true })
    RateLimit(RateLimitEvent { status: Warning, resets_at_ms: Some(1794812400000), kind: Some("seven_day"), used_permille: Some(910), is_overage: false })
    "#);
}

#[test]
fn answers_are_parsed() {
    let mut seen = Vec::new();
    for line in client_lines(recording("context-usage")) {
        if let StreamLine::Answered { answer: Ok(answer), .. } = parse_line(line.as_bytes()) {
            seen.push(format!("{:?}", (parse_context_usage(&answer), parse_session_cost(&answer))));
        }
    }
    insta::assert_snapshot!(seen.join("\n"), @"
    (None, None)
    (Some(ContextUsage { tokens: 50000, most: 1000000, permille: 50 }), None)
    (Some(ContextUsage { tokens: 60000, most: 1000000, permille: 60 }), None)
    (None, Some(440400))
    (Some(ContextUsage { tokens: 11968, most: 1000000, permille: 11 }), None)
    ");
    for (answer, expected) in [
        (r#"{"text":"Total cost:   $1,234.5 (x)\n"}"#, Some(1_234_500_000)),
        (r#"{"text":"Total cost:   $99999999999999999999"}"#, Some(1_000_000_000_000_000)),
        (r#"{"text":"said: Total cost: $1"}"#, None),
        (r#"{"text":"Total cost: $..,"}"#, None),
        ("[]", None),
    ] {
        assert_eq!(parse_session_cost(answer), expected, "{answer}");
    }
    assert_eq!(
        (usage_permille(1, 0), usage_permille(u64::MAX, 1), usage_permille(419, 1000)),
        (1000, 1000, 419)
    );
    assert_eq!(parse_context_usage(r#"{"totalTokens":5,"maxTokens":0}"#), None);
}

fn written(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect()
}

#[test]
fn every_sent_message_is_one_line() {
    let hooks = [
        CallbackHook { event: "Stop", matcher: None, callback: "stop", timeout_s: Some(600) },
        CallbackHook {
            event: "PreToolUse",
            matcher: Some("Bash"),
            callback: "bash",
            timeout_s: None,
        },
        CallbackHook { event: "PreToolUse", matcher: None, callback: "tool", timeout_s: None },
    ];
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let lines = [
        initialize_request("1", &hooks),
        user_message("two\nlines \"quoted\" \u{2028}", None),
        user_message("again", Some("0b6f3d5e-6c9b-4a55-9d0e-0c3b8f0e2b11")),
        callback_answer("2", b"{ \"decision\":\n \"block\" }\n"),
        callback_answer("3", b""),
        callback_answer("4", b"[1]"),
        callback_answer("5\"\n", b"not json"),
        error_response("6", "no such thing"),
        permission_response("7", PermissionReply::Allow { input: r#"{"b":1,"a":2}"# }),
        permission_response("8", PermissionReply::Allow { input: "nonsense" }),
        permission_response("9", PermissionReply::Deny { message: "no person is here" }),
        context_usage_request("11"),
        session_cost_request("12"),
    ];
    for line in &lines {
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        serde_json::from_slice::<serde_json::Value>(line).unwrap();
    }
    let allowed = permission_response("14", PermissionReply::Allow { input: &deep });
    assert_eq!(String::from_utf8(allowed).unwrap().matches('[').count(), 500);
    insta::assert_snapshot!(written(&lines), @r#"
    {"request":{"hooks":{"PreToolUse":[{"hookCallbackIds":["bash"],"matcher":"Bash"},{"hookCallbackIds":["tool"]}],"Stop":[{"hookCallbackIds":["stop"],"timeout":600}]},"subtype":"initialize"},"request_id":"1","type":"control_request"}
    {"message":{"content":"two\nlines \"quoted\"  ","role":"user"},"type":"user"}
    {"message":{"content":"again","role":"user"},"type":"user","uuid":"0b6f3d5e-6c9b-4a55-9d0e-0c3b8f0e2b11"}
    {"type":"control_response","response":{"subtype":"success","request_id":"2","response":{"decision":"block"}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"3","response":{}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"4","response":{}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"5\"\n","response":{}}}
    {"response":{"error":"no such thing","request_id":"6","subtype":"error"},"type":"control_response"}
    {"type":"control_response","response":{"subtype":"success","request_id":"7","response":{"behavior":"allow","updatedInput":{"b":1,"a":2}}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"8","response":{"behavior":"allow"}}}
    {"type":"control_response","response":{"subtype":"success","request_id":"9","response":{"behavior":"deny","message":"no person is here"}}}
    {"request":{"subtype":"get_context_usage"},"request_id":"11","type":"control_request"}
    {"request":{"subtype":"get_session_cost"},"request_id":"12","type":"control_request"}
    "#);
}

/// A callback must be recognised whatever its input: without an answer the client continues on its own.
#[test]
fn odd_callbacks_are_still_callbacks() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for input in [&*deep, r#""half \ud83d""#, "7", "null", r#"{"a":1,"a":2}"#] {
        let line = format!(
            r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"hook_callback","callback_id":"c","input":{input}}}}}"#
        );
        let callback =
            StreamLine::Callback { request: "r".into(), callback: "c".into(), input: input.into() };
        assert_eq!(parse_line(line.as_bytes()), callback);
    }
    let unknown =
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"brand_new"}}"#;
    let asked = StreamLine::Asked { request: "r".into(), subtype: "brand_new".into() };
    assert_eq!(parse_line(unknown.as_bytes()), asked);
    let without_id = r#"{"type":"control_request","request":{"subtype":"hook_callback"}}"#;
    assert_eq!(parse_line(without_id.as_bytes()), StreamLine::Other);
}

#[test]
fn broken_characters_do_not_spoil_the_rest() {
    let half = r#"{"type":"assistant","message":{"content":"a\ud83db"}}"#;
    let broken =
        [br#"{"type":"assistant","message":{"content":"a"#, &b"\xff"[..], br#"b"}}"#].concat();
    for (line, text) in [(half.as_bytes(), "a\u{fffd}\u{fffd}\u{fffd}b"), (&broken, "a\u{fffd}b")] {
        let StreamLine::Assistant(said) = parse_line(line) else { panic!() };
        assert_eq!(said.blocks, [AssistantBlock::Text(text.into())]);
    }
}

/// Maximum length of any text of a line, except for input that is passed through unparsed.
const LONGEST: usize = 20_000;

fn is_bounded(line: &StreamLine) {
    let passed_on = match line {
        StreamLine::Callback { .. } | StreamLine::Permission(_) | StreamLine::Answered { .. } => {
            return;
        }
        StreamLine::Assistant(said) => said.blocks.len(),
        StreamLine::ToolResults { results, .. } => results.len(),
        StreamLine::Background(tasks) => tasks.len(),
        StreamLine::Init(_)
        | StreamLine::Result(_)
        | StreamLine::RateLimit(_)
        | StreamLine::Retry(_)
        | StreamLine::Asked { .. }
        | StreamLine::Cancelled { .. }
        | StreamLine::Compacted { .. }
        | StreamLine::Overridden { .. }
        | StreamLine::HookFailed { .. }
        | StreamLine::State(_)
        | StreamLine::Task(_)
        | StreamLine::Fallback { .. }
        | StreamLine::Denied { .. }
        | StreamLine::Other => 1,
    };
    assert!(passed_on <= 200);
    // Debug output escapes, so a character may take ten.
    let most = (passed_on.max(1)) * LONGEST * 10 + 100_000;
    assert!(format!("{line:?}").len() <= most);
}

#[test]
fn large_lines_are_bounded() {
    let big = "x\\u001b[2J".repeat(200_000);
    let many = vec![r#"{"type":"text","text":"a"}"#; 100_000].join(",");
    let keys: Vec<_> = (0..100_000).map(|key| format!(r#""k{key}":{{"inputTokens":1}}"#)).collect();
    for line in [
        format!(
            r#"{{"type":"assistant","message":{{"id":"{big}","model":"{big}","content":"{big}"}}}}"#
        ),
        format!(r#"{{"type":"assistant","message":{{"content":[{many}]}}}}"#),
        format!(r#"{{"type":"result","result":"{big}","errors":["{big}"],"subtype":"{big}"}}"#),
        format!(r#"{{"type":"result","modelUsage":{{{}}}}}"#, keys.join(",")),
        format!(
            r#"{{"type":"system","subtype":"permission_denied","tool_name":"{big}","message":"{big}"}}"#
        ),
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":"{big}"}}]}}}}"#
        ),
    ] {
        let line = parse_line(line.as_bytes());
        assert_ne!(line, StreamLine::Other);
        is_bounded(&line);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        is_bounded(&parse_line(&bytes));
    }

    /// Recorded lines with bytes removed, inserted or duplicated.
    #[test]
    fn damaged_lines_are_parsed(
        (recording, line) in (0..RECORDINGS.len(), any::<prop::sample::Index>()),
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        put in prop_oneof![
            Just(Vec::new()),
            Just(b"\"".to_vec()),
            Just(b"null".to_vec()),
            Just(b"-1e999".to_vec()),
            Just(b"[[[[".to_vec()),
            Just(b"\\ud800".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..8),
        ],
    ) {
        let lines: Vec<_> = client_lines(RECORDINGS[recording].1).collect();
        let bytes = line.get(&lines).as_bytes();
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let (from, to) = (from.min(to), from.max(to));
        for to in [to, (from + 4).min(bytes.len())] {
            let damaged = [&bytes[..from], &put, &bytes[to..]].concat();
            is_bounded(&parse_line(&damaged));
        }
    }

    /// A value of an unexpected type counts as absent.
    #[test]
    fn values_of_unexpected_types_are_ignored(
        (recording, line) in (0..RECORDINGS.len(), any::<prop::sample::Index>()),
        field in any::<prop::sample::Index>(),
        value in prop_oneof![
            Just("null"), Just("7"), Just("-1"), Just("1e300"), Just("\"\""), Just("[]"), Just("{}"), Just("true"),
            Just("[[7]]"), Just("{\"type\":7}")
        ],
    ) {
        let lines: Vec<_> = client_lines(RECORDINGS[recording].1).collect();
        let mut object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(lines[line.index(lines.len())]).unwrap();
        let keys: Vec<_> = object.keys().filter(|key| *key != "type").cloned().collect();
        object.insert(field.get(&keys).clone(), serde_json::from_str(value).unwrap());
        is_bounded(&parse_line(serde_json::Value::Object(object).to_string().as_bytes()));
    }
}
