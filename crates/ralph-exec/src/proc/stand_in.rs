//! A process that stands for another: who wants to kill that one kills this, and harms nobody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{supervisor, wait};
use crate::clock::Deadline;
use crate::fs;

const REAP: Duration = Duration::from_millis(500);
const LARGEST_STATUS: usize = 64 * 1024;
/// SIGHUP, SIGINT, SIGKILL and SIGTERM in a mask of signals.
const DEADLY: u64 = 1 | 1 << 1 | 1 << 8 | 1 << 14;

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
        // Who was killed is not dead yet: the system gets to it when it has the time.
        let patience = if self.is_dying() { REAP } else { Duration::ZERO };
        wait::readable([socket], patience) == [true]
    }

    fn is_dying(&self) -> bool {
        let status = PathBuf::from(format!("/proc/{}/status", self.child.id()));
        let status = fs::read(&status, LARGEST_STATUS).unwrap_or_default();
        is_dying(&String::from_utf8_lossy(&status))
    }
}

/// By `/proc/<pid>/status`: a deadly signal is on its way to it, or it has given its memory back already.
fn is_dying(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_sent = |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & DEADLY != 0);
    let is_sent = ["SigPnd:", "ShdPnd:"].into_iter().filter_map(field).any(is_sent);
    !status.is_empty() && (is_sent || field("VmRSS:").is_none())
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.socket.take());
        // Its status is nobody's.
        wait::for_child(&mut self.child, Deadline::after(REAP)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_is_known_before_it_is_dead() {
        let alive = "Name:\tralph\nState:\tS (sleeping)\nVmRSS:\t    2000 kB\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
        assert!(!is_dying(alive));
        assert!(is_dying(&alive.replace("SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100")));
        assert!(is_dying(&alive.replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000004000")));
        assert!(!is_dying(
            &alive.replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000010000")
        ));
        assert!(is_dying("Name:\tralph\nState:\tZ (zombie)\n"));
        assert!(!is_dying(""));
    }
}
