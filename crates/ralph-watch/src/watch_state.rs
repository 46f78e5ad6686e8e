//! The state of the board: what is shown, and what a person is typing. Pure: it is changed by events and returns effects.

use crate::canvas::{CellCanvas, TerminalLook};
use crate::dialog::WatchDialog;
use crate::duration_text::TimeText;
use crate::glyphs::GlyphSet;
use crate::layout::board_layout::{board_layout, one_line};
use crate::layout::run_layout::run_layout;
use crate::opened_run::OpenedRun;
use crate::palette::TextInk;
use crate::screen_line::{ListPosition, ScreenLayout, ScreenLine};
use crate::text_editor::TextEditor;
use ralph_core::id::RunId;
use ralph_deck::page::{BoardPage, BoardRow};
use ratatui_core::buffer::Buffer;
use std::collections::{BTreeMap, BTreeSet};

const LONGEST_FILTER: usize = 200;
const FEWEST_COLUMNS: usize = 40;
const FEWEST_ROWS: usize = 10;

/// The order of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoardSort {
    NeedsYou,
    Newest,
    Cost,
}

/// The runs of the history that are loaded so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EarlierRuns {
    pub(crate) rows: Vec<BoardRow>,
    pub(crate) total: u64,
    /// The key of the next page.
    pub(crate) next: Option<String>,
}

impl EarlierRuns {
    pub(crate) fn not_loaded(&self) -> u64 {
        self.total.saturating_sub(u64::try_from(self.rows.len()).unwrap_or(u64::MAX))
    }
}

/// A sentence in the last line, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusMessage {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct WatchState {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) now_ms: u64,
    pub(crate) time_text: TimeText,
    pub(crate) look: TerminalLook,
    /// Whether this is the interactive screen; otherwise one frame is printed.
    pub(crate) is_live: bool,
    pub(crate) board: BoardPage,
    pub(crate) is_board_loaded: bool,
    /// Earlier runs, while they are listed.
    pub(crate) earlier: Option<EarlierRuns>,
    pub(crate) sort: BoardSort,
    /// The filter of the board, or the words to search for on a run.
    pub(crate) filter: TextEditor,
    pub(crate) is_typing_filter: bool,
    /// What is wrong with the filter.
    pub(crate) filter_problem: Option<String>,
    pub(crate) search: Option<TextEditor>,
    pub(crate) last_search: String,
    pub(crate) board_position: ListPosition,
    pub(crate) run: Option<OpenedRun>,
    pub(crate) dialog: Option<WatchDialog>,
    /// What was typed for a run and not sent.
    pub(crate) drafts: BTreeMap<String, String>,
    pub(crate) message: Option<StatusMessage>,
    /// Whether the next action is shown as a command instead of done.
    pub(crate) shows_command: bool,
    /// What the bell has rung for: questions and ends.
    pub(crate) rung: BTreeSet<String>,
    pub(crate) may_ring: bool,
}

/// How the board is opened.
#[derive(Clone, Copy, Debug)]
pub struct WatchStart {
    pub columns: u16,
    pub rows: u16,
    pub now_ms: u64,
    pub time_text: TimeText,
    pub look: TerminalLook,
    pub is_live: bool,
}

impl WatchState {
    pub fn new(start: &WatchStart) -> Self {
        Self {
            columns: usize::from(start.columns),
            rows: usize::from(start.rows),
            now_ms: start.now_ms,
            time_text: start.time_text,
            look: start.look,
            is_live: start.is_live,
            board: BoardPage::default(),
            is_board_loaded: false,
            earlier: None,
            sort: BoardSort::NeedsYou,
            filter: TextEditor::single_line("", LONGEST_FILTER),
            is_typing_filter: false,
            filter_problem: None,
            search: None,
            last_search: String::new(),
            board_position: ListPosition::default(),
            run: None,
            dialog: None,
            drafts: BTreeMap::new(),
            message: None,
            shows_command: false,
            rung: BTreeSet::new(),
            may_ring: true,
        }
    }

    pub(crate) fn filter_text(&self) -> &str {
        self.filter.text()
    }

    pub(crate) fn is_filtering(&self) -> bool {
        self.is_typing_filter
    }

    /// The filter below the head, while it is typed or kept.
    pub(crate) fn filter_line(&self, glyphs: GlyphSet) -> Vec<ScreenLine> {
        if !self.is_typing_filter && self.filter.text().is_empty() {
            return Vec::new();
        }
        let text = if self.is_typing_filter {
            let (before, after) = self.filter.halves();
            format!("/ {before}{}{after}", glyphs.cursor())
        } else {
            format!("/ {}", self.filter.text())
        };
        vec![ScreenLine::text(1, text, TextInk::Strong), ScreenLine::blank()]
    }

