//! Runs a program of the person, such as their editor, at the terminal of this process.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use super::wait;
use crate::clock::Deadline;

/// Starts the program with the terminal and environment of this process, and waits for it. Returns whether it succeeded;
/// `None` if it still runs at the deadline, in which case it is killed.
pub fn run_in_foreground(argv: &[OsString], deadline: Deadline) -> io::Result<Option<bool>> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    let mut child = Command::new(program).args(arguments).spawn()?;
    let status = wait::wait_for_child(&mut child, deadline)?;
    if status.is_none() {
        child.kill()?;
    }
    Ok(status.map(|status| status.success()))
}
