//! Printing. The only module that writes to stdout and stderr.

use std::io::Write;

/// Prints a line. A closed pipe is not an error.
pub(crate) fn print_line(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

pub(crate) fn print_error_line(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
