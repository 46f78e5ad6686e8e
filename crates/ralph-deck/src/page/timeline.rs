//! The events of a run in the order they happened, each in one line.

use super::board_row::{clean_paragraph, clean_title};
use super::repeated_text::RepeatedText;
use super::requirement_matrix::CellState;
use super::run_standing::{RunStanding, state_label};
use super::spend_meter::SpendMeter;
use crate::json_units;
use crate::wording;
use ralph_core::approval;
use ralph_core::closed_run::closing_entry;
use ralph_core::drive::RunnerEvent;
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::{
    JournalEntry, MoveReason, OrchestratorStep, ReportLine, ReportedStatus, RunChange, StopOutcome,
    StopRecord, StopReport,
};
use ralph_core::text;
use ralph_tally::{DisputeOutcome, DisputeOutcomes};
use serde::Serialize;

const LONGEST_LINE: usize = 300;
const LONGEST_REASON: usize = 20_000;
const MAX_NAMED: usize = 3;
/// A run of 10,000 stops would have 30 MB of reasons.
const MAX_REASONS: usize = 50;

/// A line of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineRow {
    pub seq: u64,
    #[serde(rename = "at", serialize_with = "json_units::time")]
    pub at_ms: u64,
    pub kind: TimelineKind,
    /// The number of the stop that evaluated requirements.
    pub stop: Option<u32>,
    /// Charged iterations afterwards.
    pub iteration: u32,
    pub text: String,
    /// The rule that decided about a stop.
    pub rule: Option<&'static str>,
    /// What the agent was given to read. Only the newest stops have it; [`stop_reason`] and [`earlier_lines`] have that of the others.
    pub reason: Option<String>,
    /// How long the gates of the stop took together, without cached results.
    pub gates_ms: Option<u64>,
    /// What was spent since the previous stop.
    #[serde(rename = "cost_usd", serialize_with = "json_units::optional_usd")]
    pub cost_micro_usd: Option<u64>,
    /// The number of the checkpoint that was judged.
    pub checkpoint: Option<u32>,
    #[serde(rename = "met_count")]
    pub met: Option<u32>,
    #[serde(serialize_with = "json_units::zero_if_unknown")]
    pub requirements: Option<u32>,
}

/// The kind of a line: its mark and its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    Started,
    Held,
    LetGo,
    HandedOver,
    Ended,
    Asked,
    Answered,
    /// A person waived, disputed, paused, limited or accepted something.
    Person,
    /// The agent disputed a requirement or declared something.
    Agent,
    /// The runner waited, restarted or parked.
    Runner,
    /// A tool call was denied.
    Denied,
    /// The journal was damaged, or ralph's files were edited.
    Damage,
    Note,
}

impl TimelineKind {
    /// The kind for people: a column in a terminal, the first word of a line elsewhere.
    pub fn label(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Held => "held",
            Self::LetGo => "let go",
            Self::HandedOver => "hand-over",
            Self::Ended => "ended",
            Self::Asked => "asks",
            Self::Answered => "message",
            Self::Person => "person",
            Self::Agent => "agent",
            Self::Runner => "runner",
            Self::Denied => "denied",
            Self::Damage => "damage",
            Self::Note => "note",
        }
    }
}

/// The timeline of a journal, oldest first. Cost readings have no line of their own; they become the costs of
/// stops.
pub fn timeline(entries: &[JournalEntry]) -> Vec<TimelineRow> {
    let mut reader = TimelineReader::new(entries);
    let mut repeated = RepeatedText::default();
    let mut rows = Vec::new();
    for entry in entries {
        let row = reader.read(entry).filter(|_| !is_repeated_stop(&entry.change));
        if let Some(mut row) = row
            && repeated.remove_repeated(&mut row)
        {
            rows.push(row);
        }
    }
    let mut newest = rows.iter_mut().rev().filter(|row| row.rule.is_some()).take(MAX_REASONS);
    for row in &mut newest {
        row.reason = stop_reason(entries, row.seq);
    }
    rows
}

fn is_repeated_stop(change: &RunChange) -> bool {
    matches!(change, RunChange::Decided(decided) if decided.outcome == StopOutcome::Repeated)
}

