//! Answers of judges and replies of endpoints: `met` comes from a text with one verdict only, findings are bounded, and
//! everything that is shown is clean.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::judge::{
    CaseEvidence, Judge, JudgeApi, JudgeBackend, JudgeCase, JudgeKind, JudgeOutcome, JudgeResult,
};
use ralph_core::model_price::PriceTable;
use ralph_core::policy::GateEnvironment;
use ralph_core::requirement::RequirementWeight;
use ralph_gates::command_place::CommandPlace;
use ralph_judge::given_reply::{GivenReply, judge_given_reply};
use ralph_judge::{JudgeRequest, JudgeSupport};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use serde_json::{Map, Value};
use std::path::{Component, Path};

const REVIEWERS: u8 = 2;
/// Of one answer.
const MAX_FINDINGS: usize = 20;

// The first byte chooses the kind of judge and the form of the reply.
fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let kind = match choice % 3 {
        0 => JudgeKind::Prompt,
        1 => JudgeKind::Agent,
        _ => JudgeKind::Adversarial,
    };
    let reply = match choice / 3 % 3 {
        0 => GivenReply::Answer(&text),
        1 => GivenReply::Body(JudgeApi::Anthropic, &text),
        _ => GivenReply::Body(JudgeApi::OpenAi, &text),
    };
    let result = ask(kind, reply);
    is_bounded(&result, kind);
    if let (GivenReply::Answer(text), JudgeOutcome::Met) = (reply, &result.outcome) {
        assert_eq!(count_verdicts(text), 1, "{text:?}");
    }
});

/// One gate can be asked for.
#[derive(Debug)]
struct OneGate;

impl JudgeSupport for OneGate {
    fn gate_names(&self) -> Vec<String> {
        vec!["tests".to_string()]
    }

    fn run_gate(&self, name: &str, _deadline: Deadline) -> Option<CaseEvidence> {
        assert_eq!(name, "tests");
        None
    }
}

fn ask(kind: JudgeKind, reply: GivenReply<'_>) -> JudgeResult {
    let judge = Judge {
        name: "review".to_string(),
        kind,
        backend: JudgeBackend::Command(Vec::new()),
        prompt: None,
        prompt_file: None,
        max_tokens: 1_000_000,
        timeout_ms: 60_000,
        reviewers: REVIEWERS,
        weight: RequirementWeight::Required,
        counts: false,
        tests: false,
        when: Vec::new(),
        min_complexity: 0,
    };
    let diff = "diff --git a/old.rs b/old.rs\n--- a/old.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-let total = 1;\n";
    let case = JudgeCase { v: 1, kind, diff: diff.to_string(), ..JudgeCase::default() };
    // The files of this package, which findings can quote.
    let files = Path::new(env!("CARGO_MANIFEST_DIR"));
    let environment = GateEnvironment::default();
    judge_given_reply(
        &JudgeRequest {
            judge: &judge,
            case: &case,
            files,
            place: &CommandPlace::in_directory(files, &environment),
            scratch: files,
            env: &Env::from_pairs([("API_TOKEN", "hunter2-hunter2")], None, Vec::new()),
            search_path: None,
            host_program: None,
            supervisor: files,
            prices: &PriceTable { prices: Vec::new(), web_search_micro_usd: 0 },
            budget_micro_usd: None,
            support: &OneGate,
        },
        reply,
        &CancelToken::new().unwrap(),
    )
}

fn is_bounded(result: &JudgeResult, kind: JudgeKind) {
    let answers = if kind == JudgeKind::Adversarial { usize::from(REVIEWERS) } else { 1 };
    assert!(result.findings.len() <= answers * MAX_FINDINGS);
    if result.outcome == JudgeOutcome::Unmet {
        assert!(!result.findings.is_empty());
    }
    if let JudgeOutcome::Unknown { why } = &result.outcome {
        is_shown(why, 1000);
    }
    is_shown(result.model.as_deref().unwrap_or_default(), 200);
    is_shown(result.reason.as_deref().unwrap_or_default(), 300);
    for finding in &result.findings {
        let path = Path::new(&finding.file);
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        is_shown(&finding.file, 500);
        is_shown(&finding.claim, 600);
        assert!(finding.quote.len() <= 4000);
        assert_eq!(finding.shown_by, None);
        for text in [&finding.claim, &finding.quote] {
            assert!(!text.contains("hunter2-hunter2"));
        }
    }
}

/// The outermost objects with a verdict, wherever they are in the text.
fn count_verdicts(text: &str) -> usize {
    let (mut count, mut end) = (0, 0);
    for (start, _) in text.match_indices('{') {
        if start < end {
            continue;
        }
        let objects = serde_json::Deserializer::from_str(&text[start..]);
        let mut objects = objects.into_iter::<Map<String, Value>>();
        if let Some(Ok(object)) = objects.next() {
            end = start + objects.byte_offset();
            count += usize::from(object.contains_key("verdict"));
        }
    }
    count
}

fn is_shown(text: &str, most: usize) {
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
