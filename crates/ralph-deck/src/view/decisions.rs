//! The decisions about a run or session, newest first: the rule that matched, and the evidence.

use super::acceptance::AcceptanceView;
use super::judge_verdicts::{JudgeVerdictView, judge_verdict_view};
use crate::wording::{decision_outcome, safe_line};
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{
    JournalEntry, PartIdentity, PartRecord, ReportLine, RunChange, StopOutcome, StopRecord,
};
use ralph_core::text;
use ralph_home::journal::JournalDamage;
use ralph_hook::overview::{DecisionHistory, HistorySubject};
use ralph_sys::clock;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many tools with denied calls are named.
const MAX_DENIED_TOOLS: usize = 6;

#[derive(Debug, Serialize)]
pub struct DecisionView<'a> {
    pub v: u8,
    pub name: &'a str,
    pub at: String,
    pub outcome: &'static str,
    pub rule: &'static str,
    pub because: &'a str,
    pub charged: bool,
    pub iteration_before: u32,
    pub iteration_after: u32,
    pub requirements: u32,
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub open: &'a [ReportLine],
    pub met: &'a [String],
    pub state: Option<String>,
    pub tampering: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<&'a ProofRecord>,
    /// The verdicts of judges that it rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeVerdictView<'a>>,
    /// Set if this decision ended the run and a person accepted its work later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptanceView<'a>>,
}

/// A decision about a subagent, teammate or task. `charged` is always false: it does not count as an iteration.
#[derive(Debug, Serialize)]
pub struct PartDecisionView<'a> {
    pub v: u8,
    pub name: &'a str,
    pub at: String,
    pub outcome: &'static str,
    pub rule: &'static str,
    pub because: &'a str,
    pub part: &'a PartIdentity,
    pub chunk: Option<&'a str>,
    pub holds: u32,
    pub max_holds: u32,
    pub charged: bool,
    pub iteration_before: u32,
    pub iteration_after: u32,
    pub requirements: u32,
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub open: &'a [ReportLine],
    pub met: &'a [String],
    pub reason: Option<&'a str>,
    pub took_ms: u64,
}

/// A decision about the run, or about a part of its work.
#[derive(Clone, Copy, Debug)]
pub enum DecisionEntry<'a> {
    Run(&'a StopRecord),
    Part(&'a PartRecord),
}

/// The decisions, newest first.
pub fn decisions(
    history: &DecisionHistory,
) -> impl Iterator<Item = (&JournalEntry, DecisionEntry<'_>)> {
    history.entries.iter().filter_map(any_decision).rev()
}

/// The decisions as views, newest first.
pub fn decision_views(history: &DecisionHistory) -> impl Iterator<Item = DecisionLineView<'_>> {
    decisions(history).map(|(entry, subject)| match subject {
        DecisionEntry::Run(decided) => {
            DecisionLineView::Run(decision_view(history, entry, decided))
        }
        DecisionEntry::Part(part) => {
            DecisionLineView::Part(part_decision_view(history, entry, part))
        }
    })
}

fn any_decision(entry: &JournalEntry) -> Option<(&JournalEntry, DecisionEntry<'_>)> {
    if let RunChange::Part(part) = &entry.change {
        return Some((entry, DecisionEntry::Part(part)));
    }
    run_decision(entry).map(|(entry, decided)| (entry, DecisionEntry::Run(decided)))
}

/// One line of `ralph why --json`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum DecisionLineView<'a> {
    Run(DecisionView<'a>),
    Part(PartDecisionView<'a>),
}

/// The newest decision about the run.
pub fn newest_decision(history: &DecisionHistory) -> Option<DecisionView<'_>> {
    let (entry, decided) = history.entries.iter().rev().find_map(run_decision)?;
    Some(decision_view(history, entry, decided))
}

/// The entry, if it is a decision about the run.
pub fn run_decision(entry: &JournalEntry) -> Option<(&JournalEntry, &StopRecord)> {
    if let RunChange::Decided(decided) = &entry.change { Some((entry, decided)) } else { None }
}

/// Why the run ended, if a decision ended it.
pub fn ending_reason(entries: &[JournalEntry]) -> Option<String> {
    entries.iter().rev().filter_map(run_decision).find_map(|(_, decided)| {
        matches!(decided.outcome, StopOutcome::Ended(_)).then(|| decided.because.clone())
    })
}

