//! Separates the code of a change from its tests and from the files that decide how tests run, and composes trees from
//! different versions: new code with old tests, and old code with new tests. Pure: nothing here reads files or runs
//! tools.

mod documentation_examples;
pub mod file_class;
pub mod file_composition;
mod ini_merge;
mod json_merge;
mod naming_conventions;
mod rust_splice;
mod toml_merge;
pub mod tree_composition;

pub use file_class::{ClassReason, ClassRules, Classification, FileClass, GateFile, classify_file};
pub use file_composition::{ComposedFile, compose_file};
pub use tree_composition::{
    InseparableFile, RewrittenFile, TreeComposition, TreeSides, compose_tree,
};
