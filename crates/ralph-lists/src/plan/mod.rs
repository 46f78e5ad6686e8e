//! Plans: Markdown files with boxes to tick, as people and other tools write them.
//!
//! [`read`] turns bytes into items and runs nothing. A tick is somebody's word, never evidence; a command that an item
//! names is only split into words here. What lies below an item and has no box of its own stays free to change: it
//! lends the item its check and the paths that it names, and is no part of its text.

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The first heading, when it is of the first level.
    pub title: Option<String>,
    pub headings: Vec<Heading>,
    pub items: Vec<Item>,
    /// What was read another way than somebody may have meant it.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// One cleaned line.
    pub text: String,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `None` when it is about the whole file.
    pub line: Option<u32>,
    pub what: &'static str,
}

impl Note {
    /// A line for people: `PLAN.md:12` in backticks, and what is the matter there.
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
    #[error("cannot read plan `{}`: it leads out of the project", path.display())]
    Outside { path: PathBuf },
    #[error("cannot read plan `{}`: {why}", path.display())]
    Garbled { path: PathBuf, why: String },
}

/// What a plan says. Takes time by its length, whatever is in it.
pub fn read(bytes: &[u8]) -> Result<Plan, Garbled> {
    walk::read(document::prepare(bytes)?)
}

/// Reads a plan of a project, named from there. A link that leads out of it is not followed.
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
