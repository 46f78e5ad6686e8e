//! The only place that prints.

use std::io::Write;

/// A reader that has gone away is no error.
pub(crate) fn out(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

pub(crate) fn err(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
