//! The lines of one run: its head, the tab that is shown, and the keys.

use crate::action_keys::action_keys;
use crate::duration_text::{cost_note, in_time, permille, run_cost};
use crate::glyphs::{GlyphSet, text_columns};
use crate::layout::comparison_lines::{changed_file_lines, comparison_lines};
use crate::layout::matrix_lines::matrix_lines;
use crate::layout::tab_lines::{checkpoint_lines, gate_lines, log_lines, reason_lines};
use crate::layout::timeline_lines::timeline_lines;
use crate::opened_run::{LoadablePart, OpenedDetail, OpenedRun, RunTab};
use crate::palette::TextInk;
use crate::screen_line::{ScreenLayout, ScreenLine};
use crate::watch_state::WatchState;
use ralph_core::units::{format_duration, format_usd};
use ralph_deck::page::{BoardRow, LookFirst, RunPage};

/// From here on a line has room for everything.
pub(crate) const FULL_COLUMNS: usize = 120;
const LONGEST_NOTE_LINES: usize = 3;
const MAX_LOOK_FIRST: usize = 3;

/// What the lines of a run depend on, besides the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFrame<'a> {
    pub(crate) state: &'a WatchState,
    pub(crate) glyphs: GlyphSet,
}

impl RunFrame<'_> {
    pub(crate) fn columns(&self) -> usize {
        self.state.columns
    }

    pub(crate) fn is_full(&self) -> bool {
        self.state.columns >= FULL_COLUMNS
    }

    pub(crate) fn time(&self, ms: u64) -> String {
        (self.state.time_text)(ms)
    }

    /// The last column that text uses.
    pub(crate) fn end(&self) -> usize {
        self.state.columns.saturating_sub(1)
    }
}

pub(crate) fn run_layout(state: &WatchState, screen: &OpenedRun, glyphs: GlyphSet) -> ScreenLayout {
    let frame = RunFrame { state, glyphs };
    let page = &screen.page;
    let is_tight = state.rows < 24;
    let mut head = vec![title_line(frame, page), facts_line(frame, &page.row)];
    let mut body = Vec::new();
    let detail = screen.opened.last();
    if detail.is_none() && screen.tab == RunTab::Stops {
        head.extend(bars_line(frame, page));
        push_gap(&mut head, is_tight);
        body.extend(question_lines(frame, &page.row));
        body.extend(standing_lines(frame, page));
        body.extend(look_first_lines(frame, page));
        let matrix = matrix_lines(frame, screen);
        if !matrix.is_empty() {
            body.extend(matrix);
            push_gap(&mut body, is_tight);
        }
        body.extend(timeline_lines(frame, page));
    } else {
        push_gap(&mut head, is_tight);
        body = match (detail, screen.tab) {
            (Some(OpenedDetail::Files { files, .. }), _) => changed_file_lines(frame, files),
            (Some(OpenedDetail::Comparison { comparison, from, to, .. }), _) => {
                comparison_lines(frame, comparison, *from, *to)
            }
            (None, RunTab::Stops | RunTab::Reason) => reason_lines(frame, screen),
            (None, RunTab::Gates) => gate_lines(frame, page),
            (None, RunTab::Diff) => {
                loadable_lines(&screen.files, |files| changed_file_lines(frame, files))
            }
            (None, RunTab::Checkpoints) => {
                loadable_lines(&screen.checkpoints, |found| checkpoint_lines(frame, page, found))
            }
            (None, RunTab::Log) => log_lines(frame, page),
        };
    }
    ScreenLayout { head, body, foot: foot_line(frame, screen) }
}

fn push_gap(lines: &mut Vec<ScreenLine>, is_tight: bool) {
    if !is_tight {
        lines.push(ScreenLine::blank());
    }
}

fn loadable_lines<T>(
    loadable: &LoadablePart<T>,
    lines: impl FnOnce(&T) -> Vec<ScreenLine>,
) -> Vec<ScreenLine> {
    match loadable {
        LoadablePart::Requested => vec![ScreenLine::text(1, "reading …", TextInk::Quiet)],
        LoadablePart::Failed(why) => vec![ScreenLine::text(1, why.clone(), TextInk::Bad)],
        LoadablePart::Loaded(loaded) => lines(loaded),
    }
}

