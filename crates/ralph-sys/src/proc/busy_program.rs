//! Starts a program that was written a moment ago.

use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use crate::clock::{self, Deadline};

const RETRY_INTERVAL: Duration = Duration::from_millis(2);
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the command. The system refuses to run a file that a process has open for writing. A process that was forked
/// while the file was written has it open until it starts its own program, so the refusal ends by itself.
pub(super) fn start_child(command: &mut Command) -> io::Result<Child> {
    retry_while_busy(|| command.spawn())
}

fn retry_while_busy<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Deadline::after(BUSY_TIMEOUT);
    loop {
        match start() {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && !deadline.has_passed() =>
            {
                clock::sleep(RETRY_INTERVAL);
            }
            started => return started,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn a_program_that_is_open_for_writing_starts_when_it_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o700).open(&path).unwrap();
        file.write_all(b"#!/bin/sh\nexit 7\n").unwrap();
        let mut writer = Some(file);
        #[expect(clippy::disallowed_methods, reason = "only the modules of `proc` may call it")]
        let mut command = Command::new(&path);
        let mut child = retry_while_busy(|| {
            let started = command.spawn();
            // The writer closes the file after the first attempt.
            drop(writer.take());
            started
        })
        .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }
}
