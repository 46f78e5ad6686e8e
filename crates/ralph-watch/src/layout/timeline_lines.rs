//! The stops and other events of a run, newest first.

use crate::duration_text::{cents, exact_duration};
use crate::layout::run_layout::RunFrame;
use crate::opened_run::stop_key;
use crate::palette::TextInk;
use crate::screen_line::ScreenLine;
use ralph_core::text::count_noun;
use ralph_deck::page::{RunPage, TimelineKind, TimelineRow};

/// All lines of a list are laid out for each frame, so a run of thousands of stops shows its newest ones.
const MAX_ROWS: usize = 1_000;

pub(crate) fn timeline_lines(frame: RunFrame<'_>, page: &RunPage) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    if frame.is_full() {
        let (gates_end, end) = (frame.end().saturating_sub(9), frame.end());
        let line = ScreenLine::text(1, "STOPS", TextInk::Strong);
        let line = line.with_right(0, gates_end, "gates", TextInk::Quiet);
        lines.push(line.with_right(0, end, "cost", TextInk::Quiet));
    }
    let (older, rows) = newest_rows(page);
    lines.extend(rows.iter().rev().map(|row| timeline_line(frame, row)));
    lines.extend(older);
    lines
}

/// The newest rows, oldest first, and a line that counts the older ones.
pub(crate) fn newest_rows(page: &RunPage) -> (Option<ScreenLine>, &[TimelineRow]) {
    let (older, rows) = page.timeline.split_at(page.timeline.len().saturating_sub(MAX_ROWS));
    let count = count_noun(older.len() as u64, "older line");
    let text = format!("{count}; `ralph log {}` shows them", page.row.run);
    let line = (!older.is_empty()).then(|| ScreenLine::text(1, text, TextInk::Quiet));
    (line, rows)
}

fn timeline_line(frame: RunFrame<'_>, row: &TimelineRow) -> ScreenLine {
    let label = match row.stop {
        Some(stop) => format!("{} {stop}", row.kind.label()),
        None => row.kind.label().to_string(),
    };
    let (time_at, label_at, text_at) = if frame.is_full() { (2, 9, 22) } else { (1, 7, 20) };
    let end = frame.end();
    let line = ScreenLine::default()
        .with(time_at, 5, frame.time(row.at_ms), TextInk::Quiet)
        .with(label_at, text_at - label_at - 1, label, kind_ink(row.kind))
        .of_item(&stop_key(row.seq));
    let cost = row.cost_micro_usd.filter(|cost| *cost > 0).map(cents).unwrap_or_default();
    let gates = row.gates_ms.map(exact_duration).unwrap_or_default();
    if frame.columns() < 80 || (cost.is_empty() && gates.is_empty()) {
        return line.with(text_at, end.saturating_sub(text_at), row.text.clone(), TextInk::Plain);
    }
    let gates_at = if frame.is_full() { end.saturating_sub(20) } else { end.saturating_sub(23) };
    let line = line.with(text_at, gates_at - text_at - 1, row.text.clone(), TextInk::Plain);
    let line = if frame.is_full() {
        line.with_right(gates_at, end.saturating_sub(9), gates, TextInk::Quiet)
    } else {
        let gates = if gates.is_empty() { gates } else { format!("gates {gates}") };
        line.with(gates_at, 16, gates, TextInk::Quiet)
    };
    line.with_right(end.saturating_sub(7), end, cost, TextInk::Plain)
}

pub(crate) fn kind_ink(kind: TimelineKind) -> TextInk {
    match kind {
        TimelineKind::Asked | TimelineKind::Denied => TextInk::Unclear,
        TimelineKind::Damage => TextInk::Bad,
        TimelineKind::Ended | TimelineKind::Person => TextInk::Strong,
        TimelineKind::Started
        | TimelineKind::Held
        | TimelineKind::LetGo
        | TimelineKind::HandedOver
        | TimelineKind::Answered
        | TimelineKind::Agent
        | TimelineKind::Runner
        | TimelineKind::Note => TextInk::Plain,
    }
}
