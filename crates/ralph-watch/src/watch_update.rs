//! How events change the state.

use crate::dialog::WatchDialog;
use crate::key_event::{PersonInput, WatchKey};
use crate::opened_run::{LoadablePart, OlderReason, OpenedDetail, OpenedRun};
use crate::screen_line::{ListMove, ListPosition};
use crate::watch_effect::{LoadRequest, LoadedPage, WatchEffect, WatchEvent};
use crate::watch_state::{EarlierRuns, WatchState};
use ralph_core::id::RunId;
use ralph_deck::page::{BoardPage, BoardRow};

/// The rows that a turn of the mouse wheel moves.
const WHEEL_STEPS: usize = 3;

impl WatchState {
    /// Changes the state. The effects are carried out in their order.
    pub fn update(&mut self, event: WatchEvent) -> Vec<WatchEffect> {
        let effects = match event {
            WatchEvent::Input(input) => self.read_input(input),
            WatchEvent::Resized { columns, rows } => {
                self.columns = usize::from(columns);
                self.rows = usize::from(rows);
                vec![WatchEffect::ClearScreen]
            }
            WatchEvent::Time(now_ms) => {
                let is_new_minute = now_ms / 60_000 != self.now_ms / 60_000;
                self.now_ms = now_ms;
                // A process that died changes no file.
                if is_new_minute && self.has_active() { self.reload() } else { Vec::new() }
            }
            WatchEvent::Changed => self.reload(),
            WatchEvent::Loaded(page) => self.take_page(page),
            WatchEvent::Acted(done) => {
                match done {
                    Ok(text) => self.show_message(text),
                    Err(text) => self.show_error(text),
                }
                self.reload()
            }
            WatchEvent::Edited(text) => {
                match (text, &mut self.dialog) {
                    (Ok(text), Some(WatchDialog::Message(message))) => {
                        message.editor.replace(&text);
                    }
                    (Ok(_), _) => {}
                    (Err(why), _) => self.show_error(why),
                }
                Vec::new()
            }
        };
        self.settle();
        effects
    }

    /// Everything that is shown, again.
    pub fn reload(&self) -> Vec<WatchEffect> {
        let mut effects = vec![WatchEffect::Load(LoadRequest::Board)];
        if let Some(run) = self.opened_run() {
            effects.push(WatchEffect::Load(LoadRequest::Run(run)));
        }
        effects
    }

    fn read_input(&mut self, input: PersonInput) -> Vec<WatchEffect> {
        self.may_ring = true;
        match input {
            PersonInput::Key(WatchKey::Ctrl('l')) => vec![WatchEffect::ClearScreen],
            PersonInput::Key(WatchKey::Ctrl('c')) => vec![WatchEffect::Quit],
            PersonInput::Key(WatchKey::Ctrl('z')) => vec![WatchEffect::Suspend],
            PersonInput::Key(key) => {
                self.message = None;
                self.press(key)
            }
            PersonInput::Paste(text) => self.paste(&text),
            PersonInput::Click { row, .. } => self.click(usize::from(row)),
            PersonInput::ScrollUp => self.turn_wheel(ListMove::Up),
            PersonInput::ScrollDown => self.turn_wheel(ListMove::Down),
        }
    }

    fn press(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        if self.dialog.is_some() {
            return self.press_in_dialog(key);
        }
        if self.search.is_some() {
            return self.press_in_search(key);
        }
        if self.is_typing_filter {
            return self.press_in_filter(key);
        }
        if self.shows_command {
            return self.show_command(key);
        }
        self.press_anywhere(key)
    }

    fn paste(&mut self, text: &str) -> Vec<WatchEffect> {
        // Pasted text is never a key: a line of a log must not pause a run.
        match &mut self.dialog {
            Some(WatchDialog::Message(message)) => message.editor.insert(text),
            Some(WatchDialog::Form(form)) => {
                if let Some(editor) = form.focused() {
                    editor.insert(text);
                }
            }
            Some(WatchDialog::Help) => {}
            None if self.is_typing_filter => {
                return self.change_filter(|filter| filter.insert(text));
            }
            None => {
                if let Some(search) = &mut self.search {
                    search.insert(text);
                }
            }
        }
        Vec::new()
    }

    fn click(&mut self, row: usize) -> Vec<WatchEffect> {
        if self.dialog.is_some() {
            return Vec::new();
        }
        let layout = self.layout();
        let Some(item) = layout.item_at(self.position(), row).map(str::to_string) else {
            return Vec::new();
        };
        if self.position().selected.as_ref() == Some(&item) {
            return self.press_anywhere(WatchKey::Enter);
        }
        self.position_mut().selected = Some(item);
        Vec::new()
    }

