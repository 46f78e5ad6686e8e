use super::*;
use ralph_core::event::HookEvent;
use ralph_host::claude::PROFILE;
use ralph_host::claude::recordings::{
    LIMIT_OVERAGE, LIMIT_REJECTED, LIMIT_WARNING, RECORDINGS, recording,
};
use serde_json::Value;

/// All endings of a recording, as the runner would classify them.
fn endings(recording: &str) -> Vec<TurnEnding> {
    endings_until(recording, None)
}

fn endings_until(recording: &str, exit: Option<AgentExit>) -> Vec<TurnEnding> {
    let mut facts = TurnFacts::default();
    let mut endings = Vec::new();
    let mut is_open = false;
    for line in recording.lines() {
        if let Some(ours) = line.strip_prefix("> ") {
            observe_sent(&mut facts, &serde_json::from_str(ours).unwrap());
            is_open |= ours.contains(r#""type":"user""#);
            continue;
        }
        let line = (PROFILE.stream.parse_line)(line.strip_prefix("< ").unwrap().as_bytes());
        facts.observe(&line);
        if let StreamLine::Callback { request, callback, input } = line {
            if callback == "cb_Stop" {
                facts.stop_asked(&request);
            }
            if let Ok(HookEvent::StopFailure(failure)) = (PROFILE.parse_event)(input.as_bytes()) {
                facts.failure = Some(failure.class);
            }
        } else if matches!(line, StreamLine::Result(_)) {
            endings.push(classify_turn(&facts));
            facts = facts.next_turn();
            is_open = false;
        }
    }
    if is_open {
        endings.push(classify_turn(&TurnFacts { exit, ..facts }));
    }
    endings
}

fn observe_sent(facts: &mut TurnFacts, ours: &Value) {
    facts.is_interrupted |= ours["request"]["subtype"] == "interrupt";
    let response = &ours["response"];
    let Some(request) = response["request_id"].as_str() else { return };
    let body = &response["response"];
    let context = &body["hookSpecificOutput"]["additionalContext"];
    let is_held = body["decision"] == "block" || context.is_string();
    facts.stop_answered(request, if is_held { StopAnswer::Held } else { StopAnswer::LetGo });
}

fn named(ending: &TurnEnding) -> String {
    let class = match ending_class(ending) {
        EndingClass::Fatal { status, .. } => format!("Fatal({})", status.name()),
        other @ (EndingClass::Settled
        | EndingClass::ContextFull
        | EndingClass::Transient(_)
        | EndingClass::Broken) => {
            format!("{other:?}")
        }
    };
    format!("{ending:?} → {class}")
}

/// R-L9d: an ending is classified by events, not by text or exit code.
/// R-K2d: network, login, limits and the other causes are distinguished in a real client's output.
/// R-L9a: a turn that ended in spite of a block is no success.
/// R-L6a: every kind of failure has a class.
#[test]
fn recorded_turns_are_classified() {
    let mut table = String::new();
    for (name, recording) in RECORDINGS {
        let exit = match *name {
            "killed" => Some(AgentExit { code: None, signal: Some(9) }),
            "sigterm" => Some(AgentExit { code: Some(143), signal: None }),
            "sigint" => Some(AgentExit { code: Some(0), signal: None }),
            _ => None,
        };
        let endings: Vec<_> = endings_until(recording, exit).iter().map(named).collect();
        table.push_str(&format!("{name}: {}\n", endings.join(" · ")));
    }
    insta::assert_snapshot!(table, @r#"
    another-hook-stopped: HookStopped → Settled · HookStopped → Settled
    background-agent: Done → Settled · Done → Settled
    background-shell-states: Done → Settled · Done → Settled
    bare: Unasked → Settled
    budget: Budget → Fatal(exhausted) · Budget → Fatal(exhausted)
    cap: Overridden → Fatal(overridden) · Done → Settled
    cap-by-context: Overridden → Fatal(overridden)
    compaction: Done → Settled · Done → Settled · Done → Settled
    connection-refused: Network → Transient(Network) · Network → Transient(Network)
    connection-reset: Network → Transient(Network) · Done → Settled
    context-usage: Done → Settled · Unasked → Settled
    empty-answer: Done → Settled · Done → Settled
    fallback: Done → Settled · Done → Settled
    held-then-let-go: Done → Settled
    hook-answer-invalid: Unasked → Settled · Unasked → Settled · Unasked → Settled
    hook-timed-out: Unasked → Settled
    interrupt-stop: Interrupted → Fatal(cancelled) · Done → Settled
    interrupt-streaming: Interrupted → Fatal(cancelled) · Done → Settled
    interrupt-tool: Interrupted → Fatal(cancelled) · Done → Settled
    killed: Crashed(AgentExit { code: None, signal: Some(9) }) → Broken
    limit-text: Done → Settled
    max-turns: MaxTurns → Settled · Done → Settled
    no-session: NoSession → Broken
    output-limit: OutputLimit → Settled · Done → Settled
    permission-denied: Done → Settled
    prompt-too-long: ContextFull → ContextFull · Done → Settled
    question: Done → Settled
    refusal: Refused → Settled · Done → Settled
    set-model: Done → Settled · Done → Settled · Done → Settled · Done → Settled · Done → Settled
    sigint: Interrupted → Fatal(cancelled)
    sigterm: Crashed(AgentExit { code: Some(143), signal: None }) → Broken
    slash-command: Empty → Broken
    status-400: Error("success, api_error: API Error: 400 msg-x") → Broken · Done → Settled
    status-401: Auth("Failed to authenticate. API Error: 401 msg-x") → Fatal(needs_human) · Done → Settled
    status-403: Auth("Failed to authenticate. API Error: 403 msg-x") → Fatal(needs_human) · Done → Settled
    status-404: NotFound("There's an issue with the selected model (claude-opus-5-5). It may not exist or you may not have access to it. Run --model to pick a different model.") → Fatal(needs_human) · Done → Settled
    status-429: RateLimited { resets_at_ms: None, window: None } → Transient(RateLimit)
    status-429-retried: RateLimited { resets_at_ms: None, window: None } → Transient(RateLimit) · Done → Settled
    status-500: Server → Transient(Server) · Done → Settled
    status-529: Overloaded → Transient(Overload) · Done → Settled
    "#);
}

/// R-K2a: text about limits in files and answers is only text. The recording has it in tool results, in the answer and
/// in the result.
#[test]
fn text_about_limits_is_no_limit() {
    let recording = recording("limit-text");
    assert!(recording.matches("5-hour limit reached").count() > 5);
    assert_eq!(endings(recording), [TurnEnding::Done]);
}

fn with_event(event: &str, name: &str) -> Vec<TurnEnding> {
    endings(&format!("< {event}\n{}", recording(name)))
}

/// R-K2a: the reset time is the provider's, if the provider rejects requests.
#[test]
fn a_limit_has_the_reported_reset_time() {
    let limited = |resets_at_ms: Option<u64>| {
        let window = resets_at_ms.map(|_| "five_hour".to_string());
        vec![TurnEnding::RateLimited { resets_at_ms, window }]
    };
    assert_eq!(with_event(LIMIT_REJECTED, "status-429"), limited(Some(1_794_812_400_000)));
    assert_eq!(with_event(LIMIT_WARNING, "status-429"), limited(None));
    assert_eq!(with_event(LIMIT_OVERAGE, "status-429"), limited(None));
    assert_eq!(endings(recording("status-429")), limited(None));
    // A limit that stopped nothing is no ending, and another error is not a limit.
    assert_eq!(with_event(LIMIT_REJECTED, "limit-text"), [TurnEnding::Done]);
    assert_eq!(with_event(LIMIT_REJECTED, "status-500"), endings(recording("status-500")));
    // The client reports it once, and not again at the next attempt.
    let twice = format!("{}{}", recording("status-429"), recording("status-429"));
    let both = [limited(Some(1_794_812_400_000)), limited(Some(1_794_812_400_000))].concat();
    assert_eq!(endings(&format!("< {LIMIT_REJECTED}\n{twice}")), both);
}

/// R-K2d: an exit without a result is a crash, whatever the exit code.
#[test]
fn an_exit_without_a_result_is_a_crash() {
    let exit = |code, signal| AgentExit { code, signal };
    for (exit, expected) in [
        (exit(Some(0), None), "the agent exited with code 0 during its turn"),
        (exit(Some(124), None), "the agent exited with code 124 during its turn"),
        (exit(Some(137), None), "the agent exited with code 137 during its turn"),
        (exit(Some(143), None), "the agent exited with code 143 during its turn"),
        (exit(None, Some(9)), "the agent was killed by signal 9 during its turn"),
        (exit(None, None), "the agent exited during its turn"),
    ] {
        let facts = TurnFacts { exit: Some(exit), ..TurnFacts::default() };
        let ending = classify_turn(&facts);
        assert_eq!(
            (&ending, ending_class(&ending)),
            (&TurnEnding::Crashed(exit), EndingClass::Broken)
        );
        assert_eq!(describe_ending(&ending), expected);
    }
}

/// The ending of a turn with these result fields; everything else is as in a successful turn.
fn result(fields: &str) -> String {
    let line = format!(r#"{{"type":"result","usage":{{"output_tokens":5}},{fields}}}"#);
    let mut facts = TurnFacts::default();
    facts.stop_asked("stop");
    facts.stop_answered("stop", StopAnswer::LetGo);
    facts.observe(&(PROFILE.stream.parse_line)(line.as_bytes()));
    named(&classify_turn(&facts))
}

/// R-L9d, R-K2d: results that could not be recorded, and values that no client sends yet.
#[test]
fn unknown_values_are_errors_and_never_success() {
    let long = "x".repeat(100_000);
    let odd = format!(r#""subtype":"{long}","is_error":true,"result":"{long}""#);
    let rows = [
        r#""subtype":"success","is_error":false,"terminal_reason":"completed""#,
        r#""subtype":"success","is_error":false"#,
        r#""subtype":"success","is_error":true,"terminal_reason":"completed","result":"fine""#,
        r#""subtype":"success","is_error":false,"terminal_reason":"brand_new","result":"fine""#,
        r#""subtype":"error_brand_new","is_error":false,"errors":["a","b"]"#,
        r#""subtype":7,"is_error":"no""#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","result":"cannot connect""#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":402"#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":413"#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":418,"result":"teapot""#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":503"#,
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_type":"overloaded_error""#,
        r#""subtype":"success","is_error":true,"terminal_reason":"blocking_limit""#,
        r#""subtype":"success","is_error":true,"terminal_reason":"image_error","result":"too large""#,
    ];
    let mut table: Vec<_> = rows.iter().map(|row| result(row)).collect();
    table.push(result(&odd).chars().filter(|char| *char != 'x').collect());
    assert!(result(&odd).chars().count() < 400);
    insta::assert_snapshot!(table.join("\n"), @r#"
    Done → Settled
    Done → Settled
    Error("success, completed: fine") → Broken
    Error("success, brand_new: fine") → Broken
    Error("error_brand_new, no reason: a; b") → Broken
    Error("no subtype, no reason: no reason given") → Broken
    Network → Transient(Network)
    Billing("no reason given") → Fatal(needs_human)
    ContextFull → ContextFull
    Error("success, api_error: teapot") → Broken
    Server → Transient(Server)
    Overloaded → Transient(Overload)
    ContextFull → ContextFull
    Error("success, image_error: too large") → Broken
    Error("…, no reason: …") → Broken
    "#);
}

/// R-L9a: whatever the earlier answers, a turn is a success only if the last answer allowed the stop.
#[test]
fn success_needs_an_allowed_last_stop() {
    let ok = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"total_cost_usd":0,"result":""}"#;
    let worked = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","usage":{"input_tokens":9}}"#;
    let cap =
        r#"{"type":"system","subtype":"notification","key":"stop-hook-block-cap","text":"t"}"#;
    let failed =
        r#"{"type":"system","subtype":"informational","tag":"hook_callback_failed","content":"c"}"#;
    let cancel = r#"{"type":"control_cancel_request","request_id":"s2"}"#;
    let other = r#"{"type":"control_cancel_request","request_id":"tool"}"#;
    let held = Some(StopAnswer::Held);
    let let_go = Some(StopAnswer::LetGo);
    for (stops, lines, expected) in [
        (&[][..], &[ok][..], TurnEnding::Empty),
        (&[], &[worked], TurnEnding::Unasked),
        (&[let_go], &[ok], TurnEnding::Done),
        (&[held, let_go], &[worked], TurnEnding::Done),
        (&[held, let_go], &[other, worked], TurnEnding::Done),
        (&[let_go, held], &[worked], TurnEnding::Overridden),
        (&[held, held], &[cap, worked], TurnEnding::Overridden),
        (&[held, let_go], &[cap, worked], TurnEnding::Overridden),
        (&[held, None], &[worked], TurnEnding::Unasked),
        (&[held, None], &[cancel, worked], TurnEnding::Unasked),
        (&[held, let_go], &[cancel, worked], TurnEnding::Unasked),
        (&[held, held], &[failed, worked], TurnEnding::Unasked),
    ] {
        let mut facts = TurnFacts::default();
        for (request, answer) in ["s1", "s2"].iter().zip(stops) {
            facts.stop_asked(request);
            if let Some(answer) = answer {
                facts.stop_answered(request, *answer);
            }
        }
        for line in lines {
            facts.observe(&(PROFILE.stream.parse_line)(line.as_bytes()));
        }
        // An answer to another request.
        facts.stop_answered("s0", StopAnswer::LetGo);
        assert_eq!(classify_turn(&facts), expected, "{stops:?} {lines:?}");
    }
}
