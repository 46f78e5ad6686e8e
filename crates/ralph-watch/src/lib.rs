//! The board in a terminal: the runs that wait for a person, those that are working, and those that ended; one run with
//! its requirements over its stops; and the keys that answer, pause, waive and cancel.
//!
//! The core is pure: [`WatchState`] is changed by a [`WatchEvent`] and returns [`WatchEffect`]s, and a frame is cells
//! drawn from the state. Only the event loop reads the terminal, loads pages and carries out actions. Every text of an agent or
//! a tool reaches the terminal as the content of cells, never as bytes of its own.

mod action_keys;
mod canvas;
mod dialog;
mod dialog_draw;
mod duration_text;
mod glyphs;
mod input_reader;
mod key_actions;
mod key_event;
mod key_parser;
mod layout;
mod opened_run;
mod page_loader;
mod page_source;
mod palette;
#[cfg(test)]
mod sample_pages;
mod screen;
mod screen_line;
#[cfg(test)]
mod tests;
mod text_editor;
mod watch_effect;
mod watch_loop;
mod watch_state;
mod watch_update;

pub use canvas::{TerminalLook, buffer_text};
pub use duration_text::{TimeText, local_minute};
pub use glyphs::GlyphSet;
pub use key_event::{PersonInput, WatchKey};
pub use page_source::WatchPages;
pub use palette::ColorDepth;
pub use screen::MouseUse;
pub use watch_effect::{LoadRequest, LoadedPage, WatchEffect, WatchEvent};
pub use watch_loop::{WatchCommands, WatchOptions, run_watch};
pub use watch_state::{WatchStart, WatchState};
