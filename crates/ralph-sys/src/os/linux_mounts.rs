//! Mount namespaces: directories that one process and its descendants see in place of others.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use crate::proc::private_mounts::{OverlayMount, PrivateMounts};

/// Gives this process a mount namespace of its own and mounts everything. The process must have one thread.
pub(crate) fn enter_private_mounts(mounts: &PrivateMounts) -> io::Result<()> {
    let users = unshare_mounts()?;
    // Nothing that is mounted from here on appears outside.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for overlay in &mounts.overlays {
        mount_overlay(overlay, users)?;
    }
    for bind in &mounts.binds {
        mount_bind_recursive(&bind.source, &bind.at)?;
    }
    Ok(())
}

/// The user namespace of the mounts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UserNamespace {
    Shared,
    /// Needed to mount anything without privileges. The process keeps its own user and group in it.
    Own,
}

fn unshare_mounts() -> io::Result<UserNamespace> {
    if unshare(UnshareFlags::NEWNS).is_ok() {
        return Ok(UserNamespace::Shared);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    write_process_file("setgroups", "deny")?;
    write_process_file("uid_map", &format!("{user} {user} 1"))?;
    write_process_file("gid_map", &format!("{group} {group} 1"))?;
    Ok(UserNamespace::Own)
}

#[expect(deprecated, reason = "it is unsafe only for file descriptors, which stay shared here")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

#[expect(clippy::disallowed_methods, reason = "the kernel takes each of these files in one write")]
fn write_process_file(name: &str, text: &str) -> io::Result<()> {
    fs::write(Path::new("/proc/self").join(name), text)
}

fn mount_overlay(overlay: &OverlayMount, users: UserNamespace) -> io::Result<()> {
    // Jobs that run at the same time must not share these directories.
    let own = overlay.changes.join(std::process::id().to_string());
    let (upper, work) = (own.join("upper"), own.join("work"));
    for directory in [&upper, &work] {
        fs::create_dir_all(directory)?;
    }
    let [lower, upper, work] = [&*overlay.original, &*upper, &*work].map(open_layer);
    let (lower, upper, work) = (lower?, upper?, work?);
    let [lowerdir, upperdir, workdir] = [&lower, &upper, &work].map(layer_name);
    let mut options = format!("lowerdir={lowerdir},upperdir={upperdir},workdir={workdir}");
    if users == UserNamespace::Own {
        options.push_str(",userxattr");
    }
    let options = std::ffi::CString::new(options)?;
    Ok(mount("overlay", &overlay.at, "overlay", MountFlags::empty(), Some(&*options))?)
}

fn open_layer(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Names a directory by its descriptor: commas, colons and backslashes have a meaning in the options of an overlay, and
/// all options together must fit into one page.
fn layer_name(layer: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", layer.as_raw_fd())
}
