//! Builds frames as text.

use crate::canvas::{TerminalLook, buffer_text};
use crate::glyphs::GlyphSet;
use crate::key_event::{PersonInput, WatchKey};
use crate::palette::ColorDepth;
use crate::sample_pages::{NOW_MS, sample_board, sample_run, utc_minute};
use crate::watch_effect::{LoadedPage, WatchEvent};
use crate::watch_state::{WatchStart, WatchState};

/// Before the first page is read.
pub(super) fn unread_board(columns: u16, rows: u16) -> WatchState {
    WatchState::new(&WatchStart {
        columns,
        rows,
        now_ms: NOW_MS,
        time_text: utc_minute,
        look: TerminalLook { glyphs: GlyphSet::Unicode, colors: ColorDepth::None },
        is_live: true,
    })
}

pub(super) fn board(columns: u16, rows: u16) -> WatchState {
    let mut state = unread_board(columns, rows);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(sample_board()))));
    state
}

pub(super) fn opened_run(columns: u16, rows: u16) -> WatchState {
    let mut state = board(columns, rows);
    state.update(WatchEvent::Loaded(LoadedPage::Run(Box::new(sample_run()))));
    state
}

pub(super) fn press(state: &mut WatchState, keys: &str) {
    for char in keys.chars() {
        let key = match char {
            '⏎' => WatchKey::Enter,
            '⎋' => WatchKey::Escape,
            '↓' => WatchKey::Down,
            '↑' => WatchKey::Up,
            '←' => WatchKey::Left,
            '⇥' => WatchKey::Tab,
            char => WatchKey::Char(char),
        };
        state.update(WatchEvent::Input(PersonInput::Key(key)));
    }
}

/// The frame with a frame around it, so that its ends are seen.
pub(super) fn show_with(state: &WatchState, glyphs: GlyphSet) -> String {
    let mut state = state.clone();
    state.look.glyphs = glyphs;
    state.settle();
    let text = buffer_text(&state.draw());
    let lines: Vec<_> = text.lines().map(|line| format!("|{line}")).collect();
    lines.join("\n")
}

pub(super) fn show(state: &WatchState) -> String {
    show_with(state, GlyphSet::Unicode)
}

/// The sizes for which terminals are laid out.
pub(super) const SIZES: [(u16, u16); 2] = [(80, 24), (160, 50)];

/// Several frames of one size, each below its name.
pub(super) fn show_all<'a>(frames: impl IntoIterator<Item = (&'a str, WatchState)>) -> String {
    let frame = |(name, state): (&str, WatchState)| format!("{name}\n{}\n", show(&state));
    frames.into_iter().map(frame).collect::<Vec<_>>().join("\n")
}
