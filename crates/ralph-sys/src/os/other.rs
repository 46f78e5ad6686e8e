//! Systems that ralph has not been ported to. Each function refuses what it cannot do: an unknown process is never taken
//! for a known one, and a command whose processes could escape is not started.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::{AncestorChain, ProcessStat};
use crate::proc::private_mounts::PrivateMounts;

pub(crate) fn own_executable() -> PathBuf {
    // A path that cannot be known cannot be started either, which the caller reports.
    std::env::current_exe().unwrap_or_default()
}

pub(crate) fn read_process_stat(_: u32) -> Option<ProcessStat> {
    None
}

pub(crate) fn read_command_line(_: u32) -> Option<Vec<u8>> {
    None
}

pub(crate) fn read_environment(_: u32) -> Option<Vec<u8>> {
    None
}

pub(crate) fn ancestor_chain() -> AncestorChain {
    AncestorChain { pids: Vec::new(), is_complete: false }
}

pub(crate) fn child_pids(_: Pid) -> Vec<Pid> {
    Vec::new()
}

pub(crate) fn all_pids() -> Option<Vec<Pid>> {
    None
}

pub(crate) fn ignored_signal_mask() -> Option<u64> {
    None
}

pub(crate) fn is_dying(_: u32) -> Option<bool> {
    None
}

pub(crate) fn enter_private_mounts(_: &PrivateMounts) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn adopt_orphans() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn die_with_parent() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn exit_descriptor(_: Pid) -> Option<OwnedFd> {
    None
}

pub(crate) fn signal_process(_: &OwnedFd, _: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not every system can suppress SIGPIPE when the peer has exited.
pub(crate) fn send_now(_: BorrowedFd<'_>, _: &[u8]) -> rustix::io::Result<usize> {
    Err(Errno::NOSYS)
}

pub(crate) fn enlarge_pipe(_: impl AsFd, _: usize) {}

pub(crate) fn write_to_unnamed_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = crate::fs::create_unnamed_file(Path::new("/tmp"), bytes);
    Ok(file.map_err(io::Error::other)?.into())
}

pub(crate) fn visit_dir_entries(
    directory: &OwnedFd,
    mut each: impl FnMut(&CStr, FileType),
) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        each(entry.file_name(), entry.file_type());
    }
    Ok(())
}

pub(crate) fn has_reliable_dir_times(_: &OwnedFd) -> bool {
    false
}

pub(crate) fn make_dir_accessible(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The caller falls back to a hard link, which does not replace either.
pub(crate) fn rename_without_replacing(_: &Path, _: &Path) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

pub(crate) fn fill_random(_: &mut [u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Without one, the caller polls.
pub(crate) fn open_directory_notifier() -> Option<OwnedFd> {
    None
}

pub(crate) fn watch_directory(_: &OwnedFd, _: &Path) -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn unwatch_directory(_: &OwnedFd, _: i32) {}

pub(crate) fn discard_directory_events(_: &OwnedFd) {}
