//! Which process owns something, told apart from a later one with the same number.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::fs;
use ralph_core::record::Process;

/// More than any `/proc/<pid>/stat`.
const STAT_CAP: usize = 4096;
/// Deeper than any honest chain of parents; numbers can be reused while we walk.
const MOST_PARENTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alive {
    Yes,
    No,
    /// Some process has this number; whether it is the same one cannot be told.
    Unknown,
}

/// The mark of a running process; `None` when there is none with this number.
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

/// Who started us, directly or through others. Without `/proc` only the direct parent is known.
pub fn ancestors() -> impl Iterator<Item = u32> {
    let above = |pid: &u32| Some(process(*pid)?.parent).filter(|parent| *parent != 0);
    let parent = Some(std::os::unix::process::parent_id()).filter(|parent| *parent != 0);
    std::iter::successors(parent, above).take(MOST_PARENTS)
}

pub fn is_ancestor(pid: u32) -> bool {
    ancestors().any(|ancestor| ancestor == pid)
}

/// Whether that process started us in the way in which a host starts a hook: itself, or by one shell that was told our
/// name. `None` when it is no ancestor of ours, or nothing tells.
pub fn is_direct(pid: u32) -> Option<bool> {
    let parent = std::os::unix::process::parent_id();
    if parent == pid {
        return Some(true);
    }
    if !is_ancestor(pid) {
        return None;
    }
    let shell = process(parent)?;
    let said = fs::read(Path::new(&format!("/proc/{parent}/cmdline")), STAT_CAP * 4).ok()?;
    Some(shell.parent == pid && memchr::memmem::find(&said, b"hook").is_some())
}

enum Look {
    Running(Stat),
    /// Somebody has this number, and nothing else is known.
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
    /// It has ended, and only its parent has not yet been told.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

fn look(pid: u32) -> Look {
    match process(pid) {
        // A zombie holds nothing any more.
        Some(process) if process.has_ended() => Look::Gone,
        Some(process) => Look::Running(process),
        None if !answers_signals(pid) => Look::Gone,
        None => Look::Present,
    }
}

/// Asks without `/proc`, which may be absent or hide the processes of others.
fn answers_signals(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

pub(crate) fn process(pid: u32) -> Option<Stat> {
    let path = format!("/proc/{pid}/stat");
    parse(&fs::read(Path::new(&path), STAT_CAP).ok()?)
}

/// The program's name, in parentheses, may itself contain spaces and parentheses: fields count from the last one.
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
    fn we_are_alive_and_an_earlier_holder_of_our_number_is_not() {
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
    fn a_process_that_ended_is_gone() {
        let output = testing::succeed(Path::new("/"), &["sh", "-c", "cat /proc/$$/stat; echo $$"]);
        let text = String::from_utf8(output).unwrap();
        let (stat, pid) = text.trim_end().rsplit_once('\n').unwrap();
        let ended =
            Process { pid: pid.parse().unwrap(), started: parse(stat.as_bytes()).unwrap().started };
        assert_eq!(is_alive(&ended), Alive::No);
    }

    #[test]
    fn parents_are_ancestors_and_we_are_not_our_own() {
        assert!(is_ancestor(std::os::unix::process::parent_id()));
        assert!(!is_ancestor(std::process::id()));
        assert!(!is_ancestor(0));
        assert!(!is_ancestor(u32::MAX));
    }
}
