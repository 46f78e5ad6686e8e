//! What each operating system does in its own way, one file per system. The rest of this crate calls these functions only.
//!
//! Functions are named for what is needed. Where a system cannot do or know it, they fail or return `None`; they never
//! assume. A port adds one file here, and replaces refusals of `other` one by one.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

mod desktop;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod linux_mounts;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
pub(crate) use {linux::*, linux_mounts::*, procfs::*};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

pub use desktop::{browser_command, desktop_notifier};

/// A process as the system lists it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// It has exited, and its parent has not collected the status yet.
    pub(crate) has_ended: bool,
    /// 0 if it has none.
    pub(crate) parent: u32,
    pub(crate) session: u32,
    /// Distinguishes processes that have the same pid one after another.
    pub(crate) started: u64,
}

/// The processes above this one, nearest first, as far as the system shows them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AncestorChain {
    pub(crate) pids: Vec<u32>,
    /// It reaches the first process. Otherwise any process may be above the last one.
    pub(crate) is_complete: bool,
}

/// Every system can answer this, even about processes that it otherwise hides.
pub(crate) fn pid_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}
