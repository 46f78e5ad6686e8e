//! Plans: Markdown files with boxes to tick, as people and other tools write them.
//!
//! [`parse_plan`] turns bytes into items and runs nothing. A tick is a claim, never evidence; the command that an item
//! names as its check is only split into words. Content below an item that has no box of its own may change freely: the
//! item's check and paths are taken from it, but it is not part of the item's text.

mod check;
mod compare;
mod document;
mod find;
mod paths;
mod section;
#[cfg(test)]
mod tests;
mod walk;

pub use check::named as named_check;
pub use compare::{Compared, discrepancies};
pub use find::find;

use ralph_core::source::Garbled;
use ralph_core::source::list::Item;
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

pub const LARGEST: usize = 4 * 1024 * 1024;
pub const MOST_ITEMS: usize = 20_000;
const LONGEST_WHY: usize = 160;

/// A parsed plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The first heading, if it is of level 1.
    pub title: Option<String>,
    pub headings: Vec<Heading>,
    pub items: Vec<Item>,
    /// Places where the author may have meant something else.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// A single sanitized line.
    pub text: String,
    pub line: u32,
}

/// A remark about a part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `None` if it is about the whole file.
    pub line: Option<u32>,
    pub what: &'static str,
}

impl Note {
    /// Formats the note for people: `PLAN.md:12` in backticks, then the message.
    pub fn at(&self, file: &str) -> String {
        let file = text::line(file, 200).replace('`', "'");
        match self.line {
            Some(line) => format!("`{file}:{line}`: {}", self.what),
            None => format!("`{file}`: {}", self.what),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    File(#[from] fs::FileError),
    #[error("cannot read plan `{}`: it resolves to a path outside the project", path.display())]
    Outside { path: PathBuf },
    #[error("cannot read plan `{}`: {why}", path.display())]
    Garbled { path: PathBuf, why: String },
}

/// Parses a plan, in time linear in its length.
pub fn read(bytes: &[u8]) -> Result<Plan, Garbled> {
    walk::read(document::prepare(bytes)?)
}

/// Reads a plan; `file` is relative to the project. A symbolic link out of the project is not followed.
pub fn load(project: &Path, file: &Path) -> Result<Plan, PlanError> {
    let path = project.join(file);
    if find::leaves(project, &path) {
        return Err(PlanError::Outside { path });
    }
    let bytes = fs::read(&path, LARGEST)?;
    read(&bytes).map_err(|garbled| PlanError::Garbled { path, why: garbled.why })
}

fn garbled(why: &str) -> Garbled {
    Garbled { why: text::line(why, LONGEST_WHY) }
}
