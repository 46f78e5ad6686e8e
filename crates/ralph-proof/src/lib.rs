//! Separates the code of a change from its tests and from the files that decide how tests run, and composes trees in
//! which both are of different states: new code with old tests, and old code with new tests. Pure: nothing here reads
//! files or runs tools.

pub mod file_class;
mod naming_conventions;

pub use file_class::{ClassReason, ClassRules, Classification, FileClass, GateFile, classify};
