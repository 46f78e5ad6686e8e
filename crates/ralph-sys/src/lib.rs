//! Access to the operating system: files, processes, the clock and the environment.
//!
//! All other crates go through here. The parts that differ between systems (`/proc`, pidfds, subreapers) are in `os`,
//! one file per system, behind functions that are named for the need, so a port to another system changes only that
//! directory.

pub mod clock;
pub mod env;
pub mod fs;
mod os;
pub mod parallel;
pub mod proc;
pub mod process_identity;
pub mod stdin;
pub mod stdio;
pub mod tail;
pub mod terminal;

pub use os::{browser_command, desktop_notifier};
