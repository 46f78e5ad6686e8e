//! What each operating system does in its own way, one file per system. The rest of this crate calls these functions only.
//!
//! Functions are named for what is needed. Where a system cannot do or know it, they fail or return `None`; they never
//! assume. A port adds one file here, and replaces refusals of `other` one by one.

mod desktop;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
pub(crate) use {linux::*, procfs::*};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

pub use desktop::desktop_notifier;

/// A process as the system lists it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// It has exited, and its parent has not collected the status yet.
    pub(crate) has_ended: bool,
    /// 0 if it has none.
    pub(crate) parent: u32,
    pub(crate) session: u32,
    /// Distinguishes processes that have the same pid one after another.
    pub(crate) started: u64,
}