fn title_line(frame: RunFrame<'_>, page: &RunPage) -> ScreenLine {
    let row = &page.row;
    let label = page.headline();
    let mut where_it_runs = row.project_name.clone();
    if frame.is_full() {
        let owner = page.owner.as_deref().map(|owner| owner.get(..8).unwrap_or(owner));
        let owner = owner.map(|owner| format!(" {owner}")).unwrap_or_default();
        where_it_runs.push_str(&format!("  {}{owner}  session {}", page.host, row.sessions));
    }
    let label_at = 1 + text_columns(&row.run) + 1;
    let title_at = label_at + text_columns(&label) + 2;
    let end = frame.end();
    // A narrow terminal shows the title rather than the project.
    let is_narrow = frame.columns() < 60;
    let shown = if is_narrow { String::new() } else { where_it_runs };
    let room = end.saturating_sub(title_at + text_columns(&shown) + 2);
    ScreenLine::default()
        .with(1, 8, row.run.clone(), TextInk::Strong)
        .with(label_at, text_columns(&label), label, TextInk::Attention(page.attention()))
        .with(title_at, room, row.title.clone(), TextInk::Strong)
        .with_right(title_at, end, shown, TextInk::Plain)
}

/// `11 of 12 met at stop 17 · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20`
fn facts_line(frame: RunFrame<'_>, row: &BoardRow) -> ScreenLine {
    let mut facts = Vec::new();
    if let (Some(met), Some(all)) = (row.met, row.requirements) {
        facts.push(format!("{met} of {all} met"));
    }
    let of = |most: Option<String>| most.map(|most| format!(" of {most}")).unwrap_or_default();
    let iterations = if frame.is_full() { " iterations" } else { "" };
    let most = of(row.max_iterations.map(|most| most.to_string()));
    facts.push(format!("{}{most}{iterations}", row.iteration));
    let most = of(row.max_duration_ms.map(format_duration));
    facts.push(format!("{}{most}", format_duration(row.elapsed_ms)));
    if row.spent_micro_usd.is_some() {
        facts.push(format!(
            "{}{}{}",
            run_cost(row),
            cost_note(row.cost_basis),
            of(row.max_micro_usd.map(format_usd))
        ));
    }
    ScreenLine::text(1, facts.join(frame.glyphs.separator()), TextInk::Plain)
}

/// How full the context is, and how much of the limit on cost is spent.
fn bars_line(frame: RunFrame<'_>, page: &RunPage) -> Option<ScreenLine> {
    let row = &page.row;
    if frame.columns() < 60 {
        return None;
    }
    let bar_columns = if frame.is_full() { 28 } else { 20 };
    let bar = |used: u64| format!("{} {} %", frame.glyphs.bar(bar_columns, used), used / 10);
    let context = row.context_permille.map(|used| {
        let over = match (frame.is_full(), page.handover_at_permille) {
            (true, at @ 1..) => format!(", hands over at {} %", at / 10),
            _ => String::new(),
        };
        format!("context {}{over}", bar(u64::from(used)))
    });
    let spend = row.spent_micro_usd.zip(row.max_micro_usd);
    let spend = spend.map(|(spent, most)| format!("spend {}", bar(permille(spent, most))));
    let second = if context.is_some() { frame.columns() * 9 / 16 } else { 1 };
    if context.is_none() && spend.is_none() {
        return None;
    }
    let line = ScreenLine::default();
    let line = match context {
        Some(text) => line.with(1, second.saturating_sub(2), text, TextInk::Plain),
        None => line,
    };
    Some(match spend {
        Some(text) => line.with(second, usize::MAX, text, TextInk::Plain),
        None => line,
    })
}

/// The open question, with a mark in the first column.
fn question_lines(frame: RunFrame<'_>, row: &BoardRow) -> Vec<ScreenLine> {
    let Some(question) = &row.question else { return Vec::new() };
    let most = if frame.state.rows >= 24 { 8 } else { 2 };
    let text = question.summary();
    let texts = frame.glyphs.wrap(&text, frame.end().saturating_sub(4), most);
    let mark = frame.glyphs.selection();
    let mut lines = Vec::new();
    for (number, text) in texts.into_iter().enumerate() {
        let sign = if number == 0 { "?" } else { " " };
        let line = ScreenLine::default().with(0, 1, mark, TextInk::Strong);
        lines.push(line.with(1, 1, sign, TextInk::Strong).with(
            3,
            usize::MAX,
            text,
            TextInk::Strong,
        ));
    }
    let parked = question.until_ms.map(|until_ms| {
        format!("; parked at {}, {}", frame.time(until_ms), in_time(until_ms, frame.state.now_ms))
    });
    let verb = if question.approval.is_some() { "approve" } else { "answer" };
    let text = format!("press a to {verb}{}", parked.unwrap_or_default());
    let line = ScreenLine::default().with(0, 1, mark, TextInk::Strong);
    lines.push(line.with(3, usize::MAX, text, TextInk::Plain));
    lines.push(ScreenLine::blank());
    lines
}

