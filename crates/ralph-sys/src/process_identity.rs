//! Identifies processes by pid and start time, so that a later process with a reused pid is not taken for the original.
//! Also reports which processes are our ancestors.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::os::{self, ProcessStat};
use ralph_core::record::ProcessIdentity;

/// Whether an identified process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// A process with this pid exists, but it may be a different one.
    Unknown,
}

/// The pid and start time of a running process; `None` if no process has this pid. The start time is 0 if unknown.
pub fn identify_process(pid: u32) -> Option<ProcessIdentity> {
    match look_up_process(pid) {
        ProcessLookup::Running(process) => Some(ProcessIdentity { pid, started: process.started }),
        ProcessLookup::Unidentified => Some(ProcessIdentity { pid, started: 0 }),
        ProcessLookup::Gone => None,
    }
}

pub fn check_liveness(mark: &ProcessIdentity) -> Liveness {
    match look_up_process(mark.pid) {
        ProcessLookup::Gone => Liveness::Dead,
        ProcessLookup::Running(process) if mark.started == process.started => Liveness::Alive,
        ProcessLookup::Running(_) if mark.started != 0 => Liveness::Dead,
        ProcessLookup::Running(_) | ProcessLookup::Unidentified => Liveness::Unknown,
    }
}

/// The pids of our ancestors, nearest first; `None` where the system does not list processes.
pub fn ancestor_pids() -> Option<Vec<u32>> {
    os::ancestor_pids()
}

/// `None` if it cannot be known.
pub fn is_ancestor(pid: u32) -> Option<bool> {
    let is_parent = pid != 0 && pid == std::os::unix::process::parent_id();
    if is_parent { Some(true) } else { Some(os::ancestor_pids()?.contains(&pid)) }
}

/// Whether that process started us the way a host starts a hook: directly, or through one shell whose command line
/// contains `hook`. `None` if it is not our ancestor or the command line cannot be read.
pub fn is_direct_caller(pid: u32) -> Option<bool> {
    let parent = std::os::unix::process::parent_id();
    if parent == pid {
        return Some(true);
    }
    is_ancestor(pid).filter(|is_above| *is_above)?;
    let shell = os::read_process_stat(parent)?;
    let command_line = os::read_command_line(parent)?;
    Some(shell.parent == pid && memchr::memmem::find(&command_line, b"hook").is_some())
}

/// The start of a process's command line, for display; empty if it is unknown.
pub fn describe_process(pid: u32, max_chars: usize) -> String {
    let words = os::read_command_line(pid).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    words.trim_end().chars().take(max_chars).collect()
}

enum ProcessLookup {
    Running(ProcessStat),
    /// A process with this pid exists, but nothing else is known about it.
    Unidentified,
    Gone,
}

fn look_up_process(pid: u32) -> ProcessLookup {
    match os::read_process_stat(pid) {
        // A zombie owns nothing any more.
        Some(process) if process.has_ended => ProcessLookup::Gone,
        Some(process) => ProcessLookup::Running(process),
        None if !pid_exists(pid) => ProcessLookup::Gone,
        None => ProcessLookup::Unidentified,
    }
}

/// Every system can answer this, even about processes that it otherwise hides.
fn pid_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proc::testing;

    #[test]
    fn this_process_is_alive_and_an_earlier_one_with_its_pid_is_not() {
        let us = identify_process(std::process::id()).unwrap();
        for (started, expected) in [
            (us.started, Liveness::Alive),
            (us.started + 1, Liveness::Dead),
            (0, Liveness::Unknown),
        ] {
            let mark = ProcessIdentity { started, ..us };
            assert_eq!(check_liveness(&mark), expected, "{started}");
        }
        for pid in [0, u32::MAX] {
            assert_eq!(identify_process(pid), None);
            assert_eq!(check_liveness(&ProcessIdentity { pid, started: 1 }), Liveness::Dead);
        }
    }

    #[test]
    fn an_exited_process_is_not_alive() {
        let script = "cut -d ')' -f 2 /proc/$$/stat | cut -d ' ' -f 21; echo $$";
        let output = testing::run_successfully(Path::new("/"), &["sh", "-c", script]);
        let text = String::from_utf8(output).unwrap();
        let (started, pid) = text.trim_end().rsplit_once('\n').unwrap();
        let ended =
            ProcessIdentity { pid: pid.parse().unwrap(), started: started.parse().unwrap() };
        assert_eq!(check_liveness(&ended), Liveness::Dead);
    }

    #[test]
    fn the_parent_is_an_ancestor_and_this_process_is_not() {
        let parent = std::os::unix::process::parent_id();
        for (pid, expected) in [(parent, true), (std::process::id(), false), (0, false)] {
            assert_eq!(is_ancestor(pid), Some(expected), "{pid}");
        }
    }
}
