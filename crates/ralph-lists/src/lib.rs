//! Feature lists, plans and task lists: reading, editing, and importing those of other tools.

pub mod import;
pub mod list_approval;
mod list_marker;
pub mod loop_directory;
pub mod loops;
pub mod plan;
pub mod run_lists;
pub mod tasks;