/// The tool calls that were denied, by tool and reason; `None` if there are none.
pub fn denied_calls_text(entries: &[JournalEntry]) -> Option<String> {
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for entry in entries {
        if let RunChange::Denied { tool, what, .. } = &entry.change {
            let count = counts.entry((tool, what)).or_default();
            *count = count.saturating_add(1);
        }
    }
    let all = counts.values().fold(0_u32, |sum, count| sum.saturating_add(*count));
    let verb = if all == 1 { "was" } else { "were" };
    let mut shown: Vec<_> = counts
        .iter()
        .take(MAX_DENIED_TOOLS)
        .map(|((tool, what), count)| match count {
            1 => format!("{} ({})", safe_line(tool), safe_line(what)),
            _ => format!("{} ({}, {count} times)", safe_line(tool), safe_line(what)),
        })
        .collect();
    let more = counts.len().saturating_sub(MAX_DENIED_TOOLS);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    (all > 0).then(|| {
        format!("{} {verb} denied: {}", text::count_noun(all, "tool call"), shown.join(", "))
    })
}

/// Why a journal is not read to its end, or not trusted.
pub fn journal_damage_text(damage: &JournalDamage) -> String {
    match damage {
        JournalDamage::TornLine => {
            "the last line is incomplete, because a process died while writing it; it is ignored"
                .to_string()
        }
        JournalDamage::BrokenChain { line } => {
            format!("the journal was edited: line {line} does not continue the one before it")
        }
        JournalDamage::Missing => {
            "the journal is missing: something other than ralph removed it".to_string()
        }
        JournalDamage::NewerFormat { line, version } => format!(
            "from line {line} on, the journal was written by a newer ralph (format {version}): update ralph to read it"
        ),
    }
}

fn part_decision_view<'a>(
    history: &'a DecisionHistory,
    entry: &JournalEntry,
    part: &'a PartRecord,
) -> PartDecisionView<'a> {
    let report = part.report.as_ref();
    PartDecisionView {
        v: 1,
        name: &history.name,
        at: clock::format_rfc3339(entry.at_ms),
        outcome: part.rule.outcome_label(),
        rule: part.rule.name(),
        because: &part.because,
        part: &part.who,
        chunk: part.chunk.as_deref(),
        holds: part.holds,
        max_holds: part.max_holds,
        charged: false,
        iteration_before: entry.iteration,
        iteration_after: entry.iteration,
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        met: report.map_or(&[], |report| &report.met),
        reason: part.reason.as_deref(),
        took_ms: part.took_ms,
    }
}

fn decision_view<'a>(
    history: &'a DecisionHistory,
    entry: &JournalEntry,
    decided: &'a StopRecord,
) -> DecisionView<'a> {
    let report = decided.report.as_ref();
    let reason = match &decided.outcome {
        StopOutcome::Blocked { reason } | StopOutcome::Awaited { reason } => Some(reason.as_str()),
        StopOutcome::Allowed
        | StopOutcome::HandedOver
        | StopOutcome::Repeated
        | StopOutcome::Orphaned
        | StopOutcome::Ended(_) => None,
    };
    let is_charged =
        matches!(decided.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver);
    let charged = is_charged && history.subject == HistorySubject::Run;
    DecisionView {
        v: 1,
        name: &history.name,
        at: clock::format_rfc3339(entry.at_ms),
        outcome: decision_outcome(decided),
        rule: decided.rule.name(),
        because: &decided.because,
        charged,
        iteration_before: entry.iteration.saturating_sub(u32::from(charged)),
        iteration_after: entry.iteration,
        requirements: report.map_or(0, |report| report.total),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        met: report.map_or(&[], |report| &report.met),
        state: decided.mark.map(|mark| format!("{:016x}", mark.0)),
        tampering: decided.tampering.as_deref(),
        reason,
        took_ms: decided.took_ms,
        proof: decided.proof.as_ref(),
        judges: decided.judges.iter().map(judge_verdict_view).collect(),
        accepted: matches!(decided.outcome, StopOutcome::Ended(_))
            .then(|| history.entries.iter().find_map(acceptance_of))
            .flatten(),
    }
}

fn acceptance_of(entry: &JournalEntry) -> Option<AcceptanceView<'_>> {
    let RunChange::Accepted(acceptance) = &entry.change else { return None };
    Some(AcceptanceView::from_acceptance(acceptance))
}
