//! Identifies processes by pid and start time, so that a later process with a reused pid is not taken for the original.
//! Also reports which processes are our ancestors.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::fs;
use ralph_core::record::ProcessIdentity;

/// Larger than any `/proc/<pid>/stat`.
const MAX_STAT_BYTES: usize = 4096;
/// Deeper than any real chain of parents. Bounds the walk in case reused pids form a cycle meanwhile.
const MAX_ANCESTORS: usize = 64;

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

/// The pids of our ancestors, nearest first. Without `/proc` only the direct parent is known.
pub fn ancestor_pids() -> impl Iterator<Item = u32> {
    let above = |pid: &u32| Some(read_process_stat(*pid)?.parent).filter(|parent| *parent != 0);
    let parent = Some(std::os::unix::process::parent_id()).filter(|parent| *parent != 0);
    std::iter::successors(parent, above).take(MAX_ANCESTORS)
}

pub fn is_ancestor(pid: u32) -> bool {
    ancestor_pids().any(|ancestor| ancestor == pid)
}

/// Whether that process started us the way a host starts a hook: directly, or through one shell whose command line
/// contains `hook`. `None` if it is not our ancestor or the command line cannot be read.
pub fn is_direct_caller(pid: u32) -> Option<bool> {
    let parent = std::os::unix::process::parent_id();
    if parent == pid {
        return Some(true);
    }
    if !is_ancestor(pid) {
        return None;
    }
    let shell = read_process_stat(parent)?;
    let command_line =
        fs::read(Path::new(&format!("/proc/{parent}/cmdline")), MAX_STAT_BYTES * 4).ok()?;
    Some(shell.parent == pid && memchr::memmem::find(&command_line, b"hook").is_some())
}

enum ProcessLookup {
    Running(ProcessStat),
    /// A process with this pid exists, but nothing else is known about it.
    Unidentified,
    Gone,
}

pub(crate) struct ProcessStat {
    state: u8,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    started: u64,
}

impl ProcessStat {
    /// It is a zombie: it has exited, and its parent has not collected the status yet.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

fn look_up_process(pid: u32) -> ProcessLookup {
    match read_process_stat(pid) {
        // A zombie owns nothing any more.
        Some(process) if process.has_ended() => ProcessLookup::Gone,
        Some(process) => ProcessLookup::Running(process),
        None if !pid_exists(pid) => ProcessLookup::Gone,
        None => ProcessLookup::Unidentified,
    }
}

/// Works without `/proc`, which may be missing or may hide other users' processes.
fn pid_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

pub(crate) fn read_process_stat(pid: u32) -> Option<ProcessStat> {
    let path = format!("/proc/{pid}/stat");
    parse_process_stat(&fs::read(Path::new(&path), MAX_STAT_BYTES).ok()?)
}

/// The program name is in parentheses and may itself contain spaces and parentheses, so fields are counted from the
/// last closing one.
fn parse_process_stat(stat: &[u8]) -> Option<ProcessStat> {
    let fields = &stat[memchr::memrchr(b')', stat)? + 1..];
    let mut fields = std::str::from_utf8(fields).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(ProcessStat { state, parent, session, started })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::testing;

    #[test]
    fn fields_are_counted_after_the_last_parenthesis() {
        let rest = "S 41 6 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 987654 1000 2 3";
        for name in ["sh", "a b", "x) S 1 (y", ")", ""] {
            let process = parse_process_stat(format!("42 ({name}) {rest}\n").as_bytes()).unwrap();
            assert_eq!(
                (process.state, process.parent, process.session, process.started),
                (b'S', 41, 7, 987_654),
                "{name}"
            );
        }
        for broken in ["", "42 (sh", "42 (sh)", "42 (sh) S 41 7", "42 (sh) S x 7"] {
            assert!(parse_process_stat(broken.as_bytes()).is_none(), "{broken}");
        }
    }

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
        let output =
            testing::run_successfully(Path::new("/"), &["sh", "-c", "cat /proc/$$/stat; echo $$"]);
        let text = String::from_utf8(output).unwrap();
        let (stat, pid) = text.trim_end().rsplit_once('\n').unwrap();
        let ended = ProcessIdentity {
            pid: pid.parse().unwrap(),
            started: parse_process_stat(stat.as_bytes()).unwrap().started,
        };
        assert_eq!(check_liveness(&ended), Liveness::Dead);
    }

    #[test]
    fn the_parent_is_an_ancestor_and_this_process_is_not() {
        assert!(is_ancestor(std::os::unix::process::parent_id()));
        assert!(!is_ancestor(std::process::id()));
        assert!(!is_ancestor(0));
        assert!(!is_ancestor(u32::MAX));
    }
}
