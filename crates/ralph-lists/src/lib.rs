//! Feature lists, plans and task lists: reading, editing, importing.

pub mod features;
pub mod import;
pub mod lists;
pub mod loop_directory;
pub mod plan;
pub mod tasks;
