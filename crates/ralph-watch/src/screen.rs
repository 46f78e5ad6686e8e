//! The terminal as a screen of cells: entered, written and always given back.

use ralph_sys::terminal;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the mouse is reported. Then text can no longer be selected with it in most terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseUse {
    Off,
    On,
}

/// Whether the terminal shows the screen now. The panic hook and the signal thread give it back only once.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J";
const ENTER_MOUSE: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const LEAVE: &[u8] = b"\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
const BELL: &[u8] = b"\x07";

/// The alternate screen in raw mode. The terminal is given back when it is dropped, and by [`give_back`].
#[derive(Debug)]
pub(crate) struct TerminalScreen {
    mouse: MouseUse,
    shown: Buffer,
}

impl TerminalScreen {
    pub(crate) fn enter(mouse: MouseUse) -> io::Result<Self> {
        let screen = Self { mouse, shown: Buffer::empty(Rect::ZERO) };
        give_back_on_panic();
        screen.take()?;
        Ok(screen)
    }

    fn take(&self) -> io::Result<()> {
        terminal::take_raw_mode()?;
        IS_ENTERED.store(true, Ordering::SeqCst);
        write_terminal(ENTER)?;
        match self.mouse {
            MouseUse::On => write_terminal(ENTER_MOUSE),
            MouseUse::Off => Ok(()),
        }
    }

    /// Takes the terminal again after another program had it.
    pub(crate) fn enter_again(&mut self) -> io::Result<()> {
        self.shown = Buffer::empty(Rect::ZERO);
        self.take()
    }

    /// Writes the cells that changed.
    pub(crate) fn show(&mut self, frame: Buffer) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.shown.area != frame.area {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(frame.area);
        }
        frame_bytes(&self.shown, &frame, &mut bytes);
        self.shown = frame;
        if bytes.is_empty() { Ok(()) } else { write_terminal(&bytes) }
    }

    /// The next frame writes every cell.
    pub(crate) fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
    }

    pub(crate) fn ring(&self) -> io::Result<()> {
        let Self { .. } = self;
        write_terminal(BELL)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back as it was. Does nothing if that was done.
pub(crate) fn give_back() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        // Nothing more can be done for a terminal that takes no bytes.
        write_terminal(LEAVE).ok();
        terminal::give_back_modes();
    }
}

/// A release build aborts on a panic, so nothing is dropped.
fn give_back_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        report(panic);
    }));
}

fn write_terminal(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// The bytes that turn one frame into the other. Symbols come from cells, which hold no control characters.
fn frame_bytes(before: &Buffer, after: &Buffer, bytes: &mut Vec<u8>) {
    let mut at = None;
    let mut style = None;
    for (x, y, cell) in before.diff(after) {
        if at != Some((x, y)) {
            bytes.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
        }
        let wanted = (cell.fg, cell.modifier);
        if style != Some(wanted) {
            bytes.extend_from_slice(style_bytes(cell).as_bytes());
            style = Some(wanted);
        }
        bytes.extend_from_slice(cell.symbol().as_bytes());
        let width = crate::glyphs::text_columns(cell.symbol()).max(1);
        at = u16::try_from(width).ok().map(|width| (x.saturating_add(width), y));
    }
    if style.is_some() {
        bytes.extend_from_slice(b"\x1b[0m");
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the palette has only these colours")]
fn style_bytes(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    if cell.modifier.contains(Modifier::BOLD) {
        codes.push_str(";1");
    }
    if cell.modifier.contains(Modifier::DIM) {
        codes.push_str(";2");
    }
    codes.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Blue => ";34",
        Color::Magenta => ";35",
        Color::Cyan => ";36",
        Color::DarkGray => ";90",
        _ => "",
    });
    codes.push('m');
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_cells_are_written() {
        let area = Rect::new(0, 0, 12, 2);
        let mut before = Buffer::empty(area);
        before.set_string(0, 0, "one two", Color::Reset);
        let mut after = before.clone();
        after.set_string(4, 0, "日本", Modifier::BOLD);
        after.set_string(0, 1, "x", Color::Red);
        let mut bytes = Vec::new();
        frame_bytes(&before, &after, &mut bytes);
        let text = String::from_utf8(bytes).unwrap().replace('\x1b', "␛");
        assert_eq!(text, "␛[1;5H␛[0;1m日本␛[2;1H␛[0;31mx␛[0m");
        let mut same = Vec::new();
        frame_bytes(&after, &after, &mut same);
        assert!(same.is_empty());
    }
}
