//! The only place that prints.

use crate::report::Failure;
use anstyle::{AnsiColor, Style};
use ralph_exec::env::Env;
use std::io::Write;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();

/// Of a terminal that does not tell.
const USUAL_COLUMNS: usize = 80;

/// Whether somebody still reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// To stdout; colour is dropped for pipes and `NO_COLOR`. A reader that has gone away is no error; a disk that is
/// full is.
pub(crate) fn out(text: &str) -> Result<Reader, Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::because("cannot write the output", &error)),
    }
}

pub(crate) fn err(text: &str) {
    drop(anstream::stderr().lock().write_all(text.as_bytes()));
}

/// Draws over the last `lines` lines on stderr. Moving the cursor is no colour: `NO_COLOR` does not take it away.
pub(crate) fn redraw(lines: usize, text: &str) {
    if lines > 0 {
        drop(write!(std::io::stderr().lock(), "\x1b[{lines}A\r\x1b[J"));
    }
    err(text);
}

/// Exactly these bytes, for a host. The reason goes first: a host may act as soon as stdout ends. `false` when they
/// could not all be written.
pub(crate) fn bytes(stderr: &[u8], stdout: &[u8]) -> bool {
    let mut said = true;
    if !stderr.is_empty() {
        said &= std::io::stderr().lock().write_all(stderr).is_ok();
    }
    if !stdout.is_empty() {
        let mut out = std::io::stdout().lock();
        said &= out.write_all(stdout).and_then(|()| out.flush()).is_ok();
    }
    said
}

/// `text` in `style`, for [`out`] and [`err`].
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Without what [`paint`] put around it, for where there is no terminal.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Whether a person watches what is drawn on stderr, on a terminal whose cursor can be moved.
pub(crate) fn is_watched(env: &Env) -> bool {
    use std::io::IsTerminal;
    env.can_move_cursor() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether somebody reads stdout there.
pub(crate) fn is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
}

/// How many columns stderr has.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let known = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    known.unwrap_or(USUAL_COLUMNS)
}

/// At most `columns` of a line, so that it stays one. What [`paint`] put around text takes no room, and stays.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let mut room = columns;
    let mut is_escape = false;
    for char in line.chars() {
        is_escape |= char == '\x1b';
        if is_escape {
            out.push(char);
            is_escape = char != 'm';
        } else if let Some(left) = room.checked_sub(width(char)) {
            out.push(char);
            room = left;
        } else {
            room = 0;
        }
    }
    out
}

/// Two columns for whatever may take two, but for the signs of our own.
pub(crate) fn width(char: char) -> usize {
    match char {
        '\0'..'\u{1100}' | '\u{2000}'..'\u{2600}' | '✓' | '✗' => 1,
        _ => 2,
    }
}
