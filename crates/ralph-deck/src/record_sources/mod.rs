//! The sources of the index, and how they become records.

pub(crate) mod lesson_records;
pub(crate) mod memory;
pub(crate) mod run_summary;
pub(crate) mod sections;
