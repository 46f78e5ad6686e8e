//! What keys do on the board and on a run.
#![expect(clippy::wildcard_enum_match_arm, reason = "on each screen, most keys mean nothing")]

use crate::action_keys::can_be_closed;
use crate::dialog::{FocusMove, FormDialog, FormKind, MessageDialog, WatchDialog, open_lines};
use crate::key_event::WatchKey;
use crate::layout::matrix_lines::longest_shift;
use crate::opened_run::{LoadablePart, OpenedDetail, RunTab};
use crate::screen_line::{ListMove, SearchDirection};
use crate::text_editor::TextEditor;
use crate::watch_effect::{LoadRequest, WatchEffect};
use crate::watch_state::{BoardSort, WatchState};
use ralph_core::id::RunId;
use ralph_deck::page::{BoardRow, CheckpointDiff, OpenQuestion, RunStanding};
use ralph_deck::person_action::PersonAction;

const LONGEST_SEARCH: usize = 100;

impl WatchState {
    pub(crate) fn press_anywhere(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        let step = match key {
            WatchKey::Up | WatchKey::Char('k') => Some(ListMove::Up),
            WatchKey::Down | WatchKey::Char('j') => Some(ListMove::Down),
            WatchKey::PageUp | WatchKey::Ctrl('b') => Some(ListMove::PageUp),
            WatchKey::PageDown | WatchKey::Ctrl('f') => Some(ListMove::PageDown),
            WatchKey::Home | WatchKey::Char('g') => Some(ListMove::First),
            WatchKey::End | WatchKey::Char('G') => Some(ListMove::Last),
            _ => None,
        };
        if let Some(step) = step {
            self.step(step);
            return self.load_more();
        }
        match key {
            WatchKey::Char('q') => return vec![WatchEffect::Quit],
            WatchKey::Char('?') => self.dialog = Some(WatchDialog::Help),
            WatchKey::Char('y') => {
                self.shows_command = true;
                self.show_message(
                    "press a, t, p, w, l or x to see its command instead of running it",
                );
            }
            WatchKey::Char('n') => self.find_next(SearchDirection::Forward),
            WatchKey::Char('N') => self.find_next(SearchDirection::Backward),
            WatchKey::Char('a' | 't' | 'p' | 'w' | 'l' | 'x') => return self.start_action(key),
            _ if self.run.is_some() => return self.press_on_run(key),
            _ => return self.press_on_board(key),
        }
        Vec::new()
    }

    fn press_on_board(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        match key {
            WatchKey::Enter | WatchKey::Right => return self.open_selected(),
            WatchKey::Char('/') => self.is_typing_filter = true,
            WatchKey::Char('s') => {
                self.sort = match self.sort {
                    BoardSort::NeedsYou => BoardSort::Newest,
                    BoardSort::Newest => BoardSort::Cost,
                    BoardSort::Cost => BoardSort::NeedsYou,
                };
            }
            WatchKey::Char('e') => return self.toggle_earlier(),
            WatchKey::Escape | WatchKey::Char('h') => {
                self.filter.replace("");
                self.filter_problem = None;
                self.earlier = None;
                self.sort = BoardSort::NeedsYou;
            }
            _ => {}
        }
        Vec::new()
    }

    /// Lists earlier runs, or no longer.
    fn toggle_earlier(&mut self) -> Vec<WatchEffect> {
        match self.earlier.take() {
            Some(_) => Vec::new(),
            None => vec![self.load_earlier()],
        }
    }

    /// Goes back from what is opened within the run, or from the run.
    fn close_detail(&mut self) {
        let opened = self.run.as_mut().and_then(|screen| screen.opened.pop());
        if opened.is_none() {
            self.run = None;
        }
    }

    fn load_earlier(&self) -> WatchEffect {
        let filter = self.filter_text().to_string();
        WatchEffect::Load(LoadRequest::Earlier { filter, before: None })
    }

    /// The next page of earlier runs, once the end of those that are loaded is selected.
    fn load_more(&self) -> Vec<WatchEffect> {
        let Some(earlier) = self.earlier.as_ref().filter(|_| self.run.is_none()) else {
            return Vec::new();
        };
        let last = earlier.rows.last().map(|row| row.run.as_str());
        let is_at_end = last.is_some() && last == self.board_position.selected.as_deref();
        match &earlier.next {
            Some(key) if is_at_end => {
                let (filter, before) = (self.filter_text().to_string(), Some(key.clone()));
                vec![WatchEffect::Load(LoadRequest::Earlier { filter, before })]
            }
            _ => Vec::new(),
        }
    }

