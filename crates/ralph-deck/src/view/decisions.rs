//! The decisions about a run or session, newest first: the rule that matched, and the evidence.

use super::acceptance::AcceptanceView;
use super::judge_verdicts::{JudgeVerdictView, judge_verdict_view};
use crate::page::{TimelineReader, TimelineRow};
use crate::wording::{decision_outcome, safe_line};
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{
    JournalEntry, PartIdentity, PartRecord, ReportLine, RunChange, StopOutcome, StopRecord,
    StopReport,
};
use ralph_core::text;
use ralph_home::journal::JournalDamage;
use ralph_hook::overview::{DecisionHistory, HistorySubject};
use serde::Serialize;
use std::collections::BTreeMap;

/// How many tools with denied calls are named.
const MAX_DENIED_TOOLS: usize = 6;

/// A line of the timeline that is a decision, and the evidence that it rests on.
#[derive(Debug, Serialize)]
pub struct DecisionView<'a> {
    pub v: u8,
    pub name: &'a str,
    #[serde(flatten)]
    pub row: TimelineRow,
    pub outcome: &'static str,
    pub because: &'a str,
    /// Whether it counts as an iteration. A decision about a part never does.
    pub charged: bool,
    pub iteration_before: u32,
    pub iteration_after: u32,
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub open: &'a [ReportLine],
    pub met: &'a [String],
    pub took_ms: u64,
    #[serde(flatten)]
    pub subject: DecisionDetails<'a>,
}

/// What only the decisions about one kind of subject have.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum DecisionDetails<'a> {
    Run(RunDecisionView<'a>),
    Part(PartDecisionView<'a>),
}

#[derive(Debug, Serialize)]
pub struct RunDecisionView<'a> {
    pub state: Option<String>,
    pub tampering: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<&'a ProofRecord>,
    /// The verdicts of judges that it rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeVerdictView<'a>>,
    /// Set if this decision ended the run and a person accepted its work later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptanceView<'a>>,
}

/// Of a subagent, teammate or task.
#[derive(Debug, Serialize)]
pub struct PartDecisionView<'a> {
    pub part: &'a PartIdentity,
    pub chunk: Option<&'a str>,
    pub holds: u32,
    pub max_holds: u32,
}

/// A decision about the run, or about a part of its work.
#[derive(Clone, Copy, Debug)]
pub enum DecisionEntry<'a> {
    Run(&'a StopRecord),
    Part(&'a PartRecord),
}

impl<'a> DecisionEntry<'a> {
    fn counts_as_iteration(self) -> bool {
        let Self::Run(decided) = self else { return false };
        matches!(decided.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver)
    }

    /// What the agent was given to read, if it was held.
    fn given_reason(self) -> Option<&'a str> {
        match self {
            Self::Run(decided) => match &decided.outcome {
                StopOutcome::Blocked { reason } | StopOutcome::Awaited { reason } => Some(reason),
                StopOutcome::Allowed
                | StopOutcome::HandedOver
                | StopOutcome::Repeated
                | StopOutcome::Orphaned
                | StopOutcome::Ended(_) => None,
            },
            Self::Part(part) => part.reason.as_deref(),
        }
    }
}

/// The decisions, newest first.
pub fn decisions(
    history: &DecisionHistory,
) -> impl Iterator<Item = (&JournalEntry, DecisionEntry<'_>)> {
    history.entries.iter().filter_map(any_decision).rev()
}

/// The latest decisions as views, newest first.
pub fn decision_views(history: &DecisionHistory, most: usize) -> Vec<DecisionView<'_>> {
    let rows = decision_rows(history).into_iter().rev().take(most);
    rows.map(|(row, entry, subject)| decision_view(history, entry, subject, row)).collect()
}

/// The newest decision about the run.
pub fn newest_decision(history: &DecisionHistory) -> Option<DecisionView<'_>> {
    let is_of_run = |subject: &DecisionEntry<'_>| matches!(subject, DecisionEntry::Run(_));
    let mut rows = decision_rows(history).into_iter().rev();
    let (row, entry, subject) = rows.find(|(_, _, subject)| is_of_run(subject))?;
    Some(decision_view(history, entry, subject, row))
}

/// The decisions with their lines of the timeline, oldest first.
fn decision_rows(
    history: &DecisionHistory,
) -> Vec<(TimelineRow, &JournalEntry, DecisionEntry<'_>)> {
    let mut timeline = TimelineReader::new(&history.entries);
    let rows = history.entries.iter().map(|entry| (timeline.read(entry), any_decision(entry)));
    rows.filter_map(|(row, decision)| {
        let (entry, subject) = decision?;
        Some((row?, entry, subject))
    })
    .collect()
}

fn any_decision(entry: &JournalEntry) -> Option<(&JournalEntry, DecisionEntry<'_>)> {
    if let RunChange::Part(part) = &entry.change {
        return Some((entry, DecisionEntry::Part(part)));
    }
    run_decision(entry).map(|(entry, decided)| (entry, DecisionEntry::Run(decided)))
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

fn decision_view<'a>(
    history: &'a DecisionHistory,
    entry: &JournalEntry,
    subject: DecisionEntry<'a>,
    mut row: TimelineRow,
) -> DecisionView<'a> {
    let (outcome, because, report, took_ms) = match subject {
        DecisionEntry::Run(decided) => {
            (decision_outcome(decided), &decided.because, &decided.report, decided.took_ms)
        }
        DecisionEntry::Part(part) => {
            row.rule = Some(part.rule.name());
            (part.rule.outcome_label(), &part.because, &part.report, part.took_ms)
        }
    };
    let charged = history.subject == HistorySubject::Run && subject.counts_as_iteration();
    row.reason = subject.given_reason().map(str::to_string);
    let report = report.as_ref();
    row.requirements = report.map(|report| report.total);
    row.met = report.map(StopReport::met_count);
    DecisionView {
        v: 1,
        name: &history.name,
        row,
        outcome,
        because,
        charged,
        iteration_before: entry.iteration.saturating_sub(u32::from(charged)),
        iteration_after: entry.iteration,
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        met: report.map_or(&[], |report| &report.met),
        took_ms,
        subject: match subject {
            DecisionEntry::Run(decided) => {
                DecisionDetails::Run(run_decision_view(history, decided))
            }
            DecisionEntry::Part(part) => DecisionDetails::Part(PartDecisionView {
                part: &part.who,
                chunk: part.chunk.as_deref(),
                holds: part.holds,
                max_holds: part.max_holds,
            }),
        },
    }
}

fn run_decision_view<'a>(
    history: &'a DecisionHistory,
    decided: &'a StopRecord,
) -> RunDecisionView<'a> {
    RunDecisionView {
        state: decided.mark.map(|mark| format!("{:016x}", mark.0)),
        tampering: decided.tampering.as_deref(),
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
