//! The work tree: listing, fingerprint, checkpoints, checkouts and separate work trees.

pub mod checkpoint;
pub mod commit_comparison;
pub mod commit_content;
pub mod git;
pub mod git_program;
mod hardened_git;
mod object_batch;
mod pruned_tree;
pub mod ralph_refs;
mod repository_filters;
pub mod tree;
pub mod worktree;