    fn open_selected(&mut self) -> Vec<WatchEffect> {
        match (self.current_run(), self.board_position.selected.as_deref()) {
            (Some(run), _) => vec![WatchEffect::Load(LoadRequest::Run(run))],
            (None, Some(queue)) => {
                let id = queue.strip_prefix("queue ").unwrap_or_default().to_string();
                self.show_message(format!("`ralph status {id}` lists the tasks of this queue"));
                Vec::new()
            }
            (None, None) => Vec::new(),
        }
    }

    fn press_on_run(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        let columns = self.columns;
        let Some(screen) = &mut self.run else { return Vec::new() };
        match key {
            WatchKey::Escape | WatchKey::Char('h') => self.close_detail(),
            WatchKey::Char(digit @ '1'..='6') => {
                let number = usize::try_from(u32::from(digit) - u32::from('1')).unwrap_or(0);
                screen.tab = RunTab::ALL.get(number).copied().unwrap_or(RunTab::Stops);
                screen.opened.clear();
                screen.reason_seq = None;
                return self.load_tab();
            }
            WatchKey::Tab | WatchKey::BackTab => {
                let count = RunTab::ALL.len();
                let next = if key == WatchKey::Tab { 1 } else { count - 1 };
                let next = (screen.tab.index() + next) % count;
                screen.tab = RunTab::ALL.get(next).copied().unwrap_or(RunTab::Stops);
                screen.opened.clear();
                screen.reason_seq = None;
                return self.load_tab();
            }
            WatchKey::Left => {
                screen.shift = (screen.shift + 1).min(longest_shift(&screen.page, columns));
            }
            WatchKey::Right => {
                screen.shift =
                    screen.shift.min(longest_shift(&screen.page, columns)).saturating_sub(1);
            }
            WatchKey::Char('/') => {
                self.search = Some(TextEditor::single_line("", LONGEST_SEARCH));
            }
            WatchKey::Char('r') => self.show_restore(),
            WatchKey::Enter => return self.open_detail(),
            _ => {}
        }
        Vec::new()
    }

    /// Opens what is selected in the tab.
    fn open_detail(&mut self) -> Vec<WatchEffect> {
        let Some(run) = self.opened_run() else { return Vec::new() };
        let Some(screen) = &mut self.run else { return Vec::new() };
        let selected = screen.position().selected.clone().unwrap_or_default();
        let request = match (screen.opened.last(), screen.tab) {
            (Some(OpenedDetail::Files { files, .. }), _) => comparison(run, files, selected),
            (None, RunTab::Diff) => match &screen.files {
                LoadablePart::Loaded(files) => comparison(run, files, selected),
                LoadablePart::Requested | LoadablePart::Failed(_) => return Vec::new(),
            },
            (None, RunTab::Checkpoints) => match selected.parse() {
                Ok(number) => LoadRequest::CheckpointFiles { run, number },
                Err(_) => return Vec::new(),
            },
            (None, RunTab::Stops) => {
                let Some(row) = screen.selected_stop() else { return Vec::new() };
                let (seq, has_reason) = (row.seq, row.reason.is_some());
                if row.rule.is_none() {
                    self.show_message("the agent read nothing here");
                    return Vec::new();
                }
                screen.reason_seq = Some(seq);
                screen.tab = RunTab::Reason;
                if has_reason {
                    return Vec::new();
                }
                LoadRequest::Reason { run, seq }
            }
            (Some(OpenedDetail::Comparison { .. }), _)
            | (None, RunTab::Reason | RunTab::Gates | RunTab::Log) => return Vec::new(),
        };
        vec![WatchEffect::Load(request)]
    }

    fn show_restore(&mut self) {
        let Some(screen) = self.run.as_ref().filter(|one| one.tab == RunTab::Checkpoints) else {
            return;
        };
        let number = screen.position().selected.as_deref().and_then(|it| it.parse::<u32>().ok());
        if let Some(number) = number {
            let run = screen.run().to_string();
            self.show_message(format!("ralph checkpoint restore {run} {number}"));
        }
    }

    fn find_next(&mut self, direction: SearchDirection) {
        let words = if self.run.is_some() {
            self.last_search.clone()
        } else {
            self.filter_text().to_lowercase()
        };
        if words.is_empty() {
            return self.show_message("press / to search");
        }
        let layout = self.layout();
        if !layout.find(self.position_mut(), &words, direction) {
            self.show_message(format!("no line has \"{words}\""));
        }
    }

