//! Commands as a person reads them before they approve them.

use ralph_core::text;

/// The whole command, with invisible characters as escapes. It is never truncated, because its end runs too. Lines after
/// the first are indented, so that none can pass for a line of ralph.
pub(crate) fn whole_command(command: &str, indent: usize) -> String {
    text::reveal(command).replace('\n', &format!("\n{:indent$}", ""))
}
