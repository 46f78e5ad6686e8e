//! System calls that only Linux has.

use std::ffi::CStr;
use std::fs::{File, Permissions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{
    CWD, FileType, MemfdFlags, Mode, OFlags, RawDir, RenameFlags, memfd_create, renameat_with,
};
use rustix::net::{SendFlags, send};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::rand::{GetRandomFlags, getrandom};

/// Size of the buffer for the entries that one system call returns.
const DIR_BUFFER_BYTES: usize = 32 * 1024;

/// File systems known to update a directory's times whenever a name in it is added, removed or renamed: ext, XFS,
/// Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs.
const FILESYSTEMS_WITH_RELIABLE_DIR_TIMES: [i64; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
];

/// From now on, orphaned descendants become our children, whatever sessions and groups they created.
#[expect(clippy::unnecessary_wraps, reason = "other systems refuse")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // Kernels without this lack process descriptors too; there we rely on the process group.
    rustix::process::set_child_subreaper(Some(getpid())).ok();
    Ok(())
}

/// Makes the system kill this process when its parent exits.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// A descriptor that becomes readable when the process exits. Without one we have to poll.
pub(crate) fn exit_descriptor(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Signals the process of an [`exit_descriptor`], and never another one that got its pid.
pub(crate) fn signal_process(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    Ok(pidfd_send_signal(process, signal)?)
}

/// Sends as much as the socket accepts without waiting. If the peer has exited, returns an error instead of raising
/// SIGPIPE.
pub(crate) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Makes room for `size` bytes in a pipe, if the system allows it.
pub(crate) fn enlarge_pipe(pipe: impl AsFd, size: usize) {
    if fcntl_getpipe_size(&pipe).is_ok_and(|now| now < size) {
        // The kernel refuses large pipes or too many of them. Then a file is used instead.
        fcntl_setpipe_size(&pipe, size).ok();
    }
}

/// A file without a name that holds `bytes`, open for reading from the start.
pub(crate) fn write_to_unnamed_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Calls `each` with every name in an open directory, and with its type as far as the listing includes it.
pub(crate) fn visit_dir_entries(
    directory: &OwnedFd,
    mut each: impl FnMut(&CStr, FileType),
) -> io::Result<()> {
    let mut room = Vec::with_capacity(DIR_BUFFER_BYTES);
    let mut entries = RawDir::new(directory, room.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        each(entry.file_name(), entry.file_type());
    }
    Ok(())
}

/// Whether this file system updates a directory's times with every change to its names, so that unchanged times prove
/// unchanged names.
pub(crate) fn has_reliable_dir_times(directory: &OwnedFd) -> bool {
    rustix::fs::fstatfs(directory)
        .is_ok_and(|found| FILESYSTEMS_WITH_RELIABLE_DIR_TIMES.contains(&found.f_type))
}

/// Gives the owner full access to a directory, even one that may not be opened for reading. The mode is changed through
/// an open descriptor, so that a link that takes the directory's place is harmless.
pub(crate) fn make_dir_accessible(directory: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Renames a file; fails if `to` exists.
pub(crate) fn rename_without_replacing(from: &Path, to: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

/// Fills `bytes` from the system's random number generator.
pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let filled = getrandom(&mut *bytes, GetRandomFlags::empty())?;
    if filled == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A descriptor that becomes readable when an entry of a watched directory changes.
pub(crate) fn open_directory_notifier() -> Option<OwnedFd> {
    inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()
}

/// Adds a directory. Returns the descriptor of the watch, which is the same if the directory is watched already.
pub(crate) fn watch_directory(notifier: &OwnedFd, directory: &Path) -> io::Result<i32> {
    let changes = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MODIFY
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ONLYDIR;
    Ok(inotify::add_watch(notifier, directory, changes)?)
}

pub(crate) fn unwatch_directory(notifier: &OwnedFd, watch: i32) {
    // Fails if the directory is gone, which ends its watch too.
    inotify::remove_watch(notifier, watch).ok();
}

/// Makes the notifier unreadable until the next change.
pub(crate) fn discard_directory_events(notifier: &OwnedFd) {
    let mut buffer = [0; 16 * 1024];
    while matches!(rustix::io::read(notifier, &mut buffer), Ok(1..)) {}
}