    pub(crate) fn press_in_search(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        match (key, &mut self.search) {
            (WatchKey::Escape, _) => self.search = None,
            (WatchKey::Enter, Some(search)) => {
                self.last_search = search.text().to_lowercase();
                self.search = None;
                self.find_next(SearchDirection::Forward);
            }
            (key, Some(search)) => {
                search.press(key);
            }
            (_, None) => {}
        }
        Vec::new()
    }

    pub(crate) fn press_in_filter(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        match key {
            WatchKey::Escape => {
                self.is_typing_filter = false;
                self.filter_problem = None;
                self.filter.replace("");
                self.earlier = None;
            }
            WatchKey::Enter => self.is_typing_filter = false,
            WatchKey::Up => self.step(ListMove::Up),
            WatchKey::Down => self.step(ListMove::Down),
            key => {
                return self.change_filter(|filter| {
                    filter.press(key);
                });
            }
        }
        Vec::new()
    }

    /// Changes what is typed as a filter. What was found for another one no longer counts.
    pub(crate) fn change_filter(&mut self, edit: impl FnOnce(&mut TextEditor)) -> Vec<WatchEffect> {
        let before = self.filter_text().to_string();
        edit(&mut self.filter);
        if self.filter_text() == before {
            return Vec::new();
        }
        self.filter_problem = None;
        self.earlier = None;
        if self.filter_text().trim().is_empty() { Vec::new() } else { vec![self.load_earlier()] }
    }

    /// Begins an action on the open or selected run.
    fn start_action(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        let (Some(run), Some(row)) = (self.current_run(), self.current_row().cloned()) else {
            self.show_message("select a run first");
            return Vec::new();
        };
        if row.standing.has_ended() {
            if key == WatchKey::Char('x') && can_be_closed(&row) {
                self.dialog = Some(WatchDialog::Form(FormDialog::cancel(run, row)));
            } else {
                self.show_message(has_ended_message(&run));
            }
            return Vec::new();
        }
        match key {
            WatchKey::Char('p') if row.needs_runner => {
                self.show_message(needs_runner_message(&run));
            }
            WatchKey::Char('p') => {
                let action = pause_or_resume(row.standing);
                return vec![WatchEffect::Act { run, action, asks_at_terminal: false }];
            }
            WatchKey::Char('a') => match &row.question {
                None => self
                    .show_message(format!("{run} has no open question; press t to send a message")),
                Some(OpenQuestion { approval: Some(_), .. }) => {
                    let action = answer_action(&row);
                    return vec![WatchEffect::Act { run, action, asks_at_terminal: true }];
                }
                Some(OpenQuestion { approval: None, .. }) => self.open_message(run, row),
            },
            WatchKey::Char('w') => {
                let requirement = self.waivable_requirement();
                let form = FormDialog::waive(run, row, &requirement);
                self.dialog = Some(WatchDialog::Form(form));
            }
            WatchKey::Char('l') => {
                self.dialog = Some(WatchDialog::Form(FormDialog::limits(run, row)));
            }
            WatchKey::Char('x') => {
                self.dialog = Some(WatchDialog::Form(FormDialog::cancel(run, row)));
            }
            _ => self.open_message(run, row),
        }
        Vec::new()
    }

    /// Begins a message to the agent, which answers its question if there is one.
    fn open_message(&mut self, run: RunId, row: BoardRow) {
        let draft = self.drafts.get(run.as_str()).cloned().unwrap_or_default();
        let rests_on = self.run.as_ref().map(|screen| open_lines(&screen.page));
        let message = MessageDialog::new(run, row, &draft, rests_on.unwrap_or_default());
        self.dialog = Some(WatchDialog::Message(message));
    }

    /// The selected requirement, or the first one that is not met.
    fn waivable_requirement(&self) -> String {
        let Some(screen) = &self.run else {
            // One of several has to be chosen; the form lists them.
            return match self.current_row().map(|row| row.open_names.as_slice()) {
                Some([only]) => only.clone(),
                Some(_) | None => String::new(),
            };
        };
        if let Some(selected) = screen.selected_requirement() {
            return selected.to_string();
        }
        let is_open = |row: &&ralph_deck::page::MatrixRow| row.met_since.is_none();
        let first = screen.page.matrix.rows.iter().find(is_open);
        first.map(|row| row.name.clone()).unwrap_or_default()
    }