/// Turns the lines of a journal into rows, in their order.
pub(crate) struct TimelineReader<'a> {
    meter: SpendMeter,
    /// How many stops have evaluated requirements.
    stops: u32,
    /// The latest of their reports.
    before: Option<&'a StopReport>,
    disputes: DisputeOutcomes,
    /// The line with which a person closed the run after its end.
    closing: Option<u64>,
}

impl<'a> TimelineReader<'a> {
    pub(crate) fn new(entries: &[JournalEntry]) -> Self {
        Self {
            meter: SpendMeter::default(),
            stops: 0,
            before: None,
            disputes: DisputeOutcomes::from_journal(entries),
            closing: closing_entry(entries).map(|entry| entry.seq),
        }
    }

    /// `None` for a line that has no row. [`timeline`] also leaves out repeated stops.
    pub(crate) fn read(&mut self, entry: &'a JournalEntry) -> Option<TimelineRow> {
        self.meter.read(&entry.change);
        let mut row = TimelineRow {
            seq: entry.seq,
            at_ms: entry.at_ms,
            kind: TimelineKind::Note,
            stop: None,
            iteration: entry.iteration,
            text: String::new(),
            rule: None,
            reason: None,
            gates_ms: None,
            cost_micro_usd: None,
            checkpoint: None,
            met: None,
            requirements: None,
        };
        if let RunChange::Decided(decided) = &entry.change {
            let is_new = decided.outcome != StopOutcome::Repeated;
            self.stops = self.stops.saturating_add(u32::from(is_new && decided.report.is_some()));
            add_decision(&mut row, decided, self.before, self.stops);
            if is_new {
                row.cost_micro_usd = self.meter.take_since_last();
                self.before = decided.report.as_ref().or(self.before);
            }
        } else if let RunChange::Disputed(dispute) = &entry.change {
            row.kind = TimelineKind::Agent;
            let outcome = outcome_in_brackets(self.disputes.of_line(entry.seq));
            let text = format!("disputes {}{outcome}: {}", dispute.requirement, dispute.why);
            row.text = text::clean_line(&text, LONGEST_LINE);
        } else {
            let (kind, text) = match describe_change(&entry.change)? {
                _ if self.closing == Some(entry.seq) => {
                    (TimelineKind::Person, "closed".to_string())
                }
                described => described,
            };
            row.kind = kind;
            row.text = match &entry.by {
                Some(by) => text::clean_line(&format!("{text}, by {by}"), LONGEST_LINE),
                None => text,
            };
        }
        Some(row)
    }
}

/// Lines of a timeline that a screen left out at first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierLines {
    /// Oldest first, each decision with what the agent was given to read.
    pub rows: Vec<TimelineRow>,
    /// How many lines are older.
    pub left_out: usize,
}

/// The latest `most` lines before the journal line `before`.
pub fn earlier_lines(entries: &[JournalEntry], before: u64, most: usize) -> EarlierLines {
    let mut rows = timeline(entries);
    rows.retain(|row| row.seq < before);
    let left_out = rows.len().saturating_sub(most);
    rows.drain(..left_out);
    for row in &mut rows {
        row.reason = stop_reason(entries, row.seq);
    }
    EarlierLines { rows, left_out }
}

/// ` (upheld by ada)`; empty while the dispute is undecided.
pub(super) fn outcome_in_brackets(dispute: Option<&DisputeOutcome>) -> String {
    let outcome = dispute.and_then(DisputeOutcome::describe);
    outcome.map(|outcome| format!(" ({outcome})")).unwrap_or_default()
}

/// What the agent was given to read at the stop with this journal line.
pub fn stop_reason(entries: &[JournalEntry], seq: u64) -> Option<String> {
    let position = entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
    let RunChange::Decided(decided) = &entries.get(position)?.change else { return None };
    if let StopOutcome::Blocked { reason } | StopOutcome::Awaited { reason } = &decided.outcome {
        Some(clean_paragraph(reason, LONGEST_REASON))
    } else {
        None
    }
}

