//! The requirements of a run over its stops.

use crate::glyphs::GlyphSet;
use crate::layout::run_layout::RunFrame;
use crate::opened_run::{OpenedRun, requirement_key};
use crate::palette::TextInk;
use crate::screen_line::ScreenLine;
use ralph_core::text::count_noun;
use ralph_deck::page::{CellState, MatrixCell, MatrixRow, RequirementMatrix, RunPage};
use std::ops::Range;

const CELL_COLUMNS: usize = 3;
/// The columns right of the cells, for the standing now.
const TAIL_COLUMNS: usize = 26;

pub(crate) fn matrix_lines(frame: RunFrame<'_>, screen: &OpenedRun) -> Vec<ScreenLine> {
    let matrix = &screen.page.matrix;
    if matrix.columns.is_empty() {
        return Vec::new();
    }
    let name_columns = if frame.is_full() { 34 } else { frame.columns().min(80) / 5 };
    let cells_at = name_columns + 1;
    let room = frame.columns().saturating_sub(cells_at + TAIL_COLUMNS) / CELL_COLUMNS;
    let shown = shown_columns(matrix, room.max(1), screen.shift);
    let tail_at = cells_at + shown.len() * CELL_COLUMNS + 2;
    let mut lines = vec![head_line(frame, matrix, shown.clone(), cells_at, tail_at)];
    let mut others = matrix.always_met.len();
    for row in &matrix.rows {
        let cells = row.cells.get(shown.clone()).unwrap_or_default();
        if cells.iter().all(|cell| cell.state == CellState::Met) {
            others += 1;
            continue;
        }
        let mut line =
            ScreenLine::default().with(1, name_columns - 1, row.name.clone(), TextInk::Plain);
        for (number, cell) in cells.iter().enumerate() {
            let at = cells_at + number * CELL_COLUMNS;
            let (text, ink) = cell_text(frame.glyphs, *cell);
            line = line.with_right(at, at + CELL_COLUMNS, text, ink);
        }
        let (text, ink) = standing_text(row, frame.is_full());
        lines.push(line.with(tail_at, usize::MAX, text, ink).of_item(&requirement_key(&row.name)));
    }
    if others > 0 {
        let stops = if shown.len() == matrix.columns.len() { "stop" } else { "stop shown" };
        let noun = if others == 1 { "other" } else { "others" };
        let text = format!("{others} {noun}, met at every {stops}");
        lines.push(ScreenLine::text(1, text, TextInk::Quiet));
    }
    if matrix.left_out > 0 {
        let text = format!("{} left out", count_noun(matrix.left_out as u64, "requirement"));
        lines.push(ScreenLine::text(1, text, TextInk::Quiet));
    }
    if frame.is_full() {
        lines.extend(session_line(frame, &screen.page, shown, cells_at));
    }
    lines
}

/// The last stops that have room, moved back by `shift`.
fn shown_columns(matrix: &RequirementMatrix, room: usize, shift: usize) -> Range<usize> {
    let count = matrix.columns.len();
    let shift = shift.min(count.saturating_sub(room));
    let end = count - shift;
    end.saturating_sub(room)..end
}

/// By how many stops the matrix can be moved back.
pub(crate) fn longest_shift(page: &RunPage, columns: usize) -> usize {
    let name_columns = if columns >= 120 { 34 } else { columns.min(80) / 5 };
    let room = columns.saturating_sub(name_columns + 1 + TAIL_COLUMNS) / CELL_COLUMNS;
    page.matrix.columns.len().saturating_sub(room.max(1))
}

