//! Identifies processes by pid and start time, so that a later process with a reused pid is not taken for the original.
//! Also reports which processes are our ancestors.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::fs;
use ralph_core::record::Process;

/// Larger than any `/proc/<pid>/stat`.
const STAT_CAP: usize = 4096;
/// Deeper than any real chain of parents. Bounds the walk in case reused pids form a cycle meanwhile.
const MOST_PARENTS: usize = 64;

/// Whether an identified process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alive {
    Yes,
    No,
    /// A process with this pid exists, but it may be a different one.
    Unknown,
}

/// The pid and start time of a running process; `None` if no process has this pid. The start time is 0 if unknown.
pub fn mark(pid: u32) -> Option<Process> {
    match look(pid) {
        Look::Running(process) => Some(Process { pid, started: process.started }),
        Look::Present => Some(Process { pid, started: 0 }),
        Look::Gone => None,
    }
}

pub fn is_alive(mark: &Process) -> Alive {
    match look(mark.pid) {
        Look::Gone => Alive::No,
        Look::Running(process) if mark.started == process.started => Alive::Yes,
        Look::Running(_) if mark.started != 0 => Alive::No,
        Look::Running(_) | Look::Present => Alive::Unknown,
    }
}

/// The pids of our ancestors, nearest first. Without `/proc` only the direct parent is known.
pub fn ancestors() -> impl Iterator<Item = u32> {
    let above = |pid: &u32| Some(process(*pid)?.parent).filter(|parent| *parent != 0);
    let parent = Some(std::os::unix::process::parent_id()).filter(|parent| *parent != 0);
    std::iter::successors(parent, above).take(MOST_PARENTS)
}

pub fn is_ancestor(pid: u32) -> bool {
    ancestors().any(|ancestor| ancestor == pid)
}

/// Whether that process started us the way a host starts a hook: directly, or through one shell whose command line
/// contains `hook`. `None` if it is not our ancestor or the command line cannot be read.
pub fn is_direct(pid: u32) -> Option<bool> {
    let parent = std::os::unix::process::parent_id();
    if parent == pid {
        return Some(true);
    }
    if !is_ancestor(pid) {
        return None;
    }
    let shell = process(parent)?;
    let command_line =
        fs::read(Path::new(&format!("/proc/{parent}/cmdline")), STAT_CAP * 4).ok()?;
    Some(shell.parent == pid && memchr::memmem::find(&command_line, b"hook").is_some())
}

enum Look {
    Running(Stat),
    /// A process with this pid exists, but nothing else is known about it.
    Present,
    Gone,
}

pub(crate) struct Stat {
    state: u8,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    started: u64,
}

impl Stat {
    /// It is a zombie: it has exited, and its parent has not collected the status yet.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

fn look(pid: u32) -> Look {
    match process(pid) {
        // A zombie owns nothing any more.
        Some(process) if process.has_ended() => Look::Gone,
        Some(process) => Look::Running(process),
        None if !answers_signals(pid) => Look::Gone,
        None => Look::Present,
    }
}

/// Works without `/proc`, which may be missing or may hide other users' processes.
fn answers_signals(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

pub(crate) fn process(pid: u32) -> Option<Stat> {
    let path = format!("/proc/{pid}/stat");
    parse(&fs::read(Path::new(&path), STAT_CAP).ok()?)
}

/// The program name is in parentheses and may itself contain spaces and parentheses, so fields are counted from the
/// last closing one.
fn parse(stat: &[u8]) -> Option<Stat> {
    let fields = &stat[memchr::memrchr(b')', stat)? + 1..];
    let mut fields = std::str::from_utf8(fields).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(Stat { state, parent, session, started })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::testing;

    #[test]
    fn fields_are_counted_after_the_last_parenthesis() {
        let rest = "S 41 6 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 987654 1000 2 3";
        for name in ["sh", "a b", "x) S 1 (y", ")", ""] {
            let process = parse(format!("42 ({name}) {rest}\n").as_bytes()).unwrap();
            assert_eq!(
                (process.state, process.parent, process.session, process.started),
                (b'S', 41, 7, 987_654),
                "{name}"
            );
        }
        for broken in ["", "42 (sh", "42 (sh)", "42 (sh) S 41 7", "42 (sh) S x 7"] {
            assert!(parse(broken.as_bytes()).is_none(), "{broken}");
        }
    }

    #[test]
    fn this_process_is_alive_and_an_earlier_one_with_its_pid_is_not() {
        let us = mark(std::process::id()).unwrap();
        for (started, expected) in
            [(us.started, Alive::Yes), (us.started + 1, Alive::No), (0, Alive::Unknown)]
        {
            let mark = Process { started, ..us };
            assert_eq!(is_alive(&mark), expected, "{started}");
        }
        for pid in [0, u32::MAX] {
            assert_eq!(mark(pid), None);
            assert_eq!(is_alive(&Process { pid, started: 1 }), Alive::No);
        }
    }

    #[test]
    fn an_exited_process_is_not_alive() {
        let output = testing::succeed(Path::new("/"), &["sh", "-c", "cat /proc/$$/stat; echo $$"]);
        let text = String::from_utf8(output).unwrap();
        let (stat, pid) = text.trim_end().rsplit_once('\n').unwrap();
        let ended =
            Process { pid: pid.parse().unwrap(), started: parse(stat.as_bytes()).unwrap().started };
        assert_eq!(is_alive(&ended), Alive::No);
    }

    #[test]
    fn the_parent_is_an_ancestor_and_this_process_is_not() {
        assert!(is_ancestor(std::os::unix::process::parent_id()));
        assert!(!is_ancestor(std::process::id()));
        assert!(!is_ancestor(0));
        assert!(!is_ancestor(u32::MAX));
    }
}
