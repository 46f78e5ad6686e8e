//! A decoy process: its pid is handed out in place of another process's, so that an attempt to kill that one is
//! harmless and can be detected.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{supervisor, wait};
use crate::clock::Deadline;
use crate::os;

/// A process that does nothing until it is dropped or killed. It exits when this process does.
#[derive(Debug)]
pub struct DecoyProcess {
    child: Child,
    /// Closed when either process exits.
    socket: Option<UnixStream>,
}

/// Starts a decoy. `program` is the ralph executable: a supervisor that never gets an order waits forever.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn start_decoy(program: &Path) -> io::Result<DecoyProcess> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(program)
        .arg0("ralph")
        .arg(supervisor::SUPERVISOR_ARGUMENT)
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(DecoyProcess { child, socket: Some(ours) })
}

impl DecoyProcess {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has been killed.
    pub fn was_killed(&self) -> bool {
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        // A signalled process may take a moment to die. If its state is unknown, it may be dying too.
        let is_dying = os::is_dying(self.child.id()).unwrap_or(true);
        let patience = if is_dying { wait::REAP_TIMEOUT } else { Duration::ZERO };
        wait::wait_readable([socket], patience) == [true]
    }
}

impl Drop for DecoyProcess {
    fn drop(&mut self) {
        drop(self.socket.take());
        // The exit status is of no interest.
        wait::wait_for_child(&mut self.child, Deadline::after(wait::REAP_TIMEOUT)).ok();
    }
}
