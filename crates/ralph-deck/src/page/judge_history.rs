//! The judges of a run over its stops.

use crate::json_units;
use crate::wording::safe_line;
use ralph_core::judge::JudgeKind;
use ralph_core::record::{JournalEntry, JudgeRecord, RunChange, StopRecord};
use ralph_core::text;
use ralph_core::units::{estimate_usd, format_tokens, format_usd};
use serde::Serialize;

const LONGEST_NAME: usize = 200;
const LONGEST_WHY: usize = 300;

/// One judge of a run: its latest verdict, and what all of them cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JudgeHistoryRow {
    pub name: String,
    pub kind: JudgeKind,
    /// `met`, `unmet`, `impossible` or `unknown`.
    pub outcome: String,
    /// Why there is no verdict, or why the goal is said to be impossible.
    pub why: Option<String>,
    /// As the backend named it.
    pub model: Option<String>,
    /// Of the latest verdict.
    pub findings: u32,
    /// How often it was asked.
    pub asked: u32,
    /// How often a verdict was known already.
    pub cached: u32,
    pub calls: u32,
    pub tokens: u64,
    /// `None` if no cost is known.
    #[serde(rename = "cost_usd", serialize_with = "json_units::optional_usd")]
    pub micro_usd: Option<u64>,
    #[serde(skip)]
    pub is_cost_estimated: bool,
    pub took_ms: u64,
}

impl JudgeHistoryRow {
    /// `met`, `unmet, 2 findings`, `no verdict: it is unsure`
    pub fn verdict(&self) -> String {
        let outcome = if self.outcome == "unknown" { "no verdict" } else { &self.outcome };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let findings = match self.findings {
            0 => String::new(),
            count => format!(", {}", text::count_noun(count, "finding")),
        };
        format!("{outcome}{why}{findings}")
    }

    /// `2 calls, 12 k tokens, $0.04`; empty if it was never asked.
    pub fn usage(&self) -> String {
        let parts = [
            (self.calls > 0).then(|| text::count_noun(self.calls, "call")),
            (self.tokens > 0).then(|| format_tokens(self.tokens)),
            self.micro_usd.map(if self.is_cost_estimated { estimate_usd } else { format_usd }),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    pub fn is_met(&self) -> bool {
        self.outcome == "met"
    }

    /// The mark of its last verdict. No verdict is neither good nor bad.
    pub fn mark(&self) -> &'static str {
        match self.outcome.as_str() {
            "met" => "✓",
            "unmet" | "impossible" => "✗",
            _ => "?",
        }
    }
}

/// The judges of a journal, in the order of their first verdict.
pub(super) fn judge_history(entries: &[JournalEntry]) -> Vec<JudgeHistoryRow> {
    let mut rows: Vec<JudgeHistoryRow> = Vec::new();
    for entry in entries {
        let RunChange::Decided(decided) = &entry.change else { continue };
        for record in &decided.judges {
            let name = text::clean_line(&record.name, LONGEST_NAME);
            let known = rows.iter().position(|row| row.name == name);
            let position = known.unwrap_or(rows.len());
            if known.is_none() {
                rows.push(new_row(name, record.kind));
            }
            if let Some(row) = rows.get_mut(position) {
                add_verdict(row, record);
            }
        }
    }
    rows
}

fn new_row(name: String, kind: JudgeKind) -> JudgeHistoryRow {
    JudgeHistoryRow {
        name,
        kind,
        outcome: String::new(),
        why: None,
        model: None,
        findings: 0,
        asked: 0,
        cached: 0,
        calls: 0,
        tokens: 0,
        micro_usd: None,
        is_cost_estimated: false,
        took_ms: 0,
    }
}

fn add_verdict(row: &mut JudgeHistoryRow, record: &JudgeRecord) {
    row.kind = record.kind;
    row.outcome = text::clean_line(&record.outcome, LONGEST_NAME);
    row.why = record.why.as_ref().map(|why| text::clean_line(&safe_line(why), LONGEST_WHY));
    row.findings = record.findings;
    if record.prompt_hash.is_empty() {
        return;
    }
    row.model = record.model.as_ref().map(|model| text::clean_line(model, LONGEST_NAME));
    if record.cached {
        row.cached = row.cached.saturating_add(1);
        return;
    }
    row.asked = row.asked.saturating_add(1);
    row.calls = row.calls.saturating_add(record.calls);
    let tokens = record.input_tokens.saturating_add(record.output_tokens);
    row.tokens = row.tokens.saturating_add(tokens);
    row.is_cost_estimated |= record.is_cost_estimated;
    if let Some(cost) = record.micro_usd {
        row.micro_usd = Some(row.micro_usd.unwrap_or(0).saturating_add(cost));
    }
    row.took_ms = row.took_ms.saturating_add(record.took_ms);
}

/// How many of the requirements that were met at a stop only the verdict of a judge meets.
pub(super) fn judged_count(decided: &StopRecord) -> u32 {
    let Some(report) = &decided.report else { return 0 };
    let is_met =
        |record: &&JudgeRecord| record.outcome == "met" && report.met.contains(&record.name);
    u32::try_from(decided.judges.iter().filter(is_met).count()).unwrap_or(u32::MAX)
}
