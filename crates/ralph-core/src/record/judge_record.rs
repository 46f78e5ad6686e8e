//! The verdict of a judge, as one stop used it.

use crate::digest64::Digest64;
use crate::judge::{DroppedFinding, Judge, JudgeFinding, JudgeKind, JudgeOutcome, JudgeResult};
use crate::judge_requirement::{DroppedFindings, MAX_DROPPED};
use crate::serde_skip::{is_false, is_zero, is_zero_offset};
use crate::text;
use crate::units::{estimate_usd, format_usd};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const MAX_WHY_CHARS: usize = 300;
const MAX_MODEL_CHARS: usize = 80;
/// How many findings of one verdict are recognised when they are raised again.
const MAX_RAISED: usize = 32;
/// One more than [`describe_unseen`] names, so that it knows of others.
const MAX_UNSEEN: usize = MAX_NAMED_UNSEEN + 1;
const MAX_NAMED_UNSEEN: usize = 3;
const MAX_PATH_CHARS: usize = 100;

/// Short enough to keep forever. The findings themselves are in the report of the stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeRecord {
    pub name: String,
    pub kind: JudgeKind,
    /// `met`, `unmet`, `impossible` or `unknown`.
    pub outcome: String,
    /// Why there is no verdict, or why the goal is said to be impossible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the judge gave as the reason of its verdict. Nothing checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// As the backend named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Hash of the instructions and the case.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_hash: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
    #[serde(default, skip_serializing_if = "is_zero_offset")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero_offset")]
    pub output_tokens: u64,
    /// `None` if the cost is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Whether a part of the cost is estimated. Older versions did not record it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_cost_estimated: bool,
    pub took_ms: u64,
    /// Whether the verdict was known before, so that it cost nothing now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cached: bool,
    /// How many findings stand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings: u32,
    /// How many findings were dropped because their quote is not in the file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misquoted: u32,
    /// How many findings were dropped because no other reviewer confirmed them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unconfirmed: u32,
    /// How many findings were beyond the limit of one answer, and not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u32,
    /// Findings that were dropped: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_findings: Vec<DroppedFinding>,
    /// How many of the findings that stand a test shows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shown_by_tests: u32,
    /// How many tests of reviewers were not accepted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected_tests: u32,
    /// Files of the change that it was not shown, or only in part: the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// Digests of the findings that stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Digest64>,
}

impl JudgeRecord {
    pub fn new(judge: &Judge, result: &JudgeResult, cached: bool) -> Self {
        let why = match &result.outcome {
            JudgeOutcome::Unknown { why } => Some(text::clean_line(why, MAX_WHY_CHARS)),
            JudgeOutcome::Impossible => {
                let first = result.findings.first();
                first.map(|finding| text::clean_line(&finding.claim, MAX_WHY_CHARS))
            }
            JudgeOutcome::Met | JudgeOutcome::Unmet => None,
        };
        let model = result.model.as_deref().map(|model| text::clean_line(model, MAX_MODEL_CHARS));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let shown = result.findings.iter().filter(|finding| finding.shown_by.is_some()).count();
        let raised = result.findings.iter().take(MAX_RAISED).map(finding_digest);
        Self {
            name: judge.name.clone(),
            kind: judge.kind,
            outcome: result.outcome.name().to_string(),
            why,
            reason: result.reason.as_deref().map(|it| text::clean_line(it, MAX_WHY_CHARS)),
            model,
            prompt_hash: text::clean_line(&result.prompt_hash, MAX_MODEL_CHARS),
            calls: result.usage.calls,
            input_tokens: result.usage.input_tokens,
            output_tokens: result.usage.output_tokens,
            micro_usd: result.usage.micro_usd,
            is_cost_estimated: result.usage.is_estimated,
            took_ms: result.took_ms,
            cached,
            findings: count(result.findings.len()),
            misquoted: result.misquoted,
            unconfirmed: result.unconfirmed,
            unread: result.unread,
            dropped_findings: result.dropped.iter().take(MAX_DROPPED).cloned().collect(),
            shown_by_tests: count(shown),
            rejected_tests: count(result.rejected_tests.len()),
            unseen: result.unseen.iter().take(MAX_UNSEEN).map(|path| unseen_name(path)).collect(),
            raised: raised.collect(),
        }
    }

    /// A judge that was not asked, and why.
    pub fn not_asked(judge: &Judge, why: &str) -> Self {
        Self {
            name: judge.name.clone(),
            kind: judge.kind,
            outcome: "unknown".to_string(),
            why: Some(text::clean_line(why, MAX_WHY_CHARS)),
            reason: None,
            model: None,
            prompt_hash: String::new(),
            calls: 0,
            input_tokens: 0,
            output_tokens: 0,
            micro_usd: None,
            is_cost_estimated: false,
            took_ms: 0,
            cached: false,
            findings: 0,
            misquoted: 0,
            unconfirmed: 0,
            unread: 0,
            dropped_findings: Vec::new(),
            shown_by_tests: 0,
            rejected_tests: 0,
            unseen: Vec::new(),
            raised: Vec::new(),
        }
    }

    /// `$0.04`, `≈ $0.04`; `None` if it is unknown.
    pub fn describe_cost(&self) -> Option<String> {
        let shown = if self.is_cost_estimated { estimate_usd } else { format_usd };
        self.micro_usd.map(shown)
    }

    pub fn dropped(&self) -> DroppedFindings {
        let Self { misquoted, unconfirmed, unread, .. } = *self;
        DroppedFindings { misquoted, unconfirmed, unread }
    }

    pub fn is_impossible(&self) -> bool {
        self.outcome == JudgeOutcome::Impossible.name()
    }
}

fn unseen_name(path: &str) -> String {
    text::clean_line(path, MAX_PATH_CHARS)
}

/// `not shown all of` some files; `None` if the judges saw the whole change.
pub fn describe_unseen<'a>(records: impl Iterator<Item = &'a JudgeRecord>) -> Option<String> {
    let files: BTreeSet<&str> = records.flat_map(|one| &one.unseen).map(String::as_str).collect();
    let named: Vec<String> = files
        .iter()
        .take(MAX_NAMED_UNSEEN)
        .map(|path| format!("`{}`", unseen_name(path)))
        .collect();
    let others = if files.len() > MAX_NAMED_UNSEEN { " and others" } else { "" };
    (!named.is_empty()).then(|| format!("not shown all of {}{others}", named.join(", ")))
}

/// The identity of a finding. Judges word a claim differently each time, so the quoted text identifies it.
fn finding_digest(finding: &JudgeFinding) -> Digest64 {
    let about = if finding.quote.trim().is_empty() { &finding.claim } else { &finding.quote };
    Digest64::of_parts(&[finding.file.as_bytes(), text::collapse_whitespace(about).as_bytes()])
}