    /// The last line, if there is a message to show or a search is typed.
    pub(crate) fn message_line(&self) -> Option<ScreenLine> {
        if let Some(search) = &self.search {
            let (before, after) = search.halves();
            return Some(ScreenLine::text(1, format!("search: {before}_{after}"), TextInk::Strong));
        }
        let message = self.message.as_ref()?;
        let ink = if message.is_error { TextInk::Bad } else { TextInk::Strong };
        Some(ScreenLine::text(1, message.text.clone(), ink))
    }

    pub(crate) fn show_message(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: false });
    }

    pub(crate) fn show_error(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_error: true });
    }

    /// The run that actions are about: the open one, or the selected one.
    pub(crate) fn current_row(&self) -> Option<&BoardRow> {
        if let Some(screen) = &self.run {
            return Some(&screen.page.row);
        }
        let selected = self.board_position.selected.as_deref()?;
        let board = &self.board;
        let known = board.waiting.iter().chain(&board.working).chain(&board.ended);
        known
            .chain(self.earlier.iter().flat_map(|earlier| &earlier.rows))
            .find(|row| row.run == selected)
    }

    pub(crate) fn current_run(&self) -> Option<RunId> {
        RunId::parse(&self.current_row()?.run)
    }

    /// The open run.
    pub fn opened_run(&self) -> Option<RunId> {
        RunId::parse(self.run.as_ref()?.run())
    }

    /// Whether the terminal has room for the board; otherwise it is one line.
    fn is_tiny(&self) -> bool {
        self.columns < FEWEST_COLUMNS || self.rows < FEWEST_ROWS
    }

    pub(crate) fn layout(&self) -> ScreenLayout {
        let glyphs = self.look.glyphs;
        if self.is_tiny() {
            let layout = ScreenLayout::default();
            return ScreenLayout { head: vec![one_line(self, glyphs)], ..layout };
        }
        match &self.run {
            Some(screen) => run_layout(self, screen, glyphs),
            None => board_layout(self, glyphs),
        }
    }

    pub(crate) fn position(&self) -> &ListPosition {
        self.run.as_ref().map_or(&self.board_position, OpenedRun::position)
    }

    pub(crate) fn position_mut(&mut self) -> &mut ListPosition {
        match &mut self.run {
            Some(screen) => screen.position_mut(),
            None => &mut self.board_position,
        }
    }

    /// Makes the selection valid for what is shown now.
    pub(crate) fn settle(&mut self) {
        if self.is_tiny() {
            return;
        }
        // The second lines of the selected run depend on the selection, so it is settled before them.
        for _ in 0..2 {
            let layout = self.layout();
            let rows = self.rows;
            layout.settle(self.position_mut(), rows);
        }
    }

    /// The frame as cells.
    pub fn draw(&self) -> Buffer {
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let mut canvas = CellCanvas::new(self.look, cells(self.columns), cells(self.rows));
        if self.is_tiny() {
            let layout = self.layout();
            layout.draw(&mut canvas, &ListPosition::default());
            return canvas.into_buffer();
        }
        match &self.dialog {
            Some(dialog) => dialog.draw(self, &mut canvas),
            None => self.layout().draw(&mut canvas, self.position()),
        }
        canvas.into_buffer()
    }

    /// The runs whose files are watched: those in progress, and the open one.
    pub(crate) fn watched_runs(&self) -> Vec<RunId> {
        let active = self.active_rows().filter_map(|row| RunId::parse(&row.run));
        active.chain(self.opened_run()).collect()
    }

    fn active_rows(&self) -> impl Iterator<Item = &BoardRow> {
        let rows = self.board.waiting.iter().chain(&self.board.working);
        rows.filter(|row| !row.standing.has_ended())
    }

    /// Whether a run in progress is shown.
    pub(crate) fn has_active(&self) -> bool {
        self.active_rows().next().is_some()
    }

    /// When the frame changes by itself: each second while a running gate is shown, each minute while a run is in
    /// progress, whose times pass and whose process may die.
    pub fn next_tick_ms(&self) -> Option<u64> {
        let has_gate = match &self.run {
            Some(screen) => screen.page.row.activity.is_some(),
            None => self.active_rows().any(|row| row.activity.is_some()),
        };
        if has_gate {
            return Some(1000 - self.now_ms % 1000);
        }
        self.has_active().then(|| 60_000 - self.now_ms % 60_000)
    }
}
