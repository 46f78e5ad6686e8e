//! What Linux tells about processes in `/proc`, which may be missing or hide other users' processes.

use std::path::{Path, PathBuf};

use rustix::fs::PROC_SUPER_MAGIC;
use rustix::process::{Pid, getppid};

use super::{AncestorChain, ProcessStat};
use crate::fs;

/// Larger than any `/proc/<pid>/stat`.
const MAX_STAT_BYTES: usize = 4096;
const MAX_STATUS_BYTES: usize = 64 * 1024;
/// More than the system passes to any program, as arguments or as variables.
const MAX_ARGUMENT_BYTES: usize = 8 << 20;
/// Larger than a list of all pids that a machine can have.
const MAX_PID_LIST_BYTES: usize = 64 * 1024 * 1024;
const MAX_PROCESSES: usize = 4_194_304;
const MAX_THREADS: usize = 65_536;
/// Deeper than any real chain of parents. Bounds the walk in case reused pids form a cycle meanwhile.
const MAX_ANCESTORS: usize = 64;
/// How often the walk starts again because a parent exited meanwhile.
const MAX_WALKS: usize = 8;
/// The signal mask of SIGHUP, SIGINT, SIGKILL and SIGTERM.
const FATAL_SIGNAL_MASK: u64 = 1 | 1 << 1 | 1 << 8 | 1 << 14;

/// A path to the running executable that stays valid when the file is replaced on disk.
pub(crate) fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// `None` if no process has this pid, or if it is hidden from us.
pub(crate) fn read_process_stat(pid: u32) -> Option<ProcessStat> {
    parse_process_stat(pid, &read_file_of(pid, "stat", MAX_STAT_BYTES)?)
}

/// The arguments of a process, each followed by a zero byte.
pub(crate) fn read_command_line(pid: u32) -> Option<Vec<u8>> {
    read_file_of(pid, "cmdline", MAX_ARGUMENT_BYTES)
}

/// The variables a process was started with, as `NAME=value`, each followed by a zero byte.
pub(crate) fn read_environment(pid: u32) -> Option<Vec<u8>> {
    read_file_of(pid, "environ", MAX_ARGUMENT_BYTES)
}

/// Our ancestors, nearest first. The chain is complete only if a real `/proc` shows each of them up to the first process,
/// and there are at most [`MAX_ANCESTORS`]: otherwise a process could hide behind a long chain of shells.
pub(crate) fn ancestor_chain() -> AncestorChain {
    let is_real = rustix::fs::statfs("/proc").is_ok_and(|proc| proc.f_type == PROC_SUPER_MAGIC);
    if !is_real {
        return AncestorChain { pids: Vec::new(), is_complete: false };
    }
    let mut walks = std::iter::repeat_with(walk_ancestors).take(MAX_WALKS);
    walks.find_map(Result::ok).unwrap_or(AncestorChain { pids: Vec::new(), is_complete: false })
}

/// A process of the chain exited, so that the rest of the chain is another one now.
struct ParentExited;

fn walk_ancestors() -> Result<AncestorChain, ParentExited> {
    let mut pids = Vec::new();
    let mut pid = std::process::id();
    loop {
        let Some(process) = read_process_stat(pid) else {
            let is_hidden = super::pid_exists(pid);
            return is_hidden
                .then_some(AncestorChain { pids, is_complete: false })
                .ok_or(ParentExited);
        };
        let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get().cast_unsigned());
        if pids.is_empty() && process.parent != parent {
            return Err(ParentExited);
        }
        if process.parent == 0 {
            return Ok(AncestorChain { pids, is_complete: true });
        }
        if pids.len() == MAX_ANCESTORS {
            return Ok(AncestorChain { pids, is_complete: false });
        }
        pid = process.parent;
        pids.push(pid);
    }
}

/// The children of a process. May miss some while processes start and exit.
pub(crate) fn child_pids(pid: Pid) -> Vec<Pid> {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let Ok(threads) = fs::list(Path::new(&tasks), MAX_THREADS) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads {
        let list = Path::new(&tasks).join(thread).join("children");
        match fs::read(&list, MAX_PID_LIST_BYTES) {
            Ok(list) => found.extend(parse_pids(&list)),
            // The thread has exited. If `children` files do not exist at all, the kernel was built without them.
            Err(_) if fs::exists(Path::new("/proc/thread-self/children")) => {}
            Err(_) => return child_pids_by_search(pid),
        }
    }
    found
}

fn parse_pids(list: &[u8]) -> impl Iterator<Item = Pid> {
    list.split(u8::is_ascii_whitespace).filter_map(|number| parse_pid(str::from_utf8(number).ok()?))
}

