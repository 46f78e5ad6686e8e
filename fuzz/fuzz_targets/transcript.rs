//! Transcripts: unrelated lines do not change the totals, and a line counts only as its declared type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_host::claude::PROFILE;
use ralph_host::transcript_summary::{TranscriptLine, TranscriptSummary};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut seen = TranscriptSummary::default();
    let mut seen_among_noise = TranscriptSummary::default();
    for line in data.split(|byte| *byte == b'\n') {
        let observed = (PROFILE.parse_transcript_line)(line);
        is_what_it_says(line, &observed);
        assert_eq!((PROFILE.parse_transcript_line)(line), observed);
        seen.add(observed.clone());
        seen_among_noise.add(observed);
        seen_among_noise
            .add((PROFILE.parse_transcript_line)(br#"{"type":"user","message":"assistant"}"#));
        seen_among_noise.add(TranscriptLine::Other);
    }
    assert_eq!(seen, seen_among_noise);
    assert!(seen.cost_usd.is_none_or(|usd| usd.is_finite() && usd >= 0.0));
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
        TranscriptLine::Cost { usd } => {
            assert_eq!(value["type"], "cost-state");
            assert_eq!(value["totalCostUSD"].as_f64(), Some(*usd));
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