fn add_decision(
    row: &mut TimelineRow,
    decided: &StopRecord,
    before: Option<&StopReport>,
    stop: u32,
) {
    row.kind = match decided.outcome {
        StopOutcome::Blocked { .. } | StopOutcome::Awaited { .. } => TimelineKind::Held,
        StopOutcome::HandedOver => TimelineKind::HandedOver,
        StopOutcome::Ended(_) => TimelineKind::Ended,
        StopOutcome::Allowed | StopOutcome::Orphaned => TimelineKind::LetGo,
        // The previous answer again, whichever it was.
        StopOutcome::Repeated => TimelineKind::Note,
    };
    let change = decided.report.as_ref().map(|report| report_change(report, before));
    row.text = match (row.kind, change) {
        (TimelineKind::Held, Some(change)) => change,
        _ => text::clean_line(&decided.because, LONGEST_LINE),
    };
    if let StopOutcome::Ended(status) = decided.outcome {
        row.text = format!("{}: {}", RunStanding::Ended(status).label(), row.text);
    }
    row.rule = Some(decided.rule.name());
    if let Some(report) = &decided.report {
        row.stop = Some(stop);
        row.met = Some(report.met_count());
        row.requirements = Some(report.total);
    }
    let executed = decided.gates.iter().filter(|gate| !gate.cached);
    row.gates_ms = (!decided.gates.is_empty())
        .then(|| executed.map(|gate| gate.took_ms).fold(0, u64::saturating_add));
    row.checkpoint = decided.judged.as_ref().map(|judged| judged.checkpoint);
}

/// What changed since the report before: `tests 4 → 2, fmt done`.
fn report_change(report: &StopReport, before: Option<&StopReport>) -> String {
    let known = |name: &str| before?.lines.iter().find(|line| line.name == name);
    let mut parts: Vec<_> = report
        .lines
        .iter()
        .filter(|line| line.standing != ReportedStatus::Advisory)
        .map(|line| line_change(line, known(&line.name)))
        .collect();
    let open = |name: &String| {
        report.lines.iter().any(|line| line.name == *name) || report.also_open.contains(name)
    };
    let done = before
        .iter()
        .flat_map(|before| &before.lines)
        .filter(|line| line.standing != ReportedStatus::Advisory && !open(&line.name))
        // A proof holds once. That it no longer does says nothing about it.
        .filter(|line| line.name != PROOF_REQUIREMENT);
    let more = parts.len().saturating_sub(MAX_NAMED);
    parts.truncate(MAX_NAMED);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.extend(done.take(MAX_NAMED).map(|line| format!("{} done", line.name)));
    text::clean_line(&parts.join(", "), LONGEST_LINE)
}

fn line_change(line: &ReportLine, before: Option<&ReportLine>) -> String {
    let name = &line.name;
    match (line.standing, line.findings, before.map(|before| before.findings)) {
        (ReportedStatus::Unknown | ReportedStatus::Pending, ..) => {
            format!("{name}: {}", CellState::of_line(line).label())
        }
        (_, 0, _) => name.clone(),
        (_, now, Some(then)) if now == then => {
            format!("{name}: {}, as before", text::count_noun(u64::from(now), "finding"))
        }
        (_, now, Some(then)) if then > 0 => format!("{name} {then} → {now}"),
        (_, now, _) => format!("{name}: {}", text::count_noun(u64::from(now), "finding")),
    }
}

