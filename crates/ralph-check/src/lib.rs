//! Checks that need only the text of a change: whether its added lines contain anything forbidden, and whether it
//! weakens the tests or the settings they run under. Nothing here reads files or runs tools.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod allow;
mod assertions;
mod cases;
mod collection;
mod constructs;
mod dead;
mod disarmed;
pub mod integrity;
mod language;
mod lexer;
pub mod lines;
mod placeholder;
pub mod settings;
mod source;
mod syntax;
mod tested;
mod words;

pub use language::{Language, holds_only_tests, is_test_file};
pub use lexer::{Kind, Span, spans};

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