/// Why the run waits or ended, what to do next, and whether its journal is damaged.
fn standing_lines(frame: RunFrame<'_>, page: &RunPage) -> Vec<ScreenLine> {
    let row = &page.row;
    let mut texts: Vec<(String, TextInk)> = Vec::new();
    if let Some(damage) = &page.damage {
        texts.push((format!("the journal is damaged: {damage}"), TextInk::Bad));
    }
    if let Some(note) = row.note.as_ref().filter(|_| row.question.is_none()) {
        let until = row.until_ms.map(|until_ms| {
            let left = in_time(until_ms, frame.state.now_ms);
            format!(", continues at {}, {left}", frame.time(until_ms))
        });
        texts.push((format!("{note}{}", until.unwrap_or_default()), TextInk::Plain));
    }
    texts.extend(page.next.iter().map(|next| (format!("next: {next}"), TextInk::Plain)));
    let mut lines: Vec<_> = texts
        .iter()
        .flat_map(|(text, ink)| {
            let wrapped =
                frame.glyphs.wrap(text, frame.end().saturating_sub(1), LONGEST_NOTE_LINES);
            wrapped.into_iter().map(|text| ScreenLine::text(1, text, *ink))
        })
        .collect();
    if !lines.is_empty() {
        lines.push(ScreenLine::blank());
    }
    lines
}

fn look_first_lines(frame: RunFrame<'_>, page: &RunPage) -> Vec<ScreenLine> {
    let all: Vec<_> = page.look_first_without_question().collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut lines = Vec::new();
    if frame.state.rows < 36 {
        lines.push(look_first_line(frame, first, all.len() - 1));
        push_gap(&mut lines, frame.state.rows < 24);
        return lines;
    }
    for (number, one) in all.iter().take(MAX_LOOK_FIRST).enumerate() {
        let title = if number == 0 { "LOOK FIRST" } else { "" };
        let stop = one.stop.map(|stop| format!("stop {stop}")).unwrap_or_default();
        let line = ScreenLine::text(1, title, TextInk::Strong);
        let line = line.with(13, 2, format!("{}", number + 1), TextInk::Plain);
        let room = frame.end().saturating_sub(16 + stop.len() + 2);
        let text = format!("{}: {}", one.kind.label(), one.text);
        let line = line.with(16, room, text, TextInk::Plain);
        lines.push(line.with_right(16, frame.end(), stop, TextInk::Quiet));
    }
    let more = all.len().saturating_sub(MAX_LOOK_FIRST);
    if more > 0 {
        let text = format!("{more} more; `ralph report {}` shows more", page.row.run);
        lines.push(ScreenLine::text(16, text, TextInk::Quiet));
    }
    lines.push(ScreenLine::blank());
    lines
}

/// The first item and the number of the others, for a terminal without room for a list.
fn look_first_line(frame: RunFrame<'_>, first: &LookFirst, others: usize) -> ScreenLine {
    let more = if others == 0 { String::new() } else { format!("  and {others} more") };
    let title = "look first:";
    let text_at = 1 + title.len() + 1;
    let room = frame.end().saturating_sub(text_at + more.len());
    ScreenLine::text(1, title, TextInk::Strong)
        .with(text_at, room, format!("{}: {}", first.kind.label(), first.text), TextInk::Plain)
        .with_right(text_at, frame.end(), more, TextInk::Quiet)
}

fn foot_line(frame: RunFrame<'_>, screen: &OpenedRun) -> ScreenLine {
    if let Some(line) = frame.state.message_line() {
        return line;
    }
    if !frame.state.is_live {
        return ScreenLine::blank();
    }
    let mut line = ScreenLine::default();
    let mut column = 1;
    for (number, tab) in (1..).zip(RunTab::ALL) {
        let is_narrow = frame.columns() < 60;
        let name = if is_narrow { String::new() } else { format!(" {}", tab.name()) };
        let text = format!("{number}{name}");
        let ink = if tab == screen.tab { TextInk::Strong } else { TextInk::Quiet };
        let width = text_columns(&text);
        line = line.with(column, width, text, ink);
        column += width + if is_narrow { 1 } else { 2 };
    }
    let actions = action_keys(&screen.page.row);
    let keys = if frame.is_full() && actions.is_empty() {
        "/ search  esc back  ? help".to_string()
    } else if frame.is_full() {
        format!("{}  esc back", actions.join("  "))
    } else {
        "esc back  ? help".to_string()
    };
    line.with(column + 1, usize::MAX, keys, TextInk::Quiet)
}
