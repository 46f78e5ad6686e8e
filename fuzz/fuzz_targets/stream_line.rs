//! The client's stream: shown text is bounded and free of control characters, and every request can be answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::redact::Redactor;
use ralph_drive::ending::{self, Answer, Ending, TurnFacts};
use ralph_drive::wire::{self, Block, Line};
use serde_json::Value;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let mut facts = TurnFacts::default();
    for line in data.split(|byte| *byte == b'\n') {
        let bare = line.strip_prefix(b"< ").or(line.strip_prefix(b"> ")).unwrap_or(line);
        let read = wire::read(bare);
        is_what_it_says(bare, &read);
        is_safe(&read);
        facts.see(&read);
        if let Line::Callback { request, .. } = &read {
            facts.asked(request);
            facts.answered(request, Answer::Held);
        }
        let ending = ending::of(&facts);
        // No stop is ever allowed here.
        assert_ne!(ending, Ending::Done);
        is_shown(&ending::sentence(&ending), 500);
        let _ = ending::class(&ending);
    }
});

fn is_what_it_says(line: &[u8], read: &Line) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
    let kind = value["type"].as_str().unwrap_or_default();
    match read {
        Line::Assistant(_) => assert_eq!(kind, "assistant"),
        Line::ToolResults { .. } => assert_eq!(kind, "user"),
        Line::Result(outcome) => {
            assert_eq!(kind, "result");
            assert_eq!(outcome.is_error, value["is_error"] == true);
        }
        Line::RateLimit(_) => assert_eq!(kind, "rate_limit_event"),
        Line::Callback { request, .. } | Line::Asked { request, .. } => {
            assert_eq!(kind, "control_request");
            assert_eq!(value["request_id"], **request);
            let answer = wire::answer(request, b"");
            assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 1);
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["response"]["request_id"], **request);
        }
        Line::Permission(asked) => assert_eq!(value["request_id"], *asked.request),
        Line::Cancelled { .. } => assert_eq!(kind, "control_cancel_request"),
        Line::Answered { .. } => assert_eq!(kind, "control_response"),
        Line::Init(_)
        | Line::Retry(_)
        | Line::Compacted { .. }
        | Line::Overridden { .. }
        | Line::HookFailed { .. }
        | Line::State(_)
        | Line::Background(_)
        | Line::Task(_)
        | Line::Fallback { .. }
        | Line::Denied { .. } => assert_eq!(kind, "system"),
        Line::Other => assert_ne!(kind, "result"),
    }
}

fn is_safe(read: &Line) {
    match read {
        Line::Assistant(said) => {
            assert!(said.blocks.len() <= 100);
            for block in &said.blocks {
                match block {
                    Block::Text(text) => is_shown(text, 20_000),
                    Block::Call(call) => {
                        is_shown(&call.name, 120);
                        let what = wire::what(&call.gist, Path::new("/p"), &Redactor::default());
                        is_shown(&what, 160);
                    }
                }
            }
        }
        Line::ToolResults { results, .. } => {
            results.iter().for_each(|result| is_shown(&result.text, 4000));
        }
        Line::Result(outcome) => {
            is_shown(outcome.text.as_deref().unwrap_or_default(), 20_000);
            is_shown(&outcome.subtype, 80);
            outcome.errors.iter().for_each(|error| is_shown(error, 300));
        }
        Line::Answered { answer: Ok(answer), .. } => {
            let _ = wire::cost(answer);
            assert!(wire::context(answer).is_none_or(|context| context.permille <= 1000));
        }
        Line::Permission(asked) => is_shown(asked.question.as_deref().unwrap_or_default(), 2000),
        Line::Overridden { text } | Line::HookFailed { text } | Line::Denied { text, .. } => {
            is_shown(text, 400);
        }
        _ => {}
    }
}

fn is_shown(text: &str, most: usize) {
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(|char| char != '\n' && char.is_control()), "{text:?}");
}