fn parse_pid(number: &str) -> Option<Pid> {
    Pid::from_raw(number.parse().ok()?)
}

fn child_pids_by_search(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get().cast_unsigned();
    let mut pids = all_pids().unwrap_or_default();
    pids.retain(|pid| {
        let pid = pid.as_raw_nonzero().get().cast_unsigned();
        read_process_stat(pid).is_some_and(|process| process.parent == parent)
    });
    pids
}

/// All processes that are visible to us.
pub(crate) fn all_pids() -> Option<Vec<Pid>> {
    let names = fs::list(Path::new("/proc"), MAX_PROCESSES).ok()?;
    Some(names.iter().filter_map(|name| parse_pid(name.to_str()?)).collect())
}

/// The mask of signals that this process ignores.
pub(crate) fn ignored_signal_mask() -> Option<u64> {
    parse_mask(&read_status("self")?, "SigIgn:")
}

/// Whether a process has been sent a fatal signal that takes effect in a moment.
pub(crate) fn is_dying(pid: u32) -> Option<bool> {
    read_status(&pid.to_string()).map(|status| shows_death(&status))
}

/// A pending fatal signal, or no memory any more.
fn shows_death(status: &str) -> bool {
    let is_sent = |name| parse_mask(status, name).is_some_and(|mask| mask & FATAL_SIGNAL_MASK != 0);
    is_sent("SigPnd:") || is_sent("ShdPnd:") || status_field(status, "VmRSS:").is_none()
}

fn parse_mask(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(status_field(status, name)?, 16).ok()
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn read_status(process: &str) -> Option<String> {
    let path = PathBuf::from(format!("/proc/{process}/status"));
    let status = fs::read(&path, MAX_STATUS_BYTES).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

fn read_file_of(pid: u32, name: &str, cap: usize) -> Option<Vec<u8>> {
    fs::read(Path::new(&format!("/proc/{pid}/{name}")), cap).ok()
}

/// The program name is in parentheses and may itself contain spaces and parentheses, so fields are counted from the
/// last closing one.
///
/// The text begins with the pid. Another pid means that something else is mounted over the process's directory.
fn parse_process_stat(pid: u32, stat: &[u8]) -> Option<ProcessStat> {
    stat.strip_prefix(format!("{pid} (").as_bytes())?;
    let fields = &stat[memchr::memrchr(b')', stat)? + 1..];
    let mut fields = str::from_utf8(fields).ok()?.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?.as_bytes().first()?, b'Z' | b'X');
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(ProcessStat { has_ended, parent, session, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_last_parenthesis() {
        let rest = "41 6 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 987654 1000 2 3";
        for name in ["sh", "a b", "x) S 1 (y", ")", ""] {
            for (state, has_ended) in [("S", false), ("Z", true)] {
                let stat = format!("42 ({name}) {state} {rest}\n");
                let expected = ProcessStat { has_ended, parent: 41, session: 7, started: 987_654 };
                assert_eq!(parse_process_stat(42, stat.as_bytes()), Some(expected), "{stat}");
                assert!(parse_process_stat(4, stat.as_bytes()).is_none(), "{stat}");
            }
        }
        for broken in ["", "42 (sh", "42 (sh)", "42 (sh) S 41 7", "42 (sh) S x 7"] {
            assert!(parse_process_stat(42, broken.as_bytes()).is_none(), "{broken}");
        }
    }

    #[test]
    fn the_mask_of_ignored_signals_is_parsed() {
        let status = "Name:\tralph\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000000003\n";
        assert_eq!(parse_mask(status, "SigIgn:"), Some(3));
        assert_eq!(parse_mask("Name:\tralph\n", "SigIgn:"), None);
        assert_eq!(parse_mask("SigIgn:\tx\n", "SigIgn:"), None);
        assert!(ignored_signal_mask().is_some());
    }

    #[test]
    fn a_killed_process_is_detected_before_it_is_dead() {
        let alive = "Name:\tralph\nState:\tS (sleeping)\nVmRSS:\t    2000 kB\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
        for (changed, expected) in [
            (alive.to_owned(), false),
            (alive.replace("SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100"), true),
            (alive.replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000004000"), true),
            (alive.replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000010000"), false),
            ("Name:\tralph\nState:\tZ (zombie)\n".to_owned(), true),
        ] {
            assert_eq!(shows_death(&changed), expected, "{changed}");
        }
        assert_eq!(is_dying(std::process::id()), Some(false));
        assert_eq!(is_dying(u32::MAX), None);
    }
}
