//! What there is to be searched, and how it becomes records.

pub(crate) mod memory;
pub(crate) mod runs;
pub(crate) mod sections;