    fn turn_wheel(&mut self, step: ListMove) -> Vec<WatchEffect> {
        for _ in 0..WHEEL_STEPS {
            self.step(step);
        }
        Vec::new()
    }

    pub(crate) fn step(&mut self, step: ListMove) {
        let layout = self.layout();
        let rows = self.rows;
        layout.step(self.position_mut(), rows, step);
    }

    fn take_page(&mut self, page: LoadedPage) -> Vec<WatchEffect> {
        match page {
            LoadedPage::Board(board) => return self.take_board(*board),
            LoadedPage::Run(page) => match &mut self.run {
                Some(screen) if screen.run() == page.row.run => {
                    screen.update(*page);
                    return self.load_tab();
                }
                _ => {
                    // Keys act on this run after it is closed, also if it was not opened from the board.
                    self.board_position.selected = Some(page.row.run.clone());
                    self.run = Some(OpenedRun::new(*page));
                }
            },
            LoadedPage::Earlier { filter, is_first, rows, total, next } => {
                // The answer to a filter that was changed since is of no use.
                if self.filter_text() == filter {
                    let mut known = self.earlier.take().unwrap_or_default();
                    if is_first {
                        known.rows.clear();
                    }
                    known.rows.extend(rows);
                    self.earlier = Some(EarlierRuns { total, next, ..known });
                }
            }
            LoadedPage::FilterRefused { filter, why } => {
                if self.filter_text() == filter {
                    self.filter_problem = Some(why);
                }
            }
            LoadedPage::Reason { run, seq, text } => {
                if let Some(screen) = self.screen_of(&run) {
                    let text = text.unwrap_or_default();
                    screen.older_reason = Some(OlderReason { seq, text });
                }
            }
            LoadedPage::Files { run, files } => {
                if let Some(screen) = self.screen_of(&run) {
                    screen.files = loadable(files);
                }
            }
            LoadedPage::Checkpoints { run, checkpoints } => {
                if let Some(screen) = self.screen_of(&run) {
                    screen.checkpoints = loadable(checkpoints);
                }
            }
            LoadedPage::CheckpointFiles { run, files } => {
                if let Some(screen) = self.screen_of(&run) {
                    let position = ListPosition::default();
                    screen.opened.push(OpenedDetail::Files { files, position });
                }
            }
            LoadedPage::Comparison { run, from, to, comparison } => {
                if let Some(screen) = self.screen_of(&run) {
                    let position = ListPosition::default();
                    let opened = OpenedDetail::Comparison { from, to, comparison, position };
                    screen.opened.push(opened);
                }
            }
            LoadedPage::Failed(why) => self.show_error(why),
        }
        Vec::new()
    }

    fn screen_of(&mut self, run: &RunId) -> Option<&mut OpenedRun> {
        self.run.as_mut().filter(|screen| screen.run() == run.as_str())
    }

    /// Rings once for new questions and ends, and not again before the person presses a key.
    fn take_board(&mut self, board: BoardPage) -> Vec<WatchEffect> {
        let rows = board.waiting.iter().chain(&board.working).chain(&board.ended);
        let mut is_new = false;
        for key in rows.filter_map(bell_key) {
            is_new |= self.rung.insert(key);
        }
        let rings = is_new && self.is_board_loaded && self.may_ring;
        self.may_ring &= !rings;
        self.is_board_loaded = true;
        self.now_ms = self.now_ms.max(board.now_ms);
        self.board = board;
        if rings { vec![WatchEffect::Bell] } else { Vec::new() }
    }

    /// Loads what the tab needs, if it was not loaded.
    pub(crate) fn load_tab(&self) -> Vec<WatchEffect> {
        use crate::opened_run::RunTab;
        let (Some(screen), Some(run)) = (&self.run, self.opened_run()) else { return Vec::new() };
        let request = match screen.tab {
            RunTab::Diff if screen.files == LoadablePart::Requested => LoadRequest::Files(run),
            RunTab::Checkpoints if screen.checkpoints == LoadablePart::Requested => {
                LoadRequest::Checkpoints(run)
            }
            RunTab::Stops
            | RunTab::Reason
            | RunTab::Gates
            | RunTab::Diff
            | RunTab::Checkpoints
            | RunTab::Log => return Vec::new(),
        };
        vec![WatchEffect::Load(request)]
    }
}

fn loadable<T>(loaded: Result<T, String>) -> LoadablePart<T> {
    match loaded {
        Ok(loaded) => LoadablePart::Loaded(loaded),
        Err(why) => LoadablePart::Failed(why),
    }
}

/// What the bell rings for once.
fn bell_key(row: &BoardRow) -> Option<String> {
    if let Some(question) = &row.question {
        return Some(format!("{} asks {}", row.run, question.asked_ms));
    }
    row.standing.has_ended().then(|| format!("{} ended", row.run))
}
