//! A decoy process: its pid is handed out in place of another process's, so that an attempt to kill that one is
//! harmless and can be detected.

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

const REAP_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_STATUS_BYTES: usize = 64 * 1024;
/// The signal mask of SIGHUP, SIGINT, SIGKILL and SIGTERM.
const FATAL_SIGNAL_MASK: u64 = 1 | 1 << 1 | 1 << 8 | 1 << 14;

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
        // A signalled process may take a moment to die.
        let patience = if self.is_dying() { REAP_TIMEOUT } else { Duration::ZERO };
        wait::wait_readable([socket], patience) == [true]
    }

    fn is_dying(&self) -> bool {
        let status = PathBuf::from(format!("/proc/{}/status", self.child.id()));
        let status = fs::read(&status, MAX_STATUS_BYTES).unwrap_or_default();
        is_dying(&String::from_utf8_lossy(&status))
    }
}

/// Whether `/proc/<pid>/status` shows a pending fatal signal, or no memory any more.
fn is_dying(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_sent =
        |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & FATAL_SIGNAL_MASK != 0);
    let is_sent = ["SigPnd:", "ShdPnd:"].into_iter().filter_map(field).any(is_sent);
    !status.is_empty() && (is_sent || field("VmRSS:").is_none())
}

impl Drop for DecoyProcess {
    fn drop(&mut self) {
        drop(self.socket.take());
        // The exit status is of no interest.
        wait::wait_for_child(&mut self.child, Deadline::after(REAP_TIMEOUT)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_is_detected_before_it_is_dead() {
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
