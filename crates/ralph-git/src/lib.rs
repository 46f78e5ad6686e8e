//! The work tree: listing, fingerprint, checkpoints, checkouts and separate work trees.

pub mod checkpoint;
pub mod git;
pub mod tree;
pub mod worktree;
