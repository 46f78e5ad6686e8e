//! Checks that need only the text of a change: whether its added lines contain anything forbidden, and whether it
//! weakens the tests or the settings they run under. Nothing here reads files or runs tools.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod added_lines;
mod allow_marker;
mod assertions;
mod change_finding;
mod changed_code;
mod changed_expectations;
mod constant_condition;
mod dead_code;
mod disarmed_tests;
mod embedded_tests;
mod executable_lines;
mod forbidden_constructs;
pub mod inline_tests;
mod language;
mod language_syntax;
mod measured_tests;
mod moved_lines;
mod placeholder;
mod runner_detection;
mod shared_helpers;
mod source_lexer;
mod source_text;
mod test_cases;
mod test_collection;
pub mod test_integrity;
mod test_matching;
mod test_tables;
pub mod tool_settings;
mod word_search;

pub use changed_code::{ChangedCode, CoverageExclusion, find_changed_code};
pub use embedded_tests::{has_embedded_tests, may_contain_tests};
pub use language::{Language, contains_only_tests, is_test_file};
pub use moved_lines::MovedLines;
pub use runner_detection::find_runner_detection;
pub use source_lexer::{SourceSpan, SourceSpanKind, split_into_spans};

/// One changed file, at the base and now.
#[derive(Clone, Copy, Debug)]
pub struct FileChange<'a> {
    /// Relative to the project, with `/`.
    pub path: &'a str,
    /// `None` for a new file.
    pub before: Option<&'a str>,
    /// `None` for a deleted file.
    pub after: Option<&'a str>,
    /// The lines of `after` that the change added, counted from 1, in ascending order.
    pub added: &'a [u32],
}
