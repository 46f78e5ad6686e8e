//! The processes below a supervisor, which adopts every orphan among them.
//!
//! Who may be signalled: a child of ours keeps its number until we collect it, so it cannot be mistaken. Anybody
//! deeper is taken hold of first, by a descriptor, and then has to be a child of somebody who is held already and
//! still alive. What is killed in the wrong order becomes our child, so looking again finds it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process};

use super::wait;
use crate::clock::Deadline;
use crate::{fs, owner};

/// More than the numbers of all processes a machine can have.
const LIST_CAP: usize = 64 * 1024 * 1024;
const MOST_PROCESSES: usize = 4_194_304;
const MOST_THREADS: usize = 65_536;
/// Descriptors at a time. Who is beyond that is found when others are gone.
const MOST_HELD: usize = 512;

/// From now on orphans below us become our children, whatever sessions and groups they made.
#[cfg(target_os = "linux")]
pub(super) fn adopt_orphans() {
    // Kernels that cannot do this know no descriptors for processes either; there the group has to do.
    rustix::process::set_child_subreaper(Some(getpid())).ok();
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt_orphans() {}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Below {
    Nobody,
    Somebody,
}

/// Collects every child that has ended, and says whether any is left. Exact: with orphans adopted, whoever is below
/// us is a child of ours or below one.
pub(super) fn reap(mut each: impl FnMut(Pid, WaitStatus)) -> Below {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => each(pid, status),
            Err(Errno::INTR) => {}
            Err(_) => return Below::Nobody,
            Ok(None) => return Below::Somebody,
        }
    }
}

/// Asks everybody below us to end who was not asked before, parents first. Adds them.
///
/// All are found before the first is asked: whose parent ends meanwhile is found no longer where it was.
pub(super) fn ask_to_end(asked: &mut BTreeSet<i32>) {
    for process in below() {
        if asked.insert(number(process.pid)) {
            process.signal(Signal::TERM);
            // Who was stopped hears nothing until it goes on.
            process.signal(Signal::CONT);
        }
    }
}

/// Kills everybody below us whom it finds. Adds them. Children of ours first and at once, lest they are gone, and
/// leave others, before it has looked for those below.
pub(super) fn kill(killed: &mut BTreeSet<i32>) {
    for child in children(getpid()) {
        kill_process(child, Signal::KILL).ok();
        killed.insert(number(child));
    }
    for process in below() {
        process.signal(Signal::KILL);
        killed.insert(number(process.pid));
    }
}

struct Process {
    pid: Pid,
    hold: Hold,
}

enum Hold {
    /// A child of ours.
    Uncollected(Option<OwnedFd>),
    Descriptor(OwnedFd),
}

impl Process {
    /// It fails for who has ended, and for who has become another user.
    fn signal(&self, signal: Signal) {
        match &self.hold {
            Hold::Uncollected(_) => kill_process(self.pid, signal).ok(),
            Hold::Descriptor(descriptor) => send(descriptor, signal).ok(),
        };
    }

    fn descriptor(&self) -> Option<&OwnedFd> {
        match &self.hold {
            Hold::Uncollected(descriptor) => descriptor.as_ref(),
            Hold::Descriptor(descriptor) => Some(descriptor),
        }
    }
}

/// Everybody below us who has not ended, parents before their children.
fn below() -> Vec<Process> {
    let mut found: Vec<_> = children(getpid())
        .into_iter()
        .filter(|pid| stat(*pid).is_some_and(|process| !process.has_ended()))
        .map(|pid| Process { pid, hold: Hold::Uncollected(wait::end_of(pid)) })
        .collect();
    let mut next = 0;
    while let Some(parent) = found.get(next)
        && found.len() < MOST_HELD
    {
        let mut deeper = Vec::new();
        for pid in children(parent.pid) {
            if let Some(descriptor) = wait::end_of(pid)
                && is_child(pid, parent)
            {
                deeper.push(Process { pid, hold: Hold::Descriptor(descriptor) });
            }
        }
        found.extend(deeper);
        next += 1;
    }
    found
}

fn is_child(pid: Pid, parent: &Process) -> bool {
    let is_below = stat(pid).is_some_and(|process| {
        process.parent == number(parent.pid).cast_unsigned() && !process.has_ended()
    });
    let is_alive =
        |parent: &OwnedFd| wait::readable([Some(parent.as_fd())], Duration::ZERO) == [false];
    is_below && parent.descriptor().is_some_and(is_alive)
}

#[cfg(target_os = "linux")]
fn send(process: &OwnedFd, signal: Signal) -> rustix::io::Result<()> {
    rustix::process::pidfd_send_signal(process, signal)
}

#[cfg(not(target_os = "linux"))]
fn send(_: &OwnedFd, _: Signal) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// Kills whoever is in the session of a supervisor that has ended before its time. Until that is collected, the
/// session's number is nobody else's. Who left the session is out of reach then.
///
/// Who is started while we look is missed, so it looks until there is nobody: the dead start nobody.
pub(super) fn kill_session(session: Pid, bound: Deadline) {
    let is_in = |pid: &Pid| {
        stat(*pid).is_some_and(|process| {
            process.session == number(session).cast_unsigned() && !process.has_ended()
        })
    };
    loop {
        let found: Vec<_> = processes().into_iter().filter(is_in).collect();
        for pid in &found {
            kill_process(*pid, Signal::KILL).ok();
        }
        if found.is_empty() || bound.is_over() {
            return;
        }
    }
}

/// The children of a process, as far as they can be seen. It may miss one while others come and go.
fn children(pid: Pid) -> Vec<Pid> {
    let tasks = format!("/proc/{}/task", number(pid));
    let Ok(threads) = fs::list(Path::new(&tasks), MOST_THREADS) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads {
        let list = Path::new(&tasks).join(thread).join("children");
        match fs::read(&list, LIST_CAP) {
            Ok(list) => found.extend(numbers(&list)),
            // A thread that has ended, or a kernel that was built without these lists.
            Err(_) if fs::exists(Path::new("/proc/thread-self/children")) => {}
            Err(_) => return children_by_search(pid),
        }
    }
    found
}

fn numbers(list: &[u8]) -> impl Iterator<Item = Pid> {
    let list = std::str::from_utf8(list).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?))
}

fn children_by_search(parent: Pid) -> Vec<Pid> {
    let is_child = |pid: &Pid| {
        stat(*pid).is_some_and(|process| process.parent == number(parent).cast_unsigned())
    };
    processes().into_iter().filter(is_child).collect()
}

fn processes() -> Vec<Pid> {
    let names = fs::list(Path::new("/proc"), MOST_PROCESSES).unwrap_or_default();
    names.iter().filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?)).collect()
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

fn stat(pid: Pid) -> Option<owner::Stat> {
    owner::process(number(pid).cast_unsigned())
}
