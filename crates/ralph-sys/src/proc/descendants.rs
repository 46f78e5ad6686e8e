//! Finds and signals the descendants of a supervisor, which adopts every orphan among them.
//!
//! A signal must never reach an unrelated process with a reused pid. A child of ours keeps its pid until we reap it, so
//! it is safe. For a deeper descendant we open a process descriptor first, then check that it is a child of a process
//! that we already hold and that is still alive. A descendant that loses its parent meanwhile becomes our child, so the
//! next search finds it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process};

use super::wait;
use crate::clock::Deadline;
use crate::os::{self, ProcessStat};

/// Maximum number of open process descriptors. Processes beyond it are found once others have ended.
const MAX_HELD_DESCRIPTORS: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DescendantsLeft {
    NoneLeft,
    SomeLeft,
}

/// Reaps every child that has exited and returns whether any descendant is left. This is exact: with orphans adopted,
/// every descendant is below one of our children.
pub(super) fn reap_children(mut each: impl FnMut(Pid, WaitStatus)) -> DescendantsLeft {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => each(pid, status),
            Err(Errno::INTR) => {}
            Err(_) => return DescendantsLeft::NoneLeft,
            Ok(None) => return DescendantsLeft::SomeLeft,
        }
    }
}

/// Sends SIGTERM to every descendant that is not yet in `asked`, parents first, and adds it.
///
/// All descendants are found before the first signal, because a process whose parent exits moves in the tree.
pub(super) fn terminate_descendants(asked: &mut BTreeSet<i32>) {
    for process in find_descendants() {
        if asked.insert(raw_pid(process.pid)) {
            process.signal(Signal::TERM);
            // A stopped process handles SIGTERM only once it continues.
            process.signal(Signal::CONT);
        }
    }
}

/// Sends SIGKILL to every descendant it finds and adds it to `killed`. Direct children come first, before the search
/// for deeper ones, so that they have less time to fork and exit.
pub(super) fn kill_descendants(killed: &mut BTreeSet<i32>) {
    for child in os::child_pids(getpid()) {
        kill_process(child, Signal::KILL).ok();
        killed.insert(raw_pid(child));
    }
    for process in find_descendants() {
        process.signal(Signal::KILL);
        killed.insert(raw_pid(process.pid));
    }
}

struct Descendant {
    pid: Pid,
    handle: DescendantHandle,
}

enum DescendantHandle {
    /// A child of ours.
    OwnChild(Option<OwnedFd>),
    Descriptor(OwnedFd),
}

impl Descendant {
    /// Fails, silently, if the process exited or changed user.
    fn signal(&self, signal: Signal) {
        match &self.handle {
            DescendantHandle::OwnChild(_) => kill_process(self.pid, signal).ok(),
            DescendantHandle::Descriptor(descriptor) => os::signal_process(descriptor, signal).ok(),
        };
    }

    fn descriptor(&self) -> Option<&OwnedFd> {
        match &self.handle {
            DescendantHandle::OwnChild(descriptor) => descriptor.as_ref(),
            DescendantHandle::Descriptor(descriptor) => Some(descriptor),
        }
    }
}

/// All running descendants, parents before their children.
fn find_descendants() -> Vec<Descendant> {
    let mut found: Vec<_> = os::child_pids(getpid())
        .into_iter()
        .filter(|pid| process_stat(*pid).is_some_and(|process| !process.has_ended))
        .map(|pid| Descendant { pid, handle: DescendantHandle::OwnChild(os::exit_descriptor(pid)) })
        .collect();
    let mut next = 0;
    while let Some(parent) = found.get(next)
        && found.len() < MAX_HELD_DESCRIPTORS
    {
        let mut deeper = Vec::new();
        for pid in os::child_pids(parent.pid) {
            if let Some(descriptor) = os::exit_descriptor(pid)
                && is_running_child(pid, parent)
            {
                deeper.push(Descendant { pid, handle: DescendantHandle::Descriptor(descriptor) });
            }
        }
        found.extend(deeper);
        next += 1;
    }
    found
}

fn is_running_child(pid: Pid, parent: &Descendant) -> bool {
    let is_below = process_stat(pid).is_some_and(|process| {
        process.parent == raw_pid(parent.pid).cast_unsigned() && !process.has_ended
    });
    let is_alive =
        |parent: &OwnedFd| wait::wait_readable([Some(parent.as_fd())], Duration::ZERO) == [false];
    is_below && parent.descriptor().is_some_and(is_alive)
}

/// Kills all processes in the session of a supervisor that died. Until the supervisor is reaped, the session id cannot
/// be reused. Processes that left the session cannot be found.
///
/// A search misses processes that start meanwhile, so it is repeated until it finds none.
pub(super) fn kill_session(session: Pid, bound: Deadline) {
    let is_in = |pid: &Pid| {
        process_stat(*pid).is_some_and(|process| {
            process.session == raw_pid(session).cast_unsigned() && !process.has_ended
        })
    };
    loop {
        let found: Vec<_> = os::all_pids().unwrap_or_default().into_iter().filter(is_in).collect();
        for pid in &found {
            kill_process(*pid, Signal::KILL).ok();
        }
        if found.is_empty() || bound.has_passed() {
            return;
        }
    }
}

fn raw_pid(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

fn process_stat(pid: Pid) -> Option<ProcessStat> {
    os::read_process_stat(raw_pid(pid).cast_unsigned())
}