fn head_line(
    frame: RunFrame<'_>,
    matrix: &RequirementMatrix,
    shown: Range<usize>,
    cells_at: usize,
    tail_at: usize,
) -> ScreenLine {
    let is_shifted = shown.end < matrix.columns.len();
    let mut line = ScreenLine::text(1, "stop", TextInk::Quiet);
    for (number, column) in matrix.columns.get(shown).unwrap_or_default().iter().enumerate() {
        let at = cells_at + number * CELL_COLUMNS;
        line = line.with_right(at, at + CELL_COLUMNS, short_number(column.last), TextInk::Quiet);
    }
    let now = match (is_shifted, frame.glyphs) {
        (false, _) => "now",
        (true, GlyphSet::Unicode) => "now, → newer stops",
        (true, GlyphSet::Ascii) => "now, right: newer",
    };
    line.with(tail_at, usize::MAX, now, TextInk::Quiet)
}

/// Two digits, so that a column is left free.
fn short_number(number: u32) -> String {
    match number {
        0..100 => number.to_string(),
        _ => format!("{:02}", number % 100),
    }
}

fn cell_text(glyphs: GlyphSet, cell: MatrixCell) -> (String, TextInk) {
    let is_unicode = glyphs == GlyphSet::Unicode;
    let pick = |unicode: &str, ascii: &str| {
        if is_unicode { unicode.to_string() } else { ascii.to_string() }
    };
    match cell.state {
        CellState::NotReached => (pick("·", "."), TextInk::Quiet),
        CellState::Met => (pick("✓", "V"), TextInk::Good),
        CellState::Advisory => ("w".to_string(), TextInk::Unclear),
        CellState::Pending => (pick("•", "*"), TextInk::Plain),
        CellState::AwaitsPerson => ("a".to_string(), TextInk::Strong),
        CellState::Unknown => ("?".to_string(), TextInk::Unclear),
        CellState::Unmet => match cell.findings {
            0 | 100.. => (pick("✗", "X"), TextInk::Bad),
            findings => (findings.to_string(), TextInk::Bad),
        },
    }
}

fn standing_text(row: &MatrixRow, is_full: bool) -> (String, TextInk) {
    let last = row.cells.iter().rev().find(|cell| cell.state != CellState::NotReached);
    let Some(last) = last else {
        return (CellState::NotReached.label().to_string(), TextInk::Quiet);
    };
    let label = last.state.label().to_string();
    match (last.state, row.met_since) {
        (CellState::Met, Some(since)) if is_full => {
            (format!("met since stop {since}"), TextInk::Good)
        }
        (CellState::Met, _) => (label, TextInk::Good),
        (CellState::Advisory | CellState::Unknown, _) => (label, TextInk::Unclear),
        (CellState::Pending | CellState::AwaitsPerson, _) => (label, TextInk::Plain),
        (CellState::Unmet | CellState::NotReached, _) => match last.findings {
            0 => (label, TextInk::Bad),
            findings => (count_noun(u64::from(findings), "finding"), TextInk::Bad),
        },
    }
}

/// Which session reached which stops.
fn session_line(
    frame: RunFrame<'_>,
    page: &RunPage,
    shown: Range<usize>,
    cells_at: usize,
) -> Option<ScreenLine> {
    if page.sessions.len() < 2 {
        return None;
    }
    let columns = page.matrix.columns.get(shown)?;
    let mut line = ScreenLine::default();
    let bar = if frame.glyphs == GlyphSet::Unicode { "│" } else { "|" };
    let session_of = |at_ms: u64| {
        page.sessions.iter().rev().find(|session| session.started_ms <= at_ms).map(|one| one.number)
    };
    let mut before = None;
    for (number, column) in columns.iter().enumerate() {
        let session = session_of(column.at_ms);
        if session == before {
            continue;
        }
        let at = cells_at + number * CELL_COLUMNS;
        let same = columns.iter().skip(number).take_while(|one| session_of(one.at_ms) == session);
        let room = (same.count() * CELL_COLUMNS).saturating_sub(2);
        if number > 0 {
            line = line.with(at, 1, bar, TextInk::Quiet);
        }
        let text = session.map(|number| format!("session {number}")).unwrap_or_default();
        line = line.with(at + 2, room, text, TextInk::Quiet);
        before = session;
    }
    Some(line)
}