/// Lines that are not decisions; `None` for those that a timeline leaves out.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of journal line")]
fn describe_change(change: &RunChange) -> Option<(TimelineKind, String)> {
    let line = |text: &str| text::clean_line(text, LONGEST_LINE);
    Some(match change {
        RunChange::Started(run) => (TimelineKind::Started, clean_title(&run.title)),
        RunChange::Restored(_) => (
            TimelineKind::Damage,
            "the journal was damaged or missing, and a new one began".to_string(),
        ),
        RunChange::Trouble { class } => (
            TimelineKind::Runner,
            format!("the turn was cut short by {}", wording::turn_end_cause(class)),
        ),
        RunChange::Paused => (TimelineKind::Person, "paused".to_string()),
        RunChange::Interrupted { .. } => {
            (TimelineKind::Person, "interrupted the agent and sent another prompt".to_string())
        }
        RunChange::Resumed => (TimelineKind::Person, "resumed".to_string()),
        RunChange::Cancelled => (TimelineKind::Ended, "cancelled".to_string()),
        RunChange::Asked { question } => (TimelineKind::Asked, line(question)),
        RunChange::Waits { until_ms, why } => (
            TimelineKind::Agent,
            line(&format!("waits until {}: {why}", wording::local_time(*until_ms))),
        ),
        RunChange::Moved { to, how, .. } => {
            let how = match how {
                MoveReason::HandedOver => "takes over",
                MoveReason::Reopened => "was reopened",
                MoveReason::Cleared => "follows one that was cleared; paused",
                MoveReason::TakenUp => "continues the run",
                MoveReason::Resumed => "is held again",
            };
            (TimelineKind::HandedOver, format!("session {} {how}", to.short()))
        }
        RunChange::Compacted => (TimelineKind::Note, "the conversation was summarised".to_string()),
        RunChange::Denied { tool, what, call } => {
            (TimelineKind::Denied, line(&format!("{tool} ({what}): {call}")))
        }
        RunChange::Overridden { how } => (TimelineKind::Ended, line(&format!("overridden: {how}"))),
        RunChange::HintGiven { text, by, .. } => {
            let by = by.as_ref().map(|by| format!(" (by {by})")).unwrap_or_default();
            (TimelineKind::Answered, line(&format!("{text}{by}")))
        }
        RunChange::Waived(waiver) => (
            TimelineKind::Person,
            line(&format!(
                "waived {} until {}, by {}: {}",
                waiver.requirement,
                wording::local_time(waiver.until_ms),
                waiver.by,
                waiver.why
            )),
        ),
        RunChange::WaiverRevoked { requirement } => {
            (TimelineKind::Person, line(&format!("revoked the waiver of {requirement}")))
        }
        RunChange::Approved(one) => (
            TimelineKind::Person,
            line(&format!("approved {}, by {}", approval::approval_name(&one.requirement), one.by)),
        ),
        RunChange::Limited(limits) => {
            (TimelineKind::Person, format!("set limits: {}", wording::limits(limits)))
        }
        RunChange::Stepped(step) => {
            let is_person = matches!(step, OrchestratorStep::Approved { .. });
            let kind = if is_person { TimelineKind::Person } else { TimelineKind::Agent };
            (kind, wording::orchestrator_step(step))
        }
        RunChange::Recalled { query, found } => {
            (TimelineKind::Note, line(&format!("recalled \"{query}\": {found} found")))
        }
        RunChange::Learned { title, .. } => {
            (TimelineKind::Note, line(&format!("learned: {title}")))
        }
        RunChange::Drove(drove) => return describe_runner(drove),
        RunChange::Accepted(acceptance) => (TimelineKind::Person, line(&acceptance.describe())),
        RunChange::Part(part) => (
            TimelineKind::Note,
            line(&format!(
                "{}: {}: {}",
                part.rule.outcome_label(),
                wording::part_owner(part),
                part.because
            )),
        ),
        // The caller describes the last two.
        RunChange::Anchored | RunChange::Decided(_) | RunChange::Disputed(_) => return None,
    })
}

fn describe_runner(drove: &RunnerEvent) -> Option<(TimelineKind, String)> {
    let line = |text: &str| text::clean_line(text, LONGEST_LINE);
    match drove {
        RunnerEvent::Metered(_) | RunnerEvent::ProofBase { .. } => None,
        RunnerEvent::AsksPerson { question, .. } => Some((TimelineKind::Asked, line(question))),
        RunnerEvent::HandsOver { why, .. } => Some((TimelineKind::HandedOver, line(why))),
        RunnerEvent::Parked { status, why } => {
            let text = format!("parked as {}: {why}", state_label(status.name()));
            Some((TimelineKind::Runner, line(&text)))
        }
        // It has a verb of its own.
        RunnerEvent::Settled { how } => Some((TimelineKind::Runner, line(how))),
        RunnerEvent::Session(_)
        | RunnerEvent::Waits(_)
        | RunnerEvent::Woke
        | RunnerEvent::WaitedEnough { .. }
        | RunnerEvent::Tried { .. }
        | RunnerEvent::Silent { .. }
        | RunnerEvent::Broke { .. }
        | RunnerEvent::PassedOn
        | RunnerEvent::Granted { .. } => {
            // The log pads its first word to a column; here it is part of a sentence.
            let text = wording::runner_action(drove);
            let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
            Some((TimelineKind::Runner, line(&format!("{word} {}", rest.trim_start()))))
        }
    }
}
