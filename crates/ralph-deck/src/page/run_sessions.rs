//! The sessions, hand-overs and questions of a run.

use super::board_row::clean_paragraph;
use crate::json_units;
use ralph_core::drive::{CostSource, MeterBasis, RunnerEvent, SessionOrigin};
use ralph_core::record::{JournalEntry, RunChange};
use ralph_core::text;
use ralph_home::paths::RunPaths;
use ralph_sys::fs;
use serde::Serialize;

const LONGEST_LINE: usize = 300;
const LONGEST_QUESTION: usize = 4_000;
const LONGEST_HANDOVER: usize = 64 * 1024;
const MAX_HANDOVERS: u32 = 200;

/// A session that the runner started. Resumed sessions are one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Counts from 1.
    pub number: u32,
    pub session: String,
    pub model: Option<String>,
    #[serde(rename = "started_at", serialize_with = "json_units::time")]
    pub started_ms: u64,
    pub turns: u32,
    pub tokens: u64,
    #[serde(rename = "cost_usd", serialize_with = "json_units::usd")]
    pub micro_usd: u64,
    /// What its gates spent on models.
    #[serde(rename = "gates_cost_usd", serialize_with = "json_units::usd")]
    pub gates_micro_usd: u64,
    /// Whether a part of the cost is assumed.
    pub is_assumed: bool,
    /// Why the next session took over.
    pub handed_over: Option<String>,
    /// How full the context was then, in thousandths.
    #[serde(rename = "context_share", serialize_with = "json_units::optional_share")]
    pub context_permille: Option<u16>,
}

/// What a session left for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandoverRow {
    /// The number of the session that reads it.
    pub session: u32,
    pub text: String,
}

/// A question of the agent and the message that answered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuestionRow {
    #[serde(rename = "asked_at", serialize_with = "json_units::time")]
    pub asked_ms: u64,
    pub question: String,
    #[serde(rename = "until", serialize_with = "json_units::optional_time")]
    pub until_ms: Option<u64>,
    #[serde(rename = "answered_at", serialize_with = "json_units::optional_time")]
    pub answered_ms: Option<u64>,
    pub answer: Option<String>,
    pub by: Option<String>,
}

/// The sessions of a driven run, oldest first; empty for other runs.
pub(super) fn session_rows(entries: &[JournalEntry]) -> Vec<SessionRow> {
    let mut rows: Vec<SessionRow> = Vec::new();
    for entry in entries {
        let RunChange::Drove(drove) = &entry.change else { continue };
        if let RunnerEvent::Session(session) = drove.as_ref() {
            let id = session.id.as_str();
            let is_known = rows.last().is_some_and(|row| row.session == id);
            if is_known && session.how == SessionOrigin::Resumed {
                continue;
            }
            rows.push(SessionRow {
                number: u32::try_from(rows.len() + 1).unwrap_or(u32::MAX),
                session: id.to_string(),
                model: session.model.as_ref().map(|model| text::clean_line(model, LONGEST_LINE)),
                started_ms: entry.at_ms,
                turns: 0,
                tokens: 0,
                micro_usd: 0,
                gates_micro_usd: 0,
                is_assumed: false,
                handed_over: None,
                context_permille: None,
            });
        } else if let RunnerEvent::Metered(metered) = drove.as_ref() {
            let id = metered.session.as_str();
            let Some(row) = rows.iter_mut().rev().find(|row| row.session == id) else { continue };
            match metered.source {
                CostSource::Agent => {
                    row.turns = metered.turns;
                    row.tokens = metered.tokens;
                    // A meter that goes backwards was reset.
                    row.micro_usd = metered.micro_usd.max(row.micro_usd);
                }
                CostSource::Gate | CostSource::Judge => {
                    row.gates_micro_usd = metered.micro_usd.max(row.gates_micro_usd);
                }
            }
            row.is_assumed |= metered.meter == MeterBasis::Assumed;
        } else if let RunnerEvent::HandsOver { why, permille } = drove.as_ref()
            && let Some(row) = rows.last_mut()
        {
            row.handed_over = Some(text::clean_line(why, LONGEST_LINE));
            row.context_permille = *permille;
        }
    }
    rows
}

/// The notes that sessions left for the next one, oldest first.
pub(super) fn handover_rows(paths: &RunPaths, sessions: usize) -> Vec<HandoverRow> {
    let last = u32::try_from(sessions).unwrap_or(u32::MAX).min(MAX_HANDOVERS);
    (2..=last)
        .filter_map(|session| {
            let path = paths.numbered_handover(session);
            let bytes = fs::read_if_exists(&path, LONGEST_HANDOVER).ok().flatten()?;
            let text = clean_paragraph(&String::from_utf8_lossy(&bytes), LONGEST_HANDOVER);
            Some(HandoverRow { session, text })
        })
        .collect()
}

/// The questions of the agent, oldest first.
pub(super) fn question_rows(entries: &[JournalEntry]) -> Vec<QuestionRow> {
    let mut rows: Vec<QuestionRow> = Vec::new();
    // The journal line that first asked each of them.
    let mut lines: Vec<u64> = Vec::new();
    let mut awaited_approval: Option<&str> = None;
    for entry in entries {
        if let RunChange::Decided(decided) = &entry.change {
            awaited_approval = decided.awaits_approval().then_some(decided.because.as_str());
        }
        let (question, until_ms) = if let RunChange::Asked { question } = &entry.change {
            (question, None)
        } else if let RunChange::Drove(drove) = &entry.change
            && let RunnerEvent::AsksPerson { question, until_ms } = drove.as_ref()
            && awaited_approval != Some(question.as_str())
        {
            (question, Some(*until_ms))
        } else {
            if let RunChange::HintGiven { text, by, answers } = &entry.change
                && let Some(row) = answered_row(&mut rows, &lines, *answers)
            {
                row.answered_ms = Some(entry.at_ms);
                row.answer = Some(clean_paragraph(text, LONGEST_QUESTION));
                row.by = by.as_ref().map(|by| text::clean_line(by, LONGEST_LINE));
            }
            continue;
        };
        let question = clean_paragraph(question, LONGEST_QUESTION);
        // The runner repeats the question of the agent with a deadline.
        let known = rows.last_mut().filter(|row| row.question == question && row.answer.is_none());
        if let Some(row) = known {
            row.until_ms = until_ms.or(row.until_ms);
            continue;
        }
        lines.push(entry.seq);
        rows.push(QuestionRow {
            asked_ms: entry.at_ms,
            question,
            until_ms,
            answered_ms: None,
            answer: None,
            by: None,
        });
    }
    rows
}

/// The row that a message answers. Journals of older versions do not name the question; there, and if the run no longer
/// waited for an answer, it is the last one.
fn answered_row<'a>(
    rows: &'a mut [QuestionRow],
    lines: &[u64],
    answers: Option<u64>,
) -> Option<&'a mut QuestionRow> {
    let row = match answers {
        Some(seq) => rows.get_mut(lines.iter().position(|line| *line == seq)?),
        None => rows.last_mut(),
    };
    row.filter(|row| row.answer.is_none())
}
