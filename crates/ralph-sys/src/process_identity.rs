//! Identifies processes by pid and start time, so that a later process with a reused pid is not taken for the original.
//! Also reports which processes are our ancestors.

use crate::os::{self, ProcessStat};
use crate::proc::supervisor::SUPERVISOR_ARGUMENT;
use ralph_core::record::ProcessIdentity;

/// The pid of the first process of a machine, or of a namespace of processes.
const FIRST_PID: u32 = 1;

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

/// The process that started a hook, compared with the client that the event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookCaller {
    /// The client itself, directly or through one shell whose command line contains `hook`; or a simulator, which starts
    /// hooks itself and names a decoy.
    Client,
    OtherProcess,
    /// The system does not show enough processes to know.
    Hidden,
}

/// The pids of our ancestors, nearest first; `None` unless the system shows all of them.
pub fn ancestor_pids() -> Option<Vec<u32>> {
    let chain = os::ancestor_chain();
    chain.is_complete.then_some(chain.pids)
}

/// The client and the processes above it, nearest first; for a decoy, the simulator in place of the client. `None` if the
/// system does not show all of them, or if the client is not above us.
pub fn client_and_ancestors(client: u32) -> Option<Vec<u32>> {
    let first =
        if is_supervisor_or_decoy(client) { os::read_process_stat(client)?.parent } else { client };
    let mut pids = ancestor_pids()?;
    let start = pids.iter().position(|pid| *pid == first)?;
    Some(pids.split_off(start))
}

/// `None` if it cannot be known.
pub fn is_ancestor(process: &ProcessIdentity) -> Option<bool> {
    let is_found = is_ancestor_pid(process.pid)?;
    (is_found || is_in_view(process)).then_some(is_found)
}

/// Whether the process would be visible to us if it still ran. A process that is older than the first process of our
/// view belongs to an outer namespace of processes: its pid means another process here, or none.
fn is_in_view(process: &ProcessIdentity) -> bool {
    os::read_process_stat(FIRST_PID).is_some_and(|first| is_of_namespace(process, first.started))
}

/// A process without a known start time may be of any age.
fn is_of_namespace(process: &ProcessIdentity, first_started: u64) -> bool {
    process.started == 0 || process.started >= first_started
}

pub fn identify_hook_caller(client: u32) -> HookCaller {
    let parent = std::os::unix::process::parent_id();
    if parent == client || is_supervisor_or_decoy(client) {
        return HookCaller::Client;
    }
    match is_ancestor_pid(client) {
        None => HookCaller::Hidden,
        Some(false) => HookCaller::OtherProcess,
        Some(true) => match (os::read_process_stat(parent), os::read_command_line(parent)) {
            (Some(shell), Some(line))
                if shell.parent == client && memchr::memmem::find(&line, b"hook").is_some() =>
            {
                HookCaller::Client
            }
            (Some(_), Some(_)) => HookCaller::OtherProcess,
            (None, _) | (_, None) => HookCaller::Hidden,
        },
    }
}

fn is_ancestor_pid(pid: u32) -> Option<bool> {
    if pid != 0 && pid == std::os::unix::process::parent_id() {
        return Some(true);
    }
    let chain = os::ancestor_chain();
    let is_found = chain.pids.contains(&pid);
    (is_found || chain.is_complete).then_some(is_found)
}

/// The simulator hands out the pid of a [decoy](crate::proc::decoy) as the client's. Supervisors of gates look the same,
/// so this is no protection against a caller that names one.
fn is_supervisor_or_decoy(pid: u32) -> bool {
    let decoy = SUPERVISOR_ARGUMENT.as_bytes();
    os::read_command_line(pid)
        .is_some_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(decoy))
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
        None if !os::pid_exists(pid) => ProcessLookup::Gone,
        None => ProcessLookup::Unidentified,
    }
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
            let process = ProcessIdentity { pid, started: 0 };
            assert_eq!(is_ancestor(&process), Some(expected), "{pid}");
        }
    }

    #[test]
    fn a_process_older_than_the_first_one_is_out_of_view() {
        for (started, expected) in [(0, true), (99, false), (100, true), (101, true)] {
            let process = ProcessIdentity { pid: 7, started };
            assert_eq!(is_of_namespace(&process, 100), expected, "{started}");
        }
    }
}
