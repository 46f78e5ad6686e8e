//! The client's stream: shown text is bounded and free of control characters, and every request can be answered.
#![no_main]

use call_summary::describe_call;
use libfuzzer_sys::fuzz_target;
use ralph_core::redact::Redactor;
use ralph_host::HookReply;
use ralph_host::claude::PROFILE;
use ralph_host::stream::{AssistantBlock, StreamLine, TurnOutcome};
use serde_json::Value;
use std::path::Path;
use turn_ending::{
    StopAnswer, TurnEnding, TurnFacts, classify_turn, describe_ending, ending_class,
};

// Two files of `ralph-drive` that need none of the others. As a dependency, it would bring five crates that have to be
// built with coverage.
#[path = "../../crates/ralph-drive/src/call_summary.rs"]
mod call_summary;
#[expect(dead_code, reason = "the rest is for the runner")]
#[path = "../../crates/ralph-drive/src/turn_ending/mod.rs"]
mod turn_ending;

fuzz_target!(|data: &[u8]| {
    let mut facts = TurnFacts::default();
    for line in data.split(|byte| *byte == b'\n') {
        let bare = line.strip_prefix(b"< ").or(line.strip_prefix(b"> ")).unwrap_or(line);
        let read = (PROFILE.stream.parse_line)(bare);
        is_what_it_says(bare, &read);
        is_safe(&read);
        facts.observe(&read);
        if let StreamLine::Callback { request, .. } = &read {
            facts.stop_asked(request);
            facts.stop_answered(request, StopAnswer::Held);
        }
        let ending = classify_turn(&facts);
        // No stop is ever allowed here.
        assert_ne!(ending, TurnEnding::Done);
        is_shown(&describe_ending(&ending), 500);
        let _ = ending_class(&ending);
    }
});

fn is_what_it_says(line: &[u8], read: &StreamLine) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
    let kind = value["type"].as_str().unwrap_or_default();
    match read {
        StreamLine::Assistant(_) => assert_eq!(kind, "assistant"),
        StreamLine::ToolResults { .. } => assert_eq!(kind, "user"),
        StreamLine::Result(outcome) => {
            assert_eq!(kind, "result");
            assert!(outcome.outcome != TurnOutcome::Completed || value["is_error"] != true);
        }
        StreamLine::RateLimit(_) => assert_eq!(kind, "rate_limit_event"),
        StreamLine::Callback { request, .. } | StreamLine::Asked { request, .. } => {
            assert_eq!(kind, "control_request");
            assert_eq!(value["request_id"], **request);
            let answer = (PROFILE.stream.hook_answer)(request, &HookReply::default());
            assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 1);
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["response"]["request_id"], **request);
        }
        StreamLine::Permission(asked) => assert_eq!(value["request_id"], *asked.request),
        StreamLine::Cancelled { .. } => assert_eq!(kind, "control_cancel_request"),
        StreamLine::Answered { .. } => assert_eq!(kind, "control_response"),
        StreamLine::Init(_)
        | StreamLine::Retry(_)
        | StreamLine::Compacted { .. }
        | StreamLine::Overridden { .. }
        | StreamLine::HookFailed { .. }
        | StreamLine::State(_)
        | StreamLine::Background(_)
        | StreamLine::Task(_)
        | StreamLine::Fallback { .. }
        | StreamLine::Denied { .. } => assert_eq!(kind, "system"),
        StreamLine::Other => assert_ne!(kind, "result"),
    }
}

fn is_safe(read: &StreamLine) {
    match read {
        StreamLine::Assistant(said) => {
            assert!(said.blocks.len() <= 100);
            for block in &said.blocks {
                match block {
                    AssistantBlock::Text(text) => is_shown(text, 20_000),
                    AssistantBlock::Call(call) => {
                        is_shown(&call.name, 120);
                        let what = describe_call(&call.gist, Path::new("/p"), &Redactor::default());
                        is_shown(&what, 160);
                    }
                }
            }
        }
        StreamLine::ToolResults { results, .. } => {
            results.iter().for_each(|result| is_shown(&result.text, 4000));
        }
        StreamLine::Result(outcome) => {
            is_shown(outcome.text.as_deref().unwrap_or_default(), 20_000);
            if let TurnOutcome::Failed { label, .. } = &outcome.outcome {
                is_shown(label, 170);
            }
            outcome.errors.iter().for_each(|error| is_shown(error, 300));
        }
        StreamLine::Answered { answer: Ok(answer), .. } => {
            let _ = (PROFILE.stream.parse_session_cost)(answer);
            assert!(
                (PROFILE.stream.parse_context_usage)(answer)
                    .is_none_or(|context| context.permille <= 1000)
            );
        }
        StreamLine::Permission(asked) => {
            is_shown(asked.question.as_deref().unwrap_or_default(), 2000);
        }
        StreamLine::Overridden { text }
        | StreamLine::HookFailed { text }
        | StreamLine::Denied { text, .. } => {
            is_shown(text, 400);
        }
        _ => {}
    }
}

fn is_shown(text: &str, most: usize) {
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(|char| char != '\n' && char.is_control()), "{text:?}");
}
