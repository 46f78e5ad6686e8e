//! The only place that prints.

use anstyle::{AnsiColor, Style};
use std::io::Write;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();

/// To stdout; colour is dropped for pipes and `NO_COLOR`. `false` when the reader has gone away, which is no error.
pub(crate) fn out(text: &str) -> bool {
    anstream::stdout().lock().write_all(text.as_bytes()).is_ok()
}

pub(crate) fn err(text: &str) {
    drop(anstream::stderr().lock().write_all(text.as_bytes()));
}

/// Exactly these bytes, for a host. The reason goes first: a host may act as soon as stdout ends.
pub(crate) fn bytes(stderr: &[u8], stdout: &[u8]) {
    if !stderr.is_empty() {
        drop(std::io::stderr().lock().write_all(stderr));
    }
    if !stdout.is_empty() {
        let mut out = std::io::stdout().lock();
        drop(out.write_all(stdout));
        drop(out.flush());
    }
}

/// `text` in `style`, for [`out`] and [`err`].
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
