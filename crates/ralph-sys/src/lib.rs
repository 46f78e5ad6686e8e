//! Access to the operating system: files, processes, the clock and the environment.
//!
//! All other crates go through here, so a port to another system changes only this crate. Code that depends on Linux
//! (`/proc`, pidfds, subreapers) sits behind functions that are named for the need, with a fallback for other systems.

pub mod clock;
pub mod env;
pub mod fs;
pub mod proc;
pub mod process_identity;
pub mod stdin;
pub mod stdio;
pub mod tail;
