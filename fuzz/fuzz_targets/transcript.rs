//! Transcripts: unrelated lines do not change the totals, and a line counts only as its declared type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_host::claude::PROFILE;
use ralph_host::transcript_summary::{TranscriptLine, TranscriptSummary};
use ralph_host::transcript_usage::TranscriptUsage;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut seen = TranscriptSummary::default();
    let mut seen_among_noise = TranscriptSummary::default();
    for line in data.split(|byte| *byte == b'\n') {
        let observed = (PROFILE.parse_transcript_line)(line);
        is_what_it_says(line, &observed);
        if let Some(TranscriptUsage::Call(call)) = (PROFILE.parse_usage_line)(line) {
            assert!(call.id.len() <= 200 && call.usage.model.len() <= 200);
            assert!(call.usage.input.max(call.usage.output) <= 1 << 40);
        }
        assert_eq!((PROFILE.parse_transcript_line)(line), observed);
        seen.add(observed.clone());
        seen_among_noise.add(observed);
        seen_among_noise
            .add((PROFILE.parse_transcript_line)(br#"{"type":"user","message":"assistant"}"#));
        seen_among_noise.add(TranscriptLine::Other);
    }
    assert_eq!(seen, seen_among_noise);
    if let Some(list) = &seen.checklist {
        assert!(!list.items.is_empty());
        for item in &list.items {
            assert!(item.text.chars().count() <= 200);
            assert!(!item.text.chars().any(char::is_control));
        }
    }
});

fn is_what_it_says(line: &[u8], observed: &TranscriptLine) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return;
    };
    match observed {
        TranscriptLine::Assistant(said) => {
            assert_eq!(value["type"], "assistant");
            assert_ne!(value["isSidechain"], true);
            assert_eq!(said.api_error, value["isApiErrorMessage"] == true);
            let usage = &value["message"]["usage"];
            assert!(said.context_tokens.is_none() || usage["input_tokens"].is_u64());
        }
        TranscriptLine::Interrupted | TranscriptLine::StopBlocked => {
            assert_eq!(value["type"], "user");
            assert_ne!(value["isSidechain"], true);
        }
        TranscriptLine::Overridden => assert_eq!(value["subtype"], "informational"),
        TranscriptLine::Queued { .. } | TranscriptLine::Dequeued => {
            assert_eq!(value["type"], "queue-operation");
        }
        TranscriptLine::Other => {}
    }
}
