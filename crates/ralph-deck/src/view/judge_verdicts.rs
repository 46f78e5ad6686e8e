//! The verdicts of judges that a decision rests on, as JSON and in one line.

use crate::wording::{micro_usd_as_usd, safe_line, short_duration};
use ralph_core::judge::DroppedFinding;
use ralph_core::judge_requirement::quote_reason;
use ralph_core::record::{JudgeRecord, describe_unseen};
use ralph_core::text;
use ralph_core::units;
use serde::Serialize;
use std::ops::Not;

/// How much of a hash a person reads.
const SHOWN_HASH_CHARS: usize = 12;
const MAX_REASON_CHARS: usize = 300;

#[derive(Debug, Serialize)]
pub struct JudgeVerdictView<'a> {
    pub name: &'a str,
    pub kind: &'static str,
    /// `met`, `unmet`, `impossible` or `unknown`
    pub outcome: &'a str,
    /// Why there is no verdict, or why the goal is said to be impossible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'a str>,
    /// What the judge gave as the reason of its verdict. Nothing checks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    pub model: Option<&'a str>,
    /// Hash of the instructions and the case; `None` if the judge was not asked.
    pub prompt_hash: Option<&'a str>,
    pub calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// `None` if the cost is unknown.
    pub cost_usd: Option<f64>,
    /// Left out if it is reported.
    #[serde(skip_serializing_if = "Not::not")]
    pub cost_estimated: bool,
    pub took_ms: u64,
    pub cached: bool,
    pub findings: u32,
    /// Dropped, because their quote is not in the file.
    pub misquoted: u32,
    /// Dropped, because no other reviewer confirmed them.
    pub unconfirmed: u32,
    /// Beyond the limit of one answer.
    pub unread: u32,
    /// The first findings that were dropped.
    #[serde(skip_serializing_if = "<[DroppedFinding]>::is_empty")]
    pub dropped: &'a [DroppedFinding],
    /// Of the findings that stand, those that a failing test of a reviewer shows.
    pub shown_by_tests: u32,
    /// Tests of reviewers that were not accepted.
    pub rejected_tests: u32,
    /// The first files that it was not shown, or only in part.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub unseen: &'a [String],
}

pub fn judge_verdict_view(record: &JudgeRecord) -> JudgeVerdictView<'_> {
    JudgeVerdictView {
        name: &record.name,
        kind: record.kind.name(),
        outcome: &record.outcome,
        why: record.why.as_deref(),
        reason: record.reason.as_deref(),
        model: record.model.as_deref(),
        prompt_hash: Some(record.prompt_hash.as_str()).filter(|hash| !hash.is_empty()),
        calls: record.calls,
        input_tokens: record.input_tokens,
        output_tokens: record.output_tokens,
        cost_usd: record.micro_usd.map(micro_usd_as_usd),
        cost_estimated: record.is_cost_estimated && record.micro_usd.is_some(),
        took_ms: record.took_ms,
        cached: record.cached,
        findings: record.findings,
        misquoted: record.misquoted,
        unconfirmed: record.unconfirmed,
        unread: record.unread,
        dropped: &record.dropped_findings,
        shown_by_tests: record.shown_by_tests,
        rejected_tests: record.rejected_tests,
        unseen: &record.unseen,
    }
}

/// `adversarial judge: unmet, 2 findings, 1 misquoted and dropped; model-1, prompt 3f1c2ab01234, 4 calls, 12 k tokens, $0.04, 31 s`
pub fn describe_verdict(record: &JudgeRecord) -> String {
    let why = record.why.as_ref().map(|why| format!(": {}", safe_line(why))).unwrap_or_default();
    let reason = record.reason.as_deref().map(|reason| {
        let quoted = quote_reason(reason, MAX_REASON_CHARS);
        format!("it says {}", safe_line(&quoted))
    });
    let findings = (record.findings > 0).then(|| text::count_noun(record.findings, "finding"));
    let shown =
        (record.shown_by_tests > 0).then(|| format!("{} shown by a test", record.shown_by_tests));
    let dropped = record.dropped().describe();
    let rejected = (record.rejected_tests > 0)
        .then(|| format!("{} not accepted", text::count_noun(record.rejected_tests, "test")));
    let said: Vec<String> = std::iter::once(format!("{}{why}", record.outcome))
        .chain(findings)
        .chain(shown)
        .chain(dropped)
        .chain(rejected)
        .chain(reason)
        .chain(describe_unseen(std::iter::once(record)).map(|unseen| safe_line(&unseen)))
        .collect();
    let verdict = format!("{} judge: {}", record.kind.name(), said.join(", "));
    if record.prompt_hash.is_empty() {
        return verdict;
    }
    let tokens = record.input_tokens.saturating_add(record.output_tokens);
    let cost = record.describe_cost().unwrap_or_else(|| "cost unknown".to_string());
    let hash: String = record.prompt_hash.chars().take(SHOWN_HASH_CHARS).collect();
    let took = if record.cached { "cached".to_string() } else { short_duration(record.took_ms) };
    let facts = [
        record.model.as_deref().map(safe_line),
        Some(format!("prompt {}", safe_line(&hash))),
        (record.calls > 0).then(|| text::count_noun(record.calls, "call")),
        (tokens > 0).then(|| units::format_tokens(tokens)),
        (tokens > 0 || record.micro_usd.is_some()).then_some(cost),
        Some(took),
    ];
    format!("{verdict}; {}", facts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
