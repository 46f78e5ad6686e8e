//! What can be told from the text of a change alone: what its added lines must not hold, and whether it made the
//! tests, or the settings they run under, weaker.
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

/// One file as it was at the base and as it is.
#[derive(Clone, Copy, Debug)]
pub struct FileChange<'a> {
    /// Relative to the project, with `/`.
    pub path: &'a str,
    /// `None` for a file that is new.
    pub before: Option<&'a str>,
    /// `None` for a file that was deleted.
    pub after: Option<&'a str>,
    /// The lines of `after` that the change added, counted from 1, in rising order.
    pub added: &'a [u32],
}