    /// Shows the command of an action instead of doing it.
    pub(crate) fn show_command(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        self.shows_command = false;
        let (Some(run), Some(row)) = (self.current_run(), self.current_row()) else {
            return Vec::new();
        };
        let is_closing = key == WatchKey::Char('x') && can_be_closed(row);
        if row.standing.has_ended() && !is_closing {
            self.show_message(has_ended_message(&run));
            return Vec::new();
        }
        if key == WatchKey::Char('p') && row.needs_runner {
            self.show_message(format!("ralph run --resume {run}"));
            return Vec::new();
        }
        let empty = String::new;
        let action = match key {
            WatchKey::Char('a') => answer_action(row),
            WatchKey::Char('t') => PersonAction::Tell { text: empty() },
            WatchKey::Char('p') => pause_or_resume(row.standing),
            WatchKey::Char('x') => PersonAction::Cancel,
            WatchKey::Char('w') => PersonAction::Waive {
                requirement: self.waivable_requirement(),
                until: empty(),
                why: empty(),
            },
            WatchKey::Char('l') => {
                PersonAction::SetLimits { iterations: empty(), duration: empty(), cost: empty() }
            }
            _ => return Vec::new(),
        };
        self.show_message(action.command_line(&run));
        Vec::new()
    }

    pub(crate) fn press_in_dialog(&mut self, key: WatchKey) -> Vec<WatchEffect> {
        match self.dialog.take() {
            Some(WatchDialog::Message(message)) => self.press_in_message(message, key),
            Some(WatchDialog::Form(form)) => self.press_in_form(form, key),
            Some(WatchDialog::Help) | None => Vec::new(),
        }
    }

    fn press_in_message(&mut self, mut message: MessageDialog, key: WatchKey) -> Vec<WatchEffect> {
        let run = message.run.clone();
        let text = message.editor.text().to_string();
        match key {
            WatchKey::Escape => {
                if text.trim().is_empty() {
                    self.drafts.remove(run.as_str());
                } else {
                    self.drafts.insert(run.to_string(), text);
                    self.show_message("kept as a draft until you quit; a or t opens it again");
                }
                return Vec::new();
            }
            WatchKey::Ctrl('s') if text.trim().is_empty() => {
                self.show_error("there is nothing to send");
            }
            WatchKey::Ctrl('s') => {
                self.drafts.remove(run.as_str());
                let action = message.action();
                return vec![WatchEffect::Act { run, action, asks_at_terminal: false }];
            }
            WatchKey::Ctrl('e') => {
                self.dialog = Some(WatchDialog::Message(message));
                return vec![WatchEffect::OpenEditor { text }];
            }
            key => {
                message.editor.press(key);
            }
        }
        self.dialog = Some(WatchDialog::Message(message));
        Vec::new()
    }

    fn press_in_form(&mut self, mut form: FormDialog, key: WatchKey) -> Vec<WatchEffect> {
        let is_last = form.focus + 1 == form.fields.len();
        match key {
            WatchKey::Escape => return Vec::new(),
            WatchKey::Tab | WatchKey::Down => form.move_focus(FocusMove::Next),
            WatchKey::BackTab | WatchKey::Up => form.move_focus(FocusMove::Previous),
            WatchKey::Enter if !is_last => form.move_focus(FocusMove::Next),
            WatchKey::Enter | WatchKey::Ctrl('s') => match form.action() {
                Ok(action) => {
                    let asks_at_terminal = form.kind != FormKind::Cancel;
                    return vec![WatchEffect::Act { run: form.run, action, asks_at_terminal }];
                }
                Err(why) => self.show_error(why),
            },
            key => {
                if let Some(editor) = form.focused() {
                    editor.press(key);
                }
            }
        }
        self.dialog = Some(WatchDialog::Form(form));
        Vec::new()
    }
}

fn comparison(run: RunId, files: &CheckpointDiff, path: String) -> LoadRequest {
    LoadRequest::Comparison { run, from: files.from, to: files.to, path }
}

fn has_ended_message(run: &RunId) -> String {
    format!("{run} has ended; `ralph why {run}` shows what to do next")
}

fn needs_runner_message(run: &RunId) -> String {
    format!("no runner drives {run}; `ralph run --resume {run}` in a terminal continues it")
}

/// What answers the question of a run: a message, or the approval that it waits for.
fn answer_action(row: &BoardRow) -> PersonAction {
    let approval = row.question.as_ref().and_then(|question| question.approval.clone());
    match approval {
        Some(name) => PersonAction::Approve { name },
        None => PersonAction::Tell { text: String::new() },
    }
}

fn pause_or_resume(standing: RunStanding) -> PersonAction {
    match standing {
        RunStanding::Paused | RunStanding::Orphaned | RunStanding::Parked(_) => {
            PersonAction::Resume
        }
        RunStanding::Working
        | RunStanding::Waiting
        | RunStanding::Asks
        | RunStanding::Unprotected
        | RunStanding::Accepted
        | RunStanding::Ended(_) => PersonAction::Pause,
    }
}
