//! A process that stands for another: who wants to kill that one kills this, and harms nobody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{supervisor, wait};
use crate::clock::Deadline;

const REAP: Duration = Duration::from_millis(500);

/// It does nothing until it is dropped, or killed. It ends with us.
#[derive(Debug)]
pub struct StandIn {
    child: Child,
    /// Closed by the end of either.
    socket: Option<UnixStream>,
}

/// `program` is this program: a supervisor that is never given an order waits for one.
#[expect(clippy::disallowed_methods, reason = "this module is part of the door")]
pub fn start(program: &Path) -> io::Result<StandIn> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(program)
        .arg0("ralph")
        .arg(supervisor::ARGUMENT)
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(StandIn { child, socket: Some(ours) })
}

impl StandIn {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether somebody killed it.
    pub fn is_gone(&self) -> bool {
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        wait::readable([socket], Duration::ZERO) == [true]
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.socket.take());
        // Its status is nobody's.
        wait::for_child(&mut self.child, Deadline::after(REAP)).ok();
    }
}
