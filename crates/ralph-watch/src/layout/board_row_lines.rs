//! The lines of one run in a list of runs.

use crate::duration_text::{TimeText, exact_duration, in_time, iterations, run_cost};
use crate::glyphs::{GlyphSet, text_columns};
use crate::layout::board_layout::{RowDensity, WIDE_COLUMNS};
use crate::palette::TextInk;
use crate::screen_line::ScreenLine;
use ralph_core::units::format_duration;
use ralph_deck::page::{ActiveGateRow, BoardGroup, BoardRow, OpenQuestion, RunStanding};
use ralph_deck::standing_wording;

/// How the lines of runs are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLines<'a> {
    pub(crate) columns: usize,
    pub(crate) now_ms: u64,
    pub(crate) time_text: TimeText,
    pub(crate) density: RowDensity,
    pub(crate) glyphs: GlyphSet,
    pub(crate) selected: Option<&'a str>,
    /// How many more lines than usual a question may take.
    pub(crate) spare_question_lines: usize,
}

const INDENT: usize = 4;
const LONGEST_QUESTION_LINES: usize = 12;

impl RowLines<'_> {
    pub(crate) fn group_gap(&self) -> usize {
        if self.density == RowDensity::Spacious { 2 } else { 1 }
    }

    /// The title of a group; the first one names the columns.
    pub(crate) fn heading(&self, title: &str, is_first: bool) -> ScreenLine {
        let line = ScreenLine::text(1, title, TextInk::Strong);
        if !is_first || self.columns < WIDE_COLUMNS {
            return line;
        }
        line.with_right(0, self.columns - 11, "iter.", TextInk::Quiet).with_right(
            0,
            self.columns - 1,
            "cost",
            TextInk::Quiet,
        )
    }

    /// All lines of a run.
    pub(crate) fn run(&self, row: &BoardRow) -> Vec<ScreenLine> {
        let mut lines = vec![self.main_line(row)];
        if self.columns < WIDE_COLUMNS {
            lines.push(ScreenLine::text(INDENT, row.title.clone(), TextInk::Plain));
        }
        let is_selected = self.selected == Some(row.run.as_str());
        let is_live = row.question.is_some()
            || row.activity.is_some()
            || row.until_ms.is_some()
            || self.last_event(row).is_some();
        let has_details = match self.density {
            RowDensity::Tight => is_selected,
            RowDensity::Normal => is_selected || is_live,
            RowDensity::Spacious => true,
        };
        if has_details {
            lines.extend(self.details(row));
        }
        let mut lines: Vec<_> = lines.into_iter().map(|line| line.of_item(&row.run)).collect();
        let is_ended = row.group() == BoardGroup::Ended;
        if self.density == RowDensity::Spacious && lines.len() > 1 && !is_ended {
            lines.push(ScreenLine::blank());
        }
        lines
    }

    fn main_line(&self, row: &BoardRow) -> ScreenLine {
        let ink = TextInk::Attention(row.standing.attention());
        let mark = match self.glyphs {
            GlyphSet::Unicode => row.standing.mark(),
            GlyphSet::Ascii => row.standing.ascii_mark(),
        };
        let columns = self.columns;
        let line = ScreenLine::default().with(1, 1, mark.to_string(), ink);
        let cost = run_cost(row);
        if columns < WIDE_COLUMNS {
            let cost_column = columns.saturating_sub(text_columns(&cost).max(6) + 1);
            return line
                .with(3, 6, row.run.clone(), TextInk::Plain)
                .with(3 + text_columns(&row.run) + 1, 14, row.standing.label(), ink)
                .with_right(24, cost_column, iterations(row), TextInk::Plain)
                .with_right(cost_column, columns, cost, TextInk::Plain);
        }
        line.with(3, 6, row.run.clone(), TextInk::Plain)
            .with(9, 12, row.standing.label(), ink)
            .with(22, columns - 52, row.title.clone(), TextInk::Plain)
            .with(columns - 29, 12, row.project_name.clone(), TextInk::Plain)
            .with_right(columns - 17, columns - 11, iterations(row), TextInk::Plain)
            .with_right(columns - 10, columns - 1, cost, TextInk::Plain)
    }

    fn details(&self, row: &BoardRow) -> Vec<ScreenLine> {
        if let Some(question) = &row.question {
            return self.question_lines(question);
        }
        let mut lines = Vec::new();
        let progress = self.progress(row);
        if !progress.is_empty() {
            lines.push(ScreenLine::text(INDENT, progress, TextInk::Quiet));
        }
        let wait = row.until_ms.map(|until_ms| {
            let at = (self.time_text)(until_ms);
            format!("continues at {at}, {}", in_time(until_ms, self.now_ms))
        });
        let note: Vec<_> = row.note.iter().cloned().chain(wait).collect();
        if !note.is_empty() {
            lines.push(ScreenLine::text(INDENT, note.join(", "), TextInk::Quiet));
        }
        lines
    }

    /// The question in full where there is room, else two lines of it, and how long it waits.
    fn question_lines(&self, question: &OpenQuestion) -> Vec<ScreenLine> {
        let is_spacious = self.density == RowDensity::Spacious;
        let width = self.columns.saturating_sub(INDENT + 1);
        let most = match self.density {
            _ if self.columns < WIDE_COLUMNS => 1,
            RowDensity::Spacious => LONGEST_QUESTION_LINES,
            RowDensity::Normal => 2,
            RowDensity::Tight => 1,
        };
        let most = (most + self.spare_question_lines).min(LONGEST_QUESTION_LINES);
        let left = question
            .until_ms
            .map(|until_ms| {
                format!("{} left", format_duration(until_ms.saturating_sub(self.now_ms)))
            })
            .filter(|_| !is_spacious && self.columns >= WIDE_COLUMNS);
        // The time left stands beside the last line, so a long question leaves room for it.
        let room = width.saturating_sub(3);
        let beside = room.saturating_sub(left.as_ref().map_or(0, |left| left.len() + 2));
        let mut texts = self.glyphs.wrap(&question.text, room, most);
        if texts.last().is_some_and(|text| text_columns(text) > beside) {
            texts = self.glyphs.wrap(&question.text, beside, most);
        }
        let mut lines: Vec<_> = texts
            .iter()
            .map(|text| ScreenLine::text(INDENT, text.clone(), TextInk::Plain))
            .collect();
        let Some(until_ms) = question.until_ms else { return lines };
        if is_spacious {
            let at = (self.time_text)(until_ms);
            let left = in_time(until_ms, self.now_ms);
            let answer = if question.approval.is_some() { "an approval" } else { "an answer" };
            let text = format!("parked at {at} without {answer}, {left}");
            lines.push(ScreenLine::text(INDENT, text, TextInk::Quiet));
        } else if let Some(left) = left
            && let Some(last) = lines.pop()
        {
            let from = texts.last().map_or(0, |text| INDENT + text_columns(text));
            lines.push(last.with_right(from, self.columns - 4, left, TextInk::Quiet));
        }
        lines
    }

    /// `9 of 14 met ▇▇▆▅▅▄▃   tests 41 s of about 55 s   context 41 %`
    fn progress(&self, row: &BoardRow) -> String {
        if row.standing.has_ended() {
            return String::new();
        }
        let mut parts = Vec::new();
        if let (Some(met), Some(all)) = (row.met, row.requirements) {
            parts.push(format!("{met} of {all} met{}", self.trend(row, all)));
        }
        parts.extend(self.activity(row));
        if self.columns >= WIDE_COLUMNS {
            parts.extend(row.context_permille.map(|full| format!("context {} %", full / 10)));
        }
        if self.columns >= 120 && !parts.is_empty() {
            let most = row.max_duration_ms.map(|most| format!(" of {}", format_duration(most)));
            let most = most.unwrap_or_default();
            parts.push(format!("{}{most}", format_duration(row.elapsed_ms)));
        }
        parts.extend(self.last_event(row));
        parts.join("   ")
    }

    /// `last event 9 min ago`, for a working run that is quiet.
    fn last_event(&self, row: &BoardRow) -> Option<String> {
        let is_quiet = row.standing == RunStanding::Working && row.activity.is_none();
        standing_wording::last_event(self.now_ms, row.last_ms).filter(|_| is_quiet)
    }

    /// How many requirements were not met at the latest stops.
    fn trend(&self, row: &BoardRow, all: u32) -> String {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let (Some(first), true) = (row.trend.first(), row.trend.len() > 1) else {
            return String::new();
        };
        if self.columns < WIDE_COLUMNS {
            return String::new();
        }
        if self.glyphs == GlyphSet::Ascii {
            return format!(", was {}", all.saturating_sub(*first));
        }
        let most = row.trend.iter().copied().max().unwrap_or(1).max(1);
        let step = |open: &u32| {
            let index = usize::try_from(*open * 7 / most).unwrap_or(0);
            STEPS.get(index).copied().unwrap_or('█')
        };
        let steps: String = row.trend.iter().map(step).collect();
        format!(" {steps}")
    }

    /// The first running gate, or else how far the proof has come.
    fn activity(&self, row: &BoardRow) -> Option<String> {
        let activity = row.activity.as_ref()?;
        let Some((first, more)) = activity.gates.split_first() else {
            return Some(activity.describe(self.now_ms));
        };
        let first = self.gate(first);
        Some(if more.is_empty() { first } else { format!("{first}   and {} more", more.len()) })
    }

    fn gate(&self, gate: &ActiveGateRow) -> String {
        let step = gate.step.as_deref().map(|step| format!(" ({step})")).unwrap_or_default();
        format!("{}{step}", gate_progress(gate, self.now_ms))
    }
}

/// `tests 41 s of about 55 s`
pub(crate) fn gate_progress(gate: &ActiveGateRow, now_ms: u64) -> String {
    let elapsed = gate.since_ms.map(|since| exact_duration(now_ms.saturating_sub(since)));
    let usual = gate.shown_usual_ms().map(|usual| format!("about {}", exact_duration(usual)));
    match (elapsed, usual) {
        (Some(elapsed), Some(usual)) => format!("{} {elapsed} of {usual}", gate.name),
        (Some(elapsed), None) => format!("{} {elapsed}", gate.name),
        (None, Some(usual)) => format!("{} runs, {usual}", gate.name),
        (None, None) => format!("{} runs", gate.name),
    }
}
